"""Files that are fed again: the same rows are skipped, others are not."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.datasets import open_rows
from hashstream.scale import Cluster
from hashstream.table import HashTable


def test_a_file_that_is_read_by_other_columns_is_another_part(tmp_path: Path) -> None:
    file = tmp_path / "rows.npz"
    np.savez(file, id=np.arange(50), x=X[:50], wrong=(Y[:50] + 1) % 10, right=Y[:50])
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        assert cluster.feed([file], label="wrong", learn=False).parts == 1
        assert cluster.feed([file], label="wrong").parts == 1
        assert cluster.feed([file], label="wrong").skipped == 1
        assert cluster.feed([file], label="right").parts == 1
        assert cluster.get(range(50)).labels == Y[:50].tolist()
        assert len(cluster) == 50


def test_a_file_is_known_by_whatever_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "days").mkdir()
    file = tmp_path / "days" / "d0.npz"
    np.savez(file, ids=np.arange(50), x=X[:50], y=Y[:50])
    (tmp_path / "link.npz").symlink_to(file)
    monkeypatch.chdir(tmp_path / "days")
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        assert cluster.feed(["d0.npz"]).parts == 1
        for name in (
            "./d0.npz",
            "../days/d0.npz",
            "../link.npz",
            file,
            tmp_path / "link.npz",
            open_rows("d0.npz"),
        ):
            assert cluster.feed([name]).skipped == 1
        assert cluster.stats().n_seen == 50
        (tmp_path / "days" / "d1.npz").write_bytes(file.read_bytes())
        assert cluster.feed(["d1.npz"]).parts == 1  # another file with the same content


@pytest.mark.parametrize("kind", ["npz", "csv", "npy"])
def test_columns_may_be_named_that_are_the_default(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    named: dict[str, Any] = {"id": "ids", "label": "y", "features": "x*"}
    if kind == "npz":
        named["features"] = "x"
        np.savez(file, ids=np.arange(50), x=X[:50], y=Y[:50], wrong=Y[1:51])
    elif kind == "csv":
        lines = [["ids", *(f"x{at}" for at in range(64)), "y"]]
        lines += [[str(one) for one in (row, *X[row], Y[row])] for row in range(50)]
        file.write_text("\n".join(map(",".join, lines)))
    else:
        np.save(file, X[:50])
        np.save(tmp_path / "rows.ids.npy", np.arange(50))
        np.save(tmp_path / "rows.labels.npy", Y[:50])
        named = {"id": str(tmp_path / "rows.ids.npy"), "label": str(tmp_path / "rows.labels.npy")}
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        assert cluster.feed([file]).parts == 1
        for name, value in named.items():
            assert cluster.feed([file], **{name: value}).skipped == 1
        assert cluster.feed([file], **named).skipped == 1
        if kind == "npz":
            assert cluster.feed([open_rows(file, label="wrong")]).parts == 1
            assert cluster.feed([file], label="wrong").skipped == 1


def test_labels_in_a_file_of_their_own_belong_to_the_part(tmp_path: Path) -> None:
    file = tmp_path / "rows.npy"
    np.save(file, X[:50])
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        assert cluster.feed([file]).parts == 1
        np.save(tmp_path / "rows.labels.npy", Y[:50])
        with pytest.raises(
            ValueError, match="has no ids"
        ):  # it is another part, whose rows would replace these
            cluster.feed([file])
        assert cluster.feed([file], force=True).parts == 1
        assert cluster.feed([file]).skipped == 1
        assert cluster.get(range(50)).labels == Y[:50].tolist()


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_a_file_that_is_not_read_does_not_make_another_part(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    if kind == "npz":
        np.savez(file, ids=np.arange(50), x=X[:50], y=Y[:50])
    else:
        lines = [["ids", *(f"x{at}" for at in range(64)), "y"]]
        lines += [[str(one) for one in (row, *X[row], Y[row])] for row in range(50)]
        file.write_text("\n".join(map(",".join, lines)))
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        assert cluster.feed([file]).parts == 1
        np.save(tmp_path / "rows.ids.npy", np.arange(50, 100))
        np.save(tmp_path / "rows.labels.npy", Y[50:100])
        assert cluster.feed([file]).skipped == 1
        assert cluster.stats().n_seen == 50


@pytest.mark.parametrize("opened", [False, True])
def test_labels_are_compared_that_are_read_from_a_file_however_given(tmp_path: Path, opened: bool) -> None:
    file, labels = tmp_path / "rows.npz", tmp_path / "labels.NPY"
    np.savez(file, ids=np.arange(50), x=X[:50])
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        for y in (Y[:50], Y[50:100]):
            with labels.open("wb") as written:
                np.save(written, y)
            for parts in (1, 0):  # the second time, nothing has changed
                if opened:
                    assert cluster.feed([open_rows(file, label=str(labels))]).parts == parts
                else:
                    assert cluster.feed([file], label=str(labels)).parts == parts
            assert cluster.get(range(50)).labels == y.tolist()


def test_a_field_that_is_declared_later_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "rows.npz"
    np.savez(file, id=np.arange(50), x=X[:50], y=Y[:50], price=np.arange(50) / 2)
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        assert cluster.feed([file]).parts == 1
        cluster.declare({"price": float})
        assert cluster.feed([file]).parts == 1
        assert cluster.count({"price": {"$lt": 5}}) == 10


def test_an_opened_file_is_known_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "today.npz"
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        for first in (0, 50):
            np.savez(file, id=np.arange(first, first + 50), x=X[first : first + 50], y=Y[first : first + 50])
            assert cluster.feed([open_rows(file)]).parts == 1
            assert cluster.feed([open_rows(file)]).skipped == 1
        assert len(cluster) == 100


@pytest.mark.parametrize("call", ["feed", "ingest_files"])
@pytest.mark.parametrize("kind", [str, Path, open_rows])
def test_a_single_file_is_a_list_of_one(tmp_path: Path, call: str, kind: Any) -> None:
    file = tmp_path / "x.npz"
    np.savez(file, id=np.arange(50), x=X[:50], y=Y[:50])
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        assert getattr(cluster, call)(kind(file)).rows == 50
        assert len(cluster) == 50
        for wrong in (None, 5, b"x.npz"):
            with pytest.raises(TypeError, match="must be a path or a list of paths"):
                getattr(cluster, call)(wrong)


def test_arguments_of_ingest_files_are_those_of_a_table(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    rows = [",".join(map(str, [i, Y[i], *X[i], "note"])) for i in range(50)]
    file.write_text("\n".join(rows))
    given: dict[str, Any] = {
        "id": "0", "label": "1", "features": ",".join(map(str, range(2, 66))), "payload": "*", "header": False,
        "text": True, "dtype": np.float64, "batch": 20, "learn": True, "again": True, "first_id": 3, "refresh": True,
        "progress": None, "resume": False,
    }  # fmt: skip
    names = set(inspect.signature(HashTable.ingest_files).parameters) - {"self", "files"}
    assert given.keys() == names
    with (
        HashTable.open(None, hasher_of("FCOH"), policy="never") as table,
        Cluster.open(
            tmp_path / "cluster", hasher_of("FCOH"), policy="never", engine=LocalEngine()
        ) as cluster,
    ):
        for store in (table, cluster):
            assert store.ingest_files(file, **given).rows == 50
            assert store.get(["7"]).labels == [str(Y[7])]
        assert cluster.digest() == table.digest()
        assert cluster.get(["7"]).payloads == table.get(["7"]).payloads
        with pytest.raises(ValueError, match="resume skips rows"):
            cluster.ingest_files(file, resume=True)
        with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
            cluster.ingest_files(file, nonsense=True)  # type: ignore[call-arg, unused-ignore]
        assert cluster.ingest_files(file, **{**given, "again": False}).known == 50


def test_labels_of_files_that_are_not_learned_are_stored(tmp_path: Path) -> None:
    file = tmp_path / "rows.npz"
    np.savez(file, id=np.arange(50), x=X[:50], y=Y[:50])
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        cluster.feed(file, learn=False, batch=20)
        cluster.feed([(range(50, 100), X[50:100], Y[50:100])], learn=False)
        assert cluster.get(range(100)).labels == Y[:100].tolist()
        assert cluster.stats().n_seen == 0
        assert cluster.feed(file).rows == 50  # which may be learned later
        assert cluster.stats().n_seen == 50
        assert cluster.get(range(100)).labels == Y[:100].tolist()
