"""MATLAB files of both kinds: shapes, order, types, memory, and what is said of files that are none."""

from __future__ import annotations

import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from matlab_files import VERSIONS, save

from hashstream.datasets import DatasetError, mat, mat_parser, parser_process

RNG = np.random.default_rng(0)
X = RNG.normal(size=(23, 7))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_matrix_comes_as_matlab_shows_it(tmp_path: Path, version: str) -> None:
    """All types in one file: a process is started for each reading."""
    path = tmp_path / "a.mat"
    stored = {np.dtype(dtype).name: (X * 50).astype(dtype) for dtype in ("f8", "f4", "i2", "u1")}
    save(path, version, **stored, y=np.arange(23)[:, None], row=np.arange(5.0)[None, :])
    variables = mat.variables(path)
    for name, matrix in stored.items():
        assert variables[name].shape == (23, 7)
        read = mat.matrix(path, name)
        assert read.dtype == (np.uint8 if name == "uint8" else np.float32)
        assert read.flags.c_contiguous
        np.testing.assert_array_equal(read, matrix.astype(read.dtype))
        whole = np.zeros((30, 7), np.float32)
        mat.matrix(path, name, out=whole[3:26])
        np.testing.assert_array_equal(whole[3:26], matrix.astype(np.float32))
        assert not whole[:3].any()
        assert not whole[26:].any()
    np.testing.assert_array_equal(mat.vector(path, "y"), np.arange(23))
    np.testing.assert_array_equal(mat.vector(path, "row"), np.arange(5.0))


@pytest.mark.parametrize("version", VERSIONS)
def test_doubles_that_are_whole_numbers_are_no_bytes(tmp_path: Path, version: str) -> None:
    """MATLAB stores small whole numbers in bytes whatever their class is; the class decides."""
    path = tmp_path / "a.mat"
    save(path, version, X=np.arange(6.0).reshape(3, 2))
    assert mat.matrix(path, "X").dtype == np.float32


@pytest.mark.parametrize("chunks", [None, (64, 100), (2, 3_000), (1, 50_000), (64, 50_000)])
def test_doubles_of_a_7_3_file_are_never_all_in_memory(
    tmp_path: Path, chunks: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mat_parser, "PIECE", 1 << 16)
    rows, path = RNG.normal(size=(50_000, 64)), tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=rows.T, chunks=chunks)
    mat_parser.variables(str(path))  # what h5py keeps for ever
    read = np.zeros((50_000, 64), np.float32)
    tracemalloc.start()
    try:
        parts = mat_parser.tiles_of_matrix(str(path), "X")
        assert next(parts) == ((50_000, 64), np.float32)
        for (top, bottom, left, right), part in parts:
            read[top:bottom, left:right] = part
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(read, rows.astype(np.float32))
    piece = 8 * max(1 << 16, *([chunks[0] * chunks[1]] if chunks else [0]))
    assert peak < 3 * piece + 500_000
    np.testing.assert_array_equal(mat.matrix(path, "X"), read)


def test_every_part_of_a_matrix_is_covered_once() -> None:
    class Stored:
        shape, chunks = (13, 1_000_003), (5, 7)

    times = np.zeros((100, 13), int)
    for rows, columns in mat_parser.tiles(Stored()):
        times[rows.start : min(rows.stop, 100), columns] += 1
        assert rows.stop <= 1_000_003
    np.testing.assert_array_equal(times, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_no_matrix_is_named(tmp_path: Path, version: str) -> None:
    path = tmp_path / "a.mat"
    save(path, version, X=X, flat=np.zeros((3, 0)), deep=np.zeros((2, 3, 4)))
    with pytest.raises(DatasetError, match=r"has no variable Y: it has X \(23 x 7 double\)"):
        mat.matrix(path, "Y")
    with pytest.raises(DatasetError, match="deep is 2 x 3 x 4 double, which is not a matrix"):
        mat.matrix(path, "deep")
    with pytest.raises(DatasetError, match="flat is 3 x 0 double, which is not a matrix"):
        mat.matrix(path, "flat")
    with pytest.raises(DatasetError, match="X is 23 x 7 double, which is neither a row nor a column"):
        mat.vector(path, "X")


def test_cells_structs_and_sparse_matrices_are_no_numbers(tmp_path: Path) -> None:
    old, new = tmp_path / "old.mat", tmp_path / "new.mat"
    cell = np.array([["a", 1]], dtype=object)
    scipy.io.savemat(old, {"cell": cell, "struct": {"a": 1}, "sparse": scipy.sparse.eye(3, format="csc")})
    with h5py.File(new, "w") as file:
        file.create_dataset("cell", data=np.zeros((1, 2))).attrs["MATLAB_class"] = np.bytes_("cell")
        file.create_group("struct").attrs["MATLAB_class"] = np.bytes_("struct")
        file.create_group("sparse").attrs.update(MATLAB_class=np.bytes_("double"), MATLAB_sparse=3)
        empty = file.create_dataset("empty", data=np.array([0, 5], np.uint64))
        empty.attrs.update(MATLAB_class=np.bytes_("double"), MATLAB_empty=1)
        file.create_group("#refs#")
    for path in (old, new):
        for name in ("cell", "struct", "sparse"):
            with pytest.raises(DatasetError, match=f"{name} is .*not a full array of numbers"):
                mat.matrix(path, name)
    with pytest.raises(DatasetError, match="empty is 0 x 5 double, which is not a matrix"):
        mat.matrix(new, "empty")
    assert set(mat.variables(new)) == {"cell", "struct", "sparse", "empty"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_file_never_raises_anything_else(tmp_path: Path, version: str) -> None:
    path = tmp_path / "a.mat"
    save(path, version, X=X)
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    cuts = [whole[: int(cut)] for cut in np.linspace(0, len(whole) - 1, 4)]
    said = []
    flipped = [_flipped(whole, rng) for _ in range(2)]  # tests/fuzz/data_files.py tries many more
    for content in cuts + flipped:
        path.write_bytes(content)
        try:
            mat.matrix(path, "X")
        except DatasetError as error:
            said.append(str(error))
    assert len(said) >= len(cuts) * 0.9
    assert all(str(path) in sentence for sentence in said)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "the reader crashed on it, by signal 11"),
        ("import sys; sys.exit(3)", "the reader crashed on it, with exit code 3"),
        ("", "the reader stopped early"),
        ("print('junk')", "Expecting value"),
        ("import time; time.sleep(60)", "took longer than 2 seconds"),
        ("print('{' * 100_000)", "Expecting|recursion"),
        ('print(\'{"shape": [1099511627776, 4], "dtype": "<f4"}\')', "memory|GB"),
        ('print(\'{"shape": [4, -4], "dtype": "<f4"}\')', "has the shape"),
        ('print(\'{"shape": [4, 4], "dtype": "O"}\')', "is of type object"),
        ('print(\'{"shape": [4, 4], "dtype": "<f4"}\\n{"tile": [0, 5, 0, 4]}\')', "out of place"),
        ('print(\'{"shape": [4, 4], "dtype": "<f4"}\\n{"tile": [0, 4, 0, 4]}\')', "stopped early"),
        ('print(\'{"shape": [4, 4], "dtype": "<f4"}\\n{"end": true}\')', "16 numbers of X are missing"),
    ],
)
def test_whatever_the_reader_does_is_a_sentence(
    tmp_path: Path, code: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reader = tmp_path / "a.mat", tmp_path / "reader.py"
    save(path, "5", X=X)
    reader.write_text(code)
    monkeypatch.setattr(mat_parser, "__file__", str(reader))
    monkeypatch.setattr(parser_process, "SECONDS", 2.0)
    with pytest.raises(DatasetError, match=says) as caught:
        mat.matrix(path, "X")
    assert str(path) in str(caught.value)


def test_a_file_that_crashes_the_reader_is_refused(tmp_path: Path) -> None:
    """Bytes of small files altered until the reader crashes, as it does on about one of 60; the process goes on."""
    path, rng = tmp_path / "a.mat", np.random.default_rng(0)
    save(path, "5", X=X[:3], y=np.arange(3)[:, None])
    whole = path.read_bytes()
    for _ in range(5):
        altered = bytearray(whole)
        for at in rng.integers(128, len(whole), 12):
            altered[at] = rng.integers(256)
        path.write_bytes(bytes(altered))
        with suppress(DatasetError):
            mat.variables(path)
            mat.matrix(path, "X")


@pytest.mark.parametrize("chunked", [True, False])
def test_a_size_that_the_file_cannot_hold_is_refused(tmp_path: Path, chunked: bool) -> None:
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        if chunked:  # none of them is written
            file.create_dataset("X", (1 << 20, 1 << 20), np.float64, chunks=(1024, 1024))
        else:
            file.create_dataset("X", (1 << 20, 1 << 20), np.float64)
    with pytest.raises(
        DatasetError, match=r"X is 1048576 x 1048576 double, 8,796,093,022,208 bytes in a file of"
    ):
        mat.matrix(path, "X")


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other.mat", tmp_path / "a.mat"
    with h5py.File(other, "w") as file:
        file.create_dataset("X", data=X)
    layout = h5py.VirtualLayout(shape=X.shape, dtype=X.dtype)
    layout[:] = h5py.VirtualSource(str(other), "X", shape=X.shape)
    with h5py.File(path, "w") as file:
        file["X"] = h5py.ExternalLink(str(other), "X")
        file.create_virtual_dataset("Y", layout)
        file.create_dataset("Z", X.shape, X.dtype, external=[(str(other), 0, X.nbytes)])
    for name in "XYZ":
        with pytest.raises(DatasetError, match=f"{name} is  link, which is not a full array of numbers"):
            mat.matrix(path, name)


def _flipped(content: bytes, rng: np.random.Generator) -> bytes:
    copy = bytearray(content)
    copy[rng.integers(0, len(copy))] ^= 1 << int(rng.integers(0, 8))
    return bytes(copy)


def test_without_h5py_the_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "new.mat", "7.3", X=X)
    save(tmp_path / "old.mat", "5", X=X)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        DatasetError, match=r"MATLAB 7\.3 file, which is HDF5: .*pip install 'hashstream\[mat\]'"
    ):
        mat.matrix(tmp_path / "new.mat", "X")
    assert mat.matrix(tmp_path / "old.mat", "X").shape == (23, 7)
