"""The part of one shard in the Parquet export of a cluster."""

from __future__ import annotations

from pathlib import Path

from hashstream.table.errors import TableError
from hashstream.table.export.manifest import MANIFEST
from hashstream.table.table import HashTable

__all__ = ["export_shard", "prefix_of"]


def prefix_of(number: int) -> str:
    """The beginning of the names of a shard's files in an export."""
    return f"shard-{number:04d}-"


def export_shard(
    table: HashTable, number: int, folder: Path, *, features: bool, part_rows: int | None
) -> None:
    """Write the items of a shard into the folder of an export; parts of an earlier call are kept where they are of the
    same commit."""
    prefix = prefix_of(number)
    own = folder / f"{prefix}{MANIFEST}"
    before = own.exists() and not (folder / MANIFEST).exists()  # of a call that other shards did not end
    try:
        table.export(folder, features=features, part_rows=part_rows, prefix=prefix)
    except TableError:
        if not before:
            raise
        own.unlink(missing_ok=True)  # of an older commit: begin again
        table.export(folder, features=features, part_rows=part_rows, prefix=prefix)
