"""A cluster on one machine: fed, searched while a shard is killed, taught, and compared with one table."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hashstream import datasets, pictures
from hashstream.hashers import PosteriorHash
from hashstream.scale import Cluster
from hashstream.table import HashTable, TableError

__all__ = ["ClusterDemo", "ClusterDemoResult", "Searches"]

FILES, ROWS = 4, 3000  # files that are fed, and rows of each; those of the last one have no labels at first
QUERIES, NEAREST = 100, 10
LABELS = 1500
STEPS = 12  # pieces of the refresh
CALM = 2.0  # seconds of searching before the kill, and after the restart
NOISE = 1.0  # standard deviation of what tells repeated rows apart
RESTART = 120.0  # seconds in which a killed shard has to answer again


@dataclass
class Searches:
    """The searches of a thread. moments : (when one began, seconds that it took), since `start`."""

    start: float
    moments: list[tuple[float, float]] = field(default_factory=list)
    wrong: int = 0
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ClusterDemoResult:
    """Measurements of the demo.

    fed, refreshed : seconds. killed, back : seconds since the searches began. right, taught : share of the answers that
    have the label of their query, before and after the labels. same_digest, same_answers : as one table's.
    """

    path: Path
    table: Path
    picture: Path
    items: int
    fed: float
    searches: Searches
    killed: float
    back: float
    labels: int
    recoded: int
    refreshed: float
    right: float
    taught: float
    same_digest: bool
    same_answers: bool


class ClusterDemo:
    """The demo, step by step. out : a folder for the cluster, the table, the files and the picture.

    tell : called with a sentence before each step.
    """

    def __init__(
        self,
        data: datasets.Dataset,
        out: Path,
        *,
        n_bits: int = 64,
        seed: int = 0,
        tell: Callable[[str], None],
    ) -> None:
        self._data, self._out, self._tell = data, out, tell
        self._rng = np.random.default_rng(seed)
        self._hasher = PosteriorHash(n_bits, random_state=seed)
        order = self._rng.permutation(len(data.X))
        self._asked, self._stream = order[:QUERIES], order[QUERIES:]
        self._Q = data.X[self._asked].astype(np.float32)
        self.cluster_path, self.table_path = out / "cluster", out / "table"

    def run(self, shards: int = 2) -> ClusterDemoResult:
        """All of it."""
        files, ids, y = self._files()
        self._tell(f"Starting Ray on this machine, with {shards} shards and the learner.")
        cluster = Cluster.open(
            self.cluster_path, self._hasher, shards=shards, policy="never", publish_every=4
        )
        with cluster, HashTable.open(self.table_path, self._hasher, policy="never") as table:
            self._tell(f"Feeding {len(files)} files of {ROWS:,} rows; the last one has no labels yet.")
            clock = time.perf_counter()
            cluster.feed(files)
            cluster.refresh()
            fed = time.perf_counter() - clock
            table.ingest_files(files, refresh=False)
            table.refresh()
            expected = table.search(self._Q, NEAREST)
            right = self._right(expected.ids, ids, y)
            some = ids[(FILES - 1) * ROWS :][:LABELS]
            labels = y[(FILES - 1) * ROWS :][:LABELS]
            self._tell(f"Searching without a pause; after {CALM:g} s, kill -9 of one shard's process.")
            searcher = Searcher(cluster, self._Q, expected.ids)
            with searcher:
                killed, back = self._kill(cluster, searcher)
                self._tell(
                    f"Giving {len(some):,} labels, then re-encoding in {STEPS} pieces, while searches go on."
                )
                searcher.expected = None  # answers change with the functions
                clock = time.perf_counter()
                labelled = searcher.now()
                cluster.label(some, labels)
                current, recoded = self._refresh(cluster, searcher)
                refreshed = time.perf_counter() - clock
            self._tell("Comparing with one table that got the same files and labels.")
            table.label(some, labels)
            table.refresh()
            mine, theirs = cluster.search(self._Q, NEAREST), table.search(self._Q, NEAREST)
            same = bool((mine.ids == theirs.ids).all() and (mine.distances == theirs.distances).all())
            found = searcher.found
            picture = self._draw(
                found, [(0.0, 1.0), (labelled, 0.0), *current], killed, back, labelled, shards
            )
            return ClusterDemoResult(
                self.cluster_path, self.table_path, picture, len(cluster), fed, found, killed, back, len(some), recoded,
                refreshed, right, self._right(mine.ids, ids, y), cluster.digest() == table.digest(), same,
            )  # fmt: skip

    def _files(self) -> tuple[list[str], np.ndarray, np.ndarray]:
        """The rows in files; a small data set is repeated, each row with other noise."""
        self._out.mkdir(parents=True, exist_ok=True)
        for path, exists in ((self.cluster_path, Cluster.exists), (self.table_path, HashTable.exists)):
            if path.exists() and any(path.iterdir()) and not exists(path):
                raise TableError(f"{path} is something else: choose another folder for the demo")
            shutil.rmtree(path, ignore_errors=True)
        n = FILES * ROWS
        rows = np.resize(self._stream, n)
        X = self._data.X[rows].astype(np.float32)
        if len(self._stream) < n:
            X += self._rng.normal(0, NOISE, X.shape).astype(np.float32)
        ids, y = np.arange(n), self._data.y[rows]
        files = []
        for at in range(FILES):
            part = slice(at * ROWS, (at + 1) * ROWS)
            arrays: dict[str, Any] = {"ids": ids[part], "x": X[part]} | (
                {} if at == FILES - 1 else {"y": y[part]}
            )
            files.append(str(self._out / f"part-{at}.npz"))
            np.savez(files[-1], **arrays)
        return files, ids, y

    def _right(self, found: np.ndarray, ids: np.ndarray, y: np.ndarray) -> float:
        return float((y[found] == self._data.y[self._asked][:, None]).mean())

    def _kill(self, cluster: Cluster, searcher: Searcher) -> tuple[float, float]:
        """Kill a shard; the moments of that, and of the first search that began later and was answered."""
        pid = cluster.shard_pids()[-1]
        time.sleep(CALM)
        killed = searcher.now()
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + RESTART
        while not (
            after := [t + took for t, took in searcher.found.moments.copy() if t + took > killed + 0.5]
        ):
            if time.monotonic() > end or searcher.found.failed:
                raise TableError(f"the killed shard does not answer: {searcher.found.failed[:1]}")
            time.sleep(0.05)
        time.sleep(CALM)
        # The search that was under way when the shard was killed has waited for it, or else the next one.
        slowest = max((one for one in searcher.found.moments if sum(one) > killed), key=lambda one: one[1])
        return killed, max(sum(slowest), after[0]) if slowest[1] > 0.5 else killed

    def _refresh(self, cluster: Cluster, searcher: Searcher) -> tuple[list[tuple[float, float]], int]:
        """Re-encode in pieces; (moment, share of current items) after each, and the number of items."""
        n, shards = len(cluster), cluster.config.shards
        shares, done = [], 0
        while count := cluster.refresh(max(1, n // STEPS // shards)):
            done += count
            shares.append((searcher.now(), min(1.0, done / n)))
            time.sleep(0.15)  # so that the picture shows searches in between
        shares.append((searcher.now(), 1.0 - cluster.stats().stale))
        return shares, done

    def _draw(
        self, found: Searches, current: list[tuple[float, float]], killed: float, back: float, labelled: float,
        shards: int,
    ) -> Path:  # fmt: skip
        figure = pictures.cluster_run(
            found.moments,
            current,
            killed=killed,
            back=back,
            labelled=labelled,
            title=f"{len(found.moments):,} searches of a cluster of {shards} shards, {found.wrong} wrong answers",
            note=f"{QUERIES} queries per search against {FILES * ROWS:,} items of {self._data.name}, "
            f"{self._hasher.n_bits} bits, all on one machine.",
        )
        pictures.save(figure, self._out, "cluster")
        return self._out / "cluster.png"


class Searcher:
    """A thread that searches as long as the block lasts. expected : ids of the answers, None where they change."""

    def __init__(self, cluster: Cluster, Q: np.ndarray, expected: np.ndarray | None) -> None:
        self._cluster, self._Q, self.expected = cluster, Q, expected
        self.found = Searches(time.perf_counter())
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="searches")

    def now(self) -> float:
        return time.perf_counter() - self.found.start

    def _run(self) -> None:
        while not self._end.is_set():
            began, expected = self.now(), self.expected
            try:
                ids = self._cluster.search(self._Q, NEAREST).ids
            except Exception as error:
                self.found.failed.append(str(error))
                continue
            self.found.moments.append((began, self.now() - began))
            if expected is not None and self.expected is not None:
                self.found.wrong += bool((ids != expected).any())

    def __enter__(self) -> Searcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
