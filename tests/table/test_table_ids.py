"""The column and the index of ids against a dict; the sample against its definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hashstream.table.state.change import Change
from hashstream.table.state.ids import as_ids, column_of, mixed
from hashstream.table.state.index import Index
from hashstream.table.state.sample import Sample, SampleChange
from hashstream.table.storage.folder.records import (
    change_from_arrays,
    change_to_arrays,
    checksum,
    pack,
    pack_labels,
    unpack,
    unpack_labels,
)


@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("seed", range(3))
def test_the_index_is_a_dict(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool = rng.integers(-(2**63), 2**63 - 1, size=300)
    names = as_ids(pool if kind == "int" else [f"{'é' * int(i % 5)}{i}" for i in range(300)])
    column = column_of(kind)
    index = Index(column, np.empty(0, np.int64))
    model: dict[object, int] = {}
    for _ in range(60):
        ids = names[rng.permutation(300)[: rng.integers(0, 40)]]
        gone = as_ids([one for one in ids.tolist() if one in model] or np.empty(0, ids.dtype))
        extra = as_ids(
            [one for one in names[rng.permutation(300)[:5]].tolist() if one in model and one not in ids]
            or np.empty(0, ids.dtype)
        )
        gone = np.concatenate([gone, extra]).astype(ids.dtype)
        first = len(column)
        column = column.extended(ids)
        for one in gone.tolist():
            del model[one]
        model.update({one: first + i for i, one in enumerate(ids.tolist())})
        if index.crowded(len(ids)):
            index = Index(column, np.sort(np.array(list(model.values()), np.int64)))
        else:
            index.enter(index.entries(column, gone, ids, first))
        found = index.find(column, names)
        assert found.tolist() == [model.get(one, -1) for one in names.tolist()]
    assert column.take(np.arange(len(column))).tolist()[-len(ids) :] == ids.tolist()[-len(column) :]
    again = column_of(kind, column.arrays())
    assert again.take(np.arange(len(again))).tolist() == column.take(np.arange(len(column))).tolist()
    assert again.hashes(3, 9).tolist() == column.hash_of(column.take(np.arange(3, 9))).tolist()


def test_an_earlier_column_stays_as_it_was() -> None:
    before = column_of("str").extended(as_ids(["a", "bc"]))
    after = before.extended(as_ids(["", "d"]))
    assert before.take(np.arange(2)).tolist() == ["a", "bc"]
    assert after.take(np.arange(4)).tolist() == ["a", "bc", "", "d"]
    assert len(before) == 2


def test_hashes_spread() -> None:
    """Ids in a row, and ids that are multiples of a power of two, fall evenly into the cells."""
    for ids in (np.arange(4096), np.arange(4096) << 20):
        cells = (mixed(ids.astype(np.uint64)) >> np.uint64(56)).astype(int)
        counts = np.bincount(cells, minlength=256)
        assert counts.max() < 40  # 16 expected


def stored(change: SampleChange) -> SampleChange:
    """The change that comes back from the bytes that are stored of it, with its labels, which the items have."""
    raw = pack(change_to_arrays(Change(change), keep_features=False))
    return replace(change_from_arrays(unpack(raw), {}).sample, labels=change.labels)


@pytest.mark.parametrize("seed", range(5))
def test_the_sample_is_whoever_has_a_key_below_the_limit(seed: int) -> None:
    """Whatever comes, goes or is replaced; and it comes back from what is stored of it."""
    rng = np.random.default_rng(seed)
    sample, slot = Sample(10), 0
    slots: dict[int, int] = {}  # of the ids alive
    for _ in range(60):
        ids = rng.choice(60, int(rng.integers(0, 8)), replace=False)
        gone = [one for one in slots if rng.random() < 0.01]
        removed = np.sort([slots[one] for one in {*ids.tolist(), *gone} if one in slots]).astype(np.uint32)
        X = ids[:, None] + np.zeros((1, 2))
        before = sample.slots.tolist(), sample.keys.tolist(), sample.labels[:], sample.limit
        change = sample.change(removed, slot, mixed(ids.astype(np.uint64)), X, ids)
        after = sample.after(stored(change))
        assert (sample.slots.tolist(), sample.keys.tolist(), sample.labels, sample.limit) == before
        sample = after
        for one in gone:
            del slots[one]
        slots.update(zip(ids.tolist(), range(slot, slot + len(ids)), strict=True))
        slot += len(ids)
        held = sorted(slots, key=lambda one: int(mixed(np.array([one], np.uint64))[0]))
        inside = [one for one in held if mixed(np.array([one], np.uint64))[0] < sample.limit]
        found, kept, labels = sample.items()
        assert sorted(labels) == sorted(inside)
        assert len(inside) == len(sample) <= 10
        assert [slots[one] for one in labels] == found.tolist()
        if len(found):
            assert kept[:, 0].tolist() == list(labels)
        again = Sample(10).after(stored(sample.as_change()))
        assert (again.slots.tolist(), again.keys.tolist()) == (sample.slots.tolist(), sample.keys.tolist())
        assert (again.labels, again.limit) == (sample.labels, sample.limit)


def test_a_sample_that_has_lost_most_lets_everybody_in() -> None:
    keys = mixed(np.arange(1000, dtype=np.uint64))
    sample = Sample(10)
    sample = sample.after(sample.change(np.empty(0, int), 0, keys, np.zeros((1000, 2))))
    assert len(sample) == 10
    limit = sample.limit
    assert sorted(sample.items()[0].tolist()) == np.sort(np.argsort(keys)[:10]).tolist()
    sample = sample.after(sample.change(sample.items()[0][:5]))
    assert (len(sample), sample.limit) == (5, limit)
    late = np.array([2**63, 2**63 + 1, 2**64 - 2], np.uint64)  # none of them is below the limit
    assert len(sample.after(sample.change(np.empty(0, int), 1000, late, np.zeros((3, 2))))) == 5
    sample = sample.after(sample.change(sample.items()[0][:1]))
    sample = sample.after(sample.change(np.empty(0, int), 1000, late, np.zeros((3, 2))))
    assert {1000, 1001, 1002} <= set(sample.items()[0].tolist())


def test_arrays_and_labels_come_back_from_their_bytes() -> None:
    arrays = {
        "a": np.arange(5, dtype=np.uint32),
        "b": np.empty((0, 3), np.uint8),
        "": np.array(7, np.int64),
        "c": np.ones((2, 3), np.float32),
    }
    back = unpack(pack(arrays))
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tolist() == array.tolist()
    mixed_labels = np.array(["a", 1, True, 2.5], object)
    for y in (
        np.arange(3),
        np.array(["x", "yé"]),
        np.eye(3, dtype=bool),
        np.array([0.1, 1e300]),
        mixed_labels,
    ):
        packed = unpack_labels(pack_labels(y))
        assert packed is not None
        assert (packed.dtype, packed.tolist()) == (y.dtype, y.tolist())
        assert [type(a) for a in packed.tolist()] == [type(a) for a in y.tolist()]
    assert pack_labels(None) is None


def test_a_checksum_sees_every_field() -> None:
    fields = [3, "text", b"bytes", np.arange(4), None]
    whole = checksum(*fields)
    for i, other in enumerate([4, "texT", b"byteS", np.arange(1, 5), 0]):
        assert checksum(*fields[:i], other, *fields[i + 1 :]) != whole
