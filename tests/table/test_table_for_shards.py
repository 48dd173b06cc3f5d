"""What a table does so that several of them can answer as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hashstream import FCOH, HashTable, RidgeHash
from hashstream.table.rescoring import METRICS, Metric, distances_to

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 37))
Y = RNG.integers(0, 4, 300)


@pytest.mark.parametrize("metric", METRICS)
def test_a_rescored_distance_does_not_depend_on_other_candidates(metric: Metric) -> None:
    q = RNG.standard_normal(37)
    every = distances_to(q, X, metric)
    for rows in (slice(0, 1), slice(7, 9), slice(3, 300, 7), np.arange(299, -1, -1)):
        assert distances_to(q, X[rows], metric).tolist() == every[rows].tolist()


@pytest.mark.parametrize("method", [FCOH, RidgeHash])
def test_labels_are_learned_in_the_order_of_sequence_numbers(
    method: type[FCOH | RidgeHash], tmp_path: Path
) -> None:
    """A table to which items came in another order, as they do to the learner of a cluster; and when it is opened
    again, from its log."""
    digests = []
    for order in (np.arange(200), np.arange(200)[::-1], RNG.permutation(200)):
        folder = tmp_path / str(len(digests))
        with HashTable.open(folder, method(n_bits=16, random_state=0), checkpoint_rows=10**6) as table:
            table.ingest(range(1000, 1100), X[200:], Y[200:], sequence=range(100))
            for rows in np.split(order, 4):
                table.add(rows, X[rows], sequence=1000 + rows)
            some = order[order < 150]
            table.label(some, Y[some])
            table.label(np.arange(200), (Y[:200] + 1) % 4)
            table.refresh()
            table.snapshot(tmp_path / f"{len(digests)} copy")
            digests.append(table.digest())
        with HashTable.open(tmp_path / f"{len(digests) - 1} copy") as table:
            assert table.digest() == digests[-1]
            assert table.check()["codes"] > 0
    with HashTable.open(None, method(n_bits=16, random_state=0)) as table:
        table.ingest(range(1000, 1100), X[200:], Y[200:])
        table.add(range(200), X[:200])
        table.label(np.arange(150), Y[:150])
        table.label(np.arange(200), (Y[:200] + 1) % 4)
        table.refresh()
        assert digests == [table.digest()] * 3


def test_ids_are_looked_up_and_listed_at_once() -> None:
    with HashTable.open(None, FCOH(n_bits=16, random_state=0)) as table:
        assert table.has([1, 2]).tolist() == [False, False]
        table.add([5, 3, 9], X[:3], sequence=[10, 11, 12])
        table.add([4], X[:1])
        table.remove([3])
        assert table.has([9, 3, 5, 4]).tolist() == [True, False, True, True]
        assert table.has(["a"]).tolist() == [False]
        ids, sequences = table.ids_in_order()
        assert (ids.tolist(), sequences.tolist()) == ([5, 9, 4], [10, 12, -1])
        ids, sequences = table.ids_in_order({"id": {"$gt": 4}}, offset=1, limit=5)
        assert (ids.tolist(), sequences.tolist()) == ([9], [12])
