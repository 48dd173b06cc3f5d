"""Whole tables written anew: without dead rows, from memory, or as a copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.table.codes import Part, View
from hashstream.table.encoders import to_bytes
from hashstream.table.errors import SegmentMissing, TableError, not_written
from hashstream.table.failpoints import reach
from hashstream.table.file_segments import START, FileSegments, sync_folder
from hashstream.table.folder import MANIFEST, WITNESS, FolderStore
from hashstream.table.ids import column_of
from hashstream.table.image import image_of
from hashstream.table.making import make_folder
from hashstream.table.manifest import Manifest
from hashstream.table.packing import checksum, pack_labels
from hashstream.table.reservoir import Reservoir
from hashstream.table.store import Store, left_of
from hashstream.table.witness import Witness

__all__ = ["copy_folder", "renumbered", "rewrite", "save_memory"]

BLOCK = 1 << 16  # ids that are copied at once


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A folder to be filled, which takes the name `path` when that is done, and goes if it fails."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        new = [one for one in path.parents if not one.exists()]
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        sync_folder(part)
        if path.exists():
            path.rmdir()
        part.rename(path)
        for one in (path, *new):
            sync_folder(one.parent)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError):
            raise not_written(path, error) from error
        raise


def copy_folder(store: FolderStore, path: Path) -> None:
    """A copy as of one commit."""
    missing = ""
    while True:
        try:
            with store.files, _new_folder(path) as part:
                _fill(store, part)
            return
        except SegmentMissing as error:  # another process has written the folder anew meanwhile
            if str(error) == missing:
                raise
            missing = str(error)


def _fill(store: FolderStore, part: Path) -> None:
    """The manifest is copied first: rows of features that it knows never change."""
    with store.reading:
        store.second().copy_to(part / MANIFEST)
    reach("snapshot.copied")
    with closing(Manifest(part / MANIFEST, mode="read")) as manifest, manifest.reading():
        state, known = manifest.get("state"), manifest.segments()
    if store.keep_features and known:
        stride = state["shape"]["d"] * np.dtype(state["shape"]["dtype"]).itemsize
        ends = [*(first for _, first in known[1:]), state["n_slots"]]
        for (number, first), end in zip(known, ends, strict=True):
            name = f"features-{number:06d}.seg"
            _copy(store.path / name, part / name, START + (end - first) * stride)
    with (part / MANIFEST).open("rb") as file:
        os.fsync(file.fileno())
    Witness(part / WITNESS, store.table, state["seq"], True).close()


def _copy(source: Path, target: Path, size: int) -> None:
    try:
        reader = source.open("rb")
    except FileNotFoundError as error:
        raise SegmentMissing(f"{source} is missing") from error
    with reader, target.open("wb") as writer:
        while size:
            piece = reader.read(min(size, 1 << 24))
            if not piece:
                raise TableError(f"{source} is truncated: {size} bytes are missing")
            writer.write(piece)
            size -= len(piece)
        writer.flush()
        os.fsync(writer.fileno())


def save_memory(
    store: Store,
    path: Path,
    view: View,
    hasher: OnlineHasher,
    reservoir: Reservoir,
    policy: dict[str, Any],
    history: dict[str, Any],
) -> None:
    """A table in memory as a folder."""
    from hashstream.table.opening import config_of

    with _new_folder(path) as part:
        make_folder(part, hasher, config_of(hasher, store.keep_features), reservoir.size)
        with closing(FolderStore(part, mode="write")) as target:
            if view.n_slots:
                target.state["policy"] = policy
                rewrite(store, target, view, hasher, reservoir)
                target.settled()
                target.write_history({**history, "seq": target.seq})


@dataclass(frozen=True)
class Rewritten:
    """A table over its new slots."""

    view: View
    segments: FileSegments | None
    reservoir: Reservoir


def rewrite(
    store: Store, target: FolderStore, view: View, hasher: OnlineHasher, reservoir: Reservoir
) -> Rewritten:
    """Write what is alive of `store` to `target`, which may be the same, in one commit that is durable in any case:
    nothing is left of what was durable before. What was written has yet to be put in the place of the old."""
    target.delete_leftovers()
    live = view.live().astype(np.int64)
    after, reservoir = renumbered(view, reservoir, live)
    number = target.state["next_segment"]
    shape = _shape(store, view)
    with target.files:
        new = None
        if store.keep_features and len(live):
            new = target.file_segments(shape["d"], np.dtype(shape["dtype"]), number, [], 0, tidy=False)
        try:
            batches = list(_batches(store, new, live))
            if new is not None:
                new.sync_rows()
            reach("compact.written")
            _commit(target, new, batches, after, hasher, reservoir, shape)
        except BaseException as error:
            if new is not None and not target.manifest.unsure:
                new.delete()
            if isinstance(error, OSError):
                raise not_written(target.path, error) from error
            raise
        reach("compact.after")
    return Rewritten(after, new, reservoir)


def _commit(
    target: FolderStore,
    new: FileSegments | None,
    batches: list[tuple[Any, ...]],
    view: View,
    hasher: OnlineHasher,
    reservoir: Reservoir,
    shape: dict[str, Any],
) -> None:
    """Put new rows in the place of all that are there, in one transaction."""
    manifest, seq, n = target.manifest, target.seq + 1, len(view)
    state = {
        **target.state,
        "seq": seq,
        "live": n,
        "n_slots": n,
        "image": seq,
        "log_bytes": 0,
        "rewritten": seq,
        "next_segment": target.state["next_segment"] + (0 if new is None else len(new.first_slots)),
        "seated": len(reservoir),
        "shape": shape,
    }
    with manifest.transaction(sync=True, settle=False):
        if new is not None:
            new.check_files()  # they were written before: somebody may have deleted them
        manifest.forget_items()
        for row in batches:
            manifest.put_batch(*row)
        if new is not None:
            for i, first in enumerate(new.first_slots):
                manifest.put_segment(new.first_number + i, first)
        state["image_bytes"] = manifest.put_image(image_of(view, reservoir))
        manifest.put_model("checkpoint", view.newest, seq, to_bytes(hasher))
        manifest.forget_encoders(manifest.encoders())
        for version, encoder in view.encoders.items():
            if version != view.newest:
                manifest.put_model("encoder", version, seq, to_bytes(encoder))
        manifest.put("state", state)
    target.state, target.seq = state, seq
    target.acknowledge()


def renumbered(view: View, reservoir: Reservoir, live: np.ndarray) -> tuple[View, Reservoir]:
    """View and reservoir with slots 0, 1, 2, ... for the items alive, in the order that they had."""
    assert view.column is not None
    column = column_of(view.column.kind)
    for start in range(0, len(live), BLOCK):
        column = column.extended(view.column.take(live[start : start + BLOCK]))
    parts = []
    for part in view.parts:
        codes, slots = part.rows()
        parts.append(Part(part.version, codes, np.searchsorted(live, slots).astype(np.uint32), 0, len(slots)))
    seats = reservoir.slots.copy()
    taken = seats >= 0
    seats[taken] = np.searchsorted(live, seats[taken])
    return replace(view, parts=tuple(parts), column=column), reservoir.renumbered(seats)


def _batches(store: Store, new: FileSegments | None, live: np.ndarray) -> Iterator[tuple[Any, ...]]:
    """The rows of the manifest for every batch that has items alive; their features go to `new`."""
    for seq, first, slots, version, model, labels in left_of(store.batches(), live):
        crc = 0
        if new is not None:
            X = store.features(slots)
            new.append(X, sync=False)
            new.settle()
            crc = checksum(X)
        yield seq, first, len(slots), 0, version, crc, model, pack_labels(labels)


def _shape(store: Store, view: View) -> dict[str, Any]:
    assert view.column is not None
    if store.segments is not None:
        d, dtype = store.segments.d, store.segments.dtype.str
    else:
        encoder = view.encoders[view.newest]
        d, dtype = int(encoder.n_features_in_), np.dtype(encoder.dtype_).str
    return {"d": d, "dtype": dtype, "ids": view.column.kind}
