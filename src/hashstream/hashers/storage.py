"""`save` and `load`: a hasher as one safetensors file with a JSON card in its header. Never pickle.

The card holds the format's version, the method, its parameters, the classes, counts, the state of the random generator
and the versions of the libraries; arrays are tensors. A digest over the card and every tensor makes sure that what is
loaded is what was saved, and learning goes on exactly where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from hashstream.hashers.base import OnlineHasher, state
from hashstream.hashers.errors import FormatError
from hashstream.hashers.features import FeatureMap
from hashstream.hashers.labels import LabelBook
from hashstream.hashers.registry import methods
from hashstream.versions import library_versions

__all__ = ["from_bytes", "load", "read_card", "save", "to_bytes"]

FORMAT = "hashstream-hasher"
FORMAT_VERSION = 1


def save(hasher: OnlineHasher, path: str | os.PathLike[str]) -> None:
    """Write a hasher to `path`, whole or not at all (a new file takes the old one's place in one step).

    Labels must be strings, numbers or booleans; parameters and state also arrays, lists, None, feature maps and random
    generators. Anything else is a TypeError that names it.
    """
    raw = to_bytes(hasher)
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def to_bytes(hasher: OnlineHasher) -> bytes:
    """What `save` writes."""
    if type(hasher).__name__ not in methods():
        raise TypeError(f"{type(hasher).__name__} is not a registered method: hashstream.register it first")
    tensors: dict[str, np.ndarray] = {}
    card = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "libraries": library_versions(),
        "hasher": _pack(hasher, type(hasher).__name__, tensors),
    }
    text = json.dumps(card, sort_keys=True)
    return write_tensors(tensors, metadata={"card": text, "sha256": _digest(text, tensors)})


def load(path: str | os.PathLike[str]) -> OnlineHasher:
    """The hasher that `save` wrote to `path`; FormatError where the file is not, or no longer, such a file."""
    return from_bytes(Path(path).read_bytes(), path)


def from_bytes(raw: bytes, path: str | os.PathLike[str]) -> OnlineHasher:
    """The hasher that `to_bytes` was given; `path` is named in the FormatError where the bytes are not one."""
    card, tensors = _read(raw, path)
    try:
        hasher = _unpack(card["hasher"], tensors)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FormatError(
            f"{path}: the card does not describe a hasher of this version: {error!r}"
        ) from error
    if not isinstance(hasher, OnlineHasher):
        raise FormatError(f"{path}: the card does not describe a hasher")
    learned = state(hasher)
    counts = all(
        isinstance(learned.get(name), int) for name in ("n_seen_", "version_", "n_bits_", "n_features_in_")
    )
    if learned and not (counts and isinstance(learned.get("label_book_"), LabelBook) and "dtype_" in learned):
        raise FormatError(f"{path}: the card lacks part of what every hasher has learned")
    return hasher


def read_card(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The card alone: what `load` would make, for a person to read."""
    return _read(Path(path).read_bytes(), path)[0]


def _read(raw: bytes, path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        tensors = read_tensors(raw)
        size = int.from_bytes(raw[:8], "little")
        metadata = json.loads(raw[8 : 8 + size]).get("__metadata__", {})
        text, digest = metadata["card"], metadata["sha256"]
        card = json.loads(text)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
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
        return {"generator": json.dumps(thing.bit_generator.state, default=lambda array: array.tolist())}
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


def _unpack(packed: Any, tensors: dict[str, np.ndarray]) -> Any:
    if packed is None or isinstance(packed, (bool, int, str)):
        return packed
    match packed:
        case {"float": text}:
            return float.fromhex(text)
        case {"array": name, "shape": shape}:
            return tensors[name].reshape(shape).copy()
        case {"names": names}:
            return np.array(names, dtype=object)
        case {"list": parts}:
            return [_unpack(part, tensors) for part in parts]
        case {"tuple": parts}:
            return tuple(_unpack(part, tensors) for part in parts)
        case {"generator": text}:
            return _generator(json.loads(text))
        case {"labels": labels, "multilabel": multilabel}:
            return LabelBook(_unpack(labels, tensors), multilabel)
        case {"object": name, "parameters": parameters, "state": learned}:
            return _object(name, parameters, learned, tensors)
    raise FormatError(f"unknown entry in the card: {str(packed)[:80]}")


def _generator(packed: dict[str, Any]) -> np.random.Generator:
    known = (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
    kinds: dict[str, Any] = {cls.__name__: cls for cls in known}
    if packed["bit_generator"] not in kinds:
        raise FormatError(f"unknown random generator {packed['bit_generator']!r}")
    bits = kinds[packed["bit_generator"]]()
    bits.state = packed
    return np.random.Generator(bits)


def _object(
    name: str, parameters: dict[str, Any], learned: dict[str, Any], tensors: dict[str, np.ndarray]
) -> Any:
    known: dict[str, type] = {**{cls.__name__: cls for cls in FeatureMap.__subclasses__()}, **methods()}
    if name not in known:
        raise FormatError(f"unknown method {name!r}: if it is not ours, register it before loading")
    thing = known[name](**{key: _unpack(value, tensors) for key, value in parameters.items()})
    for key, value in learned.items():
        if not key.isidentifier() or key[0] == "_" or key[-1] != "_" or hasattr(type(thing), key):
            raise FormatError(f"the card sets an attribute that is not state: {key!r}")
        setattr(thing, key, _unpack(value, tensors))
    return thing
