from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashstream.evaluate.ties import TiedRanking, group_sum, harmonic_gap, hypergeometric


@pytest.mark.parametrize("start", [0, 1, 5, 63, 64, 65, 1000, 2_500_000])
@pytest.mark.parametrize("length", [0, 1, 2, 17, 300])
def test_harmonic_gap_is_exact_to_rounding(start, length):
    exact = float(sum(Fraction(1, start + i) for i in range(1, length + 1)))
    got = harmonic_gap(np.array(start), np.array(length))
    np.testing.assert_allclose(got, exact, rtol=1e-13 if start < 64 else 1e-15, atol=0)


@given(st.integers(1, 40), st.data())
def test_group_sum_is_the_sum_over_places(t, data):
    r = data.draw(st.integers(0, t))
    n0 = data.draw(st.integers(0, 3_000_000))
    R0 = data.draw(st.integers(0, n0))
    a = Fraction(r - 1, t - 1) if t > 1 else Fraction(0)
    exact = sum(Fraction(r, t) * (R0 + 1 + (i - 1) * a) / (n0 + i) for i in range(1, t + 1))
    got = group_sum(*map(np.array, (n0, R0, t, r)))
    np.testing.assert_allclose(got, float(exact), rtol=1e-12, atol=1e-14 * max(r, 1))


@given(st.integers(1, 400), st.data())
def test_hypergeometric_is_the_exact_distribution(t, data):
    r, m = data.draw(st.integers(0, t)), data.draw(st.integers(1, t))
    x, p = hypergeometric(np.array([t]), np.array([r]), np.array([m]))
    exact = np.array([comb(r, i) * comb(t - r, m - i) / comb(t, m) if i <= m else 0.0 for i in range(r + 1)])
    got = np.zeros(r + 1)
    np.add.at(got, x[0][p[0] > 0].astype(int), p[0][p[0] > 0])
    np.testing.assert_allclose(got, exact, rtol=1e-11, atol=1e-18)


def test_hypergeometric_of_millions_keeps_its_moments():
    t, r, m = np.array([2_000_000, 50]), np.array([300_000, 7]), np.array([1_000_000, 50])
    x, p = hypergeometric(t, r, m)
    mean = (x * p).sum(axis=1)
    variance = ((x - mean[:, None]) ** 2 * p).sum(axis=1)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(mean, m * r / t, rtol=1e-12)
    np.testing.assert_allclose(variance, m * r / t * (t - r) / t * (t - m) / (t - 1), rtol=1e-9, atol=1e-20)


def test_one_group_cut_inside_has_the_value_of_its_few_cases():
    """Four tied items, one relevant, two places: it is first (AP 1), second (AP 1/2) or outside (no AP)."""
    value, weight = TiedRanking(np.array([[4]]), np.array([[1]])).average_precision_at(2)
    np.testing.assert_allclose(weight, 1 / 2)
    np.testing.assert_allclose(value, 3 / 4)


def test_a_query_that_cannot_hit_has_no_value():
    value, weight = TiedRanking(np.array([[2, 3]]), np.array([[0, 1]])).average_precision_at(2)
    assert np.isnan(value)
    assert weight == 0


@settings(max_examples=50)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=12).filter(any), st.data())
def test_a_cut_past_the_last_place_is_no_cut(total, data):
    relevant = [data.draw(st.integers(0, t)) for t in total]
    ranking = TiedRanking(np.array([total]), np.array([relevant]))
    value, weight = ranking.average_precision_at(sum(total) + 5)
    np.testing.assert_allclose(value, ranking.average_precision(), rtol=1e-12)
    assert weight == (1 if any(relevant) else 0)


def test_blocks_of_queries_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(3)
    total = rng.integers(0, 200, (50, 9))
    ranking = TiedRanking(total, rng.binomial(total, 0.2))
    whole = ranking.average_precision_at(300)
    monkeypatch.setattr("hashstream.evaluate.ties.BLOCK", 1)
    np.testing.assert_allclose(np.array(ranking.average_precision_at(300)), np.array(whole), rtol=1e-13)
