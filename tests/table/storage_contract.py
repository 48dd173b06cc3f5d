"""The contract of `hashstream.table.storage.base.Storage`, as tests that any storage must pass.

Subclass `StorageContract` in a test module and define `opened`; for a storage that survives its process, subclass
`DurableContract` and define `reopened` and `break_commits` as well:

    class TestMine(DurableContract):
        def opened(self, tmp_path, keep_features=True):
            return MyStorage(...)          # new and empty, for `HASHER`

        def reopened(self, storage):
            return MyStorage(...)          # what another process would open after `storage.close()`

        def break_commits(self, patch):
            patch.setattr(...)             # the next commit fails before it has happened
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows, same_answers, same_items

import hashstream as hs
from hashstream.table import HashTable, Never, Projected, Settings, Storage, TableError
from hashstream.table.errors import Overtaken
from hashstream.table.planning import plan_batch
from hashstream.table.state.change import Batch, Change, Done
from hashstream.table.state.ids import as_ids
from hashstream.table.state.state import State
from hashstream.table.storage.folder.storage import FolderStorage

HASHER = hs.FCOH(n_bits=16, batch_size=10, random_state=0)
NONE = np.empty(0, np.int64)


def settings(keep_features: bool = True) -> Settings:
    return Settings(Never() if keep_features else Projected(k=100))


def empty_state() -> State:
    return State.empty(HASHER.copy(), 40)


def payload(row: int) -> str | None:
    """Of a row of a batch: every third has none."""
    return None if row % 3 == 0 else f'{{"row":{row}}}'


def ingest(storage: Storage, state: State, ids: Any, seed: int) -> tuple[State, Batch]:
    """Commit a batch as a table does; the state after it, and the batch."""
    names = as_ids(ids)
    X, y = rows(np.random.default_rng(seed), len(names))
    learner = state.model.hasher.copy()
    X, y = learner.check_batch(X, y)
    assert y is not None
    payloads = [payload(row) for row in range(len(names))]
    batch = Batch(X, y, learned=True, payloads=payloads)
    model = state.model.learned(learner.learned(X, y))
    plan = plan_batch(state, storage, names, np.full(len(names), -1), batch, model)
    after = state.after(plan.change, plan.model, plan.memory)
    storage.commit(plan.change, after, plan.batch)
    assert storage.in_doubt
    storage.settled()
    assert not storage.in_doubt
    return after, batch


def remove(storage: Storage, state: State, slots: list[int]) -> State:
    gone = np.array(slots, np.uint32)
    change = Change(state.sample.change(gone), removed=gone)
    after = state.after(change)
    storage.commit(change, after)
    storage.settled()
    return after


def give_feedback(table: HashTable) -> None:
    """Items with fields and payloads, some labelled later, some corrected, some removed."""
    X, y = rows(np.random.default_rng(50), 40)
    table.declare({"tenant": str})
    payloads = [None if i % 3 == 0 else {"n": i} for i in range(40)]
    table.ingest(range(30), X[:30], y[:30], fields={"tenant": ["a", None, "b"] * 10}, payloads=payloads[:30])
    table.add(range(30, 40), X[30:], payloads=payloads[30:])
    table.label([31, 5, 33], [0, 1, 2])
    table.declare({"tags": list})
    table.label([31, 6], [3, (int(y[6]) + 1) % 4])
    table.label([7, 31, 34, 8], [None, None, None, (int(y[8]) + 1) % 4])
    table.remove([0, 5, 39])


def everything(table: HashTable) -> list[Any]:
    """Items with all that they have, and the model, as values that can be compared."""
    view, ids = table._state.view, table.ids()
    items = table.get(ids)
    learned = [array.tobytes() for array in table.hasher.encoder().arrays()]
    texts = view.labels.texts(view.live())
    return [ids.tolist(), items.labels, texts, items.fields, items.payloads, learned, table.hasher.n_seen_]


def same_state(a: State, b: State) -> None:
    """Two states are equal: items, codes, encoders, sample, model and memory."""
    assert (a.seq, a.generation, dict(a.memory)) == (b.seq, b.generation, dict(b.memory))
    assert a.view.live().tolist() == b.view.live().tolist()
    assert a.view.ids(a.view.live()).tolist() == b.view.ids(b.view.live()).tolist()
    assert a.view.counts() == b.view.counts()
    assert set(a.view.encoders) == set(b.view.encoders)
    Q = rows(np.random.default_rng(99), 20)[0]
    for version, encoder in a.view.encoders.items():
        assert (
            encoder.decision_function(Q).tobytes() == b.view.encoders[version].decision_function(Q).tobytes()
        )
    for one, other in zip(a.sample.items(), b.sample.items(), strict=True):
        assert np.asarray(one).tolist() == np.asarray(other).tolist()
    assert a.model.n_seen == b.model.n_seen


class StorageContract(ABC):
    """The promises of every storage."""

    survives = False

    @abstractmethod
    def opened(self, tmp_path: Path, keep_features: bool = True) -> Storage:
        """A new, empty storage with `empty_state()` and `settings(keep_features)`."""

    def test_a_new_storage_loads_an_empty_state(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        state = storage.load()
        assert (state.seq, len(state.view), state.view.n_slots, len(state.sample)) == (0, 0, 0, 0)
        assert state.sample.size == 40
        assert storage.settings == settings()
        assert storage.keep_features
        assert not storage.in_doubt
        assert storage.survives == self.survives
        storage.close()

    def test_what_is_committed_can_be_read(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        state, first = ingest(storage, storage.load(), range(20), 1)
        state, second = ingest(storage, state, range(20, 50), 2)
        X, y = np.concatenate([first.X, second.X]), [*first.y.tolist(), *second.y.tolist()]  # type: ignore[union-attr]
        slots = np.array([49, 0, 20, 19, 3])
        assert storage.features(slots).tolist() == X[slots].tolist()
        assert storage.read(slots, state.generation).tolist() == X[slots].tolist()
        assert state.view.labels.take(slots).tolist() == [y[slot] for slot in slots]
        assert storage.features(NONE).shape[0] == 0
        assert storage.payloads(slots, state.generation) == [payload(row) for row in (29, 0, 0, 19, 3)]
        assert storage.payloads(NONE, state.generation) == []
        blocks = [(start, block.copy()) for start, block in storage.blocks(5, 45)]
        assert np.concatenate([block for _, block in blocks]).tolist() == X[5:45].tolist()
        assert [start for start, _ in blocks] == [
            5 + sum(len(block) for _, block in blocks[:i]) for i in range(len(blocks))
        ]
        held = list(storage.batches())
        assert [(one.first_slot, one.n_rows) for one in held] == [(0, 20), (20, 30)]
        assert [one.seq for one in held] == [1, 2]
        assert [one.version for one in held] == [int(v) for v in state.view.versions]
        assert storage.feature_bytes == X.nbytes
        storage.close()

    @pytest.mark.parametrize("kind", ["some missing", "all missing", "strings", "none", "matrix"])
    def test_labels_come_back_as_they_were_given(self, tmp_path: Path, kind: str) -> None:
        storage = self.opened(tmp_path)
        X, numbers = rows(np.random.default_rng(13), 12)
        y: Any = {
            "some missing": [None if i % 3 == 0 else int(n) for i, n in enumerate(numbers)],
            "all missing": [None] * 12,
            "strings": [f"class {n}" for n in numbers],
            "none": None,
            "matrix": np.eye(4, dtype=int)[numbers],
        }[kind]
        with HashTable(storage, storage.load()) as table:
            if kind != "matrix":  # a model learns from one kind of labels
                table.ingest(range(100, 120), *rows(np.random.default_rng(14), 20))
            store = table.ingest if kind in ("some missing", "strings", "matrix") else table.add
            store([f"odd {i}" for i in range(12)] if kind == "matrix" else range(12), X, y)
            slots = np.flatnonzero(np.isin(table.ids(), list(table)[-12:]))
            wanted = [None] * 12 if y is None else list(y)
            held = table._state.view.labels.take(slots)
            for got, given in zip(held, wanted, strict=True):
                assert (got is None) == (given is None)
                assert np.array_equal(got, given)  # 0 is no missing label, and no missing label is 0
            found = table.search(X[:3], 40, include=("labels",))
            assert found.labels is not None
            by_id = dict(zip(list(table)[-12:], wanted, strict=True))
            for one, label in zip(found.ids.ravel().tolist(), found.labels.ravel().tolist(), strict=True):
                if one in by_id:
                    assert np.array_equal(label, by_id[one])

    def test_feedback_fields_and_payloads_are_kept(self, tmp_path: Path) -> None:
        """By compaction and in a snapshot: labels, and which of them were learned, too."""
        storage = self.opened(tmp_path)
        with HashTable(storage, storage.load()) as table:
            give_feedback(table)
            before = everything(table)
            assert table.compact() == 3
            assert everything(table) == before
            table.snapshot(tmp_path / "copy")
            with HashTable.open(tmp_path / "copy") as copied:
                assert everything(copied) == before

    def test_calls_are_remembered_with_their_commit(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        state, _ = ingest(storage, storage.load(), range(5), 1)
        assert storage.done("a") is None
        calls = [Done("a", 7, None), Done("b é", 2**32 - 1, 3), Done("c", 0, 0)]
        for some in (calls[:2], calls[2:]):
            change = Change(state.sample.change(NONE))
            after = state.after(change)
            storage.commit(change, after, done=some)
            storage.settled()
            state = after
        gone = remove(storage, state, [1])
        after, go_over = storage.compact(gone)
        go_over()
        storage.settled()
        assert list(storage.all_done()) == [storage.done(call.key) for call in calls] == calls
        assert storage.done("A") is storage.done("") is None
        storage.snapshot(tmp_path / "copy", after, None)
        with closing(FolderStorage(tmp_path / "copy", mode="read")) as copied:
            assert list(copied.all_done()) == calls
        storage.close()

    def test_searches_go_through_the_index(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        state, batch = ingest(storage, storage.load(), range(30), 3)
        distances, slots = storage.index(state.view).topk(batch.X[:4], 5)
        assert distances.shape == slots.shape == (4, 5)
        assert (np.diff(distances.astype(int), axis=1) >= 0).all()
        offsets, near, found = storage.index(state.view).radius(batch.X[:4], 0)
        assert (near == 0).all()
        assert all(i in found[offsets[i] : offsets[i + 1]] for i in range(4))
        storage.close()

    def test_a_table_on_it_answers_as_the_slow_one(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        model, rng = SlowTable(HASHER), np.random.default_rng(5)
        with HashTable(storage, storage.load()) as table:
            for i in range(6):
                X, y = rows(rng, 20)
                ids = [*range(10 * i, 10 * i + 20)]  # half of them are replaced
                for one in (table, model):
                    one.ingest(ids, X, y)  # type: ignore[attr-defined]
            for one in (table, model):
                one.remove([3, 44, 69])  # type: ignore[attr-defined]
            for _ in range(2):
                same_answers(table, model, rows(rng, 4)[0], 30)
                same_items(table, model)
                assert table.check()["codes"] == len(model.items)
                table.compact()
            assert table.stats().n_slots == len(model.items)
            assert list(table) == table.ids().tolist() == list(model.items)

    def test_compaction_renumbers_and_who_asks_by_old_slots_is_told(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        state, batch = ingest(storage, storage.load(), range(20), 6)
        before = remove(storage, state, [0, 1, 7])
        after, go_over = storage.compact(before)
        assert (after.view.n_slots, after.seq) == (17, before.seq + 1)
        assert after.generation != before.generation
        go_over()
        storage.settled()
        left = [row for row in range(20) if row not in (0, 1, 7)]
        assert storage.features(np.arange(17)).tolist() == batch.X[left].tolist()
        assert batch.y is not None
        assert after.view.labels.take(np.arange(17)).tolist() == batch.y[left].tolist()
        assert storage.payloads(np.arange(17), after.generation) == [payload(row) for row in left]
        for ask in (storage.payloads, storage.read):
            with pytest.raises(Overtaken):
                ask(np.arange(3), before.generation)
        assert after.view.ids(after.view.live()).tolist() == left
        state, _ = ingest(storage, after, range(100, 110), 7)
        assert storage.features(np.arange(17, 27)).shape == (10, 12)
        storage.close()

    def test_a_snapshot_is_a_table_of_its_own(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        state, _ = ingest(storage, storage.load(), range(20), 8)
        state, _ = ingest(storage, state, range(20, 40), 9)
        state = remove(storage, state, [4, 30])
        storage.snapshot(tmp_path / "copy", state, None)
        with HashTable(storage, state) as table, HashTable.open(tmp_path / "copy") as copied:
            Q = rows(np.random.default_rng(10), 5)[0]
            assert [a.tolist() for a in copied.search(Q, 50)] == [a.tolist() for a in table.search(Q, 50)]
            assert copied.get([17]).labels == table.get([17]).labels
            assert copied.settings == table.settings
            X, y = rows(np.random.default_rng(11), 10)
            for one in (table, copied):  # both go on, in the same way
                one.ingest(range(100, 110), X, y)
            assert copied.search(Q, 50).ids.tolist() == table.search(Q, 50).ids.tolist()
            copied.remove([17])
            assert 17 in table

    def test_codes_alone_can_be_kept(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path, keep_features=False)
        with HashTable(storage, storage.load()) as table:
            for i in range(3):
                table.ingest(range(20 * i, 20 * i + 20), *rows(np.random.default_rng(i), 20))
            assert not table.keeps_features
            assert table.get([5]).features is None
            assert table.stats().feature_bytes == 0
            assert table.refresh() == 40

    def test_closing_twice_is_allowed(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        ingest(storage, storage.load(), range(5), 12)
        storage.close()
        storage.close()


class DurableContract(StorageContract):
    """In addition, the promises of a storage that survives its process."""

    survives = True

    @abstractmethod
    def reopened(self, storage: Storage) -> Storage:
        """The same storage, opened again after it was closed."""

    @abstractmethod
    def break_commits(self, patch: pytest.MonkeyPatch) -> None:
        """Let the next commit fail before it has happened."""

    def test_it_loads_what_was_committed(self, tmp_path: Path) -> None:
        storage = self.opened(tmp_path)
        state = storage.load()
        for i in range(5):
            state, _ = ingest(storage, state, range(10 * i, 10 * i + 10), 20 + i)
        state = remove(storage, state, [2, 11])
        storage.close()  # without a checkpoint: all of it comes from the log
        storage = self.reopened(storage)
        same_state(storage.load(), state)
        state, _ = ingest(storage, state, range(200, 210), 30)
        storage.checkpoint(state, {"entries": [], "seq": 6, "rows": 60}, closing=True)
        assert storage.history() == {"entries": [], "seq": 6, "rows": 60}
        after, go_over = storage.compact(state)
        go_over()
        storage.settled()
        storage.close()
        storage = self.reopened(storage)
        same_state(storage.load(), after)
        assert storage.history() == {"entries": [], "seq": 6, "rows": 60}
        assert storage.verify(after)[1] == after.view.n_slots
        assert storage.disk_bytes > 0
        storage.close()

    def test_the_model_has_learned_feedback_when_it_is_opened_again(self, tmp_path: Path) -> None:
        """From a checkpoint, and without one: `Storage.close` writes none."""
        storage = self.opened(tmp_path)
        table = HashTable(storage, storage.load())
        give_feedback(table)
        wanted = everything(table)
        storage.close()
        for _ in range(2):
            storage = self.reopened(storage)
            with HashTable(storage, storage.load()) as table:
                assert everything(table) == wanted
                table.check()

    def test_a_commit_that_fails_has_not_happened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage = self.opened(tmp_path)
        state, _ = ingest(storage, storage.load(), range(10), 40)
        with monkeypatch.context() as patch:
            self.break_commits(patch)
            with pytest.raises(TableError):
                ingest(storage, state, range(10, 20), 41)
        assert not storage.in_doubt
        state, _ = ingest(storage, state, range(10, 20), 42)
        storage.close()
        storage = self.reopened(storage)
        same_state(storage.load(), state)
        storage.close()
