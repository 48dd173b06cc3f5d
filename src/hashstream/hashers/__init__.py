"""LEARN: one method, one file, all with the contract of `OnlineHasher`.

A method of your own is one class with `@register`; `OnlineHasher` says what it has to define, and
`hashstream.checks.check_hasher` whether it keeps the contract.
"""

from hashstream.hashers import features
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.bits import Bits
from hashstream.hashers.encoder import Encoder
from hashstream.hashers.errors import DivergenceError, FormatError
from hashstream.hashers.features import FeatureMap, FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.labels import LabelBook, Labels, LabelsLike
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.registry import methods, register
from hashstream.hashers.state_fields import Array, Either, Field, Flag, ListOf, Real, Whole
from hashstream.hashers.threads import on_one_thread

# Methods are listed in the order of these imports.
# isort: off
from hashstream.hashers.fcoh import FCOH
from hashstream.hashers.fcoh_variants import FCOH_C, FCOH_S
from hashstream.hashers.okh import OKH
from hashstream.hashers.sketchhash import SketchHash
from hashstream.hashers.frosh import FROSH
from hashstream.hashers.adapthash import AdaptHash
from hashstream.hashers.osh import OSH
from hashstream.hashers.mihash import MIHash
from hashstream.hashers.hcoh import HCOH
from hashstream.hashers.hmoh import HMOH
from hashstream.hashers.bsodh import BSODH
from hashstream.hashers.ridge import RidgeHash
from hashstream.hashers.posterior import PosteriorHash
from hashstream.hashers.lsh import LSH
from hashstream.hashers.classifier import ClassifierHash
# isort: on

from hashstream.hashers.named_settings import NAMED_SETTINGS
from hashstream.hashers.onnx_export import export_onnx
from hashstream.hashers.parts import PartError, PartProgress, fit_parts
from hashstream.hashers.parts_folder import remove_learners
from hashstream.hashers.processes import in_processes
from hashstream.hashers.serialization import load, save

__all__ = [
    "BSODH",
    "FCOH",
    "FCOH_C",
    "FCOH_S",
    "FROSH",
    "HCOH",
    "HMOH",
    "LSH",
    "NAMED_SETTINGS",
    "OKH",
    "OSH",
    "AdaptHash",
    "Array",
    "Bits",
    "ClassifierHash",
    "DivergenceError",
    "Either",
    "Encoder",
    "FeatureMap",
    "FeatureMapLike",
    "Field",
    "Flag",
    "FormatError",
    "LabelBook",
    "Labels",
    "LabelsLike",
    "ListOf",
    "MIHash",
    "OnlineHasher",
    "PartError",
    "PartProgress",
    "PosteriorHash",
    "RandomState",
    "Real",
    "RidgeHash",
    "SketchHash",
    "Whole",
    "export_onnx",
    "features",
    "fit_parts",
    "in_processes",
    "initial_projection",
    "load",
    "methods",
    "on_one_thread",
    "register",
    "remove_learners",
    "save",
]
