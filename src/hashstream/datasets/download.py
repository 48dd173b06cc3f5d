"""Gzipped files from elsewhere whose content is known beforehand, byte for byte.

What is pinned is the SHA-256 of the *uncompressed* bytes: mirrors recompress, the content stays.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import urllib.request
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hashstream.datasets.folders import DatasetError

__all__ = ["Pinned", "Progress", "fetch", "keep", "read"]

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes that have come, and how many there will be (None: not announced)."""

_PIECE = 1 << 16


@dataclass(frozen=True)
class Pinned:
    """A gzipped file: its name, and size and SHA-256 (hexadecimal) of what it holds, uncompressed."""

    name: str
    size: int
    sha256: str

    @property
    def stem(self) -> str:
        """The name of the file once it is uncompressed."""
        return self.name.removesuffix(".gz")


def read(path: Path, pinned: Pinned) -> bytes:
    """The uncompressed content of the file at `path`, once it is shown to be what was pinned.

    Never more than `pinned.size` + 1 bytes are unpacked, however much a hostile file would grow to.
    """
    try:
        with gzip.open(path) as packed:
            content = packed.read(pinned.size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} is not a complete gzip file ({error})") from error
    return _same(content, pinned, str(path))


def fetch(
    base_url: str, pinned: Pinned, folder: Path, *, timeout: float = 5.0, progress: Progress | None = None
) -> bytes:
    """Download base_url/name into `folder` and return its uncompressed content.

    The file gets its name only after its content was verified; until then it has a temporary one, and is
    removed if anything goes wrong. `timeout` is in seconds, for the connection and for each wait on it.
    """
    if not base_url.startswith(("http://", "https://")):
        raise DatasetError(f"the download address {base_url!r} has to begin with http:// or https://")
    url = f"{base_url.rstrip('/')}/{pinned.name}"
    with _unfinished(pinned, folder) as part:
        try:
            with part.open("wb") as file:
                _copy(url, file.write, pinned, timeout, progress)
            content = read(part, pinned)
            part.replace(folder / pinned.name)
        except DatasetError as error:
            raise DatasetError(f"{url} was refused: {str(error).replace(str(part), 'what came')}") from error
        except (OSError, http.client.HTTPException) as error:
            raise DatasetError(f"{url} could not be downloaded ({error})") from error
    return content


def keep(content: bytes, pinned: Pinned, folder: Path, *, origin: str) -> bytes:
    """Put `content` (uncompressed) into `folder` as the gzipped file that was pinned, once it is shown to be that.

    origin: where the content came from, for the message where it is something else. Returns `content`.
    """
    _same(content, pinned, f"{pinned.stem} from {origin}")
    with _unfinished(pinned, folder) as part:
        try:
            part.write_bytes(gzip.compress(content, compresslevel=3, mtime=0))
            part.replace(folder / pinned.name)
        except OSError as error:
            raise DatasetError(f"{folder / pinned.name} could not be written ({error})") from error
    return content


def _same(content: bytes, pinned: Pinned, what: str) -> bytes:
    if len(content) != pinned.size or hashlib.sha256(content).hexdigest() != pinned.sha256:
        raise DatasetError(f"{what} is not {pinned.stem} as published: its checksum differs")
    return content


@contextmanager
def _unfinished(pinned: Pinned, folder: Path) -> Iterator[Path]:
    """A file in `folder` under a name that is nobody else's, though two may download at once; gone afterwards."""
    part = folder / f"{pinned.name}.{uuid.uuid4().hex}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.touch(exist_ok=False)
    except OSError as error:
        raise DatasetError(f"{folder} cannot be written to ({error})") from error
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def _copy(
    url: str, write: Callable[[bytes], int], pinned: Pinned, timeout: float, progress: Progress | None
) -> None:
    """The body of the answer, in pieces; more than the content could need, or less than announced, raises."""
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        announced = answer.headers.get("Content-Length")
        total = int(announced) if announced and announced.isdigit() else None
        most, come = pinned.size + (1 << 20), 0  # gzip does not make random bytes much longer
        while piece := answer.read(_PIECE):
            come += len(piece)
            if come > most:
                raise DatasetError(f"what came is longer than {pinned.name} can be")
            write(piece)
            if progress is not None:
                progress(pinned.name, come, total)
    if total is not None and come < total:
        raise DatasetError(f"what came ended after {come:,} of {total:,} bytes")
