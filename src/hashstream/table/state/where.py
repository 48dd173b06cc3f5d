"""Filters over the columns of a table: `where={"tenant": "a", "price": {"$lt": 10}}`.

A filter is checked in full before it is used. Logic has two values: a comparison with a missing value is false, and
`$ne`, `$nin` and `$not` are exact negations, which match missing values, too. None, NaN, NaT and pandas.NA stand for a
missing value in `$eq`, `$ne`, `$in` and `$nin`; the other operators refuse them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from hashstream.hashers.labels import is_missing
from hashstream.table.state.column_base import listed, shown
from hashstream.table.state.columns import RESERVED

__all__ = ["ColumnLike", "Filter", "parse_where"]

MAX_DEPTH = 50
MAX_CONDITIONS = 1000  # comparisons and filters within filters; the values of one `$in` count as one
MANY_VALUES = 32  # of `$in`, from where on the canonical text has their checksum

ORDERS = ("$lt", "$lte", "$gt", "$gte")
OF_FIELDS = ("$eq", "$ne", *ORDERS, "$in", "$nin", "$exists", "$not")
OF_FILTERS = ("$and", "$or", "$not")


class ColumnLike(Protocol):
    """A column as filters use it: of a field (`FieldColumn`), of the ids or of the labels."""

    def operand(self, value: Any, name: str) -> Any:
        """A value to compare with, checked and as `mask` takes it; TypeError or ValueError names the field.

        Equal operands have equal representations (`repr`), and others have others; or they are arrays.
        """

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        """Which of the slots first to last match, bool; a missing value matches nothing.

        op : "eq", "lt", "lte", "gt", "gte" with an operand, "in" with a tuple of them, or "exists" with None.
        """


class Filter:
    """A checked filter.

    text : canonical, equal for filters that say the same up to the order of their parts: a key for caches.
    """

    def __init__(self, root: Node) -> None:
        self._root = root
        self.text = root.text

    def mask(self, columns: Mapping[str, ColumnLike], first: int, last: int) -> np.ndarray:
        """Which of the slots first to last it keeps, bool. columns : by name, those of `fields` at least."""
        return self._root.mask(columns, first, last)

    def fields(self) -> set[str]:
        """The names of the columns that it looks at."""
        return self._root.fields()

    def __repr__(self) -> str:
        return f"Filter({self.text})"


def parse_where(where: Mapping[str, Any], columns: Mapping[str, ColumnLike]) -> Filter:
    """A filter as users write it, checked against the columns of a table.

    ValueError where its form is wrong, TypeError for values of a wrong type; both name the field.

    columns : by name; the ids are called "id" and the labels "label".
    """
    return Filter(_Reader(columns).filter(where, 1))


# ---- conditions


class Node(ABC):
    """A condition on an item. text : canonical."""

    text: str

    @abstractmethod
    def mask(self, columns: Mapping[str, ColumnLike], first: int, last: int) -> np.ndarray:
        """Which of the slots first to last meet it, bool; not to be written to."""

    @abstractmethod
    def fields(self) -> set[str]: ...


@dataclass(frozen=True)
class Comparison(Node):
    """One operator of `ColumnLike.mask` on a field."""

    field: str
    op: str
    operand: Any
    text: str

    def mask(self, columns: Mapping[str, ColumnLike], first: int, last: int) -> np.ndarray:
        return columns[self.field].mask(self.op, self.operand, first, last)

    def fields(self) -> set[str]:
        return {self.field}


@dataclass(frozen=True)
class Negation(Node):
    part: Node
    text: str

    def mask(self, columns: Mapping[str, ColumnLike], first: int, last: int) -> np.ndarray:
        return ~self.part.mask(columns, first, last)

    def fields(self) -> set[str]:
        return self.part.fields()


@dataclass(frozen=True)
class Group(Node):
    """Several conditions, of which all must hold, or any. Of no conditions all hold, and none does."""

    every: bool
    parts: tuple[Node, ...]
    text: str

    def mask(self, columns: Mapping[str, ColumnLike], first: int, last: int) -> np.ndarray:
        if not self.parts:
            return np.full(last - first, self.every)
        masks = (part.mask(columns, first, last) for part in self.parts)
        combine = np.logical_and if self.every else np.logical_or
        found: np.ndarray = combine(next(masks), next(masks))
        for mask in masks:
            combine(found, mask, out=found)
        return found

    def fields(self) -> set[str]:
        return reduce(set.union, (part.fields() for part in self.parts), set())


def both(parts: Iterable[Node]) -> Node:
    """The condition that all of these hold."""
    return _group(True, parts)


def either(parts: Iterable[Node]) -> Node:
    """The condition that any of these holds."""
    return _group(False, parts)


def negated(part: Node) -> Node:
    return part.part if isinstance(part, Negation) else Negation(part, f"not({part.text})")


def _group(every: bool, parts: Iterable[Node]) -> Node:
    distinct: dict[str, Node] = {}
    for part in parts:
        same = isinstance(part, Group) and part.every == every
        distinct.update((one.text, one) for one in (part.parts if same else (part,)))  # type: ignore[attr-defined]
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    texts = sorted(distinct)
    name = "all" if every else "any"
    return Group(every, tuple(distinct[text] for text in texts), f"{name}({', '.join(texts)})")


def comparison(field: str, op: str, operand: Any = None) -> Node:
    text = f"{op}({field!r})" if op == "exists" else f"{op}({field!r}, {_text(operand)})"
    return Comparison(field, op, operand, text)


def one_of(field: str, operands: Iterable[Any]) -> Node:
    """The condition that a field equals one of the operands."""
    distinct = {_text(operand): operand for operand in operands}
    if not distinct:
        return either(())
    texts = sorted(distinct)
    if len(texts) == 1:
        return comparison(field, "eq", distinct[texts[0]])
    values = ", ".join(texts)
    if len(texts) > MANY_VALUES:
        values = f"{len(texts)} values, {blake2b(values.encode(), digest_size=20).hexdigest()}"
    return Comparison(field, "in", tuple(distinct[text] for text in texts), f"in({field!r}, [{values}])")


def _text(operand: Any) -> str:
    """A text of an operand that differs for 1, 1.0, True and "1"."""
    if isinstance(operand, np.ndarray):  # whose `repr` leaves values out
        return f"array({operand.dtype.str}, {operand.shape}, {operand.tolist()!r})"
    return repr(operand)


# ---- reading


class _Reader:
    """Filters as users write them, turned into conditions."""

    def __init__(self, columns: Mapping[str, ColumnLike]) -> None:
        self._columns = columns
        self._left = MAX_CONDITIONS

    def _enter(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"a filter has more than {MAX_CONDITIONS} conditions")
        if depth > MAX_DEPTH:
            raise ValueError(f"a filter is nested more than {MAX_DEPTH} deep")

    def filter(self, where: Any, depth: int) -> Node:
        self._enter(depth)
        if not isinstance(where, Mapping):
            raise TypeError(f'a filter is an object such as {{"price": {{"$lt": 10}}}}, not {shown(where)}')
        return both([self._entry(name, given, depth) for name, given in where.items()])

    def _entry(self, name: Any, given: Any, depth: int) -> Node:
        """One key of a filter and its value."""
        if not isinstance(name, str):
            raise TypeError(f"the names in a filter are strings, not {shown(name)}")
        name = str.__str__(name)
        if name in OF_FILTERS:
            if name == "$not":
                return negated(self.filter(given, depth + 1))
            if not isinstance(given, (list, tuple)):
                raise TypeError(f"{name} needs a list of filters, not {shown(given)}")
            if not given:
                raise ValueError(f"{name} needs a list of at least one filter")
            return (both if name == "$and" else either)([self.filter(one, depth + 1) for one in given])
        if name in OF_FIELDS:
            raise ValueError(f'operator {name!r} needs a field, as in {{"price": {{"{name}": ...}}}}')
        if name.startswith("$") and name not in self._columns:
            raise ValueError(f"unknown operator {name!r}: filters are joined by {', '.join(OF_FILTERS)}")
        if name not in self._columns:
            raise ValueError(self._unknown(name))
        if isinstance(given, Mapping):
            return self._operators(name, given, depth + 1)
        self._enter(depth)
        return self._equal(name, given)

    def _unknown(self, name: str) -> str:
        fields = [known for known in self._columns if known not in RESERVED]
        own = [f'"{known}"' for known in RESERVED if known in self._columns]
        says = f"the fields of this table are {', '.join(fields)}" if fields else "this table has no fields"
        if own:
            says += f"; {' and '.join(own)} can be filtered" + (", too" if fields else "")
        near = get_close_matches(name, list(self._columns), 1)
        return f"unknown field {name!r}: {says}" + (f"; did you mean {near[0]!r}?" if near else "")

    def _operators(self, name: str, given: Mapping[Any, Any], depth: int) -> Node:
        if not given:
            raise ValueError(f"field {name!r} has an empty condition: {{}}")
        return both([self._operator(name, op, value, depth) for op, value in given.items()])

    def _operator(self, name: str, op: Any, value: Any, depth: int) -> Node:
        self._enter(depth)
        if op not in OF_FIELDS:
            near = get_close_matches(str(op), OF_FIELDS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(
                f"unknown operator {shown(op)} of field {name!r}: there are {', '.join(OF_FIELDS)}{hint}"
            )
        if op == "$not":
            if not isinstance(value, Mapping):
                raise TypeError(
                    f'field {name!r}: $not needs an object such as {{"$lt": 10}}, not {shown(value)}'
                )
            return negated(self._operators(name, value, depth + 1))
        if op == "$exists":
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"field {name!r}: $exists needs True or False, not {shown(value)}")
            there = comparison(name, "exists")
            return there if value else negated(there)
        if op in ("$in", "$nin"):
            found = self._among(name, op, value)
            return found if op == "$in" else negated(found)
        if op in ORDERS:
            if _stands_for_none(value):
                raise TypeError(f"field {name!r}: {op} needs a value, not {shown(value)}")
            return comparison(name, op[1:], self._columns[name].operand(value, name))
        found = self._equal(name, value)
        return found if op == "$eq" else negated(found)

    def _equal(self, name: str, value: Any) -> Node:
        if _stands_for_none(value):
            return negated(comparison(name, "exists"))
        try:
            return comparison(name, "eq", self._columns[name].operand(value, name))
        except TypeError as error:
            if isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
                raise TypeError(f'{error}; {{"$in": [...]}} looks for any of several') from None
            raise

    def _among(self, name: str, op: str, values: Any) -> Node:
        refused = isinstance(values, (str, bytes, bytearray, Mapping)) or not isinstance(values, Collection)
        if refused or getattr(values, "ndim", 1) != 1:
            raise TypeError(f"field {name!r}: {op} needs a list of values, not {shown(values)}")
        column = self._columns[name]
        known = [value for value in listed(values) if not _stands_for_none(value)]
        found = one_of(name, [column.operand(value, name) for value in known])
        return found if len(known) == len(values) else either([found, negated(comparison(name, "exists"))])


def _stands_for_none(value: Any) -> bool:
    if type(value) is float:  # soonest: there may be many
        return value != value
    return not isinstance(value, np.ndarray) and is_missing(value)
