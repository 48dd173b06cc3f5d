"""Labels of any kind become class numbers that never change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from hashstream.hashers.labels import LabelBook


def numbers(book: LabelBook, y) -> tuple[LabelBook, list[int]]:
    book, labels = book.read(y)
    return book, labels.ids[labels.rank].tolist()


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([3, 1, 3, 2], [1, 2, 3]),
        (["b", "a", "b", "c"], ["a", "b", "c"]),
        ([True, False, True, True], [False, True]),
        ([0.5, -1.0, 0.5, 2.5], [-1.0, 0.5, 2.5]),
        (np.array([(1, 2), "x", (1, 2), None], dtype=object), [(1, 2), "x", None]),
    ],
)
def test_kinds(y, classes) -> None:
    if isinstance(y, np.ndarray):  # NumPy would make a matrix of the tuples
        values = list(y)
    else:
        values = y
    book, ids = numbers(LabelBook(), y)
    assert book.classes == classes
    assert [book.classes[i] for i in ids] == values


def test_numbers_stay_when_classes_come_late() -> None:
    book, first = numbers(LabelBook(), [5, 9])
    later, second = numbers(book, [9, 1, 5, 7])
    assert (first, second) == ([0, 1], [1, 2, 0, 3])
    assert later.classes == [5, 9, 1, 7]
    assert book.classes == [5, 9], "a book is never changed"


def test_rank_is_the_order_of_the_labels() -> None:
    book, _ = LabelBook().read([5, 9])
    _, labels = book.read([9, 1, 5])
    assert labels.rank.tolist() == [2, 0, 1]
    assert labels[1:].rank.tolist() == [0, 1]


def test_bad_labels() -> None:
    with pytest.raises(ValueError, match=r"y\[1\] is nan"):
        LabelBook().read([0.0, np.nan])
    with pytest.raises(ValueError, match=r"ravel"):
        LabelBook().read([[1], [0]])
    with pytest.raises(ValueError, match=r"shape is \(\)"):
        LabelBook().read(3)


def test_labels_without_an_order_stay_whole() -> None:
    """frozensets compare by inclusion: sorting them would tear classes apart."""
    y = [frozenset([k % 4, 9]) for k in range(40)]
    book, ids = numbers(LabelBook(), y)
    assert len(book) == 4
    assert ids == [k % 4 for k in range(40)]


def test_a_list_keeps_its_labels() -> None:
    book, _ = numbers(LabelBook(), [1, "a", 1])
    assert book.classes == [1, "a"]
    book, _ = numbers(LabelBook(), [(0, 1), (1, 1)])
    assert book.classes == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    "y",
    [
        np.array(["a", float("nan")], dtype=object),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        np.array([[1], {}], dtype=object),
    ],
    ids=["NaN", "NaT", "unhashable"],
)
def test_labels_that_are_none(y) -> None:
    with pytest.raises(ValueError, match=r"NaN|NaT|hashable"):
        LabelBook().read(y)


def test_sparse_label_matrices() -> None:
    book, labels = LabelBook().read(csr_array(np.eye(3, dtype=int)))
    assert book.multilabel
    assert labels.indicator.tolist() == np.eye(3, dtype=bool).tolist()
