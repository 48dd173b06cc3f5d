"""`MultiIndex` has the answers of the scan, to the last index, for any codes, queries, masks and sizes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from hashstream import hamming
from hashstream.hamming import Among, MultiIndex, _multi, _substrings
from hashstream.hamming._multi_kernel import EVERY, GIVEN_UP, Asked, Budget, Place

KINDS = ("random", "clustered", "repeated", "equal", "sorted", "two-valued")


def codes_of(kind: str, n: int, n_bits: int, seed: int = 0) -> np.ndarray:
    """Codes of `n_bits` bits, whose padding is zero."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (n, n_bits), np.uint8)
    if kind == "clustered":  # ten centres, a tenth of the bits flipped, half of the bits copies of the others
        centres = rng.integers(0, 2, (10, n_bits), np.uint8)
        bits = centres[rng.integers(0, 10, n)] ^ (rng.random((n, n_bits)) < 0.1)
        bits[:, n_bits // 2 :] = bits[:, : n_bits - n_bits // 2]
    elif kind == "repeated":  # few distinct codes, very unequally often
        bits = bits[np.minimum(rng.geometric(0.01, n), n) - 1]
    elif kind == "equal":
        bits[:] = bits[0]
    elif kind == "two-valued":
        bits[:] = bits[rng.integers(0, 2, n)]
    codes = np.packbits(bits, axis=1)
    return codes[np.lexsort(codes.T)] if kind == "sorted" else codes


def queries_of(codes: np.ndarray, n_bits: int, seed: int = 1) -> np.ndarray:
    """Codes themselves, codes with some bits flipped, random ones, and the opposites of codes."""
    rng = np.random.default_rng(seed)
    some = np.unpackbits(codes[rng.integers(0, len(codes), 24)], axis=1, count=n_bits)
    some[6:12] ^= rng.random((6, n_bits)) < 0.1
    some[12:18] = rng.integers(0, 2, (6, n_bits))
    some[18:] ^= 1
    return np.packbits(some, axis=1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Index few codes as well, and look up as long as it takes, unless a test says otherwise."""
    monkeypatch.setattr(_multi, "LEAST_CODES", 2)
    monkeypatch.setattr(_multi, "IN_CACHE", 1e9)  # scanning seems to take very long
    monkeypatch.setattr(_multi, "SAMPLE", 2)
    monkeypatch.setattr(_multi, "CALL", 0)


def agree(
    index: MultiIndex, codes: np.ndarray, Q: np.ndarray, k: int, mask: np.ndarray | None = None
) -> None:
    found, wanted = index.topk(Q, k, among=Among(mask)), hamming.topk(Q, codes, k, subset=mask)
    np.testing.assert_array_equal(found.distances, wanted.distances)
    np.testing.assert_array_equal(found.indices, wanted.indices)


def agree_within(
    index: MultiIndex, codes: np.ndarray, Q: np.ndarray, radius: int, mask: np.ndarray | None = None
) -> None:
    found, wanted = index.radius(Q, radius, among=Among(mask)), hamming.radius(Q, codes, radius, subset=mask)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_bits", [5, 12, 16, 31, 32, 48, 64, 100])
def test_answers_are_those_of_the_scan(kind: str, n_bits: int) -> None:
    codes = codes_of(kind, 3000, n_bits)
    Q = queries_of(codes, n_bits)
    index = MultiIndex(codes)
    for k in (1, 10, 250):
        agree(index, codes, Q, k)
    for radius in (0, 1, 2, 5):
        agree_within(index, codes, Q, radius)


def values_of(Q: np.ndarray, n_bits: int, scale: str, seed: int = 2) -> np.ndarray:
    """Real values whose signs are codes, as far as they are not zero."""
    rng = np.random.default_rng(seed)
    values = np.abs(rng.standard_normal((len(Q), n_bits)))
    if scale == "uneven":
        values *= 10.0 ** rng.integers(-6, 6, values.shape)
    elif scale == "whole":  # costs tie
        values = np.ceil(2 * values)
    elif scale == "zero":
        values[rng.random(values.shape) < 0.3] = 0
        values[0] = 0
    return np.where(np.unpackbits(Q, axis=1, count=n_bits), values, -values)


def agree_weighted(
    index: MultiIndex, codes: np.ndarray, V: np.ndarray, k: int, mask: np.ndarray | None = None
) -> None:
    found = index.weighted_topk(V, k, among=Among(mask))
    wanted = hamming.weighted_topk(V, codes, k, subset=mask)
    assert found.distances.tobytes() == wanted.distances.tobytes()
    np.testing.assert_array_equal(found.indices, wanted.indices)


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_bits", [5, 16, 31, 64, 100])
@pytest.mark.parametrize("scale", ["even", "uneven", "whole", "zero"])
def test_costs_are_those_of_the_scan(
    kind: str, n_bits: int, scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = codes_of(kind, 3000, n_bits)
    V = values_of(queries_of(codes, n_bits), n_bits, scale)
    index = MultiIndex(codes)
    monkeypatch.setattr(_multi, "IN_CACHE", 1e3)  # a set of 2^24 places is not walked through
    mask = np.random.default_rng(3).random(3000) < 0.4
    for k in (1, 10, 100):
        agree_weighted(index, codes, V, k)
        agree_weighted(index, codes, V, k, mask)
    agree_weighted(index, codes, V[:1], 3)


@pytest.mark.parametrize("n_bits", [128, 200, 256])
def test_long_codes(n_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_substrings, "PLACES", 1 << 30)  # the codes are few for their length
    codes = codes_of("clustered", 2000, n_bits)
    index = MultiIndex(codes)
    assert sum(map(len, index.substrings)) == n_bits
    Q = codes[:20] ^ np.packbits(np.random.default_rng(0).random((20, n_bits)) < 0.01, axis=1)
    agree(index, codes, Q, 5)
    agree_within(index, codes, Q, 3)


@pytest.mark.parametrize("n", [2, 3, 7, 100, 257])
@pytest.mark.parametrize("seed", range(5))
def test_few_codes(n: int, seed: int) -> None:
    codes = codes_of("random", n, 16, seed)
    index = MultiIndex(codes)
    Q = queries_of(codes, 16, seed)
    for k in (1, n - 1, n, n + 5):
        agree(index, codes, Q, max(1, k))
    agree_within(index, codes, Q, 16)


@pytest.mark.thinned("values")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
def test_a_mask_hides_codes(kind: str, share: float) -> None:
    codes = codes_of(kind, 4000, 40)
    mask = np.random.default_rng(2).random(len(codes)) < share
    index, Q = MultiIndex(codes), queries_of(codes, 40)
    for k in (1, 20):
        agree(index, codes, Q, k, mask)
    agree_within(index, codes, Q, 3, mask)


@pytest.mark.parametrize("budget", [0.0, 1e-3, 0.05, 0.3])
@pytest.mark.parametrize("kind", ["random", "clustered", "repeated"])
def test_queries_that_are_given_up_are_scanned(
    kind: str, budget: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = codes_of(kind, 20_000, 64)
    index, Q = MultiIndex(codes), queries_of(codes, 64)
    monkeypatch.setattr(_multi, "IN_CACHE", 1.0)
    monkeypatch.setattr(_multi, "SHARE", 200 * budget)  # some are finished within it, and some are not
    agree(index, codes, Q, 10)
    agree(index, codes, Q[:1], 10)
    agree_within(index, codes, Q, 4)
    agree_within(index, codes, Q[:1], 40)
    values = values_of(Q, 64, "even")
    agree_weighted(index, codes, values, 10)
    agree_weighted(index, codes, values[12:13], 10)  # one alone is scanned in the same call


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_surely_finishes_may_cost_as_much_as_a_scan(kind: str, alone: bool) -> None:
    codes = codes_of(kind, 3000, 32)
    index, Q = MultiIndex(codes), queries_of(codes, 32)
    wanted = hamming.topk(Q, codes, 10)
    assert index._tables is not None
    tried, finished = np.geomspace(100, 1e6, 40).tolist(), {0.0: 0, 1e9: 0}
    for last in finished:
        for steps in tried:
            for some in np.split(np.arange(len(Q)), len(Q) if alone else 1):
                asked = Asked(Place(codes), Q[some], EVERY, 1)
                far, rows, counts = index._tables.topk(asked, 10, Budget(steps, last))
                done = counts != GIVEN_UP
                np.testing.assert_array_equal(far[done], wanted.distances[some][done])
                np.testing.assert_array_equal(rows[done], wanted.indices[some][done])
                finished[last] += int(done.sum())
    if alone:  # what was given up has been scanned
        assert set(finished.values()) == {len(tried) * len(Q)}
    else:
        assert finished[0.0] < finished[1e9] or (
            kind not in ("random", "sorted") and finished[0.0] == finished[1e9]
        )


@pytest.mark.parametrize("budget", [1e9, 3.0])
@pytest.mark.parametrize("kind", ["random", "clustered", "repeated"])
def test_slots_dead_rows_and_a_beginning(kind: str, budget: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    codes = codes_of(kind, 6000, 48)
    slots = np.sort(rng.choice(20_000, 6000, replace=False)).astype(np.uint32)
    dead = np.sort(rng.choice(6000, 500, replace=False))
    index, Q = MultiIndex(codes), queries_of(codes, 48)
    monkeypatch.setattr(_multi, "IN_CACHE", 1.0)
    monkeypatch.setattr(_multi, "SHARE", budget)
    for begin in (0, 1234, 5990):
        for mask in (None, rng.random(15_000) < 0.5, rng.random(20_000) < 0.001):
            alive = np.ones(6000, bool)
            alive[dead] = False
            alive[:begin] = False
            if mask is not None:
                alive &= np.append(mask, np.zeros(20_000 - len(mask), bool))[slots]
            among = Among(mask, slots, dead, begin)
            found, wanted = index.topk(Q, 7, among=among), hamming.topk(Q, codes, 7, subset=alive)
            np.testing.assert_array_equal(found.distances, wanted.distances)
            np.testing.assert_array_equal(found.indices, slots[wanted.indices])
            near, all_near = index.radius(Q, 6, among=among), hamming.radius(Q, codes, 6, subset=alive)
            np.testing.assert_array_equal(near.offsets, all_near.offsets)
            np.testing.assert_array_equal(near.distances, all_near.distances)
            np.testing.assert_array_equal(near.indices, slots[all_near.indices])
            V = values_of(Q, 48, "whole")
            cheap, cheapest = (
                index.weighted_topk(V, 7, among=among),
                hamming.weighted_topk(V, codes, 7, subset=alive),
            )
            np.testing.assert_array_equal(cheap.distances, cheapest.distances)
            np.testing.assert_array_equal(cheap.indices, slots[cheapest.indices])


@pytest.mark.parametrize("kind", ["equal", "two-valued", "repeated", "random"])
def test_substrings_are_chosen_by_few_codes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_multi, "OTHERS", 4)
    codes = codes_of(kind, 5000, 64)
    index = MultiIndex(codes)
    assert sum(map(len, index.substrings)) in (64, int(np.unpackbits(codes[0]).nonzero()[0][-1]) + 1)
    agree(index, codes, queries_of(codes, 64), 10)


def test_the_same_codes_give_the_same_index() -> None:
    codes = codes_of("clustered", 6000, 64)
    one, other = MultiIndex(codes), MultiIndex(codes)
    for bits, same in zip(one.substrings, other.substrings, strict=True):
        np.testing.assert_array_equal(bits, same)


def test_equal_codes_are_entered_once() -> None:
    few = codes_of("random", 50, 64)
    codes = few[np.random.default_rng(3).integers(0, 50, 20_000)]
    index = MultiIndex(codes)
    assert index.n_distinct == 50
    assert MultiIndex(codes_of("random", 20_000, 64)).n_distinct == 20_000
    agree(index, codes, few, 600)


@pytest.mark.parametrize(("n", "n_bits"), [(30_000, 32), (150_000, 64), (150_000, 128), (60_000, 256)])
@pytest.mark.parametrize("kind", ["random", "repeated"])
def test_memory_is_bounded_by_the_number_of_codes(kind: str, n: int, n_bits: int) -> None:
    index = MultiIndex(codes_of(kind, n, n_bits))
    m = len(index.substrings)
    assert index.nbytes <= max(18, 2.25 * n_bits // 8) * n + (1 << 20) + m * 4 * (
        256 * n_bits // 8 + n_bits + 1
    )


def test_all_threads_give_the_same() -> None:
    codes = codes_of("clustered", 30_000, 64)
    index, Q = MultiIndex(codes), queries_of(codes, 64)
    one, three = index.topk(Q, 10, n_threads=1), index.topk(Q, 10, n_threads=3)
    np.testing.assert_array_equal(one.indices, three.indices)
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(index.topk(Q, 10).indices)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, one.indices)


def test_codes_without_an_index_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_multi, "LEAST_CODES", 4096)
    for codes in (codes_of("random", 100, 64), codes_of("random", 5000, 512)):
        index = MultiIndex(codes)
        assert index.substrings == []
        assert index.nbytes == 0
        agree(index, codes, codes[:5], 3)
        agree_within(index, codes, codes[:5], 2)
    empty = MultiIndex(np.empty((0, 8), np.uint8))
    assert empty.topk(np.zeros((2, 8), np.uint8), 3).indices.shape == (2, 0)


def test_wrong_arguments_are_refused() -> None:
    index = MultiIndex(codes_of("random", 100, 64))
    Q = np.zeros((1, 8), np.uint8)
    with pytest.raises(ValueError, match="k must be at least 1"):
        index.topk(Q, 0)
    with pytest.raises(ValueError, match="radius must be at least 0"):
        index.radius(Q, -1)
    with pytest.raises(ValueError, match="queries have 7 bytes"):
        index.topk(Q[:, :7], 1)
    with pytest.raises(ValueError, match="one entry per code: got 3 for 100"):
        index.topk(Q, 1, among=Among(np.ones(3, bool)))
    with pytest.raises(ValueError, match="dead and begin need slots"):
        index.topk(Q, 1, among=Among(begin=3))
    with pytest.raises(ValueError, match=r"slots must be uint32 of shape \(100,\)"):
        index.topk(Q, 1, among=Among(slots=np.arange(99, dtype=np.uint32)))
    with pytest.raises(ValueError, match="uint8"):
        MultiIndex(np.zeros((10, 8)))


def test_without_queries_nothing_is_found() -> None:
    index = MultiIndex(codes_of("random", 5000, 64))
    none = np.empty((0, 8), np.uint8)
    assert index.topk(none, 3).indices.shape == (0, 3)
    assert index.radius(none, 3).offsets.tolist() == [0]


@pytest.mark.parametrize("dead", [[5000, 5001], [3, 2], [2, 2], [-1]])
def test_dead_rows_that_are_none_are_refused(dead: list[int]) -> None:
    codes = codes_of("random", 5000, 64)
    among = Among(slots=np.arange(5000, dtype=np.uint32), dead=np.array(dead))
    with pytest.raises(ValueError, match="dead must be ascending rows from 0 to 4999, each once"):
        MultiIndex(codes).topk(codes[:3], 3, among=among)


def test_where_all_rows_are_dead_nothing_is_found() -> None:
    codes = codes_of("random", 5000, 64)
    among = Among(slots=np.arange(5000, dtype=np.uint32), dead=np.arange(5000))
    found = MultiIndex(codes).topk(codes[:3], 3, among=among)
    assert found.indices.shape == (3, 0)
    assert MultiIndex(codes).radius(codes[:3], 3, among=among).offsets.tolist() == [0, 0, 0, 0]


def test_codes_may_be_moved_but_not_replaced_by_others_of_another_shape() -> None:
    codes = codes_of("random", 5000, 64)
    index = MultiIndex(codes)
    index.codes = codes.copy()
    agree(index, codes, codes[:5], 3)
    with pytest.raises(ValueError, match=r"codes must stay C-contiguous uint8 of shape \(5000, 8\)"):
        index.codes = codes[:1].copy()
