"""Batch space: the steps of FCOH on one batch without W. This is the derivation; others point here.

`fcoh_literal.py` has the step of a class: W loses mu times

    dL/dW = xbar_c sigma(p)^T + 2 l1 X_c (P_c^T B_c - r) B_c^T + 2 l2 X_c (P_c^T B_n + r) B_n^T

Every term is a combination of the batch's samples and class means. Take these as the m rows of Z, so that each step is
W <- W + Z^T C_k for some C_k (m x r), and W after the batch is W + Z^T C with C the sum of the C_k. A step reads W only
through projections of samples and means, and these are the rows of P = Z W. Adding Z^T C_k to W adds K C_k to P, with
K = Z Z^T. So all steps of a batch need K and P alone, and W is read once (for P) and written once (with C): two large
matrix products per batch, and one for K.

What C_k is. With the samples of class c as rows, P_c is (n_c x r), and the two inner-product terms collapse:

    (P_c B_c - r) B_c^T = P_c (B_c B_c^T) - r 1 (B_c 1)^T            likewise for B_n, with + r

so that together they are X_c^T (P_c H - 1 g^T), with two small quantities that depend on codes only,

    H = 2 l1 B_c B_c^T + 2 l2 B_n B_n^T   (r x r),      g = 2 r (l1 B_c 1 - l2 B_n 1)   (r)

and no matrix of samples by samples is formed but K. Hence C_k has -mu (P_c H - 1 g^T) in the rows of the class's
samples, -mu sigma(p) in the row of its mean, and zeros elsewhere.

`kernels/fcoh.py` does this in C for batches with one label per row. `walk` does it in NumPy, for these and for all
others: several labels per row, and the variants of `fcoh_variants.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hashstream.hashers.labels import Labels

POWER_ROUNDS = 6
POWER_MARGIN = 1.05


@dataclass
class Rate:
    """Step size: `rate` (mu) for every step, or, where `automatic`, chosen from the step's own curvature.

    With the codes held constant the objective of a class is quadratic, with curvature |H| |K_cc| (spectral norms). An
    automatic step is eta / (running mean of the curvatures). eta falls as 1 / sqrt(1 + taken / slowing) until `horizon`
    steps are taken. A step is at most 1.8 / (curvature of its own class): beyond 2 it would make its class worse. The
    quantisation term is not quadratic (its slope is 1 everywhere): its share of the step moves every projection of the
    class mean by `pull` times eta, whatever the length of the mean.
    """

    automatic: bool
    rate: float
    pull: float = 0.07
    slowing: float = 100.0
    horizon: float = 5000.0
    taken: float = 0.0
    curvature: float = 0.0

    def step(self, curvature: float) -> tuple[float, float]:
        """Size of the next step, which has this curvature, and of its quantisation term (see `quantise`)."""
        if not self.automatic:
            return self.rate, self.rate
        eta = self.rate / np.sqrt(1 + min(self.taken, self.horizon) / self.slowing)
        self.taken += 1
        if not curvature > 0:
            return 0.0, float(self.pull * eta)
        self.curvature = 0.95 * self.curvature + 0.05 * curvature if self.curvature > 0 else curvature
        return float(min(eta / self.curvature, 1.8 / curvature)), float(self.pull * eta)

    def quantise(self, sigma: np.ndarray, length: float) -> np.ndarray:
        """Direction of the quantisation term, scaled so that a step of 1 moves a mean of this squared length by 1."""
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
    """Number of samples of each of `classes`."""
    absent: np.ndarray
    first: np.ndarray
    """First sample of each class, and n (with one label per row)."""
    indicator: np.ndarray | None


@dataclass
class Batch:
    """One batch in batch space.

    K : (m, m) Gram matrix of Z's rows: n samples, those of a class side by side, then a mean for each class of the
        batch, then means of other classes.
    P : (m, r) their projections, which the steps update.
    first : (classes + 1,) int64, the first sample of each class, and n. The mean of class c is row n + c.
    similar, dissimilar : (classes,) float64, lambda1 and lambda2 of each class's step, already scaled.
    center_weight : number of samples that a class mean counts as among the codes; 0 in the paper's equations.
    class_wise : False for one step per batch, along the sum of the classes' gradients.
    passes : number of steps that every class takes.
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
    """Rows of a class that have the same dissimilar rows; with one label per row a class is one group."""

    rows: np.ndarray
    dissimilar_weights: np.ndarray
    """(m,): weight of each row of Z among the codes that this group is pushed away from."""
    dissimilar: float


@dataclass
class ClassStep:
    """The step of one class. rows: its samples; mean: the row of its mean; similar_weights: (m,), as in Group."""

    rows: np.ndarray
    mean: int
    similar_weights: np.ndarray
    similar: float
    groups: list[Group]


Move = Callable[[np.ndarray, np.ndarray, ClassStep], tuple[np.ndarray, np.ndarray, float]]
"""(P, B, step) -> the directions that the class's rows and its mean's row move against, and the curvature there, all
before the step size is applied. B are the current codes."""

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
    """Take the step of every class, each with the codes that the step before it has left, `passes` times over.

    Without `class_wise` all classes take one step together. move : the direction of a class; see `descend`.
    Returns C (m, r), and moves P by K C.
    """
    C = np.zeros_like(P)
    together = steps if class_wise or not steps else [steps]
    for _ in range(passes):
        for turn in together:
            C += _turn(K, P, turn if isinstance(turn, list) else [turn], move, rate, class_wise)
    return C


def _turn(
    K: np.ndarray, P: np.ndarray, classes: list[ClassStep], move: Move, rate: Rate, class_wise: bool
) -> np.ndarray:
    """Take one step, of one class or of all: moves P by K D and returns D (m, r)."""
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
    """The gradient: P_c H - g for the class's rows, sigma(p) for its mean."""
    v: np.ndarray | None = None  # the leading direction of one class is a good start for the next

    def move(P: np.ndarray, B: np.ndarray, step: ClassStep) -> tuple[np.ndarray, np.ndarray, float]:
        nonlocal v
        G = np.empty((len(step.rows), P.shape[1]), P.dtype)
        curvature = 0.0
        for rows, H, g in quadratics(B, step):
            G[np.searchsorted(step.rows, rows)] = P[rows] @ H - g
            if rate.automatic:
                value, v = largest_eigenvalue(H, v)
                curvature = max(curvature, value)
        p = P[step.mean]
        sigma = np.where((p > 1) | ((p > -1) & (p < 0)), 1, -1).astype(P.dtype)
        return G, sigma, curvature

    return move


def quadratics(B: np.ndarray, step: ClassStep) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each group of a class its rows, H (r, r) and g (r,), from the codes of similar and of dissimilar rows."""
    dtype, r = B.dtype.type, B.shape[1]
    own = step.similar_weights.astype(B.dtype)
    SB, S = own @ B, (B * own[:, None]).T @ B
    for group in step.groups:
        other = group.dissimilar_weights.astype(B.dtype)
        DB, D = other @ B, (B * other[:, None]).T @ B
        H = dtype(2 * step.similar) * S + dtype(2 * group.dissimilar) * D
        g = dtype(2 * r * step.similar) * SB - dtype(2 * r * group.dissimilar) * DB
        yield group.rows, H, g


def by_class(labels: Labels) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Order of a batch's rows in Z, its classes, their counts, `Rows.first`, and the label matrix in that order."""
    if labels.indicator is None:
        counts = np.bincount(labels.rank, minlength=len(labels.ids))
        first = np.zeros(np.count_nonzero(counts) + 1, np.int64)
        np.cumsum(counts[counts > 0], out=first[1:])
        order = np.argsort(labels.rank, kind="stable")
        return order, labels.ids[counts > 0], counts[counts > 0], first, None
    order = np.lexsort(~labels.indicator[:, ::-1].T)  # by label set; single labels as in the other path
    indicator = labels.indicator[order]
    classes = np.flatnonzero(indicator.any(axis=0))
    return order, classes, indicator.sum(axis=0)[classes], np.empty(0, np.int64), indicator


def class_steps(batch: Batch) -> Iterator[ClassStep]:
    """The steps of a batch with one label per row: a class is one group, everything else is dissimilar to it."""
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
    """The steps of a batch with any number of labels per row, as the notes of `FCOH` define them.

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
        label_sets, group_of = distinct_rows(indicator[rows])
        for g, label_set in enumerate(label_sets):
            other = weights * (labels @ label_set.astype(np.float32) == 0)
            similar, dissimilar = pair_weights(own.sum(), other.sum(), len(rows), n)
            groups.append(Group(rows[group_of == g], other, float(dissimilar)))
        yield ClassStep(rows, mean, own, float(similar), groups)


def distinct_rows(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of A (n, C) bool in ascending order, and which of them each row is: (n,) intp.

    np.unique(A, axis=0) does the same by way of a structured array, whose comparison turns an interrupt into a
    TypeError: a caller could no longer tell Ctrl-C from bad labels.

    >>> distinct_rows(np.array([[1, 0], [0, 1], [1, 0]], bool))[1]
    array([1, 0, 1])
    """
    packed = np.packbits(A, axis=1)
    order = np.lexsort(packed.T[::-1])
    first = np.ones(len(A), bool)
    first[1:] = (packed[order[1:]] != packed[order[:-1]]).any(axis=1)
    which = np.empty(len(A), np.intp)
    which[order] = np.cumsum(first) - 1
    return A[order[first]], which


def largest_eigenvalue(A: np.ndarray, v: np.ndarray | None = None) -> tuple[float, np.ndarray]:
    """Largest eigenvalue of a symmetric positive semi-definite matrix, and its eigenvector, both approximate.

    By a few power iterations from v. The value has a margin, as so few iterations fall short of it.
    """
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
