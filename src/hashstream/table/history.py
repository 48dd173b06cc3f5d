"""How good a table's answers were as it went on learning: mAP on the labelled items of its sample, looked at now and
then, and kept with the table.

A look is taken with a checkpoint of the model, once `checkpoint_rows` rows were learned since the last one, and by
`flush` and `close`. There are at most 200: when there are more, every second one goes, so that old ones lie farther
apart than new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hashstream.table.folder import FolderStore
from hashstream.table.integrity import refusing
from hashstream.table.stats import stored_map_of

if TYPE_CHECKING:
    from hashstream.table.writing import TableWriter

__all__ = ["History", "history_of", "look"]

MOST = 200


@dataclass(frozen=True)
class History:
    """entries : (rows learned from, mAP) of each look, oldest first.

    seq, rows : the commit and the rows learned from at the last look, which may have found too little data.
    """

    entries: tuple[tuple[int, float], ...] = ()
    seq: int = 0
    rows: int = 0

    def with_look(self, seq: int, rows: int, value: float | None) -> History:
        entries = self.entries if value is None else (*self.entries, (rows, value))
        if len(entries) > MOST:
            entries = entries[:-1][::2] + entries[-1:]
        return History(entries, seq, rows)

    def fields(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"entries": self.entries, "seq": self.seq, "rows": self.rows}

    @classmethod
    def of(cls, fields: dict[str, Any] | None) -> History:
        """What `fields` was made of; an empty one of None."""
        if fields is None:
            return cls()
        numbers = [fields["seq"], fields["rows"], *(rows for rows, _ in fields["entries"])]
        if any(type(number) is not int for number in numbers) or not all(
            isinstance(value, float) for _, value in fields["entries"]
        ):
            raise ValueError("the history has entries that are not numbers")
        return cls(tuple((rows, value) for rows, value in fields["entries"]), fields["seq"], fields["rows"])


def history_of(table: TableWriter) -> History:
    """Of a folder that others may write to, as it is there now."""
    history, store = table._history, table._store
    if history is not None:
        return history
    if not isinstance(store, FolderStore):
        return History()
    with store.reading, (second := store.second()).reading():
        found = second.find("history")
    with refusing(store.manifest.path):
        history = History.of(found)
    if table._write:
        table._history = history
    return history


def look(table: TableWriter, *, at_once: bool) -> History | None:
    """The history with a look at the table as it is now; None where it is too early for one, or nothing has changed.

    at_once : do not wait for more rows.
    """
    before, rows = history_of(table), int(getattr(table._hasher, "n_seen_", 0))
    if table._store.seq == before.seq or not (at_once or rows - before.rows >= table._checkpoint_rows):
        return None
    table._history = before.with_look(table._store.seq, rows, stored_map_of(table._view, table._reservoir))
    return table._history
