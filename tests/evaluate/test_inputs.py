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
        (np.array([2**63 + 1, 5, 2**63], np.uint64), np.array([5, 2**63 + 1, 2**63 + 1, 5], np.uint64)),
        (np.array([2**60 + 1, 5, 2**60], np.int64), np.array([5, 2**60 + 1, 2**60 + 1, 5], np.uint64)),
        (np.array([True, False, True]), np.array([0.0, 1.0, 1.0, 0.0])),
        (np.array([1.5, 0.5, 9.0]), np.array([0.5, 1.5, 1.5, 0.5], np.float32)),
    ],
)
def test_any_labels_are_matched_by_equality(q, d):
    got_q, got_d = match_labels(q, d, 3, 4)
    expected = [[a == b for b in np.asarray(d).tolist()] for a in np.asarray(q).tolist()]
    assert (got_q[:, None] == got_d[None]).tolist() == expected


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({0: np.zeros((0, 1), np.uint8), 1: []}, "query_codes are empty"),
        ({2: np.zeros((0, 1), np.uint8), 3: []}, "db_codes are empty"),
        ({0: np.zeros((2, 1))}, "query_codes are float64"),
        ({0: np.zeros(2, np.uint8)}, r"shape \(2,\)"),
        ({0: np.zeros((2, 2), np.uint8)}, "2 bytes a code and db_codes 1"),
        ({1: [0]}, "query_labels have 1 rows for 2 codes"),
        ({3: [0, 1]}, "db_labels have 2 rows for 3 codes"),
        ({1: ["a", "b"]}, "query_labels are strings and db_labels numbers"),
        ({1: [b"a", b"b"], 3: ["a", "b", "c"]}, "byte strings"),
        ({1: [0.0, np.nan]}, r"query_labels\[1\] is NaN"),
        ({1: np.array([0, float("nan")], object)}, "NaN"),
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
        ({"at": 2.5}, "whole number"),
        ({"at": "1000"}, "whole number"),
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
