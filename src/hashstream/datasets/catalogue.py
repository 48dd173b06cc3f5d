"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from hashstream.datasets import folders, mnist
from hashstream.datasets.download import Progress
from hashstream.datasets.folders import DatasetError

__all__ = ["CATALOGUE", "Dataset", "Entry", "find", "load"]


@dataclass(frozen=True)
class Dataset:
    """Labelled vectors, and where they came from.

    name: how `load` was asked for it.
    X: (n, d), uint8 pixels as they were published, or float32 features; official training rows first.
    y: (n,) int64, the class of each row.
    image_shape: (height, width) of a row that is an image, None for features.
    source: where these arrays came from, in words that can follow "MNIST, ".
    note: a sentence that says what a figure made with them can be compared with.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    image_shape: tuple[int, int] | None
    source: str
    note: str

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.X.shape[0]:,} x {self.X.shape[1]} {self.X.dtype}, {self.source})"
        )


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue: what a data set is, and the file that holds it ("" where there is none)."""

    about: str
    file: str
    rows: int
    features: int
    note: str
    origin: str = ""
    """How a file that is not downloaded was made, and from what."""


CATALOGUE = MappingProxyType(
    {
        "mnist": Entry(
            about="handwritten digits, 28 x 28 pixels, 10 classes",
            file="mnist.npz",
            rows=70_000,
            features=784,
            note="The paper's MNIST, complete.",
        ),
        "digits": Entry(
            about="small handwritten digits, 8 x 8 pixels, 10 classes, part of scikit-learn",
            file="",
            rows=1_797,
            features=64,
            note="Small and easy; not in the paper.",
        ),
        "cifar10": Entry(
            about="CIFAR-10 photographs as EfficientNet-lite0 features, 10 classes",
            file="cifar10_effnetlite0.npz",
            rows=60_000,
            features=1280,
            note="The paper used 4096-d VGG-16 features: compare between methods, not with the paper.",
            origin="EfficientNet-lite0 (ImageNet weights) on the images of "
            "https://www.cs.toronto.edu/~kriz/cifar.html resized to 96 x 96, mean over places of the last "
            "map; keys q uint8 (60000, 1280), scale (1280,), y",
        ),
        "tinyimagenet200": Entry(
            about="Tiny ImageNet photographs as EfficientNet-lite0 features, PCA to 128, 200 classes",
            file="tinyimagenet200_pca128.npz",
            rows=110_000,
            features=128,
            note="Stands in for Places205 (many classes, 128-d). The network was trained on these classes, "
            "so all figures are optimistic.",
            origin="EfficientNet-lite0 (ImageNet weights) on the images of "
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip, PCA to 128 dimensions; "
            "keys x float16 (110000, 128), y",
        ),
    }
)
"""Every name that `load` knows."""


def load(name: str, *, progress: Progress | None = None) -> Dataset:
    """The data set called `name`, one of CATALOGUE.

    Looked for in the folder that HASHSTREAM_DATA names, then in the cache; `mnist` is downloaded to the cache
    otherwise, with `progress` called for each piece that arrives. `digits` comes with scikit-learn. Raises
    DatasetError, with what to do about it, where it cannot be had.

    >>> load("digits")
    Dataset('digits', 1,797 x 64 uint8, part of scikit-learn)
    """
    entry = _entry(name)
    if name == "mnist":
        X, y, source = mnist.load(progress=progress)
        shape: tuple[int, int] | None = (28, 28)
    elif name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X, source, shape = X.astype(np.uint8), "part of scikit-learn", (8, 8)  # whole numbers, 0 to 16
    else:
        X, y, source = _load_features(entry, _FEATURES[name])
        shape = None
    return Dataset(name, X, y.astype(np.int64), shape, source, entry.note)


def find(name: str) -> tuple[str, Path | None] | None:
    """Where `name` is on this machine: how to call the place, and the path. None where it is not here.

    Nothing is read or downloaded.

    >>> find("digits")
    ('scikit-learn', None)
    """
    entry = _entry(name)
    if name == "digits":
        return "scikit-learn", None
    if name == "mnist":
        return mnist.find()
    for place, folder in folders.search_path():
        if (folder / entry.file).is_file():
            return place, folder / entry.file
    return None


def _entry(name: str) -> Entry:
    if name not in CATALOGUE:
        raise DatasetError(f"there is no data set {name!r}: choose from {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def _scaled(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Features that were stored as bytes, with one scale for each column."""
    X = arrays["q"].astype(np.float32)
    X *= arrays["scale"].astype(np.float32)
    return X


_FEATURES: dict[str, tuple[tuple[str, ...], Callable[[dict[str, np.ndarray]], np.ndarray]]] = {
    "cifar10": (("q", "scale", "y"), _scaled),
    "tinyimagenet200": (("x", "y"), lambda arrays: arrays["x"].astype(np.float32)),
}
"""For each file of features: the arrays to read, and how they make X."""


def _load_features(
    entry: Entry, layout: tuple[tuple[str, ...], Callable[[dict[str, np.ndarray]], np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, str]:
    keys, features = layout
    for place, folder in folders.search_path():
        path = folder / entry.file
        if not path.is_file():
            continue
        arrays = folders.read_npz(path, *keys)
        X, y = features(arrays), arrays["y"]
        if X.shape != (entry.rows, entry.features) or y.shape != (entry.rows,):
            raise DatasetError(
                f"{path} gives features of shape {X.shape} and labels of shape {y.shape}: expected "
                f"({entry.rows}, {entry.features}) and ({entry.rows},)"
            )
        return X, y, f"read from {path} ({place})"
    looked = " or ".join(f"{folder} ({place})" for place, folder in folders.search_path())
    raise DatasetError(
        f"{entry.file} is not in {looked}, and there is no place to download it from. Put it into a folder "
        f"and set HASHSTREAM_DATA to that folder. It was made so: {entry.origin}"
    )
