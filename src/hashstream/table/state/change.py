"""One commit's effect on the items: the only thing that ever changes them, for a writer, a reader and in recovery."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hashstream.table.state.sample import SampleChange

__all__ = ["Added", "Batch", "Change", "Recoded"]


@dataclass(frozen=True)
class Added:
    """Items that take the slots from `first_slot` on.

    ids : (n,) int64, or object holding str. version : of the functions that encoded them.
    codes : (n, width) uint8.
    """

    first_slot: int
    ids: np.ndarray
    version: int
    codes: np.ndarray


@dataclass(frozen=True)
class Recoded:
    """New codes of items that stay where they are.

    slots : (n,) uint32, ascending. codes : (n, width) uint8, encoded by `version`.
    """

    version: int
    slots: np.ndarray
    codes: np.ndarray


@dataclass(frozen=True)
class Change:
    """In this order: slots are removed, items are re-encoded, items are added.

    removed : (m,) uint32, ascending: the slots of removed items, and of those whose id is added again.
    sample : what happens to the table's sample.
    """

    sample: SampleChange
    removed: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint32))
    recoded: tuple[Recoded, ...] = ()
    added: Added | None = None


@dataclass(frozen=True)
class Batch:
    """Rows that were ingested or added in one call.

    X : (n, d) in the table's dtype. y : labels, of which some may be missing (see `label_at`), or None.
    learned : whether the hasher learned from the rows with a label.
    """

    X: np.ndarray
    y: np.ndarray | None
    learned: bool
