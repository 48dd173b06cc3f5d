"""The features of the online hashing papers, in the MATLAB files of the public harness (fcakir/mihash).

Its loaders read these variables, rows being items, and stack them in this order. Labels are stored from 0 on (the
harness adds 1 after reading) and stay so here. The files may be of any MATLAB version.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashstream.datasets import mat
from hashstream.datasets.folders import DatasetError

__all__ = ["CIFAR10", "LAYOUTS", "PLACES205", "Layout", "read"]


@dataclass(frozen=True)
class Layout:
    """Matrices of features, one row an item, that belong on top of each other, and the vector of labels of each."""

    features: tuple[str, ...]
    labels: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.features + self.labels)


CIFAR10 = Layout(("trainCNN", "testCNN"), ("trainLabels", "testLabels"))
"""CIFAR10_VGG16_fc7.mat: 50,000 + 10,000 x 4,096, labels 0 to 9."""

PLACES205 = Layout(("pca_feats",), ("labels",))
"""Places205_AlexNet_fc7_PCA128.mat: about 2.5 million x 128, labels 0 to 204."""

LAYOUTS = (CIFAR10, PLACES205)


def read(path: Path, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, d) float32 and labels (n,) as they are stored, the parts of the file on top of each other."""
    there = mat.variables(path)
    if missing := [name for name in layout.features + layout.labels if name not in there]:
        listed = ", ".join(f"{name} ({what})" for name, what in there.items())
        raise DatasetError(
            f"{path} has no variable {missing[0]}: it needs {layout}, and has {listed or 'none'}"
        )
    shapes = [there[name].shape for name in layout.features]
    if any(len(shape) != 2 for shape in shapes) or len({shape[1] for shape in shapes}) != 1:
        listed = ", ".join(f"{name} {there[name]}" for name in layout.features)
        raise DatasetError(f"{path}: these are not matrices of the same width, one row an item: {listed}")
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
