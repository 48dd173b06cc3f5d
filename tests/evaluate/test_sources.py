"""Rows of a method of one's own are not shown once its source has changed."""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hashstream as hs
from hashstream import evaluate
from hashstream.cli import app
from hashstream.evaluate.sources import source_digest
from hashstream.hashers import registry

SOURCE = '''
from hashstream import LSH

STEP = 1
BITS = [8]


def twice(x):
    return 2 * x * STEP


class Mine(LSH):
    """A projection."""

    def score(self, X, y=None):
        return twice(1)

    @classmethod
    def made(cls, **settings):
        return cls(**settings)


for bits in BITS:
    print(bits, "bits")
'''

PINNED = "9107da887df7b242"
"""The digest of Mine, in every version of Python."""

Write = Callable[[str], Any]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a module and import its class."""
    monkeypatch.syspath_prepend(tmp_path)

    def call(source: str) -> Any:
        name = f"{tmp_path.name}_{len(list(tmp_path.glob('*.py')))}"
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module(name).Mine

    return call


@pytest.fixture(scope="module")
def data() -> evaluate.PreparedDataset:
    rng = np.random.default_rng(0)
    setting = evaluate.protocols.Setting(per_class=5, stream=100, every=50)
    return evaluate.PreparedDataset(
        "noise", rng.standard_normal((200, 4), np.float32), np.arange(200) % 4, setting
    )


def test_a_digest_changes_with_the_code_and_not_with_its_layout(write: Write) -> None:
    method = write(SOURCE)
    mine = source_digest(method)
    assert mine == PINNED
    assert mine == source_digest(partial(method, n_bits=8)) == source_digest(method.made)
    for old, new in (
        ("STEP = 1", "# why\n\nSTEP  =  1"),
        ("A projection", "Directions"),
        ("BITS = [8]", "BITS = [8, 16]"),
        ("import LSH", "import LSH as LSH"),
    ):
        assert mine == source_digest(write(SOURCE.replace(old, new))), new
    for old, new in (
        ("STEP = 1", "STEP = 2"),
        ("2 * x", "3 * x"),
        ("twice(1)", "twice(1.0)"),
        ("=None", "=0"),
    ):
        assert mine != source_digest(write(SOURCE.replace(old, new))), new
    assert source_digest(hs.LSH) is None
    assert (
        source_digest(partial(hs.LSH.from_paper, "mnist") if hasattr(hs.LSH, "from_paper") else hs.FCOH)
        is None
    )


def test_a_class_of_a_notebook_has_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell is no file; IPython gives its lines to linecache."""

    def cell(number: int, source: str) -> str | None:
        name = f"<ipython-input-{number}>"
        monkeypatch.setitem(linecache.cache, name, (len(source), None, source.splitlines(True), name))
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(source, name, "exec"), names)
        return source_digest(names["Mine"])

    assert cell(1, SOURCE) == cell(2, SOURCE) == PINNED
    assert cell(3, SOURCE.replace("2 * x", "3 * x")) not in (PINNED, None)


def test_rows_of_an_edited_method_are_refused(
    write: Write, data: evaluate.PreparedDataset, tmp_path: Path
) -> None:
    path = tmp_path / "out" / "results.csv"
    for settings in ({}, {"batch_size": 50}):
        jobs = evaluate.jobs({"Mine": write(SOURCE), "LSH": hs.LSH}, bits=[8], runs=1, settings=settings)
        evaluate.run(jobs, data, evaluate.Results(path))
    before = path.read_text()
    edited = evaluate.jobs({"Mine": write(SOURCE.replace("STEP = 1", "STEP = 2"))}, bits=[8], runs=2)
    with pytest.raises(ValueError, match="figures of an earlier Mine: its source has changed"):
        evaluate.run(edited, data, evaluate.Results(path))
    with pytest.raises(ValueError, match="its source has changed"):
        list(evaluate.measure(edited[1], data, [50], evaluate.Results(path)))
    assert path.read_text() == before
    evaluate.run(jobs, data, evaluate.Results(path))  # as it was, it is not measured again
    assert path.read_text() == before
    renamed = evaluate.jobs({"Other": edited[0].method}, bits=[8], runs=1)
    evaluate.run(renamed, data, evaluate.Results(path))
    assert "noise,paper,Other,8" in path.read_text()


def test_without_rows_nothing_is_refused(
    write: Write, data: evaluate.PreparedDataset, tmp_path: Path
) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    results.mark_sources(
        {"Mine": "0" * 16}
    )  # as a run that was stopped before its first checkpoint leaves it
    evaluate.run(evaluate.jobs({"Mine": write(SOURCE)}, bits=[8], runs=1), data, results)
    assert {row["method"] for row in results.rows} == {"Mine"}


@pytest.mark.parametrize("command", ["bench", "paper fig-map-instances"])
def test_commands_refuse_them(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if nothing is left to measure."""
    monkeypatch.setattr(registry, "_METHODS", registry.methods(variants=True))
    file = tmp_path / f"mine_by_{command.split()[0]}.py"
    arguments = [
        *command.split(),
        "--dataset",
        "digits",
        "--methods",
        f"{file}:Mine",
        "--bits",
        "8",
        "--runs",
        "1",
    ]
    arguments += ["--workers", "1", "--out", str(tmp_path / "out")]
    for source, status in ((SOURCE, 0), (SOURCE, 0), (SOURCE.replace("STEP = 1", "STEP = 2"), 2)):
        file.write_text(source)
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == status, done.output
    assert "its source has changed since they were measured" in " ".join(done.output.split())
