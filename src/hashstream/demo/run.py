"""The demo, from the first image to the figures."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashstream import datasets, pictures
from hashstream.demo.feeder import Feeder
from hashstream.demo.setup import CHECKPOINTS, Checkpoint, Comparison, Setup
from hashstream.hashers import LSH, OnlineHasher
from hashstream.table import HashTable, TableError, TableStats

SHOWN = 10  # neighbours of each query in the figure
KILLED = 60  # percent of the stream after which the other process is killed


@dataclass(frozen=True)
class Started:
    """The beginning of the demo. untrained : metrics of a random projection."""

    setup: Setup
    table: Path
    untrained: Mapping[str, float]


@dataclass(frozen=True)
class Recovery:
    """The table after the kill: rows that were acknowledged, rows that were found when it was reopened, the seconds
    that reopening took, and rows whose checksums were verified."""

    acknowledged: int
    found: int
    open_seconds: float
    rows_checked: int


@dataclass(frozen=True)
class DemoResult:
    """Measurements of the demo.

    checkpoints : in order; the last is after a refresh. same : whether the hash functions are bit for bit those of a
    run without a kill. untrained, scores : metrics of a random projection, and of the table at the end. fcoh : the
    paper's method on the same stream. stale : the table before its last refresh. neighbour : an id that was found, to
    try a search with.
    """

    setup: Setup
    table: Path
    checkpoints: list[Checkpoint]
    recovery: Recovery
    same: bool
    untrained: Mapping[str, float]
    scores: Mapping[str, float]
    fcoh: Comparison
    stale: TableStats
    learn_seconds: float
    solve_seconds: float
    refresh_seconds: float
    search_seconds: float
    pictures: tuple[Path, Path]
    neighbour: int


def demo(
    data: datasets.Dataset,
    out: Path,
    *,
    n_bits: int = 32,
    seed: int = 0,
    tell: Callable[[Started | Checkpoint | Recovery], None] = lambda event: None,
) -> DemoResult:
    """Run the demo on a data set of images that `datasets.load` knows by name. `out` is created if needed.

    Every setting is the library's default: nothing is tuned on this data, and queries are never learned from.
    tell : called with each event.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = out / "table"
    _remove_old(folder)
    setup = Setup.of(data, n_bits, seed)
    checkpoints: list[Checkpoint] = []

    def measure(table: HashTable) -> None:
        checkpoints.append(setup.checkpoint(table))
        tell(checkpoints[-1])

    started = Started(setup, folder, _untrained(setup))
    tell(started)
    acknowledged = _stream_in(setup, folder, measure)
    table, recovery = _reopen(setup, folder, acknowledged)
    tell(recovery)
    with table:
        last = measured = len(table)
        for last in setup.feed(table, recovery.found):
            if any(measured < point <= last for point in CHECKPOINTS):
                measure(table)
                measured = last
        if last > measured:
            measure(table)
        stale, clock = table.stats(), time.perf_counter()
        table.refresh()
        refresh_seconds = time.perf_counter() - clock
        checkpoints.append(setup.checkpoint(table))
        queries = setup.X[setup.split.queries]
        clock = time.perf_counter()
        distances, ids = table.search(queries, SHOWN)
        search_seconds = (time.perf_counter() - clock) / len(queries)
        hasher, codes = table.hasher, table.get(setup.split.stream, features=False).codes
    unkilled, learn_seconds, solve_seconds = setup.learn_alone()
    result = DemoResult(
        setup=setup,
        table=folder,
        checkpoints=checkpoints,
        recovery=recovery,
        same=_bits(unkilled) == _bits(hasher),
        untrained=started.untrained,
        scores=setup.scores(hasher.transform(queries), codes),
        fcoh=setup.compare(one.items for one in checkpoints),
        stale=stale,
        learn_seconds=learn_seconds,
        solve_seconds=solve_seconds,
        refresh_seconds=refresh_seconds,
        search_seconds=search_seconds,
        pictures=(out / "learning-curve.png", out / "neighbours.png"),
        neighbour=int(ids[0, 0]),
    )
    _draw(result, distances, ids)
    return result


def _remove_old(folder: Path) -> None:
    """Remove the table of an earlier demo, and nothing else."""
    if HashTable.exists(folder):
        shutil.rmtree(folder)
    elif folder.exists():
        raise TableError(f"{folder} exists and is not the table of an earlier demo: choose another --out")


def _bits(hasher: OnlineHasher) -> list[bytes]:
    """The hash functions, to the last bit."""
    return [array.tobytes() for array in hasher.encoder().arrays()]


def _untrained(setup: Setup) -> Mapping[str, float]:
    projection = LSH(n_bits=setup.n_bits, random_state=setup.seed).fit(setup.X)
    codes, queries = (
        projection.transform(setup.X[rows]) for rows in (setup.split.stream, setup.split.queries)
    )
    return setup.scores(queries, codes)


def _stream_in(setup: Setup, folder: Path, measure: Callable[[HashTable], None]) -> int:
    """Let another process ingest until it is killed, and search meanwhile; returns the rows that it acknowledged."""
    n = len(setup.split.stream)
    # A small stream is slowed down: it would end before the first checkpoint.
    feeder = Feeder(folder, setup, kill_at=KILLED * n // 100, pause=0.0 if n > 5000 else 0.1)
    try:
        feeder.wait_for(1)
        with HashTable.open(folder, mode="read") as reader:
            for point in (point for point in CHECKPOINTS if point < feeder.kill_at):
                if point > len(reader) or point == CHECKPOINTS[0]:  # otherwise it is already past
                    if not feeder.wait_for(point):
                        break
                    reader.reload()
                    measure(reader)
        feeder.wait_for(n)
    finally:
        feeder.end()
    return feeder.acknowledged


def _reopen(setup: Setup, folder: Path, acknowledged: int) -> tuple[HashTable, Recovery]:
    clock = time.perf_counter()
    table = setup.open(folder)
    recovery = Recovery(acknowledged, len(table), time.perf_counter() - clock, table.check()["rows"])
    if recovery.found < acknowledged:
        lost = acknowledged - recovery.found
        raise TableError(
            f"{lost} acknowledged images are missing in {folder}: this is a bug, please report it"
        )
    return table, recovery


def _draw(result: DemoResult, distances: np.ndarray, neighbours: np.ndarray) -> None:
    """Draw both figures. distances, neighbours: (queries, SHOWN), the neighbours as rows of the data set."""
    setup = result.setup
    data, split, n_bits = setup.data, setup.split, setup.n_bits
    name = datasets.CATALOGUE[data.name].title
    curves = pictures.learning_curves(
        {
            "PosteriorHash": [(one.items, one.stored) for one in result.checkpoints],
            "FCOH": result.fcoh.curve,
        },
        untrained=("untrained\nprojection", result.untrained["mAP"]),
        above=(
            "PosteriorHash with all codes re-encoded",
            [(one.items, one.fresh) for one in result.checkpoints],
        ),
        event=(result.recovery.found, "killed, reopened"),
        title="PosteriorHash: the table's answers improve as the stream goes on",
        subtitle=f"{name}, {n_bits}-bit codes, {len(setup.asked)} queries against all images so far; FCOH without "
        "a table",
        unit="images stored and learned from, each seen once",
    )
    curves.savefig(result.pictures[0], dpi=150, bbox_inches="tight", pad_inches=0.2)

    labels = data.y[split.queries]
    _, shown = np.unique(labels, return_index=True)  # the first query of each class, in random order
    rows, near = split.queries[shown], neighbours[shown]
    right = int((data.y[near] == data.y[rows][:, None]).sum())
    assert data.image_shape is not None  # the demo's data sets are images
    grid = pictures.neighbour_grid(
        data.X[rows].reshape(-1, *data.image_shape),
        data.y[rows],
        data.X[near].reshape(*near.shape, *data.image_shape),
        data.y[near],
        distances[shown],
        title=f"A random query of each class, and what {n_bits} bits of PosteriorHash find",
        subtitle=f"{name}: {right} of these {near.size} neighbours are of the query's class (green); over "
        f"all {len(labels):,} queries {(data.y[neighbours] == labels[:, None]).mean():.0%}",
    )
    grid.savefig(result.pictures[1], dpi=150, bbox_inches="tight", pad_inches=0.2)
