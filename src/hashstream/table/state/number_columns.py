"""Columns of numbers, truth values and moments: one number per slot, a reserved one where the value is missing."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Self

import numpy as np

from hashstream.hashers.labels import is_missing
from hashstream.table.state.column_base import FieldColumn, equal_to_any, listed
from hashstream.table.state.ids import grown

__all__ = ["BoolColumn", "FloatColumn", "IntColumn", "NumberColumn", "TimeColumn"]

LEAST_INT, MOST_INT = -(1 << 63), (1 << 63) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
PER_MICROSECOND = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
MANY_SPREAD = 32  # numbers, from where on a search in their order is faster than one comparison for each

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
}


class NumberColumn(FieldColumn):
    """Values as numbers of one dtype, one of which means that there is none.

    gaps : whether any value is missing, which spares the comparisons that look for them; found out if not given.
    """

    dtype: ClassVar[Any]
    missing: ClassVar[Any]

    def __init__(
        self, buffer: np.ndarray | None = None, n: int | None = None, gaps: bool | None = None
    ) -> None:
        self._buffer = np.empty(0, self.dtype) if buffer is None else buffer
        self._n = len(self._buffer) if n is None else n
        self._gaps = bool(self._gone(self._buffer[: self._n]).any()) if gaps is None else gaps

    @classmethod
    def read(cls, values: Any, name: str) -> Self:
        plain = isinstance(values, np.ndarray) and values.ndim == 1
        known = cls._fast(values) if plain and not isinstance(values, np.ma.MaskedArray) else None
        if known is not None:
            return cls(known)
        one = cls()
        numbers = [
            cls.missing if is_missing(value) else one._number(value, name, row)
            for row, value in enumerate(listed(values))
        ]
        return cls(np.array(numbers, cls.dtype))

    @classmethod
    @abstractmethod
    def _fast(cls, values: np.ndarray) -> np.ndarray | None:
        """An array's values (n,) without a look at each, in memory of their own; None where one is needed."""

    @abstractmethod
    def _number(self, value: Any, name: str, row: int | None = None) -> Any:
        """One value as it is stored; TypeError names field and row. A missing value is none, except NaN of a float."""

    @abstractmethod
    def _value(self, number: Any) -> Any:
        """A stored number, which is not the missing one, as Python has it."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        values = arrays["values"]
        if values.dtype != cls.dtype or values.ndim != 1:
            raise ValueError(f"a field of {cls.kind} holds {values.dtype} of {values.ndim} dimensions")
        return cls(values)

    def __len__(self) -> int:
        return self._n

    def extended(self, other: Self) -> Self:
        more = other._buffer[: other._n]
        buffer = grown(self._buffer, self._n, more)
        return type(self)(buffer, self._n + len(more), self._gaps or other._gaps)

    def padded(self, n: int) -> Self:
        if n <= self._n:
            return self
        return self.extended(type(self)(np.full(n - self._n, self.missing, self.dtype)))

    def chosen(self, slots: np.ndarray) -> Self:
        return type(self)(self._buffer[slots])

    def take(self, slots: np.ndarray) -> np.ndarray:
        numbers = self._buffer[np.asarray(slots)]
        out = np.empty(numbers.size, object)
        gone = self._gone(numbers).ravel().tolist()
        for i, (number, none) in enumerate(zip(numbers.ravel().tolist(), gone, strict=True)):
            out[i] = None if none else self._value(number)
        return out.reshape(numbers.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"values": self._buffer[: self._n]}

    @property
    def nbytes(self) -> int:
        return self._n * self._buffer.itemsize

    def _gone(self, numbers: np.ndarray) -> np.ndarray:
        return np.asarray(numbers == self.missing)

    def operand(self, value: Any, name: str) -> Any:
        return self._number(value, name)

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        numbers = self._buffer[first:last]
        if op == "exists":
            return ~self._gone(numbers) if self._gaps else np.ones(len(numbers), bool)
        return self._among(numbers, operand) if op == "in" else self._compared(numbers, op, operand)

    @abstractmethod
    def _compared(self, numbers: np.ndarray, op: str, operand: Any) -> np.ndarray:
        """Which of the stored numbers compare like this, bool."""

    @abstractmethod
    def _among(self, numbers: np.ndarray, operands: tuple[Any, ...]) -> np.ndarray:
        """Which of the stored numbers are equal to one of the operands, bool."""


class FloatColumn(NumberColumn):
    """NaN is missing: no comparison with it is true."""

    kind, holds, dtype, missing = "float", "a number", np.float64, np.nan

    @classmethod
    def _fast(cls, values: np.ndarray) -> np.ndarray | None:
        if values.dtype.kind not in "iuf":
            return None
        with np.errstate(over="ignore"):  # a longer float becomes infinite, as by `float`
            return values.astype(np.float64)

    def _number(self, value: Any, name: str, row: int | None = None) -> Any:
        if type(value) is float:
            return value
        if isinstance(value, (bool, np.bool_)) or not isinstance(
            value, (int, float, np.integer, np.floating)
        ):
            raise self.wrong(name, row, value)
        try:
            return float(value)
        except OverflowError:
            raise self.wrong(name, row, value) from None

    def _value(self, number: Any) -> Any:
        return number

    def _gone(self, numbers: np.ndarray) -> np.ndarray:
        return np.asarray(np.isnan(numbers))

    def operand(self, value: Any, name: str) -> Any:
        number = self._number(value, name)
        if math.isnan(number):
            raise self.wrong(name, None, value)
        return number

    def _compared(self, numbers: np.ndarray, op: str, operand: Any) -> np.ndarray:
        return np.asarray(COMPARISONS[op](numbers, operand))

    def _among(self, numbers: np.ndarray, operands: tuple[Any, ...]) -> np.ndarray:
        return among(numbers, list(operands))


class WholeColumn(NumberColumn):
    """Whole numbers of which `missing` is the least, so that only a comparison with an upper bound can meet it."""

    most: ClassVar[int]

    @abstractmethod
    def _span(self, operand: Any) -> tuple[int, int]:
        """The least and the largest stored number that equal the operand. One that lies between two stored numbers has
        the upper and the lower of these."""

    def _compared(self, numbers: np.ndarray, op: str, operand: Any) -> np.ndarray:
        first, last = self._span(operand)
        low = {"eq": first, "gte": first, "gt": last + 1}.get(op, self.missing + 1)
        high = {"eq": last, "lte": last, "lt": first - 1}.get(op, self.most)
        low, high = max(low, self.missing + 1), min(high, self.most)
        if low >= high:
            return np.asarray(numbers == low) if low == high else np.zeros(len(numbers), bool)
        if high == self.most:
            return np.asarray(numbers >= low)
        found: np.ndarray = numbers <= high
        if self._gaps or low > self.missing + 1:
            found &= numbers >= low
        return found

    def _among(self, numbers: np.ndarray, operands: tuple[Any, ...]) -> np.ndarray:
        return among(numbers, self._equals(operands))

    @abstractmethod
    def _equals(self, operands: tuple[Any, ...]) -> list[int]:
        """The stored numbers that equal one of the operands."""


class IntColumn(WholeColumn):
    kind, holds = "int", "a whole number above -2**63 and below 2**63"
    dtype, missing, most = np.int64, LEAST_INT, MOST_INT

    @classmethod
    def _fast(cls, values: np.ndarray) -> np.ndarray | None:
        if values.dtype.kind not in "iu":
            return None
        known = values.astype(np.int64)
        fits = values.dtype.kind == "i" or values.dtype.itemsize < 8 or not (known < 0).any()
        return known if fits and not (known == LEAST_INT).any() else None

    def _number(self, value: Any, name: str, row: int | None = None) -> Any:
        if isinstance(value, (float, np.floating)) and float(value).is_integer():
            value = int(value)
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise self.wrong(name, row, value)
        if not LEAST_INT < int(value) <= MOST_INT:
            raise self.wrong(name, row, value)
        return int(value)

    def _value(self, number: Any) -> Any:
        return number

    def counts(self, slots: np.ndarray) -> np.ndarray:
        """The values of slots, none of which is negative, int64; -1 for a missing one."""
        return np.asarray(np.maximum(self._buffer[slots], -1))

    def operand(self, value: Any, name: str) -> Any:
        """Any number: one that no value can equal is still below or above some."""
        if type(value) is int:
            return value
        if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
            return int(value)
        if isinstance(value, (float, np.floating)) and not np.isnan(value):
            number = float(value)
            if math.isinf(number):
                return 1 << 64 if number > 0 else -(1 << 64)
            return int(number) if number.is_integer() else number
        raise self.wrong(name, None, value)

    def _span(self, operand: Any) -> tuple[int, int]:
        return math.ceil(operand), math.floor(operand)

    def _equals(self, operands: tuple[Any, ...]) -> list[int]:
        return [one for one in operands if isinstance(one, int) and LEAST_INT < one <= MOST_INT]


class BoolColumn(WholeColumn):
    """0 is missing, 1 false and 2 true."""

    kind, holds, dtype, missing, most = "bool", "True or False", np.uint8, 0, 2

    @classmethod
    def _fast(cls, values: np.ndarray) -> np.ndarray | None:
        return values.astype(np.uint8) + np.uint8(1) if values.dtype.kind == "b" else None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        column = super().from_arrays(arrays)
        if (column._buffer > 2).any():
            raise ValueError("a field of bool holds another number")
        return column

    def _number(self, value: Any, name: str, row: int | None = None) -> Any:
        if not isinstance(value, (bool, np.bool_)):
            raise self.wrong(name, row, value)
        return 1 + bool(value)

    def _value(self, number: Any) -> Any:
        return number == 2

    def _span(self, operand: Any) -> tuple[int, int]:
        return operand, operand

    def _equals(self, operands: tuple[Any, ...]) -> list[int]:
        return list(operands)


class TimeColumn(WholeColumn):
    """Microseconds since 1970 in UTC, times 2, plus 1 where the value has a time zone: it comes back with one then.

    A value without a zone is compared as if it were in UTC. Nanoseconds are cut off.
    """

    kind, holds = "datetime", "a date and time (datetime, or ISO 8601)"
    dtype, missing, most = np.int64, LEAST_INT, MOST_INT

    @classmethod
    def _fast(cls, values: np.ndarray) -> np.ndarray | None:
        return _doubled(values) if values.dtype.kind == "M" else None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        column = super().from_arrays(arrays)
        numbers = column._buffer
        if not ((numbers == LEAST_INT) | ((numbers >= 2 * FIRST) & (numbers <= 2 * LAST + 1))).all():
            raise ValueError("a field of datetime holds a moment outside of the years 1 to 9999")
        return column

    def _number(self, value: Any, name: str, row: int | None = None) -> Any:
        given = value
        try:
            if isinstance(value, str):
                value = datetime.fromisoformat(value)
            elif isinstance(value, np.datetime64):
                unit, count = np.datetime_data(value.dtype)
                value = value.item()  # a date or datetime; a number where Python has none
                if isinstance(value, int) and unit in PER_MICROSECOND:
                    value = (EPOCH + value * count // PER_MICROSECOND[unit] * MICROSECOND).replace(
                        tzinfo=None
                    )
            if isinstance(value, date) and not isinstance(value, datetime):
                value = datetime(value.year, value.month, value.day)
            if isinstance(value, datetime):
                micros = _micros(value)
                if FIRST <= micros <= LAST:  # not where UTC is in the year 0 or 10000
                    return 2 * micros + (value.tzinfo is not None)
        except (ValueError, OverflowError, TypeError):  # TypeError: a zone without an offset
            pass
        raise self.wrong(name, row, given)

    def _value(self, number: Any) -> Any:
        moment = EPOCH + (number >> 1) * MICROSECOND
        return moment if number & 1 else moment.replace(tzinfo=None)

    def _span(self, operand: Any) -> tuple[int, int]:
        return operand & ~1, operand | 1

    def _equals(self, operands: tuple[Any, ...]) -> list[int]:
        return [one & ~1 for one in operands] + [one | 1 for one in operands]


def _micros(moment: datetime) -> int:
    """Microseconds since 1970. A datetime without a zone is in UTC."""
    return int(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND)


FIRST, LAST = _micros(datetime.min), _micros(datetime.max)


def _doubled(values: np.ndarray) -> np.ndarray | None:
    """Moments without a zone, datetime64 (n,), as a column holds them; None where one is outside of its years."""
    unit, count = np.datetime_data(values.dtype)
    gone = np.isnat(values)
    if unit in PER_MICROSECOND:  # `astype` is wrong near the least number
        numbers, per = values.astype(np.int64), PER_MICROSECOND[unit]
        try:
            micros = (
                numbers // per if count == 1 else (numbers.astype(object) * count // per).astype(np.int64)
            )
        except OverflowError:
            return None
    else:  # compared in their own unit, since `astype` to a finer one wraps around
        known = values[~gone]
        least, most = (np.datetime64(one).astype(values.dtype) for one in (datetime.min, datetime.max))
        if unit != "generic" and not ((known >= least) & (known <= most)).all():
            return None
        micros = values.astype("datetime64[us]").astype(np.int64)
    if not (gone | ((micros >= FIRST) & (micros <= LAST))).all():
        return None
    return np.where(gone, LEAST_INT, 2 * micros)


def among(numbers: np.ndarray, wanted: list[Any]) -> np.ndarray:
    """Which numbers are equal to one of those wanted, bool; time grows with the logarithm of how many these are."""
    values = np.unique(np.array(wanted, numbers.dtype))
    if len(values) <= MANY_SPREAD:
        return equal_to_any(numbers, list(values))
    if values.dtype.kind != "f" and int(values[-1]) - int(values[0]) <= 6 * (len(numbers) + len(values)):
        return np.isin(numbers, values, kind="table")
    at = np.searchsorted(values, numbers)
    at[at == len(values)] = 0
    return np.asarray(values[at] == numbers)
