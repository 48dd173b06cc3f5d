"""The names of the files in a table's folder."""

from __future__ import annotations

from pathlib import Path

from hashstream.table.errors import not_opened

__all__ = ["DATABASE", "MARKER", "is_table"]

DATABASE = "table.sqlite"
MARKER = "commit-marker"


def is_table(path: Path) -> bool:
    """Whether there is a table's database in a folder."""
    try:
        return (path / DATABASE).exists()
    except PermissionError as error:
        raise not_opened(path / DATABASE, error, write=False) from error
