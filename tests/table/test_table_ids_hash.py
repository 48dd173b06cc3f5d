"""Ids that are chosen to fall together do not: the index hashes with a secret."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hashstream._native import lib
from hashstream.table.state import ids_hash
from hashstream.table.state.ids import IntColumn, column_of
from hashstream.table.state.index import Index

M = (1 << 64) - 1


@pytest.mark.skipif(lib is None, reason="installed without a C compiler")
def test_the_kernel_is_its_twin() -> None:
    ids = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, size=1000)
    assert (
        ids_hash.hash_numbers(ids).tolist()
        == ids_hash.siphash_numbers(ids.view(np.uint64), ids_hash.KEY).tolist()
    )


PYTHONS = """
import sys
import numpy as np
from hashstream.table.state import ids_hash
ids_hash.KEY = np.zeros(2, np.uint64)
texts = [("x\\u00e9" * n).encode()[:n] for n in range(1, 40)]
numbers = [0, 1, -1, 2**62, -(2**63)]
found = ids_hash.hash_texts(np.frombuffer(b"".join(texts), np.uint8), np.cumsum([len(one) for one in texts]))
found = [*found.tolist(), *ids_hash.hash_numbers(np.array(numbers)).tolist()]
raw = [*texts, *(one.to_bytes(8, "little", signed=True) for one in numbers)]
wanted = [hash(one) % 2**64 for one in raw]
assert sys.hash_info.algorithm == "siphash13", sys.hash_info.algorithm
print(found == wanted)
"""


@pytest.mark.skipif(lib is None, reason="installed without a C compiler")
@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="Python has another hash here")
def test_it_is_the_function_that_python_has_for_bytes() -> None:
    """Whose key is zero with PYTHONHASHSEED=0."""
    done = subprocess.run(
        [sys.executable, "-c", PYTHONS],
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"


@pytest.mark.parametrize("kernel", [True, False])
def test_texts_of_all_lengths_differ(monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    if not kernel:
        monkeypatch.setattr(ids_hash, "lib", None)
    column = column_of("str").extended(
        np.array(["a" * n for n in range(200)] + ["b\0", "b", "é", "e"], object)
    )
    hashes = column.hashes(0, len(column))
    assert len(set(hashes.tolist())) == len(column)
    assert hashes.tolist() == column.hash_of(column.take(np.arange(len(column)))).tolist()


def unmixed(h: int) -> int:
    """The number that the finaliser of SplitMix64 takes to h."""

    def unshift(x: int, by: int) -> int:
        y = x
        for _ in range(64 // by + 1):
            y = x ^ (y >> by)
        return y

    x = unshift(h, 31) * pow(0x94D049BB133111EB, -1, 1 << 64) & M
    x = unshift(x, 27) * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & M
    return (unshift(x, 30) - 0x9E3779B97F4A7C15) & M


def test_ids_that_had_one_home_are_spread() -> None:
    """Chosen so that a well-known hash without a key puts all of them into one cell: the way from home stays short."""
    n = 20_000
    ids = np.array([unmixed(0x12345678 << 32 | i) for i in range(n)], np.uint64).view(np.int64)
    column = IntColumn().extended(ids)
    index = Index(column, np.arange(n))
    _, cells = index._find(column, ids)
    home = index._home(column.hash_of(ids))
    steps = (cells - home) % len(index._cells)
    assert steps.mean() < 5
    assert steps.max() < 200
