"""Exports that are damaged, or that somebody has made up: a TableError says what is wrong, and there is no table."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.fuzz import model_mutations
from tests.table.export_world import everything

import hashstream as hs
from hashstream.hashers.serialization import to_bytes
from hashstream.table import HashTable, TableError
from hashstream.table.digests import digest_of


@pytest.fixture(scope="module", name="whole")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    with everything(folder / "t") as table:
        table.refresh()
        table.export(folder / "e", features=True, part_rows=80)
    return folder / "e"


@pytest.fixture(name="copy")
def a_copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "e")
    return tmp_path / "e"


def refused(copy: Path) -> str:
    """The sentence of the TableError; nothing is left of the attempt."""
    with pytest.raises(TableError) as caught:
        HashTable.restore(copy, copy.parent / "r")
    assert sorted(path.name for path in copy.parent.iterdir()) == ["e"]
    assert len(str(caught.value)) < 1000
    return str(caught.value)


def names(whole: Path) -> list[str]:
    return sorted(path.name for path in whole.iterdir() if path.name != "manifest.json")


def test_every_file_is_compared_with_its_checksum(copy: Path, whole: Path) -> None:
    assert len(names(whole)) >= 3
    for name in names(whole):
        path, raw = copy / name, (whole / name).read_bytes()
        for at in (0, len(raw) // 2, len(raw) - 1):
            path.write_bytes(raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :])
            assert name in refused(copy)
        path.write_bytes(raw[:-1])
        assert name in refused(copy)
        path.unlink()
        assert f"{name} is missing" in refused(copy)
        os.mkfifo(path)
        assert f"{name} is not a file" in refused(copy)
        path.unlink()
        path.write_bytes(raw)
    HashTable.restore(copy, copy.parent / "r").close()


def test_a_manifest_that_is_cut_or_has_another_byte(copy: Path) -> None:
    path = copy / "manifest.json"
    raw = path.read_bytes()
    for size in range(0, len(raw), len(raw) // 10):
        path.write_bytes(raw[:size])
        assert "manifest.json" in refused(copy)
    path.unlink()
    assert "it has no manifest.json" in refused(copy)
    with pytest.raises(TableError, match="is not an export"):
        HashTable.restore(copy / "no", copy / "r")


def nested(found: dict[str, Any]) -> Any:
    value: Any = 1
    for _ in range(900):
        value = [value]
    return {**found, "settings": value}


MANIFESTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "other format": (lambda found: {**found, "format": "x"}, "not of an export"),
    "later format": (lambda found: {**found, "format_version": 2}, "format 2"),
    "a list": (lambda found: [found], "not of an export"),
    "lacks": (lambda found: {name: one for name, one in found.items() if name != "digest"}, "digest"),
    "more": (lambda found: {**found, "x": 1}, "unexpected keyword"),
    "count": (lambda found: {**found, "count": found["count"] + 1}, "as many rows as it says"),
    "digest": (lambda found: {**found, "digest": "0" * 16}, "not that of its parts"),
    "bits": (lambda found: {**found, "n_bits": 0}, "n_bits is 0"),
    "other bits": (lambda found: {**found, "n_bits": 21}, "codes of another length"),
    "many bits": (lambda found: {**found, "n_bits": 1 << 60}, "n_bits is"),
    "ids": (lambda found: {**found, "ids": "str"}, "ids are of another kind"),
    "dtype": (lambda found: {**found, "dtype": "object"}, "dtype is 'object'"),
    "n_features": (lambda found: {**found, "n_features": 7}, "takes other features"),
    "fields": (lambda found: {**found, "fields": [["id", "str"]]}, "cannot be named 'id'"),
    "kind": (lambda found: {**found, "fields": [["tenant", "int"], *found["fields"][1:]]}, "tenant"),
    "columns": (lambda found: {**found, "columns": {}}, "fields have no columns"),
    "column": (lambda found: {**found, "columns": {**found["columns"], "ok": "no"}}, "has no column no"),
    "settings": (lambda found: {**found, "settings": {"policy": 3}}, "damaged"),
    "policy": (lambda found: {**found, "settings": {"policy": {"name": "x", "settings": {}}}}, "not registered"),
    "nested": (nested, "settings are not there"),
    "sample size": (lambda found: {**found, "sample_size": 1 << 40}, "sample_size is"),
    "comparison": (lambda found: {**found, "comparison": {"choice": "x"}}, "comparison of versions"),
    "version": (lambda found: {**found, "version": 1 << 60}, "version is not one"),
    "no model": (lambda found: {**found, "models": found["models"][:-1]}, "functions are missing"),
    "twice": (lambda found: {**found, "parts": [*found["parts"][:1] * 2]}, "named twice"),
    "outside": (lambda found: edited(found, "parts", file="../../etc/passwd"), "is not a name"),
    "hidden": (lambda found: edited(found, "parts", file="..x"), "is not a name"),
    "rows": (lambda found: edited(found, "parts", rows=-1), "rows of part-000000.parquet are -1"),
    "huge": (lambda found: edited(found, "parts", rows=1 << 40), "rows of part-000000.parquet are"),
    "labels": (lambda found: edited(found, "parts", labels="x"), "labels of"),
    "label": (lambda found: edited(found, "parts", labels="int"), "is not a label of type int"),
    "method": (lambda found: {**found, "method": "LSH"}, "it is not LSH"),
    "functions": (lambda found: edited(found, "models", -1, encoder="0" * 16), "other functions"),
}  # fmt: skip


def edited(found: dict[str, Any], name: str, at: int = 0, **values: Any) -> dict[str, Any]:
    entries = list(found[name])
    entries[at] = {**entries[at], **values}
    return {**found, name: entries}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_somebody_has_made_up(copy: Path, case: str) -> None:
    change, sentence = MANIFESTS[case]
    path = copy / "manifest.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert sentence in refused(copy)


def column(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    """Replace a column."""

    def change(table: pa.Table) -> pa.Table:
        given = values(table) if callable(values) else values
        at = table.schema.get_field_index(name)
        return table.set_column(at, name, given)

    return change


def first(table: pa.Table, name: str, value: Any) -> pa.Array:
    """A column with another first value."""
    return pa.array([value, *table.column(name).to_pylist()[1:]], table.schema.field(name).type)


ROWS: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "fewer rows": (lambda table: table.slice(1), "rows have not the digest of"),
    "no column": (lambda table: table.drop_columns(["code"]), "has no column code"),
    "an id twice": (column("id", lambda t: first(t, "id", t.column("id")[1].as_py())), "more than once"),
    "no id": (column("id", lambda t: first(t, "id", None)), "damaged"),
    "ids of text": (column("id", lambda t: pc.cast(t.column("id"), pa.string())), "another kind"),
    "another version": (column("version", lambda t: first(t, "version", 3)), "codes of another version"),
    "short codes": (column("code", lambda t: pa.array([b"ab"] * len(t), pa.binary(2))), "not codes"),
    "long codes": (column("code", lambda t: first(t, "code", b"\xff" * 3)), "more bits than they should"),
    "text for codes": (column("code", lambda t: pa.array(["abc"] * len(t))), "not codes"),
    "labels of lists": (column("label", lambda t: pa.array([["a"]] * len(t))), "is not a label"),
    "a negative sequence": (column("sequence", lambda t: first(t, "sequence", -3)), "sequence is negative"),
    "a payload": (column("payload", lambda t: first(t, "payload", "[1]")), r"payloads[0] is a list"),
    "no JSON": (column("payload", lambda t: first(t, "payload", "{")), "damaged"),
    "a deep payload": (
        column("payload", lambda t: first(t, "payload", '{"a":' + "[" * 200 + "]" * 200 + "}")), "nested"
    ),
    "positions": (column("position", lambda t: pa.array([0.5] * len(t))), "positions are not numbers"),
    "a gap in positions": (column("position", lambda t: first(t, "position", None)), "positions"),
    "few features": (
        column("features", lambda t: pa.array([[1.0]] * len(t), pa.list_(pa.float32(), 1))), "1 numbers"
    ),
    "doubles": (
        column("features", lambda t: pa.array([[1.0] * 6] * len(t), pa.list_(pa.float64(), 6))), "features"
    ),
    "NaN": (column("features", lambda t: first(t, "features", [np.nan] * 6)), "NaN or infinity"),
    "a bool": (column("ok", lambda t: pa.array([3] * len(t))), "'ok', row 0"),
    "a moment": (column("taken", lambda t: pa.array(["yesterday"] * len(t))), "'taken', row 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_a_part_that_somebody_has_made_up(copy: Path, case: str) -> None:
    """With the right checksum, and the right digest of its ids and codes where there are any."""
    change, sentence = ROWS[case]
    part, path = copy / "part-000000.parquet", copy / "manifest.json"
    table = change(pq.read_table(part))
    pq.write_table(table, part)
    found = json.loads(path.read_text())
    entry = found["parts"][0]
    entry |= {"bytes": part.stat().st_size, "sha256": hashlib.sha256(part.read_bytes()).hexdigest()}
    if case == "an id twice":
        ids, codes = table.column("id").to_numpy(), table.column("code").to_pylist()
        digest = digest_of(
            ids, np.frombuffer(b"".join(codes), np.uint8).reshape(len(ids), -1), entry["version"]
        )
        total = int(found["digest"], 16) - int(entry["digest"], 16) + digest
        entry["digest"], found["digest"] = f"{digest:016x}", f"{total % (1 << 64):016x}"
    path.write_text(json.dumps(found))
    assert sentence in refused(copy)


@pytest.mark.parametrize(
    ("hasher", "sentence"),
    [
        (hs.FCOH(n_bits=24, random_state=0), "codes of another length"),
        (hs.FCOH(n_bits=20, random_state=0), "is of version"),
        (b"no hasher", "is not a saved hasher"),
    ],
)
def test_functions_that_somebody_has_made_up(copy: Path, hasher: Any, sentence: str) -> None:
    model = max(copy.glob("model-*.safetensors"))
    if isinstance(hasher, bytes):
        model.write_bytes(hasher)
    else:
        hs.save(hasher.fit(np.eye(6, dtype=np.float32), list("ababab")), model)
    path = copy / "manifest.json"
    found = json.loads(path.read_text())
    (entry,) = (one for one in found["models"] if one["file"] == model.name)
    entry |= {"bytes": model.stat().st_size, "sha256": hashlib.sha256(model.read_bytes()).hexdigest()}
    path.write_text(json.dumps(found))
    assert sentence in refused(copy)


@pytest.fixture(scope="module", name="adopted")
def an_export_of_an_adopted_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adopted")
    X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    with HashTable.open(folder / "t", hs.RidgeHash(n_bits=8, random_state=0)) as table:
        table.ingest(range(40), X, [0, 1] * 20)
        other = hs.FCOH(n_bits=8, random_state=0).partial_fit(X, [0, 1] * 20)
        other.version_ = table.version + 1
        table.adopt(other)
        table.export(folder / "e", features=True)
    return folder / "e"


def replace_created(copy: Path, raw: bytes) -> None:
    """Put another hasher of the creation into an export, with the right checksum."""
    (copy / "created.safetensors").write_bytes(raw)
    path = copy / "manifest.json"
    found = json.loads(path.read_text())
    found["created"] |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    path.write_text(json.dumps(found))


def unknown(raw: bytes, **changes: Any) -> bytes:
    """A hasher of a method that is not known here."""
    parts = model_mutations.opened(raw)
    card = parts.card["hasher"]
    card["object"] = "Unknown"
    card["parameters"] |= changes.pop("parameters", {})
    card |= changes
    return model_mutations.sealed(parts)


RIDGE = hs.RidgeHash(n_bits=8, random_state=0)
CREATED: dict[str, tuple[bytes, str]] = {
    "junk": (np.random.default_rng(0).bytes(400), "is not a saved hasher"),
    "nothing": (b"", "is not a saved hasher"),
    "other bits": (to_bytes(hs.RidgeHash(n_bits=64)), "codes of another length"),
    "learned": (to_bytes(RIDGE.copy().fit(np.eye(6), [0, 1] * 3)), "learned something"),
    "unknown, other bits": (unknown(to_bytes(RIDGE), parameters={"n_bits": 64}), "codes of another length"),
    "unknown, learned": (unknown(to_bytes(RIDGE), state={"n_seen_": 3}), "learned something"),
    "unknown, no state": (unknown(to_bytes(RIDGE), state=None), "unknown entry"),
    "unknown, bits of text": (unknown(to_bytes(RIDGE), parameters={"n_bits": "8"}), "codes of another length"),
}  # fmt: skip


@pytest.mark.parametrize("case", CREATED)
def test_a_hasher_of_the_creation_that_somebody_has_made_up(adopted: Path, tmp_path: Path, case: str) -> None:
    raw, sentence = CREATED[case]
    copy = tmp_path / "e"
    shutil.copytree(adopted, copy)
    replace_created(copy, raw)
    said = refused(copy)
    assert "created.safetensors" in said
    assert sentence in said


def test_a_hasher_of_the_creation_may_be_of_an_unknown_method(adopted: Path, tmp_path: Path) -> None:
    shutil.copytree(adopted, tmp_path / "e")
    replace_created(tmp_path / "e", unknown(to_bytes(RIDGE)))
    with HashTable.restore(tmp_path / "e", tmp_path / "r") as table:
        assert table.check()


def test_a_hasher_of_the_creation_with_other_bytes(adopted: Path, tmp_path: Path) -> None:
    """What is restored works: it is opened by the call that is described there, or that is refused as another."""
    shutil.copytree(adopted, tmp_path / "e")
    raw, rng = (adopted / "created.safetensors").read_bytes(), np.random.default_rng(7)
    said: list[str] = []
    for case in range(60):
        replace_created(tmp_path / "e", model_mutations.mutated(raw, rng)[0])
        try:
            table = HashTable.restore(tmp_path / "e", tmp_path / f"r{case}")
        except TableError as error:
            said.append(str(error))
            continue
        with table:
            table.check()
            with suppress(TableError):
                HashTable.open(table.path, RIDGE, mode="read").close()
    assert 0 < len(said) < 60
    assert all("created.safetensors" in one for one in said)


def test_a_folder_that_cannot_be_written(whole: Path) -> None:
    with pytest.raises(TableError, match="cannot be written"):
        HashTable.restore(whole, whole / "manifest.json" / "r")
