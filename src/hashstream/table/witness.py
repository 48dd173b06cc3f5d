"""The last commit that was acknowledged, noted outside the manifest.

SQLite reads its log up to the first frame that is damaged and takes what follows for a commit that never happened.
That is right after a crash, but a log that was truncated or altered later would quietly lose acknowledged commits. So
every commit is noted in a small file of its own after it has happened; a manifest that is older is refused.
The note itself is not synced: it may be older than the manifest, never newer, where commits are synced.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from hashstream.table.errors import TableError
from hashstream.table.packing import checksum

__all__ = ["Witness"]

MAGIC = b"HSTRWITN"
FORMAT = 1
RECORD = struct.Struct("<8sI16sIQ")  # magic, format, table, whether commits were synced, seq; then a CRC-32


class Witness:
    """The note at `path`, kept open for writing."""

    def __init__(self, path: Path, table: bytes) -> None:
        self.path, self._table = path, table
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)

    def note(self, seq: int, synced: bool) -> None:
        raw = RECORD.pack(MAGIC, FORMAT, self._table, int(synced), seq)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, raw + struct.pack("<I", checksum(raw)))

    def sync(self) -> None:
        os.fsync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @staticmethod
    def read(path: Path) -> tuple[bytes, int] | None:
        """The table, and its last commit that was synced and acknowledged (0 where commits are not synced); None where
        there is no note. To be read before the manifest, which may grow meanwhile."""
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TableError(f"{path} cannot be read: {error.strerror}") from error
        body, crc = raw[: RECORD.size], raw[RECORD.size :]
        if len(raw) != RECORD.size + 4 or struct.pack("<I", checksum(body)) != crc or body[:8] != MAGIC:
            raise TableError(
                f"{path} is damaged. It only notes the last acknowledged commit: if the other files are surely whole, "
                "delete it and open the table again."
            )
        _, version, owner, synced, noted = RECORD.unpack(body)
        if version > FORMAT:
            raise TableError(
                f"{path} has format {version}; this version of hashstream reads up to {FORMAT}: update hashstream"
            )
        return owner, noted if synced else 0
