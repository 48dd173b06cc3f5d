"""Downloads of gzipped files whose content is known in advance.

The SHA-256 is that of the *uncompressed* bytes: mirrors recompress, the content stays the same. That is why `pooch`,
which pins the file as it is transferred, is not used here.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hashstream._files import atomic_path
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.record import Progress

__all__ = ["Pinned", "fetch", "keep", "read"]

_PIECE = 1 << 16


@dataclass(frozen=True)
class Pinned:
    """The name of a gzipped file, and the size and SHA-256 (hexadecimal) of its uncompressed content."""

    name: str
    size: int
    sha256: str

    @property
    def stem(self) -> str:
        """The name of the uncompressed file."""
        return self.name.removesuffix(".gz")


def read(path: Path, pinned: Pinned) -> bytes:
    """The uncompressed content of the file at `path`, verified.

    At most `pinned.size` + 1 bytes are unpacked, so a decompression bomb does no harm.
    """
    try:
        with gzip.open(path) as packed:
            content = packed.read(pinned.size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} is not a complete gzip file ({error})") from error
    return _verified(content, pinned, str(path))


def fetch(
    base_url: str, pinned: Pinned, folder: Path, *, timeout: float = 5.0, progress: Progress | None = None
) -> bytes:
    """Download base_url/name into `folder` and return its uncompressed content.

    The file has a temporary name until its content is verified, and is removed if anything goes wrong. `timeout` is in
    seconds, for the connection and for each wait on it.
    """
    if not base_url.startswith(("http://", "https://")):
        raise DatasetError(f"the download address {base_url!r} has to begin with http:// or https://")
    url = f"{base_url.rstrip('/')}/{pinned.name}"
    _make(folder)
    try:
        with atomic_path(folder / pinned.name) as part:
            try:
                with part.open("wb") as file:
                    _copy(url, file.write, pinned, timeout, progress)
                return read(part, pinned)
            except DatasetError as error:
                reason = str(error).replace(str(part), "the answer")
                raise DatasetError(f"{url} was refused: {reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise DatasetError(f"{url} could not be downloaded ({error})") from error


def keep(content: bytes, pinned: Pinned, folder: Path, *, origin: str) -> bytes:
    """Verify `content` (uncompressed), write it to `folder` as the gzipped file, and return it.

    origin : where the content came from, for the error message.
    """
    _verified(content, pinned, f"{pinned.stem} from {origin}")
    _make(folder)
    try:
        with atomic_path(folder / pinned.name) as part:
            part.write_bytes(gzip.compress(content, compresslevel=3, mtime=0))
    except OSError as error:
        raise DatasetError(f"{folder / pinned.name} could not be written ({error})") from error
    return content


def _verified(content: bytes, pinned: Pinned, what: str) -> bytes:
    if len(content) != pinned.size or hashlib.sha256(content).hexdigest() != pinned.sha256:
        raise DatasetError(f"{what} is not {pinned.stem} as published: its checksum differs")
    return content


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(f"{folder} cannot be written to ({error})") from error


def _copy(
    url: str, write: Callable[[bytes], int], pinned: Pinned, timeout: float, progress: Progress | None
) -> None:
    """Write the body of the answer; DatasetError if it is too long, or shorter than announced."""
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        announced = answer.headers.get("Content-Length")
        total = int(announced) if announced and announced.isdigit() else None
        limit, received = pinned.size + (1 << 20), 0  # gzip makes random bytes only slightly longer
        while piece := answer.read(_PIECE):
            received += len(piece)
            if received > limit:
                raise DatasetError(f"the answer is longer than {pinned.name} can be")
            write(piece)
            if progress is not None:
                progress(pinned.name, received, total)
    if total is not None and received < total:
        raise DatasetError(f"the answer ended after {received:,} of {total:,} bytes")
