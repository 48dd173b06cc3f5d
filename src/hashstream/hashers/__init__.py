"""LEARN: one method, one file, all behind the contract of `OnlineHasher`."""

from hashstream.hashers import features
from hashstream.hashers.adapthash import AdaptHash
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.bsodh import BSODH
from hashstream.hashers.classifier import ClassifierHash
from hashstream.hashers.encoder import Encoder
from hashstream.hashers.errors import DivergenceError, FormatError
from hashstream.hashers.fcoh import FCOH
from hashstream.hashers.frosh import FROSH
from hashstream.hashers.hcoh import HCOH
from hashstream.hashers.hmoh import HMOH
from hashstream.hashers.lsh import LSH
from hashstream.hashers.mihash import MIHash
from hashstream.hashers.okh import OKH
from hashstream.hashers.osh import OSH
from hashstream.hashers.registry import methods, register
from hashstream.hashers.ridge import RidgeHash
from hashstream.hashers.serialization import load, save
from hashstream.hashers.sketchhash import SketchHash

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
    "Encoder",
    "FormatError",
    "MIHash",
    "OnlineHasher",
    "RidgeHash",
    "SketchHash",
    "features",
    "load",
    "methods",
    "register",
    "save",
]
