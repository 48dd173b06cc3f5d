"""Every function, every engine, on small input, against the definitions in slow_hamming.py."""

from __future__ import annotations

import numpy as np
import pytest
import slow_hamming as slow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hashstream import hamming

relaxed = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def problems(draw: st.DrawFn, max_codes: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Queries and codes of one width; few distinct bytes, so that ties and equal codes are common."""
    width = draw(st.one_of(st.integers(1, 9), st.sampled_from([16, 24, 31, 32, 33, 63, 127, 128])))
    n_queries, n_codes = draw(st.integers(0, 6)), draw(st.integers(0, max_codes))
    alphabet = draw(st.sampled_from([[0], [0, 255], [0, 1], [1, 2, 4, 128], list(range(256))]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pick = np.array(alphabet, np.uint8)
    return rng.choice(pick, (n_queries, width)), rng.choice(pick, (n_codes, width))


@relaxed
@given(problem=problems(), threads=st.sampled_from([1, 3]))
def test_distances(engine, problem, threads):
    queries, codes = problem
    found = hamming.distances(queries, codes, n_threads=threads)
    assert found.dtype == np.uint16
    assert found.shape == (len(queries), len(codes))
    assert found.tolist() == [[slow.distance(q, c) for c in codes] for q in queries]


@relaxed
@given(problem=problems(), k=st.integers(1, 100), data=st.data())
def test_topk(engine, problem, k, data):
    queries, codes = problem
    rows = data.draw(st.none() | st.lists(st.integers(0, max(0, len(codes) - 1)), max_size=2 * len(codes)))
    rows = rows if len(codes) else None
    subset = None if rows is None else np.array(rows, np.int64)
    far, where = hamming.topk(queries, codes, k, subset=subset, n_threads=1)
    assert (far.dtype, where.dtype) == (np.uint16, np.int64)
    allowed = None if rows is None else sorted(set(rows))
    expected = [slow.ranking(q, codes, allowed)[:k] for q in queries]
    assert [
        list(zip(*row, strict=True)) for row in zip(far.tolist(), where.tolist(), strict=True)
    ] == expected
    assert far.shape == (len(queries), min(k, len(codes if allowed is None else allowed)))


@relaxed
@given(problem=problems(), radius=st.integers(0, 1100), data=st.data())
def test_radius(engine, problem, radius, data):
    queries, codes = problem
    mask = data.draw(st.none() | st.lists(st.booleans(), min_size=len(codes), max_size=len(codes)))
    subset = None if mask is None else np.array(mask, bool)
    offsets, far, where = hamming.radius(queries, codes, radius, subset=subset, n_threads=1)
    assert (offsets.dtype, far.dtype, where.dtype) == (np.int64, np.uint16, np.int64)
    assert len(offsets) == len(queries) + 1
    assert len(far) == len(where) == offsets[-1]
    allowed = None if subset is None else np.flatnonzero(subset).tolist()
    for i, query in enumerate(queries):
        expected = [pair for pair in slow.ranking(query, codes, allowed) if pair[0] <= radius]
        mine = slice(offsets[i], offsets[i + 1])
        assert list(zip(far[mine].tolist(), where[mine].tolist(), strict=True)) == expected


@relaxed
@given(problem=problems())
def test_rank(engine, problem):
    queries, codes = problem
    order = hamming.rank(queries, codes)
    assert order.dtype == np.int32
    assert order.shape == (len(queries), len(codes))
    assert order.tolist() == [[row for _, row in slow.ranking(q, codes)] for q in queries]


@relaxed
@given(
    problem=problems(),
    kind=st.sampled_from(["classes", "large classes", "indicators", "words"]),
    data=st.data(),
)
def test_histogram_and_stable_scores(engine, problem, kind, data):
    queries, codes = problem
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    if kind in ("classes", "large classes"):
        scale = 2**40 if kind == "large classes" else 1
        labels = tuple(rng.integers(-2, 2, len(side)) * scale for side in problem)
        relevant = [[bool(ours == theirs) for theirs in labels[1]] for ours in labels[0]]
    else:
        labels = tuple(rng.random((len(side), 70)) < 0.05 for side in problem)
        relevant = [[bool((ours & theirs).any()) for theirs in labels[1]] for ours in labels[0]]
        if kind == "words":
            labels = tuple(hamming.pack_labels(side) for side in labels)
    n_bits = 8 * codes.shape[1]
    total, hits = hamming.histogram(queries, codes, labels=labels)
    scores = hamming.stable_scores(queries, codes, labels, at=(1, 20), k=(3, 1000), radius=(0, 2, 4000))
    assert total.shape == hits.shape == (len(queries), n_bits + 1)
    assert total.dtype == hits.dtype == np.int64
    np.testing.assert_array_equal(scores.total, total)
    np.testing.assert_array_equal(scores.relevant, hits)
    np.testing.assert_array_equal(hamming.histogram(queries, codes).total, total)
    for i, query in enumerate(queries):
        far = [slow.distance(query, code) for code in codes]
        assert total[i].tolist() == [far.count(d) for d in range(n_bits + 1)]
        assert hits[i].tolist() == [
            sum(r for d, r in zip(far, relevant[i], strict=True) if d == bin) for bin in range(n_bits + 1)
        ]
        precision, cut_precision, cut_hits = slow.scores(query, codes, relevant[i], [1, 20, 3, 1000])
        assert scores.precision_sum[i] == pytest.approx(precision, rel=1e-12)
        assert scores.n_relevant[i] == sum(relevant[i])
        assert scores.at_precision_sum[i].tolist() == pytest.approx(cut_precision[:2], rel=1e-12)
        assert scores.at_hits[i].tolist() == cut_hits[:2]
        assert scores.k_hits[i].tolist() == cut_hits[2:]
        balls = [[r for d, r in zip(far, relevant[i], strict=True) if d <= within] for within in (0, 2, 4000)]
        assert scores.ball_size[i].tolist() == [len(ball) for ball in balls]
        assert scores.ball_hits[i].tolist() == [sum(ball) for ball in balls]


def test_n_bits_sets_the_number_of_bins(engine, rng):
    bits = rng.random((30, 13)) < 0.5
    codes = hamming.pack(bits)
    total, _ = hamming.histogram(codes[:4], codes, n_bits=13)
    expected = (bits[:4, None] != bits[None]).sum(axis=2)
    assert total.shape == (4, 14)
    assert total.tolist() == [np.bincount(row, minlength=14).tolist() for row in expected]
    np.testing.assert_array_equal(hamming.unpack(codes, 13), bits)
    with pytest.raises(ValueError, match="after their 13 bits"):
        hamming.histogram(np.zeros((1, 2), np.uint8), np.full((1, 2), 255, np.uint8), n_bits=13)


def test_results_have_names_and_an_order(engine, rng):
    codes = hamming.pack(rng.random((30, 16)) < 0.5)
    found = hamming.topk(codes[:4], codes, 3)
    assert found._fields == ("distances", "indices")
    distances, indices = found
    assert distances is found.distances
    assert indices is found.indices
    assert hamming.weighted_topk(rng.standard_normal((4, 16)), codes, 3)._fields == found._fields
    assert hamming.radius(codes[:4], codes, 3)._fields == ("offsets", "distances", "indices")
