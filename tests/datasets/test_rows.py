"""Files in pieces: every format gives the same rows, bad files are refused with a sentence."""

from __future__ import annotations

import csv
import io
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hashstream.datasets import DatasetError, open_rows
from hashstream.datasets.rows import ArrayRows

N, D = 23, 5


@pytest.fixture
def world() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)).astype(np.float32)
    return X, np.array([f"item-{i}" for i in range(N)], object), rng.integers(3, size=N)


def write_csv(path: Path, head: list[str] | None, rows: list[list[Any]], between: str = ",") -> Path:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=between, lineterminator="\n")
    if head is not None:
        writer.writerow(head)
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


def joined(path: Path, size: int = 4, **options: Any) -> tuple[np.ndarray, Any, Any]:
    """All pieces put together; on the way, that they come in order and say how far they are."""
    source = open_rows(path, **options)
    pieces = list(source.pieces(size))
    assert all(len(piece) <= size for piece in pieces)
    assert [piece.first for piece in pieces] == np.cumsum([0, *(len(p) for p in pieces[:-1])]).tolist()
    read = [piece.read for piece in pieces]
    assert read == sorted(read)
    assert read[-1] == source.total
    X, ids, y = (
        None if getattr(pieces[0], name) is None else np.concatenate([getattr(p, name) for p in pieces])
        for name in ("X", "ids", "y")
    )
    assert X is not None
    assert source.d == X.shape[1]
    assert source.has_ids == (ids is not None)
    assert source.has_labels == (y is not None)
    return X, ids, y


def written(folder: Path, world: tuple[np.ndarray, np.ndarray, np.ndarray], how: str) -> Path:
    X, ids, y = world
    names = [f"f{i}" for i in range(D)]
    if how in ("csv", "tsv"):
        rows = [[one, *map(repr, x.tolist()), label] for one, x, label in zip(ids, X, y, strict=True)]
        return write_csv(folder / f"rows.{how}", ["id", *names, "label"], rows, "," if how == "csv" else "\t")
    if how == "npy":
        np.save(folder / "rows.npy", X)
        np.save(folder / "rows.ids.npy", ids.astype(str))
        np.save(folder / "rows.labels.npy", y)
        return folder / "rows.npy"
    if how.startswith("npz"):
        save = np.savez_compressed if how == "npz compressed" else np.savez
        save(
            folder / "rows.npz",
            x=np.asfortranarray(X) if how == "npz columns" else X,
            ids=ids.astype(str),
            y=y,
        )
        return folder / "rows.npz"
    columns: dict[str, Any] = {"id": ids.tolist(), "label": y}
    if how == "parquet columns":
        columns |= {name: X[:, i] for i, name in enumerate(names)}
    elif how == "parquet lists":
        columns["embedding"] = list(X)
    else:
        columns["features"] = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), D)
    pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=7)
    return folder / "rows.parquet"


@pytest.mark.thinned("values")
@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    "how",
    ["csv", "tsv", "npy", "npz", "npz compressed", "npz columns"]
    + ["parquet columns", "parquet lists", "parquet vectors"],
)
def test_every_format_gives_the_same_rows(
    tmp_path: Path, world: tuple[np.ndarray, np.ndarray, np.ndarray], how: str, size: int
) -> None:
    X, ids, y = joined(written(tmp_path, world, how), size)
    assert X.dtype == np.float32
    assert X.flags.c_contiguous
    assert X.tolist() == world[0].tolist()
    assert ids.dtype == object
    assert ids.tolist() == world[1].tolist()
    assert y.dtype == np.int64
    assert y.tolist() == world[2].tolist()


@pytest.mark.parametrize("how", ["csv", "npy", "npz", "parquet columns"])
def test_doubles_stay_doubles_where_asked(tmp_path: Path, how: str) -> None:
    X = np.random.default_rng(1).standard_normal((N, D))
    path = written(tmp_path, (X, np.arange(N).astype(object), np.arange(N)), how)
    assert joined(path, dtype=np.float64)[0].tolist() == X.tolist()
    assert joined(path)[0].tolist() == X.astype(np.float32).tolist()


def test_names_patterns_and_files_next_to_it(tmp_path: Path) -> None:
    rows = [["u1", "red", 1, 0, 10, 20, 0.5], ["u2", "blue", 0, 1, 30, 40, 0.7]]
    path = write_csv(tmp_path / "a.csv", ["key", "colour", "is_a", "is_b", "p0", "p1", "other"], rows)
    X, ids, y = joined(path, id="key", label="colour", features="p*")
    assert (X.tolist(), ids.tolist(), y.tolist()) == ([[10, 20], [30, 40]], ["u1", "u2"], ["red", "blue"])
    X, _, y = joined(path, id="key", label="is_*", features="other,p1")
    assert X.tolist() == [[20.0, np.float32(0.5)], [40.0, np.float32(0.7)]]  # in the order of the file
    assert y.tolist() == [[1, 0], [0, 1]]
    np.save(tmp_path / "these.npy", np.array([7, 8]))
    X, ids, y = joined(path, id=str(tmp_path / "these.npy"), label=str(tmp_path / "these.npy"), features="p0")
    assert (X.tolist(), ids.tolist(), y.tolist()) == ([[10], [30]], [7, 8], [7, 8])
    with pytest.raises(DatasetError, match=r"no column 'q\*' \(--features\): there is key, colour"):
        open_rows(path, features="q*")
    with pytest.raises(DatasetError, match="no column 'name' \\(--id\\)"):
        open_rows(path, id="name")


def test_without_a_header_columns_are_numbers(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", None, [["x", 1.5, 2, 0], ["y", 3, 4, 1]])
    X, ids, y = joined(path, header=False, id="0", label="3")
    assert (X.tolist(), ids.tolist(), y.tolist()) == ([[1.5, 2], [3, 4]], ["x", "y"], [0, 1])
    numbers = write_csv(tmp_path / "b.csv", None, [[1.5, 2], [3, 4]])
    with pytest.raises(DatasetError, match="numbers, not names: if it has no header, use --no-header"):
        open_rows(numbers)
    counted = write_csv(tmp_path / "c.csv", ["0", "1"], [[1.5, 2]])  # as pandas names them
    assert joined(counted)[0].tolist() == [[1.5, 2]]


def test_text_as_people_write_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes('﻿id,x,label\r\n"a, b",1,"two\nlines"\r\n\r\nc,2,d\r\n'.encode())
    X, ids, y = joined(path)
    assert (X.tolist(), ids.tolist(), y.tolist()) == ([[1], [2]], ["a, b", "c"], ["two\nlines", "d"])


def test_ids_and_labels_are_numbers_or_text_for_a_whole_file(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ["id", "x", "label"], [[1, 0, 5], [2, 0, 6], ["c", 0, 7]])
    with pytest.raises(DatasetError, match=r"id of row 2 is 'c', but those before it are integers.*--text"):
        joined(path, 2)
    assert joined(path, 3)[1].tolist() == ["1", "2", "c"]
    _, ids, y = joined(path, 2, text=True)
    assert ids.tolist() == ["1", "2", "c"]
    assert y.tolist() == ["5", "6", "7"]
    zeros = write_csv(tmp_path / "b.csv", ["id", "x"], [["007", 0], ["8", 0]])
    assert joined(zeros)[1].tolist() == ["007", "8"]
    large = write_csv(tmp_path / "c.csv", ["id", "x"], [[str(1 << 63), 0], [str(-(1 << 63)), 0]])
    assert joined(large)[1].tolist() == [str(1 << 63), str(-(1 << 63))]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("", "is empty"),
        ("id,a,b\n1,2\n", "line 2, has 2 columns, but there are 3 names"),
        ("id,a,b\n1,2,3\n2,,3\n", "line 3: a is empty, not a number"),
        ("id,a,b\n1,2,3\n2,3,red\n", "line 3: b is 'red', not a number. If it is not a feature"),
        ("id,a,label\n1,2,x\n,3,y\n", "row 1 has no id"),
        ("id,a,a\n1,2,3\n", "more than one column 'a'"),
        ("id,label\n1,2\n", "no column left for the features"),
        ("y,label,a\n1,2,3\n", "has y and label: choose one with --label"),
        (",a,b\n0,2,3\n", "column 1 has no name, as pandas writes its index"),
    ],
)
def test_bad_text_is_refused_with_its_place(tmp_path: Path, lines: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(lines)
    with pytest.raises(DatasetError, match=says) as refusal:
        joined(path)
    assert "bad.csv" in str(refusal.value)


def test_bad_files_are_refused(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz", "a.parquet"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(DatasetError, match=f"{name} is not a valid"):
            open_rows(tmp_path / name)
    (tmp_path / "a.csv").write_bytes(b"id,x\n1,\xff\n")
    with pytest.raises(DatasetError, match=r"a.csv is not a valid UTF-8 text"):
        joined(tmp_path / "a.csv")
    with pytest.raises(DatasetError, match="there is no file"):
        open_rows(tmp_path / "b.csv")
    with pytest.raises(DatasetError, match=r"ends in \.xlsx: it has to be one of \.npy, \.npz, \.csv"):
        open_rows(tmp_path / "b.xlsx")
    np.save(tmp_path / "flat.npy", np.arange(3.0))
    with pytest.raises(DatasetError, match=r"shape \(3,\)"):
        open_rows(tmp_path / "flat.npy")
    np.savez(tmp_path / "words.npz", x=np.array([["a", "b"]]))
    with pytest.raises(DatasetError, match="have to be numbers"):
        open_rows(tmp_path / "words.npz")
    np.savez(tmp_path / "none.npz", z=np.zeros((2, 2)))
    with pytest.raises(
        DatasetError, match=r"has no features: call them features, x, X.* from z with --features"
    ):
        open_rows(tmp_path / "none.npz")
    np.savez(tmp_path / "short.npz", x=np.zeros((2, 2)), y=np.zeros(3))
    with pytest.raises(DatasetError, match="has 2 rows, but there are 3 labels"):
        open_rows(tmp_path / "short.npz")
    np.savez(tmp_path / "both.npz", x=np.zeros((2, 2)), X=np.zeros((2, 2)))
    with pytest.raises(DatasetError, match="has x and X: say with --features"):
        open_rows(tmp_path / "both.npz")
    np.savez(tmp_path / "half.npz", x=np.zeros((2, 2)), y=np.array([0.5, 1]))
    with pytest.raises(DatasetError, match=r"label of row 0 is 0\.5"):
        open_rows(tmp_path / "half.npz")


def test_bad_parquet_is_refused_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for columns, says in (
        ({"id": [1, 2], "a": [1.0, None]}, "a is empty in row 1"),
        ({"id": [1, 2], "a": [1.0, 2.0], "word": ["x", "y"]}, "word is of type string, not a number"),
        ({"x": [[1.0, 2.0], [1.0]]}, "x has 1 numbers in row 1, but 2 in the first"),
        ({"x": [[1.0, 2.0], [None, 1.0]]}, "x has an empty number in row 1"),
        ({"x": [[1.0], [2.0]], "id": ["a", None]}, "row 1 has no id"),
        ({"x": [[1.0], [2.0]], "id": [1, None]}, "row 1 has no id"),
        ({"x": [[1.0], [2.0]], "label": [1.5, None]}, "the label of row 0 is 1.5"),
    ):
        pq.write_table(pa.table(columns), path)
        with pytest.raises(DatasetError, match=says):
            joined(path)
    pq.write_table(pa.table({"x": [[1.0]], "y": pa.array(["cat"]).dictionary_encode()}), path)
    assert joined(path)[2].tolist() == ["cat"]


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DatasetError, match=r"pip install 'hashstream\[parquet\]'"):
        open_rows(tmp_path / "a.parquet")


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_a_large_file_is_read_in_pieces(tmp_path: Path, suffix: str) -> None:
    """64 MB of features, of which a small part is in memory at any time."""
    X, path = np.random.default_rng(0).random((100_000, 160), np.float32), tmp_path / f"large.{suffix}"
    if suffix == "npz":
        np.savez(path, x=X)
    else:
        column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 160)
        pq.write_table(pa.table({"x": column}), path, row_group_size=2000, use_dictionary=False)
    pool = pa.default_memory_pool()
    held = pool.bytes_allocated()
    tracemalloc.start()
    try:
        rows = highest = 0
        for piece in open_rows(path).pieces(500):
            rows += len(piece)
            highest = max(highest, pool.bytes_allocated() - held)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows == 100_000
    assert peak + highest < 64e6 / 8


def test_a_flipped_bit_in_an_archive_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((100, 10)))
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("x.npy").header_offset
    raw = bytearray(path.read_bytes())
    raw[start + 4000] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DatasetError, match=r"a\.npz is not a valid"):
        joined(path, 10)


def test_arrays_as_a_source() -> None:
    source = ArrayRows("mine", np.arange(6, dtype=np.uint8).reshape(3, 2), y=np.array(["a", "b", "a"]))
    pieces = list(source.pieces(2))
    assert [piece.X.tolist() for piece in pieces] == [[[0, 1], [2, 3]], [[4, 5]]]
    assert [piece.read for piece in pieces] == [2, 3]
    assert not source.has_ids
    with pytest.raises(DatasetError, match="mine has 3 rows, but there are 2 ids"):
        ArrayRows("mine", np.zeros((3, 2)), ids=np.arange(2))


MISSING = [1, None, 0, None, 7]


@pytest.mark.thinned("values")
@pytest.mark.parametrize("size", [1, 2, 10])
@pytest.mark.parametrize(
    "how", ["csv", "tsv", "npy", "npz", "npz text", "parquet", "parquet floats", "parquet text"]
)
def test_an_empty_label_is_a_row_without_one(tmp_path: Path, how: str, size: int) -> None:
    """Whatever the file has for it: an empty cell, NaN, null or an empty string."""
    X, kind = np.arange(10.0).reshape(5, 2).astype(np.float32), how.partition(" ")[0]
    path, wanted = tmp_path / f"a.{kind}", list(MISSING)
    floats = np.array([np.nan if one is None else one for one in MISSING])
    words = ["" if one is None else str(one) for one in MISSING]
    if kind in ("csv", "tsv"):
        rows = [[*x, word] for x, word in zip(X.tolist(), words, strict=True)]
        write_csv(path, ["a", "b", "label"], rows, "," if kind == "csv" else "\t")
    elif kind == "npy":
        np.save(path, X)
        np.save(tmp_path / "a.labels.npy", floats)
    elif kind == "npz":
        np.savez(path, x=X, y=np.array(words) if how == "npz text" else floats)
    else:
        text = ["c1", None, "", None, "c7"]
        column = {"parquet": MISSING, "parquet floats": floats, "parquet text": text}
        pq.write_table(pa.table({"x": list(X), "label": column[how]}), path)
        wanted = [one or None for one in text] if how == "parquet text" else wanted
    got, _, y = joined(path, size)
    assert got.tolist() == X.tolist()
    assert y.tolist() == wanted
    as_text = joined(path, size, text=True)[2].tolist()
    assert as_text == [one if one is None else str(one) for one in wanted]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_row_of_a_matrix_with_an_empty_cell(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        write_csv(path, ["a", "is_a", "is_b"], [[1, 0, 1], [2, "", 1], [3, 1, 0]])
    else:
        pq.write_table(pa.table({"a": [1, 2, 3], "is_a": [0, None, 1], "is_b": [1, 1, 0]}), path)
    y = joined(path, 2, label="is_*")[2]
    np.testing.assert_array_equal(y, [[0, 1], [np.nan, 1], [1, 0]])


def test_large_labels_with_gaps_stay_exact(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "label": [2**60 + 1, None, 2**60 + 2]}), path)
    assert joined(path)[2].tolist() == [2**60 + 1, None, 2**60 + 2]
    np.savez(tmp_path / "a.npz", x=np.eye(2), y=np.array([2**63 + 1, 5], np.uint64))
    assert joined(tmp_path / "a.npz")[2].tolist() == [2**63 + 1, 5]


def test_labels_that_differ_in_a_last_nul_stay_apart(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ["a", "label"], [[1, "x"], [2, "x\0"]])
    assert joined(path)[2].tolist() == ["x", "x\0"]


def test_files_next_to_it_with_one_value(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    for what in ("ids", "labels"):
        np.save(tmp_path / f"a.{what}.npy", np.array(3))
        with pytest.raises(DatasetError, match=f"the {what} are one value"):
            open_rows(tmp_path / "a.npy")
        (tmp_path / f"a.{what}.npy").unlink()
