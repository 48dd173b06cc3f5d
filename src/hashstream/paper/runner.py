"""What `hashstream paper` does: measure what is missing, show it, write the report."""

from __future__ import annotations

import gzip
import shlex
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hashstream import datasets, evaluate, pictures
from hashstream.datasets import Dataset
from hashstream.evaluate.protocols import SETTINGS, PreparedDataset
from hashstream.paper import origin, report
from hashstream.paper.experiments import EXPERIMENTS
from hashstream.paper.study import FULL, Section, Study, Watching, quick

__all__ = ["Outcome", "command", "run"]


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: the sections, and the report made of them, as a page and as Markdown."""

    sections: tuple[Section, ...]
    page: Path
    markdown: Path


def run(
    name: str,
    *,
    dataset: str = "mnist",
    out: str | Path,
    full: bool = False,
    also: Mapping[str, Callable[..., Any]] | None = None,
    methods: Sequence[str] = (),
    workers: int | Callable[[Study], int] = 1,
    measure: bool = True,
    load: Callable[[str], Dataset] = datasets.load,
    watching: Watching | None = None,
    tell: Callable[[Section], None] | None = None,
) -> Outcome:
    """One experiment of the paper by name, or "all" of them, into OUT.

    OUT has results.csv (what is there already is not measured again), the figures as SVG and PNG, and the report:
    report.html and report.md for "all", otherwise NAME.html and NAME.md.

    dataset: a name that `datasets.load` knows, or the path of a file of one's own.
    full: all code lengths and three runs, otherwise what takes minutes.
    also: methods of one's own, by name. methods: names of those that take part where all do; none for all.
    workers: processes for jobs whose time does not matter; or what to ask for it, once the data is there.
    measure: False to make the report anew from the rows alone, also those of OUT/results.csv.gz.
    load: how to get the data set. watching: how progress is shown. tell: called with each section.

    from hashstream import paper
    paper.run("table-map", dataset="digits", out="paper-digits", also={"Mine": MyMethod})
    """
    if name != "all" and name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}: choose from {', '.join(EXPERIMENTS)}, or all")
    out = Path(out)
    if not measure and not _rows(out):
        raise ValueError(
            f"{out / 'results.csv'} is not there, nor is results.csv.gz: without rows there is no report"
        )
    if measure or dataset not in SETTINGS:
        data = load(dataset)
        field = PreparedDataset.of(data)
    else:
        data, field = _without_data(dataset)
    with _results(out, measure) as results:
        scale = FULL if full else quick(field.setting)
        study = Study(data, field, results, scale, dict(also or {}), methods=tuple(methods))
        if watching is not None:
            study = replace(study, watching=watching)
        if measure:
            study = replace(study, workers=workers(study) if callable(workers) else workers)
        line, sections = command(name, dataset, study, out), []
        with _measuring(study, out, line) if measure else nullcontext():
            for experiment in EXPERIMENTS.values() if name == "all" else [EXPERIMENTS[name]]:
                if measure:
                    experiment.measure(study)
                section = experiment.show(study)
                sections.append(section)
                if tell is not None:
                    tell(section)
        return _write(study, sections, out, "report" if name == "all" else name, line)


@contextmanager
def _measuring(study: Study, out: Path, line: str) -> Iterator[None]:
    """Nobody else adds rows, none of other data are there, and what is measured gets a record."""
    with study.results.writing():
        study.results.mark_data(study.dataset, study.field.fingerprint)
        with origin.recorded(out, study.results, line):
            yield


def _rows(out: Path) -> Path | None:
    """The file with the rows: results.csv, or where there is none results.csv.gz."""
    return next((path for path in (out / "results.csv", out / "results.csv.gz") if path.is_file()), None)


@contextmanager
def _results(out: Path, measure: bool) -> Iterator[evaluate.Results]:
    """The results of a folder. Compressed ones are only read: from an unpacked copy that is gone afterwards."""
    path = _rows(out)
    if measure or path is None or path.suffix != ".gz":
        yield evaluate.Results(out / "results.csv")
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "results.csv"
        try:
            copy.write_bytes(gzip.decompress(path.read_bytes()))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} cannot be unpacked: {error}") from error
        yield evaluate.Results(copy)


def _without_data(dataset: str) -> tuple[Dataset, PreparedDataset]:
    """A data set's name and setting with no rows in it: all that showing needs."""
    nothing, labels = np.empty((0, 0), np.float32), np.empty(0, np.int64)
    entry = datasets.CATALOGUE.get(dataset)
    data = Dataset(dataset, nothing, labels, None, "rows measured before", entry.note if entry else "")
    return data, PreparedDataset(dataset, nothing, labels, SETTINGS[dataset])


def command(name: str, dataset: str, study: Study, out: Path) -> str:
    """The line that makes this again, without the folders of this machine."""
    words = [
        "hashstream",
        "paper",
        name,
        "--dataset",
        Path(dataset).name if Path(dataset).is_absolute() else dataset,
        f"--{study.scale.name}",
        "--out",
        out.name if out.is_absolute() else str(out),
    ]
    for method in study.also.values():
        where = getattr(method, "__module__", "?"), getattr(method, "__qualname__", "?")
        words += ["--also", ":".join(where)]
    if study.methods:
        words += ["--methods", ",".join(study.methods)]
    return shlex.join(words)


def _write(study: Study, sections: Sequence[Section], out: Path, file: str, line: str) -> Outcome:
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {
        name: pictures.save(figure, folder, name)
        for section in sections
        for name, figure in section.figures.items()
    }
    about = report.about(study, line, out)
    outcome = Outcome(tuple(sections), out / f"{file}.html", out / f"{file}.md")
    outcome.page.write_text(report.page(sections, about, drawings), encoding="utf-8")
    outcome.markdown.write_text(report.markdown(sections, about), encoding="utf-8")
    return outcome
