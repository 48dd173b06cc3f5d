"""Copies of tables in new folders, each as of one commit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hashstream.table.errors import SegmentMissing, TableError, not_written
from hashstream.table.storage.folder.commit_marker import CommitMarker
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.folder.failpoints import reach
from hashstream.table.storage.folder.names import DATABASE, MARKER, is_table
from hashstream.table.storage.folder.segments import START, sync_folder

__all__ = ["copied_commit", "copy_folder", "new_folder"]


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to be filled, which gets the name `path` when that is done, and is deleted if it fails."""
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


def copied_commit(path: Path, source: Path) -> tuple[int, int] | None:
    """The commit of which a folder holds a copy of the table in `source`, and how many commits that has had since. None
    where the folder holds something else, such as a copy that has been written to."""
    if not is_table(path) or path.resolve() == source.resolve():
        return None
    with closing(Database(path / DATABASE, mode="read")) as database, database.reading():
        copied, seq = database.copied(), database.head().seq
    with closing(Database(source / DATABASE, mode="read")) as database, database.reading():
        line, last = database.line(), database.head().seq
    return (seq, last - seq) if copied == (line, seq) and seq <= last else None


def copy_folder(source: Path, path: Path, table: bytes, copy_database: Callable[[Path], None]) -> None:
    """Copy a table's folder, as of one commit, while others write. table : of its identity."""
    missing = ""
    while True:
        try:
            with new_folder(path) as part:
                copy_database(part / DATABASE)  # first: rows of features that it knows never change
                _note_commit(part / DATABASE)
                reach("snapshot.copied")
                _copy_features(source, part, table)
            return
        except SegmentMissing as error:  # another process has compacted the table meanwhile
            if str(error) == missing:
                raise
            missing = str(error)


def _note_commit(path: Path) -> None:
    with closing(Database(path, mode="copied")) as database, database.transaction("snapshot"):
        database.put_copied(database.line(), database.head().seq)


def _copy_features(source: Path, part: Path, table: bytes) -> None:
    with closing(Database(part / DATABASE, mode="read")) as database, database.reading():
        head, rows = database.head(), database.segments()
    if head.shape is not None:
        ends = [*(row.first_slot for row in rows[1:]), head.n_slots]
        for row, end in zip(rows, ends, strict=False):  # without features there are no rows
            name = f"features-{row.number:06d}.seg"
            _copy(source / name, part / name, START + (end - row.first_slot) * head.shape.stride)
    with (part / DATABASE).open("rb") as file:
        os.fsync(file.fileno())
    CommitMarker(part / MARKER, table, head.seq, True).close()


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
