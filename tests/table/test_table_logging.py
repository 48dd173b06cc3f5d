"""A table logs under `hashstream`, and says nothing to a program that does not listen."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.follow_child import HASHER, batch

import hashstream as hs
from hashstream.table import Every, HashTable, Lazy, Never, logs

ROOT = Path(__file__).parents[2]


def said(caplog: pytest.LogCaptureFixture, level: str, words: str = "") -> list[str]:
    return [
        one.getMessage() for one in caplog.records if one.levelname == level and words in one.getMessage()
    ]


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "hashstream")
    return caplog


def test_a_refresh_says_how_much_of_how_many_versions(
    tmp_path: Path, heard: pytest.LogCaptureFixture
) -> None:
    with HashTable.open(tmp_path / "t", HASHER, policy=Never()) as table:
        for i in range(3):
            table.ingest(*batch(20 * i))
        assert said(heard, "INFO") == []
        table.refresh(budget=30)
        (one,) = said(heard, "INFO")
        assert one.startswith(f"{tmp_path / 't'}: re-encoded 30 items of 2 versions in 0.")
        table.refresh()
        assert "re-encoded 10 items of 1 versions" in said(heard, "INFO")[-1]
        table.refresh()
        assert len(said(heard, "INFO")) == 2


def test_a_refresh_of_the_policy_and_its_decisions(heard: pytest.LogCaptureFixture) -> None:
    with HashTable.open(None, HASHER, policy=Every(2)) as table:
        for i in range(4):
            table.ingest(*batch(20 * i))
        table.add([1000], batch(0)[1][:1])
    decisions = said(heard, "DEBUG", "Every(k=2)")
    assert [one.rpartition(": ")[2] for one in decisions] == ["do not re-encode", "re-encode"] * 2
    assert decisions[0] == "in memory: Every(k=2) after 20 rows: do not re-encode"
    done = said(heard, "INFO", "re-encoded")
    assert ["re-encoded 20 items of 1 versions" in done[0], "re-encoded 60 items of 2 versions" in done[1]]
    assert all(one.endswith(" s, with a batch") for one in done)
    assert len(done) == 2


def test_a_refresh_in_the_background(heard: pytest.LogCaptureFixture) -> None:
    with HashTable.open(None, HASHER, policy=Lazy(share=1.0)) as table:
        table.ingest(*batch(0))
        table.ingest(*batch(20))
        end = time.monotonic() + 30
        while not said(heard, "INFO", "re-encoded") and time.monotonic() < end:
            time.sleep(0.01)
    first = next(one for one in heard.records if "re-encoded" in one.getMessage())
    assert first.threadName == "hashstream-refresh"


def test_replays_checkpoints_compaction_and_reloads(tmp_path: Path, heard: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    with HashTable.open(path, HASHER, policy=Never(), checkpoint_rows=50) as table:
        table.ingest(*batch(0))
        table.ingest(*batch(20))
        assert said(heard, "DEBUG", "checkpoint at") == []
        with HashTable.open(path, mode="read") as reader:
            (one,) = said(heard, "INFO", "learned")
            assert one.startswith(
                f"{path}: learned 20 rows again in 0."
            )  # the first batch is saved with its model
            table.remove([3, 4])
            assert not said(heard, "DEBUG", "reloaded")
            assert reader.reload()
            assert not reader.reload()
            (one,) = said(heard, "DEBUG", "reloaded")
            assert one.startswith(f"{path}: reloaded, at commit 3, in 0.")
        table.ingest(*batch(40))
        table.ingest(*batch(60))
        (one,) = said(heard, "DEBUG", "checkpoint at")
        assert one.startswith(f"{path}: checkpoint at commit 5 in 0.")
        assert table.compact() == 2
        (one,) = said(heard, "INFO", "compacted")
        assert one.startswith(f"{path}: compacted, 2 rows freed in 0.")
    heard.clear()
    HashTable.open(path).close()
    assert not said(heard, "INFO")  # nothing to learn again
    assert not said(heard, "WARNING")


def test_a_slow_commit_is_a_warning(
    tmp_path: Path, heard: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HashTable.open(tmp_path / "t", HASHER, policy=Never()) as table:
        table.ingest(*batch(0))
        assert said(heard, "WARNING") == []
        monkeypatch.setattr(logs, "SLOW", 0.0)
        table.ingest(*batch(10))
        (one,) = said(heard, "WARNING")
        assert one == f"{tmp_path / 't'}: commit 2 took 0.0 s (20 items added, 10 removed, 0 re-encoded)"


class Failing(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if "decide" not in str(record.args):
            raise OSError("no place for logs")


def test_a_handler_that_fails_is_no_error_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller would believe that nothing was stored."""
    monkeypatch.setattr(logs, "SLOW", 0.0)
    logger, failing = logging.getLogger("hashstream.table"), Failing(logging.INFO)
    with HashTable.open(tmp_path / "t", HASHER, policy=Every(1)) as table:
        logger.addHandler(failing)
        logger.setLevel(logging.INFO)
        try:
            table.ingest(*batch(0))
            table.ingest(*batch(20))
            table.remove([3])
            assert table.compact() == 1
        finally:
            logger.removeHandler(failing)
            logger.setLevel(logging.NOTSET)
        assert len(table) == 39
        assert table.check()["rows"] == 39


def test_a_message_that_nobody_hears_is_not_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []  # what is raised there is not heard

    def told(*args: Any) -> None:
        made.append(args)

    logger = logging.getLogger("hashstream.table")
    monkeypatch.setattr(logger, "level", logging.WARNING)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    monkeypatch.setattr(logger, "makeRecord", told)
    monkeypatch.setattr(logs, "locate", told)
    try:
        with HashTable.open(tmp_path / "t", HASHER, policy=Every(2)) as table:
            for i in range(4):
                table.ingest(*batch(20 * i))
            table.remove([1])
            table.compact()
    finally:
        monkeypatch.undo()
        logger.manager._clear_cache()  # type: ignore[attr-defined]
    assert made == []


QUIET = """
import sys, numpy as np, hashstream as hs
from hashstream.table import HashTable, Every, logs
from tests.table.follow_child import HASHER, batch

logs.SLOW = 0.0

def fail(commit):
    raise RuntimeError("on_commit")

with HashTable.open(sys.argv[1], HASHER, policy=Every(2), on_commit=fail) as table:
    for i in range(4):
        table.ingest(*batch(20 * i))
    table.remove([1])
    table.compact()
with HashTable.open(sys.argv[1], mode="read", follow=True, max_staleness=0.01) as reader:
    len(reader)
"""

LISTENING = """
import logging
logging.basicConfig(level=logging.INFO)
"""


@pytest.mark.parametrize("listens", [False, True])
def test_nothing_is_printed_unless_the_program_listens(tmp_path: Path, listens: bool) -> None:
    paths = os.pathsep.join([str(Path(hs.__file__).parents[1]), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", (LISTENING if listens else "") + QUIET, str(tmp_path / "t")],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    if listens:
        assert "INFO:hashstream.table:" in done.stderr
        assert "WARNING:hashstream.table:on_commit failed" in done.stderr
    else:
        assert done.stderr == ""


def test_the_package_adds_no_handler_but_a_silent_one() -> None:
    handlers = logging.getLogger("hashstream").handlers
    assert [type(one) for one in handlers] == [logging.NullHandler]
    assert logging.getLogger("hashstream.table").handlers == []
    assert np.all([one.level == logging.NOTSET for one in handlers])


def test_a_command_still_shows_warnings(tmp_path: Path) -> None:
    script = (
        "import logging, sys\n"
        "sys.argv = ['hashstream', 'version']\n"
        "from hashstream.__main__ import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "logging.getLogger('hashstream.table').warning('a checkpoint failed')\n"
        "logging.getLogger('hashstream.table').info('a refresh')\n"
    )
    paths = str(Path(hs.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "a checkpoint failed\n"
