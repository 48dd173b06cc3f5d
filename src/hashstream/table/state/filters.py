"""Filters over the items of a state: ids and labels as columns next to the fields, and the items that are kept."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.table.state.column_base import shown
from hashstream.table.state.filter_cache import MaskCache
from hashstream.table.state.ids import Column, IntColumn
from hashstream.table.state.matching import Matching
from hashstream.table.state.number_columns import COMPARISONS
from hashstream.table.state.state import State
from hashstream.table.state.view import View
from hashstream.table.state.where import ColumnLike, parse_where

__all__ = ["Filters", "IdValues"]

MOST = 64  # filters whose matching items are kept for one view, and ...
MOST_BYTES = 1 << 27  # ... their masks
ORDERS = ("lt", "lte", "gt", "gte")


@dataclass(frozen=True)
class IdValues:
    """The ids of a table as filters use them. column : None before the first item."""

    column: Column | None

    def operand(self, value: Any, name: str) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        kind = None if self.column is None else self.column.kind
        text, number = isinstance(value, str), isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (text and kind != "int") and not (number and kind != "str"):
            holds = {None: "whole numbers or strings", "int": "whole numbers", "str": "strings"}[kind]
            raise TypeError(f"{name!r} holds {holds}, not {shown(value)}")
        return str.__str__(value) if isinstance(value, str) else value

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        if op == "exists" or self.column is None:
            return np.full(last - first, op == "exists")
        wanted = (operand,) if op == "eq" else operand
        if isinstance(self.column, IntColumn):
            ids = self.column.arrays()["ids"][first:last]
            if op in ORDERS:
                if isinstance(operand, float) and math.isfinite(operand):  # or ids become floats, rounded
                    operand = math.ceil(operand) if op in ("lt", "gte") else math.floor(operand)
                return np.asarray(COMPARISONS[op](ids, operand))
            whole = [int(one) for one in wanted if one == one // 1 and -(1 << 63) <= one < 1 << 63]
            return np.isin(ids, np.array(whole, np.int64)) if len(whole) != 1 else np.asarray(ids == whole[0])
        if op in ORDERS:
            ids = self.column.take(np.arange(first, last))
            return np.array([COMPARISONS[op](one, operand) for one in ids], bool)
        names = np.empty(len(wanted), object)
        names[:] = wanted
        found = np.isin(self.column.hashes(first, last), self.column.hash_of(names))
        at = np.flatnonzero(found)  # few: those, and ids of an equal hash
        among = set(wanted)
        found[at] = [one in among for one in self.column.take(first + at)]
        return found


class Filters:
    """The items that filters keep. What a filter has found is kept, for as long as the table stays as it is; and which
    slots it marks, so that only new items are looked at when the table has grown."""

    def __init__(self) -> None:
        self._masks = MaskCache()
        self._held: tuple[View | None, dict[str, Matching]] = None, {}
        self._process = os.getpid()

    def matching(self, where: Mapping[str, Any], state: State) -> Matching:
        """The items of a state that a filter keeps; ValueError or TypeError names what is wrong with the filter."""
        if self._process != os.getpid():  # a lock may have been held when the process was forked
            self._masks, self._process = MaskCache(), os.getpid()
        view = state.view
        columns: dict[str, ColumnLike] = {
            "id": IdValues(view.column),
            "label": view.labels,
            **view.user_fields,
        }
        chosen = parse_where(where, columns)
        held = self._held
        if held[0] is not view:
            held = self._held = view, {}
        found = held[1].get(chosen.text)
        if found is None:
            mask = self._masks.mask(chosen, columns, view.n_slots, state.generation, state.relabelled)
            found = Matching(view, mask)
            if len(held[1]) >= min(MOST, MOST_BYTES // max(1, view.n_slots)):
                held[1].clear()
            held[1][chosen.text] = found
        return found
