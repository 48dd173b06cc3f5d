"""The user's program runs, and a strict type checker accepts it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hashstream

PROGRAM = Path(__file__).with_name("user_program.py")
SOURCE = Path(hashstream.__file__).parent


def test_it_runs() -> None:
    result = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1] == "799 items"


MISTAKES = [
    "hs.hamming.topk(codes, codes, k='ten')",
    "hs.no_such_name",
    "hs.HashTable.open(None, hs.FCOH()).ingest_files(['x.npz'], lable='y')",
    "hs.HashTable.open(None, hs.FCOH(), durability='slow')",
    "hs.HashTable.open(None, hs.FCOH()).search(codes, include=('colours',))",
    "hs.Client('http://localhost').table('t').search(codes, include=('colours',))",
    "hs.Client('http://localhost').table('t').ingest_files(['x.npz'])",
    "async def f() -> None: (await hs.AsyncClient('http://localhost').table('t')).search(codes).ids",
]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, str]:
    """What a type checker says of the program (None) and of each mistake, all checked by one process."""
    folder = tmp_path_factory.mktemp("typed")
    programs: dict[str | None, Path] = {None: PROGRAM}
    for i, mistake in enumerate(MISTAKES):
        programs[mistake] = folder / f"mistake_{i}.py"
        programs[mistake].write_text(
            f"import hashstream as hs\ncodes = hs.hamming.pack([[1, 0]])\n{mistake}\n"
        )
    command = ["mypy", "--strict", "--follow-imports=silent", "--config-file=", "--show-absolute-path"]
    result = subprocess.run(
        [sys.executable, "-m", *command, *programs.values()],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MYPYPATH": str(SOURCE.parent), "MYPY_CACHE_DIR": str(folder / "mypy")},
    )
    assert result.returncode == 1, (
        result.stdout + result.stderr
    )  # errors were found, and nothing else happened
    *lines, last = result.stdout.splitlines()
    assert f"checked {len(programs)} source files" in last
    said = {
        mistake: "\n".join(line for line in lines if line.startswith(f"{path}:"))
        for mistake, path in programs.items()
    }
    assert sum(len(one.splitlines()) for one in said.values()) == len(lines), result.stdout
    return said


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
@pytest.mark.parametrize("mistake", [None, *MISTAKES])
def test_it_is_typed(checked: dict[str | None, str], mistake: str | None) -> None:
    assert (SOURCE / "py.typed").is_file()
    assert (": error: " in checked[mistake]) == (mistake is not None), checked[mistake]
