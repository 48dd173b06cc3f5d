"""The disk of `faulty_disk.c` from Python: to build and to steer it, and to say what a power loss would leave.

Durable is what a sync has promised and nothing else: the bytes of a file up to its last sync, a name up to the last
sync of the folder that it stands in. Of the rest, a power loss may leave nothing, all of it, or any part: sectors of
512 bytes each by itself, with garbage where a file grew, and names in the order in which they were changed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import hashstream as hs

SOURCE = Path(__file__).with_suffix(".c")
SECTOR = 512
HEAD = struct.Struct("<ciqII")


def problem() -> str:
    """Why the disk cannot be had on this machine; "" where it can."""
    if not sys.platform.startswith("linux"):
        return "the faulty disk is preloaded, which is done on Linux only"
    compiler = os.environ.get("CC", "cc")
    return "" if shutil.which(compiler) else f"no C compiler: {compiler}"


def environment(folder: Path) -> dict[str, str]:
    """Build the disk in `folder`; the environment of a process that runs on it."""
    library = folder / "faulty_disk.so"
    compiler = os.environ.get("CC", "cc")
    flags = ["-O1", "-shared", "-fPIC", "-ldl", "-lpthread"]
    subprocess.run([compiler, str(SOURCE), "-o", str(library), *flags], check=True)
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    package, root = str(Path(hs.__file__).parents[1]), str(Path(__file__).parents[2])
    return os.environ | threads | {"LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join([package, root])}


class FaultyDisk:
    """The disk under this process, which was started with `environment`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.disk_watch.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self._library.disk_room.argtypes = [ctypes.c_int64]
        self._library.disk_break_sync.argtypes = [ctypes.c_int64]

    def watch(self, root: Path, log: Path | None = None) -> None:
        self._library.disk_watch(os.fsencode(root), os.fsencode(log) if log is not None else b"")

    def room(self, n_bytes: int | None) -> None:
        self._library.disk_room(-1 if n_bytes is None else n_bytes)

    def break_sync(self, n: int) -> None:
        self._library.disk_break_sync(n)


# ---- what was written down


@dataclass(frozen=True)
class Record:
    """One change. kind : o(pen), w(rite), t(runcate), s(ync), r(ename), u(nlink), m(kdir)."""

    kind: str
    fd: int
    number: int
    a: bytes
    b: bytes


def read_log(path: Path) -> Iterator[Record]:
    raw = path.read_bytes()
    at = 0
    while at < len(raw):
        kind, fd, number, n_a, n_b = HEAD.unpack_from(raw, at)
        at += HEAD.size
        yield Record(kind.decode(), fd, number, raw[at : at + n_a], raw[at + n_a : at + n_a + n_b])
        at += n_a + n_b


@dataclass
class File:
    """durable : its bytes as of the last sync. pending : (offset, bytes) written, or (size, None) cut, since."""

    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def left(self, kind: str, rng: np.random.Generator) -> bytes:
        """Its bytes after a power loss. kind : "nothing", "all" or "some" of what is pending survives."""
        content = bytearray(self.durable)
        for offset, data in self.pending if kind != "nothing" else []:
            if data is None:
                if kind == "all" or rng.random() < 0.5:
                    del content[offset:]
                    content.extend(bytes(offset - len(content)))
                continue
            for start in range(0, len(data), SECTOR):
                piece, at = data[start : start + SECTOR], offset + start
                if kind == "some" and rng.random() < 0.5:
                    if rng.random() < 0.5:
                        continue
                    # The file has grown, but what should stand there does not; what stood there before stays.
                    piece = bytes(content[at : at + len(piece)])
                    missing = min(SECTOR, len(data) - start) - len(piece)
                    piece += rng.bytes(missing) if rng.random() < 0.5 else bytes(missing)
                content.extend(bytes(max(0, at - len(content))))
                content[at : at + len(piece)] = piece
        return bytes(content)

    def sync(self) -> None:
        self.durable = self.left("all", np.random.default_rng(0))
        self.pending = []


@dataclass
class Folder:
    """now : name -> what it is. durable : the same as of the last sync. pending : (name, what it became) since."""

    now: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[dict[str, File | Folder | None]] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path) -> Folder:
        """What lies at `path`, all of it durable."""
        names = {
            one.name: cls.of(one) if one.is_dir() else File(one.read_bytes())
            for one in path.iterdir()
            if not one.name.endswith("-shm")
        }
        return cls(dict(names), dict(names))

    def change(self, names: dict[str, File | Folder | None]) -> None:
        """All of one call, which happens whole or not at all."""
        self.pending.append(names)
        _apply(self.now, names)

    def sync(self) -> None:
        self.durable, self.pending = dict(self.now), []

    def restore(self, path: Path, kind: str, rng: np.random.Generator) -> None:
        """Write what a power loss leaves to `path`."""
        names = dict(self.durable)
        survive = {"nothing": 0, "all": len(self.pending)}.get(kind, int(rng.integers(len(self.pending) + 1)))
        for change in self.pending[:survive]:
            _apply(names, change)
        path.mkdir()
        for name, what in names.items():
            if isinstance(what, Folder):
                what.restore(path / name, kind, rng)
            elif not name.endswith("-shm"):  # mapped, and created again by whoever comes first
                (path / name).write_bytes(what.left(kind, rng))


def _apply(names: dict[str, File | Folder], change: dict[str, File | Folder | None]) -> None:
    for name, what in change.items():
        if what is None:
            names.pop(name, None)
        else:
            names[name] = what


class Replay:
    """The changes below `root`, one after the other; `folder` is what lies there after those so far, and at first what
    lies there now, all of it durable."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, Folder.of(root)
        self._open: dict[int, File | Folder] = {}

    def _at(self, raw: bytes) -> tuple[Folder, str]:
        """The folder that a path stands in, and its name there."""
        *folders, name = Path(os.fsdecode(raw)).relative_to(self.root).parts
        inside = self.folder
        for one in folders:
            there = inside.now[one]
            assert isinstance(there, Folder)
            inside = there
        return inside, name

    def content(self, name: str) -> bytes:
        """What a file directly below the root holds now, b"" where there is none."""
        file = self.folder.now.get(name, File())
        assert isinstance(file, File)
        return file.left("all", np.random.default_rng(0))

    def step(self, record: Record) -> None:
        kind = record.kind
        if kind == "o":
            self._open[record.fd] = self._opened(record)
        elif kind == "m":
            inside, name = self._at(record.a)
            inside.change({name: Folder()})
        elif kind == "u":
            inside, name = self._at(record.a)
            inside.change({name: None})
        elif kind == "r":
            (inside, old), (target, new) = self._at(record.a), self._at(record.b)
            assert inside is target, "renamed from one folder to another"
            inside.change({new: inside.now[old], old: None})
        elif kind == "t" and record.a:
            inside, name = self._at(record.a)
            self._pend(inside.now[name], record.number, None)
        elif kind == "t":
            self._pend(self._open[record.fd], record.number, None)
        elif kind == "w":
            self._pend(self._open[record.fd], record.number, record.a)
        elif kind == "s":
            self._open[record.fd].sync()

    @staticmethod
    def _pend(file: File | Folder, offset: int, data: bytes | None) -> None:
        assert isinstance(file, File)
        file.pending.append((offset, data))

    def _opened(self, record: Record) -> File | Folder:
        if Path(os.fsdecode(record.a)) == self.root:
            return self.folder
        inside, name = self._at(record.a)
        if name not in inside.now:
            inside.change({name: File()})
        what = inside.now[name]
        if record.number and isinstance(what, File):
            what.pending.append((0, None))
        return what
