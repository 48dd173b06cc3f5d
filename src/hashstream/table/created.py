"""The hasher that a table was created with, which later calls of `open` are compared with, also after `adopt`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.hashers import FormatError, OnlineHasher
from hashstream.hashers.base import state as learned_state
from hashstream.hashers.errors import UnknownMethod
from hashstream.hashers.serialization import card_of, from_bytes, to_bytes
from hashstream.table.errors import TableError
from hashstream.table.state.state import State
from hashstream.table.storage.folder.records import need

__all__ = ["check_created", "check_same_hasher", "created_with", "creation_of", "unlearned"]

WHAT = "the hasher of the creation"
RANDOM = (np.random.Generator, np.random.RandomState, np.random.SeedSequence)


def created_with(state: State, adopted: OnlineHasher) -> bytes | None:
    """`State.created` of the next state. adopted : the hasher that then takes the place of the model's."""
    if state.created is not None or difference(state.model.hasher, adopted) is None:
        return state.created
    try:
        return to_bytes(unlearned(state.model.hasher))
    except TypeError:  # a method that is not registered, as it may be in memory
        return None


def creation_of(folder: Path | None, state: State) -> OnlineHasher:
    """A hasher that has learned nothing, with the parameters that a table was created with. TableError where that is
    a method which is not known here, of which a table needs no more than that."""
    return unlearned(state.model.hasher) if state.created is None else _read(folder, state.created)


def unlearned(hasher: OnlineHasher) -> OnlineHasher:
    """A hasher with the same parameters that has learned nothing."""
    return type(hasher)(**copy.deepcopy(hasher.get_params(deep=False)))


def check_same_hasher(
    folder: Path, given: OnlineHasher, current: OnlineHasher, created: bytes | None
) -> None:
    """TableError where a hasher has neither the parameters of the current one nor those of the creation.

    created : as `State.created`.
    """
    found = difference(given, current)
    if found is not None and created is not None:
        found = difference(given, _read(folder, created))
    if found is not None:
        raise TableError(
            f"{folder} was created with {found[0]}, not with {found[1]}: leave hasher= out, or open another folder"
        )


def check_created(where: Path | None, created: bytes | None, n_bits: int) -> None:
    """TableError unless it can be `State.created` of a table with codes of `n_bits`. The method need not be known here.

    where : the file or folder that has it.
    """
    if created is None:
        return
    try:
        try:
            hasher = from_bytes(created, WHAT)
            bits, learned = hasher.n_bits, learned_state(hasher)
        except UnknownMethod:
            card = card_of(created, WHAT)["hasher"]
            need(isinstance(card, dict) and isinstance(card.get("parameters"), dict), f"{WHAT} is none")
            bits, learned = card["parameters"].get("n_bits", n_bits), card.get("state")
        need(type(bits) is not bool and bits == n_bits, f"{WHAT} has codes of another length")
        need(learned == {}, f"{WHAT} has learned something")
    except ValueError as error:
        raise TableError(f"{where or 'a table in memory'} is damaged: {error}") from error


def _read(folder: Path | None, created: bytes) -> OnlineHasher:
    try:
        return from_bytes(created, WHAT)
    except FormatError as error:
        raise TableError(f"{folder or 'a table in memory'}: {error}") from error


def difference(given: OnlineHasher, stored: OnlineHasher) -> tuple[str, str] | None:
    """The first difference of the parameters, as stored and as given; None where there is none. Random generators are
    left out, since they are only a beginning."""
    if type(given) is not type(stored):
        return type(stored).__name__, type(given).__name__
    old = stored.get_params(deep=False)
    for name, value in given.get_params(deep=False).items():
        if not isinstance(value, RANDOM) and not _equal(value, old[name]):
            return f"{name}={old[name]!r}", f"{name}={value!r}"
    return None


def _equal(a: Any, b: Any) -> bool:
    if hasattr(a, "get_params") and hasattr(b, "get_params"):
        mine, other = a.get_params(deep=False), b.get_params(deep=False)
        return type(a) is type(b) and all(_equal(mine[name], other[name]) for name in mine)
    if isinstance(a, (np.ndarray, list, tuple)) or isinstance(b, (np.ndarray, list, tuple)):
        try:
            return np.array_equal(np.asarray(a), np.asarray(b))
        except ValueError:  # ragged
            return bool(a == b)
    return bool(a == b)
