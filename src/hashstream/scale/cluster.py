"""`Cluster`: the methods of `HashTable`, with the items in shards on Ray."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from numpy.typing import ArrayLike, DTypeLike

from hashstream.datasets.rows import RowSource
from hashstream.hashers import LabelsLike, OnlineHasher
from hashstream.hashers.serialization import to_bytes
from hashstream.hashers.validation import check_count
from hashstream.scale.config import Config, check_seconds
from hashstream.scale.creating import config_of, create, start
from hashstream.scale.engine import Engine
from hashstream.scale.errors import ClusterError
from hashstream.scale.feeding import Fed, Feed, Parts
from hashstream.scale.keeping import Keeping
from hashstream.scale.members import Members
from hashstream.scale.merging import ClusterStats, merge_stats
from hashstream.scale.models import Publication
from hashstream.scale.searching import Searcher
from hashstream.scale.writing import Storer
from hashstream.table.files import Progress, Tally
from hashstream.table.incoming import IdsLike, PayloadsLike
from hashstream.table.opening import new_fields
from hashstream.table.reading import Where
from hashstream.table.state.columns import field_kinds
from hashstream.table.writer import Writer

__all__ = ["Cluster"]

SLICE = 1 << 18  # items that a shard re-encodes at a time in `refresh`, so that it takes writes in between


class Cluster(Keeping):
    """A table whose items are spread over shards, each a `HashTable` in a process of its own; see `Cluster.open`.

    An item's shard follows from a hash of its id. Ray places the shards, restarts those that die and repeats their
    calls. Labels are learned in one place, the learner, exactly as one table learns them; it publishes the functions
    every `publish_every` batches, and the shards re-encode their items in the background.

    A search sees one commit of each shard and each item once, not one moment of the whole cluster. Rows that are given
    one call after the other get the ids, distances and ties that one `HashTable` has.
    """

    # ---- opening

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        hasher: OnlineHasher | None = None,
        *,
        shards: int | None = None,
        address: str | None = None,
        fields: Mapping[str, Any] | None = None,
        nodes: Sequence[str] | None = None,
        publish_every: int | None = None,
        policy: str | None = None,
        durability: Literal["full", "fast"] | None = None,
        index: Literal["auto", "scan"] | None = None,
        timeout: float = 60.0,
        write_timeout: float = 600.0,
        batched: bool = True,
        engine: Engine | None = None,
    ) -> Self:
        """Open a cluster's folder, or create one. All settings but `address`, `fields` and those from `timeout` on are
        fixed when it is created.

        path : a folder on a local disk, since tables do not work on network file systems. One machine needs nothing
            else. With `nodes`, each machine has a folder of this name for its shards, and programs run on that of
            nodes[0], where `cluster.json` is.
        hasher : required for a new cluster, which learns with a copy of its own.
        shards : of a new cluster, 2 by default.
        address : of a running Ray, as `ray.init` takes it. The shards then go on without this program, and several
            programs share them; `stop` ends them. None starts a Ray on this machine that ends with this process.
        fields : as for `HashTable.open`.
        nodes : needed on several machines: names of Ray custom resources, one per machine. Shard i runs where
            nodes[i % len(nodes)] is, so it comes back to the machine that has its folder. The learner, the feed log
            and the models are on that of nodes[0].
        publish_every : batches that are learned between two publications of the functions, 100 by default.
        policy : of the shards: "lazy" (the default) re-encodes in the background after a publication, "never" only in
            `refresh`.
        durability, index : as for `HashTable.open`.
        timeout : seconds that a search waits for a shard, which may be restarting, before it raises `ShardLost`.
        write_timeout : the same for a batch that is written; the same call may then be given again.
        batched : whether searches of several threads with equal arguments are sent together.
        """
        folder = Path(path).resolve()
        check_seconds("timeout", timeout)
        check_seconds("write_timeout", write_timeout)
        config = config_of(
            folder,
            hasher,
            shards=shards,
            fields=fields,
            nodes=nodes,
            publish_every=publish_every,
            policy=policy,
            durability=durability,
            index=index,
        )
        members = start(folder, config, address, engine, timeout=timeout, write_timeout=write_timeout)
        try:
            config = create(folder, config, hasher, members)
            cluster = cls(folder, config, members, batched=batched)
            if new_fields(field_kinds(fields or {}), cluster.fields if fields else {}):
                cluster.declare(fields or {})
            return cluster
        except BaseException:
            if address is None:
                members.stop()
            raise

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether there is a cluster in a folder."""
        return Config.exists(Path(path))

    def __init__(self, path: Path, config: Config, members: Members, *, batched: bool = True) -> None:
        """A cluster whose actors run. Use `Cluster.open`."""
        searcher, storer = Searcher(members, batched=batched), Storer(members, config.fields)
        super().__init__(path, config, members, searcher, storer)
        publication = members.learn("published")
        if publication is not None:
            self._searcher.published(publication.version, publication.compare)

    # ---- writing

    def ingest(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        sequence: ArrayLike | None = None,
        key: str | None = None,
    ) -> None:
        """Store a batch, and learn from its rows that have a label; see `HashTable.ingest`. Durable when it returns.

        If it raises `ShardLost`, or this program is killed, some shards may have their rows and others not. The same
        call again completes it; with a key, it is learned once.

        sequence : instead of the numbers that the cluster gives to rows; then in all calls.
        """
        self._store(ids, X, y, learn=True, fields=fields, payloads=payloads, sequence=sequence, key=key)

    def add(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        learn: bool = False,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        sequence: ArrayLike | None = None,
        key: str | None = None,
    ) -> None:
        """Store items, with labels or without, and do not learn from them unless `learn`; otherwise as `ingest`."""
        self._store(ids, X, y, learn=learn, fields=fields, payloads=payloads, sequence=sequence, key=key)

    def _store(self, ids: IdsLike, X: ArrayLike, y: LabelsLike | None, **more: Any) -> None:
        self._refuse_if_closed()
        self._storer.store(ids, X, y, **more)

    def feed(
        self,
        parts: Parts,
        *,
        name: str = "batch",
        learn: bool = True,
        batch: int = 1000,
        force: bool = False,
        in_flight: int = 4,
        first_id: int = 0,
        id: str | None = None,
        label: str | None = None,
        features: str | None = None,
        payload: str | Sequence[str] = (),
        header: bool = True,
        text: bool = False,
        dtype: DTypeLike | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Fed:
        """Store files, and batches of (ids, X, y), as `ingest` does; several are under way at once.

        Every part gets a number when it is first seen, and its rows keep the sequence numbers that follow from it. A
        part that all shards have is skipped. So the same call again, after anything was killed, goes on; and an old
        part that is fed again changes nothing that is newer.

        parts : files as `HashTable.ingest_files` takes them, known by their paths (absolute, without links), by a hash
            of their content, and by the columns that are read, named or not; and tuples (ids, X) or (ids, X, y), each
            learned at once, known by `name`, their place and their content. A `RowSource` that is not named by its file
            is known by the number of its rows only.
        learn : False stores labels, and does not learn from them. batch : rows of a file that are learned at a time.
        force : send parts again that are noted as fed; rows that are stored stay as they are.
        in_flight : batches that shards are storing at a time.
        first_id, id, label, features, payload, header, text, dtype : as for `HashTable.ingest_files`.
        progress : called at the start of a file and after every batch; for tuples with source None.
        """
        self._refuse_if_closed()
        columns = {
            "id": id, "label": label, "features": features, "payload": payload, "header": header, "text": text,
            "dtype": dtype,
        }  # fmt: skip
        work = Feed(
            self._members, self._storer, name=name, learn=learn, batch=batch, force=force, in_flight=in_flight,
            first_id=first_id, columns=columns, progress=progress,
        )  # fmt: skip
        return work.run(parts)

    def ingest_files(
        self,
        files: str | Path | RowSource | Iterable[str | Path | RowSource],
        *,
        again: bool = False,
        resume: bool = False,
        refresh: bool | None = None,
        **more: Any,
    ) -> Tally:
        """Ingest the rows of files, as `feed` does with the same arguments, then `refresh`, by default where it learns,
        and `flush`.

        again : as `force` of `feed`. resume : refused, as a cluster knows files and not rows that were stored before.
        Returns how many rows were stored, and how many were known because their file is.
        """
        if resume:
            raise ValueError(
                "resume skips rows that are stored, one by one, which a cluster does not do: it skips files that were "
                "fed, and the same call without resume goes on after an interruption"
            )
        fed = self.feed(files, force=bool(more.pop("force", again)), **more)
        if more.get("learn", True) if refresh is None else refresh:
            self.refresh()
        self.flush()
        return Tally(new=fed.rows, known=fed.known)

    def writer(self) -> Writer:
        """A writer for any number of threads, as `HashTable.writer` returns it. Its calls are done one by one."""
        self._refuse_if_closed()
        return Writer(self._storer.check, self._storer.do)

    def label(
        self,
        ids: IdsLike,
        y: LabelsLike,
        *,
        learn: bool = True,
        sequence: ArrayLike | None = None,
        key: str | None = None,
    ) -> int:
        """Give labels to stored items, and learn from them; see `HashTable.label`. A row that is stored after this was
        called keeps its own label, also where a retry does this late."""
        self._refuse_if_closed()
        return self._storer.label(ids, y, learn=learn, sequence=sequence, key=key)

    def declare(self, fields: Mapping[str, Any]) -> None:
        """Add fields to all shards; see `HashTable.declare`."""
        self._refuse_if_closed()
        kinds = field_kinds(fields)
        self._members.write("declare", kinds)
        self._storer.forget_template(self.fields)

    def remove(
        self,
        ids: IdsLike | None = None,
        *,
        where: Where | None = None,
        sequence: ArrayLike | None = None,
        key: str | None = None,
    ) -> int:
        """Remove items, by their ids or by a filter; returns how many. See `HashTable.remove`. A row that is stored
        after this was called stays, also where a retry does this late; for filters, docs/scale.md has the limit.

        Nothing is kept of them, so a part that has them stores them again if it is fed late, or with `force`.
        """
        self._refuse_if_closed()
        return self._storer.remove(ids, where, sequence, key)

    def refresh(self, budget: int | None = None) -> int:
        """Publish the current functions, and have all shards re-encode items of old versions; returns how many, apart
        from those that the shards re-encode in the background meanwhile.

        budget : items at most per shard; all by default.
        """
        self._refuse_if_closed()
        if budget is not None:
            check_count("budget", budget, 1)
        if self._members.learn("published") is None:
            return 0  # there is nothing to encode
        return self._adopted(self._members.learn("publish"), budget)

    def adopt(self, hasher: OnlineHasher, budget: int | None = None) -> int:
        """Take hash functions that were learned elsewhere, publish them, and re-encode items with them; returns how
        many, as `refresh` does. The learner goes on from them. See `HashTable.adopt`.

        budget : items at most per shard; all by default, none with 0.
        """
        self._refuse_if_closed()
        if not isinstance(hasher, OnlineHasher):
            raise TypeError(f"adopt takes a hasher, not {type(hasher).__name__}")
        hasher.encoder()  # raises where it has learned nothing
        if budget is not None:
            check_count("budget", budget, 0)
        publication = self._members.learn("adopt", to_bytes(hasher))
        self._storer.forget_template()
        return self._adopted(publication, budget)

    def _adopted(self, publication: Publication, budget: int | None) -> int:
        """Have the shards re-encode what is stale, slice by slice, so that they take writes in between."""
        members = self._members
        members.push(publication)
        self._searcher.published(publication.version, publication.compare)
        total, left = 0, set(range(self.config.shards))
        done = dict.fromkeys(left, 0)
        while left and budget != 0:
            arguments = {
                at: (SLICE if budget is None else min(SLICE, budget - done[at]),) for at in sorted(left)
            }
            for at, count in zip(arguments, members.write_each("refresh", arguments), strict=True):
                done[at] += count
                total += count
                if not count or (budget is not None and done[at] >= budget):
                    left.discard(at)
        return total

    def flush(self) -> None:
        """Write checkpoints everywhere; see `HashTable.flush`."""
        self._refuse_if_closed()
        self._members.write("flush")
        self._members.learn("flush")

    # ---- the cluster itself

    @property
    def keeps_features(self) -> bool:
        """Always: shards re-encode from them."""
        return True

    def stats(self) -> ClusterStats:
        """Items, versions, staleness, sizes and signs of drift: of all shards, and of each."""
        self._refuse_if_closed()
        return merge_stats(self._members.read("stats"), self._members.learn("stats"))

    def learner_pid(self) -> int:
        """The number of the learner's process."""
        return int(self._members.learn("pid"))

    def shard_pids(self) -> list[int]:
        """The numbers of the shards' processes."""
        return list(self._members.read("pid"))

    def close(self) -> None:
        """Close the cluster for this program. Shards on a Ray of this process's own are closed, too; others go on."""
        if self._open:
            self._open = False
            if not self._members.detached and not self._members.is_inherited:
                self._members.stop()

    def stop(self) -> None:
        """Close the cluster for all programs: its processes end, and the next `open` starts them again."""
        if self._open:
            self._open = False
            if not self._members.is_inherited:
                self._members.stop()

    def __repr__(self) -> str:
        closed = "" if self._open else ", closed"
        return f"<Cluster {self.path}: {self.config.shards} shards{closed}>"

    def __reduce__(self) -> Any:
        raise ClusterError("a cluster cannot be copied or sent to another process: open its folder there")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
