"""A new table's folder: made whole, by one process, and durable by name."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from hashstream.hashers import OnlineHasher
from hashstream.table.encoders import to_bytes
from hashstream.table.errors import TableError
from hashstream.table.file_segments import sync_folder
from hashstream.table.folder import MANIFEST, WITNESS, FolderStore
from hashstream.table.lock import LOCK, WriterLock
from hashstream.table.manifest import Manifest

__all__ = ["make_folder"]

STATE = {
    "seq": 0,  # of the last commit
    "n_slots": 0,
    "live": 0,  # items
    "image": 0,  # the commit of which there is an image
    "image_bytes": 0,
    "log_bytes": 0,
    "rewritten": 0,  # the commit by which slots were last numbered anew
    "next_segment": 0,  # the number of the next file of features
    "seated": 0,  # items in the reservoir
    "policy": {},
    "shape": None,  # of the features, once there are any
}


def make_folder(path: Path, hasher: OnlineHasher, config: dict[str, Any], reservoir_size: int) -> None:
    """Make the folder of a new, empty table, unless there is one by now. It is a table once this has returned."""
    try:
        new = [one for one in path.parents if not one.exists()]
        path.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(path / LOCK)  # or of two processes one would make it in the other's place
        try:
            if not FolderStore.is_table(path):
                _make(path, hasher, config, reservoir_size)
                for one in (path, *new):
                    sync_folder(one.parent)
        finally:
            lock.release()
    except PermissionError as error:
        raise TableError(
            f"{path} cannot be made: this user has no right to write to {Path(error.filename or path).parent}"
        ) from error
    except OSError as error:
        raise TableError(f"{path} cannot be made: {error.strerror or error}") from error


def _make(path: Path, hasher: OnlineHasher, config: dict[str, Any], reservoir_size: int) -> None:
    for name in ("features-*.seg", WITNESS):
        if there := next(path.glob(name), None):
            raise TableError(f"{path / MANIFEST} is missing, but {there} is there: restore it from a copy")
    part = path / f"{MANIFEST}.part"
    for leftover in path.glob(f"{MANIFEST}.part*"):
        leftover.unlink()
    manifest = Manifest(part, mode="create")
    try:
        with manifest.transaction("create"):
            manifest.put("table", {**config, "uuid": uuid.uuid4().hex, "reservoir_size": reservoir_size})
            manifest.put("state", STATE)
            manifest.put_model("checkpoint", getattr(hasher, "version_", -1), 0, to_bytes(hasher))
    finally:
        manifest.close()
    part.replace(path / MANIFEST)
    sync_folder(path)
