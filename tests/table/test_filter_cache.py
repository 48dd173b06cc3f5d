"""Masks that are kept: equal to new ones, extended only, bounded, and never written to under a reader."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hashstream.table.state.columns import FieldColumn, read_values
from hashstream.table.state.filter_cache import MaskCache
from hashstream.table.state.where import Filter, parse_where


class Counted:
    """A column-like object that counts the slots that it is asked about."""

    def __init__(self, column: FieldColumn) -> None:
        self.column, self.asked = column, 0

    def operand(self, value: Any, name: str) -> Any:
        return self.column.operand(value, name)

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        self.asked += last - first
        return self.column.mask(op, operand, first, last)


def numbers(n: int, start: int = 0) -> dict[str, Counted]:
    values = np.arange(start, start + n) % 7
    return {name: Counted(read_values("int", name, values, n)) for name in ("count", "label")}


def less(limit: int, name: str = "count") -> Filter:
    return parse_where({name: {"$lt": limit}}, numbers(0))


def expected(n: int, limit: int) -> list[bool]:
    return [i % 7 < limit for i in range(n)]


def test_only_new_slots_are_evaluated() -> None:
    cache, columns = MaskCache(), numbers(1000)
    for n in (100, 100, 150, 40, 999, 1000, 0):
        mask = cache.mask(less(3), columns, n, 0)
        assert mask.tolist() == expected(n, 3)
        assert not mask.flags.writeable
    assert columns["count"].asked == 1000
    assert len(cache) == 1


def test_a_mask_that_was_given_out_never_changes() -> None:
    """And its buffer is shared while it has room."""
    cache, columns = MaskCache(), numbers(5000)
    given = [(n, cache.mask(less(3), columns, n, 0)) for n in range(10, 5000, 13)]
    assert all(mask.tolist() == expected(n, 3) for n, mask in given)
    assert sum(np.shares_memory(one, two) for (_, one), (_, two) in pairwise(given)) > 300


def test_generations_and_labels() -> None:
    cache, old, new = MaskCache(), numbers(100), numbers(100, start=3)
    assert cache.mask(less(3), old, 100, 0).tolist() == expected(100, 3)
    assert cache.mask(less(3), new, 100, 1).tolist() == expected(103, 3)[3:]
    assert len(cache) == 1  # the first one is of no use
    assert cache.mask(less(3), old, 100, 0).tolist() == expected(
        100, 3
    )  # an old reader is served nevertheless
    cache.mask(less(3, "label"), old, 100, 1, label_epoch=5)
    assert cache.mask(less(3, "label"), new, 100, 1, label_epoch=6).tolist() == expected(103, 3)[3:]
    asked = new["count"].asked
    cache.mask(less(3), new, 100, 1, label_epoch=7)  # does not ask for labels
    assert new["count"].asked == asked
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_the_filters_used_least_recently_go() -> None:
    cache, columns = MaskCache(size=3), numbers(10)
    for limit in (1, 2, 3, 1, 4):
        cache.mask(less(limit), columns, 10, 0)
    assert (len(cache), columns["count"].asked) == (3, 40)
    for limit in (1, 3, 4):
        cache.mask(less(limit), columns, 10, 0)
    assert columns["count"].asked == 40
    cache.mask(less(2), columns, 10, 0)
    assert columns["count"].asked == 50


@pytest.mark.parametrize("size", [0, 64])
def test_bytes_are_bounded(size: int) -> None:
    cache, columns = MaskCache(size=size, max_bytes=2500), numbers(3000)
    for limit in range(8):
        for n in (10, 600, 1000):
            assert cache.mask(less(limit), columns, n, 0).tolist() == expected(n, limit)
            assert cache.nbytes <= 2500
    assert len(cache) == (2 if size else 0)
    assert cache.mask(less(3), columns, 3000, 0).tolist() == expected(3000, 3)  # too large to be kept
    assert len(cache) <= 2


class Meddling(Counted):
    """Calls something while a mask is evaluated, as another thread would."""

    def __init__(self, column: FieldColumn, meanwhile: Any) -> None:
        super().__init__(column)
        self.meanwhile = meanwhile

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return super().mask(op, operand, first, last)


@pytest.mark.parametrize("before", [0, 50])
@pytest.mark.parametrize("meanwhile", [0, 30, 50, 70, 100, 200])
@pytest.mark.parametrize("forgotten", [False, True])
def test_another_thread_extends_the_same_mask(before: int, meanwhile: int, forgotten: bool) -> None:
    cache, columns = MaskCache(), numbers(300)
    given = []

    def other() -> None:
        if forgotten:
            cache.clear()
        given.append((meanwhile, cache.mask(less(3), columns, meanwhile, 0)))

    if before:
        given.append((before, cache.mask(less(3), columns, before, 0)))
        given.append((before + 1, cache.mask(less(3), columns, before + 1, 0)))  # in a buffer with room
    column = read_values("int", "count", np.arange(300) % 7, 300)
    given.append((100, cache.mask(less(3), {"count": Meddling(column, other)}, 100, 0)))
    given.append((300, cache.mask(less(3), columns, 300, 0)))
    assert all(mask.tolist() == expected(n, 3) for n, mask in given)


def test_many_threads() -> None:
    cache, columns = MaskCache(size=4, max_bytes=40_000), numbers(10_000)
    right = {limit: np.array(expected(10_000, limit)) for limit in range(7)}

    def work(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        seen = []
        for _ in range(300):
            limit, n = int(rng.integers(0, 7)), int(rng.integers(0, 10_001))
            seen.append((limit, n, cache.mask(less(limit), columns, n, int(rng.integers(0, 2)))))
        return all(np.array_equal(mask, right[limit][:n]) for limit, n, mask in seen)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(cache) <= 4
    assert 0 <= cache.nbytes <= 40_000
