"""Weighted distances, codes in several parts, signs as codes: against definitions, and C against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream import hamming
from hashstream.hamming import _kernel, _twin

compiled = pytest.mark.skipif(not _kernel.available(), reason="installed without a C compiler")


def random(rng, n, width):
    return rng.integers(0, 256, (n, width), dtype=np.uint8)


def near(rng, values, n):
    """Codes that differ in few bits from the signs of some value, and some in any."""
    n_bits = values.shape[1]
    bits = values[rng.integers(0, len(values), n)] > 0
    flips = rng.random((n, n_bits)) < rng.choice([0.03, 0.2, 0.5], (n, 1))
    return np.packbits(bits ^ flips, axis=1)


def definition(values, codes, k):
    """Every bit of every code, by (cost, row)."""
    n_bits = values.shape[1]
    bits = np.unpackbits(codes, axis=1, count=n_bits).astype(bool)
    far, where = [], []
    for row in values:
        cost = np.array([np.abs(row[differs]).sum() for differs in bits != (row > 0)])
        order = np.lexsort((np.arange(len(codes)), cost))[:k]
        far.append(cost[order])
        where.append(order)
    return np.array(far), np.array(where)


@pytest.mark.parametrize("n_bits", [1, 5, 8, 20, 64, 100])
def test_weighted_is_what_it_says(engine, rng, n_bits):
    values = rng.integers(-8, 9, (4, n_bits)) / 8  # sums of eighths are exact, so ties are ties
    codes = near(rng, values, 300)
    far, where = hamming.weighted_topk(values, codes, 30)
    wanted = definition(values, codes, 30)
    np.testing.assert_array_equal(where, wanted[1])
    np.testing.assert_array_equal(far, wanted[0])
    rows = np.flatnonzero(rng.random(300) < 0.3)
    some = hamming.weighted_topk(values, codes, 30, subset=rows)
    np.testing.assert_array_equal(rows[hamming.weighted_topk(values, codes[rows], 30)[1]], some[1])


def test_equal_weights_give_the_hamming_distance(engine, rng):
    codes, queries = random(rng, 500, 4), random(rng, 5, 4)
    values = np.unpackbits(queries, axis=1) - 0.5
    far, where = hamming.weighted_topk(values, codes, 50)
    plain = hamming.topk(queries, codes, 50)
    np.testing.assert_array_equal(2 * far, plain[0])
    np.testing.assert_array_equal(where, plain[1])


@pytest.mark.thinned("pairs")
@compiled
@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("n_bits", [3, 8, 30, 64, 100, 128, 250])
@pytest.mark.parametrize("scale", ["even", "uneven", "zero"])
def test_the_kernel_gives_the_same_bits(monkeypatch, rng, portable, n_bits, scale):
    """Costs and rows, whatever the weights, the number of queries, of threads and of codes that tie."""
    monkeypatch.setattr(_kernel, "portable", portable)
    values = rng.standard_normal((21, n_bits))
    if scale == "uneven":
        values *= 10.0 ** rng.integers(-6, 6, values.shape)
    elif scale == "zero":
        values[rng.random(values.shape) < 0.7] = 0
        values[0] = 0
    codes = near(rng, values, 5000)
    codes[3000:] = codes[rng.integers(0, 50, 2000)]
    rows = np.flatnonzero(rng.random(5000) < 0.4)
    for n_queries, threads in ((1, 1), (1, 2), (3, 2), (21, 1), (21, 2)):
        some = values[:n_queries]
        for k, subset in ((1, None), (10, None), (10, rows), (700, rows), (5000, None)):
            ours, theirs = (engine.weighted(some, codes, k, subset, threads) for engine in (_kernel, _twin))
            assert ours[0].tobytes() == theirs[0].tobytes()
            np.testing.assert_array_equal(ours[1], theirs[1])


@compiled
def test_costs_beyond_all_numbers(rng):
    """The magnitudes of a query may add up to infinity, and some codes still cost less."""
    values = np.where(rng.random((4, 64)) < 0.5, 1e307, -1e307)
    codes = near(rng, values, 3000)
    for k in (1, 5, 700):
        ours, theirs = (engine.weighted(values, codes, k, None, 1) for engine in (_kernel, _twin))
        assert ours[0].tobytes() == theirs[0].tobytes()
        np.testing.assert_array_equal(ours[1], theirs[1])


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("sizes", [[1], [7, 3, 1], [60_000, 5, 20_000, 60_000], [3, 400, 12]])
@pytest.mark.parametrize("n_queries", [0, 1, 5, 21])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.6])
def test_parts_are_searched_as_one(engine, rng, sizes, n_queries, share):
    """Against a sort of all (distance, slot); codes of one byte tie all the time."""
    owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    parts, all_queries, all_far, all_slots = [], [], [], []
    for i, n in enumerate(sizes):
        codes, queries = random(rng, n, 1), random(rng, n_queries, 1)
        slots = np.flatnonzero(owner == i).astype(np.uint32)
        dead = np.flatnonzero(rng.random(n) < share)
        parts.append((i, codes, slots, dead))
        all_queries.append(queries)
        all_far.append(np.delete(hamming.distances(queries, codes), dead, axis=1))
        all_slots.append(np.delete(slots, dead))
    far, slots = np.concatenate(all_far, axis=1), np.concatenate(all_slots).astype(np.int64)
    for k in (1, 12, 300):
        for threads in (1, 2):
            ours = hamming.Parts(parts).topk(np.stack(all_queries), k, n_threads=threads)
            assert (ours[0].dtype, ours[1].dtype) == (np.uint16, np.int64)
            assert ours[0].shape == ours[1].shape == (n_queries, min(k, len(slots)))
            for q in range(n_queries):
                order = np.lexsort((slots, far[q]))[:k]
                np.testing.assert_array_equal(ours[0][q], far[q][order])
                np.testing.assert_array_equal(ours[1][q], slots[order])


@compiled
@pytest.mark.parametrize("width", [1, 3, 4, 8, 16, 31, 33, 64])
@pytest.mark.parametrize("portable", [False, True])
def test_parts_of_every_width(monkeypatch, rng, portable, width):
    monkeypatch.setattr(_kernel, "portable", portable)
    sizes = (3000, 700, 40)
    codes = [random(rng, n, width) & random(rng, n, width) for n in sizes]
    slots = np.split(rng.permutation(sum(sizes)).astype(np.uint32), np.cumsum(sizes)[:-1])
    slots = [np.sort(some) for some in slots]
    dead = [np.flatnonzero(rng.random(n) < 0.1) for n in sizes]
    for n_queries in (1, 9):
        queries = np.stack([random(rng, n_queries, width) & 3 for _ in range(2)])
        held = list(zip((1, 0, 1), codes, slots, dead, strict=True))
        for k in (1, 30, 2000):
            ours, theirs = (
                engine.topk_parts(engine.parts(held), queries, k, 2) for engine in (_kernel, _twin)
            )
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bits", [5, 16, 64, 100])
def test_parts_asked_by_real_values(engine, rng, dtype, n_bits):
    parts = hamming.Parts(
        [
            (which, random(rng, n, -(-n_bits // 8)), np.arange(n, dtype=np.uint32) * 2 + which, np.arange(3))
            for which, n in ((0, 300), (1, 40))
        ]
    )
    values = rng.standard_normal((2, 7, n_bits)).astype(dtype)
    values[:, :, 0] = 0
    ours = parts.topk_signs(values, 20)
    theirs = parts.topk(np.packbits(values > 0, axis=2), 20)
    assert ours is not None
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])
    for bad in (np.nan, np.inf, -np.inf):
        values[1, 6, n_bits - 1] = bad
        assert parts.topk_signs(values, 20) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bits", [1, 7, 8, 64, 100, 128])
def test_signs(engine, rng, dtype, n_bits):
    values = rng.standard_normal((37, n_bits)).astype(dtype)
    values[rng.random(values.shape) < 0.1] = 0.0
    values[rng.random(values.shape) < 0.1] = -0.0
    values[0, 0], values[1, 0] = np.finfo(dtype).max, -np.finfo(dtype).smallest_subnormal
    values[2, 0] = np.finfo(dtype).smallest_subnormal
    codes = np.full((37, -(-n_bits // 8)), 255, np.uint8)
    assert hamming.pack_signs(values, codes)
    np.testing.assert_array_equal(codes, np.packbits(values > 0, axis=1))
    for bad in (np.nan, np.inf, -np.inf):
        values[36, n_bits - 1] = bad
        assert not hamming.pack_signs(values, codes)


def test_what_does_not_fit_is_refused(engine):
    codes, values = np.zeros((3, 1), np.uint8), np.zeros((2, 5))
    with pytest.raises(ValueError, match="do not fit"):
        hamming.weighted_topk(np.zeros((2, 9)), codes, 1)
    with pytest.raises(ValueError, match="NaN"):
        hamming.weighted_topk(values * np.nan, codes, 1)
    with pytest.raises(ValueError, match="at least 1"):
        hamming.weighted_topk(values, codes, 0)
    part = 1, codes, np.arange(3, dtype=np.uint32), np.empty(0, np.int64)
    queries = np.zeros((2, 4, 1), np.uint8)
    with pytest.raises(ValueError, match="at least 1"):
        hamming.Parts([part]).topk(queries, 0)
    with pytest.raises(ValueError, match="must not be empty"):
        hamming.Parts([])
    with pytest.raises(ValueError, match="slots must be uint32"):
        hamming.Parts([(0, codes, np.arange(3), part[3])])
    with pytest.raises(ValueError, match="2 bytes per row"):
        hamming.Parts([part, (0, np.zeros((3, 2), np.uint8), *part[2:])])
    for bad in (queries[:1], queries[:, :, [0, 0]]):
        with pytest.raises(ValueError, match="at least 2 sets"):
            hamming.Parts([part]).topk(np.ascontiguousarray(bad), 1)
    for bad in (queries[0], queries[:, ::2]):
        with pytest.raises(ValueError, match="C-contiguous"):
            hamming.Parts([part]).topk(bad, 1)
    with pytest.raises(ValueError, match="dtype uint8"):
        hamming.Parts([part]).topk(queries.astype(float), 1)
    with pytest.raises(ValueError, match="float32 or float64"):
        hamming.Parts([part]).topk_signs(queries, 1)
    with pytest.raises(ValueError, match="float32 or float64"):
        hamming.pack_signs(codes, codes)
    with pytest.raises(ValueError, match="C-contiguous uint8"):
        hamming.pack_signs(values, codes)
