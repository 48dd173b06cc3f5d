"""`hashstream perf posterior`: each variant of the ablation leaves out what it says, and phases take their searches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.posterior_ablation import DRIFT_VARIANTS, VARIANTS, WHOLE, Variant
from benchmarks.posterior_search import by_phase
from sklearn.datasets import load_digits

import hashstream as hs
from hashstream.hashers import posterior_steps as steps
from hashstream.hashers.posterior_functions import Functions

TAUGHT = 1500


@pytest.fixture(scope="module")
def noisy_digits() -> tuple[np.ndarray, np.ndarray]:
    """Digits under noise, so that the posterior is unsure and the settings matter."""
    X, y = load_digits(return_X_y=True)
    return (X + np.random.default_rng(0).normal(0, 12, X.shape)).astype(np.float32), y


def taught(variant: Variant, X: np.ndarray, y: np.ndarray) -> hs.PosteriorHash:
    return variant(n_bits=32, random_state=0).partial_fit(X[:TAUGHT], y[:TAUGHT])


def bits(variant: Variant, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    with variant.in_place():
        return np.unpackbits(taught(variant, X, y).transform(X), axis=1)


@pytest.fixture(scope="module")
def whole(noisy_digits: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return bits(VARIANTS[WHOLE], *noisy_digits)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != WHOLE])
def test_each_variant_gives_other_codes(
    name: str, noisy_digits: tuple[np.ndarray, np.ndarray], whole: np.ndarray
) -> None:
    assert (bits(VARIANTS[name], *noisy_digits) != whole).mean() > 0.01


def test_nothing_stays_replaced(noisy_digits: tuple[np.ndarray, np.ndarray], whole: np.ndarray) -> None:
    for variant in VARIANTS.values():
        with variant.in_place():
            pass
    assert np.array_equal(bits(VARIANTS[WHOLE], *noisy_digits), whole)


@pytest.mark.parametrize(("name", "fixed"), [(WHOLE, False), ("the choice of the ridge (1,000)", True)])
def test_one_variant_tries_a_single_ridge(
    name: str, fixed: bool, noisy_digits: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, fit = set(), steps.Discriminant.fit

    def recorded(scatter: np.ndarray, means: np.ndarray, total: float, ridge: float) -> steps.Discriminant:
        if total:  # the discriminants of the watch have none
            tried.add(ridge)
        return fit(scatter, means, total, ridge)

    monkeypatch.setattr(steps.Discriminant, "fit", recorded)
    bits(VARIANTS[name], *noisy_digits)
    assert (tried == {1000.0}) == fixed


@pytest.mark.parametrize(("name", "dithered"), [(WHOLE, True), ("the dither", False), ("the softmax", False)])
def test_codes_follow_the_dither_only_where_there_is_one(
    name: str, dithered: bool, noisy_digits: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = noisy_digits
    with VARIANTS[name].in_place():
        functions = taught(VARIANTS[name], X, y).functions()
        turned = replace(functions, dither=-functions.dither, dither_offsets=-functions.dither_offsets)
        same = np.array_equal(functions.values(X) > 0, turned.values(X) > 0)
    assert same != dithered


def test_without_a_choice_the_posterior_is_neither_sharpened_nor_clipped(
    noisy_digits: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    roundings, choose = set(), steps.choose

    def recorded(*given: object) -> steps.Choice:
        found: steps.Choice = choose(*given)  # type: ignore[arg-type]
        roundings.add(found.rounding)
        return found

    monkeypatch.setattr(steps, "choose", recorded)
    bits(VARIANTS["the choice of a rounding"], *noisy_digits)
    assert roundings == {(1.0, 0.0)}


def test_without_error_diffusion_bits_depend_on_no_other_bit(
    noisy_digits: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = noisy_digits
    for name, alone in ((WHOLE, False), ("error diffusion", True)):
        with VARIANTS[name].in_place():
            functions = taught(VARIANTS[name], X, y).functions()
            last = Functions(
                functions.map, functions.weights, functions.offsets, functions.codewords[:, -1:],
                functions.dither[:, -1:], functions.dither_offsets[-1:], functions.gain, functions.hard,
            )  # fmt: skip
            same = np.array_equal(last.values(X)[:, 0] > 0, functions.values(X)[:, -1] > 0)
        assert same == alone, name


def test_only_the_watch_notices_a_change() -> None:
    X, y = load_digits(return_X_y=True)
    moved = X[:, np.random.default_rng(0).permutation(X.shape[1])]
    changes = {
        name: variant(n_bits=32, random_state=0).partial_fit(np.vstack([X, X, moved]), np.tile(y, 3)).changes_
        for name, variant in DRIFT_VARIANTS.items()
    }
    assert changes == {WHOLE: 1, "the watch": 0}


def test_a_search_counts_for_the_last_kind_that_it_overlaps() -> None:
    searches = [(0.0, 0.5), (0.5, 1.5), (1.6, 1.7), (1.7, 2.2), (2.5, 2.75), (3.0, 4.0), (5.0, 6.0)]
    phases = {"learning": [(1.0, 2.0), (2.9, 3.1)], "solving": [(2.0, 2.9), (3.1, 4.5)]}
    taken = by_phase(searches, phases)
    assert taken["learning"] == pytest.approx([1.0, 0.1])
    assert taken["solving"] == pytest.approx([0.5, 0.25, 1.0])
