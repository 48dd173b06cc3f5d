"""LEARN: one method, one file, all behind the contract of `OnlineHasher`."""

from hashstream.hashers import features
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.errors import DivergenceError, FormatError
from hashstream.hashers.fcoh import FCOH
from hashstream.hashers.lsh import LSH
from hashstream.hashers.registry import methods, register
from hashstream.hashers.storage import load, save

__all__ = [
    "FCOH",
    "LSH",
    "DivergenceError",
    "FormatError",
    "OnlineHasher",
    "features",
    "load",
    "methods",
    "register",
    "save",
]
