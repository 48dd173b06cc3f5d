"""An export that is killed at its k-th sync, for every k, and then given again: run as a script, with a folder that has
a table `t`. Prints how often it was killed.

Processes are forked from one that has imported everything and has opened nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hashstream.table import HashTable
from hashstream.table.export.manifest import read_manifest


def forked(work: Callable[[], None]) -> int:
    """Do it in a process of its own; its exit code, negative where it was killed."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def export(folder: Path, kill_at: int) -> None:
    with HashTable.open(folder / "t", mode="read") as table:
        sync, left = os.fsync, kill_at

        def sync_or_die(handle: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            sync(handle)

        os.fsync = sync_or_die
        table.export(folder / "e", part_rows=40)


def compare(folder: Path) -> None:
    with HashTable.open(folder / "t", mode="read") as table:
        manifest = read_manifest(folder / "e")
        assert (manifest.count, int(manifest.digest, 16)) == (len(table), table.digest())
        names = {one.file for one in manifest.files} | {"manifest.json"}
        found = {path.name for path in (folder / "e").iterdir()}
        assert found == names or found == names | {"progress.jsonl"}, found
        assert all(len((folder / "e" / one.file).read_bytes()) == one.bytes for one in manifest.files)


def main(folder: Path) -> int:
    killed = 0
    while True:
        ended = forked(partial(export, folder, killed + 1))
        if ended == 0:
            assert forked(partial(compare, folder)) == 0
            return killed
        assert ended == -signal.SIGKILL, ended
        killed += 1
        assert forked(partial(export, folder, 0)) == 0
        assert forked(partial(compare, folder)) == 0
        shutil.rmtree(folder / "e")


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
