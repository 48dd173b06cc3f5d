"""The problem of fig-convergence: two classes in the plane, one bit, and FCOH's updates written out for it.

With two features and one bit, W is a point w in the plane. The loss is the paper's, a mean over pairs, with one of the
two codes relaxed so that it has contours:

    L(w) = mean over i, j of (p_i b_j - S_ij)^2,  p = X w,  b = sgn(p),  S_ij = 1 for equal classes and -1 otherwise
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

ROWS, BATCHES = 100, 10
FIT_WEIGHT, RIDGE = 1.0, 10.0
"""nu, and lambda as a multiple of the mean squared length of a row: the defaults of FCOH's discrete variant."""
SHORT, LONG = 0.5, 1.5
"""Step sizes of the semi-relaxed update, as multiples of 1 / (curvature of the loss over both classes). From 2 on,
steps with both classes together diverge."""


@dataclass(frozen=True)
class Start:
    """A draw: batches (X (n, 2), y (n,) of 0 and 1), one held-out batch to test on, and W1 (2,)."""

    batches: list[tuple[np.ndarray, np.ndarray]]
    held_out: tuple[np.ndarray, np.ndarray]
    w: np.ndarray


def draw(seed: int) -> Start:
    """Two Gaussian classes of equal size, 1 to 4 apart in a random direction, centred; W1 a random unit vector."""
    rng = np.random.default_rng((2022, seed))
    apart, spread = rng.uniform(1.0, 4.0), rng.uniform(0.3, 1.0)
    means = np.outer([-0.5, 0.5], apart * unit(rng))
    y = np.repeat([0, 1], ROWS // 2)
    batches = [(means[y] + spread * rng.standard_normal((ROWS, 2)), y) for _ in range(BATCHES + 1)]
    return Start(batches[:-1], batches[-1], unit(rng))


def unit(rng: np.random.Generator) -> np.ndarray:
    v = rng.standard_normal(2)
    direction: np.ndarray = v / np.linalg.norm(v)
    return direction


def loss(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """L of each w (2, ...), with one of the two codes relaxed; without forming pairs."""
    p = np.tensordot(X, w, 1)
    return _pairs(p, sign(p), y)


def code_loss(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """L of the codes alone: 4 times the share of pairs whose codes are equal or different when they should not be."""
    b = sign(np.tensordot(X, w, 1))
    return _pairs(b, b, y)


def _pairs(p: np.ndarray, b: np.ndarray, y: np.ndarray) -> np.ndarray:
    """mean over i, j of (p_i b_j - S_ij)^2, for p and b (n, ...)."""
    n, first = len(y), y == 0
    difference = (p[first].sum(axis=0) - p[~first].sum(axis=0)) * (
        b[first].sum(axis=0) - b[~first].sum(axis=0)
    )
    result: np.ndarray = np.mean(p**2, axis=0) - 2 * difference / n**2 + 1
    return result


def sign(p: np.ndarray) -> np.ndarray:
    return np.where(p > 0, 1.0, -1.0)


# ---- updates

Step = Callable[[np.ndarray, np.ndarray, np.ndarray, list[int], np.ndarray, float], np.ndarray]
"""(w, X, y, the classes to update with, running class means (2, 2), mu) -> the new w."""


def discrete_step(
    w: np.ndarray, X: np.ndarray, y: np.ndarray, turn: list[int], means: np.ndarray, mu: float
) -> np.ndarray:
    """FCOH_C's step: codes by discrete cyclic coordinate descent (with one bit, one decision per sample), then a ridge
    regression on them that is centred on the old w. `means` and `mu` are not used."""
    p = X @ w
    b = sign(p)
    wanted = np.empty_like(p)
    for c in turn:
        own = y == c
        wanted[own] = sign(b[own].sum() - b[~own].sum() + FIT_WEIGHT * p[own])
    rows = np.isin(y, turn)
    Z, ridge = X[rows], RIDGE * np.mean(np.sum(X**2, axis=1)) / FIT_WEIGHT
    moved: np.ndarray = w + np.linalg.solve(Z.T @ Z + ridge * np.eye(2), Z.T @ (wanted[rows] - p[rows]))
    return moved


def semi_step(
    w: np.ndarray, X: np.ndarray, y: np.ndarray, turn: list[int], means: np.ndarray, mu: float
) -> np.ndarray:
    """FCOH's gradient step as printed, lambda1 = lambda2 = 1: codes held constant, running class means quantised."""
    p = X @ w
    b = sign(p)
    change = np.zeros(2)
    for c in turn:
        own = y == c
        q = means[c] @ w
        sigma = 1.0 if q > 1 or -1 < q < 0 else -1.0
        errors = np.outer(p[own], b[own]) - 1, np.outer(p[own], b[~own]) + 1
        change += sigma * means[c] + 2 * X[own].T @ (errors[0] @ b[own] + errors[1] @ b[~own])
    moved: np.ndarray = w - mu * change
    return moved


STEPS: dict[str, tuple[Step, float]] = {
    "DCC": (discrete_step, 0.0),
    "semi-relaxation, short step": (semi_step, SHORT),
    "semi-relaxation, long step": (semi_step, LONG),
}
"""How codes are found, as the paper did for its figure and as FCOH does, and the step size."""


def path(
    name: str, start: Start, class_wise: bool, batches: int = 1, repeats: int = 1
) -> Iterator[np.ndarray]:
    """W1, then w after each update. repeats: updates per batch where both classes are updated together."""
    step, length = STEPS[name]
    w, mu = start.w, length / curvature(start.batches[0][0])
    yield w
    sums, counts = np.zeros((2, 2)), np.zeros((2, 1))
    for X, y in start.batches[:batches]:
        for c in (0, 1):
            sums[c] += X[y == c].sum(axis=0)
            counts[c] += np.sum(y == c)
        for turn in [[0], [1]] if class_wise else [[0, 1]] * repeats:
            w = step(w, X, y, turn, sums / counts, mu)
            yield w


def curvature(X: np.ndarray) -> float:
    """The curvature of the sum over all pairs, with the codes held constant."""
    return float(2 * len(X) * np.linalg.norm(X, 2) ** 2)
