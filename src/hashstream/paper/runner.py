"""Run experiments of the paper: measure what is missing, then write the report."""

from __future__ import annotations

import gzip
import shlex
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hashstream import datasets, evaluate, pictures
from hashstream._extras import require
from hashstream.datasets import Dataset
from hashstream.evaluate.protocols import SETTINGS, PreparedDataset
from hashstream.paper import provenance, report
from hashstream.paper.experiments import EXPERIMENTS
from hashstream.paper.section import Section
from hashstream.paper.study import FULL, Study, Watching, quick


@dataclass(frozen=True)
class Outcome:
    """The sections of a run, and the files of its report, in HTML and in Markdown."""

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
    """Run one experiment of the paper by name, or "all" of them.

    OUT gets results.csv (rows that are there already are not measured again), the figures as SVG and PNG, and the
    report: report.html and report.md for "all", otherwise NAME.html and NAME.md.

    dataset: a name that `datasets.load` knows, or the path of a file of your own.
    full: all code lengths and three runs; by default a part of that which takes minutes.
    also: your own methods, by name. methods: names of the methods that take part where all do; empty for all.
    workers: processes for jobs that are not timed; or a function of the study that returns it.
    measure: False to regenerate the report from the rows alone, in OUT/results.csv or OUT/results.csv.gz.
    load: loads the data set. watching: shows progress. tell: called with each section.

    from hashstream import paper
    paper.run("table-map", dataset="digits", out="paper-digits", also={"Mine": MyMethod})
    """
    if name != "all" and name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}: choose from {', '.join(EXPERIMENTS)}, or all")
    for module in ("matplotlib", "markdown_it"):
        require(module, "plots")  # before hours of measuring, not after
    out = Path(out)
    if not measure and not _rows_file(out):
        raise ValueError(
            f"neither {out / 'results.csv'} nor results.csv.gz exists: without rows there is no report"
        )
    if measure or dataset not in SETTINGS:
        loaded = load(dataset)
        data, source = PreparedDataset.of(loaded), f"{loaded.source}. {loaded.note}"
    else:
        data, source = _without_rows(dataset)
    with ExitStack() as stack:
        results = stack.enter_context(_results(out, measure))
        scale = FULL if full else quick(data.setting)
        study = Study(data, results, scale, dict(also or {}), methods=tuple(methods), source=source)
        if watching is not None:
            study = replace(study, watching=watching)
        line = command(name, dataset, study, out)
        if measure:
            study = replace(study, workers=workers(study) if callable(workers) else workers)
            stack.enter_context(results.writing())
            results.mark_data(study.dataset, data.fingerprint)
            stack.enter_context(provenance.recorded(out, results, line))
        sections = []
        for experiment in EXPERIMENTS.values() if name == "all" else [EXPERIMENTS[name]]:
            if measure:
                experiment.measure(study)
            sections.append(experiment.show(study))
            if tell is not None:
                tell(sections[-1])
    return _write(study, sections, out, "report" if name == "all" else name, line)


def _rows_file(out: Path) -> Path | None:
    """The file with the rows: results.csv, or else results.csv.gz."""
    return next((path for path in (out / "results.csv", out / "results.csv.gz") if path.is_file()), None)


@contextmanager
def _results(out: Path, measure: bool) -> Iterator[evaluate.Results]:
    """The results of a folder. Compressed results are only read, from a temporary copy."""
    path = _rows_file(out)
    if measure or path is None or path.suffix != ".gz":
        yield evaluate.Results(out / "results.csv")
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "results.csv"
        try:
            copy.write_bytes(gzip.decompress(path.read_bytes()))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} cannot be decompressed: {error}") from error
        yield evaluate.Results(copy)


def _without_rows(dataset: str) -> tuple[PreparedDataset, str]:
    """The name and setting of a data set, without its rows: a report needs no more."""
    nothing, labels = np.empty((0, 0), np.float32), np.empty(0, np.int64)
    entry = datasets.CATALOGUE.get(dataset)
    source = f"rows measured before. {entry.note if entry else ''}"
    return PreparedDataset(dataset, nothing, labels, SETTINGS[dataset]), source


def command(name: str, dataset: str, study: Study, out: Path) -> str:
    """The command line that reproduces a run, without the folders of this machine."""
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
    text = report.markdown(sections, report.about(study, line, out))
    outcome = Outcome(tuple(sections), out / f"{file}.html", out / f"{file}.md")
    outcome.markdown.write_text(text, encoding="utf-8")
    outcome.page.write_text(report.page(text, drawings), encoding="utf-8")
    return outcome
