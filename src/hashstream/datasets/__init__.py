"""FEED: data sets by name, and the splits and features that the protocols stream.

`load(name)` looks in the folder named by HASHSTREAM_DATA, then in the cache, then (MNIST) downloads the
published files. Whatever was downloaded is checked against a pinned SHA-256 before each use: a half-finished
or altered file is never read as data.

>>> from hashstream import datasets
>>> digits = datasets.load("digits")
>>> digits.X.shape, digits.X.dtype, digits.image_shape
((1797, 64), dtype('uint8'), (8, 8))
>>> part = datasets.split(digits.y, per_class=20, stream=1500, seed=0)
>>> len(part.queries), len(part.retrieval), len(part.stream)
(200, 1597, 1500)
"""

from hashstream.datasets.catalogue import CATALOGUE, Dataset, find, load
from hashstream.datasets.folders import DatasetError, cache_folder, data_folder
from hashstream.datasets.splits import Split, centred_unit, split

__all__ = [
    "CATALOGUE",
    "Dataset",
    "DatasetError",
    "Split",
    "cache_folder",
    "centred_unit",
    "data_folder",
    "find",
    "load",
    "split",
]
