"""Mutations of model files that know what the files are made of: values, dtypes, shapes, entries and references."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from tests.fuzz.model_files import NEST, Parts, opened, sealed

WHOLE = (
    -1,
    0,
    1,
    2,
    3,
    7,
    255,
    4097,
    2**31,
    2**40,
    2**53,
    2**62 - 1,
    2**63,
    2**64,
    10**30,
    -(2**63),
    -(10**30),
)
FLOATS = (
    *(
        "nan",
        "inf",
        "-inf",
        "0x0p+0",
        "-0x0p+0",
        "0x1p0",
        "-0x1p0",
        "0x1p-1074",
        "0x1p99999",
        "-0x1p99999",
        "zero",
    ),
    *(number.hex() for number in (1e308, -1e308, 1e30, 1e-30, 0.5, 3.0)),
)
DTYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint64", "bool")
Rng = np.random.Generator


def mutated(raw: bytes, rng: Rng) -> tuple[bytes, str]:
    """A changed copy of a model file, and what was changed. Most copies have a digest that fits."""
    if rng.random() < 0.06:
        return _raw(raw, rng)
    parts = opened(raw)
    done = []
    for _ in range(1 + (rng.random() < 0.3) + (rng.random() < 0.1)):
        mutation = MUTATIONS[rng.integers(len(MUTATIONS))]
        done.append(f"{mutation.__name__.strip('_')}({mutation(parts, rng)})")
    what = f"{opened(raw).name}: {', '.join(done)}"
    try:
        return sealed(parts), what
    except (ValueError, RecursionError, OverflowError, TypeError):  # no such file can be written
        return raw, f"{what}, which no file can hold"


def _raw(raw: bytes, rng: Rng) -> tuple[bytes, str]:
    """Bytes flipped, cut off or added, below the digest."""
    changed = bytearray(raw)
    at = int(rng.integers(len(raw) if rng.random() < 0.5 else min(2000, len(raw))))
    kind = rng.integers(3)
    if kind == 0:
        changed[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del changed[at:]
    else:
        changed[at:at] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(changed), f"byte {at}, {('flipped', 'truncated', 'inserted')[kind]}"


# ---- of the card


def _value(parts: Parts, rng: Rng) -> str:
    """Another value for any node of the card."""
    holder, key, path = _node(parts, rng)
    holder[key] = _anything(holder[key], rng)
    return f"{path} = {str(holder[key])[:60]}"


def _number(parts: Parts, rng: Rng) -> str:
    """Another number where there is one."""
    nodes = [node for node in _nodes(parts.hasher) if _is_number(node[0][node[1]])]
    if not nodes:
        return "nothing"
    holder, key, path = nodes[rng.integers(len(nodes))]
    old = holder[key]
    if isinstance(old, dict):
        holder[key] = {"float": _pick(FLOATS, rng)}
    elif rng.random() < 0.3:
        holder[key] = old + int(rng.integers(-2, 3))
    else:
        holder[key] = _pick(WHOLE, rng)
    return f"{path} = {str(holder[key])[:60]}"


def _drop(parts: Parts, rng: Rng) -> str:
    holder, key, path = _node(parts, rng)
    del holder[key]
    return path


def _rename(parts: Parts, rng: Rng) -> str:
    holder, key, path = _node(parts, rng)
    if not isinstance(holder, dict):
        return "nothing"
    names = (
        "mean_",
        "projection_",
        "_hidden",
        "transform",
        "__class__",
        "",
        "gram_",
        "n_bits_",
        f"{key}_",
        "rng_",
    )
    name = _pick(names, rng)
    holder[name] = holder.pop(key)
    return f"{path} -> {name}"


def _exchange(parts: Parts, rng: Rng) -> str:
    """Two nodes change places, or one is copied over the other."""
    (one, a, path), (other, b, path_2) = _node(parts, rng), _node(parts, rng)
    copy, copy_2 = deepcopy(one[a]), deepcopy(other[b])
    one[a] = copy_2
    if rng.random() < 0.5 and b in (other if isinstance(other, dict) else range(len(other))):
        other[b] = copy
    return f"{path}, {path_2}"


def _lists(parts: Parts, rng: Rng) -> str:
    """A list loses an entry, or has one twice."""
    nodes = [node for node in _nodes(parts.hasher) if isinstance(node[0][node[1]], list)]
    if not nodes:
        return "nothing"
    holder, key, path = nodes[rng.integers(len(nodes))]
    some = holder[key]
    if some and rng.random() < 0.5:
        del some[rng.integers(len(some))]
    elif some:
        some.insert(int(rng.integers(len(some) + 1)), deepcopy(some[rng.integers(len(some))]))
    else:
        some.append(_anything(None, rng))
    return path


def _generator(parts: Parts, rng: Rng) -> str:
    """Another number in the state of a random generator."""
    nodes = [node for node in _nodes(parts.hasher) if node[1] == "generator"]
    nodes = [node for node in nodes if isinstance(node[0][node[1]], str) and "{" in node[0][node[1]]]
    if not nodes:
        return "nothing"
    holder, key, path = nodes[rng.integers(len(nodes))]
    state = json.loads(holder[key])
    within = list(_nodes(state))
    inner, name, inner_path = within[rng.integers(len(within))]
    if rng.random() < 0.2:
        del inner[name]
    else:
        inner[name] = _pick((*WHOLE, 624, 625, 10**6, 4, 5, [], [1] * 624, "x", None, 1.5, 2**128), rng)
    holder[key] = json.dumps(state)
    return f"{path}: {inner_path}"


# ---- of the tensors


def _element(parts: Parts, rng: Rng) -> str:
    """Some numbers of a tensor, or all of them, are extreme."""
    if not (name := _tensor(parts, rng)):
        return "nothing"
    tensor = parts.tensors[name]
    value = _extreme(tensor.dtype, rng)
    if not tensor.size:
        return "nothing"
    flat = tensor.reshape(-1)
    flat[rng.integers(flat.size, size=1 + int(rng.integers(3))) if rng.random() < 0.7 else slice(None)] = (
        value
    )
    return f"{name} has {value}"


def _bits(parts: Parts, rng: Rng) -> str:
    """Random bytes of a tensor."""
    if not (name := _tensor(parts, rng)):
        return "nothing"
    raw = bytearray(parts.tensors[name].tobytes())
    for _ in range(int(rng.integers(1, 9))):
        if raw:
            raw[rng.integers(len(raw))] = int(rng.integers(256))
    tensor = parts.tensors[name]
    if tensor.dtype != bool:
        parts.tensors[name] = np.frombuffer(bytes(raw), tensor.dtype).reshape(tensor.shape).copy()
    return name


def _dtype(parts: Parts, rng: Rng) -> str:
    if not (name := _tensor(parts, rng)):
        return "nothing"
    dtype = _pick(DTYPES, rng)
    with np.errstate(all="ignore"):
        parts.tensors[name] = parts.tensors[name].astype(dtype)
    return f"{name} to {dtype}"


def _shape(parts: Parts, rng: Rng) -> str:
    """Another shape of a tensor, in the card as well, or in the card alone."""
    if not (name := _tensor(parts, rng)):
        return "nothing"
    tensor = parts.tensors[name]
    kind = int(rng.integers(6))
    if kind == 0:
        tensor = tensor.T
    elif kind == 1:
        tensor = tensor.ravel()
    elif kind == 2:
        tensor = tensor[None]
    elif tensor.ndim:
        axis = int(rng.integers(tensor.ndim))
        tensor = _resized(
            tensor, axis, int(_pick((0, 1, 2, 3, tensor.shape[axis] + 1, tensor.shape[axis] * 2), rng))
        )
    shape: list[Any] = list(tensor.shape)
    if rng.random() < 0.2:
        shape = [int(_pick(WHOLE, rng)) for _ in range(int(rng.integers(4)))]
    parts.tensors[name] = np.ascontiguousarray(tensor)
    _set_shape(parts, name, shape)
    return f"{name} {shape}"


def _resize(parts: Parts, rng: Rng) -> str:
    """A size is another one wherever it appears: in every tensor, and in every whole number of the card."""
    sizes = sorted({size for tensor in parts.tensors.values() for size in tensor.shape})
    if not sizes:
        return "nothing"
    old, new = int(_pick(sizes, rng)), int(_pick((0, 1, 2, 5, 13, 17, 40), rng))
    for name, tensor in parts.tensors.items():
        for axis, size in enumerate(tensor.shape):
            if size == old:
                parts.tensors[name] = _resized(parts.tensors[name], axis, new)
        _set_shape(parts, name, list(parts.tensors[name].shape))
    if rng.random() < 0.7:
        for holder, key, _ in list(_nodes(parts.hasher)):
            if type(holder[key]) is int and holder[key] == old:
                holder[key] = new
    return f"{old} to {new}"


def _swap(parts: Parts, rng: Rng) -> str:
    """Two tensors change places, or one entry points at the other's."""
    if len(parts.tensors) < 2:
        return "nothing"
    a, b = (str(name) for name in rng.choice(sorted(parts.tensors), 2, replace=False))
    if rng.random() < 0.3:
        _set_shape(parts, a, list(parts.tensors[a].shape), target=b)
        return f"{a} points at {b}"
    parts.tensors[a], parts.tensors[b] = parts.tensors[b], parts.tensors[a]
    if rng.random() < 0.7:
        _set_shape(parts, a, list(parts.tensors[a].shape))
        _set_shape(parts, b, list(parts.tensors[b].shape))
    return f"{a}, {b}"


def _tensors(parts: Parts, rng: Rng) -> str:
    """A tensor is lost, renamed, or has a copy."""
    if not (name := _tensor(parts, rng)):
        return "nothing"
    kind = int(rng.integers(3))
    if kind != 1:
        parts.tensors[f"{name}.more"] = parts.tensors[name].copy()
    if kind:
        del parts.tensors[name]
    return f"{name}, {('copied', 'lost', 'renamed')[kind]}"


MUTATIONS: tuple[Callable[[Parts, Rng], str], ...] = (
    *(_value, _number, _number, _number, _drop, _rename, _exchange, _lists, _generator),
    *(_element, _element, _element, _bits, _dtype, _shape, _shape, _resize, _resize, _swap, _tensors),
)

# ---- what they share


def _nodes(tree: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """(holder, key, path) of every node below `tree`."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(pairs):
        yield tree, key, f"{path}.{key}"
        yield from _nodes(value, f"{path}.{key}")


def _node(parts: Parts, rng: Rng) -> tuple[Any, Any, str]:
    """Any node of the card; most often one of the hasher, and of its upper levels as often as of its lower ones."""
    nodes = list(_nodes(parts.hasher))
    if rng.random() < 0.05 or not nodes:
        nodes = list(_nodes(parts.card))
    depth = int(_pick(sorted({path.count(".") for _, _, path in nodes}), rng))
    nodes = [node for node in nodes if node[2].count(".") == depth]
    return nodes[rng.integers(len(nodes))]


def _tensor(parts: Parts, rng: Rng) -> str:
    return str(_pick(sorted(parts.tensors), rng)) if parts.tensors else ""


def _set_shape(parts: Parts, name: str, shape: list[Any], target: str | None = None) -> None:
    for holder, key, _ in list(_nodes(parts.card)):
        if isinstance(holder[key], dict) and holder[key].get("array") == name:
            holder[key].update(shape=shape, array=target or name)


def _resized(tensor: np.ndarray, axis: int, size: int) -> np.ndarray:
    if not tensor.shape[axis]:
        shape = list(tensor.shape)
        shape[axis] = size
        return np.zeros(shape, tensor.dtype)
    return np.ascontiguousarray(np.take(tensor, np.arange(size) % tensor.shape[axis], axis=axis))


def _extreme(dtype: np.dtype, rng: Rng) -> Any:
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        return _pick((np.nan, np.inf, -np.inf, largest, -largest, 0.0, -1.0, 1e-30, largest**0.5), rng)
    if dtype.kind == "b":
        return bool(rng.integers(2))
    limits = np.iinfo(dtype)
    return _pick((limits.min, limits.max, 0, -1 if limits.min < 0 else 1, 1, 3, 100, limits.max // 2), rng)


def _is_number(value: Any) -> bool:
    return type(value) is int or (isinstance(value, dict) and "float" in value)


def _anything(old: Any, rng: Rng) -> Any:
    kinds: tuple[Any, ...] = (
        None, True, False, "", "auto", "x" * 1000, 1.5, [], {}, {"list": []}, {"list": [old, old]}, {"tuple": [old]},
        {"float": _pick(FLOATS, rng)}, int(_pick(WHOLE, rng)), f"{NEST}{_pick((3, 50, 900, 5000, 100_000), rng)}",
        {"names": ["a", "b"]}, {"names": [["a"]]}, {"list": "abc"}, {"array": "nowhere", "shape": [1]},
        {"labels": {"list": [1, 1]}, "multilabel": False}, {"labels": {"list": [{"list": []}]}, "multilabel": None},
        {"labels": {"list": [{"float": "nan"}]}, "multilabel": False},
        {"object": "CenterUnit", "parameters": {}, "state": {}}, {"object": "LSH", "parameters": {}, "state": {}},
    )  # fmt: skip
    return deepcopy(kinds[rng.integers(len(kinds))])


def _pick(some: Any, rng: Rng) -> Any:
    return some[rng.integers(len(some))]
