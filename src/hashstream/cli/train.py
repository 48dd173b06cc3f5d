"""`hashstream train`: learn the parts of a stream, here or on Ray, and merge the learners into one model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID

from hashstream.cli.common import choose, fail, say
from hashstream.cli.common import settings as parse_settings
from hashstream.cli.table_common import (
    ERRORS,
    FeatureColumns,
    IdColumn,
    LabelColumn,
    NoHeader,
    Text,
    work_bar,
)
from hashstream.datasets import DatasetError, FilePart
from hashstream.datasets.row_files import SUFFIXES
from hashstream.hashers import OnlineHasher, PartProgress, fit_parts, in_processes, remove_learners, save
from hashstream.hashers.parts import Map, check_can_merge
from hashstream.terminal import seconds

__all__ = ["train"]

MANY = 12
"""With more parts than this, a bar is shown for each part that is being learned, and one for all."""


class Engine(StrEnum):
    """Engines to learn on."""

    ray = "ray"


def train(
    parts: Annotated[
        list[Path],
        typer.Argument(
            metavar="PART...", help="Files: .npy, .npz, .csv, .tsv or .parquet; in the order of the stream."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File of the model, which `hashstream.load` reads.")],
    method: Annotated[
        str, typer.Option(help="A method whose learners can be merged: PosteriorHash or RidgeHash.")
    ] = "PosteriorHash",
    bits: Annotated[int, typer.Option(min=1, help="Length of a code.")] = 64,
    id: IdColumn = None,
    label: LabelColumn = None,
    features: FeatureColumns = None,
    no_header: NoHeader = False,
    text: Text = False,
    double: Annotated[bool, typer.Option("--double", help="Learn in float64, not in float32.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the method's random numbers.")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes on this machine that learn a part each; by default this one only. With --on ray: how many "
            "Ray is started with, by default one per core.",
            show_default=False,
        ),
    ] = None,
    on: Annotated[
        Engine | None,
        typer.Option(help="Learn on Ray (`pip install 'hashstream[ray]'`).", show_default=False),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of a running Ray, as HOST:6379, whose machines can all read the parts under the same path. "
            "By default Ray is started on this machine.",
            show_default=False,
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the learners of finished parts; by default OUT.parts, next to the model.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Leave the folder of --work in place at the end: given again with more parts, only these are learned.",
        ),
    ] = False,
) -> None:
    """Learn hash functions from the labelled rows of files, several at once, and write them to one model file.

    Every part is learned by itself, and the learners are merged in the order of the parts. The model has the same
    bits however it is learned: here, with --workers, or with --on ray, on processors of one kind.

    Each finished part is kept. Interrupted by Ctrl-C or a crash, the same command learns only the parts that are
    missing. On Ray, a part whose process or machine is lost is learned again elsewhere; the command ends and names it
    where that has happened ten times.

    A part is learned on one core, so give at least as many parts as there are cores, of about equal size.
    """
    try:
        if address is not None and on is None:
            raise ValueError("--address is of a running Ray: add --on ray")
        if address is not None and workers is not None:
            raise ValueError("--workers does not apply with --address: that Ray has its own")
        hasher = _hasher(method, bits, settings or [], seed)
        columns: dict[str, Any] = {
            "id": id, "label": label, "features": features, "header": not no_header, "text": text,
        }  # fmt: skip
        files = [FilePart.of(part, dtype="float64" if double else "float32", **columns) for part in parts]
        _check(files)
        if out.is_dir() or not out.absolute().parent.is_dir():
            raise ValueError(f"--out {out} must be a file in a folder that exists")
        if out.suffix.lower() in SUFFIXES:
            raise ValueError(f"--out {out} is named like a file of rows: name a model as model.safetensors")
        if work is not None and work.exists() and not work.is_dir():
            raise ValueError(f"--work {work} is a file: name a folder, which is created if it is not there")
        folder = work or out.with_name(f"{out.name}.parts")
        start = time.perf_counter()
        with _placed(on, address, workers) as learn, work_bar() as bar:
            bars = Bars(bar, files, here=on is None and workers is None)
            model = fit_parts(hasher, files, map=learn, work=folder, progress=bars.show)
        save(model, out)
        if not keep:
            remove_learners(folder)
    except (ImportError, *ERRORS) as error:
        fail(error)
    except KeyboardInterrupt:
        fail("interrupted. The same command continues with the parts that are not finished.", code=130)
    kept = f" ({bars.kept} learned before)" if bars.kept else ""
    say(
        f"{out}: {type(model).__name__}, {bits} bits, {model.n_seen_:,} labelled rows of {len(files):,} "
        f"part{'s' * (len(files) > 1)}{kept}, {len(model.classes_):,} classes, in "
        f"{seconds(time.perf_counter() - start)}."
    )


def _hasher(method: str, bits: int, pairs: list[str], seed: int) -> OnlineHasher:
    chosen = choose(method)
    if len(chosen) > 1:
        raise ValueError(f"--method {method}: one method at a time")
    (create,) = chosen.values()
    hasher: OnlineHasher = create(n_bits=bits, random_state=seed, **parse_settings(pairs, chosen))
    check_can_merge(type(hasher))
    hasher.check_parameters()
    return hasher


def _check(files: list[FilePart]) -> None:
    """Open every part once, so that a mistake is found before anything is learned."""
    width = None
    for number, file in enumerate(files):
        if any(file.path == other.path for other in files[:number]):
            raise ValueError(f"{file.name} is given twice, so its rows would count twice")
        source = file()
        if not source.has_labels:
            raise DatasetError(f"{file.name} has no labels to learn from: name the column with --label")
        width = width or source.d
        if source.d != width:
            raise DatasetError(
                f"{file.name} has {source.d} features per row, but {files[0].name} has {width}"
            )


@contextmanager
def _placed(on: Engine | None, address: str | None, workers: int | None) -> Iterator[Map]:
    """The function that spreads the parts."""
    if on is Engine.ray:
        from hashstream.scale.connection import connected
        from hashstream.scale.training import ray_map

        with connected(address, workers):
            yield ray_map
    elif workers is not None:
        with in_processes(workers) as spread:
            yield spread
    else:
        yield map


class Bars:
    """A bar per part, and one for all. here : whether the rows of a part are reported as they are learned."""

    def __init__(self, bar: Progress, files: list[FilePart], here: bool) -> None:
        self._bar, self._many, self._here = bar, len(files) > MANY, here
        self._every = bar.add_task("parts", total=len(files), note=f"of {len(files):,}")
        self._tasks: dict[int, TaskID] = {}
        self.kept = 0
        if not self._many:
            for number, file in enumerate(files):
                self._task(number, file.name)

    def _task(self, number: int, name: str) -> TaskID:
        if number not in self._tasks:
            total = 1.0 if self._here else None  # a part that is learned elsewhere is finished or not
            self._tasks[number] = self._bar.add_task(escape(Path(name).name), total=total, note="")
        return self._tasks[number]

    def show(self, news: PartProgress) -> None:
        task = self._task(news.part, news.name)
        note = "learned before" if news.kept else ""
        self._bar.update(task, completed=news.share, total=1.0, note=note)
        if news.done:
            self.kept += news.kept
            self._bar.advance(self._every)
            if self._many:
                self._bar.update(task, visible=False)
