"""The paper's own features: small files with the variables of the public harness, in every MATLAB version."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from matlab_files import VERSIONS, save

from hashstream import datasets
from hashstream.datasets import DatasetError, feature_files, mat

RNG = np.random.default_rng(4)


def cifar(dtype: type = np.float32) -> dict[str, np.ndarray]:
    """30 + 12 rows as in CIFAR10_VGG16_fc7.mat: rows are items, labels a column from 0 on."""
    X = RNG.normal(size=(42, 16)).astype(dtype)
    y = (np.arange(42) % 10).astype(np.uint8)[:, None]
    return {"trainCNN": X[:30], "testCNN": X[30:], "trainLabels": y[:30], "testLabels": y[30:]}


@pytest.mark.thinned("values")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training_rows_come_first_and_labels_stay_from_0(tmp_path: Path, version: str, dtype: type) -> None:
    stored, path = cifar(dtype), tmp_path / "CIFAR10_VGG16_fc7.mat"
    save(path, version, **stored)
    X, y = feature_files.read_layout(path, feature_files.CIFAR10)
    # What the harness does, in its words: X = [trainCNN; testCNN]; Y = [trainLabels; testLabels] + 1
    np.testing.assert_array_equal(X, np.vstack([stored["trainCNN"], stored["testCNN"]]).astype(np.float32))
    np.testing.assert_array_equal(y + 1, np.arange(42) % 10 + 1)
    assert X.dtype == np.float32
    assert X.flags.c_contiguous


@pytest.mark.thinned("values")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("column", [True, False])
def test_places(tmp_path: Path, version: str, column: bool) -> None:
    X, y = RNG.normal(size=(60, 8)).astype(np.float32), RNG.integers(0, 205, 60).astype(np.float64)
    path = tmp_path / "Places205_AlexNet_fc7_PCA128.mat"
    save(path, version, pca_feats=X, labels=y[:, None] if column else y[None, :])
    got_X, got_y = feature_files.read_layout(path, feature_files.PLACES205)
    np.testing.assert_array_equal(got_X, X)
    np.testing.assert_array_equal(got_y, y)
    data = datasets.load(path)  # by its path, the layout is recognised
    np.testing.assert_array_equal(data.X, X)
    assert data.y.tolist() == y.astype(int).tolist()
    assert data.name == path.name


def test_features_are_never_twice_in_memory(tmp_path: Path) -> None:
    """Not as doubles either: the process that reads the file has those."""
    path, X = tmp_path / "places.mat", RNG.normal(size=(40_000, 32))
    save(path, "7.3", pca_feats=X, labels=np.zeros((40_000, 1)))
    mat.variables(path)
    tracemalloc.start()
    try:
        got, _ = feature_files.read_layout(path, feature_files.PLACES205)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(got, X.astype(np.float32))
    assert peak < 2 * got.nbytes + 1_500_000  # a piece of 16 MB at most, here all; labels and their copy 0.6


@pytest.mark.parametrize("version", VERSIONS)
def test_other_layouts_are_refused_with_what_is_there(tmp_path: Path, version: str) -> None:
    path, stored = tmp_path / "a.mat", cifar()
    save(path, version, **{name: array for name, array in stored.items() if name != "testLabels"})
    with pytest.raises(DatasetError, match=r"no variable testLabels: it needs trainCNN, .*testCNN \(12 x 16"):
        feature_files.read_layout(path, feature_files.CIFAR10)
    save(path, version, **{**stored, "testCNN": stored["testCNN"][:, :9]})
    with pytest.raises(DatasetError, match=r"same width.*trainCNN 30 x 16 single, testCNN 12 x 9 single"):
        feature_files.read_layout(path, feature_files.CIFAR10)
    save(path, version, **{**stored, "trainLabels": stored["trainLabels"][:-1]})
    with pytest.raises(DatasetError, match="trainCNN has 30 rows, but trainLabels has 29 labels"):
        feature_files.read_layout(path, feature_files.CIFAR10)
    turned = {name: array.T for name, array in stored.items()}
    save(path, version, **turned)
    with pytest.raises(DatasetError, match=r"one row per item: trainCNN 16 x 30"):
        feature_files.read_layout(path, feature_files.CIFAR10)
