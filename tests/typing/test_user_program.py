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


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
@pytest.mark.parametrize(
    "mistake",
    [
        None,
        "hs.hamming.topk(codes, codes, k='ten')",
        "hs.no_such_name",
        "hs.HashTable.open(None, hs.FCOH()).ingest_files(['x.npz'], lable='y')",
        "hs.HashTable.open(None, hs.FCOH(), durability='slow')",
        "hs.HashTable.open(None, hs.FCOH()).search(codes, include=('colours',))",
        "hs.Client('http://localhost').table('t').search(codes, include=('colours',))",
        "hs.Client('http://localhost').table('t').ingest_files(['x.npz'])",
        "async def f() -> None: (await hs.AsyncClient('http://localhost').table('t')).search(codes).ids",
    ],
)
def test_it_is_typed(tmp_path: Path, mistake: str | None) -> None:
    assert (SOURCE / "py.typed").is_file()
    program = PROGRAM
    if mistake is not None:
        program = tmp_path / "program.py"
        program.write_text(f"import hashstream as hs\ncodes = hs.hamming.pack([[1, 0]])\n{mistake}\n")
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MYPYPATH": str(SOURCE.parent), "MYPY_CACHE_DIR": str(tmp_path.parent / "mypy")},
    )
    assert (result.returncode == 0) == (mistake is None), result.stdout + result.stderr
