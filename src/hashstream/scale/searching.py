"""Searches of a cluster: batched, sent to all shards, merged.

A search sends features. Each shard encodes them for its own versions and compares like with like, so shards may have
different versions at any moment. A search sees one commit of each shard, and each item once, but not one moment of the
whole cluster.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np

from hashstream.hashers.validation import as_array, check_count, check_finite
from hashstream.scale.batching import Batcher
from hashstream.scale.config import check_seconds
from hashstream.scale.engine import Outcome, values
from hashstream.scale.errors import ShardLost, ShardMissing
from hashstream.scale.members import Members
from hashstream.scale.merging import (
    Candidates,
    ClusterRadiusResult,
    ClusterSearchResult,
    candidates,
    merge_radius,
    split_radius,
    split_search,
)
from hashstream.table.reading import Where
from hashstream.table.rescoring import Metric
from hashstream.table.search_arguments import Include, check_candidates, check_compare, check_include

__all__ = ["Searcher"]

SHORT = 1.0  # seconds that a search with partial=True waits for a shard
TRIES = 5  # of a rescoring search whose candidates are removed, or whose shards are lost, meanwhile
LIMITS = 4  # that all tries of a rescoring search with partial=True take at most; each of its rounds has one


@dataclass
class _Rounds:
    """The rounds of one search: each waits for `limit` seconds at most, and none beyond `end`.

    lost : the numbers of shards that did not answer, and are not asked again.
    """

    partial: bool
    limit: float
    end: float
    lost: set[int] = field(default_factory=set)

    @property
    def left(self) -> float:
        return max(0.0, min(self.limit, self.end - monotonic()))


class Searcher:
    """Searches the shards of a cluster, from any number of threads.

    compare : what "auto" means, decided once for all shards: the learner measures both on its labelled sample when it
    publishes functions, and shards return the choice with their answers.
    """

    def __init__(self, members: Members, *, batched: bool = True) -> None:
        self._members, self._batched = members, batched
        self._sizes: dict[int, int] = {}  # shard -> items, as it said last
        self._published: tuple[int, str] = (-1, "like")
        self._searches: Batcher[ClusterSearchResult] = Batcher(split_search)
        self._radii: Batcher[ClusterRadiusResult] = Batcher(split_radius)

    @property
    def compare(self) -> str:
        return self._published[1]

    def published(self, version: int, compare: str | None) -> None:
        """Note what was published last."""
        if compare is not None and version >= self._published[0]:
            self._published = (version, compare)

    def search(
        self, Q: Any, k: int, *, where: Where | None, rescore: int | None, metric: Metric, compare: Any,
        asymmetric: bool, offset: int, include: Include, partial: bool, timeout: float | None,
    ) -> ClusterSearchResult:  # fmt: skip
        """See `Cluster.search`."""
        most = check_candidates(k, offset, rescore, metric)
        Q, how = self._checked(Q, compare, include)
        limit = self._limit(timeout, partial)
        if rescore is not None:
            check_finite(Q)
        more = tuple(name for name in ("labels", "fields", "payloads") if name in include)

        def send(rows: np.ndarray) -> ClusterSearchResult:
            rounds = _Rounds(partial, limit, monotonic() + (LIMITS if partial else 1) * limit)
            for tried in range(TRIES):
                if tried and not rounds.left:
                    break
                found, missing = self._nearest(rows, most, where, how, asymmetric, more, rounds)
                if rescore is None:
                    return found.result(offset, k, include, missing)
                scored = self._rescored(rows, found, metric, rounds)
                if scored is not None:
                    return scored.result(offset, k, include, missing)
            raise ShardLost(
                "items were removed, or shards lost, between their ranking and rescoring: search again"
            )

        key = (_text(where), k, rescore, metric, how, asymmetric, offset, tuple(include), partial, timeout)
        result: ClusterSearchResult = self._through(self._searches, key, Q, send, limit)
        return result

    def search_radius(
        self, Q: Any, radius: int, *, where: Where | None, compare: Any, include: Include, partial: bool,
        timeout: float | None,
    ) -> ClusterRadiusResult:  # fmt: skip
        """See `Cluster.search_radius`."""
        check_count("radius", radius, 0)
        Q, how = self._checked(Q, compare, include)
        limit = self._limit(timeout, partial)
        more = tuple(name for name in ("labels", "fields", "payloads") if name in include)

        def send(rows: np.ndarray) -> ClusterRadiusResult:
            args = (self._shared(rows), int(radius), where, how, more)
            found, _, missing = self._scatter(
                "search_radius", args, _Rounds(partial, limit, monotonic() + limit)
            )
            return merge_radius(found, include, missing)

        key = (_text(where), radius, how, tuple(include), partial, timeout)
        result: ClusterRadiusResult = self._through(self._radii, key, Q, send, limit)
        return result

    def _checked(self, Q: Any, compare: Any, include: Include) -> tuple[np.ndarray, str]:
        check_include(include)
        how = check_compare(compare)
        Q = as_array(Q)
        if Q.ndim != 2:
            raise ValueError(f"Q must be 2-D, one query per row, not of shape {Q.shape}")
        return Q, self.compare if how == "auto" else how

    def _through(
        self, batcher: Batcher[Any], key: tuple[Any, ...], Q: np.ndarray, send: Any, limit: float
    ) -> Any:
        full: Hashable = (*key, Q.dtype.str, Q.shape[1])
        if not self._batched or Q.dtype.kind not in "fiub" or not len(Q) or key[0] is None:
            return send(Q)
        return batcher.call(full, Q, send, patience=limit)

    def _shared(self, Q: np.ndarray) -> Any:
        return self._members.engine.share(Q, Q.nbytes)

    def _nearest(
        self, Q: np.ndarray, most: int, where: Where | None, how: str, asymmetric: bool, more: Sequence[str],
        rounds: _Rounds,
    ) -> tuple[Candidates, float]:  # fmt: skip
        """The nearest by code of all shards, and the share of items that are missing."""
        args = (self._shared(Q), most, where, how, asymmetric, more)
        found, shards, missing = self._scatter("search", args, rounds)
        return candidates(found, shards, most), missing

    def _rescored(
        self, Q: np.ndarray, found: Candidates, metric: Metric, rounds: _Rounds
    ) -> Candidates | None:
        """Candidates ranked by their features, each scored where it is stored; None where one was removed, or its shard
        lost, meanwhile."""
        if not found.ids.size:
            order = np.zeros(found.ids.shape, np.intp)
            return found.chosen(order, np.empty(found.ids.shape))
        Q = check_finite(Q)
        shared, places = self._shared(Q), {}
        for shard in np.unique(found.shards).tolist():
            places[shard] = np.nonzero(found.shards == shard)
        arguments = {
            at: (shared, rows, found.ids[rows, columns], metric) for at, (rows, columns) in places.items()
        }
        far = np.empty(found.ids.shape)
        scores = self._asked("score", arguments, rounds)
        for shard, place in places.items():
            scored = scores.get(shard)
            if scored is None:
                return None
            far[place] = scored
        order = np.argsort(far, axis=1, kind="stable")
        return found.chosen(order, np.take_along_axis(far, order, axis=1))

    def _limit(self, timeout: float | None, partial: bool) -> float:
        """The seconds that a search waits for a shard."""
        if timeout is None:
            return min(SHORT, self._members.timeout) if partial else self._members.timeout
        check_seconds("timeout", timeout)
        return timeout

    def _scatter(
        self, method: str, args: tuple[Any, ...], rounds: _Rounds
    ) -> tuple[list[Any], list[int], float]:
        """The answers of all shards, the numbers of those that answered, and the share of items that is missing."""
        shards = len(self._members.shards)
        found = self._asked(method, {at: args for at in range(shards) if at not in rounds.lost}, rounds)
        for at, answer in found.items():
            self._sizes[at] = answer.n_items
            self.published(*answer.published)
        missing = self._share(rounds.lost, shards) if rounds.lost else 0.0
        return list(found.values()), list(found), missing

    def _asked(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], rounds: _Rounds
    ) -> dict[int, Any]:
        """The answers of shards, by their numbers. Those that do not answer are added to the lost ones; an error where
        all are lost, or the search is not partial."""
        members, limit = self._members, rounds.left
        outcomes = members.outcomes(method, arguments, limit)
        lost = {at for at, outcome in zip(arguments, outcomes, strict=True) if _is_lost(outcome)}
        rounds.lost |= lost
        if lost and (not rounds.partial or len(rounds.lost) == len(members.shards)):
            values(outcomes, [members.shards[at] for at in arguments], limit, members.shards)
        for outcome in outcomes:
            if outcome.error is not None and not _is_lost(outcome):
                raise outcome.error
        return {at: outcome.value for at, outcome in zip(arguments, outcomes, strict=True) if at not in lost}

    def _share(self, lost: Collection[int], shards: int) -> float:
        """The share of items in lost shards: as they said last; by their number where one never answered, or was empty,
        since it may have been filled meanwhile. Never 0."""
        if len(self._sizes) < shards or not all(self._sizes[at] for at in lost):
            return len(lost) / shards
        return sum(self._sizes[at] for at in lost) / sum(self._sizes.values())


def _is_lost(outcome: Outcome) -> bool:
    return outcome.lost or isinstance(outcome.error, ShardMissing)


def _text(where: Where | None) -> str | None:
    """A filter as text by which equal ones are recognised; None where that cannot be told."""
    try:
        return json.dumps(where, sort_keys=True)
    except TypeError:
        return None
