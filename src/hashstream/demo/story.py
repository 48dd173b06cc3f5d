"""The demo's story, from the first image to the pictures."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hashstream import datasets, pictures
from hashstream.demo.feeder import Feeder
from hashstream.demo.world import BATCH, LOOKS, Watch, World, bar
from hashstream.hashers import LSH
from hashstream.table import HashTable, TableError, TableStats
from hashstream.terminal import load_with_bar, seconds, size

__all__ = ["Killed", "Learned", "demo"]

SHOWN = 10  # neighbours of each query in the picture
KILLED = 60  # percent of the stream, after which the other process is killed
NAMES = {"mnist": "MNIST", "digits": "scikit-learn's digits"}
METRICS = ("mAP", "precision@10", "precision@H2")


@dataclass(frozen=True)
class Killed:
    """The other process's end: rows that it had acknowledged, rows that were there when the table was opened again, the
    seconds that opening took, and rows whose checksums were verified."""

    acknowledged: int
    found: int
    open_seconds: float
    rows_checked: int


@dataclass(frozen=True)
class Learned:
    """What the demo found.

    curve : (items, mAP of the table's answers) at each look, the last one after a refresh; fresh : the same had all
        codes been made anew at that moment.
    same : whether the hash functions are to the last bit those of a run that nobody killed.
    untrained, scores : metrics of a random projection, and of the table at the end.
    stale : the table before its last refresh.
    """

    world: World
    table: Path
    curve: list[tuple[int, float]]
    fresh: list[tuple[int, float]]
    killed: Killed
    same: bool
    untrained: Mapping[str, float]
    scores: Mapping[str, float]
    stale: TableStats
    learn_seconds: float
    refresh_seconds: float
    search_seconds: float
    pictures: tuple[Path, Path]


def demo(out: Path, *, dataset: str = "auto", n_bits: int = 32, seed: int = 0, console: Console) -> Learned:
    """Run it. `out` is made if need be; `dataset` is "mnist", "digits" or "auto": MNIST if it can be had.

    Every setting is the library's default: nothing is tuned on this data, and the queries are only asked.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = out / "table"
    _make_room(folder)
    world = World.of(_load(dataset, console), n_bits, seed)
    watch = Watch(world, console)
    untrained = _begin(world, folder, console)
    acknowledged = _stream_in(world, folder, watch)
    table, killed = _open_again(world, folder, acknowledged, console)
    with table:
        _say(console, "3. Go on.", "Now this process learns, from where the other one was killed.")
        watch.follow(table, world.feed(table, killed.found))
        stale, clock = table.stats(), time.perf_counter()
        table.refresh()
        refresh_seconds = time.perf_counter() - clock
        watch.look(table, silent=True)
        queries = world.X[world.split.queries]
        clock = time.perf_counter()
        distances, ids = table.search(queries, SHOWN)
        search_seconds = (time.perf_counter() - clock) / len(queries)
        hasher, codes = table.hasher, table.get(world.split.stream, features=False).codes
    unkilled, learn_seconds = world.learn_alone()
    learned = Learned(
        world=world,
        table=folder,
        curve=watch.stored,
        fresh=watch.fresh,
        killed=killed,
        same=unkilled.projection_.tobytes() == hasher.projection_.tobytes(),
        untrained=untrained,
        scores=world.scores(hasher.transform(queries), codes),
        stale=stale,
        learn_seconds=learn_seconds,
        refresh_seconds=refresh_seconds,
        search_seconds=search_seconds,
        pictures=(out / "learning-curve.png", out / "neighbours.png"),
    )
    _tell(learned, console)
    _draw(learned, distances, ids)
    console.print("\nTwo pictures to look at, and a table to play with:")
    for line in (
        *learned.pictures,
        f"hashstream table stats {folder}",
        f"hashstream table search {folder} --like {ids[0, 0]}",
    ):
        console.print(f"  {line}", soft_wrap=True, highlight=False)
    return learned


def _make_room(folder: Path) -> None:
    """The table of an earlier demo goes; anything else in its place is left alone."""
    if HashTable.exists(folder):
        shutil.rmtree(folder)
    elif folder.exists():
        raise TableError(f"{folder} is in the way, and not a table of an earlier demo: choose another --out")


def _load(name: str, console: Console) -> datasets.Dataset:
    if name != "auto":
        return load_with_bar(name, console)
    try:
        return load_with_bar("mnist", console)
    except datasets.DatasetError as error:
        console.print(
            "[yellow]MNIST cannot be had, so this demo uses scikit-learn's small digits instead.[/]"
        )
        console.print(f"[dim]{error}[/]", soft_wrap=True, highlight=False)
        return datasets.load("digits")


def _say(console: Console, head: str, text: str) -> None:
    console.print(f"\n[bold]{head}[/] {text}\n", highlight=False)


def _begin(world: World, folder: Path, console: Console) -> Mapping[str, float]:
    """Say what is about to happen; the metrics of codes that nobody has learned."""
    data, n = world.data, len(world.split.stream)
    console.print(
        f"\n[bold]{NAMES[data.name]}[/], {len(data.X):,} images of {data.X.shape[1]} pixels, {data.source}. "
        f"{len(world.split.queries):,} of them are only asked, never learned from; {n:,} others are the stream.",
        highlight=False,
    )
    _say(
        console,
        "1. Stream in, and search meanwhile.",
        f"Another process learns {world.n_bits}-bit codes from {BATCH} labelled images at a time and stores them in "
        f"{escape(str(folder))}. This one asks what is nearest to {len(world.asked)} queries, and judges by mAP, which "
        "is 1 where all images of a query's class come first. Old codes are made anew now and then; the last column is "
        "what the answers would be if that were done at once.",
    )
    random_projection = LSH(n_bits=world.n_bits, random_state=world.seed).fit(world.X)
    codes, queries = (
        random_projection.transform(world.X[rows]) for rows in (world.split.stream, world.split.queries)
    )
    scores = world.scores(queries, codes)
    console.print(
        f"{'untrained projection':>22}   mAP {scores['mAP']:.3f}  {bar(scores['mAP'])}", highlight=False
    )
    return scores


def _stream_in(world: World, folder: Path, watch: Watch) -> int:
    """Another process ingests, and is killed on the way; this one searches. What it had acknowledged by then."""
    n = len(world.split.stream)
    # A small stream would be over before anybody has looked.
    feeder = Feeder(folder, world, kill_at=KILLED * n // 100, pause=0.0 if n > 5000 else 0.1)
    try:
        feeder.wait_for(1)
        with HashTable.open(folder, mode="read") as reader:
            for point in (point for point in LOOKS if point < feeder.kill_at):
                if point > len(reader) or point == LOOKS[0]:  # or the stream was faster than this look
                    if not feeder.wait_for(point):
                        break
                    reader.reload()
                    watch.look(reader)
        feeder.wait_for(n)
    finally:
        feeder.end()
    return feeder.acknowledged


def _open_again(world: World, folder: Path, acknowledged: int, console: Console) -> tuple[HashTable, Killed]:
    _say(console, "2. Kill it.", "The other process was ended in the middle of its work, as by `kill -9`.")
    clock = time.perf_counter()
    table = world.open(folder)
    killed = Killed(acknowledged, len(table), time.perf_counter() - clock, table.check()["rows"])
    lost = killed.acknowledged - killed.found
    if lost > 0:
        raise TableError(f"{lost} acknowledged images are not in {folder}: this must never be")
    more = f", and {-lost} more that were stored when nobody had been told yet" if lost else ""
    console.print(
        f"It had acknowledged {killed.acknowledged:,} images. Opened again in {seconds(killed.open_seconds)}: "
        f"[bold green]all {killed.acknowledged:,} are there[/]{more}. The checksums of all {killed.rows_checked:,} "
        "rows are right.",
        highlight=False,
    )
    return table, killed


def _tell(learned: Learned, console: Console) -> None:
    """What came of it, in a few lines."""
    world, killed, stale = learned.world, learned.killed, learned.stale
    n, d, code = len(world.split.stream), world.X.shape[1], -(-world.n_bits // 8)
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row(
        "learned",
        f"from {n:,} images, each seen once, default settings; {seconds(learned.learn_seconds)} of it learning",
    )
    for name in METRICS:
        now, before = learned.scores[name], learned.untrained[name]
        table.add_row(name, f"[bold blue]{now:.3f}[/]   untrained projection {before:.3f}")
    after = (
        "to the last bit those of a run that nobody killed"
        if learned.same
        else "[red]other than without a kill[/]"
    )
    table.add_row(
        "the kill",
        f"cost {max(0, killed.acknowledged - killed.found)} images; the hash functions are {after}",
    )
    (_, as_stored), (_, refreshed) = learned.curve[-2], learned.curve[-1]
    table.add_row(
        "stale codes",
        f"at the end {stale.stale:.1%} of the codes were of older functions, {stale.updates_behind:.0f} updates behind "
        f"on average: mAP {as_stored:.3f}. Making them anew took {seconds(learned.refresh_seconds)}: "
        f"mAP {refreshed:.3f}",
    )
    table.add_row(
        "search",
        f"{seconds(learned.search_seconds)} a query for the {SHOWN} nearest of {n:,}, exact "
        f"({len(world.split.queries):,} asked at once)",
    )
    table.add_row(
        "size of an item",
        f"[bold blue]{size(code)}[/] of code instead of {4 * d:,} as float32 ({4 * d / code:,.0f} times smaller); with "
        f"its id and its place {stale.memory_bytes / stale.n_items:.0f} in memory, while its features stay on the disk",
    )
    console.print("\n[bold]What came of it[/]\n")
    console.print(table, highlight=False)


def _draw(learned: Learned, distances: np.ndarray, neighbours: np.ndarray) -> None:
    """Both pictures. distances, neighbours: (queries, SHOWN), the neighbours as rows of the data set."""
    world = learned.world
    data, split = world.data, world.split
    name, n_bits = NAMES[data.name], world.n_bits
    curves = pictures.learning_curves(
        {"FCOH": learned.curve},
        untrained=("untrained\nprojection", learned.untrained["mAP"]),
        above=("had all codes been made anew", learned.fresh),
        event=(learned.killed.found, "killed, opened again"),
        title="The table's answers get better while the stream runs",
        subtitle=f"{name}, {n_bits}-bit codes, {len(world.asked)} queries against all images stored so far",
        unit="images stored and learned from, each seen once",
    )
    curves.savefig(learned.pictures[0], dpi=150, bbox_inches="tight", pad_inches=0.2)

    labels = data.y[split.queries]
    # The first query of each class, in the order in which they were drawn: nobody picked them.
    _, shown = np.unique(labels, return_index=True)
    rows, near = split.queries[shown], neighbours[shown]
    right = int((data.y[near] == data.y[rows][:, None]).sum())
    assert data.image_shape is not None  # the demo's data sets are images
    grid = pictures.neighbour_grid(
        data.X[rows].reshape(-1, *data.image_shape),
        data.y[rows],
        data.X[near].reshape(*near.shape, *data.image_shape),
        data.y[near],
        distances[shown],
        title=f"A random query of each class, and what {n_bits} bits find",
        subtitle=f"{name}: {right} of these {near.size} neighbours are of the query's class (green); over "
        f"all {len(labels):,} queries {(data.y[neighbours] == labels[:, None]).mean():.0%}",
    )
    grid.savefig(learned.pictures[1], dpi=150, bbox_inches="tight", pad_inches=0.2)
