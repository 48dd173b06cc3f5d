"""Labels of any kind become class numbers that never change."""

from __future__ import annotations

import enum
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import hashstream as hs
from hashstream.hashers.labels import LabelBook, as_labels, missing_rows


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
        (np.array([(1, 2), "x", (1, 2), 3], dtype=object), [(1, 2), "x", 3]),
        ([-128, 127, 0, 127], [-128, 0, 127]),
        ([2**63, 2**64, -1, 2**63], [-1, 2**63, 2**64]),
        ([2**53 + 1, 2**53, 0.5, 2**53], [0.5, 2**53, 2**53 + 1]),
        (["a", "a\0", "a", "a\0\0"], ["a", "a\0", "a\0\0"]),
        ([b"a", b"a\0", b"a", b"b"], [b"a", b"a\0", b"b"]),
        ([-1, "", -1, ""], [-1, ""]),
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
    with pytest.raises(ValueError, match=r"y\[1\] is inf"):
        as_labels([0.0, np.inf])
    with pytest.raises(ValueError, match=r"y\[1\] is inf"):
        as_labels(["a", np.inf])
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
def test_a_book_reads_labels_only(y) -> None:
    with pytest.raises(ValueError, match=r"y\[1\] is missing|hashable"):
        LabelBook().read(y)


INTEGERS = [np.dtype(f"{sign}{size}") for sign in "iu" for size in (1, 2, 4, 8)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("n", [7, 60, 20_000])
def test_integers_of_every_width(dtype: np.dtype, n: int) -> None:
    """From the least to the greatest number that the type has, far apart and close together."""
    limits = np.iinfo(dtype)
    for distinct in ([int(limits.min), 0, 1, int(limits.max)], [int(limits.max) - 2, int(limits.max)]):
        values = [distinct[i % len(distinct)] for i in range(n)]
        book, ids = numbers(LabelBook(), np.array(values, dtype))
        assert book.classes == sorted(set(distinct))
        assert [book.classes[i] for i in ids] == values
        model = hs.FCOH(n_bits=8, random_state=0)
        X = np.random.default_rng(0).standard_normal((n, 3))
        assert model.fit(X, np.array(values, dtype)).classes_ == sorted(set(distinct))


MISSING = {
    "None": None,
    "NaN": float("nan"),
    "float32": np.float32("nan"),
    "Decimal": Decimal("NaN"),
    "signalling": Decimal("sNaN"),
    "complex": complex("nan"),
    "NaT": pd.NaT,
    "datetime64": np.datetime64("NaT"),
    "pandas.NA": pd.NA,
    "masked": np.ma.masked,
}


@pytest.mark.parametrize("missing", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("labels", [[3, 1, 2], ["a", "", "b"], [(1, 2), -1, "x"], [0.5, 1.5, 0.5]], ids=str)
def test_what_is_missing_is_not_learned_from(missing, labels: list) -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    whole = [labels[i % 3] for i in range(30)]
    some = [missing if i % 4 == 1 else label for i, label in enumerate(whole)]
    kept = np.arange(30) % 4 != 1
    objects = np.empty(30, object)
    objects[:] = some
    assert missing_rows(as_labels(some)).tolist() == (~kept).tolist()
    for y in (some, objects, tuple(some), pd.Series(some, dtype=object)):
        for learn in ("fit", "partial_fit"):
            model, expected = (hs.FCOH(n_bits=8, batch_size=7, random_state=0) for _ in range(2))
            getattr(model, learn)(X, y)
            getattr(expected, learn)(
                X[kept], [label for label, keep in zip(whole, kept, strict=True) if keep]
            )
            assert hs.checks.state_of(model) == hs.checks.state_of(expected)
            assert model.n_seen_ == kept.sum()


@pytest.mark.parametrize(
    "y",
    [
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["a", None, "b"], dtype="string"),
        pd.Categorical(["a", None, "b"]),
        pd.Series(pd.to_datetime(["2020-01-01", None, "2021-01-01"])),
        np.ma.masked_array([1, 2, 3], [0, 1, 0]),
        np.array([1, np.nan, 2], np.float16),
        np.array(["2020", "NaT", "2021"], "M8[Y]"),
        [[0, 1], [0, None], [1, 0]],
        [[0, 1], None, [1, 0]],
        [np.array([0, 1]), None, np.array([1, 1])],
        np.array([[0, 1], [np.nan, 1], [0, 0]]),
    ],
    ids=lambda y: f"{type(y).__name__} {getattr(y, 'dtype', '')}",
)
def test_columns_and_matrices_with_a_missing_entry(y) -> None:
    assert missing_rows(as_labels(y)).tolist() == [False, True, False]
    model = hs.FCOH(n_bits=8, random_state=0).partial_fit(np.eye(3), y)
    assert model.n_seen_ == 2


@pytest.mark.parametrize(
    "y", [[1, -1, 0], ["", "a", ""], [True, False, True], [(None,), (1,), (None,)]], ids=str
)
def test_everything_else_is_a_label(y: list) -> None:
    assert missing_rows(as_labels(y)) is None
    assert hs.FCOH(n_bits=8, random_state=0).fit(np.eye(3), y).n_seen_ == 3


@pytest.mark.parametrize("method", sorted(hs.methods()))
def test_a_batch_without_any_label(method: str) -> None:
    """Nothing changes, before the first batch and after; `fit` has to give a fitted model, so it refuses."""
    X, y = hs.checks.class_stream(n=60)
    model = hs.methods()[method](n_bits=8, random_state=0)
    for nothing in ([None] * 60, np.full(60, np.nan)):
        assert not hs.checks.state_of(model.partial_fit(X, nothing))
        with pytest.raises(ValueError, match="no label"):
            model.fit(X, nothing)
    assert not hs.checks.state_of(model)
    model.partial_fit(X, y)
    before = hs.checks.state_of(model)
    for nothing in ([None] * 60, np.full(60, np.nan)):
        assert hs.checks.state_of(model.partial_fit(X, nothing)) == before
        with pytest.raises(ValueError, match="no label"):
            model.fit(X, nothing)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :3], [None] * 60)
    assert hs.checks.state_of(model) == before


@pytest.mark.parametrize(
    ("y", "shape"), [(3, r"\(\)"), ("abc", r"\(\)"), (np.float64(2), r"\(\)"), ([], r"\(0,\)")]
)
def test_labels_of_another_shape_are_named(y, shape: str) -> None:
    for learn in ("fit", "partial_fit"):
        with pytest.raises(
            ValueError, match=f"X has 3 rows, but y has shape {shape}: it needs one label per row"
        ):
            getattr(hs.FCOH(n_bits=8), learn)(np.eye(3), y)


def test_rows_of_another_shape_are_named_without_their_numbers() -> None:
    model = hs.FCOH(n_bits=8, random_state=0).fit(np.eye(3), [0, 1, 2])
    for call in (
        lambda X: model.transform(X),
        lambda X: model.decision_function(X),
        lambda X: model.partial_fit(X, [1]),
        lambda X: hs.FCOH(n_bits=8).fit(X, [1]),
    ):
        for X in (np.full(1000, 0.123), [0.123] * 1000):
            with pytest.raises(ValueError, match=r"X has shape \(1000,\).*Reshape your data") as caught:
                call(X)
            assert len(str(caught.value)) < 250
            assert "0.123" not in str(caught.value)
        with pytest.raises(ValueError, match=r"got scalar array instead: X has shape \(\)"):
            call(0.123)


@pytest.mark.parametrize("method", sorted(hs.methods()))
@pytest.mark.parametrize("scale", [1e-30, 1e-38, 1e-44])
def test_tiny_numbers_do_not_warn(method: str, scale: float) -> None:
    X, y = hs.checks.class_stream(n=120)
    tiny = (X * scale).astype(np.float32)
    model = hs.methods()[method](n_bits=8, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model.partial_fit(tiny[:60], y[:60]).partial_fit(tiny[60:], y[60:])
        model.transform(tiny)
        model.decision_function(tiny)


def test_sparse_label_matrices() -> None:
    book, labels = LabelBook().read(csr_array(np.eye(3, dtype=int)))
    assert book.multilabel
    assert labels.indicator.tolist() == np.eye(3, dtype=bool).tolist()


def test_arrays_without_a_dimension_are_labels() -> None:
    assert as_labels([np.array(1), np.array(2)]).tolist() == [1, 2]
    assert as_labels([np.array("a"), None]).tolist() == ["a", None]


def test_labels_that_numpy_would_merge() -> None:
    """Enumerations, by what `str` says of them; whole numbers mixed with pandas.NA, by way of floats."""

    class Animal(str, enum.Enum):  # noqa: UP042 (StrEnum has another `str`)
        CAT = "cat"
        COW = "cow"

    assert len(LabelBook().read([Animal.CAT, Animal.COW] * 3)[0]) == 2
    y = as_labels(pd.array([2**53, 2**53 + 1, None], dtype="Int64"))
    assert y.tolist() == [2**53, 2**53 + 1, None]
    assert as_labels(pd.Series([2**53, 2**53 + 1, None], dtype="Int64")).tolist() == y.tolist()
