"""One commit's effect on the items: the only thing that ever changes them, for a writer, a reader and in recovery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from hashstream.table.state.columns import FieldColumn
from hashstream.table.state.labels import LabelColumn
from hashstream.table.state.sample import SampleChange

__all__ = ["Added", "Batch", "Change", "Done", "Feedback", "Recoded", "Relabelled"]


def no_fields() -> Mapping[str, FieldColumn]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Added:
    """Items that take the slots from `first_slot` on.

    ids : (n,) int64, or object holding str. version : of the functions that encoded them.
    codes : (n, width) uint8. labels : n of them. fields : the values of those that are given, n each.
    """

    first_slot: int
    ids: np.ndarray
    version: int
    codes: np.ndarray
    labels: LabelColumn
    fields: Mapping[str, FieldColumn] = field(default_factory=no_fields)


@dataclass(frozen=True)
class Recoded:
    """New codes of items that stay where they are.

    slots : (n,) uint32, ascending. codes : (n, width) uint8, encoded by `version`.
    """

    version: int
    slots: np.ndarray
    codes: np.ndarray


@dataclass(frozen=True)
class Relabelled:
    """New labels of items. slots : (n,) uint32, ascending."""

    slots: np.ndarray
    labels: LabelColumn


@dataclass(frozen=True)
class Change:
    """In this order: fields are declared, slots removed, items re-encoded and labelled, items added.

    removed : (m,) uint32, ascending: the slots of removed items, and of those whose id is added again.
    sample : what happens to the table's sample. declared : new fields, name -> kind.
    """

    sample: SampleChange
    removed: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint32))
    recoded: tuple[Recoded, ...] = ()
    added: Added | None = None
    relabelled: Relabelled | None = None
    declared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """Rows that were ingested or added in one call.

    X : (n, d) in the table's dtype. y : labels, of which some may be missing (see `label_at`), or None.
    learned : whether the hasher learned from the rows with a label. fields : see `Added`.
    payloads : JSON texts, None for a missing one; or None for none at all.
    """

    X: np.ndarray
    y: np.ndarray | None
    learned: bool
    fields: Mapping[str, FieldColumn] = field(default_factory=no_fields)
    payloads: list[str | None] | None = None


@dataclass(frozen=True)
class Feedback:
    """Labels for stored items that the hasher has learned from in one call.

    slots : (n,) uint32, in the order in which they are learned: by sequence number, then by slot. X : (n, d), their
    features. y : (n,) or (n, C), their labels; one that is missing is taken back, and has an old one.
    old : the labels with which it had learned them before, missing where it had not; None where it had learned none.
    """

    slots: np.ndarray
    X: np.ndarray
    y: np.ndarray
    old: np.ndarray | None


class Done(NamedTuple):
    """A call that was committed under a key of its caller. fingerprint : of its arguments. result : as it returned."""

    key: str
    fingerprint: int
    result: int | None
