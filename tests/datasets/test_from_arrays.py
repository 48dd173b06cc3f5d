"""One's own arrays: what is taken as it is, what is converted, what is refused and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hashstream import datasets
from hashstream.datasets import from_arrays
from hashstream.evaluate.protocols.task import PreparedDataset

Y = np.array([0, 1, 0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint16, bool])
def test_numbers_become_float32_and_the_callers_array_stays(dtype: type) -> None:
    X = np.arange(12).reshape(3, 4).astype(dtype)
    before = X.copy()
    data = from_arrays(X, Y)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X, before.astype(np.float32))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_arrays_of_the_right_type_are_not_copied(dtype: type) -> None:
    X = np.ones((3, 4), dtype)
    assert np.shares_memory(from_arrays(X, Y).X, X)


def test_what_a_data_set_of_ones_own_says() -> None:
    data = from_arrays(np.zeros((3, 4), np.uint8), Y, name="mine", image_shape=(2, 2), note="No note.")
    assert (data.name, data.image_shape, data.source, data.note, data.classes) == (
        "mine",
        (2, 2),
        "given as arrays",
        "No note.",
        (),
    )
    assert isinstance(data, datasets.Dataset)


@pytest.mark.parametrize("labels", [[3, 1, 3], [3.0, 1.0, 3.0], np.array([3, 1, 3], np.uint8)])
def test_whole_numbers_stay(labels: Any) -> None:
    data = from_arrays(np.zeros((3, 2)), labels)
    assert data.y.tolist() == [3, 1, 3]
    assert data.y.dtype == np.int64


def test_words_become_numbers_in_alphabetical_order() -> None:
    data = from_arrays(np.zeros((4, 2)), ["pear", "apple", "pear", "quince"])
    assert data.y.tolist() == [1, 0, 1, 2]
    assert data.classes == ("apple", "pear", "quince")
    assert from_arrays(np.zeros((3, 2)), Y, classes=["no", "yes"]).classes == ("no", "yes")


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (np.zeros(3), Y, r"shape \(3,\)"),
        (np.zeros((0, 4)), [], r"shape \(0, 4\)"),
        (np.zeros((3, 0)), Y, r"shape \(3, 0\)"),
        (np.zeros((3, 2), complex), Y, "complex128: it has to be numbers"),
        ([["a", "b"]] * 3, Y, "has to be numbers"),
        (np.zeros((3, 2), object), Y, "has to be numbers"),
        (np.zeros((4, 2)), Y, "X has 4 rows and y has 3 labels"),
        (np.zeros((4, 3)), Y, "transpose X"),
        (np.zeros((3, 2)), Y[:, None], r"y has shape \(3, 1\)"),
        (np.zeros((3, 2)), [0, 1, 0.5], r"y\[2\] is 0.5"),
        (np.zeros((3, 2)), [0, np.inf, 1], r"y\[1\] is inf"),
        (np.zeros((3, 2)), ["a", 1, 2], "y is of type object"),
        (np.zeros((3, 2)), [None, np.nan, None], "y has no labels"),
        (np.zeros((3, 2)), 1, r"y has shape \(\)"),
        (np.zeros((3, 2)), np.array([1, 2, 2**63], np.uint64), "too large for int64"),
    ],
)
def test_mistakes_are_named(X: Any, y: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_arrays(X, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39])
def test_the_row_that_is_not_finite_is_named(bad: float) -> None:
    X = np.zeros((40_000, 2))  # more rows than are looked at in one go
    X[33_333, 1] = bad
    with pytest.raises(ValueError, match="row 33333 that is not finite"):
        from_arrays(X, np.zeros(40_000))


def test_names_and_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"image_shape is \(2, 3\), but a row has 4"):
        from_arrays(np.zeros((3, 4)), Y, image_shape=(2, 3))
    with pytest.raises(ValueError, match="from 0 to 1, but there are names for the classes 0 to 0"):
        from_arrays(np.zeros((3, 4)), Y, classes=["one"])
    with pytest.raises(ValueError, match="leave `classes` out"):
        from_arrays(np.zeros((3, 4)), ["a", "b", "a"], classes=["a", "b"])


@pytest.mark.parametrize(
    ("given", "y", "classes"),
    [
        ([3, None, 1], [3, None, 1], ()),
        ([3, np.nan, 1], [3, None, 1], ()),
        (["b", None, "a"], [1, None, 0], ("a", "b")),
        (["", None, "a\0"], [0, None, 1], ("", "a\0")),
    ],
)
def test_missing_labels_stay_missing(given: list[Any], y: list[Any], classes: tuple[str, ...]) -> None:
    data = from_arrays(np.eye(3), given)
    assert (data.y.tolist(), data.classes) == (y, classes)
    assert datasets.fingerprint(data.X, data.y) != datasets.fingerprint(data.X, data.y[::-1])
    with pytest.raises(ValueError, match=r"y\[1\] is missing: a split needs a label for every row"):
        datasets.split(data.y)
    with pytest.raises(ValueError, match="row 1 has no label, and an experiment needs one for every row"):
        PreparedDataset.of(data)


def test_bytes_that_are_no_text() -> None:
    data = from_arrays(np.eye(3), np.array([b"\xff", b"\xfe", b"caf\xc3\xa9"]))
    assert data.classes == ("\\xfe", "\\xff", "café")
