"""Temporary folders of Ray: those of a process that was killed are removed by the next one, and no others. No Ray."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hashstream.scale import connection

CHILD = """
import time
from hashstream.scale.connection import new_folder
print(new_folder(), flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of /tmp."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def child() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with such a folder."""
    process = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    (folder / "session").mkdir()
    (folder / "session" / "log").write_text("log")
    yield process, folder
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_folder_of_a_killed_process_is_removed(
    child: tuple[subprocess.Popen[str], Path], room: Path
) -> None:
    process, folder = child
    assert folder.parent == room
    connection.remove_left_folders()
    assert (folder / "session" / "log").exists()
    process.kill()
    process.wait()
    connection.remove_left_folders()
    assert not folder.exists()


def test_other_folders_stay(
    child: tuple[subprocess.Popen[str], Path], room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, left = child
    process.kill()
    process.wait()
    mine = Path(connection.new_folder())
    unknown = room / "hs-ray-unknown"  # of a version that locked nothing
    unknown.mkdir()
    elsewhere = room / "elsewhere"
    shutil.copytree(left, elsewhere)
    (room / "hs-ray-link").symlink_to(elsewhere)
    (room / "hs-ray-file").touch()
    linked = room / "hs-ray-linked"
    linked.mkdir()
    (linked / "owner").symlink_to(elsewhere / "owner")
    with monkeypatch.context() as patch:
        patch.setattr(connection, "_user", lambda: os.getuid() + 1)
        connection.remove_left_folders()  # of another user
    assert left.exists()
    connection.remove_left_folders()
    names = {"elsewhere", mine.name, "hs-ray-unknown", "hs-ray-link", "hs-ray-file", "hs-ray-linked"}
    assert {path.name for path in room.iterdir()} == names
    assert (elsewhere / "session" / "log").exists()
