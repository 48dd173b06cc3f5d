"""Snapshots of tables from a service: a tar file that is unpacked as it comes, and cannot reach outside its folder."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Self

from hashstream.serve.client.sending import Request, Sender, check_kind
from hashstream.table.errors import TableError
from hashstream.table.storage.folder.snapshot import new_folder

__all__ = ["download", "unpack"]

TAR = "application/x-tar"
MAX_MEMBERS = 100_000
MAX_NAMES = 1 << 20  # bytes of a member that only names another one
END = 1024  # zeros at the end of an archive; a reader of the standard library does without them
MAX_PADDING = 1 << 20  # bytes after the end of an archive
PIECE = 1 << 20
FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
NAMES = (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)


def download(sender: Sender, path: str, target: str | os.PathLike[str]) -> None:
    """Ask for a snapshot, and unpack it into a new folder, which is there in full or not at all."""
    folder = Path(target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TableError(f"{folder} exists already: a snapshot needs a new folder")
    request = Request("GET", path, accept=TAR)

    def attempt() -> None:
        with sender.open(request, sender.timeout) as (head, stream), new_folder(folder) as part:
            check_kind(head, TAR, sender.url)
            unpack(stream.pieces, part)

    sender.repeat(request, attempt)


class Member(tarfile.TarInfo):
    """A file of an archive, or the name of one that is long; a TableError for everything else, links among them."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        names = member.type in NAMES and member.size <= MAX_NAMES
        if not names and member.type not in (*FILES, tarfile.DIRTYPE):
            raise TableError("the service answered with a snapshot that has something else than files in it")
        return member


def unpack(pieces: Iterator[bytes | bytearray], folder: Path) -> None:
    """Write the files of an archive into a folder, without the first part of their names; TableError for a member
    that is not a file, or that lies elsewhere, and for an archive that is not one."""
    source = _Pieces(pieces)
    try:
        with tarfile.open(fileobj=source, mode="r|", tarinfo=Member, encoding="utf-8") as archive:
            for number, member in enumerate(archive):
                if number >= MAX_MEMBERS:
                    raise TableError(
                        f"the service answered with a snapshot of more than {MAX_MEMBERS:,} files"
                    )
                content = archive.extractfile(member)
                if content is not None:
                    _write(_inside(folder, member.name), content, member.size)
    except (tarfile.TarError, EOFError, UnicodeError, ValueError) as error:
        raise TableError(f"the service answered with a snapshot that is not a tar file: {error}") from error
    source.exhaust()
    if source.tail != bytes(END):
        raise TableError("the service answered with a snapshot that has no end")


def _inside(folder: Path, name: str) -> Path:
    """The place of a member, which is in the folder."""
    parts = PurePosixPath(name).parts
    odd = not 2 <= len(parts) <= 10 or any(
        part in ("..", "/", "\\") or "\\" in part or ":" in part for part in parts
    )
    if odd or name.startswith("/") or "\0" in name:
        raise TableError(
            f"the service answered with a snapshot that has a file {name[:200]!r} outside of its folder"
        )
    return folder.joinpath(*parts[1:])


def _write(path: Path, content: IO[bytes], size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        while piece := content.read(PIECE):
            file.write(piece)
        if file.tell() != size:
            raise TableError(f"the service answered with a snapshot in which {path.name} is truncated")
        file.flush()
        os.fsync(file.fileno())


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a file. tail : the last bytes that were read."""

    def __init__(self, pieces: Iterator[bytes | bytearray]) -> None:
        self._pieces, self._held = pieces, memoryview(b"")
        self.tail = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._held = memoryview(piece)
        size = len(self._held) if size < 0 else size
        found, self._held = bytes(self._held[:size]), self._held[size:]
        self.tail = (self.tail + found[-END:])[-END:]
        return found

    def exhaust(self) -> None:
        """Read to the end, so that an answer that was cut off is noticed."""
        left = MAX_PADDING
        while piece := self.read():
            left -= len(piece)
            if left < 0:
                raise TableError("the service answered with a snapshot that has more after its end")
