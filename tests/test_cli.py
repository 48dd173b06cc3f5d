"""The command line: what is said, where files go, exit codes, and mistakes answered with a sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import hashstream
from hashstream import cli


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data folder, an empty cache, nobody to download from, and room to print."""
    monkeypatch.delenv("HASHSTREAM_DATA", raising=False)
    monkeypatch.setenv("HASHSTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HASHSTREAM_MNIST_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "200")


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def refused(*arguments: Any) -> str:
    """What is said to a mistake: on stderr, exit code 2, no traceback."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "command",
    [[], ["demo"], ["bench"], ["tune"], ["perf"], ["data", "list"], ["data", "where"], ["version"]],
)
def test_help_teaches_with_an_example(command: list[str]) -> None:
    result = call(*command, "--help")
    assert result.exit_code == 0
    assert " ".join(["hashstream", *command]) in " ".join(result.output.split()).replace("│", "").replace(
        "  ", " "
    )
    assert ("Example:" if command else "Begin with:") in result.output


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_an_option_too(option: str) -> None:
    result = call(option)
    assert (result.exit_code, result.output) == (0, f"hashstream {hashstream.__version__}\n")
    assert call(option, "bench").output == result.output  # before a command is looked at
    assert "--version" in call("--help").output


def test_mistakes_are_answered_with_a_sentence(tmp_path: Path) -> None:
    base = ["bench", "--out", tmp_path]
    digits = [*base, "--dataset", "digits"]
    assert "there is no data set 'digit': choose from mnist, digits" in refused(*base, "--dataset", "digit")
    assert "there is no method FOCH: choose from FCOH, OKH" in refused(*digits, "--methods", "FOCH,LSH")
    assert "expected whole numbers separated by commas" in refused(*digits, "--bits", "8 16")
    assert "each must be at least 1" in refused(*digits, "--bits", "0")
    assert "the stream of digits has 1,500 rows" in refused(*digits, "--checkpoints", "2000")
    assert "expected name=value" in refused(*digits, "--set", "learning_rate")
    assert "PosteriorHash has no such parameter; it has" in refused(*digits, "--set", "learning_rate=1")
    assert "use --bits and --runs instead" in refused(*digits, "--set", "n_bits=8")
    assert "n_bits" in refused(*digits, "--bits", "5000")
    assert "batch_size" in refused(*digits, "--set", "batch_size=0")
    assert "there is no protocol 'paprika'" in refused(*digits, "--protocol", "paprika")
    assert "drift has checkpoints of its own" in refused(
        *digits, "--protocol", "drift", "--checkpoints", "500"
    )
    assert "the stream of digits has 1,100 rows" in refused(
        *digits, "--protocol", "unseen-classes", "--checkpoints", "1500"
    )
    assert "there is no file" in refused(*base, "--dataset", "nowhere.npz")
    assert "Put mnist.npz" in refused(*base, "--dataset", "mnist")
    assert "Put mnist.npz" in refused("demo", "--dataset", "mnist", "--out", tmp_path)
    (tmp_path / "file").write_text("in the way")
    assert "file" in refused("demo", "--dataset", "digits", "--out", tmp_path / "file")


def test_data_list_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = call("data", "list").output
    assert "to download" in listed
    assert "scikit-learn" in listed
    (tmp_path / "cifar10_effnetlite0.npz").touch()
    monkeypatch.setenv("HASHSTREAM_DATA", str(tmp_path))
    where = call("data", "where").output
    assert f"cifar10          {tmp_path / 'cifar10_effnetlite0.npz'}" in where
    assert "mnist            not here" in where
    assert "(does not exist yet)" in where
    monkeypatch.setenv("HASHSTREAM_DATA", str(tmp_path / "typo"))
    assert "is not a folder" in refused("data", "list")
    assert "is not a folder" in refused("data", "where")


def test_version() -> None:
    result = call("version")
    assert result.exit_code == 0
    assert hashstream.__version__ in result.output


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with its own benchmarks, as if the package had been imported from there."""
    (tmp_path / "src" / "hashstream").mkdir(parents=True)
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "src" / "hashstream" / "cli" / "__init__.py"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_perf_runs_a_benchmark_of_the_checkout(checkout: Path) -> None:
    folder = checkout / "benchmarks"
    folder.mkdir()
    for name in ("__init__", "harness"):
        (folder / f"{name}.py").touch()
    (folder / "toy.py").write_text(
        "def main(quick: bool) -> bool:\n    print('toy', quick)\n    return quick\n"
    )
    try:
        quick, full = call("perf", "toy", "--quick"), call("perf", "toy")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
            del sys.modules[name]
    assert cli.benchmarks() == ["toy"]
    assert (quick.exit_code, quick.output) == (0, "toy True\n")
    assert (full.exit_code, full.output) == (1, "toy False\n")
    assert "choose from toy" in refused("perf", "tyo")


def test_perf_runs_one_part_of_a_benchmark(checkout: Path) -> None:
    folder = checkout / "benchmarks"
    folder.mkdir()
    for name in ("__init__", "harness"):
        (folder / f"{name}.py").touch()
    main = "def main(quick, part=None):\n    print('part', part)\n    return True\n"
    (folder / "whole.py").write_text(main)
    (folder / "parts.py").write_text(f"PARTS = ('one', 'two')\n\n\n{main}")
    try:
        said = [call("perf", "parts", *more).output for more in ((), ("--part", "two"))]
        unknown, none = (refused("perf", name, "--part", "tow") for name in ("parts", "whole"))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
            del sys.modules[name]
    assert said == ["part None\n", "part two\n"]
    assert "choose from one, two" in unknown
    assert "it runs as a whole" in none


def test_perf_outside_a_checkout_says_so(checkout: Path) -> None:
    assert "run this in a checkout" in refused("perf", "hamming")
    assert cli.benchmarks() == []


def test_the_benchmarks_that_exist_are_in_the_help() -> None:
    said = " ".join(call("perf", "--help").output.replace("│", "").split())
    assert f"Name of the benchmark: {', '.join(cli.benchmarks()) or 'one of those in benchmarks/'}." in said


def test_methods_are_listed() -> None:
    result = call("methods")
    assert result.exit_code == 0
    for name, method in hashstream.methods().items():
        assert name in result.output
        assert method.reference.split(",")[0] in result.output
