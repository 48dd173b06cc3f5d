"""The gate of MIHash: when to re-encode a hash table (Cakir, He, Bargal and Sclaroff, ICCV 2017, section 3.3).

Re-encoding a whole table is expensive, and most updates of the hash functions change no ranking. The gate measures
the functions on a small uniform sample of the stream, the publication's reservoir. D is the Hamming distance between
an item of the sample and the others, C whether they share a label. What D tells about C is the mutual information

    I(D; C) = H(D) - H(D | C) = H(D) - p+ H(D | +) - p- H(D | -)

in bits, between 0 (distances are blind to labels) and H(C). The table is rebuilt when the mean of I over the
sample, under the current functions, exceeds the mean under the functions that encoded the table by more than theta.

The rule, for a table that is checked every so many instances (100 in the publication's experiments):

    if has_moved(hasher.projection_, snapshot.projection_):
        new = sample_mutual_information(hasher.transform(sample), labels, n_bits=hasher.n_bits)
        old = sample_mutual_information(snapshot.transform(sample), labels, n_bits=hasher.n_bits)
        if gate(new, old, theta):
            ...  # rebuild, and take a new snapshot

`MIHash` has such a sample of its own, its reservoir; with any other method the table keeps one. `old` is measured on
the current sample, so that both sides see the same items.
"""

from __future__ import annotations

import numpy as np

from hashstream import hamming
from hashstream.hashers.labels import LabelBook, LabelsLike, as_labels, missing_rows

__all__ = ["gate", "has_moved", "sample_mutual_information"]

UNMOVED = 1e-6
"""Functions whose weights differ by less than this in sum are the same, as in the authors' code."""


def sample_mutual_information(codes: np.ndarray, labels: LabelsLike, *, n_bits: int | None = None) -> float:
    """Mean over the items of a sample of I(D; C), what Hamming distances from the item tell about shared labels.

    Parameters
    ----------
    codes : (n, ceil(n_bits / 8)) uint8
        Packed codes of the sample's items, as `transform` gives them.
    labels : (n,) labels of any hashable kind, or an (n, C) matrix of 0 and 1
        Two items are related where their labels are equal, or where they share one.
    n_bits : int, optional
        r, the length of a code; 8 bits for each byte by default.

    Returns
    -------
    float
        In bits, at least 0. One item, or one class only, tells nothing: 0.

    Notes
    -----
    As in the authors' code, distances are counted in r bins [0, 1), [1, 2), ..., [r-1, r], so that r-1 and r share the
    last one; an item counts as related to itself, at distance 0.

    Examples
    --------
    >>> codes = np.array([[0b0000], [0b0001], [0b1110], [0b1111]], np.uint8) << 4
    >>> sample_mutual_information(codes, ["cat", "cat", "dog", "dog"], n_bits=4)
    1.0
    >>> sample_mutual_information(codes, ["cat", "dog", "cat", "dog"], n_bits=4)
    0.5
    """
    codes = np.asarray(codes)
    matched = _comparable(labels)
    if not len(codes):
        raise ValueError("the sample is empty: mutual information needs at least one item")
    counted = hamming.histogram(codes, codes, labels=(matched, matched), n_bits=n_bits)
    assert counted.relevant is not None
    everything, related = _bins(counted.total), _bins(counted.relevant)
    unrelated = everything - related
    n, n_related = len(codes), related.sum(axis=1)
    conditional = n_related / n * _entropy(related) + (1 - n_related / n) * _entropy(unrelated)
    information = np.maximum(_entropy(everything) - conditional, 0)  # rounding may leave it just below
    return float(information.mean())


def gate(new: float, old: float, theta: float = 0.0) -> bool:
    """True where mutual information has grown by more than theta since the table was encoded: re-encode it.

    new, old : of the current functions and of those that encoded the table, both on the current sample.
    theta : 0 in all experiments of the publication: any gain counts.

    >>> gate(0.31, 0.30), gate(0.31, 0.30, theta=0.05), gate(0.30, 0.30)
    (True, False, False)
    """
    return bool(new - old > theta)


def has_moved(W: np.ndarray, snapshot: np.ndarray) -> bool:
    """True where two projections differ; otherwise the gate need not be computed.

    >>> has_moved(np.ones((2, 2)), np.ones((2, 2)))
    False
    """
    return bool(np.abs(np.asarray(W) - np.asarray(snapshot)).sum() >= UNMOVED)


def _comparable(labels: LabelsLike) -> np.ndarray:
    """Labels in a form that `hamming.histogram` reads: numbers that are equal where the labels are, or the matrix."""
    labels = as_labels(labels, "labels")
    if (missing := missing_rows(labels)) is not None:
        raise ValueError(f"labels[{int(missing.argmax())}] is missing: leave items without a label out")
    return LabelBook().read(labels)[1].rank if labels.ndim == 1 else labels


def _bins(counts: np.ndarray) -> np.ndarray:
    """Counts at distances 0 to r as counts in the r bins: the last two distances share one."""
    binned = counts[:, :-1].copy()
    binned[:, -1] += counts[:, -1]
    return binned


def _entropy(counts: np.ndarray) -> np.ndarray:
    """Of each row's distribution, in bits; 0 for a row of zeros."""
    p = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    entropy: np.ndarray = -np.sum(p * np.log2(np.where(p > 0, p, 1)), axis=1)
    return entropy
