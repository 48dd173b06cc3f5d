"""Names, places and their order; where content matters, a small set in MNIST's layout stands in."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from hashstream import datasets
from hashstream.datasets import DatasetError, catalogue, download
from hashstream.datasets.download import Pinned
from hashstream.datasets.idx import IdxImages

NOWHERE = "http://127.0.0.1:9"
MNIST, FASHION_MNIST = (datasets.CATALOGUE[name].source for name in ("mnist", "fashion-mnist"))


def set_source(monkeypatch: pytest.MonkeyPatch, name: str, source: IdxImages) -> None:
    record = dataclasses.replace(datasets.CATALOGUE[name], source=source)
    monkeypatch.setitem(catalogue._RECORDS, name, record)


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No folder of the user's, an empty cache, no network."""
    for name in ("HASHSTREAM_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HASHSTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HASHSTREAM_MNIST_URL", NOWHERE)
    monkeypatch.setenv("HASHSTREAM_FASHION_MNIST_URL", NOWHERE)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


class Tiny:
    """30 training and 10 test images in MNIST's layout, and the files they come in."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.x = rng.integers(0, 256, (40, 784), dtype=np.uint8)
        self.y = rng.integers(0, 10, 40, dtype=np.uint8)
        self.files: dict[str, bytes] = {}
        parts = []
        for part, begin, end in (("train", 0, 30), ("t10k", 30, 40)):
            images = struct.pack(">4I", 0x803, end - begin, 28, 28) + self.x[begin:end].tobytes()
            labels = struct.pack(">2I", 0x801, end - begin) + self.y[begin:end].tobytes()
            pair = []
            for name, raw in (("images-idx3", images), ("labels-idx1", labels)):
                file = f"{part}-{name}-ubyte.gz"
                self.files[file] = gzip.compress(raw)
                pair.append(Pinned(file, len(raw), hashlib.sha256(raw).hexdigest()))
            parts.append(tuple(pair))
        self.parts = tuple(parts)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, packed in self.files.items():
            (folder / name).write_bytes(packed)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Tiny:
    tiny = Tiny()
    set_source(monkeypatch, "mnist", dataclasses.replace(MNIST, parts=tiny.parts))
    return tiny


@pytest.mark.parametrize("images", [MNIST, FASHION_MNIST], ids=lambda images: images.name)
def test_the_pinned_names_and_sizes_are_those_of_the_published_files(images: IdxImages) -> None:
    sizes = {pinned.name: pinned.size for pinned in images.files}
    assert sizes == {
        "train-images-idx3-ubyte.gz": 16 + 60_000 * 784,
        "train-labels-idx1-ubyte.gz": 8 + 60_000,
        "t10k-images-idx3-ubyte.gz": 16 + 10_000 * 784,
        "t10k-labels-idx1-ubyte.gz": 8 + 10_000,
    }
    assert images.base_url.startswith("https://")
    assert images.rows == datasets.CATALOGUE[images.name].rows
    assert len({pinned.sha256 for pinned in images.files}) == 4
    assert all(len(bytes.fromhex(pinned.sha256)) == 32 for pinned in images.files)


def test_the_two_sets_share_no_file() -> None:
    """A slip in copying checksums would show here."""
    assert not {p.sha256 for p in MNIST.files} & {p.sha256 for p in FASHION_MNIST.files}


def test_records_are_complete() -> None:
    papers = {record.paper_settings for record in datasets.CATALOGUE.values()}
    assert papers == {"mnist", "cifar10", "places205"}
    for name, record in datasets.CATALOGUE.items():
        assert record.name == name
        assert record.setting.stream + record.classes * record.setting.per_class <= record.rows
        assert not record.setting.stream % record.setting.every
        assert record.source.downloadable or record.source.origin or record.source.find()
        assert record.image_shape is None or np.prod(record.image_shape) == record.features
    same = [record.paper_settings for record in datasets.CATALOGUE.values() if record.paper_role == "same"]
    assert set(same) == papers
    assert len(same) == 3


@pytest.mark.parametrize("place", ["HASHSTREAM_DATA", "the cache"])
def test_idx_files_in_a_folder_are_read(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = tmp_path / "cache"
    if place == "HASHSTREAM_DATA":
        folder = tmp_path / "own"
        monkeypatch.setenv("HASHSTREAM_DATA", str(folder))
    tiny.write(folder / "mnist")
    data = datasets.load("mnist")
    np.testing.assert_array_equal(data.X, tiny.x)
    np.testing.assert_array_equal(data.y, tiny.y)
    assert data.X.dtype == np.uint8
    assert data.y.dtype == np.int64
    assert data.image_shape == (28, 28)
    assert data.source == f"read from {folder / 'mnist'} ({place})"
    assert datasets.find("mnist") == (place, folder / "mnist")


def test_a_damaged_file_in_the_users_folder_raises_and_one_in_the_cache_is_fetched_again(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, bad = tmp_path / "cache" / "mnist", "t10k-images-idx3-ubyte.gz"
    tiny.write(folder)
    (folder / bad).write_bytes(tiny.files[bad][:-20])
    with pytest.raises(DatasetError, match=r"not a complete gzip file .*could not be downloaded"):
        datasets.load("mnist")

    fetched = []

    def fetch(base_url: str, pinned: Pinned, folder: Path, **_: object) -> bytes:
        fetched.append((base_url, pinned.name))
        (folder / pinned.name).write_bytes(tiny.files[pinned.name])
        return gzip.decompress(tiny.files[pinned.name])

    monkeypatch.setattr(download, "fetch", fetch)
    data = datasets.load("mnist")
    assert fetched == [(NOWHERE, bad)]  # the three good ones are not fetched again
    np.testing.assert_array_equal(data.X, tiny.x)
    assert data.source.startswith(f"downloaded from {NOWHERE} to {folder}")
    assert datasets.load("mnist").source == f"read from {folder} (the cache)"
    assert len(fetched) == 1

    monkeypatch.setenv("HASHSTREAM_DATA", str(tmp_path / "own"))
    tiny.write(tmp_path / "own" / "mnist")
    (tmp_path / "own" / "mnist" / bad).write_bytes(b"")
    with pytest.raises(DatasetError, match="own"):
        datasets.load("mnist")
    assert len(fetched) == 1


def test_an_npz_with_other_content_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HASHSTREAM_DATA", str(tmp_path))
    path = tmp_path / "mnist.npz"
    np.savez(path, x=np.zeros((5, 784), np.uint8), y=np.zeros(5, np.uint8))
    with pytest.raises(DatasetError, match=r"x uint8 \(5, 784\)"):
        datasets.load("mnist")
    np.savez(path, x=np.zeros((70_000, 784), np.uint8), y=np.zeros(70_000, np.uint8))
    with pytest.raises(DatasetError, match=r"rows 0 to 59999 differ from train-images-idx3-ubyte"):
        datasets.load("mnist")
    np.savez(path, x_train=np.zeros(3))
    with pytest.raises(DatasetError, match="it needs x, y"):
        datasets.load("mnist")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DatasetError, match=r"is not a valid \.npz"):
        datasets.load("mnist")
    np.savez(path, x=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(DatasetError, match=r"is not a valid \.npz"):  # it would need pickle
        datasets.load("mnist")


def test_missing_data_says_where_it_was_looked_for_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninstalled = dataclasses.replace(FASHION_MNIST, installed=("nowhere", tmp_path / "nowhere"))
    set_source(monkeypatch, "fashion-mnist", uninstalled)
    for name in ("mnist", "fashion-mnist"):
        with pytest.raises(DatasetError, match=rf"127\.0\.0\.1:9.*could not be downloaded.*Put {name}\.npz"):
            datasets.load(name)
    for name, hint in (
        ("cifar10", "kriz/cifar"),
        ("tinyimagenet200", "tiny-imagenet-200"),
        ("cifar10-vgg16", "mihash"),
        ("places205", "mihash"),
    ):
        with pytest.raises(
            DatasetError, match=rf"cache.*Put it into a folder and set HASHSTREAM_DATA.*{hint}"
        ):
            datasets.load(name)
    with pytest.raises(DatasetError, match=r"choose from mnist, digits.*or name a file of your own"):
        datasets.load("mnits")
    with pytest.raises(DatasetError, match="has its own labels"):
        datasets.load("digits", labels=[1])
    assert [name for name in datasets.CATALOGUE if datasets.find(name)] == ["digits"]


def test_a_data_folder_that_is_none_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HASHSTREAM_DATA", str(tmp_path / "typo"))
    with pytest.raises(DatasetError, match="typo', which is not a folder"):
        datasets.load("mnist")
    monkeypatch.setenv("HASHSTREAM_DATA", "")
    assert datasets.data_folder() is None


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert datasets.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("HASHSTREAM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.cache_folder() == tmp_path / "xdg" / "hashstream"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert datasets.cache_folder() == Path.home() / ".cache" / "hashstream"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of features is 12 rows of 6 features and 4 classes."""
    entries = {
        name: dataclasses.replace(entry, rows=12, features=6, classes=4)
        for name, entry in datasets.CATALOGUE.items()
    }
    monkeypatch.setattr(catalogue, "CATALOGUE", entries)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["cifar10", "tinyimagenet200"])
def test_feature_files_of_the_documented_layout(tmp_path: Path, name: str) -> None:
    folder, file = tmp_path / "cache", datasets.CATALOGUE[name].source.file
    folder.mkdir()
    rng = np.random.default_rng(0)
    q, scale, y = (
        rng.integers(0, 256, (12, 6), np.uint8),
        rng.random(6, np.float32),
        np.arange(12, dtype=np.uint8) % 4,
    )
    if name == "cifar10":
        np.savez(folder / file, q=q, scale=scale, y=y)
        expected = q * scale
    else:
        np.savez(folder / file, x=q.astype(np.float16), y=y)
        expected = q.astype(np.float32)
    data = datasets.load(name)
    assert data.X.dtype == np.float32
    assert data.image_shape is None
    assert "the cache" in data.source
    assert data.note == datasets.CATALOGUE[name].note
    np.testing.assert_allclose(data.X, expected, rtol=1e-6)
    np.testing.assert_array_equal(data.y, y)
    np.savez(folder / file, q=q, scale=scale, x=q, y=y[:5])
    with pytest.raises(DatasetError, match=r"labels of shape \(5,\)"):
        datasets.load(name)
    np.savez(folder / file, q=q, scale=scale, x=q, y=y % 2)
    with pytest.raises(DatasetError, match="labels of 2 classes: expected 4"):
        datasets.load(name)
    np.savez(folder / file, q=q, scale=scale * np.nan, x=np.full((12, 6), np.nan), y=y)
    with pytest.raises(DatasetError, match="row 0 that is not finite"):
        datasets.load(name)


@pytest.mark.usefixtures("small")
def test_the_papers_own_features_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 6)).astype(np.float32), np.arange(12)[:, None] % 4
    vgg = {"trainCNN": X[:8], "testCNN": X[8:], "trainLabels": y[:8], "testLabels": y[8:]}
    scipy.io.savemat(folder / datasets.CATALOGUE["cifar10-vgg16"].source.file, vgg)
    places = folder / datasets.CATALOGUE["places205"].source.file
    scipy.io.savemat(places, {"pca_feats": X, "labels": y})
    for name in ("cifar10-vgg16", "places205"):
        data = datasets.load(name)
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, y.ravel())
        assert data.X.dtype == np.float32
        assert data.y.dtype == np.int64
        assert data.X.flags.c_contiguous
    scipy.io.savemat(places, {"pca_feats": X[:11], "labels": y[:11]})
    assert len(datasets.load("places205").X) == 11  # how many rows the file has is not published
    scipy.io.savemat(places, {"pca_feats": X[:, :5], "labels": y})
    with pytest.raises(DatasetError, match=r"features of shape \(12, 5\).*expected \(12, 6\)"):
        datasets.load("places205")


REAL = os.environ.get("HASHSTREAM_DATA")


@pytest.mark.skipif(not REAL, reason="HASHSTREAM_DATA names no folder with the real files")
@pytest.mark.parametrize("name", [name for name in datasets.CATALOGUE if name != "digits"])
def test_the_real_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HASHSTREAM_DATA", str(REAL))
    if datasets.find(name) is None:
        pytest.skip(f"{datasets.CATALOGUE[name].source.file} is not in HASHSTREAM_DATA")
    data = datasets.load(name)  # for MNIST and Fashion-MNIST this compares all four published checksums
    entry = datasets.CATALOGUE[name]
    assert data.X.shape[1] == entry.features
    assert len(data.X) == entry.rows or not entry.exact
    assert len(np.unique(data.y)) == entry.classes
    assert "HASHSTREAM_DATA" in data.source or data.source.startswith("read from /usr/share")
    if name == "fashion-mnist":
        assert np.bincount(data.y[:60_000]).tolist() == [6_000] * 10
        assert np.bincount(data.y[60_000:]).tolist() == [1_000] * 10
