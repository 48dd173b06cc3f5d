"""What a cluster is fed with, by a seed, and the table in memory that says what has to be there afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.table.fingerprints import learned
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.hashers import Encoder
from hashstream.scale import Cluster
from hashstream.table import HashTable

N_BITS, K, N_QUERIES = 20, 7, 6
METHODS: list[Callable[[], hs.OnlineHasher]] = [
    lambda: hs.RidgeHash(n_bits=N_BITS, random_state=3, batch_size=8),
    lambda: hs.PosteriorHash(n_bits=N_BITS, width=16, random_state=3),
    lambda: hs.FCOH(n_bits=N_BITS, random_state=3, batch_size=8),
    lambda: hs.LSH(n_bits=N_BITS, random_state=3),
]
WAYS = ("batches", "files", "calls")
"""How a cluster is fed: `feed` with tuples or files, or calls of ingest, add, label and remove with keys."""

STORIES = (
    "driver", "search", "adopt", "writer", "disk", "driver", "late", "search", "engine", "adopt",
    "writer", "driver", "node", "search", "disk", "adopt", "late", "writer", "driver", "engine",
)  # fmt: skip
"""Who dies, by seed: see `fault_stories`."""

TENANTS = ("a", "b", "é")


class Wrong(Exception):
    """A cluster that is not what it has to be."""


def demand(holds: Any, what: str) -> None:
    if not holds:
        raise Wrong(what)


@dataclass(frozen=True)
class Step:
    """One call. name : a method of a table. y : labels, None for a missing one."""

    name: str
    ids: list[Any]
    X: np.ndarray | None = None
    y: list[Any] | None = None
    fields: dict[str, list[Any]] = field(default_factory=dict)
    payloads: list[Any] | None = None

    def do(self, table: HashTable | Cluster, **more: Any) -> None:
        y = None if self.y is None else _array(self.y)
        if self.name == "remove":
            table.remove(self.ids, **more)
        elif self.name == "label":
            table.label(self.ids, y, **more)
        else:
            given = {"fields": self.fields or None, "payloads": self.payloads, **more}
            getattr(table, self.name)(self.ids, self.X, y, **given)

    def pieces(self, size: int) -> Iterator[Step]:
        """The rows of an ingest, some at a time."""
        assert self.X is not None
        assert self.y is not None
        for start in range(0, len(self.ids), size):
            at = slice(start, start + size)
            fields = {name: values[at] for name, values in self.fields.items()}
            yield Step(self.name, self.ids[at], self.X[at], self.y[at], fields)


class World:
    """The settings of a cluster and the steps of its life. Consecutive seeds pass through all methods and ways.

    removes : whether items are removed on the way. large : how many times as many rows. shards : at least.
    """

    def __init__(
        self, seed: int, *, way: str = "", removes: bool = True, large: int = 1, shards: int = 0
    ) -> None:
        rng = np.random.default_rng([seed, 16])
        self.seed, self._rng = seed, rng
        self.method = METHODS[(seed + seed // len(METHODS)) % len(METHODS)]  # as many of each with every way
        self.way = way or WAYS[seed % len(WAYS)]
        self.text_ids, self.text_labels = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
        self.shards = max(shards, 1 + int(rng.integers(3)))
        self.unlabelled = float(rng.choice([0.0, 0.3, 0.8]))
        self.fields = {"tenant": str, "price": float} if self.way != "batches" and rng.random() < 0.7 else {}
        self.settings: dict[str, Any] = {
            "shards": self.shards,
            "publish_every": int(rng.choice([1, 2, 100])),
            "policy": str(rng.choice(["lazy", "never"])),
            "fields": self.fields or None,
        }
        self.batch = int(rng.integers(15, 40))  # rows of a file that are learned at a time
        self.steps = self._steps(7 + int(rng.integers(4)), removes, large)
        self.half = len(self.steps) // 2
        self.Q = rows(rng, N_QUERIES)[0]
        # Calls of `tell` until something happens; the first ones are for what was fed before.
        known = {"batches": 0, "files": 2, "calls": 1}[self.way] * self.half
        self.moment = known + int(rng.integers(1, len(self.steps) - self.half))

    @classmethod
    def of(cls, seed: int) -> World:
        """The world of a round: its story decides what can be in it."""
        story = STORIES[seed % len(STORIES)]
        world = cls(
            seed,
            way="batches" if story == "late" else "",
            removes=story != "disk",  # which a restored shard does not know
            large=3 if story in ("engine", "adopt") else 1,
            shards=2 if story == "node" else 0,
        )
        if story in ("engine", "adopt"):  # there has to be much to re-encode
            world.method = METHODS[seed % 3]
            world.settings |= {"publish_every": 100, "policy": "never"}
        return world

    @property
    def story(self) -> str:
        return STORIES[self.seed % len(STORIES)]

    @property
    def late(self) -> int:
        """The step whose part comes late."""
        return 1

    def __str__(self) -> str:
        method, ids = type(self.method()).__name__, "text" if self.text_ids else "numbers"
        return f"{method}, {self.way}, ids are {ids}, {self.settings}"

    # ---- steps

    def _steps(self, n: int, removes: bool, large: int) -> list[Step]:
        rng, steps, there = self._rng, [], []  # type: ignore[var-annotated]
        for at in range(n):
            kind = rng.random() if self.way == "calls" and at > 1 else 0.0
            some = [] if not there else rng.choice(len(there), min(12, len(there)), replace=False).tolist()
            if kind > 0.85 and removes:
                gone = [there[i] for i in some]
                there = [one for one in there if one not in set(gone)]
                steps.append(Step("remove", gone))
            elif kind > 0.65:
                steps.append(Step("label", [there[i] for i in some], y=self._labels(len(some))))
            else:
                step = self._rows("add" if kind > 0.5 else "ingest", [there[i] for i in some[:6]], at, large)
                there += [one for one in step.ids if one not in set(there)]
                steps.append(step)
        return steps

    def _rows(self, name: str, again: list[Any], at: int, large: int) -> Step:
        """New items, and some that replace others."""
        rng = self._rng
        new = [1000 * at + int(i) for i in rng.permutation(int(rng.integers(30, 70)) * large)]
        ids = [*again, *([f"item {one}" for one in new] if self.text_ids else new)]
        X = rows(rng, len(ids))[0]
        y = [None if rng.random() < self.unlabelled else one for one in self._labels(len(ids))]
        fields = {}
        if self.fields:
            fields["tenant"] = [str(one) for one in rng.choice(TENANTS, len(ids))]
            fields["price"] = rng.random(len(ids)).tolist()
        payloads = [{"row": i} if i % 3 else None for i in range(len(ids))] if self.way == "calls" else None
        return Step(name, ids, X, y, fields, payloads)

    def _labels(self, n: int) -> list[Any]:
        return [f"class {one}" if self.text_labels else int(one) for one in self._rng.integers(4, size=n)]

    # ---- the cluster

    def open(self, folder: Path, address: str | None = None, **more: Any) -> Cluster:
        """Open the cluster of this world, or create it."""
        return Cluster.open(folder, self.method(), address=address, **{**self.settings, **more})

    def feed(self, cluster: Cluster, folder: Path, stop: int | None = None, tell: Any = None) -> Any:
        """Do all steps, or the first ones. Given again, nothing is done twice. tell : called on the way."""
        steps = self.steps[:stop]
        tell = tell or (lambda *_: None)
        if self.way == "calls":
            for at, step in enumerate(steps):
                step.do(cluster, key=f"step {at}")
                tell(at)
            return None
        parts = [self.part(folder, at) for at in range(len(steps))]
        return cluster.feed(parts, batch=self.batch, progress=tell)

    def part(self, folder: Path, at: int) -> Any:
        """A step as `feed` takes it."""
        step = self.steps[at]
        return self.file(folder, at) if self.way == "files" else (step.ids, step.X, _array(step.y))

    def file(self, folder: Path, at: int) -> Path:
        """The file of a step."""
        path, step = folder / f"part-{at:03d}.npz", self.steps[at]
        if not path.exists():
            y: Any = ["" if one is None else str(one) for one in step.y or ()]
            if not self.text_labels:
                y = [np.nan if one is None else one for one in step.y or ()]
            fields = {name: np.array(values) for name, values in step.fields.items()}
            np.savez(path, id=np.array(step.ids), X=step.X, y=np.array(y), **fields)
        return path

    def batches(self, step: Step) -> list[Step]:
        """The rows of a step as they are learned: those of a file in pieces."""
        return list(step.pieces(self.batch)) if self.way == "files" else [step]


class Oracle:
    """One table in memory to which the same was given, in the same order, and the functions that it has had.

    rows : per step, the features of each id after it.
    """

    def __init__(self, world: World, stop: int | None = None) -> None:
        self.world = world
        self.table = HashTable.open(None, world.method(), fields=world.fields or None, policy="never")
        self.encoders: dict[int, Encoder] = {}
        self._known: dict[tuple[int, int], dict[Any, np.ndarray]] = {}
        self.rows: list[dict[Any, np.ndarray]] = [{}]
        for step in world.steps[:stop]:
            for batch in world.batches(step):
                batch.do(self.table)
                self.note()
            held = dict(self.rows[-1])
            if step.name == "remove":
                held = {one: x for one, x in held.items() if one not in set(step.ids)}
            elif step.X is not None:
                held |= dict(zip(step.ids, step.X, strict=True))
            self.rows.append(held)

    def note(self) -> None:
        """Remember the current functions."""
        encoder = self.table.hasher.encoder()
        self.encoders[encoder.version] = encoder
        self._known.clear()

    # ---- after everything

    def judge(self, cluster: Cluster, *, in_order: bool = True) -> None:
        """Refresh both; raise Wrong where the cluster is not this table. in_order : whether ties are compared too."""
        table, Q = self.table, self.world.Q
        cluster.refresh()
        table.refresh()
        demand(len(cluster) == len(table), f"{len(cluster)} items, not {len(table)}")
        demand(learned(cluster.hasher) == learned(table.hasher), "the learner has learned something else")
        demand(cluster.digest() == table.digest(), "another digest")
        demand(not cluster.stats().n_stale, "items are stale after a refresh")
        ids = table.ids()
        theirs = cluster.ids()
        same_order = theirs.tolist() == ids.tolist()
        demand(same_order if in_order else set(theirs) == set(ids), "other ids, or in another order")
        got, wanted = cluster.get(ids), table.get(ids)
        demand(got.features is not None and np.array_equal(got.features, wanted.features), "other features")
        demand(got.labels == wanted.labels, "other labels")
        demand(got.fields == wanted.fields, "other fields")
        demand(got.payloads == wanted.payloads, "other payloads")
        include = ("labels", "fields", "payloads")
        for k, where in ((K, None), (3, {"tenant": "a"}), (len(ids) + 1, None)):
            if where is None or self.world.fields:
                hits, right = (one.search(Q, k, where=where, include=include) for one in (cluster, table))
                demand(np.array_equal(hits.distances, right.distances), f"k = {k}: other distances")
                if in_order:
                    demand(hits.ids.tolist() == right.ids.tolist(), f"k = {k}: other ids")
                    demand(_plain(hits.labels) == _plain(right.labels), f"k = {k}: other labels found")
                demand(cluster.count(where) == table.count(where), "another count")
        near, right_near = cluster.search_radius(Q, 4), table.search_radius(Q, 4)
        demand(np.array_equal(near.offsets, right_near.offsets), "other numbers within a radius")
        demand(not in_order or near.ids.tolist() == right_near.ids.tolist(), "other ids within a radius")
        cluster.check()

    # ---- while something happens

    def explain(self, hits: Any, k: int, first: int, last: int) -> None:
        """Raise Wrong unless an answer (compare="like") to the queries is that of a state between two steps.

        Each shard may be at another step, and each item encoded by another version. So every item that was found has to
        be as far away as some version has it; and those that are there all the time, and nearer by every version than
        the last one found, have to be found.
        """
        distances = self._distances(first, last)
        demand(hits.missing == 0.0, "an answer says that items are missing, which nobody allowed")
        for row, (far, ids) in enumerate(zip(hits.distances.tolist(), hits.ids.tolist(), strict=True)):
            demand(far == sorted(far), "an answer is not sorted")
            demand(len(set(ids)) == len(ids), "an item is found twice")
            for one, distance in zip(ids, far, strict=True):
                known = one in distances
                demand(known and distance in distances[one][:, row], f"{one!r} is not {distance} bits away")
            end = far[-1] if len(ids) >= k else np.inf
            for one in distances.keys() - set(ids):
                surely = all(one in self.rows[at] for at in range(first, last + 1))
                nearer = distances[one][:, row].max() < end
                demand(not (surely and nearer), f"{one!r} is not found")

    def _distances(self, first: int, last: int) -> dict[Any, np.ndarray]:
        """Of each id that is there at some time: (states and versions, q)."""
        if (found := self._known.get((first, last))) is None:
            found = self._known[first, last] = self._measured(first, last)
        return found

    def _measured(self, first: int, last: int) -> dict[Any, np.ndarray]:
        states: dict[Any, list[np.ndarray]] = {}
        for at in range(first, last + 1):
            for one, x in self.rows[at].items():
                known = states.setdefault(one, [])
                if not any(x is other for other in known):
                    known.append(x)
        owners = [one for one, known in states.items() for _ in known]
        X = np.array([x for known in states.values() for x in known])
        found: dict[Any, list[np.ndarray]] = {}
        for encoder in self.encoders.values():
            bits, asked = (np.unpackbits(encoder.encode(one), axis=1) for one in (X, self.world.Q))
            for one, far in zip(owners, (bits[:, None] != asked[None]).sum(axis=2), strict=True):
                found.setdefault(one, []).append(far)
        return {one: np.array(far) for one, far in found.items()}


def _array(labels: list[Any] | None) -> np.ndarray:
    found = np.empty(len(labels or ()), object)
    found[:] = labels or ()
    return found


def _plain(labels: Any) -> list[Any]:
    return [list(row) for row in labels]
