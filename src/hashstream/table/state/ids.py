"""The user's ids: a column of them by slot.

A slot is an item's place in the order of insertion: 0, 1, 2, ... An id that is stored again takes a new slot. Columns
grow at the end only, in buffers that earlier views share; a view remembers how long its column is.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from hashstream.table.state.ids_hash import hash_numbers, hash_texts

__all__ = [
    "MAX_SLOTS",
    "Column",
    "IntColumn",
    "StrColumn",
    "arrays_of",
    "as_ids",
    "column_of",
    "kind_of",
    "repeated",
]

MAX_SLOTS = 0xFFFFFFFE  # the two largest numbers of 32 bits mean something else in `index.py`


def as_ids(ids: Any) -> np.ndarray:
    """Ids as a 1-D array: int64, or object holding str. A ValueError says what else was found."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise ValueError(f"ids must be 1-D, one per item, not of shape {array.shape}")
    if array.dtype.kind == "T":  # NumPy's strings of any length
        array = ids = array.astype(object)
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and len(array) and int(array.max()) > np.iinfo(np.int64).max:
            raise ValueError(f"ids must fit into 64 bits with a sign: {int(array.max())} does not")
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "U":
        if isinstance(ids, np.ndarray):
            return array.astype(object)
        texts = np.empty(len(array), object)
        for row, one in enumerate(
            ids
        ):  # NumPy has made strings of everything, without the NULs at their ends
            if not isinstance(one, str):
                raise ValueError(_neither(row, one))
            texts[row] = str.__str__(one)  # of an enumeration, its value
        return texts
    if array.dtype.kind == "O" and all(isinstance(one, str) for one in array):
        return array
    if array.dtype.kind == "O" and all(
        isinstance(one, (int, np.integer)) and not isinstance(one, bool) for one in array
    ):
        try:
            return array.astype(np.int64)
        except OverflowError as error:
            raise ValueError(f"ids must fit into 64 bits with a sign: {error}") from None
    if not len(array):
        return np.empty(0, np.int64)
    if not isinstance(ids, np.ndarray) and all(
        isinstance(one, int) and not isinstance(one, bool) for one in ids
    ):
        raise ValueError(f"ids must fit into 64 bits with a sign: {max(ids, key=abs)} does not")
    flat = array.tolist()
    row = next((i for i, one in enumerate(flat) if not isinstance(one, str)), 0)
    raise ValueError(_neither(row, flat[row]))


def _neither(row: int, one: Any) -> str:
    return f"ids must be whole numbers, or all strings: ids[{row}] is {one!r}"


def repeated(ids: np.ndarray) -> list[Any]:
    """The ids that occur more than once."""
    if ids.dtype == object:
        seen: set[str] = set()
        return sorted({one for one in ids if one in seen or seen.add(one)})  # type: ignore[func-returns-value]
    values = np.sort(ids)
    same = values[1:] == values[:-1]
    found: list[Any] = np.unique(values[1:][same]).tolist() if same.any() else []
    return found


class Column(Protocol):
    """Ids by slot."""

    kind: str

    def __len__(self) -> int: ...

    def extended(self, ids: np.ndarray) -> Column:
        """The column with `ids` appended. This one stays as it is; only the newest may be extended."""

    def take(self, slots: np.ndarray) -> np.ndarray:
        """The ids of slots of any shape: int64, or object holding str."""

    def hashes(self, first: int, last: int) -> np.ndarray:
        """64-bit hashes of the ids of slots first to last, uint64, for an index; others in every process."""

    def hash_of(self, ids: np.ndarray) -> np.ndarray:
        """The same of ids that are given."""

    def keys_of(self, ids: np.ndarray) -> np.ndarray:
        """64-bit hashes of ids that are the same for ever, uint64, for the sample."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Named arrays from which `column_of` restores the column."""

    def check(self) -> None:
        """ValueError where the arrays that it was made of do not hold ids."""

    @property
    def nbytes(self) -> int: ...


def kind_of(ids: np.ndarray) -> str:
    """ "str" or "int", of ids as `as_ids` returns them."""
    return "str" if ids.dtype == object else "int"


def arrays_of(ids: np.ndarray) -> dict[str, np.ndarray]:
    """Ids as the named arrays of a column that has just these."""
    return column_of(kind_of(ids)).extended(ids).arrays()


def column_of(kind: str, arrays: dict[str, np.ndarray] | None = None) -> Column:
    """An empty column of kind "int" or "str", or the one whose `arrays` these are."""
    if kind == "int":
        return IntColumn() if arrays is None else IntColumn(arrays["ids"])
    return StrColumn() if arrays is None else StrColumn(arrays["text"], arrays["ends"])


def grown(buffer: np.ndarray, used: int, more: np.ndarray) -> np.ndarray:
    """A buffer that holds `more` (n, ...) after its first `used` rows: the same one where it has room."""
    need = used + len(more)
    if need > len(buffer) or not buffer.flags.writeable:
        larger = np.empty((max(need, used + used // 2, 64), *buffer.shape[1:]), buffer.dtype)
        larger[:used] = buffer[:used]
        buffer = larger
    buffer[used:need] = more
    return buffer


class IntColumn:
    """Whole numbers, 8 bytes each."""

    kind = "int"

    def __init__(self, buffer: np.ndarray | None = None, n: int | None = None) -> None:
        self._buffer = np.empty(0, np.int64) if buffer is None else buffer
        self._n = len(self._buffer) if n is None else n

    def __len__(self) -> int:
        return self._n

    def extended(self, ids: np.ndarray) -> IntColumn:
        return IntColumn(grown(self._buffer, self._n, ids), self._n + len(ids))

    def take(self, slots: np.ndarray) -> np.ndarray:
        ids: np.ndarray = self._buffer[slots]
        return ids

    def hashes(self, first: int, last: int) -> np.ndarray:
        return self.hash_of(self._buffer[first:last])

    def hash_of(self, ids: np.ndarray) -> np.ndarray:
        return hash_numbers(ids)

    def keys_of(self, ids: np.ndarray) -> np.ndarray:
        return mixed(ids.view(np.uint64))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"ids": self._buffer[: self._n]}

    def check(self) -> None:
        if self._buffer.dtype != np.int64 or self._buffer.ndim != 1:
            raise ValueError("ids are not whole numbers")

    @property
    def nbytes(self) -> int:
        return 8 * self._n


class StrColumn:
    """Strings as UTF-8, one after the other; `ends[i]` is where string i ends."""

    kind = "str"

    def __init__(
        self, text: np.ndarray | None = None, ends: np.ndarray | None = None, n: int | None = None
    ) -> None:
        self._text = np.empty(0, np.uint8) if text is None else text
        self._ends = np.empty(0, np.int64) if ends is None else ends
        self._n = len(self._ends) if n is None else n

    def __len__(self) -> int:
        return self._n

    def _end(self, n: int) -> int:
        return int(self._ends[n - 1]) if n else 0

    def extended(self, ids: np.ndarray) -> StrColumn:
        text, ends = _encoded(ids)
        used = self._end(self._n)
        return StrColumn(
            grown(self._text, used, text), grown(self._ends, self._n, ends + used), self._n + len(ids)
        )

    def take(self, slots: np.ndarray) -> np.ndarray:
        slots = np.asarray(slots)
        out = np.empty(slots.shape, object)
        flat = out.reshape(-1)
        for i, slot in enumerate(slots.reshape(-1).tolist()):
            flat[i] = self._text[self._end(slot) : self._ends[slot]].tobytes().decode()
        return flat.reshape(slots.shape)

    def hashes(self, first: int, last: int) -> np.ndarray:
        start = self._end(first)
        return hash_texts(self._text[start : self._end(last)], self._ends[first:last] - start)

    def hash_of(self, ids: np.ndarray) -> np.ndarray:
        return hash_texts(*_encoded(ids))

    def keys_of(self, ids: np.ndarray) -> np.ndarray:
        return _mixed_texts(*_encoded(ids))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"text": self._text[: self._end(self._n)], "ends": self._ends[: self._n]}

    def check(self) -> None:
        text, ends = self._text, self._ends[: self._n]
        if text.dtype != np.uint8 or ends.dtype != np.int64 or text.ndim != 1 or ends.ndim != 1:
            raise ValueError("ids are not texts")
        if len(ends) and (ends[0] < 0 or ends[-1] > len(text) or (ends[1:] < ends[:-1]).any()):
            raise ValueError("ids end outside of their text")
        text[: self._end(self._n)].tobytes().decode()
        begins = np.concatenate([[0], ends[:-1]])[: len(ends)]
        if (text[begins[begins < len(text)]] & 0xC0 == 0x80).any():
            raise ValueError("ids end within a character")

    @property
    def nbytes(self) -> int:
        return 8 * self._n + self._end(self._n)


def _encoded(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    raw = [one.encode() for one in ids]
    return np.frombuffer(b"".join(raw), np.uint8), np.cumsum([len(one) for one in raw], dtype=np.int64)


def _mixed_texts(text: np.ndarray, ends: np.ndarray, block: int = 1 << 20) -> np.ndarray:
    """A polynomial in each string's bytes and its length, mixed; in blocks, since a byte takes 24 bytes meanwhile."""
    out = np.empty(len(ends), np.uint64)
    for first in range(0, len(ends), block):
        stops = ends[first : first + block]
        start = int(ends[first - 1]) if first else 0
        lengths = np.diff(stops, prepend=start)
        place = np.arange(start, int(stops[-1])) - np.repeat(stops - lengths, lengths)
        terms = (text[start : int(stops[-1])].astype(np.uint64) + np.uint64(1)) * mixed(
            place.astype(np.uint64)
        )
        total = np.zeros(len(terms) + 1, np.uint64)
        np.cumsum(terms, out=total[1:])
        out[first : first + block] = total[stops - start] - total[stops - lengths - start]
    return mixed(out)


def mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit of the input moves every bit of the result."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
