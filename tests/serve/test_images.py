"""Thumbnails, and images as queries."""

from __future__ import annotations

import base64
import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

import hashstream as hs
from hashstream.serve.embedding import Network, Pixels, decoded, media_type_of
from hashstream.serve.images import MAX_BYTES, Images, from_folder, from_payload, grey_png, image_sources
from hashstream.table import HashTable


def picture(
    kind: str = "PNG", size: tuple[int, int] = (8, 8), colour: Any = (200, 30, 90), mode: str = "RGB"
) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, kind)
    return file.getvalue()


def text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


# ---- payloads


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_images_in_payloads(kind: str) -> None:
    raw = picture(kind)
    wanted = raw, f"image/{kind.lower()}"
    assert from_payload({"image": text(raw)}) == wanted
    assert (
        from_payload({"image": f"data:image/svg+xml;base64,{text(raw)}"}) == wanted
    )  # by its bytes, not its name


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.mark.parametrize(
    "value",
    [
        "/etc/passwd", "../a.png", "file:///etc/passwd", "http://127.0.0.1/a.png", "", "data:image/png,abc",
        "no base64!", text(SVG), text(b"RIFF1234WAVE"), text(b"<html>"), text(picture("PNG") + b"0" * MAX_BYTES),
        5, None, ["a"], {},
    ],
)  # fmt: skip
def test_anything_else_in_a_payload_is_no_image(value: Any) -> None:
    assert from_payload({"image": value}) is None
    assert from_payload(None) is None
    assert from_payload({"path": "/etc/passwd"}) is None


def test_a_path_in_a_payload_never_reaches_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(picture())
    monkeypatch.chdir(tmp_path)
    assert from_payload({"image": "a.png"}) is None
    assert from_payload({"image": str(tmp_path / "a.png")}) is None


# ---- a folder


def test_images_in_a_folder(tmp_path: Path) -> None:
    for name, kind in (
        ("a b.png", "PNG"),
        ("7.jpg", "JPEG"),
        ("c.webp", "WEBP"),
        ("x.y.gif", "GIF"),
        ("wrong.png", "JPEG"),
    ):
        (tmp_path / name).write_bytes(picture(kind))
    kinds = {
        name: found[1] for name in ("a b", "7", "c", "x.y", "wrong") if (found := from_folder(tmp_path, name))
    }
    assert kinds == {
        "a b": "image/png", "7": "image/jpeg", "c": "image/webp", "x.y": "image/gif", "wrong": "image/jpeg",
    }  # fmt: skip
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "large.png").write_bytes(picture() + b"0" * MAX_BYTES)
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    assert [from_folder(tmp_path, name) for name in ("none", "text", "large", "folder", "pipe")] == [None] * 5


@pytest.mark.parametrize(
    "name",
    ["../secret", "..", ".", "", ".hidden", "a/../../secret", "/etc/passwd", "..\\secret", "C:secret", "a\0b", "sub/in",
     "x" * 201, "x" * 5000, "a\nb", "%2e%2e/secret", "out", "loop"],
)  # fmt: skip
def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "images"
    (inside / "sub").mkdir(parents=True)
    for path in (tmp_path / "secret.png", inside / ".hidden.png", inside / "sub" / "in.png"):
        path.write_bytes(picture())
    (inside / "out.png").symlink_to(tmp_path / "secret.png")
    (inside / "loop.png").symlink_to(inside / "loop.png")
    assert from_folder(inside, name) is None


def test_links_within_the_folder_and_to_it_are_followed(tmp_path: Path) -> None:
    inside = tmp_path / "images"
    inside.mkdir()
    (inside / "a.png").write_bytes(picture())
    (inside / "b.png").symlink_to(inside / "a.png")
    (tmp_path / "link").symlink_to(inside)
    assert from_folder(tmp_path / "link", "b") == (picture(), "image/png")


# ---- pixels


def test_a_grey_png_can_be_read_back() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (5, 9)).astype(np.uint8)
    image = Image.open(io.BytesIO(grey_png(grey)))
    assert image.mode == "L"
    assert np.array_equal(np.asarray(image), grey)


def test_sources_in_order(tmp_path: Path) -> None:
    X = np.arange(32, dtype=np.float32).reshape(2, 16)
    with HashTable.open(None, hs.RidgeHash(8, random_state=0)) as table:
        table.add(["a", "b"], X, payloads=[{"image": text(picture("GIF"))}, None])
        images = Images(tmp_path, Pixels(4, 4, 31))
        assert images.may_exist
        assert not Images().may_exist
        assert Images().found_in(table)
        raw, kind = images.of(table, "b") or (b"", "")
        assert kind == "image/png"
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(raw))).ravel(), np.round(X[1] / 31 * 255))
        (tmp_path / "b.jpg").write_bytes(picture("JPEG"))
        assert (images.of(table, "b") or ("", ""))[1] == "image/jpeg"
        assert (images.of(table, "a") or ("", ""))[1] == "image/gif"
        assert Images(pixels=Pixels(3, 3)).of(table, "b") is None
        assert Images(pixels=Pixels(4, 4, 1)).of(table, "b") is not None  # not as declared: scaled
        with pytest.raises(KeyError):
            images.of(table, "c")
        table.remove(["a"])
        assert not Images().found_in(table)


def test_an_image_of_the_shape_is_its_own_vector() -> None:
    grey = np.zeros((28, 28), np.uint8)
    grey[5:20, 9:14] = 250
    assert np.array_equal(Pixels(28, 28).embed(grey_png(grey)), grey.ravel())
    assert np.array_equal(
        Pixels(28, 28).embed(grey_png(255 - grey)), grey.ravel()
    )  # dark on light is inverted
    assert max(Pixels(28, 28, 16).embed(grey_png(grey))) == pytest.approx(250 / 255 * 16)


def test_other_images_are_scaled_and_padded() -> None:
    image = Image.new("RGBA", (300, 600), (0, 0, 0, 0))  # transparent paper
    image.paste((0, 0, 0, 255), (120, 200, 180, 400))
    file = io.BytesIO()
    image.save(file, "PNG")
    vector = np.array(Pixels(28, 28).embed(file.getvalue())).reshape(28, 28)
    assert vector[14, 14] > 200
    assert vector[0, 0] == 0
    assert vector[14, 2] == 0
    assert vector[:9].max() < 60
    assert vector[20:].max() < 60


@pytest.mark.parametrize("shape", ["28", "0x28", "28x28x3", "axb", "28x28:0", "99999x1"])
def test_a_bad_shape(shape: str) -> None:
    with pytest.raises(ValueError, match="HEIGHTxWIDTH"):
        Pixels.parse(shape)


def test_shapes() -> None:
    assert Pixels.parse("28x30") == Pixels(28, 30)
    assert Pixels.parse("8X8:16") == Pixels(8, 8, 16)


# ---- bad images


def bomb(width: int, height: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("sides", [(8000, 8000), (12_000, 12_000), (60_000, 60_000)])
def test_images_that_would_fill_the_memory_are_refused(sides: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"the image cannot be read.*pixels"):
        decoded(bomb(*sides))


@pytest.mark.parametrize(
    "raw",
    [b"", b"GIF8", b"BM", b"hello", SVG, picture()[:45], picture("JPEG")[:200], picture("WEBP")[:30], bomb(100, 100),
     b"%PDF-1.4", b"RIFF\0\0\0\0WEBPVP8 "],
)  # fmt: skip
def test_bad_images_are_value_errors(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"image"):
        Pixels(8, 8).embed(raw)


def test_sixteen_bits_of_grey_are_scaled() -> None:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 4), 65535 // 4, np.uint16)).save(file, "PNG")
    assert np.allclose(Pixels(4, 4).embed(file.getvalue()), 63, atol=1)


def test_media_types_are_by_content() -> None:
    assert media_type_of(picture("WEBP")) == "image/webp"
    assert media_type_of(b"RIFF1234WAVE") is None


# ---- networks


def network(
    path: Path,
    shape: tuple[Any, ...] = ("n", 3, "h", "w"),
    op: str = "Identity",
    kind: int = TensorProto.FLOAT,
) -> Path:
    graph = helper.make_graph(
        [helper.make_node(op, ["image"], ["out"])],
        "tiny",
        [helper.make_tensor_value_info("image", kind, shape)],
        [helper.make_tensor_value_info("out", kind, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.parametrize("shape", [("n", 3, "h", "w"), ("n", 3, 10, 10), ("n", 10, 10, 3), (4, 3, 10, 10)])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_a_network_gives_the_mean_of_a_feature_map(tmp_path: Path, shape: tuple[Any, ...], kind: int) -> None:
    net = Network(
        network(tmp_path / "a.onnx", shape, kind=kind), mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)
    )
    assert net.side == (224 if "h" in shape else 10)
    wanted = (np.array([200, 30, 90]) / 255 - 0.5) / 0.25
    assert np.allclose(net.embed(picture(size=(30, 20))), wanted, atol=0.01)


def test_networks_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(ValueError, match="is not a file"):
        Network(tmp_path / "none.onnx")
    with pytest.raises(ValueError, match="cannot be run as an ONNX network"):
        Network(tmp_path / "text.onnx")
    for shape in (("n", 1, 8, 8), ("n", 3, 8, 9), ("n", 12)):
        with pytest.raises(ValueError, match="needed"):
            Network(network(tmp_path / "b.onnx", shape))
    with pytest.raises(ValueError, match="float or float16"):
        Network(network(tmp_path / "c.onnx", kind=TensorProto.INT64))
    logarithm = Network(network(tmp_path / "d.onnx", op="Log"))
    with pytest.raises(ValueError, match="not finite"):
        logarithm.embed(picture(colour=(0, 0, 0)))
    with pytest.raises(ValueError, match="not an image"):
        logarithm.embed(b"text")


# ---- options


def test_options_of_the_command(tmp_path: Path) -> None:
    file = network(tmp_path / "a.onnx")
    sources = image_sources(folder=tmp_path, pixels="4x4", networks=[f"birds={file}"])
    assert sources[None].folder == tmp_path
    assert sources[None].network == Pixels(4, 4)
    assert isinstance(sources["birds"].network, Network)
    assert sources["birds"].folder == tmp_path
    plain = image_sources()
    assert plain[None] == Images()
    assert plain[None].network is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folder": "no/such/folder"}, "not a folder"),
        ({"networks": ["birds"]}, "TABLE=FILE"),
        ({"networks": ["=a.onnx"]}, "TABLE=FILE"),
        ({"pixels": "x"}, "HEIGHTxWIDTH"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        image_sources(**options)
