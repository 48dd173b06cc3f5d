"""The columns of a file that are ids, labels and features, and the types of ids and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.datasets.errors import DatasetError
from hashstream.datasets.npy import read_npy
from hashstream.hashers.labels import is_missing

__all__ = ["Chosen", "Columns", "Kind", "label_matrix", "read_side_files"]

IDS, LABELS = ("id", "ids"), ("label", "labels", "y")
FEATURES = ("features", "x", "X", "embedding", "vector")
ALL = "*"  # of the payload: all columns that are nothing else
SHOWN = 12  # names in a message


@dataclass(frozen=True)
class Columns:
    """The requested names; None for the default.

    fields : columns that are no features, if the file has them. payload : names and patterns of more of these, which
        it must have; "*" is all that is left.
    """

    id: str | None = None
    label: str | None = None
    features: str | None = None
    fields: tuple[str, ...] = ()
    payload: tuple[str, ...] = ()

    def side_files(self) -> dict[str, Path]:
        """The .npy files that were requested as "ids" or "labels"."""
        return {
            what: Path(name).expanduser()
            for what, name in (("ids", self.id), ("labels", self.label))
            if name is not None and name.lower().endswith(".npy")
        }

    def among(self, names: Sequence[str], where: str, vectors: Sequence[str] = ()) -> Chosen:
        """Choose from the columns of a table. vectors : columns of lists, each of which holds all features of a row."""
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            hint = (
                ". If its first line is a row: --no-header"
                if where.lower().endswith((".csv", ".tsv"))
                else ""
            )
            raise DatasetError(f"{where} has more than one column {twice[0]!r}{hint}")
        fields = self.fields_among(names)
        free = [name for name in names if name not in fields]
        ids = _named(self.id, names if self.id is not None else free, IDS, where, "--id")
        labels = _named(self.label, names if self.label is not None else free, LABELS, where, "--label")
        if len(ids) > 1:
            raise DatasetError(f"{where}: ids are one column, not {', '.join(ids)}")
        answers = {*ids, *labels}
        payload = self.payload_among(names, [name for name in free if name not in answers], where)
        others = [name for name in names if name not in answers]
        free = [name for name in others if name not in fields and name not in payload]
        if self.features is not None:
            taken = set(_matching(self.features, free, where, "--features", names, others))
            chosen = [name for name in others if name in taken]
        else:
            chosen = [name for name in FEATURES if name in vectors and name in free][:1] or free
            if ALL in self.payload and chosen == free:
                raise DatasetError(
                    f"{where}: by default all other columns are features, so none is left for --payload '*': "
                    "name the features with --features"
                )
        if not chosen:
            raise DatasetError(f"{where} has no column left for the features: there is {_list(names)}")
        if ALL in self.payload:
            payload += [name for name in free if name not in chosen]
        return Chosen(ids[0] if ids else None, tuple(labels), tuple(chosen), fields, tuple(payload))

    def fields_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the names that are fields."""
        return tuple(name for name in names if name in self.fields)

    def payload_among(self, names: Sequence[str], free: Sequence[str], where: str) -> list[str]:
        """The columns of the payload, without those that "*" stands for. free : those that patterns can match."""
        found: dict[str, None] = {}  # ordered
        for one in self.payload:
            if one != ALL or one in names:
                found |= dict.fromkeys(_matching(one, free, where, "--payload", names, names))
        return list(found)


def read_side_files(files: Mapping[str, Path]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Ids and labels, of those that `Columns.side_files` returns."""
    ids, y = (read_npy(files[what]) if what in files else None for what in ("ids", "labels"))
    return ids, y


@dataclass(frozen=True)
class Chosen:
    """The chosen columns; several labels are a matrix of 0 and 1. A field, or a column of the payload, may be one of
    the others, too, if it was named as such."""

    id: str | None
    labels: tuple[str, ...]
    features: tuple[str, ...]
    fields: tuple[str, ...] = ()
    payload: tuple[str, ...] = ()

    @property
    def more(self) -> tuple[str, ...]:
        """Fields and payload, each once."""
        return tuple(dict.fromkeys((*self.fields, *self.payload)))


def _named(
    asked: str | None, names: Sequence[str], usual: Sequence[str], where: str, option: str
) -> list[str]:
    if asked is None:
        found = [name for name in names if name.lower() in usual]
        if len(found) > 1:
            raise DatasetError(f"{where} has {' and '.join(found)}: choose one with {option}")
        return found
    if asked.lower().endswith(".npy"):
        return []
    return _matching(asked, names, where, option, names)


def _matching(
    asked: str,
    names: Sequence[str],
    where: str,
    option: str,
    every: Sequence[str],
    exact: Sequence[str] | None = None,
) -> list[str]:
    """The names that are asked for. exact : those that are found by their full name only; by default names."""
    known = set(names if exact is None else exact)
    if asked in known:
        return [asked]
    found: dict[str, None] = {}  # ordered
    for pattern in (part.strip() for part in asked.split(",") if part.strip()):
        some = [pattern] if pattern in known else [name for name in names if fnmatchcase(name, pattern)]
        if not some:
            raise DatasetError(f"{where} has no column {pattern!r} ({option}): there is {_list(every)}")
        found |= dict.fromkeys(some)
    return list(found)


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


class Kind:
    """The type of the ids or labels of one file: integers or text, decided by the first piece. A label may be missing:
    an empty string, None or NaN.

    >>> kind = Kind("label")
    >>> kind.of(["3", "14"], "a.csv"), kind.of(["15"], "a.csv")
    (array([ 3, 14]), array([15]))
    >>> Kind("label").of(["3", "014"], "a.csv")
    array(['3', '014'], dtype=object)
    """

    def __init__(self, what: str, text: bool = False) -> None:
        self._what = what
        self.text: bool | None = True if text else None

    def of(self, values: Any, where: str, first: int = 0) -> np.ndarray:
        """(n,) int64 or object holding str; if labels are missing, object holding int or str, with None for those.

        first : index of the first row, for messages.
        """
        # NumPy's strings would lose a "\0" at their end.
        array = values if isinstance(values, np.ndarray) else _objects(values)
        if array.dtype.kind not in "iubf":
            return self._from_text(array.tolist(), where, first)
        if array.dtype.kind == "f":
            whole, missing = self._from_floats(array, where, first)
        elif array.dtype == np.uint64 and len(array) and int(array.max()) >= 1 << 63:
            if self._what == "id":
                raise DatasetError(f"{where}: id {array.max()} does not fit into a signed 64-bit integer")
            whole, missing = array, np.zeros(len(array), bool)
        else:
            whole, missing = array.astype(np.int64), np.zeros(len(array), bool)
        if self.text:
            whole = whole.astype(str).astype(object)
        elif not missing.all():
            self.text = False
        return _with_none(whole, missing)

    def _from_floats(self, array: np.ndarray, where: str, first: int) -> tuple[np.ndarray, np.ndarray]:
        """Integers, and which of them are missing, (n,) bool."""
        missing = np.isnan(array)
        if self._what == "id" and missing.any():
            raise self._lacking(where, first + int(missing.argmax()))
        good = np.isfinite(array) & (np.abs(array) < 2.0**53)
        good &= np.floor(np.where(good, array, 0.5)) == array
        if not (good | missing).all():
            row = int((good | missing).argmin())
            raise DatasetError(
                f"{where}: the {self._what} of row {first + row} is {array[row]}: it has to be an integer or "
                "text"
            )
        return np.where(missing, 0, array).astype(np.int64), missing

    def _lacking(self, where: str, row: int) -> DatasetError:
        return DatasetError(f"{where}: row {row} has no {self._what}. Every row needs one, or none")

    def _from_text(self, given: list[Any], where: str, first: int) -> np.ndarray:
        given = [int(one) if isinstance(one, (bool, np.bool_)) else one for one in given]
        numbers = all(type(one) is int or is_missing(one) for one in given)
        if (
            self._what != "id"
            and not self.text
            and numbers
            and max(filter(None, given), default=0) >= 1 << 63
        ):
            self.text = False  # larger than int64, as in an unsigned column
            return _objects([None if is_missing(one) else one for one in given])
        words = ["" if is_missing(one) else _word(one) for one in given]
        missing = np.array([not one for one in words], bool)
        if self._what == "id" and missing.any():
            raise self._lacking(where, first + int(missing.argmax()))
        odd = next((row for row, one in enumerate(words) if one and not _is_whole(one)), None)
        if self.text is False and odd is not None:
            raise DatasetError(
                f"{where}: the {self._what} of row {first + odd} is {words[odd][:100]!r}, but those before it are "
                "integers. To read them as text: --text"
            )
        if self.text is None and not missing.all():
            self.text = odd is not None
        if self.text:
            return _with_none(_objects(words), missing)
        return _with_none(np.array([int(one or 0) for one in words], np.int64), missing)


def label_matrix(columns: list[np.ndarray]) -> np.ndarray:
    """(n, C) from the columns of a 0/1 matrix, with NaN for empty cells."""
    empty = [np.array([one is None for one in column], bool) for column in columns]
    if not any(column.any() for column in empty):
        return np.stack(columns, axis=1)
    try:
        return np.stack([np.array(column, np.float64) for column in columns], axis=1)  # None becomes NaN
    except ValueError:
        return np.stack([column.astype(object) for column in columns], axis=1)


def _objects(values: Any) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _with_none(array: np.ndarray, missing: np.ndarray) -> np.ndarray:
    if not missing.any():
        return array
    out: np.ndarray = array.astype(object)
    out[missing] = None
    return out


def _word(one: Any) -> str:
    return one.decode("utf-8", "backslashreplace") if isinstance(one, bytes) else str(one)


def _is_whole(word: str) -> bool:
    """Whether it is a signed 64-bit integer in its usual form: 007 is text."""
    digits = word[1:] if word.startswith("-") else word
    usual = digits.isascii() and digits.isdigit() and (digits == "0") + (digits[0] != "0") == 1
    return usual and len(digits) < 20 and -(1 << 63) <= int(word) < 1 << 63
