"""What has to be true of a folder's content before it is used, whoever wrote it: checksums keep out accidents only."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.hashers.base import MAX_BITS
from hashstream.table.change import Change
from hashstream.table.codes import View
from hashstream.table.errors import TableError
from hashstream.table.ids import MAX_SLOTS
from hashstream.table.reservoir import MAX_SIZE, Reservoir

__all__ = [
    "check_change",
    "check_config",
    "check_labels",
    "check_model",
    "check_sample",
    "check_state",
    "check_view",
    "refuse_unless_file",
    "refusing",
]

WRONG = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What reading a folder may raise that does not hold what it should."""

MOST = 1 << 53  # of a count
COUNTS = (
    "seq",
    "n_slots",
    "live",
    "image",
    "image_bytes",
    "log_bytes",
    "rewritten",
    "next_segment",
    "seated",
)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """A TableError that names `path` in the place of what reading it may raise."""
    try:
        yield
    except WRONG as error:
        if isinstance(error, MemoryError):
            raise TableError(f"{path} needs more memory than there is: {error}") from error
        why = str(error) or type(error).__name__
        raise TableError(f"{path} is damaged: {why}. Restore it from a copy; nothing was changed.") from error


def refuse_unless_file(path: Path) -> None:
    """TableError where there is something at `path` that is no file: a pipe would never end."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise TableError(f"{path} is not a file")


def _need(true: bool, what: str) -> None:
    if not true:
        raise ValueError(what)


def _is_count(value: Any, most: int = MOST) -> bool:
    return type(value) is int and 0 <= value <= most


def check_config(config: Any) -> None:
    """What the table was made with; a ValueError says what is wrong, as from all others here."""
    _need(isinstance(config, dict), "its settings are not there")
    n_bits = config["n_bits"]
    _need(_is_count(n_bits, MAX_BITS) and n_bits > 0, f"n_bits is {n_bits!r}")
    _need(config["width"] == -(-n_bits // 8), f"codes of {n_bits} bits do not take {config['width']!r} bytes")
    _need(type(config["keep_features"]) is bool, f"keep_features is {config['keep_features']!r}")
    _need(_is_count(config["reservoir_size"], MAX_SIZE), f"reservoir_size is {config['reservoir_size']!r}")
    _need(len(bytes.fromhex(config["uuid"])) == 16, "its uuid is not one")


def check_state(state: Any) -> None:
    """The state of a commit."""
    _need(isinstance(state, dict), "its state is not there")
    for name in COUNTS:
        _need(_is_count(state[name]), f"{name} is {state[name]!r}")
    _need(state["live"] <= state["n_slots"] <= MAX_SLOTS, "it has more items than slots")
    _need(isinstance(state["policy"], dict), "the policy's state is not there")
    shape = state["shape"]
    if shape is not None:
        _need(_is_count(shape["d"], 1 << 31) and shape["d"] > 0, f"d is {shape['d']!r}")
        _need(shape["dtype"] in ("<f4", "<f8", ">f4", ">f8"), f"features are of {shape['dtype']!r}")
        _need(shape["ids"] in ("int", "str"), f"ids are {shape['ids']!r}")
    _need(shape is not None or not state["n_slots"], "it has items without features")


def check_view(view: View, state: dict[str, Any]) -> None:
    """The items: every slot alive is in one part, and no array leads out of another."""
    if view.column is None:
        _need(not view.parts, "it has codes without ids")
        return
    view.column.check()
    _need(view.column.kind == state["shape"]["ids"], f"ids are not {state['shape']['ids']!r}")
    n, seen = len(view.column), 0
    alive = np.zeros(n, bool)
    for part in view.parts:
        codes, slots = part.codes, part.slots
        _need(
            codes.dtype == np.uint8 and codes.ndim == 2 and codes.shape[1] == view.width,
            "codes are not codes",
        )
        _need(slots.dtype == np.uint32 and slots.ndim == 1, "slots are not slots")
        _need(0 <= part.start < part.stop <= min(len(codes), len(slots)), "codes are missing")
        held = part.rows()[1]
        _need(
            bool((np.diff(held.astype(np.int64)) > 0).all()) and int(held[-1]) < n, "slots are out of order"
        )
        alive[held] = True
        seen += len(held)
        _need(type(part.version) is int and 0 <= part.version <= MOST, f"version is {part.version!r}")
    _need(int(alive.sum()) == seen, "an item has two codes")


def check_change(change: Change, view: View) -> None:
    """What a commit does to the items of a view: it leads out of none of its arrays."""
    n = view.n_slots
    for slots in (change.removed, *(piece.slots for piece in change.recoded)):
        _need(slots.dtype == np.uint32 and slots.ndim == 1, "slots are not slots")
        in_order = not len(slots) or (int(slots[-1]) < n and bool((slots[1:] > slots[:-1]).all()))
        _need(in_order, "slots are out of order")
    for piece in change.recoded:
        _need(len(piece.slots) == len(piece.codes), "codes are missing")
    for codes in (piece.codes for piece in (*change.recoded, change.added) if piece is not None):
        _need(
            codes.dtype == np.uint8 and codes.ndim == 2 and codes.shape[1] == view.width,
            "codes are not codes",
        )
    _need(change.added is None or change.added.first_slot == n, "items are added elsewhere than at the end")


def check_sample(sample: Reservoir, state: dict[str, Any]) -> None:
    """The sample: rows of the table's features, of slots that there are."""
    _need(sample.slots.dtype == np.int64 and sample.keys.dtype == np.uint64, "the sample is not one")
    _need(bool((sample.slots < max(1, state["n_slots"])).all()), "the sample has items that are not there")
    for row in sample.rows:
        wrong = row is not None and (row.shape != (state["shape"]["d"],) or row.dtype.kind != "f")
        _need(not wrong, "the sample has rows of another shape")
        _need(row is None or bool(np.isfinite(row).all()), "the sample has NaN or infinity")
    kinds = {np.shape(label) for label in sample.labels if label is not None}
    _need(len(kinds) <= 1, "the sample has labels of two kinds")


def check_model(hasher: OnlineHasher, config: dict[str, Any], state: dict[str, Any], version: int) -> None:
    """A hasher, or the hash functions of a version, of this table."""
    fitted = hasattr(hasher, "n_seen_")
    _need(
        (hasher.n_bits_ if fitted else hasher.n_bits) == config["n_bits"],
        "its model has codes of another length",
    )
    _need(fitted or not state["n_slots"], "its model has learned nothing")
    if fitted:
        _need(hasher.version_ == version, "its model is of another version")
        shape = state["shape"]
        _need(shape is None or hasher.n_features_in_ == shape["d"], "its model takes other features")
        _need(
            shape is None or np.dtype(hasher.dtype_) == np.dtype(shape["dtype"]),
            "its model takes another dtype",
        )


def check_labels(y: np.ndarray | None, n_rows: int) -> np.ndarray | None:
    """The labels of a batch: y itself."""
    _need(y is None or (y.ndim in (1, 2) and len(y) == n_rows), f"a batch of {n_rows} rows has other labels")
    return y
