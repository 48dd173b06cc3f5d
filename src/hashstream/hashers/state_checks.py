"""Checks of a model against the declarations of its method, when it is saved and when it is loaded.

Every hasher has the same few entries (`COMMON`). All others are declared by the method in `state_fields`, and relations
between entries are checked by its `check_state`. A method that declares nothing is held to what is true of any:
floating-point arrays are finite, and in the model's dtype or float64, and `projection_` is (d, r).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hashstream.hashers.base import MAX_BITS, OnlineHasher, state
from hashstream.hashers.features import FeatureMap
from hashstream.hashers.labels import LabelBook
from hashstream.hashers.state_fields import FLOATS, Array, Field, Sizes, Whole, check_finite_array

COMMON: dict[str, Field] = {
    "n_bits_": Whole(1, MAX_BITS + 1),
    "n_features_in_": Whole(1),
    "version_": Whole(),
    "n_seen_": Whole(),
}
OTHERS = ("dtype_", "label_book_", "feature_map_", "rng_", "feature_names_in_")
"""Entries of every hasher that are not numbers. `rng_` is absent in hash functions that will not learn again."""
PROBE_BYTES = 1 << 28
"""The largest row that a feature map is tried on, to learn its width."""
MAX_EQUAL_HASHES = 100
"""At most some thirty distinct numbers share a hash, unless they were chosen to."""


def check_model(hasher: OnlineHasher, where: str = "") -> None:
    """Raise ValueError, naming the entry, where a hasher's parameters or its state are not what its method declares."""
    where = where or type(hasher).__name__
    hasher.check_parameters()
    learned = state(hasher)
    if not learned:
        return
    sizes = _check_common(hasher, learned, where)
    own = {name: value for name, value in learned.items() if name not in COMMON and name not in OTHERS}
    projects = hasher.is_projection() and not hasattr(type(hasher), "projection_")
    if projects and "projection_" not in own:
        raise ValueError(f"{where}.projection_ is missing")
    _check_fields(hasher, own, sizes, where)
    _check_state(hasher, where)


def check_map(feature_map: FeatureMap, sizes: Sizes, where: str = "", fitted: bool = False) -> None:
    """Raise ValueError, naming the entry, where a feature map's state is not what it declares.

    sizes : what is known of the hasher that the map belongs to. fitted : whether there must be a state at all.
    """
    where = where or type(feature_map).__name__
    feature_map.check_parameters()
    learned = state(feature_map)
    if fitted or learned:
        _check_fields(feature_map, learned, sizes, where)
        _check_state(feature_map, where)


def check_hashes(labels: list[Any], where: str) -> None:
    """Raise ValueError where many labels have one hash: a dictionary of n of them takes n^2 steps to fill."""
    if (
        labels
        and np.unique([hash(label) for label in labels], return_counts=True)[1].max() > MAX_EQUAL_HASHES
    ):
        raise ValueError(f"{where}: more than {MAX_EQUAL_HASHES} classes share a hash")


def check_label_book(book: LabelBook, where: str) -> None:
    """Raise ValueError where the classes of a book are not distinct labels."""
    if book.multilabel not in (None, True, False) or not all(map(_is_label, book.classes)):
        raise ValueError(f"{where}: classes must be strings, numbers, booleans or tuples of these")
    check_hashes(book.classes, where)
    if len(set(book.classes)) < len(book.classes):
        raise ValueError(f"{where}: every class must be there once")
    if book.multilabel and book.classes != list(range(max(2, len(book.classes)))):
        raise ValueError(f"{where}: the classes of label matrices must be their columns, 0, 1, 2, ...")
    if book.multilabel is None and book.classes:
        raise ValueError(f"{where}: classes without any labels read")


# ---- the parts


def _check_common(hasher: OnlineHasher, learned: dict[str, Any], where: str) -> Sizes:
    sizes = Sizes()
    for name in (*COMMON, "dtype_", "label_book_", "feature_map_"):
        if name not in learned:
            raise ValueError(f"{where}.{name} is missing")
    for name, field in COMMON.items():
        field.check(f"{where}.{name}", learned[name], sizes)
    if learned["dtype_"] not in FLOATS or not isinstance(learned["dtype_"], str):
        raise ValueError(f"{where}.dtype_ must be {' or '.join(FLOATS)}, not {str(learned['dtype_'])[:40]!r}")
    if hasher.n_bits != learned["n_bits_"]:
        raise ValueError(
            f"{where}.n_bits_ is {learned['n_bits_']}, but the parameter n_bits is {hasher.n_bits}"
        )
    book, feature_map, f = learned["label_book_"], learned["feature_map_"], int(learned["n_features_in_"])
    if not isinstance(book, LabelBook):
        raise ValueError(f"{where}.label_book_ must be a label book, not a {type(book).__name__}")
    check_label_book(book, f"{where}.label_book_")
    needed = hasher.needs_labels and learned["n_seen_"]
    if (book.multilabel and not hasher.multilabel) or (needed and not book.classes):
        raise ValueError(
            f"{where}.label_book_: {type(hasher).__name__} cannot have learned from these labels"
        )
    _check_beginning(hasher, learned, where)
    if "rng_" in learned and not isinstance(learned["rng_"], np.random.Generator):
        raise ValueError(f"{where}.rng_ must be a random generator, not a {type(learned['rng_']).__name__}")
    if "feature_names_in_" in learned and not _are_names(learned["feature_names_in_"], f):
        raise ValueError(f"{where}.feature_names_in_ must be {f} names, one per feature")
    sizes.dtype = learned["dtype_"]
    sizes.known = {"f": f, "r": int(learned["n_bits_"]), "C": len(book)}
    sizes.known["d"] = f if feature_map is None else _mapped_width(feature_map, sizes, where)
    return sizes


def _check_beginning(hasher: OnlineHasher, learned: dict[str, Any], where: str) -> None:
    """Check that a hasher without rows has no labels and can encode, and that no other has an initial projection."""
    if learned["n_seen_"]:
        if "initial_" in learned:
            raise ValueError(f"{where}.initial_ is there, but {learned['n_seen_']} rows have been learned")
        return
    if learned["label_book_"].multilabel is not None:
        raise ValueError(f"{where}.label_book_ has read labels, but no row has been learned")
    projects = hasher.is_projection() and "projection_" in learned
    if not (projects or hasher.encodes_at_once or "initial_" in learned):
        raise ValueError(f"{where}.initial_ is missing: no row has been learned")


def _mapped_width(feature_map: Any, sizes: Sizes, where: str) -> int:
    """d: the number of features after the map, whose state is checked first."""
    where = f"{where}.feature_map_"
    if not isinstance(feature_map, FeatureMap):
        raise ValueError(f"{where} must be None or a feature map, not a {type(feature_map).__name__}")
    f = sizes.known["f"]
    check_map(feature_map, Sizes({"f": f}, sizes.dtype), where, fitted=True)
    if f * 8 > PROBE_BYTES:
        raise ValueError(f"{where}: {f} features are too many to be mapped")
    with np.errstate(all="ignore"):
        row = feature_map.transform(np.zeros((1, f), sizes.dtype))
    if not isinstance(row, np.ndarray) or row.ndim != 2 or len(row) != 1 or not row.shape[1]:
        raise ValueError(f"{where} maps one row to something else")
    return int(row.shape[1])


def _check_fields(thing: Any, learned: dict[str, Any], sizes: Sizes, where: str) -> None:
    fields: dict[str, Field] = {}
    for cls in reversed(type(thing).__mro__):
        fields.update(cls.__dict__.get("state_fields", {}))
    for name, field in fields.items():
        if name in learned:
            field.check(f"{where}.{name}", learned[name], sizes)
        elif not field.optional:
            raise ValueError(f"{where}.{name} is missing")
    strict = "state_fields" in type(thing).__dict__
    for name in learned.keys() - fields.keys():
        if strict:
            raise ValueError(f"{where}.{name} is not declared by {type(thing).__name__}")
        if name == "projection_" and isinstance(thing, OnlineHasher):
            Array("d r").check(f"{where}.{name}", learned[name], sizes)
        _check_undeclared(learned[name], sizes, f"{where}.{name}")


def _check_undeclared(value: Any, sizes: Sizes, where: str) -> None:
    """Check what is true of any entry, where a method declares nothing about it."""
    if isinstance(value, np.ndarray):
        allowed = {"float64", *(FLOATS if sizes.dtype is None else (sizes.dtype,))}
        if value.dtype.kind == "f" and str(value.dtype) not in allowed:
            raise ValueError(f"{where} must be of {' or '.join(sorted(allowed))}, not {value.dtype}")
        check_finite_array(where, value)
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            _check_undeclared(part, sizes, f"{where}[{i}]")


def _check_state(thing: OnlineHasher | FeatureMap, where: str) -> None:
    try:
        thing.check_state()
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _are_names(names: Any, n: int) -> bool:
    array = isinstance(names, np.ndarray) and names.dtype == object and names.shape == (n,)
    return array and all(isinstance(name, str) for name in names)


def _is_label(label: Any) -> bool:
    if isinstance(label, tuple):
        return all(part is None or _is_label(part) for part in label)
    if isinstance(label, (float, np.floating)):
        return bool(np.isfinite(label))  # others are refused when they are learned from
    return isinstance(label, (bool, int, str, np.generic)) and bool(label == label)
