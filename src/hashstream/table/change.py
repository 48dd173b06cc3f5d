"""What one commit does to the items: the only thing that ever changes them, live, in recovery and for readers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hashstream.table.ids import column_of

__all__ = ["Added", "Change", "Recoded"]


@dataclass(frozen=True)
class Added:
    """Items that take the slots from `first_slot` on.

    ids : (n,) int64, or object holding str. version : of the functions that made the codes.
    codes : (n, width) uint8.
    """

    first_slot: int
    ids: np.ndarray
    version: int
    codes: np.ndarray


@dataclass(frozen=True)
class Recoded:
    """New codes of items that stay where they are.

    slots : (n,) uint32, ascending. codes : (n, width) uint8, made by `version`.
    """

    version: int
    slots: np.ndarray
    codes: np.ndarray


@dataclass(frozen=True)
class Change:
    """In this order: slots that die, items that are re-encoded, items that are added.

    removed : (m,) uint32, ascending: the slots of removed items, and of those whose id is added again.
    """

    removed: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint32))
    recoded: tuple[Recoded, ...] = ()
    added: Added | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """As named arrays, for the log."""
        out = {"removed": self.removed}
        for i, piece in enumerate(self.recoded):
            out[f"recoded.{i}.version"] = np.array(piece.version, np.int64)
            out[f"recoded.{i}.codes"] = piece.codes
            low, high = (int(piece.slots[0]), int(piece.slots[-1]) + 1) if len(piece.slots) else (0, 0)
            if high - low == len(piece.slots):  # all of a range, as in a table where nothing was removed
                out[f"recoded.{i}.range"] = np.array([low, high], np.int64)
            else:
                out[f"recoded.{i}.slots"] = piece.slots
        if self.added is not None:
            kind = "str" if self.added.ids.dtype == object else "int"
            out["added"] = np.array([self.added.first_slot, self.added.version], np.int64)
            out["added.codes"] = self.added.codes
            for name, array in column_of(kind).extended(self.added.ids).arrays().items():
                out[f"added.{name}"] = array
        return out

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Change:
        recoded: list[Recoded] = []
        while (version := arrays.get(f"recoded.{len(recoded)}.version")) is not None:
            at = f"recoded.{len(recoded)}"
            if f"{at}.range" in arrays:
                low, high = arrays[f"{at}.range"].tolist()
                if high - low != len(arrays[f"{at}.codes"]):
                    raise ValueError("codes of a range are missing")
                slots = np.arange(low, high, dtype=np.uint32)
            else:
                slots = arrays[f"{at}.slots"]
            recoded.append(Recoded(int(version), slots, arrays[f"{at}.codes"]))
        added = None
        if "added" in arrays:
            kind = "int" if "added.ids" in arrays else "str"
            column = column_of(
                kind, {name[6:]: array for name, array in arrays.items() if name[:6] == "added."}
            )
            first, version = arrays["added"].tolist()
            if len(column) != len(arrays["added.codes"]):
                raise ValueError("codes of added items are missing")
            added = Added(first, column.take(np.arange(len(column))), version, arrays["added.codes"])
        return cls(arrays["removed"], tuple(recoded), added)
