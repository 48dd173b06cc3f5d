"""The commit marker: the number of the last acknowledged commit, outside the database.

SQLite reads its log up to the first damaged frame and takes what follows for a commit that never happened. That is
right after a crash, but a log that was truncated or altered later would lose acknowledged commits without a word. So
every commit is noted in a small file of its own after it has happened, and a database that is older is refused.

The marker itself is not synced: where commits are synced, it may be older than the database, never newer. Where they
are not, a power loss may take a commit and leave its marker; such a marker counts until the machine has started again.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hashstream.table.errors import TableError, not_opened
from hashstream.table.storage.folder.records import FILE_FORMAT, check_format, checksum

__all__ = ["CommitMarker", "Marked"]

MAGIC = b"HSTRMARK"
RECORD = struct.Struct(
    "<8sI16sI16sQ"
)  # magic, format, table, whether synced, start of the machine, seq; then a CRC-32
TRIES = 20  # to read a note that another process is writing


@dataclass(frozen=True)
class Marked:
    """table : its 16 bytes. seq : the last commit that must be there. synced : whether commits were, up to it."""

    table: bytes
    seq: int
    synced: bool


class CommitMarker:
    """The note at `path`, kept open for writing."""

    def __init__(self, path: Path, table: bytes, seq: int, synced: bool) -> None:
        """Note commit `seq`, and make that durable."""
        self.path, self._table, self._machine = path, table, start_of_machine()
        if path.exists():
            self._file = path.open("r+b", buffering=0)
            self.note(seq, synced)
            with suppress(OSError):
                os.fsync(self._file.fileno())
            return
        part = path.with_name(f"{path.name}.part")  # a process that is killed here must not leave half a note
        self._file = part.open("w+b", buffering=0)
        self._file.write(self._record(seq, synced))
        os.fsync(self._file.fileno())
        part.replace(path)

    def note(self, seq: int, synced: bool) -> None:
        """That it cannot be written is no error: the commit has happened, and a note may be older."""
        with suppress(OSError, MemoryError):
            self._file.seek(0)
            self._file.write(self._record(seq, synced))

    def _record(self, seq: int, synced: bool) -> bytes:
        raw = RECORD.pack(MAGIC, FILE_FORMAT, self._table, int(synced), self._machine, seq)
        return raw + struct.pack("<I", checksum(raw))

    def close(self) -> None:
        self._file.close()

    @staticmethod
    def read(path: Path) -> Marked | None:
        """None where there is none. To be read before the database, which may grow meanwhile."""
        for _ in range(TRIES):
            try:
                raw = path.read_bytes()
            except FileNotFoundError:
                return None
            except OSError as error:
                raise not_opened(path, error, write=False) from error
            body, crc = raw[: RECORD.size], raw[RECORD.size :]
            if len(raw) == RECORD.size + 4 and struct.pack("<I", checksum(body)) == crc and body[:8] == MAGIC:
                break
            version = int.from_bytes(raw[8:12], "little")
            if raw[:8] == MAGIC and FILE_FORMAT < version < 1000:
                check_format(str(path), version)
            time.sleep(0.005)
        else:
            raise TableError(
                f"{path} is damaged. It only holds the number of the last acknowledged commit: if all other files are "
                "intact, delete it and open the table again."
            )
        _, _, table, synced, started, seq = RECORD.unpack(body)
        counts = synced or (started == start_of_machine() and any(started))
        return Marked(table, seq if counts else 0, bool(synced))


def start_of_machine() -> bytes:
    """16 bytes that differ from one start of the machine to the next; zeros where the system does not say."""
    try:
        return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)
