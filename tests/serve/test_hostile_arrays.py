"""Bodies of .npy and .npz that no client of good will sends."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import numpy as np
import pytest
from tests.serve.forms import NPY, NPZ, npy, npy_of, npz
from tests.serve.raw_sockets import memory_below
from tests.serve.refusals import MB, A, refused, send
from tests.serve.running import Running
from tests.serve.worlds import X

pytestmark = pytest.mark.usefixtures("nothing_changes")

ONE = {"ids": np.array([700]), "vectors": np.ones((1, 4), np.float32)}
# ---- .npy

MATRICES = {
    "nothing": b"",
    "garbage": b"abc",
    "objects": npy(np.array([[{}]], object)),
    "records": npy(np.zeros((1, 4), [("a", "f4")])),
    "a huge shape": npy_of("<f4", "(1000000000, 4)"),
    "an impossible shape": npy_of("<f4", "(9999999999999999999, 9999999999999999999)"),
    "a negative shape": npy_of("<f4", "(-1, 4)"),
    "a million dimensions": npy_of("<f4", "(" + "1," * 30_000 + ")", b"0000"),
    "0-d": npy(np.float32(1)),
    "1-d": npy(np.ones(4)),
    "3-d": npy(np.ones((1, 1, 4))),
    "complex": npy(np.ones((1, 4), complex)),
    "texts": npy(np.array([["a", "b", "c", "d"]])),
    "texts that are numbers": npy(np.array([["1", "2", "3", "4"]])),
    "bytes": npy(np.array([[b"1", b"2", b"3", b"4"]])),
    "times": npy(np.zeros((1, 4), "M8[s]")),
    "durations": npy(np.zeros((1, 4), "m8[s]")),
    "impossible characters": npy_of("<U1", "(1, 4)", b"\xff\xff\xff\x7f" * 4),
    "NaN": npy(np.full((1, 4), np.nan)),
    "infinite": npy(np.full((1, 4), np.inf, np.float16)),
    "infinite as float32": npy(np.full((1, 4), 1e300)),
    "no rows": npy(np.ones((0, 4))),
    "no columns": npy(np.ones((4, 0))),
    "many rows of nothing": npy_of("<f4", "(4000000000, 0)"),
    "no rows, but wide": npy_of("<f4", "(0, 4000000000)"),
    "too wide": npy(np.ones((1, 70_000), np.float32)),
    "cut": npy(np.ones((1, 4)))[:-3],
    "empty texts": npy_of("<U0", "(1, 4)"),
    "no such type": npy_of("<f3", "(1, 4)", b"0" * 12),
    "version 9": b"\x93NUMPY\x09\x00" + npy(np.ones((1, 4)))[8:],
    "a long header": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 1000,
}


@pytest.mark.parametrize("body", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("path", ["search?k=2", "radius?radius=2"])
def test_matrices(target: Running, path: str, body: bytes) -> None:
    refused(send(target, f"{A}/{path}", body, NPY), 400, 413, 422)


@pytest.mark.parametrize(
    "body",
    [
        npy(np.asfortranarray(X[:2])),
        npy(X[:2].astype(">f4")),
        npy(X[:2].astype(">f8")),
        npy(X[:2].astype(np.longdouble)),
        npy_of("<f4", "(2, 4)", X[:2].tobytes(), pad=1),
        npy_of("<f8", "(2, 4)", X[:2].astype(float).tobytes(), pad=1),
    ],
    ids=["fortran", "big-endian f4", "big-endian f8", "long double", "unaligned f4", "unaligned f8"],
)
def test_odd_matrices_are_understood(target: Running, body: bytes) -> None:
    wanted = target.post(f"{A}/search", {"vectors": X[:2].tolist()})
    assert send(target, f"{A}/search", body, NPY).raw == wanted.raw


@pytest.mark.parametrize(
    "query",
    [
        *(
            "k=x",
            "k=0",
            "k=2&k=3",
            "zz=1",
            "where=%7B",
            "where=1",
            "where=NaN",
            "where=%22x",
            "include=x",
            "like=1",
        ),
        *(
            "vectors=1",
            "asymmetric=x",
            "rescore=",
            "compare=",
            "k=%00",
            "k=%D9%A3",
            "metric=%0a",
            "offset=-1",
        ),
        *(f"k={'9' * 5000}", f"where={'%5B' * 3000}", 'where={"tenant":"%5Cud800"}', "where=%ff"),
    ],
)
def test_parameters(target: Running, query: str) -> None:
    refused(send(target, f"{A}/search?{query}", npy(X[:1]), NPY), 400, 413, 422)


@pytest.mark.parametrize(
    "path",
    [
        *("ids?where=x", "ids?where=[1]", "ids?where=1", "ids?offset=-1", "ids?offset=x", "ids?limit=1e3"),
        *("ids?offset=99999999999999999999", "count?where=%7B%22zz%22:1%7D", "count?where=" + "%5B" * 3000),
        *(
            'count?where={"tenant":"%5Cud800"}',
            "items",
            "items?id=",
            "items?id=%00",
            "items?id=9223372036854775808",
        ),
        *(
            "items?id=%ff",
            "items?id=1&features=x",
            "map?n=0",
            "map?n=x",
            "map?n=99999999999",
            "health?since=nan",
        ),
        *("health?since=-1", "health?since=inf", "suggestions?n=0", "suggestions?n=101"),
    ],
)
def test_parameters_of_get(target: Running, path: str) -> None:
    refused(target.get(f"{A}/{path.replace('{', '%7B').replace('}', '%7D')}"), 404, 422)


# ---- .npz


def zipped(*members: tuple[str, bytes], **more: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **more) as archive:
        for name, raw in members:
            archive.writestr(name, raw)
    return file.getvalue()


def altered(raw: bytes, *, size: int | None = None, flags: int = 0, method: int | None = None) -> bytes:
    """An archive whose directory and heads say something else of their first member."""
    parts = bytearray(raw)
    directory = raw.rindex(b"PK\x01\x02", 0, raw.index(b"PK\x01\x02") + 4)
    for at, offset_flags, offset_method, offset_size in ((directory, 8, 10, 24), (0, 6, 8, 22)):
        if flags:
            parts[at + offset_flags : at + offset_flags + 2] = struct.pack("<H", flags)
        if method is not None:
            parts[at + offset_method : at + offset_method + 2] = struct.pack("<H", method)
        if size is not None:
            parts[at + offset_size : at + offset_size + 4] = struct.pack("<I", size)
    return bytes(parts)


GOOD = npz(**ONE)
ARCHIVES = {
    "nothing": npz(),
    "no zip": b"PK\x03\x04abc",
    "cut": GOOD[:-30],
    "no ids": npz(vectors=ONE["vectors"]),
    "0-d ids": npz(ids=np.int64(3), vectors=ONE["vectors"]),
    "2-d ids": npz(ids=np.ones((1, 1), int), vectors=ONE["vectors"]),
    "floats as ids": npz(ids=np.ones(1), vectors=ONE["vectors"]),
    "bools as ids": npz(ids=np.ones(1, bool), vectors=ONE["vectors"]),
    "ids of 64 bits": npz(ids=np.full(1, 2**64 - 1, np.uint64), vectors=ONE["vectors"]),
    "bytes as ids": npz(ids=np.array([b"a"]), vectors=ONE["vectors"]),
    "times as ids": npz(ids=np.zeros(1, "M8[s]"), vectors=ONE["vectors"]),
    "complex ids": npz(ids=np.zeros(1, complex), vectors=ONE["vectors"]),
    "impossible ids": npz(ids=npy_of("<U1", "(1,)", b"\xff\xff\xff\x7f"), vectors=ONE["vectors"]),
    "bytes as labels": npz(**ONE, labels=np.array([b"a\xff"])),
    "times as labels": npz(**ONE, labels=np.zeros(1, "M8[s]")),
    "complex labels": npz(**ONE, labels=np.zeros(1, complex)),
    "0-d labels": npz(**ONE, labels=np.int64(1)),
    "3-d labels": npz(**ONE, labels=np.zeros((1, 1, 1), int)),
    "impossible labels": npz(**ONE, labels=npy_of("<U1", "(1,)", b"\xff\xff\xff\x7f")),
    "half a character": npz(**ONE, labels=npy_of("<U1", "(1,)", b"\x00\xd8\x00\x00")),
    "an infinite label": npz(**ONE, labels=np.array([np.inf])),
    "a path as name": npz(**ONE, **{"../../x": np.ones(1)}),
    "an absolute path": npz(**ONE, **{"/etc/passwd": np.ones(1)}),
    "a NUL in a name": npz(**ONE, **{"ids\0": np.ones(1)}),
    "an array that is unknown": npz(**ONE, zz=np.ones(1)),
    "an array that is of searches": npz(**ONE, like=np.ones(1, int)),
    "ten arrays": npz(**{f"a{i}": np.ones(1) for i in range(10)}),
    "a text": zipped(("ids", b"x")),
    "a folder": zipped(("ids/", b"")),
    "ids twice": zipped(("ids.npy", npy([700])), ("ids", npy([701])), ("vectors.npy", npy(ONE["vectors"]))),
    "half of the settings": npz(**ONE, json=np.array("{")),
    "a list of settings": npz(**ONE, json=np.array("[]")),
    "a row of settings": npz(**ONE, json=np.array(["{}"])),
    "a number as settings": npz(**ONE, json=np.array(1)),
    "settings that are no text": npz(**ONE, json=np.array(b"\xff")),
    "impossible settings": npz(**ONE, json=npy_of("<U1", "()", b"\xff\xff\xff\x7f")),
    "deep settings": npz(**ONE, json=np.array("[" * 100_000)),
    "ids in the settings as well": npz(**ONE, json=np.array('{"ids": [1]}')),
    "settings of another type": npz(**ONE, json=np.array('{"learn": "yes"}')),
    "half a character in a payload": npz(**ONE, json=np.array('{"payloads": [{"a": "\\ud800"}]}')),
    "half a character in a field": npz(**ONE, json=np.array('{"fields": {"tenant": ["\\ud800"]}}')),
    "an encrypted array": altered(GOOD, flags=1),
    "compressed by bzip2": npz(zipfile.ZIP_BZIP2, **ONE),
    "compressed by lzma": npz(zipfile.ZIP_LZMA, **ONE),
    "compressed by nothing known": altered(GOOD, method=77),
    "shorter than it is": altered(GOOD, size=10),
    "longer than it is": altered(GOOD, size=1 << 20),
    "far longer than it is": altered(GOOD, size=0xFFFFFFF0),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("body", ARCHIVES.values(), ids=ARCHIVES)
def test_archives(target: Running, body: bytes) -> None:
    refused(send(target, f"{A}/items", body, NPZ), 400, 413, 422)


BOMB = npy_of("<f4", "(1, 4)", bytes(120 * MB))


@pytest.mark.thinned("values")
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("lie", [False, True])
def test_bombs(target: Running, method: int, lie: bool) -> None:
    """120 MB of zeros in a small body, whose directory tells the truth or not."""
    body = zipped(("vectors.npy", BOMB), compression=method)
    assert len(body) < MB
    body = altered(body, size=1000) if lie else body
    with memory_below(60 * MB):
        refused(send(target, f"{A}/search", body, NPZ), 400, 413)
