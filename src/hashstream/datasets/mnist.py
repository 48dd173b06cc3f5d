"""MNIST, complete and verified: four IDX files, or one .npz of the same pixels."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

import numpy as np

from hashstream.datasets import download, folders
from hashstream.datasets.download import Pinned, Progress
from hashstream.datasets.folders import DatasetError

__all__ = ["BASE_URL", "PARTS", "find", "load"]

BASE_URL = "https://ossci-datasets.s3.amazonaws.com/mnist"
"""A mirror of the original files. HASHSTREAM_MNIST_URL names another."""

PARTS = (
    (
        Pinned(
            "train-images-idx3-ubyte.gz",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        Pinned(
            "train-labels-idx1-ubyte.gz",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
    ),
    (
        Pinned(
            "t10k-images-idx3-ubyte.gz",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        Pinned(
            "t10k-labels-idx1-ubyte.gz",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
)
"""Images and labels of the 60,000 training rows, then of the 10,000 test rows."""

_IMAGE_HEADER, _LABEL_HEADER = 16, 8  # bytes: a magic number, then one 32-bit size for each dimension


def find() -> tuple[str, Path] | None:
    """Where the files are on this machine (how to call the place, the path), None if they are not."""
    for place, folder in folders.search_path():
        if (folder / "mnist.npz").is_file():
            return place, folder / "mnist.npz"
        if all((folder / "mnist" / pinned.name).is_file() for part in PARTS for pinned in part):
            return place, folder / "mnist"
    return None


def load(
    *, progress: Progress | None = None, base_url: str | None = None
) -> tuple[np.ndarray, np.ndarray, str]:
    """Pixels (70000, 784) uint8, labels (70000,) uint8, training rows first, and where they came from.

    A file in HASHSTREAM_DATA that is not MNIST raises, since somebody put it there on purpose; one in the
    cache is downloaded again.
    """
    damaged = ""
    if (found := find()) is not None:
        place, path = found
        try:
            return *_read(path), f"read from {path} ({place})"
        except DatasetError as error:
            if place == "HASHSTREAM_DATA":
                raise
            damaged = f"{error}; "
    base_url = base_url or os.environ.get("HASHSTREAM_MNIST_URL") or BASE_URL
    target = folders.cache_folder() / "mnist"
    try:
        parts = [
            [_cached_or_fetched(pinned, target, base_url, progress) for pinned in part] for part in PARTS
        ]
    except DatasetError as error:
        raise DatasetError(
            f"MNIST is neither in HASHSTREAM_DATA nor in the cache ({target.parent}): {damaged}{error}. Put "
            "mnist.npz (x: uint8 (70000, 784), y: (70000,)) into a folder that HASHSTREAM_DATA names, or the "
            f"four official .gz files into {target}"
        ) from error
    return *_join(parts), f"downloaded from {base_url} to {target}, checksums verified"


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix == ".npz":
        return _read_npz(path)
    return _join([[download.read(path / pinned.name, pinned) for pinned in part] for part in PARTS])


def _cached_or_fetched(pinned: Pinned, folder: Path, base_url: str, progress: Progress | None) -> bytes:
    """A file that an earlier, interrupted download completed is not fetched twice."""
    try:
        return download.read(folder / pinned.name, pinned)
    except DatasetError:
        return download.fetch(base_url, pinned, folder, progress=progress)


def _join(parts: list[list[bytes]]) -> tuple[np.ndarray, np.ndarray]:
    pixels = [np.frombuffer(images, np.uint8, offset=_IMAGE_HEADER).reshape(-1, 784) for images, _ in parts]
    labels = [np.frombuffer(answers, np.uint8, offset=_LABEL_HEADER) for _, answers in parts]
    return np.concatenate(pixels), np.concatenate(labels)


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The arrays x and y of an .npz, held against the published bytes by way of the IDX files' checksums."""
    arrays = folders.read_npz(path, "x", "y")
    x, y = np.ascontiguousarray(arrays["x"]), np.ascontiguousarray(arrays["y"])
    if x.shape != (70_000, 784) or x.dtype != np.uint8 or y.shape != (70_000,) or y.dtype.kind not in "iu":
        raise DatasetError(
            f"{path} has x {x.dtype} {x.shape} and y {y.dtype} {y.shape}: MNIST is x uint8 (70000, 784), the "
            "training rows first, and y of 70000 whole numbers"
        )
    y = y.astype(np.uint8, copy=False)
    begin = 0
    for images, labels in PARTS:
        end = begin + labels.size - _LABEL_HEADER
        n = end - begin
        for pinned, header, rows in (
            (images, struct.pack(">4I", 0x803, n, 28, 28), x[begin:end]),
            (labels, struct.pack(">2I", 0x801, n), y[begin:end]),
        ):
            digest = hashlib.sha256(header)
            digest.update(rows.data)
            if digest.hexdigest() != pinned.sha256:
                raise DatasetError(
                    f"{path} is not MNIST as published: rows {begin} to {end - 1} differ from "
                    f"{pinned.name.removesuffix('.gz')}"
                )
        begin = end
    return x, y
