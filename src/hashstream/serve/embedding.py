"""Uploaded images as vectors of a table: by a network in an ONNX file, or as grey pixels."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from hashstream._extras import require

__all__ = ["MAGIC", "Network", "Pixels", "decoded", "media_type_of"]

MAGIC = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "image/bmp": b"BM",
}
"""Media type -> the first bytes of such files."""
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
MOST_PIXELS = 50_000_000
"""Of an uploaded image. Far below what Pillow itself refuses; larger ones are refused before they are decoded."""
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SHAPE = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})(?::([1-9]\d{0,8}))?")


def media_type_of(raw: bytes) -> str | None:
    """The media type of an image by its first bytes; None for anything that is not shown, SVG for example."""
    for kind, magic in MAGIC.items():
        if raw.startswith(magic) and (kind != "image/webp" or raw[8:12] == b"WEBP"):
            return kind
    return None


def decoded(raw: bytes) -> Any:
    """An image file as a Pillow image, turned as its camera was held; ValueError says why it cannot be read."""
    pillow, operations = require("PIL.Image", "onnx"), require("PIL.ImageOps", "onnx")
    if media_type_of(raw) is None:
        raise ValueError("this is not an image: send a PNG, JPEG, WebP, GIF or BMP file")
    try:
        with pillow.open(io.BytesIO(raw), formats=FORMATS) as stored:
            width, height = stored.size
            if width * height > MOST_PIXELS:
                raise ValueError(f"it has {width} x {height} pixels, and {MOST_PIXELS:,} are the most")
            stored.load()
            image = operations.exif_transpose(stored)
            if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip to 8
                grey = np.clip(np.asarray(image, np.float32) / 257, 0, 255)
                image = pillow.fromarray(grey.astype(np.uint8))
            return image
    except Exception as error:  # a decoder may raise anything on a damaged file
        raise ValueError(f"the image cannot be read: {error or type(error).__name__}") from error


@dataclass(frozen=True)
class Pixels:
    """Vectors that are grey images, row by row. white : the value of a white pixel; black is 0."""

    height: int
    width: int
    white: float = 255.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "28x28", or "8x8:16" where 16 is white."""
        found = SHAPE.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"the shape of images is HEIGHTxWIDTH, such as 28x28, not {text!r}")
        height, width, white = found.groups()
        return cls(int(height), int(width), float(white or 255))

    def embed(self, raw: bytes) -> list[float]:
        """An image as such a vector: grey, padded to the shape with its background and scaled; dark on light is
        inverted, since the images of such data sets are light on dark."""
        pillow = require("PIL.Image", "onnx")
        image = decoded(raw)
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            image = image.convert("RGBA")
            paper = pillow.new("RGBA", image.size, (255, 255, 255, 255))
            image = pillow.alpha_composite(paper, image)
        grey = np.asarray(image.convert("L"), np.uint8)
        border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
        background = int(np.median(border))
        if background > 127:
            grey, background = 255 - grey, 255 - background
        if grey.shape != (self.height, self.width):
            grey = self._fitted(grey, background)
        vector: list[float] = (grey.astype(np.float64).ravel() * (self.white / 255)).tolist()
        return vector

    def _fitted(self, grey: np.ndarray, background: int) -> np.ndarray:
        pillow = require("PIL.Image", "onnx")
        height, width = grey.shape
        scale = min(self.height / height, self.width / width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = np.asarray(pillow.fromarray(grey).resize(size, pillow.Resampling.BOX), np.uint8)
        canvas = np.full((self.height, self.width), background, np.uint8)
        top, left = (self.height - small.shape[0]) // 2, (self.width - small.shape[1]) // 2
        canvas[top : top + small.shape[0], left : left + small.shape[1]] = small
        return canvas


class Network:
    """A network in an ONNX file, run by onnxruntime: one image in, the first output is its vector.

    model : the file. Its input is (n, 3, side, side) or (n, side, side, 3), float32 or float16; sides without a number
    are 224. mean, std : of the channels, by which pixels between 0 and 1 are scaled; ImageNet's by default.
    A feature map is averaged over its positions. examples/image_features.py makes the vectors of a table in this way.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        mean: tuple[float, ...] = IMAGENET_MEAN,
        std: tuple[float, ...] = IMAGENET_STD,
    ) -> None:
        self.path = Path(model)
        self._mean, self._std = np.asarray(mean, np.float32), np.asarray(std, np.float32)
        require("PIL.Image", "onnx")
        runtime = require("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors, which are raised as well
        if not self.path.is_file():
            raise ValueError(f"{self.path} is not a file: the network is an ONNX file")
        try:
            self._session = runtime.InferenceSession(
                str(self.path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's own classes come from C++ and share no base but this
            raise ValueError(f"{self.path} cannot be run as an ONNX network ({error})") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            shown = ", ".join(f"{each.name} {each.shape}" for each in inputs)
            raise ValueError(f"{self.path} takes {shown or 'nothing'}: one input of 4 dimensions is needed")
        self._input, shape = inputs[0].name, inputs[0].shape
        types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
        if inputs[0].type not in types:
            raise ValueError(f"{self.path} takes {inputs[0].type}: it has to be float or float16")
        self._dtype = types[inputs[0].type]
        self._channels_last = shape[3] == 3 and shape[1] != 3
        sides = shape[1:3] if self._channels_last else shape[2:]
        channels = shape[3] if self._channels_last else shape[1]
        fixed = {side for side in sides if isinstance(side, int) and side > 0}
        if len(fixed) > 1 or (isinstance(channels, int) and channels > 0 and channels != 3):
            raise ValueError(
                f"{self.path} takes images of shape {shape}: square ones of 3 channels are needed"
            )
        self.side = fixed.pop() if fixed else 224
        self._batch = shape[0] if isinstance(shape[0], int) and shape[0] > 0 else 1

    def embed(self, raw: bytes) -> list[float]:
        """The vector of an image file; ValueError where the image or the answer of the network cannot be used."""
        pillow = require("PIL.Image", "onnx")
        image = decoded(raw).convert("RGB").resize((self.side, self.side), pillow.Resampling.BILINEAR)
        values = (np.asarray(image, np.float32) / np.float32(255) - self._mean) / self._std
        batch = np.repeat(values[None], self._batch, axis=0)  # where it takes batches of one size only
        if not self._channels_last:
            batch = batch.transpose(0, 3, 1, 2)
        batch = np.ascontiguousarray(batch, self._dtype)
        try:
            answer = np.asarray(self._session.run(None, {self._input: batch})[0])
        except Exception as error:  # as above
            raise ValueError(f"{self.path} fails on an image of shape {batch.shape[1:]}: {error}") from error
        if answer.ndim < 2 or len(answer) != len(batch) or answer.dtype.kind not in "fiu":
            raise ValueError(
                f"{self.path} answers {answer.dtype} {answer.shape}: a vector per image is needed"
            )
        if answer.ndim == 4:
            _, second, third, fourth = answer.shape
            # The two equal sides are the positions; if that does not decide, the same order as the images.
            last = second == third if (second == third) != (third == fourth) else self._channels_last
            answer = answer.mean(axis=(1, 2) if last else (2, 3))
        vector = answer[0].astype(np.float64).ravel()
        if not np.isfinite(vector).all():
            raise ValueError(f"{self.path} gives numbers for this image that are not finite")
        found: list[float] = vector.tolist()
        return found
