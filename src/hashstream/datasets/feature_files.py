"""Files of features that users bring: .npz files, and the MATLAB files of the public harness (fcakir/mihash).

The loaders of that harness read the variables of a `Layout`, rows being items, and stack them in this order. Labels are
stored from 0 on (the harness adds 1 after reading) and stay so here. The files may be of any MATLAB version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashstream.datasets import mat, npy
from hashstream.datasets.cache import search_path
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.record import Progress, Record

__all__ = [
    "CIFAR10",
    "LAYOUTS",
    "PLACES205",
    "FeatureFile",
    "Layout",
    "read_float16",
    "read_layout",
    "read_scaled",
]


@dataclass(frozen=True)
class FeatureFile:
    """A source that is one file of features, to be put into HASHSTREAM_DATA or the cache by hand.

    read : returns the features (n, d) and the labels (n,) of the file.
    """

    file: str
    read: Callable[[Path], tuple[np.ndarray, np.ndarray]]
    origin: str
    downloadable = False

    def find(self) -> tuple[str, Path] | None:
        return next(
            (
                (place, folder / self.file)
                for place, folder in search_path()
                if (folder / self.file).is_file()
            ),
            None,
        )

    def load(self, record: Record, progress: Progress | None) -> tuple[np.ndarray, np.ndarray, str]:
        if (found := self.find()) is None:
            searched = " or ".join(f"{folder} ({place})" for place, folder in search_path())
            raise DatasetError(
                f"{self.file} is not in {searched}, and cannot be downloaded. Put it into a folder and set "
                f"HASHSTREAM_DATA to that folder. {self.origin}"
            )
        place, path = found
        X, y = self.read(path)
        rows = record.rows if record.exact else len(X)
        if X.shape != (rows, record.features) or y.shape != (rows,):
            raise DatasetError(
                f"{path} has features of shape {X.shape} and labels of shape {y.shape}: expected "
                f"({rows}, {record.features}) and ({rows},)"
            )
        if (classes := len(np.unique(y))) != record.classes:
            raise DatasetError(f"{path} has labels of {classes} classes: expected {record.classes}")
        return X, y, f"read from {path} ({place})"


def read_scaled(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features stored as bytes q (n, d), with one scale per column."""
    arrays = npy.read_npz(path, "q", "scale", "y")
    X = arrays["q"].astype(np.float32)
    X *= arrays["scale"].astype(np.float32)
    return X, arrays["y"]


def read_float16(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features stored as float16 x (n, d)."""
    arrays = npy.read_npz(path, "x", "y")
    return arrays["x"].astype(np.float32), arrays["y"]


@dataclass(frozen=True)
class Layout:
    """Names of matrices to stack, one row per item, and of the vector of labels of each."""

    features: tuple[str, ...]
    labels: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.features + self.labels)


CIFAR10 = Layout(("trainCNN", "testCNN"), ("trainLabels", "testLabels"))
"""CIFAR10_VGG16_fc7.mat: 50,000 + 10,000 x 4,096, labels 0 to 9."""

PLACES205 = Layout(("pca_feats",), ("labels",))
"""Places205_AlexNet_fc7_PCA128.mat: about 2.5 million x 128, labels 0 to 204."""

LAYOUTS = (CIFAR10, PLACES205)


def read_layout(path: Path, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, d) float32 and labels (n,) as stored, from a MATLAB file."""
    there = mat.variables(path)
    if missing := [name for name in layout.features + layout.labels if name not in there]:
        listed = ", ".join(f"{name} ({what})" for name, what in there.items())
        raise DatasetError(
            f"{path} has no variable {missing[0]}: it needs {layout}, and has {listed or 'none'}"
        )
    shapes = [there[name].shape for name in layout.features]
    if any(len(shape) != 2 for shape in shapes) or len({shape[1] for shape in shapes}) != 1:
        listed = ", ".join(f"{name} {there[name]}" for name in layout.features)
        raise DatasetError(f"{path}: expected matrices of the same width, one row per item: {listed}")
    X = np.empty((sum(shape[0] for shape in shapes), shapes[0][1]), np.float32)
    labels, begin = [], 0
    for features, answers, shape in zip(layout.features, layout.labels, shapes, strict=True):
        y = mat.vector(path, answers)
        if len(y) != shape[0]:
            raise DatasetError(f"{path}: {features} has {shape[0]} rows, but {answers} has {len(y)} labels")
        mat.matrix(path, features, out=X[begin : begin + shape[0]])
        labels.append(y)
        begin += shape[0]
    return X, np.concatenate(labels)
