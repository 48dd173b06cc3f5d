"""The steps of FCOH on one batch, in batch space: W itself is not needed between the batch's first and last product.

W moves only within the span of the batch's samples and class means. With these as the m rows of Z, K = Z Z^T and
P = Z W, a step that adds Z^T C to W adds K C to P; so all steps of a batch need K and P only, and W is brought up
to date once, at the end, with the sum of the C's. No matrix of samples by samples but K is formed: with
H = 2 l1 Bc Bc^T + 2 l2 Bn Bn^T (r x r), the gradient of a class's inner-product terms is Xc^T (Pc H - g).

`take_steps` chooses between the C kernel and its twin, `walk`, which is also what multi-label batches and the
discrete variant use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = [
    "Batch",
    "ClassStep",
    "Group",
    "Rate",
    "Rows",
    "class_steps",
    "damp",
    "descend",
    "discrete",
    "label_steps",
    "mean_damping",
    "walk",
]

POWER_ROUNDS = 6
POWER_MARGIN = 1.05


@dataclass
class Rate:
    """The length of the steps: `rate` (mu) for each, or, where `automatic`, chosen from the step's own curvature.

    With the codes held constant a class's objective is quadratic; its curvature is |H| |Kcc| (spectral norms). An
    automatic step is eta / (running mean of the curvatures), eta falling as 1 / sqrt(1 + taken / slowing) until
    `horizon` steps are taken, and at most 1.8 / (curvature of this very class): beyond 2 a step would make its own
    class worse. The quantisation term is not quadratic (its slope is 1 everywhere): its share of the step moves every
    projection of the class mean by `pull` times eta, whatever the length of the mean.
    """

    automatic: bool
    rate: float
    pull: float = 0.07
    slowing: float = 100.0
    horizon: float = 5000.0
    taken: float = 0.0
    curvature: float = 0.0

    def step(self, curvature: float) -> tuple[float, float]:
        """The length of the next step of this curvature, and how far its quantisation term moves (see `quantise`)."""
        if not self.automatic:
            return self.rate, self.rate
        eta = self.rate / np.sqrt(1 + min(self.taken, self.horizon) / self.slowing)
        self.taken += 1
        if not curvature > 0:
            return 0.0, float(self.pull * eta)
        self.curvature = 0.95 * self.curvature + 0.05 * curvature if self.curvature > 0 else curvature
        return float(min(eta / self.curvature, 1.8 / curvature)), float(self.pull * eta)

    def quantise(self, sigma: np.ndarray, length: float) -> np.ndarray:
        """The quantisation term's direction, so that a step of 1 moves a mean of this squared length by 1."""
        if not self.automatic:
            return sigma
        return sigma / sigma.dtype.type(length) if length > 0 else np.zeros_like(sigma)


@dataclass
class Rows:
    """A batch as rows of Z: n samples, then a mean for each of `classes`, then one for each of `absent`."""

    Z: np.ndarray
    n: int
    classes: np.ndarray
    counts: np.ndarray
    """Samples of each of `classes`."""
    absent: np.ndarray
    first: np.ndarray
    """First sample of each class, and n (with one label a row)."""
    indicator: np.ndarray | None


@dataclass
class Batch:
    """One batch in batch space.

    K : (m, m) Gram matrix of Z's rows: n samples, those of a class side by side, then a mean for each class of the
        batch, then means of other classes.
    P : (m, r) their projections; `take_steps` brings them up to date.
    first : (classes + 1,) int64, the first sample of each class, and n. The mean of class c is row n + c.
    similar, dissimilar : (classes,) float64, lambda1 and lambda2 of each class's step, already scaled.
    center_weight : for how many samples a class mean counts among the codes; 0 in the paper's equations.
    class_wise : False for one step for the whole batch, along the sum of the classes' gradients.
    passes : how often every class has its turn.
    """

    K: np.ndarray
    P: np.ndarray
    first: np.ndarray
    similar: np.ndarray
    dissimilar: np.ndarray
    center_weight: float = 0.0
    class_wise: bool = True
    passes: int = 1


@dataclass
class Group:
    """Rows of a class that have the same dissimilar rows; with one label a row a class is one group."""

    rows: np.ndarray
    dissimilar_weights: np.ndarray
    """(m,): what each row of Z counts for among the codes that this group is pushed away from."""
    dissimilar: float


@dataclass
class ClassStep:
    """One class's turn. rows: its samples; mean: the row of its mean; similar_weights: (m,), as in Group."""

    rows: np.ndarray
    mean: int
    similar_weights: np.ndarray
    similar: float
    groups: list[Group]


Move = Callable[[np.ndarray, np.ndarray, ClassStep], tuple[np.ndarray, np.ndarray, float]]
"""(P, B, step) -> what is taken from the class's rows, from its mean's row, and the curvature of that, all before the
length of the step."""

PairWeights = Callable[[Any, Any, Any, int], tuple[Any, Any]]


def walk(
    K: np.ndarray,
    P: np.ndarray,
    steps: list[ClassStep],
    move: Move,
    rate: Rate,
    class_wise: bool = True,
    passes: int = 1,
) -> np.ndarray:
    """Let every class take its step with the codes that the step before it has left, or, unless `class_wise`, all
    classes one common step; `passes` times over. `move` says where a class wants to go; see `descend`."""
    C = np.zeros_like(P)
    together = steps if class_wise or not steps else [steps]
    for _ in range(passes):
        for turn in together:
            C += _turn(K, P, turn if isinstance(turn, list) else [turn], move, rate, class_wise)
    return C


def _turn(
    K: np.ndarray, P: np.ndarray, classes: list[ClassStep], move: Move, rate: Rate, class_wise: bool
) -> np.ndarray:
    """One step, of one class or of all; P moves by K D, and D (m, r) comes back."""
    B = np.where(P > 0, 1, -1).astype(P.dtype)
    D, Q = np.zeros_like(P), np.zeros_like(P)
    curvature = 0.0
    for step in classes:
        G, sigma, own_curvature = move(P, B, step)
        D[step.rows] += G
        Q[step.mean] += rate.quantise(sigma, float(K[step.mean, step.mean]))
        curvature = max(curvature, own_curvature)
    if rate.automatic:
        rows = np.unique(np.concatenate([step.rows for step in classes]))
        curvature *= largest_eigenvalue(K[np.ix_(rows, rows)])[0]
    length, pull = rate.step(curvature)
    D = -(P.dtype.type(length) * D + P.dtype.type(pull) * Q)
    if class_wise:
        rows = np.append(classes[0].rows, classes[0].mean)
        P += K[:, rows] @ D[rows]
    else:
        P += K @ D
    return D


def descend(rate: Rate) -> Move:
    """The gradient step: G = Pc H - g for the rows, sigma(p) for the mean (Eq. "derivative" of the paper)."""
    v: np.ndarray | None = None  # one class's leading direction is a good start for the next

    def move(P: np.ndarray, B: np.ndarray, step: ClassStep) -> tuple[np.ndarray, np.ndarray, float]:
        nonlocal v
        G = np.empty((len(step.rows), P.shape[1]), P.dtype)
        curvature = 0.0
        for rows, H, g in _quadratics(B, step):
            G[np.searchsorted(step.rows, rows)] = P[rows] @ H - g
            if rate.automatic:
                value, v = largest_eigenvalue(H, v)
                curvature = max(curvature, value)
        p = P[step.mean]
        sigma = np.where((p > 1) | ((p > -1) & (p < 0)), 1, -1).astype(P.dtype)
        return G, sigma, curvature

    return move


def discrete(K: np.ndarray, fit_weight: float, ridge: float, sweeps: int) -> Move:
    """The step of FCOH_C: codes by discrete cyclic coordinate descent, then W fitted to them by proximal ridge.

    b_k <- sgn(q_k + nu p_k - sum over l != k of M_kl b_l), bit after bit, `sweeps` times over, with
    M = l1 Bc Bc^T + l2 Bn Bn^T and q = r (l1 Bc 1 - l2 Bn 1); then W moves by Xc^T (Kcc + (ridge / nu) I)^-1 (B - Pc),
    the smallest change of W that trades its size against the error. Walk it with a Rate of 1, unautomatic.
    """

    def move(P: np.ndarray, B: np.ndarray, step: ClassStep) -> tuple[np.ndarray, np.ndarray, float]:
        codes = B[step.rows].copy()
        for rows, H, g in _quadratics(B, step):
            at = np.searchsorted(step.rows, rows)
            M, q, b = H / 2, g / 2, codes[at]
            wish = q + fit_weight * P[rows]
            for _ in range(sweeps):
                for k in range(len(M)):
                    b[:, k] = np.where(wish[:, k] - b @ M[:, k] + b[:, k] * M[k, k] > 0, 1, -1)
            codes[at] = b
        Kcc = K[np.ix_(step.rows, step.rows)]
        damped = Kcc + (ridge / fit_weight) * np.eye(len(Kcc), dtype=K.dtype)
        wanted = np.linalg.solve(damped, codes - P[step.rows])
        return -wanted.astype(P.dtype), np.zeros(P.shape[1], P.dtype), 0.0

    return move


def _quadratics(B: np.ndarray, step: ClassStep) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each group of a class its rows and its quadratic: H = 2 l1 Bc Bc^T + 2 l2 Bn Bn^T (r, r) and
    g = 2 r (l1 Bc 1 - l2 Bn 1) (r,), Bc and Bn the codes of the similar and the dissimilar rows."""
    dtype, r = B.dtype.type, B.shape[1]
    own = step.similar_weights.astype(B.dtype)
    SB, S = own @ B, (B * own[:, None]).T @ B
    for group in step.groups:
        other = group.dissimilar_weights.astype(B.dtype)
        DB, D = other @ B, (B * other[:, None]).T @ B
        H = dtype(2 * step.similar) * S + dtype(2 * group.dissimilar) * D
        g = dtype(2 * r * step.similar) * SB - dtype(2 * r * group.dissimilar) * DB
        yield group.rows, H, g


def class_steps(batch: Batch) -> Iterator[ClassStep]:
    """The steps of a batch with one label a row: a class is one group, everything else is dissimilar to it."""
    n, m = int(batch.first[-1]), len(batch.P)
    everything = np.ones(m)
    everything[n:] = batch.center_weight
    for c, (start, stop) in enumerate(pairwise(batch.first)):
        own = np.zeros(m)
        own[start:stop] = 1
        own[n + c] = batch.center_weight
        rows = np.arange(start, stop)
        group = Group(rows, everything - own, float(batch.dissimilar[c]))
        yield ClassStep(rows, n + c, own, float(batch.similar[c]), [group])


def label_steps(
    indicator: np.ndarray, means: np.ndarray, present: int, center_weight: float, pair_weights: PairWeights
) -> Iterator[ClassStep]:
    """The steps of a batch with any number of labels a row, as `FCOH` defines them.

    indicator : (n, C) bool, the samples' labels. means : the class of each mean, row n and on, of which the first
    `present` have samples in the batch and take a step. pair_weights : the weights (own codes, other codes, n_c, n_t)
    -> (lambda1, lambda2).
    """
    n, m = len(indicator), len(indicator) + len(means)
    weights = np.ones(m)
    weights[n:] = center_weight
    labels = np.zeros((m, indicator.shape[1]), np.float32)
    labels[:n] = indicator
    labels[np.arange(n, m), means] = 1
    for mean, c in enumerate(means[:present], n):
        rows = np.flatnonzero(indicator[:, c])
        own = weights * labels[:, c]
        groups = []
        label_sets, group_of = np.unique(indicator[rows], axis=0, return_inverse=True)
        for g, label_set in enumerate(label_sets):
            other = weights * (labels @ label_set.astype(np.float32) == 0)
            similar, dissimilar = pair_weights(own.sum(), other.sum(), len(rows), n)
            groups.append(Group(rows[group_of.ravel() == g], other, float(dissimilar)))
        yield ClassStep(rows, mean, own, float(similar), groups)


def largest_eigenvalue(A: np.ndarray, v: np.ndarray | None = None) -> tuple[float, np.ndarray]:
    """Of a symmetric positive semi-definite matrix, by a few power iterations from v, with a margin for their small
    number; and the vector that they end at."""
    if v is None:
        v = (1 + 0.01 * np.arange(len(A))).astype(A.dtype)
    value = 0.0
    for _ in range(POWER_ROUNDS):
        product = A @ v
        value = float(np.linalg.norm(product))
        if not value > 0:
            return value, v
        v = product / A.dtype.type(value)
    return value * POWER_MARGIN, v


# ---- uncentred features


def mean_damping(mean: np.ndarray, energy: float, d: int) -> tuple[float, float]:
    """How much of the direction of the stream's mean is taken out, of features and of W0.

    Uncentred features share one long direction; steps along it are useless, and they set the curvature that limits all
    others. M = I - damping mean mean^T, damping = 1 / (|mean|^2 + v) with v the energy of a typical direction: strong
    where the mean stands out, next to nothing where features are centred. Returns the damping of M's square root, for
    features (steps with M are plain steps on features damped by its root), and of M itself.
    """
    squared = float(np.dot(mean.astype(np.float64), mean.astype(np.float64)))
    if not 0 < squared < np.inf:
        return 0.0, 0.0
    typical = max(energy - squared, 0.0) / d
    return (1 - np.sqrt(typical / (squared + typical))) / squared, 1 / (squared + typical)


def damp(W: np.ndarray, mean: np.ndarray, damping: float) -> np.ndarray:
    """(I - damping mean mean^T) W."""
    return W - np.outer(mean * W.dtype.type(damping), mean @ W)
