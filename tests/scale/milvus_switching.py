"""Readers that search while versions are switched: every answer is compared with what each version would answer.

Run as a script for longer: `python -m tests.scale.milvus_switching SECONDS`, which starts a server.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.scale.milvus_server import started

import hashstream as hs
from hashstream import hamming
from hashstream.scale.milvus import MilvusExport, MilvusReader
from hashstream.table import HashTable

N, K = 1000, 10


class World:
    """A table whose functions move, and the answers of each of its versions to a few queries."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(N, 16)).astype(np.float32)
        self.Q = rng.normal(size=(3, 16)).astype(np.float32)
        self._rng = rng
        self.table = HashTable.open(folder / "t", hs.SketchHash(n_bits=32, random_state=0), policy="eager")
        self.table.ingest(range(N), self.X, np.arange(N) % 7)
        self.distances: dict[int, np.ndarray] = {}  # version -> (q, n)
        self._note()

    def learn(self) -> None:
        """Other functions: all codes change."""
        X = self._rng.normal(size=(N, 16)).astype(np.float32) * np.linspace(0.1, 3, 16, dtype=np.float32)
        self.table.ingest(range(N), self.X + X[self._rng.permutation(N)], np.arange(N) % 7)
        self.table.add(range(N), self.X)
        self.table.refresh()
        self._note()

    def _note(self) -> None:
        codes = np.empty((N, 4), np.uint8)
        for piece in self.table.codes():
            codes[piece.ids] = piece.codes
        version = self.table.version
        assert version is not None
        self.distances[version] = hamming.distances(self.table.hasher.transform(self.Q), codes)

    def versions_of(self, distances: np.ndarray, ids: np.ndarray) -> list[int]:
        """The versions that would answer like this; none where it is mixed."""
        return [
            version
            for version, all_distances in list(self.distances.items())
            if np.array_equal(np.sort(all_distances, axis=1)[:, :K], distances)
            and np.array_equal(np.take_along_axis(all_distances, ids, axis=1), distances)
        ]


def switching(
    uri: str, name: str, folder: Path, enough: Callable[[Counter[Any]], bool], threads: int = 4
) -> Counter[Any]:
    """Search with some threads while versions are moved to, until that is enough. Counts "answers", "mixed", "wrong
    version", "switches" and errors by what they say."""
    world, counts, lock, done = World(folder), Counter[Any](), threading.Lock(), threading.Event()
    export = MilvusExport(uri, name, folder / "models")
    export.move(world.table)

    def read() -> None:
        with MilvusReader(uri, name, folder / "models", cache_seconds=0.05, consistency="Bounded") as reader:
            while not done.is_set():
                try:
                    found = reader.search(world.Q, K)
                    versions = world.versions_of(found.distances, found.ids)
                    what = (
                        "answers"
                        if found.version in versions
                        else "mixed"
                        if not versions
                        else "wrong version"
                    )
                except Exception as error:
                    what = repr(error)
                with lock:
                    counts[what] += 1

    readers = [threading.Thread(target=read) for _ in range(threads)]
    for one in readers:
        one.start()
    try:
        while not enough(counts):
            world.learn()
            export.move(world.table)
            counts["switches"] += 1
            export.drop_old(keep_seconds=0.5)
    finally:
        done.set()
        for one in readers:
            one.join()
        world.table.close()
        export.close()
    return counts


def main(seconds: float) -> None:
    end = time.monotonic() + seconds
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as room,
        started(Path(room)) as uri,
        tempfile.TemporaryDirectory() as folder,
    ):
        print(dict(switching(uri, "switching", Path(folder), lambda _: time.monotonic() > end)))


if __name__ == "__main__":
    main(float(sys.argv[1]))
