"""Damaged folders: files that are cut or have a bit flipped, each opened and asked everything.

The answers must be exactly those of the whole folder, or there is a TableError that names the file. Nothing else: no
other exception, no other answer, no empty table.
"""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.table.crash_child import World
from tests.table.fingerprints import differences, fingerprint, wrong_answers

from hashstream.table import HashTable, TableError

NAMES = {"table.sqlite-wal": "table.sqlite"}  # a log belongs to its database


@dataclass
class Outcome:
    """How many damaged folders were refused by name, and how many gave the right answers in spite of it."""

    refused: Counter[str] = field(default_factory=Counter)  # by file
    right: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def trials(self) -> int:
        return sum(self.refused.values()) + sum(self.right.values()) + len(self.failures)

    def add(self, other: Outcome) -> None:
        self.refused.update(other.refused)
        self.right.update(other.right)
        self.failures += other.failures


class Victim:
    """A folder with the operations of a world in it, and what it has to answer.

    killed : as a process leaves it that is killed after them; else closed.
    """

    def __init__(self, world: World, folder: Path, *, killed: bool) -> None:
        self.world, self.whole, self.copy = world, folder / "whole", folder / "copy"
        table = world.open(folder / "table")
        for operation in world.operations:
            table, _ = world.apply(table, operation, None)
        if killed:
            shutil.copytree(folder / "table", self.whole)
            table.close()
        else:
            table.close()
            (folder / "table").rename(self.whole)
        shutil.copytree(self.whole, self.copy)
        with world.open(self.copy) as table:
            self.wanted = fingerprint(table, world.queries)
            self.features = {path.name: path.read_bytes() for path in self.copy.glob("features-*.seg")}
        shutil.rmtree(self.copy)

    def files(self) -> list[Path]:
        """All of them, but of many segments the first and the last two only."""
        segments = sorted(self.whole.glob("features-*.seg"))
        others = [path for path in self.whole.iterdir() if not path.name.endswith(("-shm", ".seg"))]
        return sorted(others) + segments[:1] + segments[1:][-2:]

    def damaged(self, name: str, *, at: int, bit: int | None, mode: str = "write") -> str:
        """Cut a file at a byte, or flip a bit of it; "right", "refused", or a sentence about what is wrong."""
        shutil.copytree(self.whole, self.copy, ignore=shutil.ignore_patterns("*-shm"))
        path = self.copy / name
        raw = bytearray(path.read_bytes())
        if bit is None:
            del raw[at:]
        else:
            raw[at] ^= 1 << bit
        path.write_bytes(raw)
        what = f"{name} {'cut' if bit is None else f'with bit {bit} flipped'} at {at} of {len(raw)} ({mode})"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return self._asked(NAMES.get(name, name), mode, what)
        except Exception as error:
            return f"{what}: {type(error).__name__}: {error}"
        finally:
            shutil.rmtree(self.copy)

    def _asked(self, name: str, mode: str, what: str) -> str:
        found: dict[str, Any] = {}
        try:
            reader = mode == "read"
            opened = HashTable.open(self.copy, mode="read") if reader else self.world.open(self.copy)
            with opened as table, table.paused():  # a refresh meanwhile would change what is compared
                found = fingerprint(table, self.world.queries)
                wrong = differences(found, self.wanted, self.world.lazy)
                wrong = wrong or wrong_answers(table, self.world.queries)
        except TableError as error:
            if name not in str(error):
                return f"{what}: not named by: {error}"
            for other, raw in self.features.items():
                if other != name and not (self.copy / other).read_bytes().startswith(raw):
                    return f"{what}: refused, but {other} was cut meanwhile"
            return "refused"
        return f"{what}: other answers: {wrong}" if wrong else "right"


def flips(size: int, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Bits of a file: half of them anywhere, half near the beginning of a page, where SQLite keeps its own fields."""
    anywhere = rng.integers(size, size=count - count // 2)
    pages = rng.integers(max(1, size // 4096), size=count // 2) * 4096
    beginnings = np.minimum(pages + rng.integers(112, size=count // 2), size - 1)
    return [(int(at), int(rng.integers(8))) for at in np.concatenate([anywhere, beginnings])]


def cuts(size: int, count: int, rng: np.random.Generator) -> list[int]:
    """Lengths: none, one byte less, a page less, and any."""
    some = {0, 1, size - 1, max(0, size - 4096), size // 2, *rng.integers(size, size=count).tolist()}
    return sorted(one for one in some if 0 <= one < size)


def try_damage(
    victim: Victim,
    rng: np.random.Generator,
    *,
    n_flips: int,
    n_cuts: int,
    modes: tuple[str, ...] = ("write",),
) -> Outcome:
    outcome = Outcome()
    for path in victim.files():
        size, name = path.stat().st_size, path.name
        if not size:
            continue
        many = 1.0 if path.name.startswith("table.sqlite") else 0.3
        trials: list[tuple[int, int | None]] = [
            *((at, None) for at in cuts(size, int(n_cuts * many), rng)),
            *flips(size, max(2, int(n_flips * many)), rng),
        ]
        for i, (at, bit) in enumerate(trials):
            said = victim.damaged(name, at=at, bit=bit, mode=modes[i % len(modes)])
            kind = name if not name.startswith("features") else "features"
            if said == "refused":
                outcome.refused[kind] += 1
            elif said == "right":
                outcome.right[kind] += 1
            else:
                outcome.failures.append(f"seed {victim.world.seed}: {said}")
    return outcome
