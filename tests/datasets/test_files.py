"""Files of one's own: names that are understood, and sentences for all that is not."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matlab_files import VERSIONS, save

from hashstream import datasets
from hashstream.datasets import DatasetError

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(20, 5)), RNG.integers(0, 4, 20)


def check(data: datasets.Dataset, path: Path) -> None:
    np.testing.assert_array_equal(data.X, X.astype(np.float32))
    np.testing.assert_array_equal(data.y, Y)
    assert data.name == path.name
    assert data.source == f"read from {path}"
    assert data.image_shape is None


@pytest.mark.parametrize("features", ["x", "X", "features"])
@pytest.mark.parametrize("labels", ["y", "Y", "labels"])
def test_npz(tmp_path: Path, features: str, labels: str) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, **{features: X, labels: Y, "other": np.zeros(3)})
    check(datasets.load(str(path)), path)
    check(datasets.load(path), path)


@pytest.mark.thinned("values")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("features", "labels"), [("X", "y"), ("x", "Y"), ("features", "labels")])
def test_mat(tmp_path: Path, version: str, features: str, labels: str) -> None:
    path = tmp_path / "mine.mat"
    save(path, version, **{features: X, labels: Y[:, None]})
    check(datasets.load(path), path)
    save(path, version, **{features: X, labels: Y[None, :]})
    check(datasets.load(path), path)


def test_npy_with_labels_next_to_it_or_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, X)
    with pytest.raises(DatasetError, match=r"mine\.npy has no labels: put them into .*mine\.labels\.npy"):
        datasets.load(path)
    check(datasets.load(path, labels=Y), path)
    check(datasets.load(path, labels=Y.tolist()), path)
    np.save(tmp_path / "answers.npy", Y)
    check(datasets.load(path, labels=tmp_path / "answers.npy"), path)
    check(datasets.load(path, labels=str(tmp_path / "answers.npy")), path)
    np.save(tmp_path / "mine.labels.npy", Y)
    check(datasets.load(path), path)
    monkeypatch.setenv("HOME", str(tmp_path))
    check(datasets.load("~/mine.npy"), path)


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_given_labels_go_before_those_in_the_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mine{suffix}"
    if suffix == ".npz":
        np.savez(path, x=X, y=np.zeros(20))
    else:
        save(path, "5", x=X, y=np.zeros((20, 1)))
    check(datasets.load(path, labels=Y), path)


def test_names_of_classes(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y, classes=np.array(["a", "b", "c", "d"]))
    assert datasets.load(path).classes == ("a", "b", "c", "d")
    np.savez(path, x=X, y=Y, wnids=np.array(["n1", "n2", "n3", "n4"]))
    assert datasets.load(path).classes == ("n1", "n2", "n3", "n4")
    np.savez(path, x=X, y=np.array(["b", "a"] * 10), classes=np.array(["a", "b"]))
    assert datasets.load(path).y.tolist() == [1, 0] * 10
    np.savez(path, x=X, y=Y, classes=np.arange(4))  # numbers are no names
    assert datasets.load(path).classes == ()
    np.savez(path, x=X, y=Y, classes=np.array(["a", "b"]))
    with pytest.raises(DatasetError, match="names for the classes 0 to 1"):
        datasets.load(path)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"z": X, "y": Y}, "no features: they have to be named x, X or features, and there is z, y"),
        ({"x": X, "answers": Y}, "no labels: they have to be named y, Y or labels, and there is x, answers"),
        ({"x": X, "X": X, "y": Y}, "has x and X: which one are the features"),
        ({"x": X, "y": Y, "labels": Y}, "has y and labels: which one are the labels"),
        ({"x": X, "y": Y[:9]}, "X has 20 rows and y has 9 labels"),
        ({"x": X.T, "y": Y}, "transpose X"),
        ({"x": X[:, 0], "y": Y}, r"shape \(20,\)"),
        ({"x": X, "y": Y[:, None]}, r"y has shape \(20, 1\)"),
    ],
)
def test_npz_files_that_cannot_be_understood(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(DatasetError, match=says) as caught:
        datasets.load(path)
    assert str(path) in str(caught.value)


def test_mat_files_that_cannot_be_understood(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    save(path, "5", data=X, y=Y[:, None])
    with pytest.raises(DatasetError, match=r"no features: .* there is data \(20 x 5 double\), y \(20 x 1"):
        datasets.load(path)
    save(path, "5", X=X.T, y=Y[:, None])
    with pytest.raises(DatasetError, match="transpose X"):
        datasets.load(path)
    save(path, "5", X=X)
    with pytest.raises(DatasetError, match=r"no labels: .* there is X \(20 x 5 double\)"):
        datasets.load(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"there is no file .*absent\.npz"):
        datasets.load(tmp_path / "absent.npz")
    for suffix, kind in ((".npz", r"\.npz"), (".npy", r"\.npy"), (".mat", "MATLAB")):
        path = tmp_path / f"junk{suffix}"
        for content in (b"", b"junk", bytes(3000)):
            path.write_bytes(content)
            with pytest.raises(DatasetError, match=f"is not a valid {kind} file"):
                datasets.load(path)
    text = tmp_path / "a.csv"
    text.write_text("1,2")
    with pytest.raises(DatasetError, match=r"ends in \.csv: it has to be one of \.npz, \.npy, \.mat"):
        datasets.load_file(text)


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.mark,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.save(tmp_path / "a.labels.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "b.npz", x=trap, y=Y)
    np.savez(tmp_path / "c.npz", x=X, y=trap)
    (tmp_path / "d.npz").write_bytes(pickle.dumps(trap))
    (tmp_path / "e.npy").write_bytes(pickle.dumps(trap))
    for name in ("a.npy", "b.npz", "c.npz", "d.npz", "e.npy"):
        with pytest.raises(DatasetError, match="is not a valid"):
            datasets.load(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_an_npz_that_is_one_array_and_an_npy_that_is_several(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(DatasetError, match="one array without a name"):
        datasets.load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=X, y=Y)
    (tmp_path / "b.npz").rename(tmp_path / "b.npy")
    with pytest.raises(DatasetError, match=r"several arrays: rename it to \.npz"):
        datasets.load(tmp_path / "b.npy")
