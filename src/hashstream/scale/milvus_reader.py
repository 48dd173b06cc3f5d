"""`MilvusReader`: searches in Milvus, each in the codes of one version."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import OnlineHasher
from hashstream.hashers.validation import check_count
from hashstream.scale.milvus_collections import Collection, Functions, MilvusError, ModelsLike, Server
from hashstream.table.results import SearchResult
from hashstream.table.state.ids import as_ids

__all__ = ["Found", "MilvusReader"]

MOST_K = 16_384  # that Milvus returns
QUERIES = 1_000  # of a request
TRIES = 5  # of a search, while collections come and go


class Found(SearchResult):
    """`distances, ids = reader.search(Q)`. version : of the functions that queries and items were encoded by."""

    version: int = -1


class Resolved(NamedTuple):
    """The collection that the alias leads to, until the cache ends, and its functions."""

    collection: Collection
    hasher: OnlineHasher
    until: float


class MilvusReader:
    """Searches the codes that `MilvusExport` has written. Any number of threads may use it.

    An answer is of one version, whichever the alias leads to: the reader resolves the alias, encodes the queries by
    the functions that the collection's description names, and searches that collection by its own name.
    """

    def __init__(
        self,
        uri: str,
        name: str,
        models: ModelsLike,
        *,
        cache_seconds: float = 5.0,
        consistency: str = "Strong",
        token: str = "",
        timeout: float = 60.0,
    ) -> None:
        """uri, name, token, timeout : as for `MilvusExport`.

        models : the folder of the hash functions (that of `MilvusExport`, or of an export to Parquet), or hashers.
        cache_seconds : how long the alias is not resolved again; `MilvusExport.drop_old` has to wait for longer.
        consistency : of Milvus. "Strong" sees all that was written before the search, and waits for it up to 0.2
            seconds; "Bounded" does not wait, and may miss what came in the last seconds.
        """
        if not cache_seconds >= 0:
            raise ValueError(f"cache_seconds must be at least 0, not {cache_seconds!r}")
        self._server = Server(uri, name, token=token, timeout=timeout)
        self._functions = Functions(models)
        self._seconds, self._consistency = cache_seconds, consistency
        self._resolved: Resolved | None = None

    def search(self, Q: ArrayLike, k: int = 10) -> Found:
        """The k items nearest to each query, exactly. Of items that are equally near, Milvus returns any; those that
        are returned are in the order of ids.

        Q : (q, d) features. Returns distances (q, m) uint16 and ids (q, m), int64 or object holding str, with
        m = min(k, items).
        """
        check_count("k", k, 1, MOST_K)
        resolved, error = self._resolve(), None
        for _ in range(TRIES):
            try:
                return self._search(resolved, Q, k)
            except self._server.pymilvus.MilvusException as raised:
                error, before = raised, resolved
                resolved = self._resolve(again=True)
                if resolved.collection == before.collection:
                    break  # it is still there: the error is another one
        with self._server.asking():
            assert error is not None
            raise error
        raise AssertionError

    def _resolve(self, *, again: bool = False) -> Resolved:
        found, now = self._resolved, time.monotonic()
        if found is None or again or now >= found.until:
            collection = self._server.current()
            if collection is None:
                raise MilvusError(
                    f"there is no alias {self._server.name} at {self._server.uri}: export a table, and switch to it"
                )
            found = Resolved(collection, self._functions.of(collection), now + self._seconds)
            self._resolved = found
        return found

    def _search(self, resolved: Resolved, Q: ArrayLike, k: int) -> Found:
        codes = resolved.hasher.transform(Q)
        hits: list[Any] = []
        for start in range(0, len(codes), QUERIES):
            hits += self._server.client.search(
                resolved.collection.name,
                [code.tobytes() for code in codes[start : start + QUERIES]],
                limit=k,
                anns_field="code",
                search_params={"metric_type": "HAMMING"},
                consistency_level=self._consistency,
            )
        rows = [sorted((round(hit["distance"]), hit["id"]) for hit in found) for found in hits]
        if len({len(row) for row in rows}) > 1:
            raise MilvusError(f"{resolved.collection.name} gave answers of different lengths")
        ids = as_ids([one for row in rows for _, one in row])
        shape = (len(rows), len(rows[0]) if rows else 0)
        distances = np.array([distance for row in rows for distance, _ in row], np.uint16)
        found = Found(distances.reshape(shape), ids.reshape(shape))
        found.version = resolved.collection.version
        return found

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
