"""The gate: mutual information against loops over items, and the rule."""

from __future__ import annotations

from collections import Counter
from math import log2

import numpy as np
import pytest

from hashstream.hashers.mutual_information import gate, has_moved, sample_mutual_information


def slow_mutual_information(bits: np.ndarray, related: np.ndarray) -> float:
    """H(D) - p+ H(D|+) - p- H(D|-), item by item, with one Counter for each distribution."""

    def entropy(distances: list[int]) -> float:
        counts = Counter(min(distance, max(bits.shape[1] - 1, 0)) for distance in distances)
        return -sum(c / len(distances) * log2(c / len(distances)) for c in counts.values())

    total = 0.0
    for i, code in enumerate(bits):
        distances = [int((code != other).sum()) for other in bits]
        positive = [distance for distance, same in zip(distances, related[i], strict=True) if same]
        negative = [distance for distance, same in zip(distances, related[i], strict=True) if not same]
        share = len(positive) / len(bits)
        information = entropy(distances) - share * entropy(positive) - (1 - share) * entropy(negative)
        total += max(0.0, information)
    return total / len(bits)


@pytest.mark.parametrize("n_bits", [1, 2, 7, 8, 33])
@pytest.mark.parametrize(("n", "classes"), [(1, 1), (2, 2), (30, 1), (40, 5), (25, 25)])
def test_equals_the_loops(n: int, classes: int, n_bits: int) -> None:
    rng = np.random.default_rng(n + n_bits)
    bits, labels = rng.random((n, n_bits)) > 0.4, rng.integers(classes, size=n)
    expected = slow_mutual_information(bits, labels[:, None] == labels)
    found = sample_mutual_information(np.packbits(bits, axis=1), labels, n_bits=n_bits)
    assert found == pytest.approx(expected, abs=1e-12)


def test_shared_labels() -> None:
    rng = np.random.default_rng(0)
    bits, Y = rng.random((30, 12)) > 0.5, rng.random((30, 6)) > 0.7
    expected = slow_mutual_information(bits, (Y.astype(int) @ Y.T.astype(int)) > 0)
    found = sample_mutual_information(np.packbits(bits, axis=1), Y, n_bits=12)
    assert found == pytest.approx(expected, abs=1e-12)


def test_labels_are_names() -> None:
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(256, size=(50, 2), dtype=np.uint8), rng.integers(4, size=50)
    by_number = sample_mutual_information(codes, labels)
    assert by_number == sample_mutual_information(codes, np.array(["ant", "bee", "cat", "dog"])[labels])
    odd = np.array([("a",), 7, "b", "c", 0], dtype=object)
    assert by_number == sample_mutual_information(codes, odd[labels])


def test_what_it_says() -> None:
    """One class, or one code for all, tells nothing; one code for each class tells all there is, H(C)."""
    labels = np.arange(40) % 4
    assert sample_mutual_information(np.zeros((40, 1), np.uint8), labels) == 0
    assert sample_mutual_information(np.arange(40, dtype=np.uint8)[:, None], np.zeros(40)) == 0
    own = np.array([0b00000000, 0b11110000, 0b00001111, 0b10101010], np.uint8)[labels][:, None]
    everything = -(0.25 * log2(0.25) + 0.75 * log2(0.75))
    assert sample_mutual_information(own, labels) == pytest.approx(everything)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="empty"):
        sample_mutual_information(np.zeros((0, 1), np.uint8), [])
    with pytest.raises(ValueError, match="3 query labels"):
        sample_mutual_information(np.zeros((3, 1), np.uint8), [1, 2])


def test_the_rule() -> None:
    assert gate(0.2, 0.1)
    assert not gate(0.1, 0.1)
    assert not gate(0.2, 0.1, theta=0.1 + 1e-9)
    assert not gate(float("nan"), 0.1)
    W = np.zeros((4, 3))
    assert not has_moved(W, W)
    assert not has_moved(W + 1e-8, W)
    assert has_moved(W + 1e-6, W)
