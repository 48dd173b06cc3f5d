"""`hashstream data`: what is listed, fetched and made, exit codes, and mistakes answered with a sentence."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from typer.testing import CliRunner

from hashstream import cli, datasets
from hashstream.datasets import catalogue, images
from hashstream.datasets.download import Pinned
from hashstream.datasets.idx import IdxSet


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
    tiny = IdxSet(
        "fashion-mnist", "Fashion-MNIST", "http://127.0.0.1:9", "HASHSTREAM_FASHION_MNIST_URL", parts
    )
    monkeypatch.setitem(catalogue._IMAGES, "fashion-mnist", tiny)
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


@pytest.mark.parametrize("command", ["list", "fetch", "where", "features"])
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
        assert f"{name} {datasets.CATALOGUE[name].file}\n  {datasets.CATALOGUE[name].origin}" in said
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


@pytest.fixture
def photos(tmp_path: Path) -> list[Any]:
    """Four images of two classes and a network that gives the mean of each channel: the command's arguments."""
    for name, colour in (("cat/1", 255), ("cat/2", 0), ("dog/1", 51), ("dog/2", 102)):
        path = tmp_path / "photos" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (10, 12), (colour, 0, 255)).save(path)
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["axes"], value_ints=[2, 3]),
            helper.make_node("ReduceMean", ["image", "axes"], ["means"], keepdims=0),
        ],
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("n", 3, "h", "w"))],
        [helper.make_tensor_value_info("means", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    return [
        "features",
        tmp_path / "photos",
        "--model",
        tmp_path / "net.onnx",
        "--out",
        tmp_path / "photos.npz",
    ]


def test_features_of_a_folder(photos: list[Any], tmp_path: Path) -> None:
    (tmp_path / "photos" / "dog" / "3.png").write_text("no image")
    result = call(
        *photos, "--size", 8, "--mean", "0,0,0", "--std", "1,1,0.5", "--layer", "means", "--batch", 3
    )
    assert result.exit_code == 0, result.output
    assert f"{tmp_path / 'photos.npz'}: 4 x 3, 2 classes, 1 images left out" in result.output
    assert "left out: dog/3.png: " in result.output
    data = datasets.load(tmp_path / "photos.npz")
    np.testing.assert_allclose(data.X, [[1, 0, 2], [0, 0, 2], [0.2, 0, 2], [0.4, 0, 2]], atol=1e-6)
    assert data.classes == ("cat", "dog")
    assert "3.png cannot be read as an image" in refused(*photos, "--strict")


def test_features_stopped_half_way_go_on(
    photos: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_PIECE", 1)
    pixels, seen = images._pixels, []

    def stop(path: Path, size: int) -> Any:
        seen.append(path)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return pixels(path, size)

    with monkeypatch.context() as patch:
        patch.setattr(images, "_pixels", stop)
        result = call(*photos, "--size", 8)
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr
    assert not (tmp_path / "photos.npz").exists()
    result = call(*photos, "--size", 8)
    assert result.exit_code == 0, result.output
    assert "4 x 3 (2 of them from before)" in result.output


def test_mistakes_in_features(photos: list[Any], tmp_path: Path) -> None:
    assert "give three numbers" in refused(*photos, "--mean", "0.5")
    assert "give three numbers" in refused(*photos, "--std", "a,b,c")
    assert "those of std above 0" in refused(*photos, "--std", "1,1,0")
    assert "its outputs are means" in refused(*photos, "--layer", "fc7")
    assert "there is no folder" in refused("features", tmp_path / "absent", *photos[2:])
    photos[-1] = tmp_path / "photos.csv"
    assert "has to end in .npz" in refused(*photos)
