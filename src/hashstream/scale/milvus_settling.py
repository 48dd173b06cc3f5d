"""Making a collection in Milvus equal to a source that may change while it is copied.

A copy writes codes that were read some time ago. So an item that is replaced meanwhile, in the source and then in
Milvus, may end with its older code, and one that is removed may come back. Hence the copy is compared, item by item,
with the source as it is then. What differs is written again and compared again; nothing else is written, so whatever
was equal stays as the writers of items leave it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.scale.milvus_collections import Collection, MilvusError
from hashstream.scale.milvus_rows import Rows, check_ids
from hashstream.table.digests import digest_of, item_hashes, stable_hashes
from hashstream.table.results import Codes
from hashstream.table.state.ids import as_ids

__all__ = ["Copied", "Source", "Total", "codes_of", "settle"]

ROUNDS = 20
PAUSE = 0.1  # seconds, after which a writer that has changed the source has probably written to Milvus, too
MODULUS = 1 << 64


class Source(Protocol):
    """A table, an export of one (`hashstream.table.Exported`), or anything else that has these."""

    @property
    def hasher(self) -> OnlineHasher: ...

    def codes(self) -> Iterator[Codes]: ...


class Total:
    """Count and digest of pieces so far."""

    def __init__(self) -> None:
        self.count = self.digest = 0

    def add(self, piece: Codes) -> None:
        self.count += len(piece.ids)
        self.digest = (self.digest + digest_of(piece.ids, piece.codes, piece.version)) % MODULUS


class Copied:
    """The items that were copied to a collection, by hashes of their ids: these may be removed from it again."""

    def __init__(self) -> None:
        self._collection: Collection | None = None
        self._hashes: list[np.ndarray] = []

    def note(self, collection: Collection, ids: np.ndarray) -> None:
        self._collection = collection
        self._hashes.append(stable_hashes(ids))

    def among(self, collection: Collection, ids: np.ndarray) -> np.ndarray:
        """Those of some ids that were copied there."""
        if collection != self._collection:
            return ids[:0]
        found: np.ndarray = ids[np.isin(stable_hashes(ids), np.concatenate(self._hashes))]
        return found


def codes_of(source: Source, version: int) -> Iterator[Codes]:
    """All codes of a source; ValueError where one is of another version."""
    for piece in source.codes():
        if piece.version != version:
            raise ValueError(
                f"items have codes of version {piece.version}, but the current version is {version}: "
                "re-encode them first (table.refresh(), or `hashstream table refresh`)"
            )
        yield piece


def settle(rows: Rows, source: Source, copied: Copied) -> Total:
    """Make rows equal to a source, and return what it has; MilvusError where that does not succeed."""
    version, name = rows.collection.version, rows.collection.name
    odd = _odd(codes_of(source, version), rows.pieces())
    for _ in range(ROUNDS):
        if not len(odd):
            total = Total()
            for piece in codes_of(source, version):
                total.add(piece)
            return total
        held = list(_chosen(codes_of(source, version), odd))
        for piece in held:
            rows.upsert(check_ids(piece.ids), piece.codes)
        gone = np.setdiff1d(odd, _joined([piece.ids for piece in held]))
        if len(mine := copied.among(rows.collection, gone)):
            rows.remove(mine)
        odd, before = _odd(_chosen(codes_of(source, version), odd), rows.some(odd)), odd
        if len(odd) == len(before):
            time.sleep(PAUSE)
    named = ", ".join(map(repr, odd[:10].tolist()))
    if not len(_joined([piece.ids for piece in _chosen(source.codes(), odd)])):
        raise MilvusError(
            f"{name} has {len(odd):,} items that the source does not have, such as {named}: remove them here too, "
            f"or drop version {version} first and export again. Nothing was switched"
        )
    raise MilvusError(
        f"{name} does not become equal to the source: {len(odd):,} items keep changing, such as {named}. Nothing was "
        "switched. Export again while they are not written, or see that what is written to the source is written "
        "here, too"
    )


def _odd(wanted: Iterable[Codes], found: Iterable[Codes]) -> np.ndarray:
    """The ids of items that are in only one of both, or not with the same code. `wanted` is read first: what a writer
    changes in the source later, it writes to Milvus later still."""
    ids, hashes = [], []
    for piece in wanted:
        ids.append(piece.ids)
        hashes.append(item_hashes(*piece))
    known = np.concatenate(hashes or [np.empty(0, np.uint64)])
    order = np.sort(known)
    odd, there = [], np.zeros(len(order), bool)
    for piece in found:
        mine = item_hashes(*piece)
        at = np.minimum(np.searchsorted(order, mine), max(len(order) - 1, 0))
        same = order[at] == mine if len(order) else np.zeros(len(mine), bool)
        there[at[same]] = True
        odd.append(piece.ids[~same])
    odd.append(_joined(ids)[np.isin(known, order[~there])])
    return np.unique(_joined(odd))


def _chosen(pieces: Iterable[Codes], ids: np.ndarray) -> Iterator[Codes]:
    """The items of pieces that have one of some ids."""
    hashes = np.sort(stable_hashes(ids))
    for piece in pieces:
        at = np.flatnonzero(np.isin(stable_hashes(piece.ids), hashes))
        if len(at):
            yield Codes(piece.ids[at], piece.codes[at], piece.version)


def _joined(ids: list[np.ndarray]) -> np.ndarray:
    """Ids of several pieces; some of which may be empty, and then of any kind."""
    some = [one for one in ids if len(one)]
    return np.concatenate(some) if some else as_ids([])
