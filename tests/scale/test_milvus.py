"""Codes in Milvus, against a real server: exported, verified, switched, searched; a killed writer; readers through
switches."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pages import run_page
from tests.scale.milvus_switching import World, switching
from typer.testing import CliRunner

import hashstream as hs
from hashstream import cli, hamming
from hashstream.scale.milvus import MilvusError, MilvusExport, MilvusReader
from hashstream.scale.milvus_collections import Collection, Functions
from hashstream.scale.milvus_rows import Rows, check_ids
from hashstream.table import Exported, HashTable

D = 6
ODD = ["", "a\"b'", "ü\\n", "nul\0x", "%_", "😀", "x" * 500]


@pytest.fixture(name="name")
def a_name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture(autouse=True)
def unsealed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave segments as they are: sealing takes some seconds for each export, however few its rows."""
    if "seal" not in request.node.name:
        monkeypatch.setattr(Rows, "seal", lambda self: None)


def table_of(folder: Path, ids: Any, *, seed: int = 0) -> HashTable:
    table = HashTable.open(folder / "t", hs.FCOH(n_bits=20, random_state=seed), policy="never")
    X = np.random.default_rng(1).normal(size=(len(ids), D)).astype(np.float32)
    table.ingest(ids, X, np.arange(len(ids)) % 3)
    return table


def right(reader: MilvusReader, table: HashTable) -> bool:
    """Whether a reader answers like a table: equal distances, of ids that are so far away."""
    Q = np.random.default_rng(2).normal(size=(5, D)).astype(np.float32)
    found, wanted = reader.search(Q, 7), table.search(Q, 7)
    codes, mine = table.get(found.ids.ravel()).codes, table.hasher.transform(Q)
    far = np.stack([hamming.distances(mine[i : i + 1], codes[7 * i : 7 * i + 7])[0] for i in range(5)])
    assert found.version == table.version
    return np.array_equal(found.distances, wanted.distances) and np.array_equal(far, found.distances)


def test_the_page_runs(milvus_uri: str, name: str, tmp_path: Path) -> None:
    instead = {
        "http://127.0.0.1:19530": milvus_uri,
        '"photos"': repr(name),
        "photos-models": str(tmp_path / "models"),
    }
    run_page("milvus.md", **instead)


def test_a_table_is_moved_there_and_on(milvus_uri: str, name: str, tmp_path: Path) -> None:
    least = -(2**63)
    with (
        table_of(tmp_path, [least, *range(200)]) as table,
        MilvusExport(milvus_uri, name, tmp_path / "m") as export,
    ):
        with pytest.raises(MilvusError, match="export a table first"):
            export.add([1], np.ones((1, D)))
        steps: list[int] = []
        first = export.move(table, steps.append)
        assert (first.count, first.digest, steps[-1]) == (201, table.digest(), 201)
        assert export.versions() == {table.version: True}
        reader = MilvusReader(milvus_uri, name, tmp_path / "m", cache_seconds=0.0)
        assert right(reader, table)
        more = np.random.default_rng(3).normal(size=(50, D)).astype(np.float32)
        table.ingest(range(300, 350), more, np.arange(50) % 3)
        with pytest.raises(ValueError, match=f"codes of version {first.version}, but the current"):
            export.export(table)
        table.refresh()
        second = export.export(table)
        assert export.versions() == {first.version: True, second.version: False}
        # New items go to both, each encoded by its functions.
        table.add([999], more[:1])
        assert export.add([999], more[:1]) == [first.version, second.version]
        with pytest.raises(MilvusError, match=r"has 252 items, .* but there should be 251"):
            export.verify(second)
        filled = export.verify(table)
        assert (filled.count, filled.digest) == (252, table.digest())
        assert reader.search(more[:1], 1).version == first.version
        assert 999 in reader.search(more[:1], 50).ids
        assert export.switch(second.version) == first.version
        assert right(reader, table)
        table.remove([999, 5, least])
        assert export.remove([999, 5, least]) == [second.version]
        export.verify(table)
        with pytest.raises(MilvusError, match="is in use"):
            export.drop(second.version)
        assert export.drop_old(0) == [first.version]
        assert export.versions() == {second.version: True}
        assert export.drop_old(0) == []
        with pytest.raises(MilvusError, match="there is no collection"):
            export.switch(first.version)
        with pytest.raises(ValueError, match="occur more than once"):
            export.add([1, 1], more[:2])
        with pytest.raises(ValueError, match="1 ids, but X has 2 rows"):
            export.add([1], more[:2])
        export.verify(table)


def test_exported_codes_are_sealed(milvus_uri: str, name: str, tmp_path: Path) -> None:
    """Milvus indexes sealed segments only."""
    import pymilvus

    with table_of(tmp_path, range(200)) as table, MilvusExport(milvus_uri, name, tmp_path / "m") as export:
        filled = export.export(table)
        client = pymilvus.MilvusClient(milvus_uri)
        segments = client.list_persistent_segments(f"{name}__v{filled.version:012d}")
        assert [(one.num_rows, one.state_name) for one in segments] == [(200, "Flushed")]
        client.close()


def test_an_export_is_moved_there_with_ids_of_text(milvus_uri: str, name: str, tmp_path: Path) -> None:
    ids = [*ODD, *(f"item {i}" for i in range(100))]
    with table_of(tmp_path, ids) as table:
        table.export(tmp_path / "e", part_rows=60)
        source = Exported(tmp_path / "e")
        with MilvusExport(milvus_uri, name, tmp_path / "m") as export:
            filled = export.move(source)
            assert (filled.count, filled.digest) == (len(ids), table.digest())
            assert export.remove(ODD) == [filled.version]
            with pytest.raises(MilvusError, match="there should be 107"):
                export.verify(source)
            assert export.export(source) == export.verify(table) == filled
        with MilvusReader(milvus_uri, name, tmp_path / "e") as reader:  # whose folder has the functions, too
            assert right(reader, table)
        with MilvusReader(milvus_uri, name, table.hasher) as reader:
            assert right(reader, table)
        other = hs.FCOH(n_bits=20, random_state=9).fit(np.eye(D), list("aabbcc"))
        with (
            MilvusReader(milvus_uri, name, other) as reader,
            pytest.raises(MilvusError, match="hash functions of"),
        ):
            reader.search(np.ones((1, D)))


def test_names_that_others_use(
    milvus_uri: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with MilvusExport(milvus_uri, name, tmp_path / "m") as export:
        with (
            table_of(tmp_path / "a", range(10)) as table,
            table_of(tmp_path / "b", range(10), seed=1) as other,
        ):
            assert table.version == other.version
            export.export(table)
            with pytest.raises(MilvusError, match="codes of other functions"):
                export.export(other)
            with (
                MilvusReader(milvus_uri, name, tmp_path / "m") as reader,
                pytest.raises(MilvusError, match="no alias"),
            ):
                reader.search(np.ones((1, D)))
            version, waited = export.export(table).version, []
            with monkeypatch.context() as patched:
                patched.setattr("hashstream.scale.milvus.time.sleep", waited.append)
                export.drop(version)
            assert waited == [60.0]  # readers may have it in their caches
        import pymilvus

        client = pymilvus.MilvusClient(milvus_uri)
        client.create_collection(name, dimension=8)
        with pytest.raises(MilvusError, match="another collection than this project makes"):
            export.versions()
        client.drop_collection(name)
        with (
            HashTable.open(None, hs.LSH(n_bits=8)) as empty,
            pytest.raises(ValueError, match="nothing to export"),
        ):
            export.export(empty)
    with pytest.raises(MilvusError, match="does not answer; is Milvus running there"):
        MilvusExport("http://127.0.0.1:1", name, tmp_path / "m", timeout=2)


def test_a_writer_that_is_killed_half_way(milvus_uri: str, name: str, tmp_path: Path) -> None:
    with table_of(tmp_path, range(3000)) as table, MilvusExport(milvus_uri, name, tmp_path / "m") as export:
        table.flush()
        child = [sys.executable, "-m", "tests.scale.milvus_child", milvus_uri, name, str(tmp_path / "t")]
        child.append(str(tmp_path / "m"))
        ended = subprocess.run([*child, "1500"], check=False, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert list(export.versions().values()) == [False]  # readers see nothing of it
        with pytest.raises(MilvusError, match=r"1,500 .* but there should be 3,000"):
            export.verify(table)
        ended = subprocess.run([*child, "0"], check=False, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        found = export.verify(table)
        assert (found.count, found.digest) == (3000, table.digest())
        with MilvusReader(milvus_uri, name, tmp_path / "m") as reader:
            assert right(reader, table)


def test_readers_through_switches_mix_nothing(milvus_uri: str, name: str, tmp_path: Path) -> None:
    counts = switching(
        milvus_uri, name, tmp_path, lambda found: found["answers"] >= 1000 and found["switches"] >= 3
    )
    assert set(counts) == {"answers", "switches"}, counts
    assert counts["answers"] >= 1000


def test_a_mixed_answer_would_be_noticed(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.table.hasher
    world.learn()
    codes = world.table.get(np.arange(len(world.X))).codes
    for hasher, expected in ((world.table.hasher, [world.table.version]), (first, [])):
        distances, ids = hamming.topk(hasher.transform(world.Q), codes, 10)
        assert world.versions_of(distances, ids) == expected
    world.table.close()


def test_ids_that_milvus_cannot_hold() -> None:
    with pytest.raises(ValueError, match="9223372036854775807 cannot be exported"):
        check_ids(np.array([1, 2**63 - 1]))
    with pytest.raises(ValueError, match="65,535 bytes"):
        check_ids(np.array(["ü" * 40_000], object))


def test_names() -> None:
    names: list[Any] = ["", "1", "a b", "a__v1", "ä", None, 5, b"a", ["a"]]
    for name in names:
        for kind in (MilvusReader, MilvusExport):
            with pytest.raises(ValueError, match="name must be"):
                kind("http://127.0.0.1:1", name, ".")


def test_functions_are_found_by_their_digest(tmp_path: Path) -> None:
    one, other = (hs.LSH(n_bits=8, random_state=seed).fit(np.eye(D)) for seed in range(2))
    functions = Functions(tmp_path)
    functions.save(one)
    functions.save(other)
    functions.save(other)
    (a, b) = sorted(tmp_path.iterdir())
    digests = {path.name[-28:-12] for path in (a, b)}
    for digest in digests:
        found = Functions(tmp_path).of(Collection("x", 0, digest, 8))
        assert Functions([one, other]).of(Collection("x", 0, digest, 8)).transform(np.eye(D)).tolist() == (
            found.transform(np.eye(D)).tolist()
        )
    with pytest.raises(MilvusError, match="copy their file there"):
        Functions(tmp_path).of(Collection("x", 1, "0" * 16, 8))
    a.write_bytes(b"x")
    with pytest.raises(MilvusError, match="is not a saved hasher"):
        Functions(tmp_path).of(Collection("x", 0, "0" * 16, 8))


def test_the_command_line(
    milvus_uri: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HASHSTREAM_MILVUS_URI", milvus_uri)
    with table_of(tmp_path, range(40)) as table:
        version, digest = table.version, f"{table.digest():016x}"
        Q = table.get([3, 4]).features
    np.save("q.npy", Q)
    assert f"40 items of version {version}" in (said := command("export", "t", name))
    assert digest in said
    assert f"switch {name} {version}" in said
    assert "no alias" in command("search", name, "q.npy", code=2)
    assert f"leads to version {version}." in command("switch", name, version)
    assert f"OK: 40 items of version {version}, digest {digest}." in command("verify", "t", name)
    answers = [json.loads(line) for line in command("search", name, "q.npy", "-k", 2).splitlines()]
    assert [len(one["ids"]) for one in answers] == [2, 2]
    assert [one["distances"][0] for one in answers] == [0, 0]
    assert "Written to a.csv" in command("search", name, "q.npy", "--first", 1, "--out", "a.csv")
    assert Path("a.csv").read_text().count("\n") == 11
    assert f"Dropped: none. In use: version {version}." in command("drop", name, "--wait", 0)
    with HashTable.open("t") as table:
        table.add([99], Q[:1])
    assert "but there should be 41" in command("verify", "t", name, code=1)
    assert "there is no collection" in command("switch", name, 5, code=2)
    assert "does not exist" in command("export", "no", name, code=2)


def command(*arguments: Any, code: int = 0) -> str:
    result = CliRunner().invoke(cli.app, ["milvus", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stderr if code else result.output
