"""Rows of a collection in Milvus: written, removed, counted and read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from hashstream.scale.milvus_collections import Collection, Server
from hashstream.table.results import Codes
from hashstream.table.state.ids import as_ids, kind_of

__all__ = ["Rows", "check_ids"]

ROWS = 5_000  # of a request
SEALING = 600.0  # seconds in which Milvus has to write what it was given
MOST_TEXT = 65_535  # bytes of an id
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # the latter is an id that Milvus 2.3 stores and never returns


class Rows:
    """The rows of one collection."""

    def __init__(self, server: Server, collection: Collection) -> None:
        self._server, self.collection = server, collection

    def upsert(self, ids: np.ndarray, codes: np.ndarray) -> None:
        """Never `insert`, which stores an id that is there a second time."""
        for start in range(0, len(ids), ROWS):
            some = slice(start, start + ROWS)
            rows = [
                {"id": one, "code": code.tobytes()}
                for one, code in zip(ids[some].tolist(), codes[some], strict=True)
            ]
            with self._server.asking():
                self._server.client.upsert(self.collection.name, rows)

    def remove(self, ids: np.ndarray) -> None:
        """Ids that are not there do not matter."""
        for start in range(0, len(ids), ROWS):
            with self._server.asking():
                self._server.client.delete(self.collection.name, filter=_among(ids[start : start + ROWS]))

    def seal(self) -> None:
        """Have Milvus seal the segments: it indexes sealed ones only, and searches others many times slower."""
        with self._server.asking():
            self._server.client.flush(self.collection.name, timeout=SEALING)

    def count(self) -> int:
        return int(self._query("", output_fields=["count(*)"])[0]["count(*)"])

    def pieces(self) -> Iterator[Codes]:
        """All rows in the order of ids: the client's own iterator does not end with some ids of text."""
        after = ""
        while rows := self._query(after, limit=ROWS, output_fields=["id", "code"]):
            piece = self._piece(rows)
            yield piece
            after = _after(piece.ids)

    def some(self, ids: np.ndarray) -> Iterator[Codes]:
        """Those of the rows with these ids that there are."""
        for start in range(0, len(ids), ROWS):
            rows = self._query(_among(ids[start : start + ROWS]), output_fields=["id", "code"])
            if rows:
                yield self._piece(rows)

    def _query(self, filter: str, **more: Any) -> list[Any]:
        with self._server.asking():
            return list(
                self._server.client.query(
                    self.collection.name, filter=filter, consistency_level="Strong", **more
                )
            )

    def _piece(self, rows: list[Any]) -> Codes:
        ids = as_ids([row["id"] for row in rows])
        codes = np.frombuffer(b"".join(row["code"][0] for row in rows), np.uint8).reshape(len(ids), -1)
        return Codes(ids, codes, self.collection.version)


def check_ids(ids: np.ndarray) -> np.ndarray:
    """Ids that Milvus can hold: the same ones; ValueError names one that it cannot."""
    if kind_of(ids) == "int":
        if len(ids) and int(ids.max()) == MOST:
            raise ValueError(f"the id {MOST} cannot be exported: Milvus stores it, and does not return it")
        return ids
    for one in ids:
        if len(one.encode()) > MOST_TEXT:
            raise ValueError(
                f"the id {one[:40]!r}... cannot be exported: Milvus takes {MOST_TEXT:,} bytes of text"
            )
    return ids


def _among(ids: np.ndarray) -> str:
    """The filter for rows with these ids; the client's own quotes no text."""
    known = ids.tolist()
    if kind_of(ids) == "int" and LEAST in known:  # which cannot be written in a filter
        return f"id < {LEAST + 1} or id in {[one for one in known if one != LEAST]}"
    return f"id in [{', '.join(json.dumps(one, ensure_ascii=False) for one in known)}]"


def _after(ids: np.ndarray) -> str:
    """The filter for rows after the last of these, in the order of Milvus."""
    if kind_of(ids) == "int":
        return f"id >= {int(ids.max()) + 1}"
    last: Any = max(ids.tolist(), key=str.encode)
    return f"id > {json.dumps(last, ensure_ascii=False)}"
