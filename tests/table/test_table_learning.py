"""The model does not depend on how many threads BLAS has, when it is learned and when it is learned again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from hashstream import FCOH, HashTable
from hashstream.table.learning import learn


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((200, 300)).astype(np.float32), rng.integers(0, 5, 200)) for _ in range(4)]


def test_threads_do_not_move_the_model(tmp_path: Path) -> None:
    alone = FCOH(32, random_state=0)
    with threadpool_limits(1):
        for X, y in batches():
            alone.partial_fit(X, y)
    with (
        threadpool_limits(2, user_api="blas"),
        HashTable.open(tmp_path / "t", hasher=FCOH(32, random_state=0)) as table,
    ):
        for i, (X, y) in enumerate(batches()):
            table.ingest(range(200 * i, 200 * i + 200), X, y)
        assert table.hasher.projection_.tobytes() == alone.projection_.tobytes()


def test_the_limit_is_there_while_learning_and_gone_afterwards() -> None:
    threads = []

    class Watching(FCOH):
        def _learn(self, X: np.ndarray, labels: object) -> int:
            threads.append({one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"})
            return super()._learn(X, labels)

    (X, y), *_ = batches()
    with threadpool_limits(2, user_api="blas"):
        before = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
        learn(Watching(8, random_state=0), X, y)
        after = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
    if not before:
        pytest.skip("no BLAS library whose threads can be seen")
    assert after == before
    assert threads
    assert all(found == {1} for found in threads)
