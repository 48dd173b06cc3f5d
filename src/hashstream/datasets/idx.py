"""Image sets in MNIST's format: four gzipped IDX files, or one .npz of the same pixels, verified by checksum."""

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashstream.datasets import download, npy
from hashstream.datasets.cache import cache_folder, search_path
from hashstream.datasets.download import Pinned
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.record import Progress, Record
from hashstream.datasets.registries import Package

_IMAGE_HEADER, _LABEL_HEADER = 16, 8  # bytes: a magic number, then one 32-bit size per dimension


def mnist_files(
    train_images: str, train_labels: str, test_images: str, test_labels: str
) -> tuple[tuple[Pinned, Pinned], ...]:
    """60,000 training rows and 10,000 test rows of 28 x 28 pixels, by the SHA-256 of the uncompressed files."""
    return (
        (
            Pinned("train-images-idx3-ubyte.gz", 47_040_016, train_images),
            Pinned("train-labels-idx1-ubyte.gz", 60_008, train_labels),
        ),
        (
            Pinned("t10k-images-idx3-ubyte.gz", 7_840_016, test_images),
            Pinned("t10k-labels-idx1-ubyte.gz", 10_008, test_labels),
        ),
    )


@dataclass(frozen=True)
class IdxImages:
    """A source of images of 28 x 28 pixels that is published as IDX files.

    name: the folder (four .gz files) or .npz that holds them. title: for messages.
    base_url: the address of the four files.
    url_variable: the environment variable for another address, which is then the only one tried.
    parts: images and labels of the training rows, then of the test rows.
    package: a package with the same files, used if `base_url` cannot be reached.
    installed: the folder in which an installed package has them, and its name for messages.
    """

    name: str
    title: str
    base_url: str
    url_variable: str
    parts: tuple[tuple[Pinned, Pinned], ...]
    package: Package | None = None
    installed: tuple[str, Path] | None = None
    origin = ""
    downloadable = True

    @property
    def file(self) -> str:
        return f"{self.name}.npz"

    @property
    def files(self) -> tuple[Pinned, ...]:
        return tuple(pinned for part in self.parts for pinned in part)

    @property
    def rows(self) -> int:
        return sum(labels.size - _LABEL_HEADER for _, labels in self.parts)

    def find(self) -> tuple[str, Path] | None:
        for place, folder in search_path():
            if (folder / self.file).is_file():
                return place, folder / self.file
            if self._complete(folder / self.name):
                return place, folder / self.name
        return self.installed if self.installed and self._complete(self.installed[1]) else None

    def _complete(self, folder: Path) -> bool:
        return all((folder / pinned.name).is_file() for pinned in self.files)

    def load(
        self, record: Record | None = None, progress: Progress | None = None
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Pixels (n, 784) uint8 and labels (n,) uint8, training rows first, and where they came from.

        A damaged file in HASHSTREAM_DATA raises, since somebody put it there on purpose; in the cache it is downloaded
        again.
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
        target = cache_folder() / self.name
        try:
            contents, origin = self._get(target, progress)
        except DatasetError as error:
            raise DatasetError(
                f"{self.title} is neither in HASHSTREAM_DATA nor in the cache ({target.parent}): {damaged}"
                f"{error}. Put {self.file} (x: uint8 ({self.rows}, 784), y: ({self.rows},)) into a folder "
                f"that HASHSTREAM_DATA names, or the four official .gz files into {target}"
            ) from error
        return *self._join(contents), f"{origin} to {target}, checksums verified"

    def _get(self, target: Path, progress: Progress | None) -> tuple[dict[str, bytes], str]:
        """The content of every file by name, and where it came from: the published address, else a package.

        Files that an interrupted download completed are not fetched again.
        """
        contents: dict[str, bytes] = {}

        def missing() -> tuple[Pinned, ...]:
            return tuple(pinned for pinned in self.files if pinned.name not in contents)

        for pinned in self.files:
            with suppress(DatasetError):
                contents[pinned.name] = download.read(target / pinned.name, pinned)
        own_url = os.environ.get(self.url_variable)
        try:
            for pinned in missing():
                url = own_url or self.base_url
                contents[pinned.name] = download.fetch(url, pinned, target, progress=progress)
            return contents, f"downloaded from {own_url or self.base_url}"
        except DatasetError as error:
            if own_url or self.package is None:
                raise
            refused = f"{error}; nor from {self.package.title}"
        try:
            for pinned, content in self.package.files(missing(), progress):
                contents[pinned.name] = download.keep(content, pinned, target, origin=self.package.title)
        except DatasetError as error:
            raise DatasetError(f"{refused}: {error}") from error
        if absent := missing():
            raise DatasetError(f"{refused}: it has no {', '.join(pinned.stem for pinned in absent)}")
        return contents, f"taken from {self.package.title}"

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
        """The arrays x and y of an .npz, verified with the checksums of the IDX files."""
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
