"""Rare orders of events, each of which a table once got wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never
from hashstream.table.witness import Witness

X, Y = rows(np.random.default_rng(0), 60)


def new(path: Path | None, **settings: Any) -> HashTable:
    settings.setdefault("policy", Never())
    return HashTable.open(path, hs.FCOH(n_bits=12, random_state=0), **settings)


def test_commits_of_a_killed_process_are_synced_before_they_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The log of a process that is killed between the writing of a commit and its sync is in the system's memory only.
    # A synced note of that commit must not outlive it: the folder would be refused after a power loss.
    killed = tmp_path / "killed"
    with new(tmp_path / "t") as table:
        table.ingest(np.arange(60), X, Y)
        shutil.copytree(tmp_path / "t", killed)
    log = killed / "manifest.sqlite-wal"
    assert log.stat().st_size
    names = {path.stat().st_ino: path.name for path in (killed, log)}
    seen: list[str] = []
    sync, note = os.fsync, Witness.note

    def watched_sync(handle: int) -> None:
        sync(handle)
        seen.append(names.get(os.fstat(handle).st_ino, "other"))

    def watched_note(self: Witness, seq: int, synced: bool) -> None:
        seen.append("note")
        note(self, seq, synced)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(Witness, "note", watched_note)
    with HashTable.open(killed) as table:
        assert len(table) == 60
        assert {log.name, killed.name} <= set(seen[: seen.index("note")])
