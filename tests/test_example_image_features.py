"""examples/image_features.py: folders of images through tiny networks whose output is known exactly."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from examples import image_features as images
from examples.image_features import Network, image_features, main
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from hashstream import datasets
from hashstream.datasets import DatasetError

WHITE = {"mean": (0, 0, 0), "std": (1, 1, 1)}


def network(
    path: Path,
    *,
    shape: tuple[Any, ...] = ("n", 3, "h", "w"),
    kind: int = TensorProto.FLOAT,
    tail: str = "doubled",
    external: bool = False,
) -> Path:
    """The mean of each channel ("means", 3 numbers an image) inside, and twice that ("doubled") as the output."""
    axes = [1, 2] if shape[3] == 3 else [2, 3]
    dtype = np.float16 if kind == TensorProto.FLOAT16 else np.float32
    nodes = [
        helper.make_node("Constant", [], ["axes"], value_ints=axes),
        helper.make_node("Identity", ["image"], ["map"]),
        helper.make_node("ReduceMean", ["map", "axes"], ["means"], keepdims=0),
        helper.make_node("Mul", ["means", "two"], ["doubled"]),
    ]
    constants = [numpy_helper.from_array(np.full(3, 2, dtype), "two")]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", kind, shape)],
        [helper.make_tensor_value_info(tail, kind, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path, save_as_external_data=external, location="weights", size_threshold=0)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven images of one colour each in three classes, and what is no image."""
    root = tmp_path / "pictures"
    for number, name in enumerate(COLOURS):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + number, 30), COLOURS[name]).save(path)
    (root / "ant" / "notes.txt").write_text("not an image")
    (root / "ant" / ".hidden.png").write_text("nor this")
    (root / "empty").mkdir()
    (root / ".cache").mkdir()
    Image.new("RGB", (5, 5)).save(root / ".cache" / "x.png")
    Image.new("RGB", (5, 5)).save(root / "loose.png")
    return root


COLOURS = {
    "zebra/1.png": (255, 0, 51),
    "ant/b.png": (0, 255, 102),
    "ant/a.BMP": (10, 20, 30),
    "ant/deep/er/c.png": (1, 2, 3),
    "bee/10.png": (200, 100, 50),
    "bee/2.png": (0, 0, 0),
    "bee/1.ppm": (255, 255, 255),
}
ORDER = ["ant/a.BMP", "ant/b.png", "ant/deep/er/c.png", "bee/1.ppm", "bee/10.png", "bee/2.png", "zebra/1.png"]


def means(names: list[str] = ORDER) -> np.ndarray:
    return np.array([COLOURS[name] for name in names]) / 255


def test_images_are_listed_in_an_order_that_does_not_depend_on_the_machine(folder: Path) -> None:
    files, y, classes = images.list_images(folder)
    assert files == ORDER
    assert y.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert classes == ("ant", "bee", "zebra")


@pytest.mark.parametrize(
    "shape", [("n", 3, "h", "w"), ("n", 8, 8, 3), (2, 3, 16, 16), (1, 3, 8, 8), (None,) * 4]
)
def test_features_that_load_reads(folder: Path, tmp_path: Path, shape: tuple[Any, ...]) -> None:
    done: list[tuple[int, int]] = []
    out = tmp_path / "new" / "features.npz"
    result = image_features(
        folder,
        network(tmp_path / "net.onnx", shape=shape),
        out,
        batch=3,
        progress=lambda *at: done.append(at),
        **WHITE,
    )
    assert (result.rows, result.features, result.skipped, result.resumed) == (7, 3, (), 0)
    assert result.classes == ("ant", "bee", "zebra")
    assert [at for at, _ in done] == [3, 6, 7, 7]
    assert {total for _, total in done} == {7}
    data = datasets.load(out)
    np.testing.assert_allclose(data.X, 2 * means(), atol=1e-4)  # onnxruntime sums 50,000 pixels one by one
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert data.classes == ("ant", "bee", "zebra")
    with np.load(out) as stored:
        assert stored["files"].tolist() == ORDER
        about = json.loads(str(stored["about"]))
    assert about["layer"] == "doubled"
    assert about["size"] == (shape[2] if isinstance(shape[2], int) else 224)
    assert [path.name for path in out.parent.iterdir()] == ["features.npz"]


def test_mean_and_std_are_taken_channel_by_channel(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "features.npz"
    image_features(folder, network(tmp_path / "net.onnx"), out, size=8)
    expected = 2 * (means() - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    np.testing.assert_allclose(datasets.load(out).X, expected, atol=1e-5)


@pytest.mark.parametrize("external", [False, True])
def test_any_tensor_inside_can_be_taken_and_a_map_is_averaged(
    folder: Path, tmp_path: Path, external: bool
) -> None:
    net = network(tmp_path / "net.onnx", external=external)
    for layer, factor in (("means", 1), ("map", 1), ("doubled", 2), (None, 2)):
        image_features(folder, net, tmp_path / "a.npz", layer=layer, size=8, **WHITE)
        np.testing.assert_allclose(datasets.load(tmp_path / "a.npz").X, factor * means(), atol=1e-6)
    with pytest.raises(DatasetError, match=r"no tensor 'fc7' that can be taken: its outputs are doubled"):
        image_features(folder, net, tmp_path / "a.npz", layer="fc7")


def test_a_long_name_of_a_layer(tmp_path: Path) -> None:
    """Its length takes more than one byte in the file."""
    name = "a" * 300
    nodes = [helper.make_node("ReduceMean", ["image", "axes"], [name], keepdims=0)]
    nodes.append(helper.make_node("Neg", [name], ["out"]))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("n", 3, 4, 4))],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([2, 3], np.int64), "axes")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
        tmp_path / "a.onnx",
    )
    given = np.random.default_rng(0).random((2, 4, 4, 3), np.float32)
    np.testing.assert_allclose(
        Network(tmp_path / "a.onnx", layer=name)(given), given.mean(axis=(1, 2)), atol=1e-6
    )


def test_maps_are_averaged_over_their_places_in_either_order(tmp_path: Path) -> None:
    given = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    for shape in (("n", 3, 8, 8), ("n", 8, 8, 3)):
        net = Network(network(tmp_path / "net.onnx", shape=shape), layer="map")
        np.testing.assert_allclose(net(given), given.mean(axis=(1, 2)), atol=1e-6)
        assert net.channels_last == (shape[3] == 3)
    half = Network(network(tmp_path / "half.onnx", kind=TensorProto.FLOAT16), layer="means")
    got = half(given)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, given.mean(axis=(1, 2)), atol=2e-3)


def test_every_kind_of_image_becomes_rgb(tmp_path: Path) -> None:
    root = tmp_path / "pictures" / "all"
    root.mkdir(parents=True)
    grey16 = Image.fromarray(np.full((4, 4), 257 * 100, np.uint16))
    grey16.save(root / "a.png")
    Image.new("L", (4, 4), 100).save(root / "b.png")
    Image.new("RGBA", (4, 4), (100, 100, 100, 7)).save(root / "c.png")
    Image.new("P", (4, 4), 0).save(root / "d.gif")
    Image.new("1", (4, 4), 1).save(root / "e.png")
    Image.new("CMYK", (4, 4), (0, 0, 0, 0)).save(root / "f.tif")
    turned = Image.new("RGB", (8, 4))
    turned.paste((200, 0, 0), (0, 0, 4, 4))  # the left half is red; turned upright, the upper half is
    exif = Image.Exif()
    exif[0x0112] = 6
    turned.save(root / "g.png", exif=exif)
    out = tmp_path / "a.npz"
    net = network(tmp_path / "net.onnx")
    image_features(tmp_path / "pictures", net, out, layer="means", size=4, **WHITE)
    grey = datasets.load(out).X[:6, 0] * 255
    np.testing.assert_allclose(grey, [100, 100, 100, 0, 255, 255], atol=0.01)
    pixels = images._pixels(root / "g.png", 4)
    assert isinstance(pixels, np.ndarray)
    assert pixels[0, :, 0].min() > 150 > 50 > pixels[3, :, 0].max()


def test_what_cannot_be_read_is_left_out_and_named_or_refused(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "bee" / "10.png").read_bytes()
    (folder / "bee" / "10.png").write_bytes(whole[: len(whole) // 2])
    (folder / "zebra" / "0.jpg").write_bytes(b"")
    net, out = network(tmp_path / "net.onnx"), tmp_path / "a.npz"
    with pytest.raises(DatasetError, match=r"10\.png cannot be read as an image"):
        image_features(folder, net, out, strict=True, size=8)
    assert not out.exists()
    result = image_features(folder, net, out, batch=1, size=8, **WHITE)
    assert [file for file, _ in result.skipped] == ["bee/10.png", "zebra/0.jpg"]
    assert all(why for _, why in result.skipped)
    left = [name for name in ORDER if name != "bee/10.png"]
    data = datasets.load(out)
    np.testing.assert_allclose(data.X, 2 * means(left), atol=1e-6)
    assert data.y.tolist() == [0, 0, 0, 1, 1, 2]
    with np.load(out) as stored:
        assert stored["skipped"].tolist() == ["bee/10.png", "zebra/0.jpg"]
        assert stored["files"].tolist() == left
    for path in folder.rglob("*.*"):
        if path.is_file():
            path.write_bytes(b"broken")
    with pytest.raises(DatasetError, match="none of the 8 images"):
        image_features(folder, net, tmp_path / "b.npz", size=8)
    assert not (tmp_path / "b.npz").exists()


class Stop(Exception):
    pass


@pytest.fixture
def interrupted(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A call that was stopped after five of seven images, in pieces of two; its arguments."""
    monkeypatch.setattr(images, "_PIECE", 2)

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise Stop

    call = {"folder": folder, "model": network(tmp_path / "net.onnx"), "out": tmp_path / "a.npz", "size": 8}
    with pytest.raises(Stop):
        image_features(**call, batch=1, progress=stop, **WHITE)
    assert not (tmp_path / "a.npz").exists()
    assert len(list((tmp_path / "a.npz.partial").glob("*.npz"))) == 2
    return call


def test_an_interrupted_call_goes_on(interrupted: dict[str, Any], tmp_path: Path) -> None:
    result = image_features(**interrupted, **WHITE)
    assert result.resumed == 4
    np.testing.assert_allclose(datasets.load(result.path).X, 2 * means(), atol=1e-6)
    assert not (tmp_path / "a.npz.partial").exists()
    assert image_features(**interrupted, **WHITE).resumed == 0


@pytest.mark.parametrize("change", ["settings", "model", "image", "folder"])
def test_another_call_starts_over(interrupted: dict[str, Any], tmp_path: Path, change: str) -> None:
    factor, order = 2, list(ORDER)
    if change == "settings":
        interrupted["layer"], factor = "means", 1
    elif change == "model":
        network(tmp_path / "net.onnx", shape=("n", 3, 8, 8))
    elif change == "image":
        Image.new("RGB", (9, 9), (0, 0, 0)).save(interrupted["folder"] / "bee" / "2.png")
    else:
        (interrupted["folder"] / "bee" / "2.png").unlink()
        order.remove("bee/2.png")
    result = image_features(**interrupted, **WHITE)
    assert result.resumed == 0
    np.testing.assert_allclose(datasets.load(result.path).X, factor * means(order), atol=1e-6)


def test_a_folder_of_somebody_elses_is_not_touched(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "a.npz.partial" / "thesis.txt"
    theirs.parent.mkdir()
    theirs.write_text("all I have")
    with pytest.raises(DatasetError, match="is in the way"):
        image_features(folder, network(tmp_path / "net.onnx"), tmp_path / "a.npz")
    assert theirs.read_text() == "all I have"


def test_networks_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    def call(**more: Any) -> None:
        image_features(folder, tmp_path / "net.onnx", tmp_path / "a.npz", **more)

    with pytest.raises(DatasetError, match=r"net\.onnx cannot be read"):
        call()
    (tmp_path / "net.onnx").write_bytes(b"junk")
    with pytest.raises(DatasetError, match="cannot be run as an ONNX network"):
        call()
    network(tmp_path / "net.onnx", shape=("n", 3, 96, 96))
    with pytest.raises(DatasetError, match="takes images of 96 x 96 pixels, and size is 224"):
        call(size=224)
    network(tmp_path / "net.onnx", shape=("n", 3, 96, 32))
    with pytest.raises(DatasetError, match="they have to be square"):
        call()
    network(tmp_path / "net.onnx", shape=("n", 1, 28, 28))
    with pytest.raises(DatasetError, match="they have to have 3 channels"):
        call()
    network(tmp_path / "net.onnx", kind=TensorProto.DOUBLE)
    with pytest.raises(DatasetError, match=r"takes tensor\(double\)|cannot be run"):
        call()
    assert not (tmp_path / "a.npz.partial").exists()


def test_answers_that_are_no_features(folder: Path, tmp_path: Path) -> None:
    def one(op: str, inputs: list[str], name: str, **how: Any) -> Path:
        graph = helper.make_graph(
            [helper.make_node(op, inputs, ["out"], **how)],
            "tiny",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("n", 3, "h", "w"))],
            [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.save(model, tmp_path / name)
        return tmp_path / name

    total = one("ReduceSum", ["image"], "sum.onnx", keepdims=0)
    with pytest.raises(DatasetError, match="one vector per image is needed"):
        image_features(folder, total, tmp_path / "a.npz", size=8)
    logarithm = one("Log", ["image"], "log.onnx")  # b.png has no red
    with pytest.raises(DatasetError, match=r"ant/b\.png that are not finite"):
        image_features(folder, logarithm, tmp_path / "b.npz", size=8, **WHITE)
    assert not (tmp_path / "b.npz").exists()


def test_folders_and_arguments_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    net = network(tmp_path / "net.onnx")
    (tmp_path / "flat").mkdir()
    Image.new("RGB", (5, 5)).save(tmp_path / "flat" / "a.png")
    for arguments, says in (
        ({"folder": tmp_path / "absent"}, "there is no folder"),
        ({"folder": tmp_path / "flat"}, "one sub-folder per class is needed"),
        ({"out": tmp_path / "a.npy"}, r"has to end in \.npz"),
        ({"batch": 0}, "batch is 0"),
        ({"mean": (1, 2)}, "three numbers"),
        ({"std": (1, 0, 1)}, "above 0"),
    ):
        with pytest.raises(DatasetError, match=says):
            image_features(**{"folder": folder, "model": net, "out": tmp_path / "a.npz", **arguments})
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="cannot be written to"):
        image_features(folder, net, tmp_path / "file" / "a.npz")


def test_without_onnxruntime_the_sentence_says_what_to_install(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DatasetError, match=r"pip install 'hashstream\[onnx\]'"):
        image_features(folder, net, tmp_path / "a.npz")


def test_the_result_cannot_be_changed(folder: Path, tmp_path: Path) -> None:
    result = image_features(folder, network(tmp_path / "net.onnx"), tmp_path / "a.npz", size=8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.rows = 0  # type: ignore[misc]


@pytest.fixture
def command(folder: Path, tmp_path: Path) -> list[str]:
    model = network(tmp_path / "net.onnx")
    return [str(folder), "--model", str(model), "--out", str(tmp_path / "a.npz"), "--size", "8"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_the_command(
    command: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "zebra" / "3.png").write_text("no image")
    main([*command, "--mean", "0", "0", "0", "--std", "1", "1", "0.5", "--layer", "means", "--batch", "3"])
    said = capsys.readouterr().out
    assert f"{tmp_path / 'a.npz'}: 7 x 3, 3 classes, 1 images skipped" in said
    assert "skipped zebra/3.png: " in said
    np.testing.assert_allclose(datasets.load(tmp_path / "a.npz").X, means() * (1, 1, 2), atol=1e-6)
    assert "3.png cannot be read as an image" in refused(capsys, *command, "--strict")
    assert "those of std above 0" in refused(capsys, *command, "--std", "1", "1", "0")
    assert "expected 3 arguments" in refused(capsys, *command, "--mean", "0.5")
    assert "its outputs are doubled" in refused(capsys, *command, "--layer", "fc7")


def test_the_command_interrupted_continues(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
        with pytest.raises(SystemExit) as ended:
            main(command)
    assert ended.value.code == 130
    assert "repeat the command to continue" in capsys.readouterr().err
    main(command)
    assert "7 x 3 (2 of them from before)" in capsys.readouterr().out
