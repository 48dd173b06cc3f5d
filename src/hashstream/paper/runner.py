"""Run experiments of the paper: measure what is missing, then write the report."""

from __future__ import annotations

import gzip
import shlex
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hashstream import datasets, evaluate, pictures
from hashstream._extras import require
from hashstream.datasets import Dataset
from hashstream.evaluate.protocols import SETTINGS, PreparedDataset
from hashstream.hashers.validation import check_count
from hashstream.paper import provenance, report
from hashstream.paper.contestants import Given, chosen
from hashstream.paper.experiments import EXPERIMENTS
from hashstream.paper.section import Section
from hashstream.paper.study import FULL, Scale, Study, Watching, quick


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
    bits: Sequence[int] | None = None,
    runs: int | None = None,
    methods: Sequence[Given] = (),
    queries: int | None = None,
    stream: int | None = None,
    min_class: int | None = None,
    workers: int | Callable[[Study], int] = 1,
    measure: bool = True,
    load: Callable[[str], Dataset] = datasets.load,
    prepared: Callable[[PreparedDataset], object] | None = None,
    watching: Watching | None = None,
    tell: Callable[[Section], None] | None = None,
) -> Outcome:
    """Run one experiment of the paper by name, or "all" of them.

    OUT gets results.csv (rows that are there already are not measured again) and the report: report.html and report.md
    for "all", otherwise NAME.html and NAME.md. OUT/figures has each figure as SVG, PNG and PDF and its numbers as CSV;
    OUT/tables has each table as LaTeX and CSV.

    dataset: a name that `datasets.load` knows, or the path of a file of your own.
    full: all code lengths, checkpoints and three runs; by default a part of that which takes minutes.
    bits, runs: the code lengths and the number of runs, where they are not to be those of `full`. Experiments of one
        code length keep theirs.
    methods: those that take part where all do, by name or as classes of your own; empty for all, and "all" in a list
        for all others. A list without "all" has one figure instead of two, and its order is that of tables and legends.
    queries, stream, min_class: the size of the experiment, where it is not to be the usual one
        (`evaluate.protocols.setting_of`).
    workers: processes for jobs that are not timed; or a function of the study that returns it.
    measure: False to regenerate the report from the rows alone, in OUT/results.csv or OUT/results.csv.gz.
    load: loads the data set. prepared: called with the data and their setting, before anything is measured.
    watching: shows progress. tell: called with each section.

    from hashstream import paper
    paper.run("fig-map-instances", dataset="digits", out="paper-digits", methods=["FCOH", MyMethod, "LSH"])
    """
    if name != "all" and name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}: choose from {', '.join(EXPERIMENTS)}, or all")
    for module in ("matplotlib", "markdown_it"):
        require(module, "plots")  # before hours of measuring, not after
    out = Path(out)
    chosen(dataset, methods)  # raises for a name that there is not, before data are loaded
    size = {"queries": queries, "stream": stream, "min_class": min_class}
    if not measure and not _rows_file(out):
        raise ValueError(
            f"neither {out / 'results.csv'} nor results.csv.gz exists: without rows there is no report"
        )
    if measure or dataset not in SETTINGS or any(value is not None for value in size.values()):
        loaded = load(dataset)
        data, source = PreparedDataset.of(loaded, **size), f"{loaded.source}. {loaded.note}"
    else:
        data, source = _without_rows(dataset)
    if prepared is not None:
        prepared(data)
    with ExitStack() as stack:
        results = stack.enter_context(_results(out, measure))
        scale = _scale(FULL if full else quick(data.setting), bits, runs)
        study = Study(data, results, scale, methods=tuple(methods), source=source)
        if watching is not None:
            study = replace(study, watching=watching)
        line = command(name, dataset, study, out, bits=bits, runs=runs, **size)
        if measure:
            study = replace(study, workers=workers(study) if callable(workers) else workers)
            stack.enter_context(results.writing())
            results.mark_data(study.dataset, data.fingerprint)
            stack.enter_context(provenance.recorded(out, results, line))
        sections = []
        every = [one for one in EXPERIMENTS.values() if one.fits(study.dataset)]
        for experiment in every if name == "all" else [EXPERIMENTS[name]]:
            if measure:
                experiment.measure(study)
            sections.append(experiment.show(study))
            if tell is not None:
                tell(sections[-1])
    return _write(study, sections, out, "report" if name == "all" else name, line)


def _scale(usual: Scale, bits: Sequence[int] | None, runs: int | None) -> Scale:
    if bits is not None and not len(bits):
        raise ValueError("bits is empty: expected code lengths of at least 1")
    lengths = usual.bits if bits is None else tuple(sorted({check_count("bits", one, 1) for one in bits}))
    return replace(usual, bits=lengths, runs=usual.runs if runs is None else check_count("runs", runs, 1))


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


def command(
    name: str, dataset: str, study: Study, out: Path, bits: Sequence[int] | None = None, **size: int | None
) -> str:
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
    if study.methods:
        words += ["--methods", ",".join(map(_method_name, study.methods))]
    if bits is not None:
        words += ["--bits", ",".join(map(str, study.scale.bits))]
    for option, value in size.items():
        words += [f"--{option.replace('_', '-')}", str(value)] if value is not None else []
    return shlex.join(words)


def _method_name(method: Given) -> str:
    """A method as `--methods` takes it: one from a file below the current folder by that file, as `mine/own.py:Own`."""
    if isinstance(method, str):
        return method
    module, file = method.__module__, Path(getattr(sys.modules[method.__module__], "__file__", None) or "")
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    if file.stem == module and file.parent != Path.cwd() and not installed:
        below = file.is_relative_to(Path.cwd())
        module = file.relative_to(Path.cwd()).as_posix() if below else file.name
    return f"{module}:{method.__qualname__}"


def _write(study: Study, sections: Sequence[Section], out: Path, file: str, line: str) -> Outcome:
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {}
    for section in sections:
        for name, figure in section.figures.items():
            drawings[name] = pictures.save(figure, folder, name)
            evaluate.write_rows(folder / f"{name}.csv", section.points.get(name) or pictures.read_off(figure))
    tables = out / "tables"
    tables.mkdir(exist_ok=True)
    for section in sections:
        for i, sheet in enumerate(section.sheets, 1):
            number = f"-{i}" if len(section.sheets) > 1 else ""
            sheet.write(tables, f"{section.name}{number}", comment=line)
    text = report.markdown(sections, report.about(study, line, out))
    outcome = Outcome(tuple(sections), out / f"{file}.html", out / f"{file}.md")
    outcome.markdown.write_text(text, encoding="utf-8")
    outcome.page.write_text(report.page(text, drawings), encoding="utf-8")
    return outcome
