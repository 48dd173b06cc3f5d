"""Online hashing: compact binary codes learned from a labelled stream, searchable while the hash functions move.

>>> import hashstream as hs
>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(return_X_y=True)
>>> hasher = hs.FCOH(n_bits=64, random_state=0).fit(X[:1500], y[:1500])
>>> codes = hasher.transform(X)
>>> distances, indices = hs.hamming.topk(codes[1500:], codes[:1500], k=5)
"""

from hashstream import checks, datasets, evaluate, hamming, table
from hashstream.hashers import (
    BSODH,
    FCOH,
    FROSH,
    HCOH,
    HMOH,
    LSH,
    OKH,
    OSH,
    AdaptHash,
    ClassifierHash,
    DivergenceError,
    FormatError,
    MIHash,
    OnlineHasher,
    RidgeHash,
    SketchHash,
    features,
    load,
    methods,
    register,
    save,
)
from hashstream.table import HashTable, TableError
from hashstream.versions import __version__, show_versions

__all__ = [
    "BSODH",
    "FCOH",
    "FROSH",
    "HCOH",
    "HMOH",
    "LSH",
    "OKH",
    "OSH",
    "AdaptHash",
    "ClassifierHash",
    "DivergenceError",
    "FormatError",
    "HashTable",
    "MIHash",
    "OnlineHasher",
    "RidgeHash",
    "SketchHash",
    "TableError",
    "__version__",
    "checks",
    "datasets",
    "evaluate",
    "features",
    "hamming",
    "load",
    "methods",
    "register",
    "save",
    "show_versions",
    "table",
]
