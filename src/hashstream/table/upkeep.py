"""What a table does for itself: checkpoints, statistics, verification, copies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hashstream.table.codes import locate
from hashstream.table.errors import Overtaken, TableError, not_written
from hashstream.table.exclusive import exclusively
from hashstream.table.folder import FolderStore
from hashstream.table.history import history_of, look
from hashstream.table.rewriting import copy_folder, renumbered, rewrite, save_memory
from hashstream.table.stats import TableStats, measure_drift

if TYPE_CHECKING:
    from hashstream.table.writing import TableWriter

__all__ = ["check", "checkpoint", "compact", "snapshot", "stats"]

ROUNDING = 1e-4  # of a row's largest value: a bit whose value is nearer to 0 may come out either way


def checkpoint(table: TableWriter, *, quietly: bool = False, closing: bool = False) -> None:
    """Save the model where it has learned since the last time, and draw the log together where it has grown.

    quietly : a disk that has no room for it is no error: all it holds can be made again.
    """
    store, view = table._store, table._view
    if store.unsure or table._half_learned:
        return  # interrupted
    try:
        history = look(table, at_once=closing or not quietly)
        noted = None if history is None else history.fields()
        if not store.durable:
            return
        if table._since_checkpoint:
            old = {version: encoder for version, encoder in view.encoders.items() if version != view.newest}
            store.write_model(table._hasher, old, noted)
            table._since_checkpoint = 0
        elif noted is not None:
            store.write_history(noted)
        if store.wants_image(closing=closing):
            store.write_image(view, table._reservoir)
        store.flush()
    except OSError as error:
        if not quietly:
            assert isinstance(store, FolderStore)
            raise not_written(store.path, error) from error
    except TableError:
        if not quietly:
            raise


def stats(table: TableWriter) -> TableStats:
    store = table._store
    with table._publish:
        view, reservoir, index = table._view, table._reservoir, table._index
    counts = view.counts()
    n = len(view)
    behind = sum((view.newest - version) * count for version, count in counts.items())
    drift = measure_drift(view, reservoir)
    history, n_seen = history_of(table), int(getattr(table._hasher, "n_seen_", 0))
    if history.seq < store.seq:
        history = history.with_look(store.seq, n_seen, drift.mean_average_precision)
    entries = tuple(entry for entry in history.entries if entry[0] <= n_seen)  # a reader may be behind
    column = view.column
    memory = sum(part.nbytes for part in view.parts)
    memory += (column.nbytes if column is not None else 0) + (index.nbytes if index is not None else 0)
    newest = view.encoders.get(view.newest)
    return TableStats(
        n_items=n,
        n_slots=view.n_slots,
        n_bits=None if newest is None else int(newest.n_bits_),
        versions=counts,
        newest_version=None if view.newest < 0 else view.newest,
        updates_behind=behind / n if n else 0.0,
        most_updates_behind=view.newest - min(counts) if counts else 0,
        stale=1 - counts.get(view.newest, 0) / n if n else 0.0,
        n_seen=n_seen,
        commits=store.seq,
        memory_bytes=memory,
        feature_bytes=store.segments.nbytes if store.segments is not None else 0,
        disk_bytes=store.nbytes(),
        drift=drift,
        map_history=entries,
        background_error=None if table._background_error is None else str(table._background_error),
    )


@exclusively
def check(table: TableWriter, sample: int) -> dict[str, int]:
    store, view = table._store, table._view
    found = {"batches": 0, "rows": 0, "codes": 0}
    if isinstance(store, FolderStore):
        found["batches"], found["rows"] = check_folder(store)
    if store.keep_features and len(view):
        slots = np.sort(np.random.default_rng(0).permutation(view.live())[:sample]).astype(np.int64)
        for part, at, rows in locate(view.parts, slots):
            encoder = view.encoders[part.version]
            values = encoder.decision_function(store.features(slots[at]))
            wrong = np.unpackbits(part.codes[rows], axis=1, count=encoder.n_bits_) != (values > 0)
            sure = np.abs(values) > ROUNDING * np.abs(values).max(axis=1, keepdims=True)
            if (wrong & sure).any():
                row = int(np.flatnonzero((wrong & sure).any(axis=1))[0])
                raise TableError(
                    f"the code of slot {slots[at][row]} is not what version {part.version} makes of its features: "
                    "refresh the table, or restore it from a copy"
                )
            found["codes"] += len(at)
    return found


def check_folder(store: FolderStore) -> tuple[int, int]:
    """Verify every row of the manifest and every row of features; how many batches and rows there are."""
    manifest = store.manifest
    manifest.quick_check()
    with manifest.reading():
        if manifest.get("state")["seq"] != store.seq:
            raise Overtaken
        found = store.verify_all()
        manifest.image()
        manifest.find("history")
        for rest in (
            manifest.changes(0),
            manifest.models("checkpoint"),
            manifest.models("encoder"),
            manifest.segments(),
            manifest.unsynced(),
        ):
            for _ in rest:
                pass
    return found


def compact(table: TableWriter) -> int:
    store, view = table._store, table._view
    dead = view.n_slots - len(view)
    if not dead:
        return 0
    if not isinstance(store, FolderStore):
        live = view.live().astype(np.int64)
        after, reservoir = renumbered(view, table._reservoir, live)
        go_on = store.compacted(live)
        with table._publish:
            go_on()
            table._generation = store.generation
            table._view, table._index, table._reservoir = after, None, reservoir
        store.settled()
        return dead
    store.refuse_if_unsure()
    with store.manifest.reading(alone=True):
        store.manifest.refuse_if_overtaken()
        store.verify_all()  # what is copied gets a new checksum
    new = rewrite(store, store, view, table._hasher, table._reservoir)
    with table._publish:
        old = store.replace_segments(new.segments)
        table._generation = store.generation
        table._view, table._index = new.view, None
        table._reservoir = new.reservoir
    store.settled()
    with store.files:
        if old is not None:
            old.delete()
    table._since_checkpoint = 0
    return dead


def snapshot(table: TableWriter, path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise TableError(f"{path} is there already: a snapshot needs a new folder")
    store = table._store
    if isinstance(store, FolderStore):
        if store.path.resolve() in path.resolve().parents:
            raise TableError(f"{path} is in the table's own folder: a snapshot needs one elsewhere")
        copy_folder(store, path)
        return
    _snapshot_memory(table, path)


@exclusively
def _snapshot_memory(table: TableWriter, path: Path) -> None:
    kept, history = table._policy.state(), history_of(table).fields()
    save_memory(table._store, path, table._view, table._hasher, table._reservoir, kept, history)
