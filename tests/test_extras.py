"""The library needs none of its extras, and says in one line which one a feature needs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

EXTRAS = (
    "typer",
    "rich",
    "matplotlib",
    "markdown_it",
    "PIL",
    "pandas",
    "pyarrow",
    "h5py",
    "onnxruntime",
    "onnx",
    "faiss",
    "fastapi",
    "starlette",
    "uvicorn",
    "pydantic",
    "prometheus_client",
    "ray",
    "pymilvus",
)

BLOCK = """
import sys

class Blocked:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Blocked)
"""


def run(code: str, *arguments: str, blocked: tuple[str, ...] = EXTRAS) -> subprocess.CompletedProcess[str]:
    """Python code in a fresh interpreter in which some libraries cannot be imported."""
    command = [sys.executable, "-c", BLOCK.format(blocked=blocked) + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_import_pulls_in_no_extra() -> None:
    # scikit-learn imports pandas, and pandas pyarrow, where they are installed.
    code = (
        "import sklearn.base\nbefore = set(sys.modules)\nimport hashstream\nprint(*set(sys.modules) - before)"
    )
    result = run(code, blocked=())
    assert result.returncode == 0, result.stderr
    imported = {module.partition(".")[0] for module in result.stdout.split()}
    assert "hashstream" in imported
    assert not imported & set(EXTRAS)


def test_rooms_are_imported_when_they_are_used() -> None:
    code = """
import hashstream as hs
assert "hashstream.table" not in sys.modules
assert hs.table is sys.modules["hashstream.table"]
assert hs.HashTable is hs.table.HashTable and hs.TableError is hs.table.TableError
from hashstream import *
for name in hs.__all__:
    assert name in globals() and name in dir(hs)
try:
    hs.no_such_name
except AttributeError as error:
    assert str(error) == "module 'hashstream' has no attribute 'no_such_name'"
else:
    raise AssertionError
"""
    result = run(code, blocked=())
    assert result.returncode == 0, result.stderr


def test_the_readme_runs_without_extras() -> None:
    code = """
import doctest
failed, tried = doctest.testfile(
    "README.md", module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
)
assert tried > 5 and not failed
"""
    result = run(code)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("missing", "arguments", "says"),
    [
        ("typer", ["methods"], "hashstream: typer is not installed: pip install 'hashstream[cli]'"),
        ("rich", ["methods"], "hashstream: rich is not installed: pip install 'hashstream[cli]'"),
        (
            "matplotlib",
            ["demo", "--out", "nowhere"],
            "hashstream: matplotlib is not installed: pip install 'hashstream[plots]'",
        ),
        (
            "matplotlib",
            ["paper", "table-map", "--dataset", "digits", "--out", "nowhere"],
            "hashstream: matplotlib is not installed: pip install 'hashstream[plots]'",
        ),
        (
            "fastapi",
            ["serve", "nowhere"],
            "hashstream: fastapi is not installed: pip install 'hashstream[serve]'",
        ),
    ],
)
def test_a_command_says_what_to_install(missing: str, arguments: list[str], says: str) -> None:
    result = run("from hashstream.__main__ import main\nmain()", *arguments, blocked=(missing,))
    assert result.returncode == 1
    assert result.stderr.strip() == says


def test_the_command_runs() -> None:
    blocked = tuple(name for name in EXTRAS[2:] if name != "pydantic")  # which typer needs
    result = run("from hashstream.__main__ import main\nmain()", "methods", blocked=blocked)
    assert result.returncode == 0, result.stderr
    assert re.search(r"^FCOH ", result.stdout, flags=re.MULTILINE)
