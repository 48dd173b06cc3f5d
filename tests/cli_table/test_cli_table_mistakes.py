"""`hashstream table` and what people get wrong: each time a sentence that says what, where and what is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli_table.commands import X, Y, in_an_empty_folder, items, table, table_of_digits  # noqa: F401 (fixtures)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_file_of_something_else_is_not_advised_to_be_unpickled(suffix: str) -> None:
    table("create", "t")
    Path(f"text.{suffix}").write_text("hello")
    said = table("ingest", "t", f"text.{suffix}", code=2)
    assert f"text.{suffix} is not a valid .{suffix} file (" in said
    assert "pickle" not in said
    objects = np.array([[1, "a"]], dtype=object)
    np.save("objects.npy", objects, allow_pickle=True)
    np.savez("objects.npz", x=objects, allow_pickle=True)
    said = table("ingest", "t", f"objects.{suffix}", code=2)
    assert "pickle" not in said
    assert "Python objects" in said or "object, but they have to be numbers" in said


def test_files_without_rows() -> None:
    table("create", "t")
    np.savez("rows.npz", x=X[:0], y=Y[:0])
    Path("rows.csv").write_text("id,a,b,label\n")
    for name in ("rows.npz", "rows.csv"):
        assert f"{name} has no rows" in table("ingest", "t", name, code=2)
        assert f"{name} has no rows" in table("search", "t", name, code=2)


def test_a_row_is_no_line_of_names() -> None:
    table("create", "t")
    Path("rows.csv").write_text("a,1.0,1.0,3\nb,1.5,2.5,4\n")
    said = table("ingest", "t", "rows.csv", code=2)
    assert "rows.csv has more than one column '1.0'. If its first line is a row: --no-header" in said


def test_a_row_without_an_id_is_named() -> None:
    table("create", "t")
    pq.write_table(pa.table({"id": [1, None, 2], "label": [1, 1, 2], "x": list(X[:3])}), "rows.parquet")
    assert "rows.parquet: row 1 has no id. Every row needs one" in table(
        "ingest", "t", "rows.parquet", code=2
    )


def test_a_number_that_is_none_is_named_by_its_row_in_the_file(digits: Path) -> None:
    bad = X[:500].copy()
    bad[333, 5] = np.nan
    np.savez("bad.npz", x=bad, y=Y[:500], ids=np.arange(2000, 2500))
    said = "bad.npz: feature 5 of row 333 is nan: each has to be a finite number"
    assert said in table("ingest", "t", "bad.npz", "--batch", 100, code=2)
    assert said in table("search", "t", "bad.npz", code=2)
    bad[333, 5] = -np.inf
    np.savez("bad.npz", x=bad, y=Y[:500], ids=np.arange(2000, 2500))
    assert said.replace("nan", "-inf as float32") in table("ingest", "t", "bad.npz", "--batch", 100, code=2)


def test_a_method_that_is_not_there() -> None:
    said = table("create", "t", "--method", "FOCH", code=2)
    assert "there is no method FOCH: choose from FCOH," in said
    assert "module:Class" not in said  # which `create` would refuse


def test_searching_an_empty_table_says_so_once() -> None:
    table("create", "t")
    np.save("rows.npy", X[:30])
    said = table("search", "t", "rows.npy")
    assert said == "t is empty: fill it with `hashstream table ingest t FILE`"
    assert table("search", "t", "rows.npy", "--json").count('"ids": []') == 30
    assert "t is empty, so nothing is like 3" in table("search", "t", "--like", 3, code=2)


def test_labels_as_bytes_are_text() -> None:
    table("create", "t")
    np.savez("rows.npz", x=X[:40], y=np.array([b"cat", b"dog"] * 20))
    table("ingest", "t", "rows.npz")
    assert items()[0][1] == "cat"
    pq.write_table(pa.table({"id": [0], "label": ["caf\u00e9".encode()], "x": list(X[:1])}), "rows.parquet")
    table("ingest", "t", "rows.parquet")
    assert items()[0][1] == "caf\u00e9"


def test_check_without_features_does_not_claim_to_have_made_codes() -> None:
    table("create", "t", "--no-features")
    np.savez("rows.npz", x=X[:40], y=Y[:40])
    table("ingest", "t", "rows.npz")
    assert "no code was made again, since no features are kept" in table("check", "t")


def test_ids_to_remove(digits: Path) -> None:
    assert "there is no file none.txt" in table("remove", "t", "--ids", "none.txt", code=2)
    assert "there is no file none.npy" in table("remove", "t", "--ids", "none.npy", code=2)
    assert "first.npz ends in .npz: ids are an .npy file, or text with one a line" in table(
        "remove", "t", "--ids", "first.npz", code=2
    )
    Path("bytes.txt").write_bytes(bytes(range(128, 256)))
    assert "bytes.txt cannot be read as text in UTF-8" in table("remove", "t", "--ids", "bytes.txt", code=2)
    np.save("rows.npy", X[:30])
    said = table("remove", "t", "--ids", "rows.npy", code=2)
    assert "rows.npy has shape (30, 64) and holds float32: ids are one row of whole numbers or text" in said
    assert "1 item removed, 999 are left." in table("remove", "t", 3)
    assert "1 query against 999 items" in table("search", "t", "--like", "4,", "-k", 1)
