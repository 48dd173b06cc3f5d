"""`hashstream data`: what is listed and fetched, exit codes, and mistakes answered with a sentence."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hashstream import cli, datasets
from hashstream.datasets import catalogue
from hashstream.datasets.download import Pinned
from hashstream.datasets.idx import IdxImages


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data folder, an empty cache, nobody to download from, nothing installed, and room to print."""
    monkeypatch.delenv("HASHSTREAM_DATA", raising=False)
    monkeypatch.setenv("HASHSTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HASHSTREAM_MNIST_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "250")
    raw = struct.pack(">4I", 0x803, 2, 28, 28) + bytes(range(256)) * 6 + bytes(32)
    labels = struct.pack(">2I", 0x801, 2) + b"\x00\x01"
    parts = tuple(
        (
            Pinned(f"{part}-images.gz", len(raw), hashlib.sha256(raw).hexdigest()),
            Pinned(f"{part}-labels.gz", len(labels), hashlib.sha256(labels).hexdigest()),
        )
        for part in ("train", "t10k")
    )
    tiny = IdxImages(
        "fashion-mnist", "Fashion-MNIST", "http://127.0.0.1:9", "HASHSTREAM_FASHION_MNIST_URL", parts
    )
    record = dataclasses.replace(datasets.CATALOGUE["fashion-mnist"], source=tiny)
    monkeypatch.setitem(catalogue._RECORDS, "fashion-mnist", record)
    (tmp_path / "published").mkdir()
    for pinned in tiny.files:
        content = raw if "images" in pinned.name else labels
        (tmp_path / "published" / pinned.name).write_bytes(gzip.compress(content))


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, ["data", *(str(argument) for argument in arguments)])


def refused(*arguments: Any) -> str:
    """What is said to a mistake: on stderr, exit code 2, no traceback."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["list", "fetch", "where"])
def test_help_teaches_with_an_example(command: str) -> None:
    result = call(command, "--help")
    assert result.exit_code == 0
    assert f"Example: hashstream data {command}" in result.output


def test_list_says_of_each_whether_it_is_here_or_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = {line.split()[0]: line for line in call("list").output.splitlines() if line.strip()}
    for name in datasets.CATALOGUE:
        expected = {"digits": "scikit-learn", "mnist": "to download", "fashion-mnist": "to download"}
        assert expected.get(name, "") in lines[name]
    said = call("list").output
    for name in ("cifar10", "cifar10-vgg16", "tinyimagenet200", "places205"):
        source = datasets.CATALOGUE[name].source
        assert f"{name} {source.file}\n  {source.origin}" in said
    assert said.count("by hand") == 4
    for entry in datasets.CATALOGUE.values():
        assert f"\n  {entry.about}\n" in said
    assert "~ 2,448,873 x 128" in said
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "Places205_AlexNet_fc7_PCA128.mat").touch()
    monkeypatch.setenv("HASHSTREAM_DATA", str(tmp_path / "own"))
    said = call("list").output
    assert said.count("by hand") == 3
    assert "HASHSTREAM_DATA" in next(line for line in said.splitlines() if line.startswith("places205"))


def test_list_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each name, unbroken, and a line that says what it is."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("list").output.splitlines()
    for i, (name, entry) in enumerate(datasets.CATALOGUE.items()):
        line = lines[2 * i]
        assert line.startswith(f"{name} ")
        assert f"{entry.rows:,} x {entry.features:,}, {entry.classes} classes" in line
        assert line.endswith(("by hand", "to download", "scikit-learn"))
        assert lines[2 * i + 1] == f"  {entry.about}"
        assert len(line) <= 80


def test_fetch_downloads_once_and_says_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(base_url: str, pinned: Pinned, folder: Path, *, progress: Any, **_: object) -> bytes:
        asked.append(pinned.name)
        folder.mkdir(parents=True, exist_ok=True)
        packed = (tmp_path / "published" / pinned.name).read_bytes()
        (folder / pinned.name).write_bytes(packed)
        progress(pinned.name, len(packed), len(packed))
        return gzip.decompress(packed)

    monkeypatch.setattr("hashstream.datasets.download.fetch", fetch)
    first = call("fetch", "fashion-mnist", "digits")
    assert first.exit_code == 0, first.output
    where = tmp_path / "cache" / "fashion-mnist"
    assert f"fashion-mnist: 4 x 784, downloaded from http://127.0.0.1:9 to {where}" in first.output
    assert "digits: 1,797 x 64, part of scikit-learn" in first.output
    assert len(asked) == 4
    again = call("fetch", "fashion-mnist")
    assert f"fashion-mnist: 4 x 784, read from {where} (the cache)" in again.output
    assert len(asked) == 4
    assert f"fashion-mnist    {where}" in call("where").output


def test_fetch_says_what_to_do_where_it_cannot() -> None:
    assert "could not be downloaded" in refused("fetch", "mnist")
    assert "Put it into a folder and set HASHSTREAM_DATA" in refused("fetch", "places205")
    assert "there is no data set 'mnits': choose from mnist" in refused("fetch", "mnits")
