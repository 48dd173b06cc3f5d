"""Codes in Milvus: exported from a table, verified, switched to, and searched without ever mixing versions.

Each version of the hash functions has a collection of its own. `MilvusExport.move` fills that of the current version,
compares it with the table, and only then lets an alias lead to it. `MilvusReader` resolves the alias first, encodes its
queries by the functions of just that collection, and searches it by its own name: searched through the alias, codes of
two versions would be compared while it is switched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from numpy.typing import ArrayLike

from hashstream.hashers.serialization import encoder_digest
from hashstream.scale.milvus_collections import Collection, Functions, MilvusError, Server
from hashstream.scale.milvus_reader import Found, MilvusReader
from hashstream.scale.milvus_rows import Rows, check_ids
from hashstream.scale.milvus_settling import Copied, Source, Total, codes_of, settle
from hashstream.table.state.ids import as_ids, kind_of, repeated

__all__ = ["Filled", "Found", "MilvusError", "MilvusExport", "MilvusReader"]


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
        self._copied = Copied()

    # ---- moving to a version

    def move(self, source: Source, progress: Callable[[int], None] | None = None) -> Filled:
        """Export the codes of a source, `settle` them, and switch to them.

        Items may be added and removed meanwhile, first in the source and then here.
        """
        filled = self.settle(source, self.export(source, progress))
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
        digest, rows, total, self._copied = encoder_digest(encoder), None, Total(), Copied()
        for piece in codes_of(source, encoder.version):
            ids = check_ids(piece.ids)
            if rows is None:
                self._functions.save(hasher)
                rows = self._rows(self._server.create(encoder.version, digest, encoder.n_bits, kind_of(ids)))
            self._copied.note(rows.collection, ids)
            rows.upsert(ids, piece.codes)
            total.add(piece)
            if progress is not None:
                progress(total.count)
        if rows is None:
            raise ValueError("there is nothing to export: the table has no items")
        rows.seal()
        return Filled(encoder.version, digest, total.count, total.digest)

    def settle(self, source: Source, exported: Filled) -> Filled:
        """Compare every code with a source from which `export` has written them, and write again what has changed
        meanwhile, until they agree.

        An item that is replaced while it is exported may get its older code after its newer one. This finds it, and one
        that was removed and is back; so call it before `switch`. MilvusError where they do not agree: when items
        change all the time, or there are some that neither the source has nor this object has exported. Returns what
        the source had last. Needs 24 bytes of memory per item. exported : what `export` has returned.
        """
        version, encoder = exported.version, source.hasher.encoder()
        if (encoder.version, encoder_digest(encoder)) != (version, exported.encoder):
            raise MilvusError(
                f"the source has learned since it was exported: its functions are of version {encoder.version}, not "
                f"{version}. Nothing was switched: export again while nothing is learned"
            )
        collection = self._at(version)
        total = settle(self._rows(collection), source, self._copied)
        return Filled(collection.version, collection.encoder, total.count, total.digest)

    def verify(self, expected: Source | Filled) -> Filled:
        """Read a collection back, and compare its count and digest with those of a source; MilvusError where they
        differ. expected : a source, or what `export` has returned."""
        wanted = expected if isinstance(expected, Filled) else summed(expected)
        rows = self._rows(collection := self._at(wanted.version))
        counted, total = rows.count(), Total()
        for piece in rows.pieces():
            total.add(piece)
        found = Filled(collection.version, collection.encoder, total.count, total.digest)
        if (counted, found) != (wanted.count, wanted):
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

        Add items to the table first: what it has when it is exported is what a verified collection has. Calls with
        the same id have to come in the order in which the table got them.
        """
        known = check_ids(as_ids(ids))
        if twice := repeated(known):
            raise ValueError(f"ids occur more than once: {', '.join(map(repr, twice[:10]))}")
        encoded = [(one, self._functions.of(one).transform(X)) for one in self._written()]
        for one, codes in encoded:
            if len(codes) != len(known):
                raise ValueError(f"there are {len(known)} ids, but X has {len(codes)} rows")
            self._rows(one).upsert(known, codes)
        return [one.version for one, _ in encoded]

    def remove(self, ids: ArrayLike) -> list[int]:
        """Remove items from the current collection and every newer one, after they were removed from the table; ids
        that are not there do not matter. Returns the versions."""
        known, collections = as_ids(ids), self._written()
        for one in collections:
            self._rows(one).remove(known)
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

    def _rows(self, collection: Collection) -> Rows:
        return Rows(self._server, collection)

    def _at(self, version: int) -> Collection:
        found = self._server.find(self._server.collection_name(version))
        if found is None:
            raise MilvusError(
                f"there is no collection {self._server.collection_name(version)} at {self._server.uri}: export it first"
            )
        return found

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def summed(source: Source) -> Filled:
    """Count and digest that the collection of a source should have."""
    encoder, total = source.hasher.encoder(), Total()
    for piece in source.codes():
        total.add(piece)
    return Filled(encoder.version, encoder_digest(encoder), total.count, total.digest)
