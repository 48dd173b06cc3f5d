"""MIHash's objective learned offline, in mini-batches: what online methods are compared with.

U (n x r) are the relaxed codes of a mini-batch, tanh of a network's outputs. Each row in turn is the query, all others
are its sample (the symbols of `hashers/mihash.py`, where the sample is drawn from the stream):

    h_ij = (r - u_i^T u_j) / 2                                      relaxed Hamming distance
    P+_l = mean over j related to i of max(0, 1 - |h_ij - c_l| / Delta), likewise P- and P over all j != i
    I_i  = H(P) - p+ H(P+) - p- H(P-)                               what the distance from i tells about labels
    maximise the mean of I_i over the batch, by Adam

Each distance is shared by two neighbouring bins, so dI_i/dh_ij = (v_l+1 - v_l) / (Delta (n - 1)) with
v_l = log2 (P+_l / P_l) for a related j and log2 (P-_l / P_l) for another; the gradient reaches both u_i and u_j.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, Self

import numpy as np

Layers = list[tuple[np.ndarray, np.ndarray]]
"""Weights (inputs, outputs) and biases (outputs,) of each layer, first to last."""


def information(U: np.ndarray, related: np.ndarray, bins: int) -> tuple[float, np.ndarray]:
    """The mean of I_i in bits, and its gradient with respect to U (n, r).

    related: (n, n) bool, whether two rows share a label. bins: K; there are K + 1 centres, 0 to r.
    """
    n, r = U.shape
    width, centres = r / bins, bins + 1
    place = np.clip((r - U @ U.T).ravel() / U.dtype.type(2 * width), 0, bins)
    low = np.minimum(place.astype(np.intp), bins - 1)  # each distance lies between bins `low` and `low + 1`
    share = place - low
    # One histogram per row and kind: the row itself (0), unrelated rows (1), related rows (2).
    kind = 1 + related.astype(np.intp)
    np.fill_diagonal(kind, 0)
    first = (kind * n + np.arange(n)[:, None]) * centres
    at = first.ravel() + low
    counted = np.bincount(at, 1 - share, 3 * n * centres) + np.bincount(at + 1, share, 3 * n * centres)
    of_kind = counted.reshape(3, n, centres)[1:]
    sizes = np.stack([(kind == 1).sum(axis=1), (kind == 2).sum(axis=1)])[:, :, None]
    P = of_kind.sum(axis=0) / (n - 1)
    conditional = of_kind / np.maximum(sizes, 1)
    worth = _log2(conditional) - _log2(P)  # v_l of unrelated and of related rows
    # I_i = sum over both kinds of p times the divergence of P given the kind from P
    total = float((sizes / (n - 1) * conditional * worth).sum())
    slope = np.zeros((3, n, centres), U.dtype)
    slope[1:, :, :-1] = np.diff(worth, axis=2) / (width * (n - 1) * n)
    by_h = slope.ravel()[at].reshape(n, n)
    gradient: np.ndarray = (by_h + by_h.T) @ (U / -2)
    return total / n, gradient


def _log2(p: np.ndarray) -> np.ndarray:
    """log2 p, and 0 where p is 0: no distance falls into such a bin, so its slope does not matter."""
    value: np.ndarray = np.log2(np.where(p > 0, p, 1))
    return value


# ---- the network


def network(rng: np.random.Generator, sizes: list[int], dtype: Any = np.float32) -> Layers:
    """Layers of these sizes, inputs first: Gaussian weights that preserve the size of signals; biases 0."""
    layers = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        gain = 1.0 if i == len(sizes) - 2 else 2.0  # a ReLU lets half of the energy through
        W = rng.standard_normal((inputs, outputs)) * np.sqrt(gain / inputs)
        layers.append((W.astype(dtype), np.zeros(outputs, dtype)))
    return layers


def forward(layers: Layers, X: np.ndarray) -> list[np.ndarray]:
    """X and the output of each layer: ReLU after all but the last, whose signs are the code."""
    signals = [X]
    for i, (W, b) in enumerate(layers):
        Z = signals[-1] @ W + b
        signals.append(Z if i == len(layers) - 1 else np.maximum(Z, 0))
    return signals


def backward(layers: Layers, signals: list[np.ndarray], by_output: np.ndarray) -> Layers:
    """The gradients of all weights and biases, given the gradient of the outputs."""
    gradients: Layers = []
    for i in reversed(range(len(layers))):
        gradients.append((signals[i].T @ by_output, by_output.sum(axis=0)))
        if i:
            by_output = (by_output @ layers[i][0].T) * (signals[i] > 0)
    return gradients[::-1]


class OfflineMIHash:
    """A network that keeps all rows and is retrained on all of them by each call of `partial_fit`.

    n_bits : r. hidden : sizes of hidden layers; none for a linear head.
    epochs : passes over all rows, more where that gives fewer than `least_steps` steps.
    rows : rows in a mini-batch.
    learning_rate : Adam's step size, decaying to 0 along a cosine. n_bins : K.
    random_state : seeds the weights and the order of the rows, the same for each training.

    Attributes: `retrain_seconds_`, the time of the last call; `information_`, the mean of the objective over its last
    epoch. Features should be centred and of unit length; they are scaled by sqrt(d), so that an entry has size 1.
    """

    batch_size = 1 << 40
    """A call is one stage, whatever its number of rows."""

    def __init__(
        self,
        n_bits: int = 32,
        *,
        hidden: tuple[int, ...] = (),
        epochs: int = 10,
        least_steps: int = 300,
        rows: int = 200,
        learning_rate: float = 3e-3,
        n_bins: int = 16,
        random_state: int | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.hidden = hidden
        self.epochs = epochs
        self.least_steps = least_steps
        self.rows = rows
        self.learning_rate = learning_rate
        self.n_bins = n_bins
        self.random_state = random_state
        self._X: list[np.ndarray] = []
        self._y: list[np.ndarray] = []

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Learn from all rows so far, from scratch."""
        clock = time.perf_counter()
        self._X.append(np.asarray(X, np.float32) * np.float32(np.sqrt(X.shape[1])))
        self._y.append(np.asarray(y))
        self._train(np.concatenate(self._X), np.concatenate(self._y))
        self.retrain_seconds_ = time.perf_counter() - clock
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Packed codes, (n, ceil(n_bits / 8)) uint8."""
        scale = np.float32(np.sqrt(X.shape[1]))
        pieces = [
            np.packbits(forward(self.layers_, scale * X[i : i + 4096])[-1] > 0, axis=1)
            for i in range(0, len(X), 4096)
        ]
        return np.concatenate(pieces)

    def _train(self, X: np.ndarray, y: np.ndarray) -> None:
        rng = np.random.default_rng(self.random_state)
        layers = network(rng, [X.shape[1], *self.hidden, self.n_bits])
        adam = Adam(layers)
        n, steps = len(X), max(1, len(X) // self.rows)  # rows are divided evenly, so none is left over
        epochs = max(self.epochs, -(-self.least_steps // steps))
        for epoch in range(epochs):
            found = []
            for step, chosen in enumerate(np.array_split(rng.permutation(n), steps)):
                signals = forward(layers, X[chosen])
                U = np.tanh(signals[-1])
                value, by_U = information(U, y[chosen][:, None] == y[chosen], self.n_bins)
                gradients = backward(layers, signals, -by_U * (1 - U**2))
                progress = (epoch * steps + step) / (epochs * steps)
                adam.step(layers, gradients, self.learning_rate * (1 + np.cos(np.pi * progress)) / 2)
                found.append(value)
        self.layers_, self.information_ = layers, float(np.mean(found))


class Adam:
    """Kingma and Ba, 2015; the layers are changed in place."""

    def __init__(self, layers: Layers, decay: tuple[float, float] = (0.9, 0.999)) -> None:
        self.decay, self.taken = decay, 0
        self.first = [np.zeros_like(part) for layer in layers for part in layer]
        self.second = [np.zeros_like(part) for layer in layers for part in layer]

    def step(self, layers: Layers, gradients: Layers, rate: float) -> None:
        self.taken += 1
        a, b = self.decay
        parts = [part for layer in layers for part in layer]
        slopes = [part for layer in gradients for part in layer]
        for part, g, m, v in zip(parts, slopes, self.first, self.second, strict=True):
            m *= a
            m += (1 - a) * g
            v *= b
            v += (1 - b) * g * g
            size = np.sqrt(v / (1 - b**self.taken)) + 1e-8
            part -= part.dtype.type(rate / (1 - a**self.taken)) * (m / size)
