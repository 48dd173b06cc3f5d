"""A new table's folder: created whole, by one process, and durable by name."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from hashstream.hashers.serialization import to_bytes
from hashstream.table.errors import TableError, failed
from hashstream.table.settings import Settings
from hashstream.table.state.state import State
from hashstream.table.storage.base import Source
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.folder.lock import LOCK, WriterLock
from hashstream.table.storage.folder.names import DATABASE, MARKER, is_table
from hashstream.table.storage.folder.records import Head, Identity, ModelRow, kinds_of
from hashstream.table.storage.folder.segments import sync_folder
from hashstream.table.storage.folder.snapshot import new_folder
from hashstream.table.storage.folder.storage import FolderStorage

__all__ = ["create_folder", "save_as_folder"]


def create_folder(path: Path, state: State, settings: Settings, *, keep_features: bool) -> None:
    """Create the folder of a new, empty table, unless there is one by now. It is a table once this has returned."""
    try:
        new = [one for one in path.parents if not one.exists()]
        path.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(
            path / LOCK
        )  # without it, one of two processes might create it in the other's place
        try:
            if not is_table(path):
                _create(path, state, settings, keep_features)
                for one in (path, *new):
                    sync_folder(one.parent)
        finally:
            lock.release()
    except PermissionError as error:
        raise TableError(
            f"{path} cannot be created: this user lacks permission to write to {Path(error.filename or path).parent}"
        ) from error
    except OSError as error:
        raise failed(error)(f"{path} cannot be created: {error.strerror or error}") from error


def _create(path: Path, state: State, settings: Settings, keep_features: bool) -> None:
    for name in ("features-*.seg", MARKER):
        if there := next(path.glob(name), None):
            raise TableError(f"{path / DATABASE} is missing, but {there} is there: restore it from a copy")
    part = path / f"{DATABASE}.part"
    for leftover in path.glob(f"{DATABASE}.part*"):
        leftover.unlink()
    hasher = state.model.hasher
    identity = Identity(
        uuid.uuid4().hex, type(hasher).__name__, int(hasher.n_bits), keep_features, state.sample.size
    )
    with closing(Database(part, mode="create")) as database, database.transaction("create"):
        database.put_identity(identity)
        database.put_settings(settings.to_fields())
        database.put_head(Head(fields=kinds_of(state.view)))
        database.put_checkpoint(ModelRow(state.model.version, 0, to_bytes(hasher)))
        if state.created is not None:
            database.put_created(state.created)
    part.replace(path / DATABASE)
    sync_folder(path)


def save_as_folder(source: Source, path: Path, state: State, history: dict[str, Any] | None) -> None:
    """Write a table that is kept elsewhere, in memory for example, to a new folder."""
    with new_folder(path) as part:
        empty = State.empty(state.model.hasher, state.sample.size, kinds_of(state.view))
        empty = replace(empty, created=state.created)
        create_folder(part, empty, source.settings, keep_features=source.keep_features)
        with closing(FolderStorage(part, mode="write")) as target:
            if state.view.column is not None:
                target.fill(source, state, history)
            target.remember(list(source.all_done()))
