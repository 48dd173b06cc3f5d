"""Your own data set in one file: .npz, .npy or .mat."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hashstream.datasets import mat, npy
from hashstream.datasets.dataset import Dataset, as_text, from_arrays
from hashstream.datasets.errors import DatasetError, reading
from hashstream.datasets.feature_files import LAYOUTS, read_layout
from hashstream.hashers.labels import as_labels

__all__ = ["SUFFIXES", "is_file_name", "load_file"]

SUFFIXES = (".npz", ".npy", ".mat")

_NOTE = "Data of your own: compare between methods."
_FEATURES, _LABELS, _CLASSES = ("x", "X", "features"), ("y", "Y", "labels"), ("classes", "wnids")


def is_file_name(name: str | Path) -> bool:
    """Whether `name` is a file name, by its suffix."""
    return Path(name).suffix.lower() in SUFFIXES


def load_file(path: str | Path, *, labels: ArrayLike | str | Path | None = None) -> Dataset:
    """Load vectors and labels from a file; the data set has the name of the file. Nothing is unpickled.

    .npz: features under x, X or features; labels under y, Y or labels; names of the classes, if any, under
    classes or wnids.
    .npy: the features; labels in a second file, NAME.labels.npy next to NAME.npy.
    .mat (MATLAB 5 to 7.3): the same names as in .npz, rows being items; or a layout of `feature_files`.
    labels: (n,) labels, or a .npy file that holds them, instead of those in the file.

    A NaN or an empty string among the labels of a file is a row without a label. Files are not trusted: a damaged or
    hostile one is a DatasetError that names it.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    suffix = path.suffix.lower()
    classes: tuple[str, ...] = ()
    if labels is not None:
        labels = _stored_labels(Path(labels)) if isinstance(labels, str | Path) else labels
    if suffix == ".npz":
        with reading(path, ".npz file"):
            X, y, classes = _read_npz(path, labels)
    elif suffix == ".npy":
        X, y = npy.read_npy(path), labels
        if y is None:
            side_file = path.with_suffix(".labels.npy")
            if not side_file.is_file():
                raise DatasetError(f"{path} has no labels: put them into {side_file}, or pass labels=")
            y = _stored_labels(side_file)
    elif suffix == ".mat":
        X, y = _read_mat(path, labels)
    else:
        raise DatasetError(f"{path} ends in {suffix or 'nothing'}: it has to be one of {', '.join(SUFFIXES)}")
    try:
        return from_arrays(X, y, name=path.name, classes=classes, source=f"read from {path}", note=_NOTE)
    except ValueError as error:
        raise DatasetError(f"{path}: {error}") from error


def _stored_labels(path: Path) -> np.ndarray:
    return _empty_is_none(npy.read_npy(path))


def _empty_is_none(y: np.ndarray) -> np.ndarray:
    """The labels of a file; an empty string is a missing label, like an empty cell."""
    if y.dtype.kind not in "US" or (y.astype(bool)).all():
        return y
    words: np.ndarray = as_text(y).astype(object)
    words[words == ""] = None
    return words


def _read_npz(path: Path, labels: Any) -> tuple[np.ndarray, Any, tuple[str, ...]]:
    there = npy.names_in_npz(path)
    features = _one(there, _FEATURES, "features", path)
    answers = None if labels is not None else _one(there, _LABELS, "labels", path)
    called = next((name for name in _CLASSES if name in there), None)
    arrays = npy.read_npz(path, *(name for name in (features, answers, called) if name))
    y = _empty_is_none(arrays[answers]) if answers else labels
    words = as_labels(y).dtype.kind in "USO"
    named = called is not None and arrays[called].dtype.kind in "US" and not words
    return arrays[features], y, tuple(as_text(arrays[called]).tolist()) if called and named else ()


def _read_mat(path: Path, labels: Any) -> tuple[np.ndarray, Any]:
    there = mat.variables(path)
    if labels is None:
        for layout in LAYOUTS:
            if set(layout.features + layout.labels) <= set(there):
                return read_layout(path, layout)
    shown = {name: f"{name} ({what})" for name, what in there.items()}
    features = _one(there, _FEATURES, "features", path, shown)
    y = labels if labels is not None else mat.vector(path, _one(there, _LABELS, "labels", path, shown))
    return mat.matrix(path, features), y


def _one(
    there: Iterable[str],
    wanted: tuple[str, ...],
    what: str,
    path: Path,
    shown: dict[str, str] | None = None,
) -> str:
    """The only one of the wanted names that is there."""
    found = [name for name in wanted if name in there]
    if len(found) == 1:
        return found[0]
    listed = ", ".join((shown or {}).get(name, name)[:100] for name in islice(there, 50)) or "nothing"
    if found:
        raise DatasetError(f"{path} has {' and '.join(found)}: which one are the {what}? Keep one")
    raise DatasetError(
        f"{path} has no {what}: they have to be named {', '.join(wanted[:-1])} or {wanted[-1]}, "
        f"and there is {listed}"
    )
