"""Log messages about commits, under `hashstream.table`. One that nobody listens to is not put together.

A commit is stored when it is logged, so nothing that a handler raises may reach the caller, who would take it for an
ingest that has failed.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from hashstream.table.results import Commit
from hashstream.table.state.change import Change
from hashstream.table.state.view import View, locate

__all__ = ["SLOW", "log_commit", "log_compaction"]

log = logging.getLogger("hashstream.table")

SLOW = 1.0  # seconds, beyond which a commit is worth a warning


def log_commit(name: str, commit: Commit, seconds: float, change: Change, before: View) -> None:
    """Log what a commit re-encoded, and that it was slow.

    name : of the table. seconds : that the commit took. before : the view that was changed.
    """
    with suppress(Exception):
        if commit.recoded and log.isEnabledFor(logging.INFO):
            pieces = (locate(before.parts, piece.slots) for piece in change.recoded)
            versions = {part.version for piece in pieces for part, _, _ in piece}
            log.info(
                "%s: re-encoded %d items of %d versions in %.3f s%s",
                name, commit.recoded, len(versions), commit.recode_seconds,
                "" if change.added is None else ", with a batch",
            )  # fmt: skip
        if seconds > SLOW:
            log.warning(
                "%s: commit %d took %.1f s (%d items added, %d removed, %d re-encoded)",
                name, commit.seq, seconds, commit.added, commit.removed, commit.recoded,
            )  # fmt: skip


def log_compaction(name: str, rows: int, seconds: float) -> None:
    """Log a compaction. rows : that it has freed."""
    with suppress(Exception):
        log.info("%s: compacted, %d rows freed in %.3f s", name, rows, seconds)
