"""The Parquet export of a cluster: one table is restored from it, and from that a cluster of other shards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import FIELDS, QUERIES, X, Y, assert_same_answers, fill, hasher_of, pair

from hashstream import HashTable
from hashstream.scale import Cluster, ClusterError
from hashstream.table import TableError


@pytest.mark.parametrize("text", [False, True])
def test_one_table_and_another_cluster_of_it(tmp_path: Path, text: bool) -> None:
    with pair(tmp_path, LocalEngine(), fields=FIELDS, policy="never", publish_every=2) as (table, cluster):
        for store in (table, cluster):
            fill(store, text=text)
            store.refresh()
        told: list[tuple[int, int]] = []
        manifest = cluster.export(
            tmp_path / "e", features=True, part_rows=90, progress=lambda *step: told.append(step)
        )
        assert told == [(1, 3), (2, 3), (3, 3)]
        assert (manifest.count, int(manifest.digest, 16)) == (500, cluster.digest())
        frames = [pd.read_parquet(path) for path in (tmp_path / "e").glob("*part*.parquet")]
        assert sorted(pd.concat(frames)["id"]) == sorted(table.ids().tolist())

        with HashTable.restore(tmp_path / "e", tmp_path / "t") as back:
            assert_same_answers(back, cluster)
            ids = table.ids()
            assert back.get(ids).labels == table.get(ids).labels
            assert back.hasher.n_seen_ == cluster.hasher.n_seen_
            with Cluster.open(
                tmp_path / "other", back.hasher, shards=5, fields=back.fields, engine=LocalEngine()
            ) as other:
                for start in range(0, len(back), 200):
                    items = back.get(back.ids(offset=start, limit=200))
                    other.add(
                        items.ids, items.features, items.labels, fields=items.fields, payloads=items.payloads
                    )
                assert_same_answers(back, other)
                assert other.get(ids).labels == table.get(ids).labels


def test_what_was_learned_last_is_exported(tmp_path: Path) -> None:
    """Without features, and with items of several versions."""
    with pair(tmp_path, LocalEngine(), policy="never") as (table, cluster):
        for store in (table, cluster):
            fill_plain(store)
        assert cluster.version != cluster.hasher.version_
        cluster.export(tmp_path / "e")
        assert cluster.version == cluster.hasher.version_ == table.version
        with HashTable.restore(tmp_path / "e", tmp_path / "t") as back:
            assert back.version == table.version
            assert back.digest() == cluster.digest()
            assert not back.keeps_features
            found, want = back.search(QUERIES, compare="like"), cluster.search(QUERIES, compare="like")
            assert found.ids.tolist() == want.ids.tolist()


def fill_plain(store: Any) -> None:
    for start in range(0, 300, 50):
        rows = slice(start, start + 50)
        store.ingest(range(start, start + 50), X[rows], Y[rows])


def test_interrupted_repeated_and_changed(tmp_path: Path) -> None:
    engine = LocalEngine()
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), shards=3, policy="never", engine=engine) as cluster:
        fill_plain(cluster)

        def interrupt(name: str, method: str) -> None:
            if (name, method) == ("shard 2", "export"):
                raise KeyboardInterrupt

        engine.before = interrupt
        with pytest.raises(KeyboardInterrupt):
            cluster.export(tmp_path / "e", features=True)
        engine.before = None
        assert not (tmp_path / "e" / "manifest.json").exists()
        with pytest.raises(TableError, match="not complete"):
            HashTable.restore(tmp_path / "e", tmp_path / "t")
        kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "e").glob("shard-0000-part*")}
        assert kept
        cluster.export(tmp_path / "e", features=True)  # goes on
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        manifest = (tmp_path / "e" / "manifest.json").stat().st_mtime_ns
        assert cluster.export(tmp_path / "e", features=True).count == 300  # nothing to do
        assert (tmp_path / "e" / "manifest.json").stat().st_mtime_ns == manifest

        cluster.add(range(300, 400), X[300:400])
        with pytest.raises(TableError, match="holds a complete export already"):
            cluster.export(tmp_path / "e", features=True)
        assert (tmp_path / "e" / "manifest.json").stat().st_mtime_ns == manifest

        engine.before = interrupt
        with pytest.raises(KeyboardInterrupt):
            cluster.export(tmp_path / "f", features=True)
        engine.before = None
        cluster.add(range(400, 500), X[400:500])  # what was exported is of older commits
        assert cluster.export(tmp_path / "f", features=True).count == 500
        with HashTable.restore(tmp_path / "f", tmp_path / "t") as back:
            assert back.digest() == cluster.digest()


def test_an_empty_cluster_and_folders_of_others(tmp_path: Path) -> None:
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), engine=LocalEngine()) as cluster:
        assert cluster.export(tmp_path / "e").count == 0
        with HashTable.restore(tmp_path / "e", tmp_path / "t") as back:
            assert not len(back)
        for name in ("thesis.txt", "shard-0002-part-000000.parquet"):
            (tmp_path / name).mkdir()
            (tmp_path / name / name).touch()
            with pytest.raises(ClusterError, match="has other files"):
                cluster.export(tmp_path / name)
            assert [path.name for path in (tmp_path / name).iterdir()] == [name]
        with pytest.raises(ValueError, match="part_rows"):
            cluster.export(tmp_path / "f", part_rows=0)


@pytest.mark.usefixtures("engine")
def test_the_way_of_the_docs_to_more_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray runs what the page says; the cluster before and after it is opened in this process, without new actors."""
    monkeypatch.chdir(tmp_path)
    with Cluster.open("photos", hasher_of("FCOH"), fields=FIELDS, engine=LocalEngine()) as cluster:
        fill(cluster)
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    (code,) = re.findall(r"^```python\n(from .*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    exec(compile(code, "docs/export.md", "exec"), {})
    with (
        Cluster.open("photos", engine=LocalEngine()) as cluster,
        Cluster.open("photos-6", engine=LocalEngine()) as other,
    ):
        assert (other.config.shards, other.digest()) == (6, cluster.digest())
        assert other.get(range(50)).labels == cluster.get(range(50)).labels
        assert other.search(QUERIES, where={"tenant": "b"}).ids.tolist() == (
            cluster.search(QUERIES, where={"tenant": "b"}).ids.tolist()
        )
