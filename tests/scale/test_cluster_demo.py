"""`hashstream cluster demo` in small: a shard really killed, nothing wrong, and the picture."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hashstream import cli
from hashstream.demo import cluster as story
from hashstream.scale.connection import check_reachable


@pytest.mark.usefixtures("engine")
def test_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ROWS": 100, "LABELS": 60, "CALM": 0.5, "STEPS": 3}.items():
        monkeypatch.setattr(story, name, value)
    monkeypatch.setenv("COLUMNS", "300")
    called = CliRunner().invoke(
        cli.app, ["cluster", "demo", "--out", str(tmp_path / "out"), "--dataset", "digits", "--bits", "16"]
    )
    assert called.exit_code == 0, called.output
    said = " ".join(called.output.split())
    assert "400 items" in said
    assert "; 0 wrong, 0 failed" in said
    assert "one table digest equal, answers equal" in said
    assert (tmp_path / "out" / "cluster.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out" / "cluster").mkdir(parents=True)
    (tmp_path / "out" / "cluster" / "letters").write_text("dear")
    called = CliRunner().invoke(
        cli.app, ["cluster", "demo", "--out", str(tmp_path / "out"), "--dataset", "digits"]
    )
    assert called.exit_code == 2
    assert "is something else" in " ".join(called.stderr.split())
    assert (tmp_path / "out" / "cluster" / "letters").read_text() == "dear"


def test_an_address_where_nobody_listens() -> None:
    with pytest.raises(
        ConnectionError, match=r"no connection to a Ray at 127\.0\.0\.1:9: nobody listens there"
    ):
        check_reachable("127.0.0.1:9")
    for address in ("auto", "local", "ray://127.0.0.1:9"):
        check_reachable(address)  # is left to Ray
