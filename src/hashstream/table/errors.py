"""The errors of a table."""

from __future__ import annotations

__all__ = ["TableError", "TableLocked"]


class TableError(RuntimeError):
    """A table's folder is damaged, of another format, full or in use, or the table cannot do what was asked.

    The sentence names the file where there is one. What was stored before is untouched.
    """


class TableLocked(TableError):
    """Another process (or another table in this one) writes to the folder; the sentence says which."""
