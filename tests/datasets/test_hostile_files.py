"""Files that were damaged, or made to do harm: a DatasetError that names the file, before memory is taken."""

from __future__ import annotations

import io
import os
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hashstream as hs
from hashstream import _machine as machine
from hashstream.datasets import DatasetError, load_file, npy, open_rows, rows_tables

X = np.ones((20, 4), np.float32)


def head(text: str, version: bytes = b"\1\0") -> bytes:
    width = "<H" if version[0] == 1 else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(text)) + text.encode("latin-1", "replace")


def described(descr: str = "'<f4'", order: str = "False", shape: str = "(20, 4)") -> bytes:
    return head(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n")


HEADERS = {
    "cut inside a quote": head("{'descr': '<f4\n"),
    "deep brackets": head("(" * 5000 + "\n"),
    "deep shape": described(shape="(" * 5000 + "20,4" + ")" * 5000),
    "an expression": described(shape="(2*10, 4)"),
    "a call": described(shape="(exit(), 4)"),
    "booleans": described(shape="(True, 4)"),
    "negative": described(shape="(-20, 4)"),
    "floats": described(shape="(20.0, 4)"),
    "a number": described(shape="(20)"),
    "a list": described(shape="[20, 4]"),
    "huge": described(shape="(1099511627776, 4)"),
    "huge and empty": described(shape="(0, 9999999999999999999)"),
    "overflowing": described(shape="(4294967296, 4294967296)"),
    "many digits": described(shape=f"({'9' * 5000}, 4)"),
    "many dimensions": described(shape=f"({'1, ' * 100})"),
    "no bytes": described("'<U0'", shape="(1099511627776,)"),
    "objects": described("'|O'"),
    "records": described("[('a', '<f4')]"),
    "raw": described("'|V4'"),
    "unknown type": described("'<f3'"),
    "wide type": described("'<U999999999'"),
    "type of dates": described("'<M8[nonsense]'"),
    "no type": described("''"),
    "order": described(order="7"),
    "twice": head("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (20, 4)}"),
    "too few": head("{'descr': '<f4', 'shape': (20, 4)}"),
    "too many": head("{'descr': '<f4', 'fortran_order': False, 'shape': (20, 4), 'x': 1}"),
    "long": head(" " * 60_000, b"\2\0") + bytes(100_000),
    "longer than the file": b"\x93NUMPY\2\0\xff\xff\xff\xff{",
    "version": b"\x93NUMPY\x09\x00" + bytes(100),
    "not unicode": head("{'descr': '<f4', 'fortran_order': False, 'shape': (20, 4), }\xff", b"\3\0"),
    "nothing": b"",
}


def refused(call: Callable[[], Any], path: Path) -> str:
    """What is said; and that nothing large was allocated on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError) as caught:
            call()
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000
    return str(caught.value)


@pytest.mark.parametrize("raw", HEADERS.values(), ids=HEADERS)
def test_npy_headers(tmp_path: Path, raw: bytes) -> None:
    path, labels = tmp_path / "a.npy", tmp_path / "a.labels.npy"
    path.write_bytes(raw + X.tobytes())
    refused(lambda: load_file(path, labels=np.arange(20)), path)
    refused(lambda: list(open_rows(path).pieces(7)), path)
    np.save(path, X)
    labels.write_bytes(raw + X.tobytes())
    refused(lambda: load_file(path), labels)
    refused(lambda: open_rows(path), labels)
    archive = tmp_path / "a.npz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("x.npy", raw + X.tobytes())
    refused(lambda: load_file(archive, labels=np.arange(20)), archive)
    refused(lambda: list(open_rows(archive).pieces(7)), archive)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "|u1", "<i2", "|b1", "<f2"])
def test_headers_as_others_write_them(tmp_path: Path, order: str, dtype: str) -> None:
    stored = np.asarray(np.arange(80).reshape(20, 4) % 2, dtype, order=order)
    path = tmp_path / "a.npy"
    raw = stored.tobytes(order="A")
    for text in (
        f'{{"shape": (20, 4), "fortran_order": {order == "F"}, "descr": "{dtype}"}}',
        f"{{ 'descr' : '{dtype}' , 'fortran_order' : {order == 'F'} , 'shape' : (20,4,) }}  \n",
    ):
        for version in (b"\1\0", b"\2\0", b"\3\0"):
            path.write_bytes(head(text, version) + raw)
            np.testing.assert_array_equal(npy.read_npy(path), np.load(path))
            assert npy.read_npy(path).dtype == np.load(path).dtype
            pieces = np.concatenate([rows.X for rows in open_rows(path).pieces(7)])
            np.testing.assert_array_equal(pieces, stored.astype(np.float32))


@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["<f4", "<U3", "|S3", "<M8[D]", "<c8"])
def test_arrays_come_as_numpy_reads_them(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype))
    np.testing.assert_array_equal(npy.read_npy(path), np.load(path))
    np.savez(tmp_path / "a.npz", a=np.load(path))
    np.testing.assert_array_equal(npy.read_npz(tmp_path / "a.npz", "a")["a"], np.load(path))


def test_text_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, X)
    for point in (0x110000, 0xFFFFFFFF, 0xD800):
        np.save(tmp_path / "a.labels.npy", np.full(20, point, np.uint32))
        raw = (tmp_path / "a.labels.npy").read_bytes().replace(b"'<u4'", b"'<U1'")
        (tmp_path / "a.labels.npy").write_bytes(raw)
        assert "does not exist" in refused(lambda: open_rows(path), tmp_path / "a.labels.npy")


def packed(**changes: int) -> bytes:
    """An .npz file with other values in its central directory: method, flags, packed size, size."""
    places = {"flags": (8, "<H"), "method": (10, "<H"), "compressed": (20, "<I"), "size": (24, "<I")}
    raw = io.BytesIO()
    np.savez_compressed(raw, x=X, y=np.arange(20))
    out = bytearray(raw.getvalue())
    for start in (i for i in range(len(out)) if out[i : i + 4] == b"PK\x01\x02"):
        for name, value in changes.items():
            offset, form = places[name]
            struct.pack_into(form, out, start + offset, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": 99}, "compressed by method 99"),
        ({"method": 12}, "compressed by method 12"),
        ({"method": 14}, "compressed by method 14"),
        ({"flags": 1}, "encrypted"),
        ({"size": 0xFFFFFFF0}, "declares 4,294,967,280 bytes"),
        ({"size": 0xFFFFFFF0, "compressed": 0xFFFFFFF0}, "declares|bytes"),
        ({"size": 100}, "declares 320 bytes of data|CRC"),
        ({"compressed": 3}, "declares|bytes|truncated|header|CRC"),
    ],
    ids=str,
)
def test_npz_members(tmp_path: Path, changes: dict[str, int], says: str) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(packed(**changes))
    assert re.search(says, refused(lambda: load_file(path), path))
    refused(lambda: list(open_rows(path).pieces(7)), path)


def test_a_zip_bomb_is_measured_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """256 MB of zeros in 250 kB: honest, and refused where there is no memory for it."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=X, y=np.zeros(1 << 25, np.int64))
    monkeypatch.setattr(machine, "available_memory", lambda: 10**8)
    assert "needs 268 MB of memory, and 100 MB" in refused(lambda: load_file(path), path)
    refused(lambda: open_rows(path), path)


def test_memory_that_is_available() -> None:
    assert 1 << 20 < machine.available_memory() < 1 << 50
    machine.check_memory(1 << 20)
    with pytest.raises(MemoryError, match=r"needs 1,000,000\.0 GB"):
        machine.check_memory(10**15)


def test_pages_of_files_that_were_read_are_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that has read much: they count as used, until somebody needs them."""
    monkeypatch.setattr(machine, "GROUP", str(tmp_path))
    for name, text in (("memory.max", "1000000000"), ("memory.current", "996000000")):
        (tmp_path / name).write_text(text)
    assert machine.available_memory() == 4_000_000
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 500000000\nactive_file 100000000\n")
    assert machine.available_memory() == 604_000_000
    (tmp_path / "memory.max").write_text("max")
    assert machine.available_memory() > 604_000_000


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"id,a,label\n" + b"1," * 50_000_000, "line 2 has more than 16,777,216 bytes"),
        (
            b"id,a,label\n" + b'1,2,"' + b"x\n" * 10_000_000,
            "field larger than field limit|more than 16,777,216",
        ),
        (b"id,a,label\n" + b'"1","2","3\n",' * 2_000_000, "more than 16,777,216 bytes"),
        (b"id,a,label\n1,2,\xff\n", "utf-8"),
        (b"id,a,label\n" + b"9" * 5000 + b",2,3\n" + b"7,2,3\nx,2,3\n", None),
        (b"id,a,label\n1," + b"9" * 5000 + b",3\n", None),
        (b"id,a,label\n1,2,3\n\0,\0,\0\n", "not a number"),
        (",".join(f"f{i}" for i in range(100_000)).encode() + b"\n", None),
    ],
    ids=["one line", "open quote", "one record", "bytes", "digits", "large number", "NUL", "columns"],
)
def test_text(tmp_path: Path, raw: bytes, says: str | None) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(raw)
    if says is None:
        assert sum(len(rows) for rows in open_rows(path).pieces(7)) == raw.count(b"\n") - 1
        return
    with pytest.raises(DatasetError, match=says) as caught:
        list(open_rows(path).pieces(7))
    assert str(path) in str(caught.value)


def test_parquet_that_stands_for_more_than_there_is_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 MB of zeros in a few kilobytes: the process that reads it is refused the memory, and this one takes none."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [np.zeros(1 << 23)], "label": [1]}), path)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(rows_tables, "SPARE", 1 << 20)
    monkeypatch.setattr(rows_tables, "MAX_RATIO", 1)
    refused(lambda: list(open_rows(path).pieces(7)), path)


def test_parquet_that_crashes_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, reader = tmp_path / "a.parquet", tmp_path / "reader.py"
    pq.write_table(pa.table({"x": [1.0], "label": [1]}), path)
    reader.write_text("import os; os.abort()")
    monkeypatch.setattr(rows_tables, "__file__", str(tmp_path / "rows_tables.py"))
    reader.rename(tmp_path / "parquet_parser.py")
    assert "the reader crashed on it, by signal 6" in refused(lambda: open_rows(path), path)


def test_parquet_with_text_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0], "label": ["zzz"]}), path, use_dictionary=False, compression="none")
    path.write_bytes(path.read_bytes().replace(b"zzz", b"z\xd4\xd4"))
    with pytest.raises(DatasetError, match="is not a valid Parquet"):
        list(open_rows(path).pieces(7))


def test_an_npy_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, X)
    source = open_rows(path)
    np.save(path, X[:10])
    with pytest.raises(DatasetError, match="replaced while it was being read"):
        list(source.pieces(7))
    np.save(path, np.ones((100_000, 4), np.float32))
    pieces = open_rows(path).pieces(7)
    next(pieces)
    with path.open("r+b") as file:
        file.truncate(100_000)
    with pytest.raises(DatasetError, match="ends in row"):
        list(pieces)


def test_the_bound_of_a_record_leaves_room_for_wide_tables() -> None:
    assert rows_tables.MAX_RECORD >= 20 * 500_000  # columns


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe, good = tmp_path / "pipe.npy", tmp_path / "good.npy"
    os.mkfifo(pipe)
    np.save(good, np.ones((5, 2), np.float32))
    assert "there is no file" in refused(lambda: load_file(pipe), pipe)
    assert "is not a file" in refused(lambda: load_file(good, labels=pipe), pipe)
    with pytest.raises(hs.FormatError, match="is not a file"):
        hs.load(pipe)
