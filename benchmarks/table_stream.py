"""Items for `hashstream perf table`: a hundred clusters in ten classes, and tables that are full of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import hashstream as hs
from hashstream.table import HashTable, Never, Policy

CLASSES = 10
PIECE = 100_000


def clustered(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, d) float32 around 100 centres, and classes of these: learned codes are near one another too."""
    centres = np.random.default_rng(0).standard_normal((100, d), np.float32)
    which = rng.integers(0, 100, n)
    X = rng.standard_normal((n, d), np.float32)
    X *= 0.7
    X += centres[which]
    return X, which % CLASSES


def filled(
    path: Path | None, n: int, d: int, bits: int, versions: int, policy: Policy | None = None
) -> HashTable:
    """A table of n items, in equal parts of so many versions. Ids are the slots; only the first of a version learn."""
    rng = np.random.default_rng(3)
    table = HashTable.open(path, hs.FCOH(bits, random_state=0), policy=policy or Never())
    done = 0
    for version in range(versions):
        end = n * (version + 1) // versions
        learned = min(1000 if not version else 100, end - done)
        table.ingest(np.arange(done, done + learned), *clustered(rng, learned, d))
        done += learned
        while done < end:
            some = min(PIECE, end - done)
            table.add(np.arange(done, done + some), clustered(rng, some, d)[0])
            done += some
    return table
