"""Labels of any kind become class numbers that never change."""

from __future__ import annotations

import numpy as np
import pytest

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
