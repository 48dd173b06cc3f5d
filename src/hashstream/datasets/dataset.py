"""A data set: labelled vectors and their source."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.labels import as_labels, missing_rows

__all__ = ["Dataset", "as_text", "fingerprint", "from_arrays"]

_ROWS = 1 << 14  # rows that are checked at a time: no temporary as large as the data


@dataclass(frozen=True)
class Dataset:
    """Labelled vectors and their source.

    name: as passed to `load`.
    X: (n, d), uint8 pixels as published, or float32 features; official training rows first.
    y: (n,) int64, the class of each row; if some rows have none, object holding int, with None for those.
    image_shape: (height, width) if the rows are images, otherwise None.
    source: where these arrays came from, as words that can follow "MNIST, ".
    note: a sentence that says what figures measured with them can be compared with.
    classes: the name of class 0, 1, ...; empty if the classes are only numbers.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    image_shape: tuple[int, int] | None
    source: str
    note: str
    classes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.X.shape[0]:,} x {self.X.shape[1]} {self.X.dtype}, {self.source})"
        )


def from_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    name: str = "own",
    image_shape: tuple[int, int] | None = None,
    classes: Sequence[str] = (),
    source: str = "given as arrays",
    note: str = "",
) -> Dataset:
    """Make a Dataset of your own vectors and labels, checked.

    X : (n, d) finite numbers. uint8 stays, everything else becomes float32. Arrays that have that type already
        are not copied.
    y : (n,) labels. Integers stay as they are; strings become 0, 1, ... in alphabetical order and the strings become
        `classes`. A missing label (None, NaN, pandas.NA) stays missing, as None.
    classes : the name of class 0, 1, ..., if y holds numbers.

    ValueError says what is wrong and where.

    >>> pets = from_arrays([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["dog", "cat", "dog"], name="pets")
    >>> pets, pets.y, pets.classes
    (Dataset('pets', 3 x 2 float32, given as arrays), array([1, 0, 1]), ('cat', 'dog'))
    """
    vectors = _vectors(X)
    labels, names = _labels(y, tuple(classes))
    if len(labels) != len(vectors):
        turned = " Rows are items: transpose X." if len(labels) == vectors.shape[1] else ""
        raise ValueError(
            f"X has {len(vectors)} rows and y has {len(labels)} labels: one label per row.{turned}"
        )
    if image_shape is not None and image_shape[0] * image_shape[1] != vectors.shape[1]:
        raise ValueError(f"image_shape is {image_shape}, but a row has {vectors.shape[1]} numbers")
    return Dataset(name, vectors, labels, image_shape, source, note, names)


_SAMPLED = 1 << 26  # bytes of features that a fingerprint reads


def fingerprint(X: np.ndarray, y: np.ndarray) -> str:
    """A hash, 32 hexadecimal digits, that distinguishes vectors X (n, d) with labels y (n,) from others.

    It covers shapes, types, all labels, and the vectors: all of them up to 64 MiB, of more every second, third, ...
    row, so that it takes a fraction of a second at any size. A change in the other rows is not detected.

    >>> X, y = np.eye(3, dtype=np.float32), np.arange(3)
    >>> fingerprint(X, y) == fingerprint(X.copy(), y), fingerprint(X, y) == fingerprint(X[::-1], y)
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    if y.dtype == object:  # some are None: numbers, one after the other
        y = np.frombuffer(repr(y.tolist()).encode(), np.uint8)
    for array, step in ((y, 1), (X, max(1, -(-X.nbytes // _SAMPLED)))):
        digest.update(f"{array.shape} {array.dtype.str};".encode())
        digest.update(np.ascontiguousarray(array[::step]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _vectors(X: Any) -> np.ndarray:
    given = np.asarray(X)
    if given.ndim != 2 or 0 in given.shape:
        raise ValueError(f"X has shape {given.shape}: it has to be (n, d), one row per item")
    if given.dtype.kind not in "fiub":
        raise ValueError(f"X is of type {given.dtype}: it has to be numbers")
    if given.dtype == np.uint8:
        return given
    with np.errstate(over="ignore", invalid="ignore"):  # numbers too large for float32 are found below
        vectors: np.ndarray = given.astype(np.float32, copy=False)
    for begin in range(0, len(vectors), _ROWS):
        good = np.isfinite(vectors[begin : begin + _ROWS]).all(axis=1)
        if not good.all():
            row = begin + int(good.argmin())
            raise ValueError(f"X has a number in row {row} that is not finite, or too large for float32")
    return vectors


def as_text(words: np.ndarray) -> np.ndarray:
    """An array of strings or bytes as strings; bytes that are not UTF-8 are written as \\xff."""
    if words.dtype.kind == "S":
        return np.char.decode(words, "utf-8", "backslashreplace")
    return words.astype(str)


def _new_names(given: tuple[str, ...], words: list[str]) -> tuple[str, ...]:
    if given:
        raise ValueError("y holds words, which are the names of the classes: leave `classes` out")
    return tuple(words)


def _labels(y: Any, names: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """(n,) int64, or object with None where a label is missing, and the names of the classes."""
    given = as_labels(y)
    if given.ndim != 1:
        raise ValueError(f"y has shape {given.shape}: it has to be (n,), one label per row of X")
    if (missing := missing_rows(given)) is not None:
        if missing.all():
            raise ValueError("y has no labels: every entry is missing")
        numbers, names = _labels(given[~missing].tolist(), names)
        some: np.ndarray = np.full(len(given), None, object)
        some[~missing] = numbers
        return some, names
    if given.dtype.kind == "O" and all(isinstance(label, str) for label in given):
        words = sorted(set(given.tolist()))
        place = {word: number for number, word in enumerate(words)}
        return _labels([place[word] for word in given], tuple(words))[0], _new_names(names, words)
    if given.dtype.kind in "US":
        found, numbers = np.unique(as_text(given), return_inverse=True)
        return numbers.astype(np.int64), _new_names(names, found.tolist())
    if given.dtype.kind not in "fiub":
        raise ValueError(f"y is of type {given.dtype}: labels have to be integers or strings")
    if given.dtype.kind == "f":
        whole = np.isfinite(given) & (np.abs(given) < 2.0**53)
        whole &= np.floor(np.where(whole, given, 0.5)) == given
        if not whole.all():
            row = int(whole.argmin())
            raise ValueError(f"y[{row}] is {given[row]}: labels have to be integers or strings")
    if given.dtype == np.uint64 and given.size and given.max() > np.iinfo(np.int64).max:
        raise ValueError(f"y[{int(given.argmax())}] is {given.max()}: too large for int64")
    labels: np.ndarray = given.astype(np.int64)
    if names and labels.size and not (labels.min() >= 0 and labels.max() < len(names)):
        raise ValueError(
            f"y goes from {labels.min()} to {labels.max()}, but there are names for the classes 0 to "
            f"{len(names) - 1}"
        )
    return labels, names
