"""A slice of the fuzzers, small enough for every run of the tests."""

from __future__ import annotations

import pytest
from tests.fuzz import data_files
from tests.fuzz.data_files import KINDS, run, valid


def test_a_few_hundred_files() -> None:
    """Those that are parsed in this process, which are fast."""
    counts = run(count=400, seed=0, kinds=("npy", "npz", "csv", "tsv"))
    assert counts.problems == []
    assert counts.cases == 400
    assert counts.refused > 100
    assert counts.worked > 20


def test_a_few_files_that_a_process_is_started_for() -> None:
    counts = run(count=9, seed=0, kinds=("parquet", "mat", "mat73"))
    assert counts.problems == []
    assert counts.cases == 9


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_the_same_each_time(kind: str, tmp_path) -> None:
    assert len({len(raw) for raw in valid(kind)}) > 0
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        data_files.write(tmp_path / name / "file", kind, data_files.random.Random("7"), whole=False)
    assert (tmp_path / "a" / "file").read_bytes() == (tmp_path / "b" / "file").read_bytes()


def test_a_crash_a_hang_and_a_stray_exception_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """The fuzzer itself can see what it looks for."""
    package = tmp_path / "sitecustomize.py"
    package.write_text(
        "import os, sys\n"
        "if '--worker' in sys.orig_argv:\n"
        "    import time\n"
        "    import tests.fuzz.data_files as own\n"
        "    def load(folder, seed, case, kinds):\n"
        "        if case == 1: os.abort()\n"
        "        if case == 3: time.sleep(600)\n"
        "        return ['worked', '', 'refused', '', 'problem KeyError', 'refused'][case]\n"
        "    own.load = load\n"
        "    own._limit_memory = lambda: None\n"
        "    own.main(sys.orig_argv[sys.orig_argv.index('--worker'):])\n"
        "    os._exit(0)\n"
    )
    monkeypatch.setattr(data_files, "PATIENCE", 5.0)
    monkeypatch.syspath_prepend(str(tmp_path))
    counts = run(count=6, seed=0)
    assert (counts.cases, counts.worked, counts.refused) == (6, 1, 2)
    assert [problem.partition("): ")[2] for problem in counts.problems] == [
        "ended the process, code -6",
        "hung",
        "KeyError",
    ]
