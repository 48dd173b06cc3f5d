"""Sequence numbers: a batch that comes twice, late or out of order never replaces what is newer. Digests and codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.hashers.serialization import encoder_digest
from hashstream.table import Call, HashTable
from hashstream.table.digests import digest_of, stable_hashes, sum_of

X, Y = rows(np.random.default_rng(0), 300)


def opened(path: Path | None, **more: Any) -> HashTable:
    return HashTable.open(path, hs.RidgeHash(n_bits=8, random_state=0), **more)


@pytest.fixture(params=["memory", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "t" if request.param == "folder" else None


def test_a_late_batch_replaces_nothing_that_is_newer(place: Path | None) -> None:
    with opened(place) as table:
        table.add(range(10), X[:10], Y[:10], sequence=5)
        table.add(range(5, 15), X[100:110], sequence=6)
        table.add(range(12), X[200:212], sequence=4)  # late
        items = table.get(range(12))
        assert items.features is not None
        assert np.array_equal(items.features[:5], X[:5])
        assert np.array_equal(items.features[5:], X[100:107])
        assert items.sequences is not None
        assert items.sequences.tolist() == [5] * 5 + [6] * 7
        assert table.get([0]).labels == [Y[0]]
        before = table.commits
        table.add(range(5, 15), X[100:110], sequence=6)  # again
        assert table.commits == before
        table.add([0, 40], X[:2], sequence=3)  # of which one is new
        assert len(table) == 16
        assert 40 in table


def test_any_order_of_batches_ends_in_the_same_items(place: Path | None) -> None:
    batches = [(number, np.arange(number, number + 12)) for number in range(8)]
    wanted = None
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(16) % 8  # each twice
        path = None if place is None else place.with_name(f"t{seed}")
        with opened(path) as table:
            table.add([10_000], X[:1])
            for at in order.tolist():
                number, ids = batches[at]
                table.add(ids, X[ids + 10 * number], sequence=number)
            found = {one: table.get([one]).features.tobytes() for one in table.ids().tolist()}  # type: ignore[union-attr]
            digest = table.digest()
        if wanted is None:
            wanted = (found, digest)
        assert (found, digest) == wanted


def test_rows_that_are_skipped_are_not_learned(place: Path | None) -> None:
    with opened(place) as table, opened(None) as other:
        for one in (table, other):
            one.ingest(range(50), X[:50], Y[:50], sequence=2)
        table.ingest(range(50), X[50:100], Y[50:100], sequence=1)
        table.ingest(range(40, 60), X[:20], Y[:20], sequence=2)
        other.ingest(range(50, 60), X[10:20], Y[10:20], sequence=2)
        assert encoder_digest(table.hasher.encoder()) == encoder_digest(other.hasher.encoder())
        assert table.hasher.n_seen_ == 60


def test_a_number_per_row(place: Path | None) -> None:
    with opened(place) as table:
        table.add([1, 2, 3], X[:3], sequence=[7, 5, 9])
        table.add([1, 2, 3], X[10:13], sequence=np.array([6, 6, 9], np.uint8))
        assert table.get([1, 2, 3]).sequences.tolist() == [7, 6, 9]  # type: ignore[union-attr]


def test_rows_without_a_number(place: Path | None) -> None:
    with opened(place) as table:
        table.add([1, 2], X[:2])
        table.add([1], X[2:3], sequence=0)  # newer than one without
        assert table.get([1, 2]).sequences.tolist() == [0, -1]  # type: ignore[union-attr]
        table.add([1], X[3:4])  # which replaces whatever is there
        assert table.get([1]).sequences.tolist() == [-1]  # type: ignore[union-attr]
        assert table.fields == {}


def test_numbers_survive(tmp_path: Path) -> None:
    with opened(tmp_path / "t", fields={"tenant": str}) as table:
        table.add(range(10), X[:10], sequence=np.arange(10), fields={"tenant": ["a"] * 10})
        table.remove([3])
        table.compact()
        table.snapshot(tmp_path / "copy")
    for path in (tmp_path / "t", tmp_path / "copy"):
        with HashTable.open(path) as table:
            table.add([0, 9], X[20:22], sequence=5)
            assert table.get([0, 5, 9]).sequences.tolist() == [5, 5, 9]  # type: ignore[union-attr]
            assert table.fields == {"tenant": "str"}
            hits = table.search(X[:4], 5, include=("sequences",))
            assert hits.sequences is not None
            assert np.array_equal(hits.sequences, np.where(hits.ids == 0, 5, hits.ids))
            near = table.search_radius(X[:4], 3, include=("sequences", "fields"))
            assert near.sequences is not None
            assert np.array_equal(near.sequences, np.where(near.ids == 0, 5, near.ids))


def test_calls_that_share_a_commit(place: Path | None) -> None:
    with opened(place) as table:
        table.add([1, 2, 3], X[:3], sequence=5)
        calls = [
            Call("add", ([1], X[10:11], None), {"sequence": 4}),
            Call("add", ([2], X[11:12], None), {"sequence": 6}),
            Call("add", ([3], X[12:13], None), {}),
            Call("add", ([4], X[13:14], None), {"sequence": 0}),
        ]
        before = table.commits
        table.writer().do(calls)
        assert [call.error for call in calls] == [None] * 4
        assert table.commits == before + 1
        assert table.get([1, 2, 3, 4]).sequences.tolist() == [5, 6, -1, 0]  # type: ignore[union-attr]


def test_a_key_is_remembered_though_nothing_was_stored(place: Path | None) -> None:
    with opened(place) as table:
        table.add([1], X[:1], sequence=5)
        table.add([1], X[1:2], sequence=4, key="late")
        table.remove([1])
        table.add([1], X[1:2], sequence=4, key="late")
        assert len(table) == 0
        with pytest.raises(hs.table.KeyReused):
            table.add([1], X[1:2], sequence=5, key="late")


@pytest.mark.parametrize("sequence", [-1, 1.5, "1", [1, 2], 1 << 63, [[1]], True, None.__class__])
def test_what_is_no_sequence_number(place: Path | None, sequence: Any) -> None:
    with opened(place) as table:
        with pytest.raises(ValueError, match="sequence must be a whole number"):
            table.add([1], X[:1], sequence=sequence)
        assert len(table) == 0


def test_labels_that_are_not_learned(place: Path | None) -> None:
    with opened(place) as table:
        table.ingest(range(50), X[:50], Y[:50])
        table.add(range(50, 60), X[50:60])
        before = encoder_digest(table.hasher.encoder())
        assert table.label(range(50, 60), Y[50:60], learn=False) == 10
        assert table.label(range(50, 60), Y[50:60], learn=False) == 0
        assert table.label(range(10), Y[:10], learn=False) == 0  # learned already, and they stay so
        assert encoder_digest(table.hasher.encoder()) == before
        assert table.get(range(50, 60)).labels == Y[50:60].tolist()
        assert table.label(range(10), Y[:10]) == 0
        assert table.label([50], Y[50:51]) == 1  # learned now
        assert encoder_digest(table.hasher.encoder()) != before
        assert table.label([51], [None], learn=False) == 1
        assert table.get([51]).labels == [None]


@pytest.mark.parametrize("texts", [False, True])
def test_the_digest_does_not_depend_on_order_or_sharding(place: Path | None, texts: bool) -> None:
    name = (lambda i: f"é {i}") if texts else (lambda i: i)
    ids = [name(i) for i in range(100)]
    with opened(None) as learner:
        learner.ingest(range(100), X[:100], Y[:100])
        functions = learner.hasher
    with opened(place) as table:
        table.adopt(functions)
        order = np.random.default_rng(1).permutation(100)
        table.add([ids[i] for i in order], X[order])
        total = 0
        for shard in range(3):
            with opened(None) as part:
                part.adopt(functions)
                mine = np.arange(shard, 100, 3)
                part.add([ids[i] for i in mine], X[mine])
                total += part.digest()
        assert table.digest() == total % 2**64
        pieces = list(table.codes(rows=9))
        assert sum(len(piece.ids) for piece in pieces) == 100
        assert max(len(piece.ids) for piece in pieces) == 9
        assert sum_of(pieces) == table.digest()
        before = table.digest()
        table.remove([ids[7]])
        assert table.digest() != before
        item = table.get([ids[8]])
        gone = digest_of(item.ids, item.codes, int(item.versions[0]))
        digest = table.digest()
        table.remove([ids[8]])
        assert (table.digest() + gone) % 2**64 == digest


def test_codes_are_of_one_commit(place: Path | None) -> None:
    with opened(place) as table:
        table.ingest(range(60), X[:60], Y[:60])
        pieces, digest = table.codes(rows=10), table.digest()
        first = next(pieces)
        table.ingest(range(30), X[100:130], Y[100:130])
        table.remove([40])
        table.refresh()
        table.compact()
        assert sum_of([first, *pieces]) == digest


def test_one_bit_anywhere_changes_the_digest() -> None:
    ids, codes = np.arange(5), np.zeros((5, 11), np.uint8)
    seen = {digest_of(ids, codes, 3)}
    for row in range(5):
        for bit in range(88):
            other = codes.copy()
            other[row, bit // 8] ^= 1 << bit % 8
            seen.add(digest_of(ids, other, 3))
    seen |= {digest_of(ids, codes, 4), digest_of(ids + 1, codes, 3), digest_of(ids[1:], codes[1:], 3)}
    assert len(seen) == 5 * 88 + 4


def test_an_empty_table_has_digest_0(place: Path | None) -> None:
    with opened(place) as table:
        assert table.digest() == 0
        assert list(table.codes()) == []


def test_hashes_of_ids_are_for_ever() -> None:
    """Items are spread over shards by these: they can never change."""
    assert stable_hashes(np.array([0, -1, 2**62])).tolist() == [
        16294208416658607535, 16490336266968443936, 47939714376772075,
    ]  # fmt: skip
    assert stable_hashes(np.array(["", "é"], object)).tolist() == [13020603013274838756, 3394012004367669963]
