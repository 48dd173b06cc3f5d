import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score
from slow_metrics import all_orders, mean_of_valued, relevance, stable

import hashstream as hs

CUTS = {"at": (1, 3, 50), "radius": (0, 1, 2, 90), "k": (1, 2, 5, 40)}


def pack(bits):
    return np.packbits(np.asarray(bits, np.uint8), axis=1)


def score(q_bits, q_labels, d_bits, d_labels, **options):
    options = CUTS | {"per_query": True} | options
    n_bits = np.shape(d_bits)[1]
    return hs.evaluate.retrieval(pack(q_bits), q_labels, pack(d_bits), d_labels, n_bits=n_bits, **options)


def case(rng, n, n_bits, q=3, classes=3, multi=False):
    """Random codes and labels; the last query has a label that nobody else has."""
    q_bits, d_bits = rng.integers(0, 2, (q, n_bits)), rng.integers(0, 2, (n, n_bits))
    if not multi:
        q_labels = rng.integers(0, classes, q)
        q_labels[-1] = 99
        return q_bits, q_labels, d_bits, rng.integers(0, classes, n)
    q_labels, d_labels = (rng.random((m, 5)) < 0.35 for m in (q, n))
    q_labels[-1], q_labels[-1, 4], d_labels[:, 4] = False, True, False
    return q_bits, q_labels.astype(int), d_bits, d_labels.astype(int)


def check_names(scores, multi):
    names = [
        "mAP",
        "mAP@1",
        "mAP@3",
        "mAP@50",
        "precision@H0",
        "precision@H1",
        "precision@H2",
        "precision@H90",
    ]
    names += ["precision@1", "precision@2", "precision@5", "precision@40"]
    assert list(scores) == names + (["nDCG", "nDCG@1", "nDCG@3", "nDCG@50"] if multi else [])
    assert all(type(value) is float for value in scores.values())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 40), st.booleans())
def test_paper_rule_is_a_stable_sort(seed, n, n_bits, multi):
    q_bits, q_labels, d_bits, d_labels = case(np.random.default_rng(seed), n, n_bits, multi=multi)
    scores = score(q_bits, q_labels, d_bits, d_labels, ties="paper")
    check_names(scores, multi)
    slow = [stable(b, relevance(y, d_labels), d_bits, **CUTS) for b, y in zip(q_bits, q_labels, strict=True)]
    for name, values in scores.per_query.items():
        if name.startswith("hit@"):
            expected = [float(not np.isnan(s["AP" + name[3:]])) for s in slow]
        else:
            expected = [s[name] for s in slow]
        np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=name)
    for name, value in scores.items():
        expected = mean_of_valued([s[name.removeprefix("m")] for s in slow])
        np.testing.assert_allclose(value, expected, rtol=1e-12, err_msg=name)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 4), st.booleans())
def test_aware_rule_is_the_mean_over_all_orders(seed, n, n_bits, multi):
    q_bits, q_labels, d_bits, d_labels = case(np.random.default_rng(seed), n, n_bits, multi=multi)
    scores = score(q_bits, q_labels, d_bits, d_labels)
    check_names(scores, multi)
    orders = [
        all_orders(b, relevance(y, d_labels), d_bits, **CUTS) for b, y in zip(q_bits, q_labels, strict=True)
    ]
    for name, values in scores.per_query.items():
        if name.startswith("hit@"):
            expected = [np.mean([not np.isnan(o["AP" + name[3:]]) for o in each]) for each in orders]
        else:
            expected = [mean_of_valued([o[name] for o in each]) for each in orders]
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14, err_msg=name)
    for name, value in scores.items():
        # All pairs of a query and an order, those without a value left out; each query has the same number of
        # orders here once they are repeated to a common count.
        size = np.lcm.reduce([len(each) for each in orders])
        valued = [(o[name.removeprefix("m")], size // len(each)) for each in orders for o in each]
        values, weights = (np.array(column, float) for column in zip(*valued, strict=True))
        kept = ~np.isnan(values)
        expected = (values[kept] @ weights[kept]) / weights[kept].sum() if kept.any() else np.nan
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("multi", [False, True])
def test_aware_rule_is_what_random_database_orders_give_on_average(multi):
    rng = np.random.default_rng(5)
    q_bits, q_labels, d_bits, d_labels = case(rng, 300, 6, q=4, multi=multi)
    cuts = {"at": (7, 100), "k": (5, 60), "radius": (1,)}
    aware = score(q_bits, q_labels, d_bits, d_labels, **cuts).per_query
    drawn = []
    for _ in range(400):
        order = rng.permutation(300)
        drawn.append(score(q_bits, q_labels, d_bits[order], d_labels[order], ties="paper", **cuts).per_query)
    for name, values in aware.items():
        samples = np.array([each[name] for each in drawn])
        for i, value in enumerate(values):
            valued = samples[:, i][~np.isnan(samples[:, i])]
            assert len(valued) or np.isnan(value)
            if len(valued):
                error = valued.std() / np.sqrt(len(valued)) + 1e-12
                assert abs(valued.mean() - value) < 5 * error, (name, i)


@pytest.mark.parametrize("ties", ["aware", "paper"])
def test_without_ties_sklearn_agrees(ties):
    """Item i is at distance i: codes of 0, 1, 2, ... leading ones."""
    rng = np.random.default_rng(1)
    d_bits = np.tri(60, 60, -1, dtype=int)[rng.permutation(60)]
    labels, multi = rng.integers(0, 2, 60), (rng.random((60, 4)) < 0.4).astype(int)
    similarity = -d_bits.sum(axis=1)
    zero = np.zeros((1, 60))
    got = score(zero, [1], d_bits, labels, ties=ties)
    assert got["mAP"] == pytest.approx(average_precision_score(labels, similarity), abs=1e-12)
    grades = 2.0 ** multi.sum(axis=1) - 1
    got = score(zero, np.ones((1, 4)), d_bits, multi, ties=ties)
    assert got["nDCG"] == pytest.approx(ndcg_score([grades], [similarity]), abs=1e-12)
    assert got["nDCG@3"] == pytest.approx(ndcg_score([grades], [similarity], k=3), abs=1e-12)


def test_aware_ndcg_agrees_with_sklearn_on_ties():
    rng = np.random.default_rng(2)
    q_bits, q_labels, d_bits, d_labels = case(rng, 200, 5, q=6, multi=True)
    got = score(q_bits, q_labels, d_bits, d_labels, at=(20,)).per_query
    for i in range(5):
        grades = 2.0 ** (d_labels @ q_labels[i]) - 1
        similarity = -(d_bits != q_bits[i]).sum(axis=1)
        if grades.any():
            assert got["nDCG"][i] == pytest.approx(ndcg_score([grades], [similarity]), abs=1e-12)
            assert got["nDCG@20"][i] == pytest.approx(ndcg_score([grades], [similarity], k=20), abs=1e-12)


@pytest.mark.parametrize("ties", ["aware", "paper"])
def test_an_indicator_matrix_of_classes_is_class_labels(ties):
    q_bits, q_labels, d_bits, d_labels = case(np.random.default_rng(7), 150, 8, q=5)
    q_labels[-1] = 3
    eye = np.eye(4, dtype=bool)
    one = score(q_bits, q_labels, d_bits, d_labels, ties=ties)
    many = score(q_bits, eye[q_labels], d_bits, eye[d_labels], ties=ties)
    assert {name: many[name] for name in one} == pytest.approx(one, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("ties", ["aware", "paper"])
@pytest.mark.parametrize("multi", [False, True])
def test_blocks_and_memory_order_change_nothing(ties, multi, monkeypatch):
    q_bits, q_labels, d_bits, d_labels = case(np.random.default_rng(8), 90, 20, q=9, multi=multi)
    whole = score(q_bits, q_labels, d_bits, d_labels, ties=ties)
    for module in ("scores", "ndcg", "ties"):
        monkeypatch.setattr(f"hashstream.evaluate.{module}.BLOCK", 50)
    codes = np.asfortranarray(pack(d_bits))
    cut = hs.evaluate.retrieval(
        pack(q_bits)[::-1], q_labels[::-1], codes, d_labels, ties=ties, n_bits=20, n_threads=1, **CUTS
    )
    assert cut == pytest.approx(whole, rel=1e-12)


def test_aware_does_not_see_the_order_of_the_database():
    q_bits, q_labels, d_bits, d_labels = case(np.random.default_rng(9), 400, 5, q=5)
    by_class = np.argsort(d_labels)
    one = score(q_bits, q_labels, d_bits, d_labels)
    two = score(q_bits, q_labels, d_bits[by_class], d_labels[by_class])
    assert one == two
    assert score(q_bits, q_labels, d_bits, d_labels, ties="paper") != one


def test_rows_name_the_rule_and_keys_do_not():
    q_bits, q_labels, d_bits, d_labels = case(np.random.default_rng(0), 20, 8)
    for ties in ("aware", "paper"):
        scores = score(q_bits, q_labels, d_bits, d_labels, ties=ties, per_query=False)
        assert scores.ties == ties
        assert scores.per_query == {}
        rows = scores.rows(dataset="toy", run=1)
        assert [row["metric"] for row in rows] == [f"{name}[{ties}]" for name in scores]
        assert rows[0] == {"dataset": "toy", "run": 1, "metric": f"mAP[{ties}]", "value": scores["mAP"]}


@pytest.mark.parametrize("ties", ["aware", "paper"])
def test_nothing_relevant_is_nan_not_zero(ties):
    scores = score([[0, 0]], [1], [[0, 0], [1, 1]], [2, 2], ties=ties)
    assert np.isnan(scores["mAP"])
    assert np.isnan(scores["mAP@3"])
    assert scores["precision@1"] == 0


def test_input_is_not_written_to():
    args = [np.zeros((2, 1), np.uint8), np.array([0, 1]), np.zeros((3, 1), np.uint8), np.array([0, 1, 1])]
    for array in args:
        array.setflags(write=False)
    hs.evaluate.retrieval(*args)
    hs.evaluate.retrieval(*args, ties="paper")
