"""Exports a table to Milvus, and kills itself half-way if it is told so: `python -m tests.scale.milvus_child URI NAME
TABLE MODELS KILL_AT`."""

from __future__ import annotations

import os
import signal
import sys

from hashstream.scale.milvus import MilvusExport
from hashstream.table import HashTable


def main(uri: str, name: str, table: str, models: str, kill_at: int) -> None:
    def die(count: int) -> None:
        if kill_at and count >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with HashTable.open(table, mode="read") as opened, MilvusExport(uri, name, models) as export:
        export.move(Pieces(opened), die)


class Pieces:
    """A table whose codes come in small pieces."""

    def __init__(self, table: HashTable) -> None:
        self._table = table
        self.hasher = table.hasher

    def codes(self):  # type: ignore[no-untyped-def]
        return self._table.codes(rows=500)


if __name__ == "__main__":
    main(*sys.argv[1:5], kill_at=int(sys.argv[5]))  # type: ignore[misc]
