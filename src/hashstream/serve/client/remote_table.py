"""`RemoteTable`: a table of a service, with the methods of `HashTable`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import LabelsLike, OnlineHasher
from hashstream.hashers.validation import check_count
from hashstream.serve.client.errors import bad_answer
from hashstream.serve.client.remote_access import Access
from hashstream.serve.client.remote_answers import ArrayAnswer, Kinds, count_in, read_stats
from hashstream.serve.client.request_bodies import Body
from hashstream.serve.client.snapshots import download
from hashstream.table.incoming import IdsLike, PayloadsLike
from hashstream.table.reading import Where
from hashstream.table.rescoring import Metric
from hashstream.table.results import Items, RadiusResult, SearchResult
from hashstream.table.search_arguments import (
    Include,
    check_candidates,
    check_compare,
    check_include,
)
from hashstream.table.settings import Settings
from hashstream.table.state.columns import field_kinds
from hashstream.table.state.ids import as_ids
from hashstream.table.state.search import Compare
from hashstream.table.stats import TableStats

__all__ = ["RemoteTable"]

T = TypeVar("T")


class RemoteTable:
    """A table of a service: the methods of `HashTable`, with the same arguments, results and errors; see `Client`.

    Every call is a request, and any number of threads may call at once. A write is durable when it returns. Each has a
    key, the same for all attempts, so that it is done once, however often it is sent; `key=` chooses it, as for a
    `HashTable`.

    Beyond the errors of `HashTable`: `ServiceUnavailable` (a TableError) where the service cannot be reached, a
    PermissionError where the token does not allow it, and a ValueError for a request beyond the service's limits.

    Examples
    --------
    >>> def show(table):  # a HashTable or a RemoteTable
    ...     distances, ids = table.search(np.zeros((1, 4)), k=2)
    ...     return ids.tolist()
    >>> import hashstream as hs
    >>> with hs.HashTable.open(None, hs.LSH(n_bits=16, random_state=0)) as table:
    ...     table.add([7, 8], np.eye(4)[:2])
    ...     show(table)
    [[7, 8]]
    """

    def __init__(self, access: Access) -> None:
        """Use `Client.table`."""
        self._access = access

    # ---- writing

    def ingest(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        key: str | None = None,
    ) -> None:
        """Store a batch, and learn from its rows that have a label; as `HashTable.ingest`."""
        self._store(True, ids, X, y, fields, payloads, key)

    def add(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        learn: bool = False,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        key: str | None = None,
    ) -> None:
        """Store items, and do not learn from them unless `learn`; as `HashTable.add`."""
        self._store(bool(learn), ids, X, y, fields, payloads, key)

    def _store(
        self,
        learn: bool,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None,
        fields: Mapping[str, Any] | None,
        payloads: PayloadsLike | None,
        key: str | None,
    ) -> None:
        rows = self._access.rows(X)
        body = Body(learn=learn)
        body.put_vectors(rows)
        body.put_ids(as_ids(ids))
        if y is not None:
            body.put_labels(y)
        if fields is not None:
            self._access.put_fields(body, fields, len(rows))
        if payloads is not None:
            body.put_payloads(payloads, len(rows))
        self._access.write("items", body, key)

    def label(self, ids: IdsLike, y: LabelsLike, *, key: str | None = None) -> int:
        """Give labels to stored items, and learn from them; returns the number of items whose label is new. As
        `HashTable.label`."""
        wanted, body = as_ids(ids), Body()
        body.put_ids(wanted)
        labels = body.put_labels(y)
        if not labels.ndim:
            raise ValueError(
                f"there are {len(wanted)} ids, but y has shape {labels.shape}: one label for each is needed"
            )
        return self._access.write_and_count("labels", body, "changed", key)

    def remove(
        self, ids: IdsLike | None = None, *, where: Where | None = None, key: str | None = None
    ) -> int:
        """Remove items for good, by their ids or by a filter; returns how many. As `HashTable.remove`."""
        body = Body()
        if ids is not None:
            body.put_ids(as_ids(ids))
        if where is not None:
            body.put("where", self._access.filter(where))
        return self._access.write_and_count("items/remove", body, "removed", key)

    def declare(self, fields: Mapping[str, Any]) -> None:
        """Add fields to the table; as `HashTable.declare`."""
        self._access.write("fields", {"fields": field_kinds(fields)})

    def refresh(self, budget: int | None = None) -> int:
        """Re-encode items of old versions, the oldest first; returns how many. As `HashTable.refresh`.

        Where an answer was lost, the number is that of the attempt that was answered.
        """
        most = None if budget is None else check_count("budget", budget, 1)
        return self._access.write_and_count("refresh", {"budget": most}, "recoded")

    def flush(self) -> None:
        """Write a checkpoint; as `HashTable.flush`."""
        self._access.write("flush", {})

    def compact(self) -> int:
        """Free the space of items that were removed or replaced; returns their number, as `refresh` does. As
        `HashTable.compact`."""
        return self._access.write_and_count("compact", {}, "freed")

    def writer(self) -> Self:
        """The table itself: the service lets calls that wait for one another share a commit."""
        return self

    # ---- searching

    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        *,
        where: Where | None = None,
        rescore: int | None = None,
        metric: Metric = "cosine",
        compare: Compare | Literal["auto"] = "auto",
        asymmetric: bool = False,
        offset: int = 0,
        include: Include = (),
        partial: bool = False,
    ) -> SearchResult:
        """The k items nearest to each query, exactly; as `HashTable.search`.

        partial : of a cluster, answer without the shards that are lost; `missing` of the result is the share of the
            items that were not searched. A table refuses it.
        """
        check_candidates(k, offset, rescore, metric)
        settings: dict[str, Any] = {"k": int(k)}
        if offset:
            settings["offset"] = int(offset)
        if rescore is not None:
            settings |= {"rescore": int(rescore), "metric": metric}
        if asymmetric:
            settings["asymmetric"] = True
        if partial:
            settings["partial"] = True
        return self._ask("search", Q, settings, where, compare, include, ArrayAnswer.search)

    def search_radius(
        self,
        Q: ArrayLike,
        radius: int,
        *,
        where: Where | None = None,
        compare: Compare | Literal["auto"] = "auto",
        include: Include = (),
        partial: bool = False,
    ) -> RadiusResult:
        """All items at most `radius` bits away from each query; as `HashTable.search_radius`. partial : as in
        `search`."""
        settings: dict[str, Any] = {"radius": check_count("radius", radius, 0)}
        if partial:
            settings["partial"] = True
        return self._ask("radius", Q, settings, where, compare, include, ArrayAnswer.radius)

    def _ask(
        self,
        route: str,
        Q: ArrayLike,
        settings: dict[str, Any],
        where: Where | None,
        compare: Compare | Literal["auto"],
        include: Include,
        read: Callable[[ArrayAnswer, int, Kinds], T],
    ) -> T:
        if include:
            check_include(include)
            if "sequences" in include:
                raise ValueError("sequences are not sent over HTTP: ask the table where its folder is")
            settings["include"] = list(include)
        if check_compare(compare) != "auto":
            settings["compare"] = compare
        if where is not None:
            settings["where"] = self._access.filter(where)
        rows = self._access.queries(Q)
        answer = self._access.arrays_of_queries(route, rows, settings)
        return self._access.understood(lambda: read(answer, len(rows), self._access.kinds))

    # ---- looking up

    def get(self, ids: ArrayLike | Sequence[int] | Sequence[str], *, features: bool = True) -> Items:
        """Stored data of items; KeyError where an id is not stored. As `HashTable.get`."""
        wanted, body = as_ids(ids), Body(features=bool(features))
        body.put_ids(wanted)
        answer = self._access.arrays("items/get", body)
        return self._access.understood(
            lambda: answer.items(wanted, self._access.kinds, features=bool(features))
        )

    def ids(self, where: Where | None = None, *, offset: int = 0, limit: int | None = None) -> np.ndarray:
        """The ids of all items in the order of insertion; as `HashTable.ids`."""
        ask = {
            "offset": check_count("offset", offset, 0),
            "limit": None if limit is None else check_count("limit", limit, 0),
            "where": None if where is None else self._access.filter(where),
        }
        answer = self._access.arrays("ids", ask)
        return self._access.understood(answer.ids)

    def count(self, where: Where | None = None) -> int:
        """How many items there are, or match a filter."""
        ask = {"where": None if where is None else self._access.filter(where)}
        found = self._access.ask("count", ask)
        return self._access.understood(lambda: count_in(found, "count"))

    def __iter__(self) -> Iterator[Any]:
        """The ids of all items, as of one commit, in the order of insertion."""
        yield from self.ids().tolist()

    def __len__(self) -> int:
        return self.count()

    def __contains__(self, one: Any) -> bool:
        if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, str, np.integer)):
            return False
        try:
            body = Body()
            body.put_ids(as_ids([one]))
        except ValueError:  # a number that no id can be
            return False
        return self._access.knows(body)

    # ---- the table itself

    @property
    def name(self) -> str:
        """Its name in the service."""
        return self._access.name

    @property
    def path(self) -> None:
        """None: the folder is the service's."""
        return None

    def info(self) -> dict[str, Any]:
        """The service's description of the table: method, parameters, sizes, fields and settings."""
        return dict(self._access.info())

    @property
    def settings(self) -> Settings:
        """Policy, durability and limits, as they are stored with the table."""
        stored = self._access.info()
        return self._access.understood(lambda: Settings.from_fields(stored["settings"]))

    @property
    def keeps_features(self) -> bool:
        """Whether features are stored, from which items are re-encoded."""
        return bool(self._access.info().get("keeps_features"))

    @property
    def commits(self) -> int:
        """The number of the table's last commit."""
        info = self._access.info()
        return self._access.understood(lambda: count_in(info, "commits"))

    @property
    def version(self) -> int | None:
        """The version of the current hash functions; None before the first item."""
        return self._number_or_none("version")

    @property
    def n_features(self) -> int | None:
        """Features per item; None before the first item."""
        return self._number_or_none("n_features")

    def _number_or_none(self, name: str) -> int | None:
        info = self._access.info()
        return self._access.understood(lambda: None if info.get(name) is None else count_in(info, name))

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype of features; None before the first item."""
        name = self._access.info().get("dtype")
        if name not in (None, "float32", "float64"):
            raise bad_answer(self._access.sender.url, f"the dtype {name!r:.80}")
        return None if name is None else np.dtype(name)

    @property
    def id_kind(self) -> Literal["int", "str"] | None:
        """The kind of the ids; None before the first item."""
        return self._access.id_kind()

    @property
    def fields(self) -> dict[str, str]:
        """The declared fields, name -> type."""
        self._access.info()
        return dict(self._access.kinds([]))

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the current hasher."""
        return self._access.hasher()

    def stats(self) -> TableStats:
        """Items, versions, staleness, sizes and signs of drift."""
        found = self._access.ask("stats")
        return self._access.understood(lambda: read_stats(found))

    def check(self, sample: int = 1000) -> dict[str, int]:
        """Verify every checksum, and encode a sample of items again; as `HashTable.check`."""
        found = self._access.ask("check", {"sample": sample})
        return self._access.understood(
            lambda: {name: count_in(found, name) for name in ("batches", "rows", "codes")}
        )

    def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Download a copy of the table, as of one commit, into a new folder of this machine: a table, too."""
        self._access.refuse_if_closed()
        download(self._access.sender, self._access.path("snapshot"), path)

    def reload(self) -> bool:
        """False: every call already sees what was committed before it."""
        self._access.refuse_if_closed()
        return False

    def close(self) -> None:
        """End the use of this object. The table, and the client, stay open."""
        self._access.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._access.closed else ""
        return f"<RemoteTable {self.name} at {self._access.sender.url}{closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a table of a service cannot be copied or sent to another process: connect there, with Client"
        )
