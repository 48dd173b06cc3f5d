"""Columns of strings and of lists of strings: numbers in a dictionary that grows with the column."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Self

import numpy as np

from hashstream.hashers.labels import is_missing
from hashstream.table.state.column_base import FieldColumn, equal_to_any, listed, shown
from hashstream.table.state.ids import grown

__all__ = ["Dictionary", "ListColumn", "TextColumn"]

FEW = 8  # strings, up to which one comparison for each is faster than a table of all
SPARSE = 16  # one hit in this many strings of lists, up to where looking for the list of each is faster

SWAPPED: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.gt,
    "lte": operator.ge,
    "gt": operator.lt,
    "gte": operator.le,
}
"""Comparisons with the sides exchanged: the operand, then the string."""


class Dictionary:
    """Strings numbered 1, 2, 3, ... in the order of their first use. It grows, and is shared by columns: a number that
    was given never changes."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = list(texts)
        self._numbers = {text: number for number, text in enumerate(self.texts, 1)}
        self._length = sum(map(len, self.texts))

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """The number of a string, which is entered if it is not there."""
        found = self._numbers.get(text)
        if found is None:
            self.texts.append(text)  # first: who has the number finds the string
            found = self._numbers[text] = len(self.texts)
            self._length += len(text)
        return found

    def find(self, text: str) -> int:
        """The number of a string, -1 if it is not there."""
        return self._numbers.get(text, -1)

    def numbers_of(self, other: Dictionary) -> np.ndarray:
        """The numbers here of what another dictionary numbers 0, 1, 2, ...; 0 stays 0."""
        return np.array([0, *map(self.number, other.texts)], np.uint32)

    def only(self, codes: np.ndarray) -> tuple[np.ndarray, Dictionary]:
        """Numbers of strings, uint32, in a dictionary of those alone, and that dictionary."""
        used = np.zeros(len(self) + 1, bool)
        used[codes] = True
        used[0] = False
        kept = np.flatnonzero(used)
        renumbered = np.zeros(len(used), np.uint32)
        renumbered[kept] = np.arange(1, len(kept) + 1)
        return renumbered[codes], Dictionary(self.texts[number - 1] for number in kept.tolist())

    def to_array(self) -> np.ndarray:
        # Not in ASCII: two lone surrogates, one after the other, would come back as one character.
        text = json.dumps(self.texts, separators=(",", ":"), ensure_ascii=False)
        return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)

    @classmethod
    def from_array(cls, raw: np.ndarray) -> Dictionary:
        if raw.dtype != np.uint8 or raw.ndim != 1:
            raise ValueError(f"the strings of a field are {raw.dtype}")
        try:
            texts = json.loads(raw.tobytes().decode("utf-8", "surrogatepass"))
        except RecursionError:
            raise ValueError("the strings of a field are lists within lists") from None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError("the strings of a field are not strings")
        if len(set(texts)) != len(texts):
            raise ValueError("a field has a string twice")
        return cls(texts)

    @property
    def nbytes(self) -> int:
        return 2 * (64 * len(self.texts) + self._length)  # as Python's objects, about

    # ---- filters

    def matches(self, codes: np.ndarray, op: str, operand: Any) -> np.ndarray:
        """Which numbers are of strings that compare like this, bool. op, operand : as of `FieldColumn.mask`."""
        if op == "exists":
            return np.asarray(codes != 0)
        if op in ("eq", "in"):
            most = 1 << 8 * codes.itemsize  # of the column; the dictionary may have grown beyond
            found = map(self.find, (operand,) if op == "eq" else operand)
            numbers = [number for number in found if 0 < number < most]
            if len(numbers) <= FEW:
                return equal_to_any(codes, numbers)
            table = np.zeros(len(self) + 1, bool)
            table[numbers] = True
            return looked_up(table, codes)
        compare = partial(SWAPPED[op], operand)
        texts = list(self.texts)  # another thread may add some
        if len(codes) < len(texts):
            used, at = np.unique(codes, return_inverse=True)
            holds = [number != 0 and compare(texts[number - 1]) for number in used.tolist()]
            return np.array(holds, bool)[at.ravel()]
        return looked_up(np.array([False, *map(compare, texts)], bool), codes)


def looked_up(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """`table[codes]` of a table of bool; without the indexing, which takes some ten comparisons, where possible."""
    for sense in (True, False):
        few = np.flatnonzero(table == sense)
        if len(few) <= FEW:
            few = few[few < 1 << 8 * codes.itemsize]
            found = equal_to_any(codes, few.tolist())
            return found if sense else ~found
    if codes.itemsize == 1:
        full = np.zeros(256, bool)
        full[: len(table)] = table[:256]
        return np.frombuffer(bytearray(codes).translate(full.tobytes()), bool)
    return table.take(codes)


def _smallest(most: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.uint32


class TextColumn(FieldColumn):
    """Numbers in a dictionary, in as few bytes as they need; 0 is missing."""

    kind, holds = "str", "a string"

    def __init__(
        self, codes: np.ndarray | None = None, words: Dictionary | None = None, n: int | None = None
    ) -> None:
        self._codes = np.empty(0, np.uint8) if codes is None else codes
        self._words = Dictionary() if words is None else words
        self._n = len(self._codes) if n is None else n

    @classmethod
    def read(cls, values: Any, name: str) -> Self:
        words, one = Dictionary(), cls()
        numbers = [
            0 if is_missing(value) else words.number(one.operand(value, name, row))
            for row, value in enumerate(listed(values))
        ]
        return cls(np.array(numbers, _smallest(len(words))), words)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        codes, words = arrays["codes"], Dictionary.from_array(arrays["texts"])
        if codes.dtype not in (np.uint8, np.uint16, np.uint32) or codes.ndim != 1:
            raise ValueError(f"a field of {cls.kind} holds {codes.dtype} of {codes.ndim} dimensions")
        if len(codes) and int(codes.max()) > len(words):
            raise ValueError(f"a field of {cls.kind} lacks a string")
        for text in words.texts:
            cls.check_text(text)
        return cls(codes, words)

    @classmethod
    def check_text(cls, text: str) -> None:
        """ValueError where a string that was stored cannot be one of this column."""

    def __len__(self) -> int:
        return self._n

    def replaced(self, slots: np.ndarray, other: Self) -> Self:
        """The column with other values at some slots; this one stays as it is."""
        numbers = self._words.numbers_of(other._words)[other._codes[: other._n]]
        width = np.promote_types(self._codes.dtype, _smallest(len(self._words)))
        codes = self._codes[: self._n].astype(width)
        codes[slots] = numbers
        return type(self)(codes, self._words)

    def extended(self, other: Self) -> Self:
        more = self._words.numbers_of(other._words)[other._codes[: other._n]]
        codes = self._codes
        width = _smallest(len(self._words))
        if np.dtype(width).itemsize > codes.itemsize:
            codes = codes[: self._n].astype(width)
        return type(self)(grown(codes, self._n, more), self._words, self._n + len(more))

    def padded(self, n: int) -> Self:
        return self.extended(type(self)(np.zeros(n - self._n, np.uint8))) if n > self._n else self

    def chosen(self, slots: np.ndarray) -> Self:
        """With a dictionary of its own, which has what is used only."""
        codes, words = self._words.only(self._codes[slots])
        return type(self)(codes.astype(_smallest(len(words))), words)

    def take(self, slots: np.ndarray) -> np.ndarray:
        codes = self._codes[np.asarray(slots)]
        out = np.empty(codes.size, object)
        texts = self._words.texts
        for i, number in enumerate(codes.ravel().tolist()):
            out[i] = texts[number - 1] if number else None
        return out.reshape(codes.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"codes": self._codes[: self._n], "texts": self._words.to_array()}

    @property
    def nbytes(self) -> int:
        return self._n * self._codes.itemsize + self._words.nbytes

    def operand(self, value: Any, name: str, row: int | None = None) -> Any:
        if not isinstance(value, str):
            raise self.wrong(name, row, value)
        return str.__str__(value)  # of an enumeration, its value

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        return self._words.matches(self._codes[first:last], op, operand)


class ListColumn(FieldColumn):
    """Lists of strings: numbers in a dictionary, one after the other; `ends[i]` is where list i ends. A missing list
    is the number 0 alone. A set is kept as a list in order."""

    kind, holds = "list", "a list of strings"

    def __init__(
        self,
        codes: np.ndarray | None = None,
        ends: np.ndarray | None = None,
        words: Dictionary | None = None,
        n: int | None = None,
    ) -> None:
        self._codes = np.empty(0, np.uint32) if codes is None else codes
        self._ends = np.empty(0, np.int64) if ends is None else ends
        self._words = Dictionary() if words is None else words
        self._n = len(self._ends) if n is None else n

    @classmethod
    def read(cls, values: Any, name: str) -> Self:
        words, one = Dictionary(), cls()
        codes: list[int] = []
        ends = []
        for row, value in enumerate(values):
            given = value.tolist() if isinstance(value, np.ndarray) else value
            if isinstance(given, (list, tuple, set, frozenset)):
                if not all(isinstance(text, str) for text in given):
                    raise one.wrong(name, row, value)
                texts = [str.__str__(text) for text in given]  # of an enumeration, its value
                codes += map(words.number, sorted(texts) if isinstance(given, (set, frozenset)) else texts)
            elif is_missing(given):
                codes.append(0)
            else:
                raise one.wrong(name, row, value)
            ends.append(len(codes))
        return cls(np.array(codes, np.uint32), np.array(ends, np.int64), words)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        codes, ends, words = arrays["codes"], arrays["ends"], Dictionary.from_array(arrays["texts"])
        if codes.dtype != np.uint32 or ends.dtype != np.int64 or codes.ndim != 1 or ends.ndim != 1:
            raise ValueError("a field of list holds other numbers")
        if len(codes) and int(codes.max()) > len(words):
            raise ValueError("a field of list lacks a string")
        # Compared, not subtracted: a difference of two ends may wrap around.
        if (ends[:1] < 0).any() or (ends[1:] < ends[:-1]).any():
            raise ValueError("lists of a field end before they begin")
        if (int(ends[-1]) if len(ends) else 0) != len(codes):
            raise ValueError("lists of a field end outside of it")
        gone = np.flatnonzero(codes == 0)
        of = np.searchsorted(ends, gone, side="right")
        begins = np.concatenate([np.zeros(1, np.int64), ends])[of]
        if (begins != gone).any() or (ends[of] != gone + 1).any():
            raise ValueError("a list of a field lacks a string")
        return cls(codes, ends, words)

    def __len__(self) -> int:
        return self._n

    def _end(self, n: int) -> int:
        return int(self._ends[n - 1]) if n else 0

    def extended(self, other: Self) -> Self:
        used, more = self._end(self._n), other._end(other._n)
        codes = grown(self._codes, used, self._words.numbers_of(other._words)[other._codes[:more]])
        ends = grown(self._ends, self._n, other._ends[: other._n] + used)
        return type(self)(codes, ends, self._words, self._n + len(other))

    def padded(self, n: int) -> Self:
        if n <= self._n:
            return self
        gone = n - self._n
        return self.extended(type(self)(np.zeros(gone, np.uint32), np.arange(1, gone + 1, dtype=np.int64)))

    def chosen(self, slots: np.ndarray) -> Self:
        """With a dictionary of its own, which has what is used only."""
        slots = np.asarray(slots, np.int64)
        stops = self._ends[slots]
        lengths = stops - np.where(slots > 0, self._ends[slots - 1], 0)
        ends = np.cumsum(lengths)
        at = np.arange(int(lengths.sum())) + np.repeat(stops - ends, lengths)
        codes, words = self._words.only(self._codes[at])
        return type(self)(codes, ends, words)

    def take(self, slots: np.ndarray) -> np.ndarray:
        slots = np.asarray(slots)
        out = np.empty(slots.size, object)
        texts = self._words.texts
        for i, slot in enumerate(slots.ravel().tolist()):
            codes = self._codes[self._end(slot) : self._ends[slot]].tolist()
            out[i] = None if codes == [0] else [texts[number - 1] for number in codes]
        return out.reshape(slots.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        n = self._n
        return {"codes": self._codes[: self._end(n)], "ends": self._ends[:n], "texts": self._words.to_array()}

    @property
    def nbytes(self) -> int:
        return 8 * self._n + 4 * self._end(self._n) + self._words.nbytes

    def operand(self, value: Any, name: str, row: int | None = None) -> Any:
        if not isinstance(value, str):
            raise TypeError(
                f"field {name!r} holds lists of strings, which are compared with a string, not {shown(value)}"
            )
        return str.__str__(value)

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        """A comparison is about any string of the list; "exists", about the list."""
        start, stop = self._end(first), self._end(last)
        codes, ends = self._codes[start:stop], self._ends[first:last]
        hit = codes == 0 if op == "exists" else self._words.matches(codes, op, operand)
        found = _any_in_lists(hit, ends - start if start else ends)
        return ~found if op == "exists" else found


def _any_in_lists(hit: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Which lists, of which each ends at `ends`, have an element that is hit, bool."""
    if np.count_nonzero(hit) * SPARSE <= len(hit):
        found = np.zeros(len(ends), bool)
        found[np.searchsorted(ends, np.flatnonzero(hit), side="right")] = True
        return found
    before = np.zeros(len(hit) + 1, np.int32 if len(hit) < 1 << 31 else np.int64)
    np.cumsum(hit, out=before[1:])
    hits = before[ends]  # up to the end of each list
    found = np.empty(len(ends), bool)
    found[:1] = hits[:1] > 0
    np.greater(hits[1:], hits[:-1], out=found[1:])
    return found
