"""Codes in Milvus: exported from a table, verified, switched to, and searched without ever mixing versions.

Each version of the hash functions has a collection of its own. `MilvusExport.move` fills that of the current version,
reads it back, and only then lets an alias lead to it. `MilvusReader` resolves the alias first, encodes its queries by
the functions of just that collection, and searches it by its own name: searched through the alias, codes of two
versions would be compared while it is switched.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import OnlineHasher
from hashstream.hashers.serialization import encoder_digest
from hashstream.scale.milvus_collections import Collection, Functions, MilvusError, Server
from hashstream.scale.milvus_reader import Found, MilvusReader
from hashstream.table.digests import digest_of
from hashstream.table.results import Codes
from hashstream.table.state.ids import as_ids, kind_of, repeated

__all__ = ["Filled", "Found", "MilvusError", "MilvusExport", "MilvusReader"]

ROWS = 5_000  # of a request
SEALING = 600.0  # seconds in which Milvus has to write what it was given
MOST_TEXT = 65_535  # bytes of an id
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # the latter is an id that Milvus 2.3 stores and never returns
MODULUS = 1 << 64


class Source(Protocol):
    """A table, an export of one (`hashstream.table.Exported`), or anything else that has these."""

    @property
    def hasher(self) -> OnlineHasher: ...

    def codes(self) -> Iterator[Codes]: ...


@dataclass(frozen=True)
class Filled:
    """Codes of one version. encoder : digest of the functions. digest : of the items, as `HashTable.digest` has it."""

    version: int
    encoder: str
    count: int
    digest: int


class MilvusExport:
    """The writing side of a table's codes in Milvus.

    Every call may be repeated, after anything was killed, too: items are replaced by their ids.
    """

    def __init__(
        self,
        uri: str,
        name: str,
        models: str | os.PathLike[str],
        *,
        token: str = "",
        timeout: float = 60.0,
    ) -> None:
        """uri : of the server, as "http://127.0.0.1:19530". name : the alias under which readers find the codes.
        models : a folder for the hash functions, which readers need. timeout : seconds, of a request.
        """
        self._server = Server(uri, name, token=token, timeout=timeout)
        self._functions = Functions(models)
        self._switched: float | None = None  # when this object has

    # ---- moving to a version

    def move(self, source: Source, progress: Callable[[int], None] | None = None) -> Filled:
        """Export the codes of a source, verify them, and switch to them."""
        filled = self.export(source, progress)
        self.verify(filled)
        self.switch(filled.version)
        return filled

    def export(self, source: Source, progress: Callable[[int], None] | None = None) -> Filled:
        """Write all codes of a source to the collection of its current version, which is created if it is not there,
        and have Milvus seal its segments: it indexes sealed ones only, and searches others many times slower. Readers
        do not see the collection before `switch`.

        ValueError where items have codes of older versions: `table.refresh()` first. progress : called with the number
        of items so far.
        """
        hasher = source.hasher
        if not hasattr(hasher, "n_seen_"):
            raise ValueError("there is nothing to export: no item was stored yet")
        encoder = hasher.encoder()
        digest, collection, count, total = encoder_digest(encoder), None, 0, 0
        for piece in source.codes():
            if piece.version != encoder.version:
                raise ValueError(
                    f"items have codes of version {piece.version}, but the current version is {encoder.version}: "
                    "re-encode them first (table.refresh(), or `hashstream table refresh`)"
                )
            ids = check_ids(piece.ids)
            if collection is None:
                self._functions.save(hasher)
                collection = self._server.create(encoder.version, digest, encoder.n_bits, kind_of(ids))
            self._upsert(collection, ids, piece.codes)
            count += len(ids)
            total += digest_of(ids, piece.codes, piece.version)
            if progress is not None:
                progress(count)
        if collection is None:
            raise ValueError("there is nothing to export: the table has no items")
        self._seal(collection)
        return Filled(encoder.version, digest, count, total % MODULUS)

    def verify(self, expected: Source | Filled) -> Filled:
        """Read a collection back, and compare its count and digest with those of a source; MilvusError where they
        differ. expected : a source, or what `export` has returned."""
        wanted = expected if isinstance(expected, Filled) else _summed(expected)
        collection = self._at(wanted.version)
        counted, found = self._count(collection), self._read_back(collection)
        if collection.encoder != wanted.encoder or (counted, found) != (wanted.count, wanted):
            raise MilvusError(
                f"{collection.name} has {counted:,} items, of which {found.count:,} were read with digest "
                f"{found.digest:016x}, but there should be {wanted.count:,} with digest {wanted.digest:016x}: export "
                "again. Items that were removed from the source since the first export are not removed by that: "
                f"remove them here too, or drop version {wanted.version} first"
            )
        return found

    def switch(self, version: int) -> int | None:
        """Let the alias lead to the collection of a version, which should have been verified; an older one undoes a
        switch. Returns the version before."""
        server, collection, before = self._server, self._at(version), self._server.current()
        with server.asking():
            if before is None:
                server.client.create_alias(collection.name, server.name)
            elif before != collection:
                server.client.alter_alias(collection.name, server.name)
        if server.current() != collection:
            raise MilvusError(
                f"the alias {server.name} does not lead to {collection.name}: somebody else switches, too"
            )
        self._switched = time.monotonic()
        return None if before is None else before.version

    def drop_old(self, keep_seconds: float = 60.0) -> list[int]:
        """Drop the collections of versions older than the current one; returns these.

        keep_seconds : to wait first, counted from the switch if this object has switched, and from now if not. It has
        to be longer than readers cache (`MilvusReader`, 5 seconds by default) and than a search takes.
        """
        current = self._server.current()
        if current is None:
            return []
        self._wait(keep_seconds)
        if self._server.current() != current:
            raise MilvusError(f"the alias {self._server.name} was switched meanwhile: nothing was dropped")
        old = [one for one in self._server.collections() if one.version < current.version]
        for one in old:
            with self._server.asking():
                self._server.client.drop_collection(one.name)
        return [one.version for one in old]

    def drop(self, version: int, keep_seconds: float = 60.0) -> None:
        """Drop the collection of a version that readers do not use.

        keep_seconds : to wait first, as in `drop_old`: a reader that has the collection in its cache would search one
        that is created under the same name with other functions. 0 for a version that was never switched to.
        """
        self._refuse_current(version)
        collection = self._at(version)
        self._wait(keep_seconds)
        self._refuse_current(version)
        with self._server.asking():
            self._server.client.drop_collection(collection.name)

    def _refuse_current(self, version: int) -> None:
        if (current := self._server.current()) is not None and current.version == version:
            raise MilvusError(f"version {version} is in use: switch to another one first")

    def _wait(self, keep_seconds: float) -> None:
        """Wait until no reader has another collection than the current one in its cache."""
        if not keep_seconds >= 0:
            raise ValueError(f"keep_seconds must be at least 0, not {keep_seconds!r}")
        since = 0.0 if self._switched is None else time.monotonic() - self._switched
        time.sleep(max(0.0, keep_seconds - since))

    # ---- items, while there may be two versions

    def add(self, ids: ArrayLike, X: ArrayLike) -> list[int]:
        """Store items, by their features (n, d), in the current collection and in every newer one, each encoded by its
        own functions; an id that is there is replaced. Returns the versions.

        Add items to the table first: what it has when it is exported is what a verified collection has.
        """
        known = check_ids(as_ids(ids))
        if twice := repeated(known):
            raise ValueError(f"ids occur more than once: {', '.join(map(repr, twice[:10]))}")
        encoded = [(one, self._functions.of(one).transform(X)) for one in self._written()]
        for one, codes in encoded:
            if len(codes) != len(known):
                raise ValueError(f"there are {len(known)} ids, but X has {len(codes)} rows")
            self._upsert(one, known, codes)
        return [one.version for one, _ in encoded]

    def remove(self, ids: ArrayLike) -> list[int]:
        """Remove items from the current collection and every newer one; ids that are not there do not matter. Returns
        the versions."""
        known, collections = as_ids(ids), self._written()
        for one in collections:
            for start in range(0, len(known), ROWS):
                with self._server.asking():
                    self._server.client.delete(one.name, filter=_among(known[start : start + ROWS]))
        return [one.version for one in collections]

    def versions(self) -> dict[int, bool]:
        """The versions that have a collection, and whether readers use it."""
        current = self._server.current()
        return {one.version: one == current for one in self._server.collections()}

    def _written(self) -> list[Collection]:
        """The collections that new items go to."""
        current, every = self._server.current(), self._server.collections()
        least = current.version if current is not None else 0
        if not every:
            raise MilvusError(
                f"{self._server.name} has no collection at {self._server.uri}: export a table first"
            )
        return [one for one in every if one.version >= least]

    def _at(self, version: int) -> Collection:
        found = self._server.find(self._server.collection_name(version))
        if found is None:
            raise MilvusError(
                f"there is no collection {self._server.collection_name(version)} at {self._server.uri}: export it first"
            )
        return found

    # ---- rows

    def _upsert(self, collection: Collection, ids: np.ndarray, codes: np.ndarray) -> None:
        """Never `insert`, which stores an id that is there a second time."""
        for start in range(0, len(ids), ROWS):
            some = slice(start, start + ROWS)
            rows = [
                {"id": one, "code": code.tobytes()}
                for one, code in zip(ids[some].tolist(), codes[some], strict=True)
            ]
            with self._server.asking():
                self._server.client.upsert(collection.name, rows)

    def _seal(self, collection: Collection) -> None:
        with self._server.asking():
            self._server.client.flush(collection.name, timeout=SEALING)

    def _count(self, collection: Collection) -> int:
        with self._server.asking():
            found = self._server.client.query(
                collection.name, filter="", output_fields=["count(*)"], consistency_level="Strong"
            )
        return int(found[0]["count(*)"])

    def _read_back(self, collection: Collection) -> Filled:
        """The count and digest of all rows, read in the order of ids: the client's own iterator does not end with some
        ids of text."""
        after, count, total = "", 0, 0
        while True:
            with self._server.asking():
                rows = self._server.client.query(
                    collection.name,
                    filter=after,
                    limit=ROWS,
                    output_fields=["id", "code"],
                    consistency_level="Strong",
                )
            if not rows:
                break
            ids = as_ids([row["id"] for row in rows])
            codes = np.frombuffer(b"".join(row["code"][0] for row in rows), np.uint8).reshape(len(ids), -1)
            count += len(ids)
            total += digest_of(ids, codes, collection.version)
            after = _after(ids)
        return Filled(collection.version, collection.encoder, count, total % MODULUS)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def _summed(source: Source) -> Filled:
    """Count and digest that the collection of a source should have."""
    encoder, count, total = source.hasher.encoder(), 0, 0
    for piece in source.codes():
        count += len(piece.ids)
        total += digest_of(piece.ids, piece.codes, piece.version)
    return Filled(encoder.version, encoder_digest(encoder), count, total % MODULUS)
