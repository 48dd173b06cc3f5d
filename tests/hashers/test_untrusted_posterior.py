"""Files of PosteriorHash whose entries fit their declarations and not each other: each relation, broken, is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.fuzz.model_files import Parts, opened, posterior_stages, sealed

import hashstream as hs
from hashstream.hashers.serialization import encoder_to_bytes, from_bytes, to_bytes

STAGES = ("nothing", "sample", "map", "watch", "change")


@cache
def files() -> dict[str, bytes]:
    return dict(zip(STAGES, map(to_bytes, posterior_stages()), strict=True))


Change = Callable[[Parts], None]


def state(parts: Parts) -> dict[str, Any]:
    entries: dict[str, Any] = parts.card["hasher"]["state"]
    return entries


def array(**changes: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Other arrays in place of these; the card says their shapes."""

    def change(parts: Parts) -> None:
        for name, make in changes.items():
            full = f"PosteriorHash.{name}"
            parts.tensors[full] = np.ascontiguousarray(make(parts.tensors[full].copy()))
            state(parts)[name]["shape"] = list(parts.tensors[full].shape)

    return change


def number(**changes: int) -> Change:
    return lambda parts: state(parts).update(changes)


def without(*names: str) -> Change:
    def change(parts: Parts) -> None:
        for name in names:
            entry = state(parts).pop(name)
            if isinstance(entry, dict) and "array" in entry:
                parts.tensors.pop(entry["array"])

    return change


def put(value: float, at: Any = 0) -> Callable[[np.ndarray], np.ndarray]:
    def make(values: np.ndarray) -> np.ndarray:
        values[at] = value
        return values

    return make


def first(n: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: values[:n]


def longer(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, values])


def none(values: np.ndarray) -> np.ndarray:
    return values * 0


FORGED: list[tuple[str, str, Change]] = [
    ("map", "directions_", array(directions_=first(11), dither_=first(11))),
    ("map", "weights_", array(weights_=first(19))),
    ("map", "weights_", array(weights_=lambda W: W[:, :0], offsets_=first(0), function_codewords_=first(0))),
    ("map", "directions_", array(directions_=put(1e9, (0, 0)))),
    *((stage, "is missing", without(name))
      for stage in STAGES
      for name in ("codewords_", "recent_weights_", "unsummed_", "sum_scatter_", "sampled_", "since_", "changes_")),
    *(("watch", "is missing", without(name)) for name in ("watch_lost_", "watch_means_", "watch_horizon_")),
    ("map", "unsummed_", number(unsummed_=10**6)),
    ("watch", "unsummed_", number(unsummed_=0)),
    ("change", "unsummed_", number(unsummed_=3)),
    ("map", "sums must be of 20 features", array(sum_scatter_=first(209))),
    ("map", "sums must be of 20 features", array(sum_means_=lambda means: means[:, :19])),
    ("change", "sums must be of 0 features", array(sum_means_=lambda means: np.zeros((0, 20), means.dtype))),
    ("map", "more classes", array(function_weights_=longer)),
    ("map", "more classes", array(sum_weights_=longer, sum_means_=longer)),
    ("map", "sample_ must have 12 columns", array(sample_=lambda rows: rows[:, :11])),
    ("map", "sample_", array(sample_=first(0), sample_numbers_=first(0), sample_weights_=first(0))),
    ("map", "sample_", array(sum_weights_=none)),
    ("map", "classes in the sums", array(sum_weights_=put(0.0))),
    ("map", "classes in the sums", array(sum_weights_=first(3), sum_means_=first(3))),
    ("map", "codeword for each class", array(codewords_=put(0))),
    ("change", "codeword for each class", array(codewords_=put(0))),
    ("map", "recent_weights_", array(recent_weights_=none)),
    ("change", "recent_weights_", array(recent_weights_=put(1e-320))),
    ("change", "recent_weights_", array(recent_weights_=put(1e300))),
    ("map", "sample_weights_", array(sample_weights_=put(1.5))),
    ("map", "sample_weights_", array(sample_weights_=none)),
    ("map", "sum_weights_", array(sum_weights_=put(1e300))),
    ("map", "sum_means_", array(sum_means_=put(1e8, (0, 0)))),
    ("map", "sum_scatter_", array(sum_scatter_=put(1e31))),
    ("map", "diagonal of sum_scatter_", array(sum_scatter_=put(-1.0))),
    ("map", "diagonal of sum_scatter_", array(sum_scatter_=put(-1.0, -1))),
    ("map", "diagonal of sum_scatter_", array(sum_scatter_=put(-1.0, 20))),
    ("map", "sample_", array(sample_=put(1e8, (0, 0)))),
    ("watch", "watch_means_", array(watch_means_=lambda means: means[:, :, :19])),
    ("watch", "watch_means_", array(watch_means_=first(4), watch_weights_=first(4), watch_scatters_=first(4))),
    ("watch", "watch_means_",
     array(watch_weights_=lambda n: np.tile(n, 2), watch_means_=lambda means: np.tile(means, (2, 1)))),
    ("watch", "watch_scatters_", array(watch_scatters_=lambda scatters: scatters[:, :-1])),
    ("watch", "watch_weights_", array(watch_weights_=put(1e300))),
    ("watch", "watch_means_", array(watch_means_=put(1e8))),
    ("watch", "watch_scatter_", array(watch_scatters_=put(1e31))),
    ("watch", "diagonal of watch_scatter_", array(watch_scatters_=put(-1.0, (4, -1)))),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(FORGED)))
def test_relations(case: int) -> None:
    stage, words, change = FORGED[case]
    parts = opened(files()[stage])
    change(parts)
    with pytest.raises(hs.FormatError, match=words) as error:
        from_bytes(sealed(parts), "forged.safetensors")
    assert "forged.safetensors" in str(error.value)


def test_a_watch_belongs_to_sums() -> None:
    watch, change = opened(files()["watch"]), opened(files()["change"])
    for name, entry in state(watch).items():
        if name.startswith("watch_"):
            state(change)[name] = entry
            if isinstance(entry, dict) and "array" in entry:
                tensor = watch.tensors[entry["array"]]
                change.tensors[entry["array"]] = tensor.astype(np.float64)
    with pytest.raises(hs.FormatError, match="watch_means_"):
        from_bytes(sealed(change), "forged")


def no_columns(values: np.ndarray) -> np.ndarray:
    return values[:, :0]


@pytest.mark.parametrize(
    ("d", "words", "change"),
    [
        (200, "basis_ must have a row", array(basis_=first(199))),
        (
            200,
            "basis_ must have a direction",
            array(basis_=no_columns, directions_=first(0), dither_=first(0)),
        ),
        (200, "basis_ has numbers above", array(basis_=put(1e9, (0, 0)))),
        (
            1600,
            "reduction_ must have a direction",
            array(reduction_=no_columns, basis_=first(0), weights_=first(0)),
        ),
        (1600, "reduction_ has numbers above", array(reduction_=put(-1e9, (0, 0)))),
        (1600, "basis_ must have a row", array(reduction_=lambda values: values[:, :-1])),
    ],
)
def test_maps(d: int, words: str, change: Change) -> None:
    """Of hash functions alone, as a table stores them."""
    X = np.random.default_rng(0).standard_normal((30, d))
    hasher = hs.PosteriorHash(6, width=0, random_state=0).partial_fit(X, np.arange(30) % 3)
    parts = opened(encoder_to_bytes(hasher.encoder()))
    change(parts)
    with pytest.raises(hs.FormatError, match=words):
        from_bytes(sealed(parts), "forged")


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        ("map", array(sum_scatter_=lambda scatter: np.where(scatter > 0, 1e30, -1e30) * (scatter > 0))),
        ("map", array(sum_scatter_=none)),
        ("map", array(sum_means_=lambda means: np.sign(means) * 1e6)),
        ("map", array(sum_weights_=put(4e18))),
        ("map", array(sample_weights_=put(0.0, slice(1, None)))),
        ("map", array(weights_=lambda W: np.full_like(W, 1e300), dither_=lambda A: np.full_like(A, -1e300))),
        ("map", array(origin_=lambda origin: np.full_like(origin, 1e308))),
        ("map", number(sampled_=0)),
        ("map", number(sampled_=2**62 - 1)),
        ("watch", array(watch_lost_=put(1e308), watch_block_=put(1e308, (0, 1)))),
        ("watch", array(watch_scatters_=lambda s: np.full_like(s, 1e30))),
        ("watch", array(watch_weights_=put(4e18), watch_means_=lambda means: np.sign(means) * 1e6)),
        ("watch", array(recent_wrong_=lambda wrong: np.ones_like(wrong))),
        ("change", array(recent_=lambda rows: rows * 1e300)),
        ("change", array(recent_=none)),
        ("sample", array(recent_numbers_=none, recent_wrong_=none)),
        ("nothing", number(sampled_=5)),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_refused_works(stage: str, change: Change) -> None:
    """It learns through two blocks and the drawing of a map, and encodes."""
    parts = opened(files()[stage])
    change(parts)
    hasher = from_bytes(sealed(parts), "forged")
    X, y = hs.checks.class_stream(n=1300)
    y = np.eye(3, dtype=int)[y % 3] if hasher.label_book_.multilabel else y
    for start in (0, 600, 1200):
        part = slice(start, start + 600)
        assert hasher.transform(X[:5]).shape == (5, 1)
        hasher.partial_fit(X[part], y[part])
    assert hasher.transform(X).shape == (1300, 1)
