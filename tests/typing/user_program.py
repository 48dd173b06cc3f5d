"""A program as a user would write it: every public entrance once, with types that `mypy --strict` accepts."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import hashstream as hs
from hashstream.hashers import FeatureMapLike
from hashstream.hashers.projections import initial_projection
from hashstream.table import Facts, Policy


def stream(n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Five clusters on the sphere."""
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=n)
    X = rng.standard_normal((5, 32))[y] + 0.5 * rng.standard_normal((n, 32))
    return X.astype(np.float32), y


def learn_and_search(X: NDArray[np.float32], y: NDArray[np.int64], folder: Path) -> float:
    """Learn, save, load, encode, search and judge; returns mAP."""
    hasher = hs.FCOH(n_bits=32, random_state=0)
    for start in range(0, 800, 100):
        hasher.partial_fit(X[start : start + 100], y[start : start + 100])
    hs.save(hasher, folder / "model.hs")
    loaded = hs.load(folder / "model.hs")
    codes: NDArray[np.uint8] = loaded.transform(X)
    assert (codes == hasher.transform(X)).all()

    distances, indices = hs.hamming.topk(codes[800:], codes[:800], k=5)
    assert distances.shape == indices.shape == (200, 5)
    found = hs.hamming.radius(codes[800:], codes[:800], radius=2)
    assert found.offsets[-1] == len(found.indices) == len(found.distances)
    scores = hs.evaluate.retrieval(codes[800:], y[800:], codes[:800], y[:800], ties="aware")
    return float(scores["mAP"])


@hs.register
class PrincipalDirections(hs.OnlineHasher):
    """A method of the user's own."""

    needs_labels = False

    def __init__(
        self,
        n_bits: int = 32,
        *,
        batch_size: int = 100,
        init: NDArray[np.float64] | None = None,
        feature_map: FeatureMapLike = None,
        random_state: int | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.batch_size = batch_size
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    def _start(self, X: NDArray[np.float64]) -> None:
        self.projection_ = initial_projection(self.init, self.rng_, X.shape[1], self.n_bits, X.dtype)

    def _learn(self, X: NDArray[np.float64], labels: object) -> int:
        W = self.projection_ + 0.1 * X.T @ (X @ self.projection_) / len(X)
        self.projection_ = W / np.linalg.norm(W, axis=0)
        return 1


@hs.table.register
@dataclass(frozen=True)
class WhenDoubled(Policy):
    """A policy of the user's own: re-encode when the stream has doubled since the last time."""

    first: int = 100

    def decide(self, facts: Facts) -> tuple[bool, dict[str, int]]:
        rows, due = facts.count("rows") + facts.rows, facts.count("due") or self.first
        if facts.moved and rows >= due:
            return True, {"rows": rows, "due": 2 * rows}
        return False, {"rows": rows, "due": due}


def keep_a_table(X: NDArray[np.float32], y: NDArray[np.int64], folder: Path) -> int:
    """Ingest, search, look at figures and open again; returns the number of items."""
    with hs.HashTable.open(
        folder / "table", hasher=PrincipalDirections(n_bits=32, random_state=0), policy=WhenDoubled()
    ) as table:
        for start in range(0, 800, 100):
            ids = np.arange(start, start + 100)
            table.ingest(ids, X[ids], y[ids])
        table.remove([7])
        assert table.stats().n_items == len(table) == 799
    with hs.HashTable.open(folder / "table") as table:
        hits = table.search(X[800:], k=10, include=("labels",))
        assert hits.ids.shape == hits.distances.shape == (200, 10)
        assert hits.labels is not None
        assert table.get([8]).labels == [int(y[8])]
        return len(table)


def over_http(client: hs.Client, X: NDArray[np.float32], y: NDArray[np.int64]) -> int:
    """The same with a service; see `hashstream serve`."""
    with client.create("photos", method="FCOH", n_bits=32, fields={"shop": str}, random_state=0) as table:
        table.ingest(np.arange(100), X[:100], y[:100], fields={"shop": ["a"] * 100}, key="first")
        hits = table.search(X[800:], k=10, where={"shop": "a"}, include=("labels",))
        assert hits.ids.shape == hits.distances.shape
        with client.events("photos") as events:
            print(next(events)["event"])
        return len(table) + table.label([8], [3])


async def in_a_loop(client: hs.AsyncClient, X: NDArray[np.float32]) -> int:
    """The same, awaited."""
    async with client, await client.table("photos") as table:
        hits = await table.search(X[800:], k=10, include=("labels",))
        async for event in client.events():
            print(event["event"])
        return len(hits.ids) + await table.count({"shop": "a"})


def main() -> None:
    assert "secret" not in repr(hs.Client("http://localhost:8000", token="secret"))
    X, y = stream(1000)
    with tempfile.TemporaryDirectory() as folder:
        print(f"mAP {learn_and_search(X, y, Path(folder)):.2f}")
        print(f"{keep_a_table(X, y, Path(folder))} items")


if __name__ == "__main__":
    main()
