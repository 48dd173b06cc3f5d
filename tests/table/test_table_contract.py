"""What `HashTable` takes, gives and refuses, each in a few lines."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Eager, Every, HashTable, Never, TableError


@pytest.fixture(params=["memory", "folder"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = None if request.param == "memory" else tmp_path / "t"
    with HashTable.open(path, hs.FCOH(n_bits=12, random_state=0), policy=Never()) as opened:
        yield opened


X, Y = rows(np.random.default_rng(0), 40)


def test_an_empty_table_answers_with_nothing(table: HashTable) -> None:
    far, ids = table.search(X[:2], 3)
    assert ids.shape == far.shape == (2, 0)
    offsets, far, ids = table.search_radius(X[:2], 3)
    assert (offsets.tolist(), len(far), len(ids)) == ([0, 0, 0], 0, 0)
    assert len(table) == 0
    assert 3 not in table
    assert table.refresh() == 0
    stats = table.stats()
    assert stats.versions == {}
    assert stats.newest_version is None
    assert stats.drift.bit_flips is None
    assert "too little data" in stats.drift.reasons["bit_flips"]


def test_shapes_and_dtypes(table: HashTable) -> None:
    table.ingest(np.arange(40), X, Y)
    far, ids = table.search(X[:3], 5)
    assert (ids.shape, ids.dtype, far.shape, far.dtype) == ((3, 5), np.int64, (3, 5), np.uint16)
    assert table.search(X[:3], 500)[0].shape == (3, 40)  # narrower, where there are fewer
    far, ids = table.search(X[:3], 5, asymmetric=True)
    assert (ids.dtype, far.dtype) == (np.int64, np.float64)
    assert (np.diff(far, axis=1) >= 0).all()
    offsets, far, ids = table.search_radius(X[:3], 12)
    assert offsets.tolist() == [0, 40, 80, 120]
    got = table.get([7, 3])
    assert got.ids.tolist() == [7, 3]
    assert got.codes.shape == (2, 2)
    assert got.labels == [Y[7], Y[3]]
    assert got.features is not None
    assert got.features.tobytes() == X[[7, 3]].tobytes()


def test_string_ids_come_back_as_strings(table: HashTable) -> None:
    names = [f"ñ{i}" for i in range(39)] + [""]
    table.ingest(names, X, Y)
    _, ids = table.search(X[:2], 4)
    assert ids.dtype == object
    assert all(isinstance(one, str) for one in ids.ravel())
    assert "" in table
    assert "ñ40" not in table
    assert 3 not in table
    with pytest.raises(ValueError, match="are strings, but these are whole numbers"):
        table.ingest([1], X[:1], Y[:1])
    with pytest.raises(KeyError, match="not in the table: 3"):
        table.remove([3])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2, 1, 2, 5], "more than once in the batch: 1, 2"),
        (["a", "b", "a", "c", "d"], "more than once in the batch: 'a'"),
        ([1, "a", 2, 3, 4], r"ids\[0\] is 1"),
        ([1.5, 2, 3, 4, 5], r"ids\[0\] is 1.5"),
        ([True, False, 2, 3, None], "whole numbers, or all strings"),
        ([[1, 2, 3, 4, 5]], "must be 1-D"),
        ([1, 2, 3], "3 ids, but X has 5 rows"),
        ([2**63, 1, 2, 3, 4], "64 bits"),
    ],
)
def test_bad_ids_are_named_and_nothing_changes(table: HashTable, ids: Any, message: str) -> None:
    table.ingest(np.arange(10), X[:10], Y[:10])
    before = table.hasher.projection_.tobytes(), table.stats().commits
    with pytest.raises(ValueError, match=message):
        table.ingest(ids, X[:5], Y[:5])
    assert (table.hasher.projection_.tobytes(), table.stats().commits) == before
    assert len(table) == 10


def test_bad_features_and_labels_change_nothing(table: HashTable) -> None:
    table.ingest(np.arange(10), X[:10], Y[:10])
    before = table.hasher.projection_.tobytes(), table.stats().commits
    bad = X[:5].copy()
    bad[3, 2] = np.nan
    for features, labels, message in (
        (bad, Y[:5], r"X\[3, 2\] is nan"),
        (X[:5, :4], Y[:5], "4 features"),
        (X[:5], Y[:4], "5 rows, but y has shape"),
        (X[:0], Y[:0], "0 ids|minimum of 1|5 ids"),
        (X[:5].astype(np.float64) * 1e300, Y[:5], "infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            table.ingest([20, 21, 22, 23, 24], features, labels)
    with pytest.raises(ValueError, match="4 features"):
        table.search(X[:2, :4])
    with pytest.raises(ValueError, match="k must be at least 1"):
        table.search(X[:2], 0)
    with pytest.raises(ValueError, match="radius must be at least 0"):
        table.search_radius(X[:2], -1)
    with pytest.raises(ValueError, match="budget must be at least 1"):
        table.refresh(0)
    assert (table.hasher.projection_.tobytes(), table.stats().commits) == before


def test_an_id_again_replaces_and_a_removed_one_is_gone(table: HashTable) -> None:
    table.ingest(np.arange(10), X[:10], Y[:10])
    table.ingest([3, 30], X[20:22], Y[20:22])
    assert len(table) == 11
    assert table.get([3]).features.tolist() == X[20:21].tolist()  # type: ignore[union-attr]
    table.remove([3, 5])
    assert 3 not in table
    with pytest.raises(KeyError, match="not in the table: 3"):
        table.get([3])
    with pytest.raises(KeyError, match="not in the table: 5"):
        table.remove([1, 5])
    assert 1 in table  # nothing of the call happened
    assert not {3, 5} & set(table.search(X[:10], 40).ids.ravel().tolist())
    table.ingest([5], X[5:6], Y[5:6])  # the user may bring it back
    assert 5 in table


def test_adding_does_not_move_the_functions(table: HashTable) -> None:
    table.add([1], X[:1])  # encoded by the method's initial functions
    assert table.hasher.n_seen_ == 0
    table.remove([1])
    table.ingest(np.arange(10), X[:10], Y[:10])
    before = table.hasher.projection_.tobytes()
    table.add(np.arange(10, 20), X[10:20])
    assert table.hasher.projection_.tobytes() == before
    assert len(table.stats().versions) == 1
    assert table.get([12]).labels == [None]


def test_the_callers_hasher_and_arrays_are_left_alone(tmp_path: Path) -> None:
    hasher = hs.FCOH(n_bits=12, random_state=0)
    mine = X.copy()
    with HashTable.open(tmp_path / "t", hasher, policy=Eager()) as table:
        table.ingest(np.arange(40), mine, Y)
        mine[:] = 0
        assert not hasattr(hasher, "n_seen_")
        assert table.get([1]).features.tolist() == X[1:2].tolist()  # type: ignore[union-attr]
        copied = table.hasher
        copied.partial_fit(X, Y)
        assert table.hasher.version_ != copied.version_


def test_a_fitted_hasher_can_add_at_once(tmp_path: Path) -> None:
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(X, Y)
    for path in (None, tmp_path / "t"):
        with HashTable.open(path, hasher, policy=Never()) as table:
            table.add(np.arange(40), X)
            assert table.get(np.arange(40)).codes.tobytes() == hasher.transform(X).tobytes()
            assert list(table.stats().versions) == [hasher.version_]


def test_float64_and_integers_keep_their_contract(tmp_path: Path) -> None:
    for given, dtype in ((X.astype(np.float64), np.float64), ((10 * X).astype(int), np.float32)):
        with HashTable.open(tmp_path / str(dtype), hs.FCOH(n_bits=12, random_state=0)) as table:
            table.ingest(np.arange(40), given, Y)
            features = table.get([4]).features
            assert features is not None
            assert features.dtype == dtype
            assert features.tolist() == given[4:5].tolist()
            wanted = hs.FCOH(n_bits=12, random_state=0).partial_fit(given, Y)
            assert table.hasher.projection_.tobytes() == wanted.projection_.tobytes()


def test_label_matrices(tmp_path: Path) -> None:
    matrix = np.eye(4, dtype=int)[Y]
    matrix[:, 0] |= matrix[:, 1]
    for path in (None, tmp_path / "t"):
        with HashTable.open(path, hs.MIHash(n_bits=12, random_state=0), policy=Every(2)) as table:
            for i in range(0, 40, 10):
                table.ingest(np.arange(i, i + 10), X[i : i + 10], matrix[i : i + 10])
            assert table.get([13]).labels[0].tolist() == matrix[13].tolist()
            assert table.stats().drift.mean_average_precision is not None
    with HashTable.open(tmp_path / "t") as table:
        assert table.get([13]).labels[0].tolist() == matrix[13].tolist()
        assert table.stats().drift.mean_average_precision is not None


def test_a_closed_table_says_so(table: HashTable) -> None:
    table.ingest(np.arange(10), X[:10], Y[:10])
    table.close()
    table.close()
    for use in (lambda: table.search(X[:1]), lambda: table.remove([1]), lambda: table.add([50], X[:1])):
        with pytest.raises(TableError, match="closed"):
            use()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"durability": "none"}, "durability must be .* not 'none'"),
        ({"mode": "append"}, "mode must be .* not 'append'"),
        ({"max_versions": 0}, "max_versions must be at least 1"),
        ({"checkpoint_rows": 0}, "checkpoint_rows must be at least 1"),
        ({"segment_bytes": 0}, "segment_bytes must be at least 1"),
        ({"sample_size": -1}, "sample_size must be at least 0"),
        ({"policy": "every:0"}, "k must be at least 1"),
        ({"keep_features": False, "policy": Eager()}, "Eager needs features"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HashTable.open(None, hs.LSH(), **settings)


def test_things_of_the_wrong_kind_are_named() -> None:
    with pytest.raises(TypeError, match="policy must be a policy"):
        HashTable.open(None, hs.LSH(), policy=Eager)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no policy 'egaer': choose from eager, every"):
        HashTable.open(None, hs.LSH(), policy="egaer")
    with pytest.raises(TypeError, match="hasher must be an OnlineHasher"):
        HashTable.open(None, "FCOH")  # type: ignore[arg-type]
    with pytest.raises(TableError, match="needs a hasher="):
        HashTable.open(None)


@pytest.mark.parametrize("kept", [True, False])
def test_bad_queries_are_refused_in_the_name_of_the_tables_own_method(tmp_path: Path, kept: bool) -> None:
    with HashTable.open(tmp_path / "t" if kept else None, hs.HCOH(n_bits=8, random_state=0)) as table:
        table.ingest(np.arange(40), X, Y)
        for Q, says in (
            (X[:, :5], "X has 5 features, but HCOH is expecting 12 features"),
            (X[:0], "minimum of 1 is required by HCOH"),
            (X[0], "Expected 2D array, got 1D array"),
        ):
            for ask in (
                table.search,
                lambda Q: table.search(Q, asymmetric=True),
                lambda Q: table.search_radius(Q, 2),
            ):
                with pytest.raises(ValueError, match=says) as refusal:
                    ask(Q)
                assert "LSH" not in str(refusal.value)


@pytest.mark.parametrize("fitted", [True, False])
def test_columns_of_data_frames_count_by_position_without_a_warning(tmp_path: Path, fitted: bool) -> None:
    pandas = pytest.importorskip("pandas")
    hasher = hs.HCOH(n_bits=8, random_state=0)
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    if fitted:
        hasher.fit(frame, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with (
            HashTable.open(None, hasher, policy=Never()) as plain,
            HashTable.open(tmp_path / "t", hasher, policy=Never()) as named,
        ):
            for i in range(2):
                some = slice(20 * i, 20 * i + 20)
                plain.ingest(np.arange(40)[some], X[some], Y[some])
                named.ingest(np.arange(40)[some], frame[some], Y[some])
            for asymmetric in (False, True):
                wanted = plain.search(X[:4], 9, asymmetric=asymmetric)
                found = named.search(frame[:4], 9, asymmetric=asymmetric)
                assert [a.tolist() for a in found] == [a.tolist() for a in wanted]
            assert named.stats().drift == plain.stats().drift
            assert named.check()["codes"] == 40
            assert named.refresh() == plain.refresh()
