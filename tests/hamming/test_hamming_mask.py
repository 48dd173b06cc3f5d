"""Searches among marked codes only: against a sort of all (distance, slot) that are marked, for every engine."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream import hamming
from hashstream.hamming import _kernel


def random(rng, n, width):
    return rng.integers(0, 256, (n, width), dtype=np.uint8)


def made(rng, sizes, width, share_dead, gaps=1.0):
    """Parts of random codes whose slots are shuffled over the parts; with gaps > 1, some slots are of no code."""
    n = sum(sizes)
    slots = rng.permutation(int(gaps * n))[:n].astype(np.uint32)
    codes = [random(rng, size, width) & random(rng, size, width) for size in sizes]
    dead = [np.flatnonzero(rng.random(size) < share_dead) for size in sizes]
    owned = [np.sort(some) for some in np.split(slots, np.cumsum(sizes)[:-1])]
    return list(zip((i % 2 for i in range(len(sizes))), codes, owned, dead, strict=True))


def definition(parts, queries, k, mask):
    """For each query, the first k of all (distance, slot) that are marked and not dead."""
    marked = {slot for slot in range(len(mask)) if mask[slot]}
    found = []
    for q in range(queries.shape[1]):
        pairs = []
        for which, codes, slots, dead in parts:
            far = np.bitwise_count(codes ^ queries[which, q]).sum(axis=1, dtype=int)
            alive = set(range(len(codes))) - set(dead.tolist())
            pairs += [(far[row], slots[row]) for row in alive if int(slots[row]) in marked]
        found.append(sorted(pairs)[:k])
    return found


def check(parts, queries, k, mask, threads=1):
    far, slots = hamming.Parts(parts).topk(queries, k, mask=mask, n_threads=threads)
    wanted = definition(parts, queries, k, mask)
    assert (far.dtype, slots.dtype) == (np.uint16, np.int64)
    assert far.flags.c_contiguous
    assert slots.flags.c_contiguous
    assert far.shape == slots.shape == (queries.shape[1], len(wanted[0]))
    for i, pairs in enumerate(wanted):
        assert list(zip(far[i].tolist(), slots[i].tolist(), strict=True)) == pairs


@pytest.mark.parametrize("width", [*range(1, 17), 31, 32, 33])
def test_marked_codes_of_every_width(engine, rng, width):
    parts = made(rng, (700, 90, 5), width, 0.05, gaps=1.3)
    for n_queries in (1, 5):
        queries = np.stack([random(rng, n_queries, width) for _ in range(2)])
        for share in (0.0, 0.02, 0.5, 1.0):
            mask = rng.random(int(1.3 * 795)) < share
            for k in (1, 20, 5000):
                check(parts, queries, k, mask)


@pytest.mark.parametrize("sizes", [[1], [3, 400, 12], [6000, 5, 2000]])
@pytest.mark.parametrize("share_dead", [0.0, 0.002, 0.6])
def test_masks_of_every_density(engine, rng, sizes, share_dead):
    """Codes of one byte, so that slots decide nearly everywhere."""
    n = sum(sizes)
    parts = made(rng, sizes, 1, share_dead)
    queries = np.stack([random(rng, 4, 1) for _ in range(2)])
    for share in (0.001, 0.03, 0.3, 0.9):
        for k in (1, 12, 300):
            check(parts, queries, k, rng.random(n) < share)
    one = np.zeros(n, bool)
    one[rng.integers(n)] = True
    check(parts, np.ascontiguousarray(queries[:, :1]), 3, one)


def test_as_many_queries_and_threads_as_there_may_be(engine, rng):
    """Enough work for threads, with queries in blocks and codes in ranges; against a search of the marked codes."""
    parts = made(rng, (150_000, 20_000), 8, 0.001)
    values = rng.standard_normal((2, 30, 64)).astype(np.float32)
    queries = np.packbits(values > 0, axis=2)
    for share in (0.5, 0.001, 0.00003):
        mask = rng.random(170_000) < share
        kept = []
        for which, codes, slots, dead in parts:
            rows = np.setdiff1d(np.flatnonzero(mask[slots]), dead)
            kept.append((which, codes[rows], slots[rows], np.empty(0, np.int64)))
        for n_queries in (1, 30):
            some = np.ascontiguousarray(queries[:, :n_queries])
            wanted = hamming.Parts(kept).topk(some, 50)
            for threads in (1, 2, 5):
                ours = hamming.Parts(parts).topk(some, 50, mask=mask, n_threads=threads)
                by_signs = hamming.Parts(parts).topk_signs(
                    np.ascontiguousarray(values[:, :n_queries]), 50, mask=mask, n_threads=threads
                )
                for found in (ours, by_signs):
                    np.testing.assert_array_equal(found[0], wanted[0])
                    np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.parametrize("length", [0, 1, 7, 50, 99, 100, 101, 1000])
def test_a_mask_of_any_length_is_safe(engine, rng, length):
    """Slots beyond it are not marked; on a sanitized build, they are not read either."""
    parts = made(rng, (60, 40), 3, 0.1)
    queries = np.stack([random(rng, 3, 3) for _ in range(2)])
    check(parts, queries, 30, np.ones(length, bool))
    check(parts, queries, 30, (rng.random(length) < 0.5) * rng.integers(1, 256, length, dtype=np.uint8))


@pytest.mark.parametrize("k", [1, 4, 50])
def test_without_queries_the_result_is_as_wide_as_with_some(engine, rng, k):
    parts = made(rng, (60, 40), 3, 0.1)
    for share in (0.0, 0.05, 1.0):
        mask = rng.random(90) < share
        wide = hamming.Parts(parts).topk(np.zeros((2, 1, 3), np.uint8), k, mask=mask)[0].shape[1]
        for found in (
            hamming.Parts(parts).topk(np.zeros((2, 0, 3), np.uint8), k, mask=mask),
            hamming.Parts(parts).topk_signs(np.zeros((2, 0, 24)), k, mask=mask),
        ):
            assert [array.shape for array in found] == [(0, wide), (0, wide)]


def test_a_value_that_is_not_finite_is_told_with_a_mask_too(engine, rng):
    parts = hamming.Parts(made(rng, (60, 40), 3, 0.1))
    values = rng.standard_normal((2, 2, 24))
    assert parts.topk_signs(values, 3, mask=np.zeros(100, bool))[0].shape == (2, 0)
    values[1, 1, 3] = np.nan
    assert parts.topk_signs(values, 3, mask=np.ones(100, bool)) is None


@pytest.mark.parametrize(
    "bad",
    [np.ones(100), np.ones(100, np.int8), np.ones((100, 1), bool), np.ones(200, bool)[::2], [True] * 100],
    ids=["float", "int8", "2-D", "strided", "list"],
)
def test_a_mask_that_cannot_be_read_by_address_is_refused(engine, rng, bad):
    parts = hamming.Parts(made(rng, (60, 40), 3, 0.1))
    for call in (
        lambda: parts.topk(np.zeros((2, 1, 3), np.uint8), 1, mask=bad),
        lambda: parts.topk_signs(np.zeros((2, 1, 24)), 1, mask=bad),
        lambda: hamming.marked(bad, 3),
    ):
        with pytest.raises(ValueError, match="mask must be"):
            call()


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 31, 63, 64, 65, 200, 1000])
def test_marked_places(engine, rng, n):
    for share in (0.0, 0.02, 0.5, 1.0):
        mask = rng.random(n) < share
        wanted = np.flatnonzero(mask)
        for some in (mask, mask * rng.integers(1, 256, n, dtype=np.uint8)):
            for most in (len(wanted), len(wanted) + 1, n):
                found = hamming.marked(some, most)
                assert found.dtype == np.uint32
                np.testing.assert_array_equal(found, wanted)
            for most in {len(wanted) // 2, max(0, len(wanted) - 1)} - {len(wanted)}:
                assert hamming.marked(some, most) is None


@pytest.mark.skipif(not _kernel.available(), reason="installed without a C compiler")
@pytest.mark.parametrize("portable", [False, True])
def test_never_more_places_are_written_than_there_is_room_for(rng, portable):
    """Even if the mask has got more of them since they were counted."""
    mask = rng.random(1000) < 0.5
    room = np.full(200, 7, np.uint32)
    found = _kernel.lib.hs_hamming_marked(mask.ctypes.data, 1000, 100, portable, room.ctypes.data)
    assert found == 101
    assert (room[100:] == 7).all()
