"""The column and the index of ids against a dict; parts and reservoir against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream.table.ids import Index, as_ids, column_of, mixed
from hashstream.table.packing import checksum, pack, pack_labels, unpack, unpack_labels
from hashstream.table.reservoir import Reservoir, Seats


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
            index.change(column, gone, ids, first)
        found = index.find(column, names)
        assert found.tolist() == [model.get(one, -1) for one in names.tolist()]
    assert column.take(np.arange(len(column))).tolist()[-len(ids) :] == ids.tolist()[-len(column) :]
    again = column_of(kind, column.arrays())
    assert again.take(np.arange(len(again))).tolist() == column.take(np.arange(len(column))).tolist()
    assert again.hashes(3, 9).tolist() == column.hash_of(column.take(np.arange(3, 9))).tolist()


def test_a_column_of_before_stays_as_it_was() -> None:
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


@pytest.mark.parametrize("seed", range(3))
def test_the_reservoir_holds_the_smallest_keys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reservoir = Reservoir(10)
    slot = 0
    features: dict[int, float] = {}
    for _ in range(30):
        n = int(rng.integers(0, 8))
        X = rng.standard_normal((n, 2))
        features.update({slot + i: X[i, 0] for i in range(n)})
        seats = reservoir.plan(np.empty(0, int), slot, X, np.arange(slot, slot + n))
        reservoir = reservoir.taken(Seats.from_arrays(unpack(pack(seats.arrays()))))
        assert len(reservoir) == seats.taken
        slot += n
        keys = mixed(np.arange(slot).astype(np.uint64))
        assert sorted(reservoir.sample()[0].tolist()) == sorted(np.argsort(keys)[:10].tolist())
        slots, kept, labels = reservoir.sample()
        assert kept[:, 0].tolist() == [features[one] for one in slots.tolist()] if slot else not len(kept)
        assert list(labels) == slots.tolist()
        again = Reservoir(10).taken(Seats.from_arrays(reservoir.seats().arrays()))
        assert again.slots.tolist() == reservoir.slots.tolist()
        assert again.labels == reservoir.labels
    leaving = reservoir.sample()[0][:3]
    reservoir = reservoir.taken(reservoir.plan(leaving))
    assert len(reservoir) == 7
    assert not set(leaving.tolist()) & set(reservoir.sample()[0].tolist())
    reservoir = reservoir.taken(reservoir.plan(np.empty(0, int), slot, np.zeros((3, 2))))
    assert {slot, slot + 1, slot + 2} <= set(
        reservoir.sample()[0].tolist()
    )  # free places are for whoever comes


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
