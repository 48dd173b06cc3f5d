"""FEED: data sets by name or from your own files, synthetic streams of any length, and splits into queries and stream.

`load(name)` searches the folder named by HASHSTREAM_DATA, then the cache; MNIST and Fashion-MNIST are otherwise
downloaded. Downloaded files are verified by SHA-256 at every use. `load("file.npz")`, .npy and .mat, and `from_arrays`
bring your own data; `open_rows` reads files of any size in pieces; `Stream` generates labelled rows.
`hashstream.datasets.catalogue` holds one record per data set.

>>> from hashstream import datasets
>>> digits = datasets.load("digits")
>>> digits.X.shape, digits.X.dtype, digits.image_shape
((1797, 64), dtype('uint8'), (8, 8))
>>> part = datasets.split(digits.y, per_class=20, stream=1500, seed=0)
>>> len(part.queries), len(part.retrieval), len(part.stream)
(200, 1597, 1500)
"""

from hashstream.datasets.cache import cache_folder, data_folder
from hashstream.datasets.catalogue import CATALOGUE, find, load
from hashstream.datasets.dataset import Dataset, fingerprint, from_arrays
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.file_part import FilePart
from hashstream.datasets.files import load_file
from hashstream.datasets.record import Record, Setting
from hashstream.datasets.row_files import open_rows
from hashstream.datasets.rows import Rows, RowSource
from hashstream.datasets.splits import Split, centred_unit, split
from hashstream.datasets.stream import Stream

__all__ = [
    "CATALOGUE",
    "Dataset",
    "DatasetError",
    "FilePart",
    "Record",
    "RowSource",
    "Rows",
    "Setting",
    "Split",
    "Stream",
    "cache_folder",
    "centred_unit",
    "data_folder",
    "find",
    "fingerprint",
    "from_arrays",
    "load",
    "load_file",
    "open_rows",
    "split",
]
