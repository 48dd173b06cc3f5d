"""An export that is killed at every point and given again; folders that hold other things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.table.export_world import D, contents, everything

from hashstream.table import HashTable, TableError
from hashstream.table.export.manifest import read_manifest
from hashstream.table.export.writing import ExportProgress


class Stop(Exception):
    pass


def interrupted(table: HashTable, folder: Path, rows: int, **options: object) -> None:
    def stop(step: ExportProgress) -> None:
        if step.rows >= rows:
            raise Stop

    with pytest.raises(Stop):
        table.export(folder, progress=stop, **options)  # type: ignore[arg-type]
    with pytest.raises(TableError, match="is not complete"):
        HashTable.restore(folder, folder / "r")


def test_killed_at_every_sync(tmp_path: Path) -> None:
    """See `export_child`: it says at how many syncs it was killed, and fails where anything came out otherwise."""
    with everything(tmp_path / "t"):
        pass
    child = [sys.executable, "-m", "tests.table.export_child", str(tmp_path)]
    ended = subprocess.run(child, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 20


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table:
        interrupted(table, tmp_path / "e", 40, part_rows=40)
        before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "e").glob("part-*.parquet")}
        steps: list[ExportProgress] = []
        manifest = table.export(tmp_path / "e", part_rows=40, progress=steps.append)
        assert steps[0].kept == sum(part.rows for part in manifest.parts[: len(before)]) >= 40
        assert not steps[0].restarted
        for name, time in before.items():
            assert (tmp_path / "e" / name).stat().st_mtime_ns == time
        assert not list((tmp_path / "e").glob("*progress*"))
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == contents(table, features=False)


def test_a_part_that_is_damaged_meanwhile_is_written_again(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table:
        interrupted(table, tmp_path / "e", 40, part_rows=40)
        part = tmp_path / "e" / "part-000000.parquet"
        raw = bytearray(part.read_bytes())
        raw[100] ^= 1
        part.write_bytes(raw)
        (tmp_path / "e" / "part-000001.parquet").unlink()
        table.export(tmp_path / "e", part_rows=40)
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == contents(table, features=False)


def test_a_table_that_has_changed_starts_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with everything(tmp_path / "t") as table:
        interrupted(table, tmp_path / "e", 40, part_rows=40)
        table.add([999], np.ones((1, D), np.float32))
        steps: list[ExportProgress] = []
        manifest = table.export(tmp_path / "e", part_rows=40, progress=steps.append)
        assert (steps[0].kept, steps[0].restarted) == (0, True)
        assert "starts again" in caplog.text
        assert manifest.count == len(table)
        with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
            assert contents(back) == contents(table, features=False)


@pytest.mark.parametrize("other", [{"part_rows": 60}, {"part_rows": 40, "features": True}])
def test_other_options_start_again(tmp_path: Path, other: dict[str, int]) -> None:
    with everything(tmp_path / "t") as table:
        interrupted(table, tmp_path / "e", 40, part_rows=40)
        steps: list[ExportProgress] = []
        table.export(tmp_path / "e", progress=steps.append, **other)  # type: ignore[arg-type]
        assert (steps[0].kept, steps[0].restarted) == (0, True)
        HashTable.restore(tmp_path / "e", tmp_path / "r").close()


def test_a_copy_that_went_its_own_way_starts_again(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table:
        table.snapshot(tmp_path / "copy")
        table.add([999], np.ones((1, D), np.float32))
        interrupted(table, tmp_path / "e", 40, part_rows=40)
        with HashTable.open(tmp_path / "copy") as copy:
            copy.add([998], np.ones((1, D), np.float32))
            assert copy.commits == table.commits
            copy.export(tmp_path / "e", part_rows=40)
            with HashTable.restore(tmp_path / "e", tmp_path / "r") as back:
                assert contents(back) == contents(copy, features=False)


def test_a_complete_export_stays(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table:
        first = table.export(tmp_path / "e", part_rows=40)
        steps: list[ExportProgress] = []
        assert table.export(tmp_path / "e", progress=steps.append) == first
        assert steps == []
        table.add([999], np.ones((1, D), np.float32))
        with pytest.raises(TableError, match=f"complete export already, of commit {first.commit}"):
            table.export(tmp_path / "e")
        assert read_manifest(tmp_path / "e") == first


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "notes.txt").write_text("mine")
    with everything(None) as table:
        with pytest.raises(TableError, match=r"other files, such as notes\.txt"):
            table.export(tmp_path / "e")
        with pytest.raises(TableError, match="cannot be written"):
            table.export(tmp_path / "e" / "notes.txt")
    assert [path.name for path in (tmp_path / "e").iterdir()] == ["notes.txt"]


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table:

        def second(step: ExportProgress) -> None:
            with HashTable.open(tmp_path / "t", mode="read") as reader:
                reader.export(tmp_path / "e")

        with pytest.raises(TableError, match="another process exports to this folder"):
            table.export(tmp_path / "e", progress=second)
        table.export(tmp_path / "e")


def test_a_table_is_restored_to_a_new_folder_only(tmp_path: Path) -> None:
    with everything(tmp_path / "t") as table:
        table.export(tmp_path / "e")
        with pytest.raises(TableError, match="exists already"):
            HashTable.restore(tmp_path / "e", tmp_path / "t")
        (tmp_path / "empty").mkdir()
        with HashTable.restore(tmp_path / "e", tmp_path / "empty") as back:
            assert len(back) == len(table)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "empty", "t"]
