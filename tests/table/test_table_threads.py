"""Readers while a writer is at work: every answer is that of one commit, and none waits for the writer."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Eager, HashTable, Lazy, Never
from hashstream.table.storage.folder import failpoints

D_BATCH = 25


@pytest.mark.parametrize("policy", [Eager, Never, lambda: Lazy(share=1.0, piece=16)])
@pytest.mark.parametrize("where", ["memory", "folder"])
def test_every_answer_is_that_of_one_commit(tmp_path: Path, where: str, policy: Any) -> None:
    """The writer stores batches whose items are all alike, removes them whole, and re-encodes. A reader that sees all
    items must see whole batches."""
    path = None if where == "memory" else tmp_path / "t"
    rng = np.random.default_rng(0)
    X, y = rows(rng, D_BATCH)
    wrong: list[str] = []
    done = threading.Event()
    with HashTable.open(path, hs.FCOH(n_bits=32, random_state=0), policy=policy(), max_versions=4) as table:
        table.ingest(np.arange(D_BATCH), X, y)

        def read() -> None:
            local = np.random.default_rng(threading.get_ident() % 1000)
            while not done.is_set():
                far, ids = table.search(X[:2], 10_000)
                whole = np.bincount(ids[0] // D_BATCH)
                if set(whole.tolist()) - {0, D_BATCH} or (np.diff(far.astype(int), axis=1) < 0).any():
                    wrong.append(f"half a batch: {whole}")
                if len(set(ids[0].tolist())) != ids.shape[1]:
                    wrong.append("an item twice")
                found = table.search_radius(X[:1], 32)[2]
                if set(np.bincount(found // D_BATCH).tolist()) - {0, D_BATCH}:
                    wrong.append("half a batch within a radius")
                one = int(local.integers(D_BATCH))  # of the first batch, which stays
                if one not in table or table.get([one]).features.tolist() != X[one : one + 1].tolist():  # type: ignore[union-attr]
                    wrong.append(f"item {one} is lost")

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for i in range(1, 25):
            table.ingest(np.arange(D_BATCH * i, D_BATCH * (i + 1)), *rows(rng, D_BATCH))
            if i % 4 == 3:
                table.remove(np.arange(D_BATCH * (i - 1), D_BATCH * i))
            if i % 10 == 9:
                table.refresh()
            if i % 12 == 11:
                table.compact()
        done.set()
        for reader in readers:
            reader.join()
        assert wrong == []
        assert len(table) == D_BATCH * (25 - 6)


def test_no_query_waits_for_a_writer(tmp_path: Path) -> None:
    """A writer is held in the middle of an ingest, and of a refresh; searches go on."""
    rng = np.random.default_rng(0)
    X, y = rows(rng, D_BATCH)
    with HashTable.open(tmp_path / "t", hs.FCOH(n_bits=32, random_state=0), policy=Never()) as table:
        table.ingest(np.arange(D_BATCH), X, y)
        table.ingest(np.arange(D_BATCH, 2 * D_BATCH), X, y)
        calls: list[tuple[str, Any]] = [
            ("segment.written", lambda: table.ingest([900], X[:1], y[:1])),
            ("commit.before", lambda: table.remove([1])),
            ("refresh.piece", table.refresh),
        ]
        for name, write in calls:
            reached, go_on = threading.Event(), threading.Event()

            def hold(reached: threading.Event = reached, go_on: threading.Event = go_on) -> None:
                reached.set()
                go_on.wait(20)

            before = [part.tolist() for part in table.search(X[:3], 9)]
            with failpoints.on(name, hold):
                writer = threading.Thread(target=write)
                writer.start()
                assert reached.wait(20)
                assert [part.tolist() for part in table.search(X[:3], 9)] == before
                assert table.search_radius(X[:3], 2)[0][0] == 0
                assert table.get([5]).labels == [y[5]]
                assert 5 in table
                assert len(table) >= 2 * D_BATCH - 1
                go_on.set()
                writer.join(20)
                assert not writer.is_alive()


def test_a_snapshot_while_it_is_written_to(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    done = threading.Event()
    with HashTable.open(
        tmp_path / "t", hs.FCOH(n_bits=32, random_state=0), policy=Eager(), segment_bytes=5000
    ) as table:
        table.ingest(np.arange(D_BATCH), *rows(rng, D_BATCH))

        def write() -> None:
            i = 1
            while not done.is_set():
                table.ingest(np.arange(D_BATCH * i, D_BATCH * (i + 1)), *rows(rng, D_BATCH))
                i += 1

        writer = threading.Thread(target=write)
        writer.start()
        for i in range(4):
            table.snapshot(tmp_path / f"copy {i}")
        done.set()
        writer.join()
        X = rows(np.random.default_rng(1), 2)[0]
        for i in range(4):
            with HashTable.open(tmp_path / f"copy {i}") as copied:
                assert copied.check()["rows"] == len(copied)
                assert len(copied) % D_BATCH == 0
                assert set(np.bincount(copied.search(X, 10_000).ids[0] // D_BATCH).tolist()) == {D_BATCH}
