"""The half of a cluster that reads: searching and looking up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import OnlineHasher
from hashstream.hashers.validation import check_count
from hashstream.scale.members import Members
from hashstream.scale.merging import ClusterRadiusResult, ClusterSearchResult, merge_ids
from hashstream.scale.models import Publication
from hashstream.scale.partition import shard_of
from hashstream.scale.searching import Searcher
from hashstream.scale.writing import Storer
from hashstream.table.errors import Closed
from hashstream.table.incoming import IdsLike
from hashstream.table.reading import Where
from hashstream.table.rescoring import Metric
from hashstream.table.results import Codes, Items
from hashstream.table.search_arguments import Include
from hashstream.table.settings import Settings
from hashstream.table.state.ids import as_ids
from hashstream.table.state.search import Compare

__all__ = ["Readable"]

MASK = (1 << 64) - 1

Shape = tuple[int | None, np.dtype[Any] | None]


class Readable:
    """Searches, and looks items up, in the shards of a cluster. `Cluster` adds the rest."""

    def __init__(self, members: Members, searcher: Searcher, storer: Storer) -> None:
        self._members, self._searcher, self._storer = members, searcher, storer
        self._open = True
        self._shape_known: Shape | None = None
        self._id_kind: Literal["int", "str"] | None = None

    def _refuse_if_closed(self) -> None:
        self._members.refuse_in_fork()  # first: a thread that the fork does not have may hold a lock
        if not self._open:
            raise Closed("the cluster is closed")

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
        timeout: float | None = None,
    ) -> ClusterSearchResult:
        """The k items nearest to each query, exactly; ties by insertion. See `HashTable.search`.

        compare : "auto" is one choice for all shards: the learner's, measured on its labelled sample at each
            publication.
        partial : where shards do not answer, answer from the others; `missing` of the result is the share of the items
            that were not searched. Otherwise `ShardLost`.
        timeout : seconds to wait for a shard; by default that of `open`, and 1 with `partial`. With `partial` and
            `rescore`, each of two rounds waits for so long, and both are tried again where shards are lost, or items
            removed, between them: at most 4 x `timeout` in all.
        """
        self._refuse_if_closed()
        return self._searcher.search(
            Q, k, where=where, rescore=rescore, metric=metric, compare=compare, asymmetric=asymmetric, offset=offset,
            include=include, partial=partial, timeout=timeout,
        )  # fmt: skip

    def search_radius(
        self,
        Q: ArrayLike,
        radius: int,
        *,
        where: Where | None = None,
        compare: Compare | Literal["auto"] = "auto",
        include: Include = (),
        partial: bool = False,
        timeout: float | None = None,
    ) -> ClusterRadiusResult:
        """All items at most `radius` bits away from each query. See `HashTable.search_radius` and `search`."""
        self._refuse_if_closed()
        return self._searcher.search_radius(
            Q, radius, where=where, compare=compare, include=include, partial=partial, timeout=timeout
        )

    # ---- looking up

    def get(self, ids: IdsLike, *, features: bool = True) -> Items:
        """Stored data of items; KeyError where an id is not stored."""
        self._refuse_if_closed()
        wanted = as_ids(ids)
        if not len(wanted):
            items: Items = self._members.read_each("get", {0: (wanted, features)})[0]
            return items
        return self._storer.get(wanted, features=features)

    def ids(self, where: Where | None = None, *, offset: int = 0, limit: int | None = None) -> np.ndarray:
        """The ids of all items in the order of insertion; see `HashTable.ids`."""
        self._refuse_if_closed()
        check_count("offset", offset, 0)
        most = None if limit is None else offset + check_count("limit", limit, 0)
        return merge_ids(self._members.read("ids", where, most), offset, limit)

    def count(self, where: Where | None = None) -> int:
        """How many items there are, or match a filter."""
        self._refuse_if_closed()
        return sum(self._members.read("count", where))

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[Any]:
        """The ids of all items, in the order of insertion."""
        yield from self.ids().tolist()

    def __contains__(self, one: Any) -> bool:
        if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, str, np.integer)):
            return False
        self._refuse_if_closed()
        try:
            ids = as_ids([one])
        except ValueError:  # a number that no id can be
            return False
        shard = int(shard_of(ids, len(self._members.shards))[0])
        return bool(self._members.read_each("contains", {shard: (ids,)})[0][0])

    def has(self, ids: IdsLike) -> np.ndarray:
        """Which ids are stored, (n,) bool: `in` for many at once."""
        self._refuse_if_closed()
        return self._storer.has(as_ids(ids))

    def sample_ids(self) -> np.ndarray:
        """The ids of the items in the samples of all shards, shard by shard."""
        self._refuse_if_closed()
        parts = [part for part in self._members.read("sample_ids") if len(part)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def codes(self, rows: int = 65_536) -> Iterator[Codes]:
        """All codes in pieces of at most so many rows, each of one version: shard by shard, each as of one commit.
        `ShardLost` where a shard dies or does not answer meanwhile: read them again from the start.

        A shard serves eight readers at a time; where more are open, the others wait, and get `ShardLost` after
        `timeout`. Searches wait for none of them. An iterator that is not read to its end is closed with `close()`.
        """
        self._refuse_if_closed()
        check_count("rows", rows, 1)
        for at in range(len(self._members.shards)):
            yield from self._members.stream(at, "codes", rows)

    def digest(self) -> int:
        """The sum of the shards' digests: that of one table with the same items. See `HashTable.digest`."""
        self._refuse_if_closed()
        return int(sum(self._members.write("digest", long=True)) & MASK)

    # ---- facts

    @property
    def fields(self) -> dict[str, str]:
        """The declared fields, name -> type."""
        return dict(self._facts()["fields"])

    @property
    def settings(self) -> Settings:
        """Policy, durability and limits of the shards."""
        found: Settings = self._facts()["settings"]
        return found

    @property
    def in_doubt(self) -> bool:
        """Never: a write whose outcome is unknown raises, and may be repeated."""
        return False

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the learner's hasher, which may have learned more than was published."""
        self._refuse_if_closed()
        return self._storer.hasher

    @property
    def version(self) -> int | None:
        """The version of the functions that were published last; None before the first item."""
        self._refuse_if_closed()
        publication: Publication | None = self._members.learn("published")
        return None if publication is None else publication.version

    @property
    def n_features(self) -> int | None:
        """Features per item; None before the first item, unless the hasher has learned before."""
        return self._shape()[0]

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype of features; None before the first item, unless the hasher has learned before."""
        return self._shape()[1]

    def _shape(self) -> Shape:
        """Features per item and their dtype, which never change once they are known."""
        self._refuse_if_closed()
        if self._shape_known is None:
            hasher = self.hasher
            if not hasattr(hasher, "n_features_in_"):
                return None, None
            self._shape_known = int(hasher.n_features_in_), np.dtype(hasher.dtype_)
        return self._shape_known

    @property
    def id_kind(self) -> Literal["int", "str"] | None:
        """The kind of the ids; None before the first item."""
        self._refuse_if_closed()
        if self._id_kind is None:
            kinds = [facts["id_kind"] for facts in self._members.read("facts")]
            self._id_kind = next((kind for kind in kinds if kind is not None), None)
        return self._id_kind

    @property
    def commits(self) -> int:
        """The commits of all shards."""
        self._refuse_if_closed()
        return int(sum(facts["commits"] for facts in self._members.read("facts")))

    def _facts(self) -> dict[str, Any]:
        self._refuse_if_closed()
        facts: dict[str, Any] = self._members.read_each("facts", {0: ()})[0]
        return facts
