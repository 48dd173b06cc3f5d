"""Random generators: made from `random_state`, copied, and saved as JSON.

The state of a saved generator is checked field by field. NumPy assigns a state without a check: a position outside of
a generator's buffer makes it read outside of it, and some states repeat one number for ever, so that a loop that draws
until something differs would never end.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np

__all__ = ["RandomState", "as_generator", "copy_generator", "pack_generator", "unpack_generator"]

RandomState = int | np.integer | np.random.Generator | np.random.SeedSequence | np.random.RandomState | None
"""Types of `random_state=`."""


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A new generator for a model, seeded with (or by a draw from) `random_state`."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    if isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state.integers(2**63, size=4))
    return np.random.default_rng(random_state)


class _Unseeded(np.random.bit_generator.ISeedSequence):
    """For a generator whose state is about to be set: seeding it would take longer than the copy."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.zeros(n_words, dtype)


_unseeded = _Unseeded()


def copy_generator(rng: np.random.Generator) -> np.random.Generator:
    """A generator of its own that draws what `rng` would draw."""
    if type(rng.bit_generator) is not np.random.PCG64:
        return deepcopy(rng)
    bits = np.random.PCG64(_unseeded)  # type: ignore[arg-type]
    bits.state = rng.bit_generator.state
    return np.random.Generator(bits)


GENERATORS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
CACHED = {"has_uint32": (0, 2), "uinteger": (0, 2**32)}
"""The half of a 64-bit draw that is kept for the next draw of 32 bits."""
FIELDS: dict[str, dict[str, tuple[int, ...]]] = {
    "PCG64": {"state.state": (0, 2**128), "state.inc": (0, 2**128), **CACHED},
    "PCG64DXSM": {"state.state": (0, 2**128), "state.inc": (0, 2**128), **CACHED},
    "MT19937": {"state.key": (0, 2**32, 624), "state.pos": (0, 625)},
    "Philox": {
        "state.counter": (0, 2**64, 4),
        "state.key": (0, 2**64, 2),
        "buffer": (0, 2**64, 4),
        "buffer_pos": (0, 5),
        **CACHED,
    },
    "SFC64": {"state.state": (0, 2**64, 4), **CACHED},
}
"""Field -> (least, bound) of a whole number, or (least, bound, length) of a list of them."""


def pack_generator(generator: np.random.Generator) -> str:
    """The state of a generator as JSON."""
    kind = type(generator.bit_generator).__name__
    if kind not in GENERATORS:
        raise TypeError(f"a generator of {kind} cannot be saved: use one of {', '.join(GENERATORS)}")
    return json.dumps(generator.bit_generator.state, default=lambda array: array.tolist())


def unpack_generator(text: Any) -> np.random.Generator:
    """The generator that `pack_generator` was given; ValueError where the text describes none."""
    packed = json.loads(text) if isinstance(text, str) else None
    if not isinstance(packed, dict) or packed.get("bit_generator") not in GENERATORS:
        raise ValueError(f"unknown random generator: {str(text)[:80]}")
    kind = packed["bit_generator"]
    inner = packed.get("state")
    given = {f"state.{name}": value for name, value in inner.items()} if isinstance(inner, dict) else {}
    given |= {name: value for name, value in packed.items() if name not in ("bit_generator", "state")}
    fields = FIELDS[kind]
    if given.keys() != fields.keys() or any("." in name for name in packed):  # "state.pos" besides its own
        raise ValueError(
            f"a {kind} generator has the fields {', '.join(fields)}, not {', '.join(given)[:80]}"
        )
    for name, (low, bound, *length) in fields.items():
        numbers = given[name] if length else [given[name]]
        if not isinstance(numbers, list) or len(numbers) != (length or [1])[0]:
            raise ValueError(f"{name} of a {kind} generator must be a list of {length[0]} numbers")
        if not all(type(number) is int and low <= number < bound for number in numbers):
            raise ValueError(f"{name} of a {kind} generator must be from {low} to {bound - 1}")
    if kind.startswith("PCG64") and given["state.inc"] % 2 == 0:
        raise ValueError(f"state.inc of a {kind} generator must be odd")
    if kind == "MT19937" and not (given["state.key"][0] >> 31 or any(given["state.key"][1:])):
        raise ValueError("state.key of a MT19937 generator must not be zero")
    dtype = np.uint32 if kind == "MT19937" else np.uint64
    state: dict[str, Any] = {"bit_generator": kind, "state": {}}
    for name, value in given.items():
        part = state["state"] if name.startswith("state.") else state
        part[name.removeprefix("state.")] = np.array(value, dtype) if isinstance(value, list) else value
    bits = GENERATORS[kind]()
    bits.state = state
    return np.random.Generator(bits)
