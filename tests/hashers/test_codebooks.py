"""Codewords: orthogonal rows, bits that differ early, growth that changes nothing, classes in stream order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import hadamard

from hashstream.hashers.codebooks import (
    check_codebook,
    grow,
    hadamard_codebook,
    hadamard_order,
    random_codebook,
    sketch,
    spanning_first,
)
from hashstream.hashers.codeword_hasher import CodewordHasher
from hashstream.hashers.projections import initial_projection


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_published_orders() -> None:
    assert [hadamard_order(r, 10) for r in (8, 16, 32, 48, 64, 128)] == [16, 16, 32, 64, 64, 128]
    assert {hadamard_order(r, 205) for r in (8, 16, 32, 48, 64, 128)} == {256}
    assert hadamard_order(1, 1) == 1


@pytest.mark.parametrize("order", [8, 32, 128])
@pytest.mark.parametrize("seed", range(5))
def test_spanning_rows_tell_all_bits_apart(order: int, seed: int) -> None:
    rows = spanning_first(generator(seed).permutation(order))
    assert sorted(rows) == list(range(order))
    few = hadamard(order)[rows[: order.bit_length()]]  # log2(order) + 1 of them
    columns = np.vstack([few.T, -few.T])
    assert len(np.unique(columns, axis=0)) == 2 * order


def test_ordered_rows_repeat_bits_and_distinct_ones_do_not() -> None:
    ordered = hadamard_codebook(32, 10, generator(), "ordered")
    distinct = hadamard_codebook(32, 10, generator(), "distinct")
    assert np.array_equal(ordered, hadamard(32))
    assert len(np.unique(ordered[:10].T, axis=0)) == 16
    assert len(np.unique(distinct[:10].T, axis=0)) == 32


@pytest.mark.parametrize("rows", ["random", "distinct", "ordered"])
@pytest.mark.parametrize("n_bits", [1, 2, 7, 8, 48, 64, 100])
def test_hadamard_codebooks(rows: str, n_bits: int) -> None:
    codebook = hadamard_codebook(n_bits, 10, generator(), rows)
    order = hadamard_order(n_bits, 10)
    assert codebook.shape == (order, n_bits)
    assert set(np.unique(codebook)) == {-1, 1}
    assert np.array_equal(codebook, hadamard_codebook(n_bits, 10, generator(), rows))
    if order == n_bits:
        assert np.array_equal(codebook.astype(int) @ codebook.T, order * np.eye(order))
    elif n_bits >= 7:
        assert len(np.unique(codebook[:10], axis=0)) == 10


def test_sketch_sends_zero_to_minus_one() -> None:
    G = np.array([[1.0, 0.5], [-1.0, 1.0]])
    assert sketch(np.array([[1, 1], [1, -1], [-1, 1]]), G).tolist() == [[-1, 1], [1, -1], [-1, 1]]


@pytest.mark.parametrize("m", [1, 2, 3, 40])
def test_random_codebooks_have_no_constant_bit(m: int) -> None:
    codebook = random_codebook(50, m, generator())
    assert codebook.shape == (m, 50)
    assert set(np.unique(codebook)) == {-1, 1}
    if m > 1:
        assert (np.abs(codebook.sum(axis=0, dtype=int)) < m).all()
    if m == 40:
        assert abs(codebook.mean()) < 0.1


@pytest.mark.parametrize("n_bits", [1, 8, 16, 33])
@pytest.mark.parametrize("size", [17, 33, 100])
def test_growth_keeps_what_there_is(n_bits: int, size: int) -> None:
    codebook = hadamard_codebook(n_bits, 16, generator())
    grown = grow(codebook, size, generator(1))
    assert len(grown) >= size
    assert grown.dtype == np.int8
    assert set(np.unique(grown)) == {-1, 1}
    assert np.array_equal(grown[: len(codebook)], codebook)
    assert np.array_equal(grow(codebook, len(codebook), generator()), codebook)
    if n_bits >= 16:
        assert len(np.unique(grown, axis=0)) == len(grown)


def test_orthogonal_codewords_grow_by_their_complements() -> None:
    """Twice as many codewords as bits, and any two of them differ in at least half of the bits."""
    grown = grow(hadamard_codebook(32, 10, generator()), 33, generator()).astype(int)
    assert grown.shape == (64, 32)
    distances = (32 - grown @ grown.T) // 2
    assert distances[~np.eye(64, dtype=bool)].min() == 16


@pytest.mark.parametrize(
    ("codebook", "message"),
    [
        (np.ones((3, 7)), r"\(codewords, 8\)"),
        (np.ones(8), r"\(8,\)"),
        (np.ones((0, 8)), r"\(0, 8\)"),
        (np.eye(8), r"codebook\[0, 1\] is"),
    ],
)
def test_bad_codebooks(codebook: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_codebook(codebook, 8)


class Taker(CodewordHasher):
    """Gives codewords and learns nothing."""

    def __init__(
        self,
        n_bits: int = 4,
        *,
        batch_size: int = 5,
        n_classes: int = 4,
        codebook: Any = None,
        init: Any = None,
        feature_map: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.batch_size = batch_size
        self.n_classes = n_classes
        self.codebook = codebook
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    def _start(self, X: np.ndarray) -> None:
        self.projection_ = initial_projection(self.init, self.rng_, X.shape[1], self.n_bits, X.dtype)
        self._start_codebook()
        self.targets_: list[np.ndarray] = []

    def _learn(self, X: np.ndarray, labels: Any) -> int:
        rows = self._take_codewords(labels)
        self.targets_ = [*self.targets_, *self.codebook_[rows]]
        return 0


def test_codewords_follow_the_stream_however_it_is_cut() -> None:
    y = generator(3).integers(30, size=200)  # more classes than codewords
    X = np.zeros((200, 2))
    whole = Taker().partial_fit(X, y)
    cut = Taker(batch_size=1000)
    for start, stop in ((0, 1), (1, 3), (3, 90), (90, 200)):
        cut.partial_fit(X[start:stop], y[start:stop])
    assert np.array_equal(whole.targets_, cut.targets_)
    assert np.array_equal(whole.codeword([whole.classes_.index(c) for c in y]), whole.targets_)
    seen = list(dict.fromkeys(y.tolist()))
    for model in (whole, cut):
        assert model.class_rows_[[model.classes_.index(c) for c in seen]].tolist() == list(range(len(seen)))


def test_a_given_codebook_is_taken_in_order_of_appearance() -> None:
    codebook = np.array([[1, -1, 1, 1], [-1, -1, -1, 1]])
    model = Taker(codebook=codebook).partial_fit(np.zeros((4, 2)), ["b", "a", "b", "c"])
    assert np.array_equal(model.targets_[:3], codebook[[0, 1, 0]])
    assert np.array_equal(model.codebook_[:2], codebook)
    assert model.classes_ == ["a", "b", "c"]
    assert np.array_equal(model.codeword([1, 0]), codebook)


@pytest.mark.parametrize(
    "parameters", [{"n_classes": 0}, {"n_classes": 2.5}, {"codebook": np.zeros((2, 4))}], ids=str
)
def test_bad_parameters(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        Taker(**parameters).fit(np.zeros((4, 2)), [0, 1, 0, 1])
