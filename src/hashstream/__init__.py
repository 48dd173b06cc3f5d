"""Online hashing: compact binary codes learned from a labelled stream, searchable while the hash functions change.

>>> import hashstream as hs
>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(return_X_y=True)
>>> hasher = hs.PosteriorHash(n_bits=64, random_state=0).fit(X[:1500], y[:1500])
>>> codes = hasher.transform(X)
>>> distances, indices = hs.hamming.topk(codes[1500:], codes[:1500], k=5)
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from hashstream import hamming
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
    Bits,
    ClassifierHash,
    DivergenceError,
    FormatError,
    MIHash,
    OnlineHasher,
    PosteriorHash,
    RidgeHash,
    SketchHash,
    export_onnx,
    features,
    fit_parts,
    load,
    methods,
    register,
    save,
)
from hashstream.versions import __version__, show_versions

if TYPE_CHECKING:
    from hashstream import checks, datasets, evaluate, table
    from hashstream.serve.client.async_client import AsyncClient
    from hashstream.serve.client.client import Client
    from hashstream.table import HashTable, TableError

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
    "AsyncClient",
    "Bits",
    "ClassifierHash",
    "Client",
    "DivergenceError",
    "FormatError",
    "HashTable",
    "MIHash",
    "OnlineHasher",
    "PosteriorHash",
    "RidgeHash",
    "SketchHash",
    "TableError",
    "__version__",
    "checks",
    "datasets",
    "evaluate",
    "export_onnx",
    "features",
    "fit_parts",
    "hamming",
    "load",
    "methods",
    "register",
    "save",
    "show_versions",
    "table",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # quiet, unless the program listens

_LAZY_ROOMS = {"checks", "datasets", "evaluate", "table"}
_LAZY_NAMES = {
    "AsyncClient": "serve.client",
    "Client": "serve.client",
    "HashTable": "table",
    "TableError": "table",
}
"""Rooms that are imported when they are first used, so that `import hashstream` stays fast, and names in them."""

if not TYPE_CHECKING:  # to a type checker, the names above are all there are

    def __getattr__(name: str) -> object:
        if name not in _LAZY_ROOMS | set(_LAZY_NAMES):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        room = import_module(f"{__name__}.{_LAZY_NAMES.get(name, name)}")
        globals()[name] = room if name in _LAZY_ROOMS else getattr(room, name)
        return globals()[name]

    def __dir__() -> list[str]:
        return __all__
