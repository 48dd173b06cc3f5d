"""Functions learned elsewhere: adopted whole or in slices, idempotent, durable, and refused where they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.hashers import registry
from hashstream.hashers.serialization import encoder_digest, from_bytes, to_bytes
from hashstream.table import HashTable, TableError
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.folder.names import DATABASE

RNG = np.random.default_rng(0)
X, Y = rows(RNG, 300)
MORE, LABELS = rows(RNG, 200)
METHODS = [hs.FCOH, hs.RidgeHash, hs.PosteriorHash, hs.SketchHash]


def hasher(method: Any = hs.RidgeHash) -> Any:
    return method(n_bits=8, random_state=0)


def elsewhere(method: Any = hs.RidgeHash, n: int = 400) -> Any:
    """The functions of a learner that has seen more, of a later version than any in a table here."""
    learner = hasher(method)
    for start in range(0, n, 20):
        at = np.arange(start, start + 20) % len(MORE)
        learner.partial_fit(MORE[at], LABELS[at])
    return learner


def codes_of(table: HashTable) -> dict[Any, tuple[int, bytes]]:
    return {
        one: (piece.version, code.tobytes())
        for piece in table.codes(rows=7)
        for one, code in zip(piece.ids.tolist(), piece.codes, strict=True)
    }


@pytest.fixture(params=["memory", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "t" if request.param == "folder" else None


@pytest.mark.parametrize("method", METHODS)
def test_all_items_are_re_encoded_by_the_adopted_functions(place: Path | None, method: Any) -> None:
    learned = elsewhere(method)
    with HashTable.open(place, hasher(method)) as table:
        table.ingest(range(60), X[:60], Y[:60])
        table.ingest(range(60, 90), X[60:90])
        seq = table.commits
        assert table.adopt(learned) == 90
        assert table.commits == seq + 1  # one commit
        assert table.version == learned.version_
        assert np.array_equal(table.get(range(90)).codes, learned.transform(X[:90].astype(learned.dtype_)))
        assert set(table.get(range(90)).versions.tolist()) == {learned.version_}
        assert table.adopt(learned) == 0
        assert table.commits == seq + 1  # and nothing was written again
        table.add([90], X[90:91])
        assert table.get([90]).versions.tolist() == [learned.version_]


@pytest.mark.parametrize("method", METHODS)
def test_what_was_adopted_is_there_after_opening_again(tmp_path: Path, method: Any) -> None:
    learned = elsewhere(method)
    with HashTable.open(tmp_path / "t", hasher(method)) as table:
        table.ingest(range(60), X[:60], Y[:60])
        assert table.adopt(learned, budget=20) == 20
        before = codes_of(table)
    with HashTable.open(tmp_path / "t") as table:
        assert codes_of(table) == before
        assert encoder_digest(table.hasher.encoder()) == encoder_digest(learned.encoder())
        assert table.check(sample=60)["codes"] == 60
        assert table.adopt(learned, budget=25) == 25
        assert table.adopt(learned) == 15
        table.ingest([70], X[70:71], Y[70:71])  # it learns on, from what was adopted
        learned.partial_fit(X[70:71].astype(learned.dtype_), Y[70:71])
        assert encoder_digest(table.hasher.encoder()) == encoder_digest(learned.encoder())
    with HashTable.open(tmp_path / "t") as table:
        assert encoder_digest(table.hasher.encoder()) == encoder_digest(learned.encoder())


def test_a_reader_follows_an_adoption(tmp_path: Path) -> None:
    learned = elsewhere()
    with HashTable.open(tmp_path / "t", hasher()) as table:
        table.ingest(range(60), X[:60], Y[:60])
        with HashTable.open(tmp_path / "t", mode="read") as reader:
            table.adopt(learned, budget=20)
            table.ingest([99], X[99:100], Y[99:100])
            assert reader.reload()
            assert codes_of(reader) == codes_of(table)
            assert np.array_equal(reader.search(X[:5], 9).ids, table.search(X[:5], 9).ids)
            assert reader.version == table.version


def test_an_empty_table_adopts_too(place: Path | None) -> None:
    learned = elsewhere()
    with HashTable.open(place, hasher()) as table:
        assert table.adopt(learned) == 0
        assert table.version == learned.version_
        if place is not None:
            table.close()
            table = HashTable.open(place)
        table.add(range(5), X[:5])
        assert np.array_equal(table.get(range(5)).codes, learned.transform(X[:5].astype(learned.dtype_)))
        table.close()


def test_slices_go_from_the_oldest_version_on(place: Path | None) -> None:
    learned = elsewhere()
    with HashTable.open(place, hasher(), policy="never") as table:
        table.ingest(range(30), X[:30], Y[:30])
        table.ingest(range(30, 60), X[30:60], Y[30:60])
        assert table.adopt(learned, budget=0) == 0
        assert table.version == learned.version_
        assert table.adopt(learned, budget=40) == 40
        stale = [one for one, (version, _) in codes_of(table).items() if version != learned.version_]
        assert sorted(stale) == list(range(40, 60))
        assert table.refresh() == 20


def test_no_more_versions_than_the_table_may_have(place: Path | None) -> None:
    with HashTable.open(place, hasher(), policy="never", max_versions=2) as table:
        table.ingest(range(30), X[:30], Y[:30])
        table.ingest(range(30, 40), X[30:40], Y[30:40])
        assert table.adopt(elsewhere(), budget=0) == 10  # of the smaller version
        assert len(table.stats().versions) == 2


def wrong_bits() -> Any:
    return hs.RidgeHash(n_bits=16, random_state=0).partial_fit(X, Y)


def wrong_features() -> Any:
    return hasher().partial_fit(X[:, :3], Y)


def wrong_dtype() -> Any:
    return hasher().partial_fit(X.astype(np.float64), Y)


def older() -> Any:
    return hasher().partial_fit(X[:10], Y[:10])


def not_learned() -> Any:
    return hasher()


def one_version_only() -> Any:
    found = from_bytes(to_bytes(elsewhere()), "a file")
    del found.rng_
    return found


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (wrong_bits, "8 bits.*16"),
        (wrong_features, "n_features"),
        (wrong_dtype, "dtype"),
        (older, "older"),
        (not_learned, "not fitted"),
        (one_version_only, "one version only"),
        (lambda: "a name", "a hasher"),
    ],
)
def test_functions_that_do_not_fit_are_refused(place: Path | None, make: Any, says: str) -> None:
    with HashTable.open(place, hasher()) as table:
        for start in range(0, 60, 20):
            table.ingest(range(start, start + 20), X[start : start + 20], Y[start : start + 20])
        before, digest = table.commits, table.digest()
        with pytest.raises((ValueError, TypeError), match=says):
            table.adopt(make())
        assert (table.commits, table.digest()) == (before, digest)


def test_other_functions_of_a_version_that_the_table_has_are_refused(place: Path | None) -> None:
    with HashTable.open(place, hasher()) as table:
        table.ingest(range(60), X[:60], Y[:60])
        other = hasher().partial_fit(X[60:120], Y[60:120])
        assert other.version_ == table.version
        with pytest.raises(ValueError, match="other functions of version"):
            table.adopt(other)


def test_a_label_that_the_adopted_functions_have_not_learned_is_not_taken_back_out(
    place: Path | None,
) -> None:
    """Otherwise a correction would subtract what was never added."""
    learned = elsewhere()
    with HashTable.open(place, hasher()) as table:
        table.ingest(range(60), X[:60], Y[:60])
        table.adopt(learned)
        other = (Y[:1] + 1) % 4
        table.label([0], other)
        learned.partial_fit(X[:1], other)
        assert encoder_digest(table.hasher.encoder()) == encoder_digest(learned.encoder())
        assert table.get(range(60)).labels[1:] == Y[1:60].tolist()


def test_a_reader_cannot_adopt(tmp_path: Path) -> None:
    with HashTable.open(tmp_path / "t", hasher()) as table:
        table.ingest(range(60), X[:60], Y[:60])
    with HashTable.open(tmp_path / "t", mode="read") as reader, pytest.raises(TableError, match="read"):
        reader.adopt(elsewhere())


def test_without_features_codes_are_carried_over(place: Path | None) -> None:
    with HashTable.open(place, hasher(), policy="projected", keep_features=False) as table:
        table.ingest(range(100), X[:100], Y[:100])
        assert table.adopt(elsewhere()) == 100
        assert set(table.get(range(100)).versions.tolist()) == {elsewhere().version_}


@pytest.mark.parametrize("method", METHODS)
def test_the_digest_of_functions_survives_a_file(method: Any) -> None:
    learned = elsewhere(method)
    again = from_bytes(to_bytes(learned), "a file")
    assert encoder_digest(again.encoder()) == encoder_digest(learned.encoder())
    version = again.version_
    for row in range(30):
        again.partial_fit(X[row : row + 1], Y[row : row + 1])
        same = encoder_digest(again.encoder()) == encoder_digest(learned.encoder())
        assert same == (again.version_ == version)  # rows may be learned that change no function
    again.partial_fit(X, Y)
    assert encoder_digest(again.encoder()) != encoder_digest(learned.encoder())


def test_functions_that_the_policy_cannot_re_encode_by_are_refused() -> None:
    with HashTable.open(None, hasher(hs.FCOH), policy="partial:2") as table:
        table.ingest(range(100), X[:100], Y[:100])
        before = table.digest()
        with pytest.raises(ValueError, match="Partial re-encodes single bits"):
            table.adopt(elsewhere(hs.PosteriorHash))
        assert table.digest() == before


def later(learner: Any, table: HashTable) -> Any:
    """A copy of later version than the functions of a table."""
    learner = learner.copy()
    learner.version_ = table.hasher.version_ + 1
    return learner


OTHERS = [elsewhere(hs.PosteriorHash), hs.RidgeHash(n_bits=8, random_state=7).partial_fit(MORE, LABELS)]


@pytest.mark.parametrize("other", OTHERS, ids=["another method", "another seed"])
def test_the_call_that_created_a_table_still_opens_it(tmp_path: Path, other: Any) -> None:
    """Also its copies; another hasher is refused as ever, and what was adopted is no other."""
    with HashTable.open(tmp_path / "t", hasher(), policy="never") as table:
        table.ingest(range(60), X[:60], Y[:60])
        assert type(table.created_with) is hs.RidgeHash
        other = later(other, table)
        table.adopt(other)
        table.ingest([60], X[60:61], Y[60:61])
        table.adopt(other.partial_fit(MORE[:20], LABELS[:20]))
        assert table.created_with.get_params() == hasher().get_params()
        table.snapshot(tmp_path / "snapshot")
        table.remove([3])
        table.compact()
        table.snapshot(tmp_path / "compacted")
        table.export(tmp_path / "exported")
    HashTable.restore(tmp_path / "exported", tmp_path / "restored").close()
    for name in ("t", "snapshot", "compacted", "restored"):
        for given in (hasher(), type(other)(**other.get_params(deep=False))):
            with HashTable.open(tmp_path / name, given, mode="read") as table:
                assert type(table.hasher) is type(other)
            with HashTable.open(tmp_path / name, given) as table:
                assert type(table.created_with) is hs.RidgeHash
                assert table.created_with.random_state == 0
                assert not hasattr(table.created_with, "n_seen_")
                assert table.check()
        for wrong in (hs.RidgeHash(n_bits=8, random_state=3), hs.FCOH(n_bits=8, random_state=0)):
            with pytest.raises(TableError, match=r"was created with (RidgeHash|random_state=0), not with"):
                HashTable.open(tmp_path / name, wrong)


def test_a_copy_from_memory_is_opened_by_the_call_that_created_it(tmp_path: Path) -> None:
    with HashTable.open(None, hasher(), policy="never") as table:
        table.ingest(range(60), X[:60], Y[:60])
        table.adopt(later(elsewhere(hs.PosteriorHash), table))
        table.snapshot(tmp_path / "t")
    with HashTable.open(tmp_path / "t", hasher()) as table:
        assert type(table.hasher) is hs.PosteriorHash
        table.export(tmp_path / "e")
        assert (tmp_path / "e" / "created.safetensors").exists()


def test_a_reader_that_follows_knows_what_the_table_was_created_with(tmp_path: Path) -> None:
    with HashTable.open(tmp_path / "t", hasher(), policy="never") as table:
        table.ingest(range(60), X[:60], Y[:60])
        with HashTable.open(tmp_path / "t", mode="read") as reader:
            table.adopt(later(elsewhere(hs.PosteriorHash), table))
            reader.reload()
            assert type(reader.hasher) is hs.PosteriorHash
            assert type(reader.created_with) is hs.RidgeHash


def test_functions_of_the_same_parameters_leave_nothing_to_remember(tmp_path: Path) -> None:
    with HashTable.open(tmp_path / "t", hasher()) as table:
        table.ingest(range(60), X[:60], Y[:60])
        table.adopt(elsewhere())
        table.export(tmp_path / "e")
    assert not (tmp_path / "e" / "created.safetensors").exists()


class Own(hs.RidgeHash):
    """A method of somebody's own."""


def test_a_method_of_ones_own_is_needed_only_to_compare_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as here:
        here.setitem(registry._METHODS, "Own", Own)
        with HashTable.open(tmp_path / "t", hasher(Own)) as table:
            table.ingest(range(60), X[:60], Y[:60])
            table.adopt(later(elsewhere(), table))
        HashTable.open(tmp_path / "t", hasher(Own)).close()
    with HashTable.open(tmp_path / "t", hasher()) as table:  # another program, which does not know the method
        assert type(table.hasher) is hs.RidgeHash
        assert table.check()
        with pytest.raises(TableError, match="Own"):
            _ = table.created_with
        table.export(tmp_path / "e")
    HashTable.restore(tmp_path / "e", tmp_path / "r").close()
    with pytest.raises(TableError, match="Own"):
        HashTable.open(tmp_path / "r", hasher(hs.FCOH))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"junk" * 100, "is not a saved hasher"),
        (to_bytes(hs.RidgeHash(n_bits=64)), "codes of another length"),
        (to_bytes(elsewhere()), "learned something"),
    ],
)
def test_a_hasher_of_the_creation_that_is_none_is_found(tmp_path: Path, raw: bytes, says: str) -> None:
    with HashTable.open(tmp_path / "t", hasher()) as table:
        table.ingest(range(60), X[:60], Y[:60])
        table.adopt(later(elsewhere(hs.PosteriorHash), table))
        assert table.check()
    database = Database(tmp_path / "t" / DATABASE, mode="write")
    with database.transaction("create"):
        database.put_created(raw)
    database.close()
    with HashTable.open(tmp_path / "t") as table, pytest.raises(TableError, match=says):
        table.check()


def test_a_method_that_is_not_registered_may_adopt_in_memory() -> None:
    with HashTable.open(None, hasher(Own)) as table:
        table.ingest(range(60), X[:60], Y[:60])
        assert table.adopt(later(elsewhere(), table)) == 60
