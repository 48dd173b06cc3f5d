"""What `hashstream demo` does: stream real data through FCOH, say what was learned, draw two pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hashstream import datasets, hamming, pictures
from hashstream.evaluate import CodeStatistics, code_statistics, protocols
from hashstream.hashers import FCOH, LSH
from hashstream.terminal import load_with_bar, seconds, size

__all__ = ["Learned", "demo"]

EARLY = (100, 200, 500, 1000)  # looks before the protocol's first, where most of the learning happens
SHOWN = 10  # neighbours of each query in the picture
TIES = "aware"  # the demo's figures should not depend on how the database happens to be shuffled
NAMES = {"mnist": "MNIST", "digits": "scikit-learn's digits"}


@dataclass(frozen=True)
class Learned:
    """What the demo found.

    curve: (n_train, mAP) at each checkpoint. scores, untrained: the metrics of FCOH at the end, and of a
    random projection. train_seconds: for the whole stream. search_seconds: for one query.
    """

    data: datasets.Dataset
    split: datasets.Split
    curve: list[tuple[int, float]]
    scores: Mapping[str, float]
    untrained: Mapping[str, float]
    train_seconds: float
    search_seconds: float
    health: CodeStatistics
    pictures: tuple[Path, Path]


def demo(out: Path, *, dataset: str = "auto", n_bits: int = 32, seed: int = 0, console: Console) -> Learned:
    """Run it. `out` is made if need be; `dataset` is "mnist", "digits" or "auto": MNIST if it can be had.

    Every setting is the library's default: nothing is tuned on this data, and the queries are only judged.
    """
    out.mkdir(parents=True, exist_ok=True)
    data = _load(dataset, console)
    field = protocols.Field.of(data)
    X, setting, split = field.X, field.setting, field.split(seed)
    course = protocols.Paper().course(field, seed, ties=TIES)
    console.print(
        f"\n[bold]{NAMES[data.name]}[/], {len(X):,} images of {X.shape[1]} pixels, {data.source}\n"
        f"{len(split.queries):,} queries are only asked, never learned from; the other "
        f"{len(split.retrieval):,} images are searched, and the first {len(split.stream):,} of them, with "
        "their labels, are the stream.\n"
    )
    untrained = LSH(n_bits=n_bits, random_state=seed)
    (floor,) = protocols.follow(untrained, course, setting.checkpoints[:1])
    console.print(
        f"{'untrained projection':>20}   mAP {floor.scores['mAP']:.3f}  {_bar(floor.scores['mAP'])}"
    )
    hasher = FCOH(n_bits=n_bits, random_state=seed)
    early = [n for n in EARLY if n < setting.checkpoints[0]]
    seen = _stream(hasher, course, [*early, *setting.checkpoints], console)

    codes, queries = hasher.transform(X[split.retrieval]), hasher.transform(X[split.queries])
    clock = time.perf_counter()
    distances, found = hamming.topk(queries, codes, SHOWN)
    search_seconds = (time.perf_counter() - clock) / len(queries)
    curve = [(at.n_train, at.scores["mAP"]) for at in seen]
    learned = Learned(
        data=data,
        split=split,
        curve=curve,
        scores=seen[-1].scores,
        untrained=floor.scores,
        train_seconds=seen[-1].scores["train_seconds"],
        search_seconds=search_seconds,
        health=code_statistics(codes, n_bits),
        pictures=(out / "learning-curve.png", out / "neighbours.png"),
    )
    _tell(learned, console)
    _draw(learned, distances, split.retrieval[found])
    console.print("\nTwo pictures to look at:")
    for path in learned.pictures:
        console.print(f"  {path}", soft_wrap=True)
    return learned


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


def _stream(
    hasher: FCOH,
    course: protocols.Course,
    checkpoints: Sequence[int],
    console: Console,
) -> list[protocols.Look]:
    """Learn under a live bar; each checkpoint leaves a line above it."""
    columns = (
        TextColumn("{task.description:>20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("mAP {task.fields[mAP]}"),
        TimeRemainingColumn(),
    )
    seen = []
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("FCOH learns", total=checkpoints[-1], mAP="...")
        for at in protocols.follow(
            hasher, course, checkpoints, progress=lambda rows: bar.advance(task, rows)
        ):
            value = at.scores["mAP"]
            bar.update(task, mAP=f"{value:.3f}")
            bar.console.print(f"{f'FCOH, {at.n_train:,} seen':>20}   mAP {value:.3f}  [blue]{_bar(value)}[/]")
            seen.append(at)
    return seen


def _bar(share: float, width: int = 40) -> str:
    """A bar for a number from 0 to 1, in eighths of a character.

    >>> _bar(0.5, 4), _bar(0.3, 4)
    ('██', '█▎')
    """
    whole, eighths = divmod(round(share * width * 8), 8)
    return "█" * whole + " ▏▎▍▌▋▊▉"[eighths].strip()


def _tell(learned: Learned, console: Console) -> None:
    """What was learned, in a few lines."""
    data, n_bits = learned.data, learned.health.n_bits
    n, d = len(learned.split.retrieval), data.X.shape[1]
    code, floats, pixels = -(-n_bits // 8), 4 * d, d * data.X.itemsize
    n_train = learned.curve[-1][0]
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row(
        "learned",
        f"from {n_train:,} images in {seconds(learned.train_seconds)}, each seen once, default settings",
    )
    for name, words in (
        ("mAP", "mAP"),
        ("precision@10", "precision@10"),
        ("precision@H2", "precision@H2"),
    ):
        now, before = learned.scores[name], learned.untrained[name]
        table.add_row(words, f"[bold blue]{now:.3f}[/]   untrained projection {before:.3f}")
    table.add_row(
        "size of an item",
        f"[bold blue]{size(code)}[/] instead of {floats:,} as float32 ({floats / code:,.0f} times smaller; "
        f"{pixels / code:,.0f} times smaller than the raw pixels)",
    )
    table.add_row("size of the table", f"{size(n * code)} instead of {size(n * floats)} for {n:,} items")
    table.add_row(
        "search",
        f"{seconds(learned.search_seconds)} a query for the {SHOWN} nearest of {n:,} codes, exact "
        f"({len(learned.split.queries):,} asked at once)",
    )
    for i, line in enumerate(str(learned.health).splitlines()):
        table.add_row("health of the codes" if i == 0 else "", line)
    console.print()
    console.print(table, highlight=False)


def _draw(learned: Learned, distances: np.ndarray, neighbours: np.ndarray) -> None:
    """Both pictures. distances, neighbours: (queries, SHOWN), the neighbours as rows of the data set."""
    data, split = learned.data, learned.split
    name, n_bits = NAMES[data.name], learned.health.n_bits
    scale = f"{len(split.queries):,} queries against {len(split.retrieval):,} images"
    curves = pictures.learning_curves(
        {"FCOH": learned.curve},
        untrained=("untrained\nprojection", learned.untrained["mAP"]),
        title="The codes get better while the stream runs",
        subtitle=f"{name}, {n_bits}-bit codes, {scale}",
        unit="images learned from, each seen once",
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
        f"all {len(labels):,} queries {learned.scores['precision@10']:.0%}",
    )
    grid.savefig(learned.pictures[1], dpi=150, bbox_inches="tight", pad_inches=0.2)
