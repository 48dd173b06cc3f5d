"""Which columns of a file are ids, labels and features, and what kind of ids and labels they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.datasets.folders import DatasetError, reason

__all__ = ["Chosen", "Columns", "Kind", "side_file"]

IDS, LABELS = ("id", "ids"), ("label", "labels", "y")
FEATURES = ("features", "x", "X", "embedding", "vector")
SHOWN = 12  # names in a sentence


@dataclass(frozen=True)
class Columns:
    """Names as they were asked for, None where the usual ones are taken."""

    id: str | None = None
    label: str | None = None
    features: str | None = None

    def side_files(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Ids and labels where they were asked for as .npy files."""
        ids, y = (
            side_file(Path(name).expanduser()) if name is not None and name.lower().endswith(".npy") else None
            for name in (self.id, self.label)
        )
        return ids, y

    def among(self, names: Sequence[str], where: str, vectors: Sequence[str] = ()) -> Chosen:
        """The columns of a table with these names. vectors : those that hold a whole row of features each."""
        if twice := sorted({name for name in names if names.count(name) > 1}):
            hint = (
                ". Where its first line is a row: --no-header"
                if where.lower().endswith((".csv", ".tsv"))
                else ""
            )
            raise DatasetError(f"{where} has more than one column {twice[0]!r}{hint}")
        ids = _named(self.id, names, IDS, where, "--id")
        labels = _named(self.label, names, LABELS, where, "--label")
        if len(ids) > 1:
            raise DatasetError(f"{where}: ids are one column, not {', '.join(ids)}")
        others = [name for name in names if name not in ids and name not in labels]
        if self.features is not None:
            taken = set(_matching(self.features, others, where, "--features", names))
            chosen = [name for name in others if name in taken]
        else:
            chosen = [name for name in FEATURES if name in vectors and name in others][:1] or others
        if not chosen:
            raise DatasetError(f"{where} has no column left for the features: there is {_list(names)}")
        return Chosen(ids[0] if ids else None, tuple(labels), tuple(chosen))


@dataclass(frozen=True)
class Chosen:
    """Names of columns; several labels are a matrix of 0 and 1."""

    id: str | None
    labels: tuple[str, ...]
    features: tuple[str, ...]


def _named(
    asked: str | None, names: Sequence[str], usual: Sequence[str], where: str, option: str
) -> list[str]:
    if asked is None:
        found = [name for name in names if name.lower() in usual]
        if len(found) > 1:
            raise DatasetError(f"{where} has {' and '.join(found)}: say with {option} which is meant")
        return found
    if asked.lower().endswith(".npy"):
        return []
    return _matching(asked, names, where, option, names)


def _matching(asked: str, names: Sequence[str], where: str, option: str, every: Sequence[str]) -> list[str]:
    if asked in names:
        return [asked]
    found: list[str] = []
    for pattern in (part.strip() for part in asked.split(",") if part.strip()):
        some = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not some:
            raise DatasetError(f"{where} has no column {pattern!r} ({option}): there is {_list(every)}")
        found += [name for name in some if name not in found]
    return found


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def side_file(path: Path) -> np.ndarray:
    """The array of a .npy file."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read as an .npy file ({reason(error)})") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise DatasetError(f"{path} holds several arrays: rename it to .npz")
    return array


class Kind:
    """Ids or labels of one file: whole numbers, or text, and never both. What comes first decides.

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
        """(n,) int64 or object holding str. first : the number of the first row, for the sentence of an error."""
        array = np.asarray(values)
        if array.dtype.kind in "iub":
            whole = array.astype(np.int64)
            if array.dtype == np.uint64 and len(array) and (array > np.uint64(np.iinfo(np.int64).max)).any():
                raise DatasetError(
                    f"{where}: {self._what} {array.max()} does not fit into 64 bits with a sign"
                )
        elif array.dtype.kind == "f":
            good = np.isfinite(array) & (np.abs(array) < 2.0**53)
            good &= np.floor(np.where(good, array, 0.5)) == array
            if not good.all():
                row = int(good.argmin())
                if np.isnan(array[row]):
                    raise self._lacking(where, first + row)
                raise DatasetError(
                    f"{where}: the {self._what} of row {first + row} is {array[row]}: it has to be a whole number, "
                    "or text"
                )
            whole = array.astype(np.int64)
        else:
            return self._from_text(array.astype(object), where, first)
        if self.text:
            return whole.astype(str).astype(object)
        self.text = False
        return whole

    def _lacking(self, where: str, row: int) -> DatasetError:
        return DatasetError(f"{where}: row {row} has no {self._what}. Every row needs one, or none has one")

    def _from_text(self, array: np.ndarray, where: str, first: int) -> np.ndarray:
        words = [
            one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in array.tolist()
        ]
        for row, (one, given) in enumerate(zip(words, array.tolist(), strict=True)):
            if given is None or not one:
                raise self._lacking(where, first + row)
        odd = next((row for row, one in enumerate(words) if not _is_whole(one)), None)
        if self.text is False and odd is not None:
            raise DatasetError(
                f"{where}: the {self._what} of row {first + odd} is {words[odd]!r}, but those before it are whole "
                "numbers. Take them as text: --text"
            )
        if self.text is None:
            self.text = odd is not None
        if self.text:
            out = np.empty(len(words), object)
            out[:] = words
            return out
        return np.array([int(one) for one in words], np.int64)


def _is_whole(word: str) -> bool:
    """Whether it is a whole number of 64 bits, written as everybody writes it: 007 is text."""
    digits = word[1:] if word.startswith("-") else word
    usual = digits.isascii() and digits.isdigit() and (digits == "0") + (digits[0] != "0") == 1
    return usual and -(1 << 63) <= int(word) < 1 << 63
