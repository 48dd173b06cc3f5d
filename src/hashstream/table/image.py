"""The image: all items of a table, and its sample, as of one commit."""

from __future__ import annotations

import numpy as np

from hashstream.table.codes import Part, View
from hashstream.table.ids import column_of
from hashstream.table.reservoir import Reservoir, Seats

__all__ = ["from_image", "image_of"]


def image_of(view: View, reservoir: Reservoir) -> dict[str, np.ndarray]:
    """As named arrays."""
    arrays = {} if view.column is None else {f"ids.{k}": v for k, v in view.column.arrays().items()}
    for i, part in enumerate(view.parts):
        arrays[f"part.{i}.codes"], arrays[f"part.{i}.slots"] = part.rows()
    arrays["versions"] = np.array([part.version for part in view.parts], np.int64)
    return {**arrays, **reservoir.seats().arrays()}


def from_image(arrays: dict[str, np.ndarray], width: int, ids: str, size: int) -> tuple[View, Reservoir]:
    """What an image was made of; a KeyError names what it lacks.

    width : bytes of a code. ids : their kind. size : of the reservoir.
    """
    column = {name[4:]: array for name, array in arrays.items() if name.startswith("ids.")}
    parts = []
    for i, version in enumerate(arrays["versions"].tolist()):
        codes, slots = arrays[f"part.{i}.codes"], arrays[f"part.{i}.slots"]
        parts.append(Part(version, codes, slots, 0, len(slots)))
    view = View(width, tuple(parts), column_of(ids, column) if column else None)
    return view, Reservoir(size).taken(Seats.from_arrays(arrays))
