"""`save` and `load`: a hasher as one safetensors file with a JSON card in its header. Never pickle.

The card holds the format's version, the method, its parameters, the classes, counts, the state of the random generator
and the versions of the libraries; arrays are tensors. A digest over the card and every tensor makes sure that what is
loaded is what was saved, and learning goes on exactly where it stopped.

The digest is not a signature: anyone can write a file with a correct one. So files are untrusted. A file can only
create registered methods and feature maps, each tensor is used once (so memory is bounded by the size of the file), and
the result is compared with the declarations of its method (`state_checks.py`) before it is returned.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from hashstream._files import write_file
from hashstream.hashers.base import OnlineHasher, state
from hashstream.hashers.encoder import Encoder
from hashstream.hashers.errors import FormatError, UnknownMethod
from hashstream.hashers.features import FeatureMap
from hashstream.hashers.generators import pack_generator, unpack_generator
from hashstream.hashers.labels import LabelBook
from hashstream.hashers.lsh import LSH
from hashstream.hashers.registry import methods
from hashstream.hashers.state_checks import check_hashes, check_label_book, check_map, check_model
from hashstream.hashers.state_fields import Sizes
from hashstream.versions import library_versions

__all__ = [
    "card_of",
    "check_given",
    "encoder_digest",
    "encoder_from_bytes",
    "encoder_to_bytes",
    "from_bytes",
    "load",
    "read_card",
    "save",
    "to_bytes",
]

FORMAT = "hashstream-hasher"
FORMAT_VERSION = 1
MALFORMED = (KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""Errors that reading a forged card may raise."""


def save(hasher: OnlineHasher, path: str | os.PathLike[str]) -> None:
    """Write a hasher to `path`, whole or not at all (a new file takes the old one's place in one step).

    Labels must be strings, numbers or booleans; parameters and state also arrays, lists, None, feature maps and random
    generators. Anything else is a TypeError that names it. ValueError where parameters or state are not as the method
    declares them: nothing is saved that `load` would refuse.
    """
    check_given(hasher, "saved")
    write_file(Path(path), to_bytes(hasher))


def check_given(hasher: Any, done: str) -> None:
    """Raise TypeError unless `hasher` is one. done : what a hasher is here, as "saved"."""
    if isinstance(hasher, OnlineHasher):
        return
    found, name = repr(hasher)[:80], type(hasher).__name__
    if isinstance(hasher, type):
        found = f"the class {hasher.__name__}: give a hasher made by {hasher.__name__}(...)"
    elif hasattr(hasher, "steps"):
        found = f"a {name}: give its last step, pipeline[-1]; the steps before it are not {done}"
    raise TypeError(f"hasher must be an OnlineHasher such as FCOH(n_bits=64), not {found}")


def to_bytes(hasher: OnlineHasher) -> bytes:
    """The bytes that `save` writes; the same for every hasher with the same parameters and state."""
    if type(hasher).__name__ not in methods(variants=True):
        raise TypeError(f"{type(hasher).__name__} is not a registered method: hashstream.register it first")
    hasher = hasher.settled()
    tensors: dict[str, np.ndarray] = {}
    card = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "libraries": library_versions(),
        "hasher": _pack(hasher, type(hasher).__name__, tensors),
    }
    check_model(hasher)
    text = json.dumps(card, sort_keys=True)
    return _sorted_header(write_tensors(tensors, metadata={"card": text, "sha256": _digest(text, tensors)}))


def _sorted_header(raw: bytes) -> bytes:
    """The same file with a sorted header: safetensors writes its metadata in random order, and equal hashers should
    have equal bytes."""
    size = int.from_bytes(raw[:8], "little")
    header = json.dumps(json.loads(raw[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # tensors begin at a multiple of 8
    return len(header).to_bytes(8, "little") + header + raw[8 + size :]


def load(path: str | os.PathLike[str]) -> OnlineHasher:
    """The hasher that `save` wrote to `path`; FormatError where the file is not, or no longer, such a file.

    The file need not be trusted: whatever it holds, the result is a FormatError or a hasher that works.
    """
    if Path(path).exists() and not Path(path).is_file():  # a pipe would never end
        raise FormatError(f"{path} is not a file")
    hasher = from_bytes(Path(path).read_bytes(), path)
    if state(hasher) and not hasattr(hasher, "rng_"):
        raise FormatError(f"{path}: {type(hasher).__name__}.rng_ is missing")
    return hasher


def from_bytes(raw: bytes, path: str | os.PathLike[str]) -> OnlineHasher:
    """The hasher that `to_bytes` was given; `path` is named in the FormatError where the bytes are not one."""
    card, tensors = _read(raw, path)
    try:
        hasher = _unpack(card["hasher"], tensors)
        if not isinstance(hasher, OnlineHasher):
            raise FormatError("the card does not describe a hasher")
        if tensors:
            raise FormatError(f"{min(tensors)[:80]!r} is a tensor that the card does not mention")
    except FormatError as error:
        raise type(error)(f"{path}: {error}") from error
    except (*MALFORMED, AttributeError, IndexError, AssertionError) as error:
        raise FormatError(
            f"{path}: the card does not describe a hasher of this version: {error!r}"
        ) from error
    return hasher


def encoder_to_bytes(encoder: Encoder) -> bytes:
    """The hash functions of one version, as `to_bytes` has them: a hasher that encodes and cannot learn."""
    return to_bytes(LSH.of(encoder) if encoder.model is None else encoder.model)


def encoder_from_bytes(raw: bytes, path: str | os.PathLike[str]) -> Encoder:
    """The functions that `encoder_to_bytes` was given; FormatError where the bytes are not such functions."""
    hasher = from_bytes(raw, path)
    if not hasattr(hasher, "n_seen_"):
        raise FormatError(f"{path}: a hasher that has learned nothing cannot encode")
    return hasher.encoder()


def encoder_digest(encoder: Encoder) -> str:
    """16 hex digits over the version and everything that makes the codes: equal for functions that encode alike, also
    after they were saved and loaded."""
    tensors: dict[str, np.ndarray] = {}
    hasher = (LSH.of(encoder) if encoder.model is None else encoder.model).settled()
    packed = _pack(hasher, "functions", tensors)
    del packed["state"]["n_seen_"]  # rows may be learned that change no function
    text = json.dumps([encoder.version, packed], sort_keys=True)
    return _digest(text, tensors)[:16]


def read_card(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The card of a saved model, for a person to read."""
    return card_of(Path(path).read_bytes(), path)


def card_of(raw: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """The card of what `to_bytes` wrote, not checked; `path` is named in the FormatError where there is none."""
    return _read(raw, path)[0]


def _read(raw: bytes, path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        tensors = read_tensors(raw)
        size = int.from_bytes(raw[:8], "little")
        metadata = json.loads(raw[8 : 8 + size]).get("__metadata__", {})
        text, digest = metadata["card"], metadata["sha256"]
        card = json.loads(text)
    except (SafetensorError, AttributeError, *MALFORMED) as error:
        raise FormatError(f"{path} is not a saved hasher, or is truncated or altered: {error}") from error
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise FormatError(f"{path} is a safetensors file, but not a saved hasher")
    if card.get("format_version") != FORMAT_VERSION:
        raise FormatError(
            f"{path} has format version {card.get('format_version')!r}; this version of hashstream reads "
            f"{FORMAT_VERSION}. Its libraries: {card.get('libraries')}"
        )
    if _digest(text, tensors) != digest:
        raise FormatError(f"{path} was altered after it was saved: its digest does not match its content")
    return card, tensors


def _digest(text: str, tensors: dict[str, np.ndarray]) -> str:
    sha = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"\0{name}\0{tensor.dtype.str}\0{tensor.shape}\0".encode())
        sha.update(np.ascontiguousarray(tensor).tobytes())
    return sha.hexdigest()


# ---- objects as a tree of JSON, with the arrays set apart


def _pack(thing: Any, where: str, tensors: dict[str, np.ndarray]) -> Any:
    """`thing` as JSON; its arrays go to `tensors` under the name `where`."""
    if thing is None or isinstance(thing, (bool, int, str)):
        return thing
    if isinstance(thing, float):
        return {"float": thing.hex()}
    if isinstance(thing, np.generic):
        return _pack(thing.item(), where, tensors)
    if isinstance(thing, np.ndarray):
        if thing.dtype.kind in "OU" and thing.ndim == 1 and all(isinstance(name, str) for name in thing):
            return {"names": [str(name) for name in thing]}  # of a data frame's columns
        if thing.dtype.kind not in "fiub" or thing.dtype.itemsize > 8:
            raise TypeError(f"{where}: an array of {thing.dtype} cannot be saved")
        tensors[where] = np.ascontiguousarray(thing, dtype=thing.dtype.newbyteorder("="))
        return {"array": where, "shape": list(thing.shape)}
    if isinstance(thing, (list, tuple)):
        return {type(thing).__name__: [_pack(part, f"{where}.{i}", tensors) for i, part in enumerate(thing)]}
    if isinstance(thing, np.random.Generator):
        return {"generator": pack_generator(thing)}
    if isinstance(thing, (np.random.RandomState, np.random.SeedSequence)):
        return None  # only ever a parameter; what was drawn from it is in the state
    if isinstance(thing, LabelBook):
        return {"labels": _pack(thing.classes, where, tensors), "multilabel": thing.multilabel}
    if isinstance(thing, (OnlineHasher, FeatureMap)):
        parameters = thing.get_params(deep=False)
        return {
            "object": type(thing).__name__,
            "parameters": {k: _pack(v, f"{where}.{k}", tensors) for k, v in parameters.items()},
            "state": {k: _pack(v, f"{where}.{k}", tensors) for k, v in state(thing).items()},
        }
    raise TypeError(
        f"{where}: a {type(thing).__name__} cannot be saved; use strings, numbers, booleans or arrays"
    )


def _unpack(packed: Any, tensors: dict[str, np.ndarray], where: str = "hasher") -> Any:
    """The inverse of `_pack`; the tensors that it refers to are taken out of `tensors`."""
    if packed is None or isinstance(packed, (bool, int, str)):
        return packed
    match packed:
        case {"float": str(text)}:
            return float.fromhex(text)
        case {"array": str(name), "shape": list(shape)}:
            return _array(name, shape, tensors, where)
        case {"names": list(names)}:
            for name in names:
                if not isinstance(name, str):
                    raise FormatError(f"{where}: {str(name)[:40]} is not a name")
            return np.array(names, dtype=object)
        case {"list": list(parts)}:
            return [_unpack(part, tensors, f"{where}[{i}]") for i, part in enumerate(parts)]
        case {"tuple": list(parts)}:
            return tuple(_unpack(part, tensors, f"{where}[{i}]") for i, part in enumerate(parts))
        case {"generator": text}:
            try:
                return unpack_generator(text)
            except ValueError as error:
                raise FormatError(f"{where}: {error}") from error
        case {"labels": labels, "multilabel": multilabel}:
            return _label_book(_unpack(labels, tensors, where), multilabel, where)
        case {"object": str(name), "parameters": dict(parameters), "state": dict(learned)}:
            return _object(name, parameters, learned, tensors, where)
    raise FormatError(f"{where}: unknown entry in the card: {str(packed)[:80]}")


def _array(name: str, shape: list[Any], tensors: dict[str, np.ndarray], where: str) -> np.ndarray:
    tensor = tensors.pop(name, None)  # each is used once: a file cannot ask for more memory than it has bytes
    if tensor is None:
        raise FormatError(f"{where}: there is no tensor {name[:80]!r}, or another entry has it")
    sizes = all(type(size) is int and 0 <= size < 2**62 for size in shape) and len(shape) <= 8
    if not sizes or math.prod(shape) != tensor.size:
        raise FormatError(
            f"{where}: a tensor of shape {tensor.shape} cannot have the shape {str(shape)[:80]}"
        )
    return tensor.reshape(shape).copy()


def _label_book(labels: Any, multilabel: Any, where: str) -> LabelBook:
    if not isinstance(labels, list):
        raise FormatError(f"{where}: classes must be a list")
    try:
        check_hashes(labels, where)
        book = LabelBook(labels, multilabel)
        check_label_book(book, where)
    except (TypeError, ValueError) as error:  # a TypeError where a class is not hashable
        raise FormatError(str(error) if isinstance(error, ValueError) else f"{where}: {error}") from error
    return book


def _object(
    name: str, parameters: dict[str, Any], learned: dict[str, Any], tensors: dict[str, np.ndarray], where: str
) -> Any:
    maps = {cls.__name__: cls for cls in FeatureMap.__subclasses__()}
    known: dict[str, type] = {**maps, **methods(variants=True)}
    if name not in known:
        raise UnknownMethod(f"unknown method {name[:80]!r}: register it before loading")
    where = name if where == "hasher" else where
    unpacked = {key: _unpack(value, tensors, f"{where}.{key[:80]}") for key, value in parameters.items()}
    thing = known[name](**unpacked)
    for key, value in learned.items():
        if not key.isidentifier() or key[0] == "_" or key[-1] != "_" or hasattr(type(thing), key):
            raise FormatError(f"the card sets an attribute that is not state: {key[:80]!r}")
        setattr(thing, key, _unpack(value, tensors, f"{where}.{key[:80]}"))
    try:
        if isinstance(thing, OnlineHasher):
            check_model(thing, where)
        else:
            check_map(thing, Sizes(), where)
    except ValueError as error:
        raise FormatError(str(error)) from error
    return thing
