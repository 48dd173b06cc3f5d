"""Thumbnails of items: from their payloads, from a folder, or from vectors that are pixels."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hashstream.serve.embedding import MAGIC, Network, Pixels, media_type_of
from hashstream.serve.kinds import Servable

__all__ = ["MAX_BYTES", "Embeds", "Images", "grey_png", "image_sources"]

MAX_BYTES = 2 << 20
"""Of a thumbnail."""
FIELD = "image"
"""Entry of a payload that holds an image: base64, or a data: URL."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")
FILE_NAME = re.compile(r"[^./\\:\x00-\x1f\x7f][^/\\:\x00-\x1f\x7f]{0,199}")
LOOKED_AT = 20  # items whose payloads tell whether a table has images


class Embeds(Protocol):
    """Turns an image file into a vector of a table."""

    def embed(self, raw: bytes) -> list[float]:
        """The vector; ValueError where the image cannot be read."""


@dataclass(frozen=True)
class Images:
    """The sources of a table's thumbnails, and what turns an image into its vector.

    folder : holds ID.png, ID.jpg, ... pixels : the shape of vectors that are pixels. network : for image queries.
    A payload is looked at in any case, and first.
    """

    folder: Path | None = None
    pixels: Pixels | None = None
    network: Embeds | None = None

    @property
    def may_exist(self) -> bool:
        """Whether there may be thumbnails, but for those in payloads; see `found_in`."""
        return self.folder is not None or self.pixels is not None

    def found_in(self, table: Servable) -> bool:
        """Whether there may be thumbnails of a table's items, by the payloads of the first few of them."""
        if self.may_exist:
            return True
        first = table.ids(limit=LOOKED_AT)
        return any(from_payload(one) is not None for one in table.get(first, features=False).payloads)

    def of(self, table: Servable, id: Any) -> tuple[bytes, str] | None:
        """The thumbnail of an item and its media type, None where there is none; KeyError where it is not stored."""
        payload = table.get([id], features=False).payloads[0]
        found = from_payload(payload)
        if found is None and self.folder is not None:
            found = from_folder(self.folder, str(id))
        if found is None and self.pixels is not None and table.keeps_features:
            X = table.get([id]).features
            assert X is not None
            found = from_pixels(X[0], self.pixels)
        return found


def image_sources(
    *, folder: str | Path | None = None, pixels: str | None = None, networks: Sequence[str] = ()
) -> dict[str | None, Images]:
    """Name of a table -> its images, as options of a command give them; None for all other tables.

    folder : of thumbnails. pixels : "HxW", the vectors are grey pixels of 0 to 255; "HxW:16" where 16 is white.
    networks : "TABLE=FILE.onnx" each. ValueError where one cannot be used.
    """
    place = None if folder is None else Path(folder)
    if place is not None and not place.is_dir():
        raise ValueError(f"{place} is not a folder of images")
    shape = None if pixels is None else Pixels.parse(pixels)
    sources: dict[str | None, Images] = {None: Images(place, shape, shape)}
    for text in networks:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise ValueError(f"a network is given as TABLE=FILE.onnx, not {text!r}")
        sources[name] = Images(place, shape, Network(file))
    return sources


# ---- sources


def from_payload(payload: dict[str, Any] | None) -> tuple[bytes, str] | None:
    """The image in a payload. Text that is anything else, a path or an address for example, is no image."""
    text = (payload or {}).get(FIELD)
    if not isinstance(text, str) or len(text) > MAX_BYTES * 4 // 3 + 200:
        return None
    if text.startswith("data:"):
        head, _, text = text.partition(",")
        if not head.endswith(";base64"):
            return None
    try:
        return checked(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None


def from_folder(folder: Path, name: str) -> tuple[bytes, str] | None:
    """The image of an id in a folder. Names that lead anywhere else find nothing, and neither do links out of it."""
    if not FILE_NAME.fullmatch(name):
        return None
    inside = folder.resolve()
    for suffix in SUFFIXES:
        try:
            path = (inside / f"{name}{suffix}").resolve(strict=True)
            if path.is_relative_to(inside) and (raw := _read(path)) is not None:
                return checked(raw)
        except (
            OSError,
            RuntimeError,
            ValueError,
        ):  # not there, a loop of links, or a name that no file can have
            continue
    return None


def from_pixels(row: np.ndarray, pixels: Pixels) -> tuple[bytes, str] | None:
    """A vector as a grey image; None where it has another length."""
    if len(row) != pixels.height * pixels.width:
        return None
    values = np.nan_to_num(row.astype(np.float64))
    low, high = 0.0, float(pixels.white)
    if values.min() < low or values.max() > high:  # not as they were declared: show what can be shown
        low, high = float(values.min()), float(values.max())
    grey = (values - low) / ((high - low) or 1.0) * 255
    return grey_png(np.round(grey).astype(np.uint8).reshape(pixels.height, pixels.width)), "image/png"


def checked(raw: bytes) -> tuple[bytes, str] | None:
    """An image with its media type, by its first bytes; None where it is none of the five types, or too large."""
    kind = media_type_of(raw)
    return None if kind is None or len(raw) > MAX_BYTES else (raw, kind)


def _read(path: Path) -> bytes | None:
    """The content of a regular file that is not too large: never a device or a pipe, on which reading would wait."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    )
    with os.fdopen(os.open(path, flags), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
            return None
        return file.read(MAX_BYTES + 1)


def grey_png(image: np.ndarray) -> bytes:
    """A PNG file of grey pixels (height, width) uint8."""
    height, width = image.shape
    rows = np.zeros((height, width + 1), np.uint8)  # each row after the number of its filter, 0: none
    rows[:, 1:] = image
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 6)),
        (b"IEND", b""),
    )
    return MAGIC["image/png"] + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )
