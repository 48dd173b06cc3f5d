"""Export to Parquet and back: a round trip of everything, and files that other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.table.export_world import LABELS, D, contents, everything, label_values, same_functions

import hashstream as hs
from hashstream.table import HashTable, Projected, TableError
from hashstream.table.export.columns import column_names
from hashstream.table.export.manifest import join_manifests, read_manifest
from hashstream.table.export.reading import Exported
from hashstream.table.export.writing import ExportProgress


def without_features(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "features": None}


@pytest.mark.thinned("values")
@pytest.mark.parametrize(
    ("ids", "labels"), [("int", "str"), ("str", "int"), ("int", "json"), ("str", "matrix")]
)
def test_everything_comes_back_with_features(tmp_path: Path, ids: str, labels: str) -> None:
    with everything(tmp_path / "t", ids=ids, labels=labels if labels != "json" else "str") as table:
        if labels == "json":  # of several types, which a hasher does not learn together
            X = np.zeros((4, D), np.float32)
            table.add([f"x{i}" if ids == "str" else 900 + i for i in range(4)], X, label_values("json", 4))
        manifest = table.export(tmp_path / "e", features=True, part_rows=50)
        assert manifest.parts[0].labels == labels
        assert int(manifest.digest, 16) == table.digest()
        assert manifest.commit == table.commits
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == contents(table)
            assert len(set(contents(table)["versions"])) > 2
            assert back.settings == table.settings
            assert same_functions(back, table, "str" if labels == "json" else labels)
            assert back.check(1000)["codes"] == len(table)
            assert back.refresh() == table.refresh() > 0
            assert back.digest() == table.digest()
            more = np.full((4, D), 0.5, np.float32)
            new = [f"y{i}" if ids == "str" else 990 + i for i in range(4)]
            for one in (back, table):
                one.ingest(new, more, label_values("str" if labels == "json" else labels, 4))
            assert contents(back) == contents(table)
    with HashTable.open(tmp_path / "r") as again:
        assert len(again) == manifest.count + 4


@pytest.mark.parametrize("labels", ["float", "bool"])
def test_everything_but_features_comes_back_without_them(tmp_path: Path, labels: str) -> None:
    with everything(tmp_path / "t", labels=labels) as table:
        table.export(tmp_path / "e")
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == without_features(contents(table, features=False))
            assert not back.keeps_features
            assert back.settings.policy == Projected()
            assert back.sample_ids().tolist() == table.sample_ids().tolist()
            assert back.refresh() > 0  # from codes, by the sample
            assert same_functions(back, table, labels)


def test_a_table_without_features_is_the_same_afterwards(tmp_path: Path) -> None:
    with everything(tmp_path / "t", keep_features=False) as table:
        with pytest.raises(TableError, match="keeps no features"):
            table.export(tmp_path / "e", features=True)
        table.export(tmp_path / "e")
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == contents(table)
            assert back.refresh() == table.refresh()
            assert contents(back) == contents(table)


def test_what_was_learned_from_labels_is_known_afterwards(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, D))
    with HashTable.open(tmp_path / "t", hs.RidgeHash(n_bits=16, random_state=0)) as table:
        table.ingest(range(20), X[:20], [0, 1] * 10)
        table.add(range(20, 30), X[20:], [0, 1] * 5)  # labels that were not learned
        table.export(tmp_path / "e", features=True)
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            for one in (table, back):
                assert one.label(range(30), [1, 0] * 15) == 30  # corrected, where they were learned
            assert back.digest() == table.digest()
            assert (back.hasher.transform(X) == table.hasher.transform(X)).all()


@pytest.mark.parametrize("learned", [False, True])
def test_a_table_without_items(tmp_path: Path, learned: bool) -> None:
    hasher = hs.LSH(n_bits=8, random_state=0)
    if learned:
        hasher.fit(np.zeros((2, D), np.float32))
    with HashTable.open(tmp_path / "t", hasher, fields={"a": str}) as table:
        manifest = table.export(tmp_path / "e", features=True)
        assert (manifest.count, manifest.parts, manifest.ids) == (0, (), None)
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert (len(back), back.fields, back.n_features) == (0, {"a": "str"}, D if learned else None)
            back.add([1], np.ones((1, D), np.float32))


def test_a_table_in_memory(tmp_path: Path) -> None:
    with everything(None) as table:
        table.export(tmp_path / "e", features=True)
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == contents(table)


def test_others_read_the_files(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table:
        table.export(tmp_path / "e", features=True, part_rows=30)
        held = table.get(table.ids())
    frame = pd.concat(pd.read_parquet(path) for path in sorted((tmp_path / "e").glob("part-*.parquet")))
    frame = frame.sort_values("position")
    assert frame["id"].tolist() == held.ids.tolist()
    assert frame["version"].tolist() == held.versions.tolist()
    assert b"".join(frame["code"]) == held.codes.tobytes()
    assert [None if pd.isna(one) else one for one in frame["label"]] == held.labels
    assert np.stack(frame["features"].tolist()).tolist() == held.features.tolist()
    assert [None if pd.isna(one) else json.loads(one) for one in frame["payload"]] == held.payloads
    assert [-1 if pd.isna(one) else one for one in frame["sequence"]] == held.sequences.tolist()
    assert [None if pd.isna(one) else one for one in frame["field.code"]] == held.fields["code"]
    assert frame["taken"].tolist()[0] == "0001-01-01T00:00:00"  # text, since only some have a zone
    schema = pq.read_schema(tmp_path / "e" / "part-000000.parquet")
    assert str(schema.field("code").type) == "fixed_size_binary[3]"
    assert pq.read_metadata(tmp_path / "e" / "part-000000.parquet").num_rows <= 30
    model = hs.load(tmp_path / "e" / f"model-v{max(held.versions):012d}.safetensors")
    current = held.versions == max(held.versions)
    assert (model.transform(held.features[current]) == held.codes[current]).all()


def test_codes_of_an_export(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table:
        table.export(tmp_path / "e", part_rows=30)
        exported, digest = Exported(tmp_path / "e"), table.digest()
        assert exported.digest() == digest
        pieces = list(exported.codes())
        held = table.get(table.ids())
        assert sum(len(piece.ids) for piece in pieces) == len(exported) == len(table)
        known = {
            one: (code.tolist(), v) for one, code, v in zip(held.ids, held.codes, held.versions, strict=True)
        }
        for piece in pieces:
            for one, code in zip(piece.ids.tolist(), piece.codes.tolist(), strict=True):
                assert known[one] == (code, piece.version)
        for version, encoder in exported.encoders.items():
            at = held.versions == version
            assert (encoder.encode(held.features[at]) == held.codes[at]).all()


def test_exports_of_shards_are_joined(tmp_path: Path) -> None:
    hasher = hs.FCOH(n_bits=20, random_state=0).fit(np.eye(D, dtype=np.float32), list("abcdef"))
    X = np.random.default_rng(0).normal(size=(60, D)).astype(np.float32)
    with HashTable.open(None, hasher) as whole:
        whole.add(range(60), X)
        for shard in range(3):
            with HashTable.open(tmp_path / f"s{shard}", hasher, fields={"tenant": str}) as table:
                at = np.arange(60)[np.arange(60) % 2 == shard]  # none for the last one
                if len(at):
                    table.add(at, X[at], at % 4, fields={"tenant": ["a"] * len(at)})
                table.export(tmp_path / "e", prefix=f"shard-{shard}-", part_rows=20)
        joined = join_manifests(tmp_path / "e", [f"shard-{shard}-manifest.json" for shard in range(3)])
        assert joined == read_manifest(tmp_path / "e")
        assert (joined.count, int(joined.digest, 16)) == (60, whole.digest())
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert sorted(back.ids().tolist()) == list(range(60))
            assert back.digest() == whole.digest()
            assert len(back.sample_ids()) == 60
            distances, _ = whole.search(X[:10], k=5)
            assert (back.search(X[:10], k=5).distances == distances).all()


def test_shards_of_other_tables_are_not_joined(tmp_path: Path) -> None:
    for shard in range(2):
        with HashTable.open(None, hs.LSH(n_bits=8, random_state=shard)) as table:
            table.add([shard], np.ones((1, D)))
            table.export(tmp_path / "e", prefix=f"{shard}-")
    with pytest.raises(ValueError, match="different functions under version 0"):
        join_manifests(tmp_path / "e", ["0-manifest.json", "1-manifest.json"])
    assert not (tmp_path / "e" / "manifest.json").exists()


def test_a_reader_exports_one_commit_while_another_table_writes(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table, HashTable.open(tmp_path / "t", mode="read") as reader:
        before = contents(table)

        def write(step: ExportProgress) -> None:
            table.add([5000 + step.rows], np.ones((1, D), np.float32))

        reader.export(tmp_path / "e", features=True, part_rows=40, progress=write)
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == before


def test_a_compaction_meanwhile_starts_it_again(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table, HashTable.open(tmp_path / "t", mode="read") as reader:
        steps = []

        def compact(step: ExportProgress) -> None:
            steps.append(step)
            if step.rows:
                table.compact()

        reader.export(tmp_path / "e", features=True, part_rows=40, progress=compact)
        assert any(step.restarted for step in steps)
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == contents(table)


def test_text_that_utf8_cannot_write_is_refused(tmp_path: Path) -> None:
    with HashTable.open(None, hs.LSH(n_bits=8, random_state=0), fields={"a": str}) as table:
        table.add([1], np.ones((1, D)), fields={"a": ["\ud800"]})
        with pytest.raises(TableError, match=r"a holds .* which UTF-8 cannot write"):
            table.export(tmp_path / "e")
    assert not list((tmp_path / "e").glob("*.parquet*"))


def test_names_of_columns() -> None:
    assert column_names(["Code", "field.Code", "x"]) == {
        "Code": "field.field.Code",
        "field.Code": "field.Code",
        "x": "x",
    }


def test_labels_are_of_all_kinds() -> None:
    assert set(LABELS) == {"str", "int", "float", "bool", "json", "matrix"}


def test_joined_shards_have_the_payloads_and_the_order_of_one_table(tmp_path: Path) -> None:
    """Only one shard has payloads; ties are ranked by sequence numbers, as those of one table by position."""
    X = np.ones((40, D), np.float32)  # equal codes
    hasher = hs.LSH(n_bits=8, random_state=0)
    numbers = np.random.default_rng(0).permutation(40)
    names = []
    for shard in range(2):
        with HashTable.open(tmp_path / f"s{shard}", hasher) as table:
            at = np.sort(numbers[shard::2])
            payloads = [{"at": int(i)} for i in at] if shard else None
            table.add(at, X[at], payloads=payloads, sequence=at)
            table.export(tmp_path / "e", prefix=f"shard-{shard}-", features=True, part_rows=7)
            names.append(f"shard-{shard}-manifest.json")
    joined = join_manifests(tmp_path / "e", names)
    assert joined.has == ("payload", "sequence")
    with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
        assert back.ids().tolist() == list(range(40))
        assert back.search(X[:1], k=40).ids.tolist() == [list(range(40))]
        items = back.get(range(40))
        assert items.payloads == [{"at": i} if i in numbers[1::2] else None for i in range(40)]
        assert items.sequences.tolist() == list(range(40))
