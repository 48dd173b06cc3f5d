"""What CONTRIBUTING shows works: its method keeps the contract, and the command line takes it by name."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hashstream import cli
from hashstream.checks import check_hasher
from hashstream.hashers import registry

ROOT = Path(__file__).parents[1]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example of CONTRIBUTING as oja.py, as the current folder."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL)
    (tmp_path / "oja.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(registry, "_METHODS", registry.methods(variants=True))
    monkeypatch.delitem(sys.modules, "oja", raising=False)
    return tmp_path


def test_the_example_keeps_the_contract(example: Path) -> None:
    import oja  # type: ignore[import-not-found]

    check_hasher(oja.Oja(n_bits=16))


def test_the_example_is_measured_by_name(example: Path) -> None:
    options = [
        "--dataset",
        "digits",
        "--methods",
        "oja:Oja,LSH",
        "--bits",
        "16",
        "--runs",
        "1",
        "--out",
        "results",
    ]
    result = CliRunner().invoke(cli.app, ["bench", *options])
    assert result.exit_code == 0, result.output
    rows = (example / "results" / "results.csv").read_text()
    assert ",Oja,16," in rows
    assert ",LSH,16," in rows


@pytest.mark.parametrize(
    ("name", "says"), [("nowhere:Oja", "No module"), ("oja:Nobody", "Nobody"), ("oja:np", "OnlineHasher")]
)
def test_a_method_that_is_none(example: Path, name: str, says: str) -> None:
    result = CliRunner().invoke(
        cli.app, ["bench", "--dataset", "digits", "--methods", name, "--out", "results"]
    )
    assert result.exit_code != 0
    assert says in result.output
