"""`hashstream perf teaching`: precision that fifty clicks of a person give to a table of images without labels.

MNIST, 10,000 images stored without labels in the demo's table (`hashstream.serve.demo`), 1,000 others as queries that
are never stored. A simulated person, who knows every class, teaches until fifty clicks are used:

- board: 24 suggestions with the table's guesses. A wrong guess gets its class by one click; one more click confirms the
  board. The first board has 12 items and no guesses: one click each.
- board of random items: the same, with items at random, and the guess of the nearest labelled item.
- answers: the first suggestion gets its class by one click; of its 12 nearest unlabelled items (`rescore=200`), each
  wrong one is clicked away, and one click gives the class to all others.
- answers, corrected: the same with 24, and the click on a wrong one gives it its own class.
- one by one: random items, one click each.

A board or a page of answers for which too few clicks are left is cut short. Precision@10 of the codes over all queries,
before and after, and after each round. Settings were chosen on the first half of the data (seeds from 100 on); the
figures are of the second half. Three seeds; with --quick one, and fewer images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from rich.table import Table

import hashstream as hs
from benchmarks.asymmetric import spread
from benchmarks.harness import console, machine
from hashstream import datasets
from hashstream.serve.demo import POLICY, SAMPLE, demo_hasher
from hashstream.serve.teaching.suggestions import suggest
from hashstream.table import HashTable

CLICKS, K, BITS = 50, 10, 64
ITEMS, QUERIES = 10_000, 1000
FIRST_BOARD, BOARD, CANDIDATES = 12, 24, 200
TARGET = 0.10
LABELLED, UNLABELLED = {"label": {"$exists": True}}, {"label": {"$exists": False}}


@dataclass
class Lesson:
    """A table, its teacher and what has happened so far. curve : (clicks, labels, precision@10) after each round."""

    table: HashTable
    X: np.ndarray
    y: np.ndarray
    queries: np.ndarray
    rng: np.random.Generator
    clicks: int = 0
    labels: int = 0
    right: int = 0
    curve: list[tuple[int, int, float]] = field(default_factory=list)

    @property
    def left(self) -> int:
        return CLICKS - self.clicks

    def precision(self) -> float:
        ids = self.table.search(self.X[self.queries], K).ids
        return float((self.y[ids] == self.y[self.queries][:, None]).mean())

    def learn(self, ids: np.ndarray, clicks: int) -> None:
        """Give items their labels, for a number of clicks."""
        self.clicks += clicks
        if len(ids):
            self.table.label(ids, self.y[ids])
        self.labels += len(ids)
        self.curve.append((self.clicks, self.labels, self.precision()))


def board(lesson: Lesson, ids: np.ndarray, guesses: list[object]) -> None:
    """One board: a click for each wrong guess, and one that confirms all, unless there was nothing to confirm."""
    right = np.array([guess == label for guess, label in zip(guesses, lesson.y[ids], strict=True)], bool)
    confirm = int(any(guess is not None for guess in guesses))
    shown = int(
        np.searchsorted(np.cumsum(~right) + confirm, lesson.left, side="right")
    )  # what clicks are left for
    lesson.right += int(right[:shown].sum())
    lesson.learn(ids[:shown], int((~right[:shown]).sum()) + confirm)


def suggested_board(lesson: Lesson) -> None:
    found = suggest(lesson.table, BOARD if lesson.labels else FIRST_BOARD).items
    board(lesson, np.array([one.id for one in found]), [one.guess for one in found])


def random_board(lesson: Lesson) -> None:
    free = lesson.table.ids(UNLABELLED)
    ids = lesson.rng.choice(free, BOARD if lesson.labels else FIRST_BOARD, replace=False)
    guesses: list[object] = [None] * len(ids)
    if lesson.labels:
        found = lesson.table.search(lesson.X[ids], 1, where=LABELLED, rescore=CANDIDATES, include=("labels",))
        assert found.labels is not None
        guesses = found.labels[:, 0].tolist()
    board(lesson, ids, guesses)


def answers(lesson: Lesson, most: int = 12, correct: bool = False) -> None:
    query = suggest(lesson.table, 1).items[0].id
    row = lesson.X[query : query + 1]
    near = lesson.table.search(row, most + 1, where=UNLABELLED, rescore=CANDIDATES).ids[0]
    near = near[near != query][:most]
    right = lesson.y[near] == lesson.y[query]
    shown = int(np.searchsorted(np.cumsum(~right) + 2, lesson.left, side="right")) if lesson.left > 1 else 0
    near, right = near[:shown], right[:shown]
    lesson.learn(
        np.append(near if correct else near[right], query), min(2, lesson.left) + int((~right).sum())
    )


def one_by_one(lesson: Lesson) -> None:
    lesson.learn(lesson.rng.choice(lesson.table.ids(UNLABELLED), min(10, lesson.left), replace=False), 10)


WAYS: dict[str, Callable[[Lesson], None]] = {
    "board": suggested_board,
    "board of random items": random_board,
    "answers": answers,
    "answers, corrected": partial(answers, most=24, correct=True),
    "one by one": one_by_one,
}


def teach(data: datasets.Dataset, way: str, seed: int, items: int, *, tuning: bool = False) -> Lesson:
    """One lesson. tuning : on the first half of the data, and not on the second."""
    rng, half = np.random.default_rng(seed), len(data.X) // 2
    rows = rng.permutation(half)[: items + QUERIES] + (0 if tuning else half)
    X, y, stored = data.X[rows].astype(np.float32), data.y[rows], np.arange(items)
    with HashTable.open(None, demo_hasher(BITS, seed), policy=POLICY, sample_size=SAMPLE) as table:
        table.add(stored, X[stored])
        lesson = Lesson(table, X, y, np.arange(items, len(rows)), rng)
        lesson.curve.append((0, 0, lesson.precision()))
        while lesson.left > 0:
            WAYS[way](lesson)
    return lesson


def projected(data: datasets.Dataset, seed: int, items: int) -> float:
    """Precision@10 of a random projection of the pixels as they are, for the same items and queries."""
    rows = np.random.default_rng(seed).permutation(len(data.X) // 2)[: items + QUERIES] + len(data.X) // 2
    X, y = data.X[rows].astype(np.float32), data.y[rows]
    codes = hs.LSH(BITS, random_state=seed).fit(X[:items]).transform(X)
    _, near = hs.hamming.topk(codes[items:], codes[:items], K)
    return float((y[near] == y[items:, None]).mean())


def main(quick: bool = False) -> bool:
    """Print the tables; True where the board brings at least 0.10 more precision@10 than the table has untaught."""
    console.print(machine())
    console.print(hs.show_versions())
    data = datasets.load("mnist")
    seeds, items = (range(1), 3000) if quick else (range(3), ITEMS)
    lessons = {way: [teach(data, way, seed, items) for seed in seeds] for way in WAYS}
    plain = np.array([projected(data, seed, items) for seed in seeds])
    title = f"mnist, {items:,} images without labels, {BITS} bits, {len(seeds)} seeds: after {CLICKS} clicks"
    table = Table(title=title, title_justify="left")
    for head in ("way", "labels", "guesses right", "precision@10 before", "after", "gained"):
        table.add_column(head, justify="left" if head == "way" else "right")
    gains = {}
    for way, taught in lessons.items():
        before, after = (np.array([one.curve[at][2] for one in taught]) for at in (0, -1))
        gains[way] = float((after - before).mean())
        given = np.mean([one.labels for one in taught])
        right = np.mean([one.right / one.labels for one in taught])
        shown = f"{right:.0%}" if "board" in way else ""
        table.add_row(way, f"{given:.0f}", shown, spread(before), spread(after), spread(after - before))
    console.print(table)
    console.print(f"A random projection of the pixels, not centred (LSH): precision@10 {spread(plain)}.\n")
    for way, taught in lessons.items():
        points = "  ".join(f"{clicks}/{labels}: {value:.3f}" for clicks, labels, value in taught[0].curve)
        console.print(f"{way}, seed 0, clicks/labels: precision@10\n  {points}", highlight=False)
    met = gains["board"] >= TARGET
    console.print(
        f"board gained {gains['board']:+.3f}, target at least {TARGET:+.2f}: {'met' if met else 'MISSED'}"
    )
    return met
