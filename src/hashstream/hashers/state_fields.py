"""Declarations of learned state: dtype, shape and range of each entry that a method or a feature map saves.

A model file is untrusted input, so a method declares its state in `state_fields`:

    state_fields = {
        "projection_": Array("d r"),
        "codebook_": Array("m r", "int8", values=(-1, 1)),
        "class_rows_": Array("C", "int64", low=-1, below="m"),
        "steps_": Whole(),
    }

`state_checks.py` compares every entry with its field when a model is saved and when it is loaded.

A dimension is a whole number, a symbol, or a symbol plus a whole number ("d+1"). Four symbols are the hasher's own:
f (features of the input), d (features after the feature map), r (bits) and C (classes). Any other symbol means the same
size wherever it appears; the first field that uses it sets the size, so declare that one first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hashstream.hashers.validation import all_finite

__all__ = ["MAX_COUNT", "Array", "Either", "Field", "Flag", "ListOf", "Real", "Sizes", "Whole"]

MAX_COUNT = 2**62
"""Counts stay below this, so that adding a batch to one cannot overflow 64 bits."""
FLOATS = ("float32", "float64")


@dataclass
class Sizes:
    """The sizes that symbols stand for, and the dtype that the model computes in (None: float32 or float64)."""

    known: dict[str, int] = field(default_factory=dict)
    dtype: str | None = None

    def expected(self, dimension: str) -> int | None:
        """The size that a dimension must have; None where its symbol has no size yet."""
        symbol, _, more = dimension.partition("+")
        if symbol.isdigit():
            return int(symbol)
        size = self.known.get(symbol)
        return None if size is None else size + int(more or 0)

    def bind(self, dimension: str, size: int) -> bool:
        """True where a dimension may have this size; sets the size of a symbol that has none."""
        expected = self.expected(dimension)
        if expected is None:
            symbol, _, more = dimension.partition("+")
            self.known[symbol] = size - int(more or 0)
            return self.known[symbol] >= 0
        return size == expected

    def shown(self, shape: str) -> str:
        """A declared shape with the sizes known so far: "(d, r) = (12, 8)"."""
        sizes = [self.expected(dimension) for dimension in shape.split()]
        symbols = ", ".join(shape.split())
        numbers = ", ".join("any" if size is None else str(size) for size in sizes)
        return f"({symbols})" if symbols == numbers else f"({symbols}) = ({numbers})"


class Field(Protocol):
    """The declaration of one entry."""

    @property
    def optional(self) -> bool:
        """True where the entry may be absent."""
        ...

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Raise ValueError, naming the entry, unless the value is as declared."""
        ...


@dataclass(frozen=True)
class Array:
    """An array.

    shape : its dimensions, separated by spaces ("d r"). dtype : "real" is the dtype that the model computes in, any
    other the name of a NumPy dtype. Floating-point arrays must be finite.
    low, below : every number is at least `low` and less than `below`, a number or a symbol.
    values : every number is one of these.
    or_none : the entry may be None. optional : the entry may be absent.
    """

    shape: str
    dtype: str = "real"
    low: float | None = None
    below: float | str | None = None
    values: tuple[int, ...] | None = None
    or_none: bool = False
    optional: bool = False

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if value is None and self.or_none:
            return
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{name} must be an array, not {_kind(value)}")
        dtypes = (self.dtype,) if self.dtype != "real" else FLOATS if sizes.dtype is None else (sizes.dtype,)
        if str(value.dtype) not in dtypes:
            raise ValueError(f"{name} must be of {' or '.join(dtypes)}, not {value.dtype}")
        dimensions = self.shape.split()
        expected = sizes.shown(self.shape)
        if value.ndim != len(dimensions) or not all(map(sizes.bind, dimensions, value.shape)):
            raise ValueError(f"{name} must have shape {expected}, not {value.shape}")
        if not value.size:
            return
        check_finite_array(name, value)
        below = sizes.known[self.below] if isinstance(self.below, str) else self.below
        if self.low is not None and (low := value.min()) < self.low:
            raise ValueError(f"{name} must be at least {self.low}, but has {low}")
        if below is not None and (high := value.max()) >= below:
            raise ValueError(f"{name} must be less than {below}, but has {high}")
        if self.values is not None and not (among := np.isin(value, self.values)).all():
            raise ValueError(
                f"{name} must hold {' and '.join(map(str, self.values))} only, but has {value[~among][0]}"
            )


@dataclass(frozen=True)
class Whole:
    """A whole number of at least `low` and less than `below`, a number or a symbol."""

    low: int = 0
    below: int | str = MAX_COUNT
    optional: bool = False

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ValueError(f"{name} must be a whole number, not {_kind(value)}")
        below = sizes.known[self.below] if isinstance(self.below, str) else self.below
        if not self.low <= value < below:
            raise ValueError(
                f"{name} must be at least {self.low} and less than {below}, not {str(value)[:40]}"
            )


@dataclass(frozen=True)
class Real:
    """A finite number of at least `low`, or, where `above` is given, greater than that."""

    low: float | None = None
    above: float | None = None
    optional: bool = False

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise ValueError(f"{name} must be a number, not {_kind(value)}")
        try:
            finite = bool(np.isfinite(float(value)))
        except OverflowError:
            finite = False
        if not finite:
            raise ValueError(f"{name} must be finite, not {str(value)[:40]}")
        if (self.low is not None and value < self.low) or (self.above is not None and value <= self.above):
            bound = f"greater than {self.above}" if self.above is not None else f"at least {self.low}"
            raise ValueError(f"{name} must be {bound}, not {value}")


@dataclass(frozen=True)
class Flag:
    """True or False."""

    optional: bool = False

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, not {_kind(value)}")


@dataclass(frozen=True)
class ListOf:
    """A list of `length` entries (a dimension), each as `each` declares."""

    length: str
    each: Field
    optional: bool = False

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list, not {_kind(value)}")
        expected = sizes.expected(self.length)
        if not sizes.bind(self.length, len(value)):
            raise ValueError(f"{name} must have {self.length} = {expected} entries, not {len(value)}")
        for i, part in enumerate(value):
            self.each.check(f"{name}[{i}]", part, sizes)


@dataclass(frozen=True, init=False)
class Either:
    """An array of one of several kinds, which differ in their number of dimensions."""

    kinds: tuple[Array, ...]
    optional: bool = False

    def __init__(self, *kinds: Array) -> None:
        object.__setattr__(self, "kinds", kinds)

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        n = np.ndim(value) if isinstance(value, np.ndarray) else -1
        same = [kind for kind in self.kinds if len(kind.shape.split()) == n]
        (same or list(self.kinds))[0].check(name, value, sizes)


def check_finite_array(name: str, value: np.ndarray) -> None:
    """Raise ValueError where a floating-point array holds NaN or infinity."""
    if value.dtype.kind == "f" and not all_finite(value) and not (finite := np.isfinite(value)).all():
        at = ", ".join(map(str, np.argwhere(~finite)[0]))
        raise ValueError(f"{name} contains NaN or infinity: {name.rpartition('.')[2]}[{at}]")


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
