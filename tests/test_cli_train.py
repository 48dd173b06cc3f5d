"""`hashstream train`: one model however it is learned, a command that continues, and mistakes found at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hashstream as hs
from hashstream import cli


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def command_line(*arguments: Any) -> subprocess.Popen[bytes]:
    """The command in a process of its own, which imports the package that is tested."""
    environment = {**os.environ, "PYTHONPATH": str(Path(hs.__file__).parents[1])}
    return subprocess.Popen([sys.executable, "-m", "hashstream", *map(str, arguments)], env=environment)


def refused(*arguments: Any) -> str:
    """What is said to a mistake: on stderr, exit code 2, no traceback."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    return " ".join(result.stderr.split())


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Four files of 1,000 rows each, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    rng = np.random.default_rng(0)
    means = rng.normal(size=(5, 8))
    for i in range(4):
        y = rng.integers(0, 5, 1000)
        rows = means[y] + rng.normal(size=(1000, 8))
        np.savez(f"{i}.npz", X=rows.astype(np.float32), kind=np.array(list("abcde"))[y])
    return [Path(f"{i}.npz") for i in range(4)]


RIDGE = ("--method", "RidgeHash", "--bits", 16, "--label", "kind")


def test_a_model_that_loads(parts: list[Path]) -> None:
    result = call("train", *parts, *RIDGE, "--out", "model.safetensors")
    assert result.exit_code == 0, result.output
    assert "RidgeHash, 16 bits, 4,000 labelled rows of 4 parts, 5 classes" in result.output
    assert "3.npz" in result.output
    model = hs.load("model.safetensors")
    whole = hs.RidgeHash(16, random_state=0)
    for part in parts:
        with np.load(part) as arrays:
            whole.partial_fit(arrays["X"], arrays["kind"])
    assert np.array_equal(model.projection_, whole.projection_)
    assert sorted(os.listdir()) == ["0.npz", "1.npz", "2.npz", "3.npz", "model.safetensors"]


def test_workers_and_defaults(parts: list[Path]) -> None:
    common = ("--label", "kind", "--set", "width=16", "--set", "drift=False")
    for out, more in (("one", ()), ("two", ("--workers", 2))):
        result = call("train", *parts, *common, *more, "--out", out)
        assert result.exit_code == 0, result.output
    assert Path("one").read_bytes() == Path("two").read_bytes()
    model = hs.load("one")
    assert isinstance(model, hs.PosteriorHash)
    assert (model.n_bits, model.width, model.drift) == (64, 16, False)


def test_on_ray(parts: list[Path]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'hashstream[ray]'")
    assert call("train", *parts, *RIDGE, "--out", "one").exit_code == 0
    on_ray = ("--on", "ray", "--workers", 2)  # which the command starts, and ends with its process
    assert command_line("train", *parts, *RIDGE, *on_ray, "--out", "two").wait() == 0
    assert Path("one").read_bytes() == Path("two").read_bytes()


def test_a_killed_command_continues(parts: list[Path]) -> None:
    """The last part is a .csv that is long enough to be killed in the middle of."""
    rng = np.random.default_rng(1)
    with np.load("3.npz") as arrays:
        rows = np.column_stack([np.tile(arrays["X"], (200, 1)).astype(str), np.tile(arrays["kind"], 200)])
    names = [*(f"x{i}" for i in range(8)), "kind"]
    Path("long.csv").write_text("\n".join(",".join(row) for row in [names, *rng.permutation(rows)]) + "\n")
    command = ["train", *parts, "long.csv", *RIDGE, "--out", "model.safetensors"]
    child = command_line(*command)
    folder = Path("model.safetensors.parts")
    while len(list(folder.glob("learner-*.safetensors"))) < 4:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not Path("model.safetensors").exists()
    result = call(*command)
    assert result.exit_code == 0, result.output
    assert "of 5 parts (4 learned before)" in result.output
    assert not folder.exists()
    first = Path("model.safetensors").read_bytes()
    assert call(*command, "--keep").exit_code == 0
    assert Path("model.safetensors").read_bytes() == first
    assert len(list(folder.iterdir())) == 5


def test_mistakes_are_answered_before_anything_is_learned(parts: list[Path]) -> None:
    out = ("--out", "model")
    assert "0.npz has no labels to learn from: name the column with --label" in refused("train", *parts, *out)
    labelled = ("--label", "kind", *out)
    assert "there is no file" in refused("train", *parts, "no.npz", *labelled)
    assert "0.npz is given twice" in refused("train", *parts, "0.npz", *labelled)
    assert "has no array 'sort'" in refused("train", *parts, "--label", "sort", *out)
    assert "Use RidgeHash or PosteriorHash" in refused("train", *parts, "--method", "FCOH", *labelled)
    assert "there is no method Ridge" in refused("train", *parts, "--method", "Ridge", *labelled)
    assert "one method at a time" in refused("train", *parts, "--method", "FCOH,LSH", *labelled)
    assert "no such parameter" in refused("train", *parts, "--set", "depth=3", *labelled)
    assert "n_bits" in refused("train", *parts, "--bits", 5000, *labelled)
    assert "add --on ray" in refused("train", *parts, "--address", "10.0.0.1:6379", *labelled)
    both = ("--on", "ray", "--address", "10.0.0.1:6379", "--workers", 2)
    assert "--workers does not apply" in refused("train", *parts, *both, *labelled)
    where = ("--label", "kind", "--out", "nowhere/model")
    assert "must be a file in a folder that exists" in refused("train", *parts, *where)
    before = parts[1].read_bytes()
    assert "named like a file of rows" in refused("train", *parts, "--label", "kind", "--out", parts[1])
    assert parts[1].read_bytes() == before
    np.savez("narrow.npz", X=np.zeros((5, 3), np.float32), kind=np.array(list("abcde")))
    assert "narrow.npz has 3 features per row, but 0.npz has 8" in refused(
        "train", *parts, "narrow.npz", *labelled
    )
    bad = np.zeros((5, 8), np.float32)
    bad[2, 1] = np.nan
    assert sorted(os.listdir()) == ["0.npz", "1.npz", "2.npz", "3.npz", "narrow.npz"]
    np.savez("bad.npz", X=bad, kind=np.array(list("abcde")))
    assert "bad.npz, rows 0 to 4: " in refused("train", *parts, "bad.npz", *labelled)
    assert not Path("model").exists()


def test_help_teaches_with_an_example() -> None:
    shown = " ".join(call("train", "--help").output.split())
    assert "Example:" in shown
    assert "--on ray" in shown
