import numpy as np
import pytest

import hashstream as hs
from hashstream.evaluate.inputs import match_labels

Q, D = np.zeros((2, 1), np.uint8), np.zeros((3, 1), np.uint8)
GOOD = (Q, [0, 1], D, [0, 1, 1])


@pytest.mark.parametrize(
    ("q", "d"),
    [
        ([3, 1, 7], [1, 3, 3, 1]),
        (["b", "a", "zebra"], ["a", "b", "b", "a"]),
        (np.array(["b", "a", "zebra"], object), ["a", "b", "b", "a"]),
        (np.array([(1, 2), None, "x"], object), np.array([None, (1, 2), (1, 2), None], object)),
        ([(1, 2), (1, 3), (9, 9)], [(1, 3), (1, 2), (1, 2), (1, 3)]),
        (["a", "a\0", "b"], ["a\0", "a", "a", "a\0"]),
        (np.array([-128, 127, 0], np.int8), np.array([127, -128, -128, 127], np.int8)),
        (np.array([-128, 127, 0], np.int8), np.array([127, 200, 127, 2**63], np.uint64)),
        ([None, "a", "b"], ["b", None, None, "a"]),
        ([float("nan"), 1.0, 2.0], [float("nan"), 1.0, 1.0, float("nan")]),
        (np.array([1, 2, 3]), [None, 1, 2, None]),
        ([None, None, None], [1, 2, 3, 4]),
        (["a", "b", "c"], [None, None, None, None]),
        (np.array([2**63 + 1, 5, 2**63], np.uint64), np.array([5, 2**63 + 1, 2**63 + 1, 5], np.uint64)),
        (np.array([2**60 + 1, 5, 2**60], np.int64), np.array([5, 2**60 + 1, 2**60 + 1, 5], np.uint64)),
        (np.array([True, False, True]), np.array([0.0, 1.0, 1.0, 0.0])),
        (np.array([1.5, 0.5, 9.0]), np.array([0.5, 1.5, 1.5, 0.5], np.float32)),
    ],
)
def test_any_labels_are_matched_by_equality(q, d):
    got_q, got_d = match_labels(q, d, 3, 4)
    q, d = (side.tolist() if isinstance(side, np.ndarray) else side for side in (q, d))
    expected = [[a is not None and a == b for b in d] for a in q]
    assert (got_q[:, None] == got_d[None]).tolist() == expected


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({0: np.zeros((0, 1), np.uint8), 1: []}, "query_codes are empty"),
        ({2: np.zeros((0, 1), np.uint8), 3: []}, "db_codes are empty"),
        ({0: np.zeros((2, 1))}, "query_codes are float64"),
        ({0: np.zeros(2, np.uint8)}, r"shape \(2,\)"),
        ({0: np.zeros((2, 2), np.uint8)}, "2 bytes per code and db_codes 1"),
        ({1: [0]}, "query_labels have 1 rows for 2 codes"),
        ({3: [0, 1]}, "db_labels have 2 rows for 3 codes"),
        ({1: ["a", "b"]}, "query_labels are strings and db_labels numbers"),
        ({1: [b"a", b"b"], 3: ["a", "b", "c"]}, "byte strings"),
        ({1: [0.0, np.inf]}, r"query_labels\[1\] is inf"),
        ({1: np.array([[], {}], object)[:, None][:, 0]}, "hashable"),
        ({1: np.eye(2)}, "1-D"),
        ({1: np.eye(2), 3: np.eye(3)}, "2 columns and db_labels 3"),
        ({1: np.eye(2), 3: [[0, 1], [2, 0], [1, 1]]}, r"db_labels\[1, 0\] is"),
        ({1: [["a", "b"], ["c", "d"]], 3: np.zeros((3, 2))}, r"query_labels\[0, 0\]"),
        ({1: 0}, "1-D"),
    ],
)
def test_bad_arrays_are_named(changed, says):
    args = [changed.get(i, value) for i, value in enumerate(GOOD)]
    for ties in ("aware", "paper"):
        with pytest.raises(ValueError, match=says):
            hs.evaluate.retrieval(*args, ties=ties)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"at": 0}, "at is 0"),
        ({"at": (10, -1)}, "1 or more"),
        ({"at": 2.5}, "an integer"),
        ({"at": "1000"}, "an integer"),
        ({"k": (0,)}, "k is"),
        ({"radius": -1}, "radius is -1"),
        ({"ties": "random"}, '"aware" or "paper"'),
        ({"n_bits": 9}, "1 to 8 bits"),
        ({"n_bits": 0}, "1 or more"),
    ],
)
def test_bad_options_are_named(options, says):
    with pytest.raises(ValueError, match=says):
        hs.evaluate.retrieval(*GOOD, **options)


def test_ones_in_the_padding_are_refused():
    with pytest.raises(ValueError, match=r"db_codes\[2\] has ones past bit 5"):
        hs.evaluate.retrieval(Q, [0, 1], np.array([[0], [8], [4]], np.uint8), [0, 1, 1], n_bits=5)


def test_cutoffs_may_be_empty_single_repeated_or_numpy():
    assert list(hs.evaluate.retrieval(*GOOD, at=(), radius=(), k=())) == ["mAP"]
    scores = hs.evaluate.retrieval(*GOOD, at=np.int64(2), radius=np.array([1, 1]), k=[2, 2])
    assert list(scores) == ["mAP", "mAP@2", "precision@H1", "precision@2"]


@pytest.mark.parametrize("ties", ["aware", "paper"])
def test_a_missing_label_is_relevant_to_nothing(ties):
    """A query without a label counts as one that nothing is relevant to; an item without one is never a hit."""
    rng = np.random.default_rng(0)
    q, d = rng.integers(256, size=(6, 1), dtype=np.uint8), rng.integers(256, size=(40, 1), dtype=np.uint8)
    some_q, some_d = [0, None, 1, np.nan, 0, 2], [None if i % 3 == 0 else i % 2 for i in range(40)]
    other_q, other_d = [0, 100, 1, 101, 0, 2], [200 + i if i % 3 == 0 else i % 2 for i in range(40)]
    got = hs.evaluate.retrieval(q, some_q, d, some_d, ties=ties, per_query=True)
    expected = hs.evaluate.retrieval(q, other_q, d, other_d, ties=ties, per_query=True)
    assert got == expected
    for name, values in expected.per_query.items():
        np.testing.assert_array_equal(got.per_query[name], values)
    assert np.isnan(got.per_query["AP"][[1, 3, 5]]).all()
    assert (got.per_query["precision@10"][[1, 3, 5]] == 0).all()
    nothing = hs.evaluate.retrieval(q, [None] * 6, d, some_d, ties=ties)
    assert np.isnan(nothing["mAP"])
    assert nothing["precision@10"] == 0


@pytest.mark.parametrize("ties", ["aware", "paper"])
def test_a_matrix_row_with_a_missing_entry_shares_nothing(ties):
    rng = np.random.default_rng(0)
    q, d = rng.integers(256, size=(4, 1), dtype=np.uint8), rng.integers(256, size=(9, 1), dtype=np.uint8)
    of_q, of_d = rng.integers(2, size=(4, 3)).astype(float), rng.integers(2, size=(9, 3)).astype(float)
    some_q, some_d = of_q.copy(), of_d.copy()
    of_q[1], of_d[[2, 5]] = 0, 0
    some_q[1, 2], some_d[[2, 5], 0] = np.nan, np.nan
    assert hs.evaluate.retrieval(q, some_q, d, some_d, ties=ties) == hs.evaluate.retrieval(
        q, of_q, d, of_d, ties=ties
    )
