"""Searches among the items that a filter keeps, and by the newest hash functions: against every bit of every item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from hashstream.hamming import _kernel, _twin
from hashstream.hashers import Encoder
from hashstream.hashers.encoder import Product
from hashstream.table.state.ids import column_of
from hashstream.table.state.matching import SHARE, Matching
from hashstream.table.state.search import Compare, ExactScan, query_values
from hashstream.table.state.view import Part, View

D = 10
Rng = np.random.Generator


@pytest.fixture(params=["vector C", "portable C", "NumPy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    chosen = _twin if request.param == "NumPy" else _kernel
    if chosen is _kernel and not _kernel.available():
        pytest.skip("installed without a C compiler")
    monkeypatch.setattr(_kernel, "portable", request.param == "portable C")
    for name in ("_parts", "_search", "_weighted"):
        monkeypatch.setattr(f"hashstream.hamming.{name}.engine", chosen)
    return


@pytest.fixture
def rng() -> Rng:
    return np.random.default_rng(31)


def encoder(rng: Rng, version: int, n_bits: int, plain: bool = True) -> Encoder:
    """A random projection; where it is not plain, it is multiplied like a model of another kind."""
    W = rng.standard_normal((D, n_bits)).astype(np.float32)
    return Encoder(
        version,
        n_bits,
        D,
        "float32",
        None,
        W,
        Product(W) if plain else None,
        lambda X: X @ W,
        None,
        None if plain else object(),
    )


def made(
    rng: Rng,
    sizes: list[tuple[int, int]],
    n_bits: int,
    *,
    dead: float = 0.0,
    gaps: int = 0,
    plain: bool = True,
) -> View:
    """A view with parts of (version, items), whose slots are shuffled unless there is one part and no gap.

    The newest version is one above them. dead : share of rows that died. gaps : slots of removed items.
    """
    n = sum(size for _, size in sizes)
    owner = rng.permutation(np.repeat(np.arange(-1, len(sizes)), [gaps, *(size for _, size in sizes)]))
    versions = sorted({version for version, _ in sizes})
    encoders = {v: encoder(rng, v, n_bits, plain) for v in [*versions, versions[-1] + 1]}
    parts = []
    for i, (version, size) in enumerate(sizes):
        before, after = rng.integers(0, 4, 2)  # rows of the buffers that are no rows of the part
        slots = np.zeros(before + size + after, np.uint32)
        slots[before : before + size] = np.flatnonzero(owner == i)
        codes = np.packbits(rng.random((len(slots), n_bits)) < 0.5, axis=1)
        gone = before + np.flatnonzero(rng.random(size) < dead)
        parts.append(Part(version, codes, slots, int(before), int(before + size), gone))
    column = column_of("int").extended(np.arange(n + gaps))
    return View(parts[0].codes.shape[1], tuple(parts), column, MappingProxyType(encoders), versions[-1] + 1)


def kept(mask: np.ndarray, slots: np.ndarray) -> np.ndarray:
    return np.array([slot < len(mask) and bool(mask[slot]) for slot in slots.tolist()], bool)


def only(view: View, mask: np.ndarray) -> View:
    """The view with copies of the items that a mask keeps, one by one."""
    parts = []
    for part in view.parts:
        codes, slots = part.rows()
        marked = kept(mask, slots)
        if marked.any():
            parts.append(Part(part.version, codes[marked], slots[marked], 0, int(marked.sum())))
    return replace(view, parts=tuple(parts))


def ranking(
    view: View, Q: np.ndarray, i: int, mask: np.ndarray, compare: Compare, asymmetric: bool = False
) -> list[tuple[float, int]]:
    """(distance, slot) of every matching item from query i, ascending, bit by bit.

    The costs are those of all queries multiplied together, as a search does it: in float32, a product of one query
    alone may differ in its last bits.
    """
    found = []
    for part in view.parts:
        chosen = view.encoders[part.version if compare == "like" else view.newest]
        values = chosen.project(Q[i : i + 1])[0]
        codes, slots = part.rows()
        differs = np.unpackbits(codes, axis=1, count=chosen.n_bits) != (values > 0)
        cost = query_values(chosen, Q)[i] if asymmetric else np.ones(chosen.n_bits, int)
        far = (differs * np.abs(cost)).sum(axis=1)
        marked = kept(mask, slots)
        found += list(zip(far[marked].tolist(), slots[marked].tolist(), strict=True))
    return sorted(found)


def check(view: View, mask: np.ndarray, k: int, compare: Compare, rng: Rng, n_queries: int = 3) -> None:
    Q = rng.standard_normal((n_queries, D)).astype(np.float32)
    scan, matching = ExactScan(view), Matching(view, mask)
    rankings = [ranking(view, Q, i, mask, compare) for i in range(len(Q))]
    n = len(rankings[0])
    assert matching.count == n
    assert matching.slots().dtype == np.uint32
    assert matching.slots().tolist() == sorted(slot for _, slot in rankings[0])
    assert (matching.few is not None) == (n <= len(view) // SHARE)

    found = scan.topk(Q, k, matching=matching, compare=compare)
    assert [(a.dtype, a.shape) for a in found] == [(t, (len(Q), min(k, n))) for t in (np.uint16, np.int64)]
    for i, pairs in enumerate(rankings):
        assert list(zip(found[0][i].tolist(), found[1][i].tolist(), strict=True)) == pairs[:k]

    radius = int(np.median([far for far, _ in rankings[0]])) if n else 3
    offsets, far, slots = scan.radius(Q, radius, matching=matching, compare=compare)
    assert (offsets.dtype, far.dtype, slots.dtype) == (np.int64, np.uint16, np.int64)
    for i, pairs in enumerate(rankings):
        here = slice(offsets[i], offsets[i + 1])
        near = [pair for pair in pairs if pair[0] <= radius]
        assert list(zip(far[here].tolist(), slots[here].tolist(), strict=True)) == near

    costs, slots = scan.topk_asymmetric(Q, k, matching=matching, compare=compare)
    assert (costs.dtype, slots.dtype) == (np.float64, np.int64)
    assert costs.shape == slots.shape == (len(Q), min(k, n))
    alone = ExactScan(only(view, mask)).topk_asymmetric(Q, k, compare=compare)
    np.testing.assert_array_equal(costs, alone[0])  # not only nearly: each cost is added up in the same order
    np.testing.assert_array_equal(slots, alone[1])
    for i in range(len(Q)):
        pairs = ranking(view, Q, i, mask, compare, asymmetric=True)
        np.testing.assert_allclose(costs[i], [cost for cost, _ in pairs[:k]], rtol=1e-9, atol=1e-9)


MASKS = {
    "none": lambda n, rng: np.zeros(n, bool),
    "one": lambda n, rng: np.arange(n) == n // 3,
    "few": lambda n, rng: rng.random(n) < 0.03,
    "half": lambda n, rng: rng.random(n) < 0.5,
    "all": lambda n, rng: np.ones(n, bool),
    "short": lambda n, rng: rng.random(n // 2) < 0.7,
    "short and few": lambda n, rng: rng.random(n // 2) < 0.03,
    "empty": lambda n, rng: np.zeros(0, bool),
    "long": lambda n, rng: rng.random(2 * n) < 0.5,
}

WORLDS = {
    "one part": ([(2, 300)], 0.0, 0),
    "one part, dead rows": ([(2, 300)], 0.1, 0),
    "one part, gaps": ([(2, 300)], 0.0, 50),
    "parts": ([(0, 200), (3, 80), (0, 20), (1, 1)], 0.0, 0),
    "parts, dead rows, gaps": ([(0, 150), (3, 150), (0, 20), (1, 1)], 0.1, 300),
}


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("compare", ["like", "current"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_filtered_search_is_a_sort_of_what_matches(
    engine: None, rng: Rng, world: str, mask: str, compare: Compare
) -> None:
    sizes, dead, gaps = WORLDS[world]
    view = made(rng, sizes, 20, dead=dead, gaps=gaps)
    marks = MASKS[mask](view.n_slots, rng)
    for k in (1, 7, 1000):
        check(view, marks, k, compare, rng)


@pytest.mark.parametrize("compare", ["like", "current"])
@pytest.mark.parametrize("n_bits", [1, 8, 13, 33, 64, 77, 128])
def test_codes_of_every_width(engine: None, rng: Rng, n_bits: int, compare: Compare) -> None:
    view = made(rng, [(0, 200), (1, 150)], n_bits, dead=0.02, gaps=20)
    for share in (0.02, 0.6):
        check(view, rng.random(view.n_slots) < share, 9, compare, rng)


@pytest.mark.parametrize("compare", ["like", "current"])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("n_queries", [0, 1, 16, 17])
def test_few_and_many_queries_of_any_functions(
    rng: Rng, n_queries: int, plain: bool, compare: Compare
) -> None:
    """Up to 16 queries of plain projections are only multiplied."""
    view = made(rng, [(0, 200), (1, 150), (5, 3)], 20, dead=0.05, plain=plain)
    Q = rng.standard_normal((n_queries, D)).astype(np.float32)
    for marks in (np.ones(view.n_slots, bool), rng.random(view.n_slots) < 0.5, np.arange(view.n_slots) < 9):
        matching = Matching(view, marks)
        found = ExactScan(view).topk(Q, 12, matching=matching, compare=compare)
        assert found[0].shape == found[1].shape == (n_queries, min(12, matching.count))
        for i in range(len(Q)):
            pairs = ranking(view, Q, i, marks, compare)[:12]
            assert list(zip(found[0][i].tolist(), found[1][i].tolist(), strict=True)) == pairs


@pytest.mark.parametrize("compare", ["like", "current"])
def test_without_a_filter_everything_may_be_found(engine: None, rng: Rng, compare: Compare) -> None:
    view = made(rng, [(0, 200), (1, 150)], 20, dead=0.05, gaps=20)
    matching = Matching(view, np.ones(view.n_slots, bool))
    Q = rng.standard_normal((3, D)).astype(np.float32)
    scan = ExactScan(view)
    for search, size in ((scan.topk, 9), (scan.radius, 6), (scan.topk_asymmetric, 9)):
        ours, theirs = search(Q, size, compare=compare), search(Q, size, matching=matching, compare=compare)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_empty_view_has_nothing_to_find(rng: Rng) -> None:
    Q = rng.standard_normal((3, D)).astype(np.float32)
    for mask in (np.zeros(0, bool), np.ones(5, bool)):
        view = View(3)
        matching, scan = Matching(view, mask), ExactScan(view)
        assert (matching.count, matching.slots().tolist()) == (0, [])
        for compare in ("like", "current"):
            assert scan.topk(Q, 4, matching=matching, compare=compare)[1].shape == (3, 0)
            assert scan.topk_asymmetric(Q, 4, matching=matching, compare=compare)[1].shape == (3, 0)
            assert scan.radius(Q, 4, matching=matching, compare=compare)[0].tolist() == [0] * 4


def test_marks_of_removed_items_do_not_make_few_many(rng: Rng) -> None:
    """Ten items match, and all removed ones are marked: as few as if they were not."""
    view = made(rng, [(0, 400)], 20, gaps=5000)
    live = view.live()
    mask = np.ones(view.n_slots, bool)
    mask[live[10:]] = False
    matching = Matching(view, mask)
    assert matching.few is not None
    assert matching.slots().tolist() == live[:10].tolist()
    check(view, mask, 4, "like", rng)


def test_what_was_gathered_is_kept(rng: Rng) -> None:
    view = made(rng, [(0, 400)], 20)
    matching = Matching(view, np.arange(400) < 5)
    assert matching.few is matching.few
    assert matching.few.searchable is matching.few.searchable


def test_a_filter_of_another_view_is_refused(rng: Rng) -> None:
    view = made(rng, [(0, 40)], 20)
    matching = Matching(replace(view), np.ones(40, bool))
    Q = np.zeros((1, D), np.float32)
    scan = ExactScan(view)
    for search in (scan.topk, scan.radius, scan.topk_asymmetric):
        with pytest.raises(ValueError, match="another view"):
            search(Q, 3, matching=matching)
