"""Storages in memory and in a folder, held to the contract."""

from __future__ import annotations

import errno
import gc
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.table.storage_contract import DurableContract, StorageContract, empty_state, ingest, settings
from tests.table.table_worlds import rows

from hashstream.table import HashTable, Storage
from hashstream.table.storage.folder import failpoints
from hashstream.table.storage.folder.create import create_folder
from hashstream.table.storage.folder.storage import FolderStorage
from hashstream.table.storage.memory import MemoryStorage


class TestMemory(StorageContract):
    def opened(self, tmp_path: Path, keep_features: bool = True) -> Storage:
        return MemoryStorage(empty_state(), settings(keep_features), keep_features=keep_features)


class TestFolder(DurableContract):
    def opened(self, tmp_path: Path, keep_features: bool = True) -> Storage:
        create_folder(tmp_path / "t", empty_state(), settings(keep_features), keep_features=keep_features)
        return FolderStorage(tmp_path / "t", mode="write")

    def reopened(self, storage: Storage) -> Storage:
        assert storage.path is not None
        return FolderStorage(storage.path, mode="write")

    def break_commits(self, patch: pytest.MonkeyPatch) -> None:
        def fail(name: str) -> None:
            if name == "commit.before":
                raise OSError(errno.ENOSPC, "no space left on device")

        patch.setattr("hashstream.table.storage.folder.database.reach", fail)


def test_a_dropped_storage_gives_its_lock_back_without_the_garbage_collector(tmp_path: Path) -> None:
    """An interrupt may leave an opened storage that nobody refers to; whoever opens the folder next must not wait."""
    gc.disable()
    try:
        for _ in range(2):
            storage = TestFolder().opened(tmp_path)
            ingest(storage, storage.load(), range(5), 1)
            storage.features(np.arange(3))
            del storage
            with HashTable.open(tmp_path / "t") as table:
                table.search(np.zeros((1, 12), np.float32))
            table = HashTable.open(tmp_path / "t", policy="every:3")
            table.ingest(range(5), *rows(np.random.default_rng(2), 5))
            del table
            shutil.rmtree(tmp_path / "t")
    finally:
        gc.enable()


def test_the_contract_notices_a_storage_that_forgets(tmp_path: Path) -> None:
    """The contract can fail: here a storage that loses the features of later batches."""

    class Forgetful(MemoryStorage):
        def read(self, slots, generation):  # type: ignore[no-untyped-def]
            found = super().read(slots, generation)
            found[slots >= 20] = 0
            return found

    class Tests(TestMemory):
        def opened(self, tmp_path: Path, keep_features: bool = True) -> Storage:
            return Forgetful(empty_state(), settings(keep_features), keep_features=keep_features)

    with pytest.raises(AssertionError):
        Tests().test_what_is_committed_can_be_read(tmp_path)


def test_fail_points_have_names() -> None:
    with pytest.raises(ValueError, match="no fail-point"), failpoints.on("commit.never", lambda: None):
        pass
