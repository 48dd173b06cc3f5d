"""The state of PosteriorHash: its entries, and what is true of them in any model that the method has learned.

A model file is untrusted. `FUNCTION_FIELDS` are the hash functions of one version, which an encoder has alone;
`PLAIN_FIELDS` belong to them where the method has `plain_bits`. `LEARNING_FIELDS` are what learning needs in addition,
and `WATCH_FIELDS` the watch, where there is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hashstream.hashers.posterior_steps import Map
from hashstream.hashers.posterior_watch import HORIZONS, few_features
from hashstream.hashers.state_fields import MAX_COUNT, Array, Field, Flag, Real, Whole

FIRST_ROWS = 1000
"""Rows that the map is drawn from."""
BLOCK = 500
"""Rows that are summed at once."""
MAX_FEATURE, MAX_SCATTER = 1e6, 1e30
"""Features are bounded, and so are their sums; a model file with larger ones is refused, as they would overflow."""

FUNCTION_FIELDS: dict[str, Field] = {
    "origin_": Array("d"),
    "reduction_": Array("d e", or_none=True),
    "basis_": Array("y q", or_none=True),
    "directions_": Array("s w"),
    "weights_": Array("m K"),
    "offsets_": Array("K"),
    "function_codewords_": Array("K h", "int8", values=(-1, 1)),
    "dither_": Array("s h"),
    "dither_offsets_": Array("h"),
    "gain_": Real(low=0),
    "hard_": Flag(),
}
LEARNING_FIELDS: dict[str, Field] = {
    "codewords_": Array("C h", "int8", values=(-1, 0, 1), optional=True),
    "recent_": Array("b d", optional=True),
    "recent_numbers_": Array("b", "int64", low=0, below="C", optional=True),
    "recent_weights_": Array("b", "float64", low=0, optional=True),
    "recent_wrong_": Array("b", "int8", low=-1, below=2, optional=True),
    "unsummed_": Whole(optional=True),
    "seed_": Whole(optional=True),
    "sum_weights_": Array("k", "float64", low=0, optional=True),
    "sum_means_": Array("k g", optional=True),
    "sum_scatter_": Array("t", optional=True),
    "sample_": Array("n l", optional=True),
    "sample_numbers_": Array("n", "int64", low=0, below="C", optional=True),
    "sample_weights_": Array("n", "float64", low=0, optional=True),
    "sampled_": Whole(optional=True),
    "function_weights_": Array("f_k", "float64", low=0, optional=True),
    "since_": Real(low=0, optional=True),
    "changes_": Whole(optional=True),
}
PLAIN_FIELDS: dict[str, Field] = {
    "plain_": Array("d v", optional=True),
    "plain_origin_": Array("d", optional=True),
}
WATCH_FIELDS: dict[str, Field] = {
    "watch_weights_": Array("j c", "float64", low=0, optional=True),
    "watch_means_": Array("j c p", optional=True),
    "watch_scatters_": Array("j u", optional=True),
    "watch_lost_": Array(f"{len(HORIZONS)} {len(HORIZONS)}", "float64", low=0, optional=True),
    "watch_block_": Array(f"{len(HORIZONS)} {len(HORIZONS)}", "float64", low=0, optional=True),
    "watch_wrong_": Real(low=0, optional=True),
    "watch_tested_": Real(low=0, optional=True),
    "watch_horizon_": Whole(0, len(HORIZONS), optional=True),
}


def check_posterior_state(model: Any) -> None:
    """Raise ValueError, naming the entry, for a state that fits the fields above and that no stream produces."""
    _check_plain(model)
    linear, m = _check_functions(model)
    if hasattr(model, "rng_") or any(name in vars(model) for name in LEARNING_FIELDS):
        _check_learning(model, linear, m)
    if any(name in vars(model) for name in WATCH_FIELDS):
        _check_watch(model, linear)


def _check_plain(model: Any) -> None:
    """Check the plain bits, and that learned ones are the others."""
    if any((name in vars(model)) != bool(model.plain_bits) for name in PLAIN_FIELDS):
        raise ValueError("plain_ and plain_origin_ must be there with plain_bits, and only then")
    plain = int(model.plain_bits)
    if plain:
        _check_limit("plain_", model.plain_, 100)
        if model.plain_.shape[1] != plain:
            raise ValueError(f"plain_ must have {plain} columns, one for each of plain_bits")
    learned = model.n_bits_ - plain
    if model.function_codewords_.shape[1] != learned:
        raise ValueError(f"function_codewords_ must have {learned} columns, one for each bit that is learned")


def _check_functions(model: Any) -> tuple[int, int]:
    """Check the hash functions; returns the number of linear features, and of all."""
    linear = len(model.origin_) if model.reduction_ is None else model.reduction_.shape[1]
    if model.basis_ is not None and len(model.basis_) != linear:
        raise ValueError("basis_ must have a row for each linear feature")
    for name in ("reduction_", "basis_", "directions_"):
        part = getattr(model, name)
        if part is not None:
            _check_limit(name, part, 1 + 1e-3)  # columns of length 1
            if not len(part) or (name != "directions_" and not part.shape[1]):
                raise ValueError(f"{name} must have a direction")
    if len(model.directions_) != (linear if model.basis_ is None else model.basis_.shape[1]):
        raise ValueError("directions_ must have a row for each direction of basis_")
    m = linear + model.directions_.shape[1]
    if len(model.weights_) != m or not len(model.offsets_):
        raise ValueError(f"weights_ must have {m} rows, one for each feature, and a column")
    return linear, m


def _check_learning(model: Any, linear: int, m: int) -> None:
    _check_all_there(model, LEARNING_FIELDS)
    drawn, k = len(model.sum_scatter_) > 0, len(model.sum_weights_)
    summed = len(model.recent_) - model.unsummed_
    if not 0 <= summed <= (BLOCK if drawn else 0):
        raise ValueError("unsummed_ must count the rows of recent_ but the last block that was summed")
    if model.unsummed_ >= (BLOCK if drawn else FIRST_ROWS):
        raise ValueError("unsummed_ must be less than a block of rows")
    features, width = (m, linear) if drawn else (0, len(model.origin_))
    if model.sum_means_.shape != (k, features) or len(model.sum_scatter_) != features * (features + 1) // 2:
        raise ValueError(f"the sums must be of {features} features")
    if max(k, len(model.function_weights_)) > len(model.codewords_):
        raise ValueError("the sums must have no more classes than there are codewords")
    if model.sample_.shape[1] != width:
        raise ValueError(f"sample_ must have {width} columns")
    if bool(len(model.sample_)) != bool(model.sum_weights_.any()):
        raise ValueError("sample_ must have rows where there are sums of any")
    used = np.zeros(len(model.codewords_), bool)
    used[model.recent_numbers_] = used[model.sample_numbers_] = True
    used[:k] |= model.sum_weights_ > 0
    if not model.codewords_[used].all():
        raise ValueError("codewords_ must have a codeword for each class that was learned")
    if not np.isin(model.sample_numbers_, np.flatnonzero(model.sum_weights_)).all():
        raise ValueError("sample_ must have no rows but of classes in the sums")
    least = (1 - 1e-9) / max(1, len(model.codewords_))
    if model.recent_weights_.min(initial=1) < least or model.recent_weights_.max(initial=0) > 1:
        raise ValueError("recent_weights_ must be 1 or a row's equal share for each of its classes")
    if model.sample_weights_.max(initial=0) > 1 or (len(model.sample_) and not model.sample_weights_.any()):
        raise ValueError("sample_weights_ must be at most 1, and not all 0")
    _check_sums(model.sum_weights_, model.sum_means_, model.sum_scatter_, "sum_")
    _check_limit("sample_", model.sample_, MAX_FEATURE)


def _check_watch(model: Any, linear: int) -> None:
    _check_all_there(model, WATCH_FIELDS)
    j, c, p = model.watch_means_.shape
    stored = Map(model.origin_, model.reduction_, model.basis_, model.directions_)
    expected = few_features(stored, np.zeros((1, linear), model.dtype_)).shape[1]
    if not len(model.sum_scatter_) or j != len(HORIZONS) or p != expected or c > len(model.codewords_):
        raise ValueError(
            f"watch_means_ must have shape ({len(HORIZONS)}, classes, {expected}), once there are sums"
        )
    if model.watch_weights_.shape != (j, c) or model.watch_scatters_.shape != (j, p * (p + 1) // 2):
        raise ValueError("watch_weights_ and watch_scatters_ must fit watch_means_")
    for sums in zip(model.watch_weights_, model.watch_means_, model.watch_scatters_, strict=True):
        _check_sums(*sums, "watch_")


def _check_all_there(model: Any, fields: dict[str, Field]) -> None:
    for name in fields:
        if name not in vars(model):
            raise ValueError(f"{name} is missing")


def _check_limit(name: str, array: np.ndarray, most: float) -> None:
    if np.abs(array).max(initial=0) > most:
        raise ValueError(f"{name} has numbers above {most:g}")


def _check_sums(weights: np.ndarray, means: np.ndarray, scatter: np.ndarray, name: str) -> None:
    """Raise ValueError for sums that no rows have: they could overflow, or never be solved."""
    _check_limit(f"{name}weights_", weights, MAX_COUNT)
    _check_limit(f"{name}means_", means, MAX_FEATURE)
    _check_limit(f"{name}scatter_", scatter, MAX_SCATTER)
    m = means.shape[1]
    columns = np.arange(m)
    if m and scatter[columns * m - columns * (columns - 1) // 2].min() < 0:
        raise ValueError(f"the diagonal of {name}scatter_ must not be negative")
