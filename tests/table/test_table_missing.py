"""Rows without a label: stored with the others, in the same commit, and not learned from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.checks import state_of
from hashstream.table import HashTable

HASHER = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
N = 40
KEPT = np.arange(N) % 3 != 1
KINDS = {
    "None among ints": [int(i % 4) if kept else None for i, kept in enumerate(KEPT)],
    "None among strings": [["a", "b", "", "a\0"][i % 4] if kept else None for i, kept in enumerate(KEPT)],
    "None among all kinds": [["a", -1, 2.5, True][i % 4] if kept else None for i, kept in enumerate(KEPT)],
    "NaN": np.where(KEPT, np.arange(N) % 4 - 1, np.nan),
    "float32 NaN": np.where(KEPT, np.arange(N) % 4, np.nan).astype(np.float32),
    "pandas.NA": pd.Series(np.where(KEPT, np.arange(N) % 4, None), dtype="Int64"),
    "masked": np.ma.masked_array(np.arange(N) % 4, ~KEPT),
    "matrix with NaN": np.where(KEPT[:, None], np.eye(4)[np.arange(N) % 4], np.nan),
    "matrix with None": [np.eye(4)[i % 4] if kept else None for i, kept in enumerate(KEPT)],
}


def plain(labels: list[Any]) -> list[Any]:
    return [label.tolist() if isinstance(label, np.ndarray) else label for label in labels]


def given(y: Any) -> list[Any]:
    """Labels as a table gives them back."""
    objects = [None if not kept else label for label, kept in zip(list(y), KEPT, strict=True)]
    return plain([label.item() if isinstance(label, np.generic) else label for label in objects])


@pytest.mark.parametrize("y", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("kept", [True, False], ids=["folder", "memory"])
def test_rows_without_a_label_are_stored_and_not_learned_from(tmp_path: Path, y: Any, kept: bool) -> None:
    X, _ = rows(np.random.default_rng(0), N)
    wanted = given(y)
    expected = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
    labels = [label for label, keep in zip(wanted, KEPT, strict=True) if keep]
    expected.partial_fit(X[KEPT], labels)
    table = HashTable.open(tmp_path / "t" if kept else None, HASHER)
    table.ingest(range(N), X, y)
    assert table.stats().commits == 1
    assert len(table) == N
    assert table.hasher.n_seen_ == KEPT.sum()
    assert table.hasher.transform(X).tobytes() == expected.transform(X).tobytes()
    assert plain(table.get(range(N)).labels) == wanted
    slots, _, sample = table._state.sample.labelled()
    assert len(sample) == KEPT.sum()
    assert slots.tolist() == np.flatnonzero(KEPT).tolist()
    table.ingest(range(N, N + 5), X[:5], [None] * 5)  # no label at all: stored with the functions as they are
    assert table.hasher.n_seen_ == KEPT.sum()
    assert table.get(range(N, N + 5)).labels == [None] * 5
    assert table.search(X[:1], 1)[0].shape == (1, 1)
    table.remove([0, 5])
    table.compact()
    assert plain(table.get(range(6, N)).labels) == wanted[6:]
    table.snapshot(tmp_path / "copy")
    with HashTable.open(tmp_path / "copy") as copy:
        assert plain(copy.get(range(6, N)).labels) == wanted[6:]
        assert len(copy._state.sample.labelled()[2]) == KEPT.sum() - 2
    table.close()
    if kept:
        with HashTable.open(tmp_path / "t") as again:
            assert plain(again.get(range(6, N + 5)).labels) == wanted[6:] + [None] * 5
            assert again.check()["rows"] == N + 3


@pytest.mark.parametrize("y", KINDS.values(), ids=KINDS)
def test_a_killed_table_learns_the_same_bits_again(tmp_path: Path, y: Any) -> None:
    X, _ = rows(np.random.default_rng(0), N)
    with HashTable.open(tmp_path / "t", HASHER) as table:
        table.ingest(range(N), X, y)
        table.ingest(range(N, N + 3), X[:3], [None] * 3)
        table.ingest(range(100, 100 + N), X[::-1].copy(), y)
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        with HashTable.open(tmp_path / "killed") as again:
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])
            assert state_of(again.hasher) == state_of(table.hasher)


@pytest.mark.parametrize("nothing", [[None] * 5, np.full(5, np.nan), [pd.NA] * 5, np.full((5, 3), np.nan)])
def test_a_first_batch_needs_no_label(tmp_path: Path, nothing: Any) -> None:
    X, y = rows(np.random.default_rng(0), N)
    with HashTable.open(tmp_path / "t", HASHER) as table:
        table.ingest(range(5), X[:5], nothing)
        assert table.get(range(5)).labels == [None] * 5
        assert table.hasher.n_seen_ == 0
        assert len(np.unique(table.get(range(5)).codes, axis=0)) > 1
    with HashTable.open(tmp_path / "t") as table:
        table.ingest(range(N), X, y)
        with pytest.raises(ValueError, match="5 rows, but y has shape"):
            table.ingest(range(5), X[:5], [None] * 4)
        table.ingest(range(5), X[:5], nothing)
        assert table.get(range(6)).labels == [None] * 5 + [int(y[5])]


def test_minus_one_and_the_empty_string_are_labels() -> None:
    X, _ = rows(np.random.default_rng(0), 4)
    with HashTable.open(None, HASHER) as table:
        table.ingest(range(4), X, [-1, "", 0, False])
        assert table.get(range(4)).labels == [-1, "", 0, False]
        assert table.hasher.n_seen_ == 4


@pytest.mark.parametrize(
    "scalar", [3, "abc", object(), 0.5, np.array(None, object)], ids=lambda one: type(one).__name__
)
def test_a_scalar_for_labels_rows_or_ids_is_named(scalar: Any) -> None:
    X, y = rows(np.random.default_rng(0), 4)
    with HashTable.open(None, HASHER) as table:
        with pytest.raises(ValueError, match=r"y has shape \(\)"):
            table.ingest(range(4), X, scalar)
        table.ingest(range(4), X, y)
        for call in (
            lambda: table.ingest(5, X, y),
            lambda: table.ingest(range(4), 0.5, y),
            lambda: table.add([1], 0.5),
            lambda: table.search(0.5),
            lambda: table.search_radius(0.5, 2),
            lambda: table.search(X[0]),
            lambda: table.search_radius(X[0], 2),
        ):
            with pytest.raises(ValueError, match="shape") as caught:
                call()
            assert "unsized" not in str(caught.value)
            assert len(str(caught.value)) < 300
