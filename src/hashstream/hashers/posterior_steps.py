"""PosteriorHash as a short paper: the model, the posterior, the code, the choice of settings. A method of our own.

**1. The map.** A row x is centred by o, the mean of the first rows (but for outliers), and scaled to length sqrt(d).
Beside these linear features stand `width` random ones: S holds its coordinates in the first principal directions P of
the first rows, and the columns r_j of R are Gaussian with the covariance of S plus an isotropic share,

    y = sqrt(d) (x - o) / |x - o|,      S = P^T y,      z = [y ; max(0, R^T S)]    (m = d + width numbers).

P has 64 columns (it is the identity for up to 128 features), and those of R have length 1. The map is drawn from the
first 1,000 rows and then frozen, so that sums over the stream can be kept. Directions of any 1,000 rows serve: a class
that comes later is seen by the linear features, whatever P is. Rows of more than 1,536 features are first projected to
1,024 orthonormal directions. Everything is bounded by the length of y: no row, of whatever scale, counts more than
another.

**2. The model.** z given its class c is Gaussian with mean mu_c and one covariance for all classes. The sums are the
weights n_c, the means mu_c and the scatter within classes Sw. They do not depend on the order of the rows, and add up:
with delta_c the difference of the two means of a class,

    Sw = Sw' + Sw'' + sum over c of n'_c n''_c / (n'_c + n''_c) delta_c delta_c^T.

Where the stream changes slowly, older rows count less (`posterior_watch.py`): all weights and Sw are multiplied by a
factor. A class keeps a weight of 2, so that one that is not seen for long is not lost.

**3. The posterior.** With A = Sw + ridge I, D_c = (z - mu_c)^T A^-1 (z - mu_c) and f = N - C degrees of freedom,

    p_c(x) = softmax over c of  tau G_c,      G_c = -(f / 2) (D_c - z^T A^-1 z),  linear in z.

No prior: classes are taken as equally likely, as the searcher's questions may come from any. tau, a temperature,
calibrates it.

*Leave-one-out.* tau, the ridge and the code are chosen by predictions of a sample of the stream, each row left out of
the sums. With weight w, class k, h = D_k, beta = w n_k / (n_k - w) and e_c = (z - mu_c)^T A^-1 (z - mu_k), the matrix
without the row is A - beta (z - mu_k)(z - mu_k)^T and the mean without it mu_k - w (z - mu_k) / (n_k - w), so by
Sherman and Morrison

    D_c  becomes  D_c + beta e_c^2 / (1 - beta h)   for c other than k,
    D_k  becomes  (n_k / (n_k - w))^2 h / (1 - beta h),

which is what refitting without the row would give, at the price of one triangular solution per row. (f, and a floor of
1e-6 of the mean diagonal that is added to the ridge, stay those of all rows; 1 - beta h is kept above 0.001.)

**4. The code.** Each class has a codeword t_c of r signs, far from all others. Were each bit k of x an independent
random sign s_k with mean M_k = sum over c of p_c(x) t_ck, two rows would differ on average in

    E d(x, x') = r / 2 - M(x) . M(x') / 2 = r / 2 - p(x)^T T T^T p(x') / 2

bits, and for equidistant codewords, T T^T = r (1 + rho) I - r rho 1 1^T, as p sums to 1,

    E d(x, x') = const - r (1 + rho) / 2  *  p(x) . p(x').

p(x) . p(x') is the probability that both rows have the same class, so Hamming distance ranks by the probability of a
common class, which no ranking beats. The signs are not drawn: bit k is the sign of

    M_k + u_k(x) - sum over j < k of (s_j - M_j) (t_.j . t_.k) / C,       u_k(x) = 1 - 2 Phi(a_k(x)),

where a_k is a random direction of S with variance 1, so that u_k is about uniform on (-1, 1) over the stream: a dither
that comes from the row itself. Rows whose class is certain get its codeword, and others get the bits of an unsupervised
code where the codewords of their likely classes differ, so that similar ones stay near each other. The sum diffuses the
error of the bits so far, as in half-toning, and makes the distance nearer to its mean; with it bits are not
independent, and the derivation is a heuristic.

**5. The choice of settings.** How sharp the posterior is before it is rounded is a trade: soft codes rank unsure rows
well, hard ones find more within a small radius. A *rounding* (t, lo) takes p to softmax(t tau G), and rounds what is
within lo of certain to certain: M to clip(M / (1 - 2 lo), -1, 1). One half of the sample is searched with the other as
queries, in two tests: as it is, and with a third of the classes (each third in turn) taken out of the posterior, as if
these had never been taught. The rounding is the one with the best mean average precision + precision at 3 + half the
precision within radius 2 in the first test, plus `openness` times the same in the second. The ridge is found before, by
steps of sqrt(10) from 100 to the one whose posterior, squared to be as sharp as codes are, ranks the sample best. Half
the rows that are searched have their in-sample posterior, as most rows that are searched have been learned. Not so
where predictions are right more often than labels: a model that memorises wrong labels is no better for it. Where a
share e of the labels is wrong, predictions that are right with probability a agree with (1 - e) a of them; e is the
share of labels that differ from the most certain fifth of the predictions, as far as these are right. With fewer than
20 rows nothing is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import cosh, inf, sinh, sqrt

import numpy as np
from numpy.linalg import LinAlgError, cholesky

from hashstream.hashers import linalg
from hashstream.hashers.kernels.posterior import diffuse
from hashstream.hashers.leave_one_out import precision_sums
from hashstream.hashers.softmax import softmax

MOST_LINEAR, REDUCED = 1536, 1024
FEW_FEATURES, PRINCIPAL = 128, 64
FAR = 100.0
RIDGE, RIDGE_STEP, MOST_STEPS = 100.0, sqrt(10), 8
TEMPERATURES = (0.003, 10.0)
ROUNDINGS = (
    (inf, 0.0), (8.0, 0.0), (4.0, 0.0), (2.8, 0.0), (2.0, 0.1), (2.0, 0.0), (1.4, 0.1), (1.4, 0.0), (1.0, 0.3),
    (1.0, 0.1), (1.0, 0.03), (0.7, 0.3), (0.7, 0.2), (0.7, 0.1), (0.5, 0.3), (0.5, 0.2), (0.5, 0.1), (0.35, 0.1),
    (0.25, 0.1),
)  # fmt: skip
"""(t, lo), from hard to soft."""
FIRST_ROUNDING = (2.8, 0.0)
"""Before there are rows enough to choose."""
LEAST_ROWS = 20
HIDDEN = 3
"""Parts of the classes, each of which is taken out of the posterior in turn, for the second test."""
CERTAIN = 5
"""The share of wrong labels is estimated by one in so many predictions, the most certain ones."""
TOLERANCE = 1e-3
"""Scores that differ by less are equal: the softest rounding, or the ridge tried first, is taken."""


# ---- 1. the map


@dataclass(frozen=True)
class Map:
    """x -> y -> S and z.

    origin o (d,), reduction (d, e) or None, basis P (e, q) or None for the identity, directions R (q, width).
    """

    origin: np.ndarray
    reduction: np.ndarray | None
    basis: np.ndarray | None
    directions: np.ndarray

    @classmethod
    def draw(cls, X: np.ndarray, width: int, rng: np.random.Generator) -> Map:
        """The map of the rows X (n, d), in their dtype."""
        dtype = X.dtype
        origin, reduction = mean(X), None
        Y, scale = centred(X, origin)
        Y *= scale
        if Y.shape[1] > MOST_LINEAR:
            reduction = np.ascontiguousarray(linalg.qr(_shaped(Y, REDUCED, rng), mode="economic")[0], dtype)
            Y = Y @ reduction
        basis = None
        if Y.shape[1] > FEW_FEATURES:
            basis = np.ascontiguousarray(principal(Y, PRINCIPAL), dtype)
        S = Y if basis is None else Y @ basis
        directions = _shaped(S, width, rng)
        lengths = np.linalg.norm(directions, axis=0)
        directions = np.ascontiguousarray(directions / np.where(lengths > 0, lengths, 1), dtype)
        return cls(origin, reduction, basis, directions)

    @property
    def size(self) -> int:
        """m, the number of features of z."""
        linear = self.origin if self.reduction is None else self.reduction[0]
        return len(linear) + self.directions.shape[1]

    def centred(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Two factors of y before the reduction: (n, d), a multiple of x - o, and (n, 1)."""
        return centred(X, self.origin)

    def rows(self, X: np.ndarray) -> np.ndarray:
        """y of each row, (n, e)."""
        D, scale = self.centred(X)
        D *= scale
        return D if self.reduction is None else D @ self.reduction

    def coordinates(self, Y: np.ndarray) -> np.ndarray:
        """S of each y, (n, q)."""
        return Y if self.basis is None else Y @ self.basis

    def random(self, S: np.ndarray) -> np.ndarray:
        """The random features of each S, (n, width)."""
        H = S @ self.directions
        return np.maximum(H, 0, out=H)

    def features(self, Y: np.ndarray, extra: int = 0) -> np.ndarray:
        """z of each y, (n + extra, m); the last `extra` rows are not set."""
        Z = np.empty((len(Y) + extra, self.size), Y.dtype)
        Z[: len(Y), : Y.shape[1]] = Y
        Z[: len(Y), Y.shape[1] :] = self.random(self.coordinates(Y))
        return Z


def mean(X: np.ndarray) -> np.ndarray:
    """The mean of rows of any size, without those that are more than FAR times as far from the median as is usual. (The
    sum of large rows may not be finite.)"""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        half = X.astype(np.float64) / 2
        far = np.abs(half - np.median(half, axis=0)).max(axis=1, initial=0)
    usual = float(np.median(far)) if len(X) else 0.0
    near = X[far <= FAR * usual] if usual > 0 else X
    scale = np.abs(near).max(initial=0) or 1
    return (scale * (near / scale).mean(axis=0, dtype=np.float64)).astype(X.dtype)


def centred(X: np.ndarray, origin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """D (n, d) and s (n, 1) with s D = sqrt(d) (x - o) / |x - o|, and s = 0 where x = o."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        D = X - origin
        squared = np.einsum("ij,ij->i", D, D)
        limits = np.finfo(X.dtype)
        extreme = np.flatnonzero(~((squared > limits.tiny * 1e8) & (squared < limits.max / 1e8)))
        if len(extreme):
            some = X[extreme] / 2 - origin / 2  # the difference of two large numbers may not be finite
            largest = np.abs(some).max(axis=1, keepdims=True)
            some /= np.where(largest > 0, largest, 1)
            D[extreme], squared[extreme] = some, np.einsum("ij,ij->i", some, some)
    scale = np.where(squared > 0, sqrt(X.shape[1]) / np.sqrt(np.where(squared > 0, squared, 1)), 0)
    return D, scale.astype(X.dtype)[:, None]


def _shaped(Y: np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian directions (d, width) with the covariance of the rows Y (n, d), plus as much that is isotropic."""
    Y = Y.astype(np.float64)
    Y -= Y.mean(axis=0)
    n, d = Y.shape
    shaped = Y.T @ rng.standard_normal((n, width)) / sqrt(n)
    isotropic = rng.standard_normal((d, width))
    isotropic *= sqrt(d) / np.linalg.norm(isotropic, axis=0)
    energy = float((Y * Y).mean()) or 1.0
    return shaped + sqrt(energy) * isotropic


def principal(Y: np.ndarray, most: int) -> np.ndarray:
    """The first `most` principal directions of the rows Y (n, d), orthonormal: (d, q), q at most `most` and n - 1."""
    Y = Y.astype(np.float64)
    Y -= Y.mean(axis=0)
    n, d = Y.shape
    most = min(most, d, max(1, n - 1))
    if n < d:
        values, vectors = linalg.eigh(Y @ Y.T, subset_by_index=(n - min(most, n), n - 1))
        vectors = Y.T @ vectors
    else:
        values, vectors = linalg.eigh(Y.T @ Y, subset_by_index=(d - most, d - 1))
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    if not kept.any():  # all rows are equal
        return np.eye(d, 1)
    vectors = vectors[:, kept][:, ::-1]
    vectors = vectors / np.linalg.norm(vectors, axis=0)
    largest = np.abs(vectors).argmax(axis=0)  # a sign that does not depend on the library
    return vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])


# ---- 2. the model


@dataclass(frozen=True)
class Sums:
    """Weights n_c (C,), means mu_c (C, m) and the scatter within classes, a packed lower triangle (m (m + 1) / 2,)."""

    weights: np.ndarray
    means: np.ndarray
    scatter: np.ndarray

    @classmethod
    def empty(cls, m: int, dtype: np.dtype) -> Sums:
        return cls(np.zeros(0), np.zeros((0, m), dtype), np.zeros(m * (m + 1) // 2, dtype))

    def grown(self, classes: int) -> Sums:
        """The same for more classes."""
        if (more := classes - len(self.weights)) <= 0:
            return self
        means = np.concatenate([self.means, np.zeros((more, self.means.shape[1]), self.means.dtype)])
        return replace(self, weights=np.append(self.weights, np.zeros(more)), means=means)

    @classmethod
    def of(cls, Z: np.ndarray, numbers: np.ndarray, weights: np.ndarray, classes: int) -> Sums:
        """The sums of rows Z (n, m) of classes `numbers`, with `weights`."""
        room = np.empty((len(np.unique(numbers)), Z.shape[1]), Z.dtype)
        empty = cls.empty(Z.shape[1], Z.dtype)
        return empty.plus_rows(np.concatenate([Z, room]), numbers, weights, classes)

    def plus_rows(self, Z: np.ndarray, numbers: np.ndarray, weights: np.ndarray, classes: int) -> Sums:
        """With rows of classes `numbers`, with `weights`. Z is written over: it begins with the rows, and has as many
        more as there are classes among `numbers`."""
        grown, n = self.grown(classes), len(numbers)
        dtype = Z.dtype
        new = np.bincount(numbers, weights, classes)
        member = linalg.csr_array((weights.astype(dtype), (numbers, np.arange(n))), shape=(classes, n))
        rows = Z[:n]
        own = member @ rows
        own /= np.where(new > 0, new, 1).astype(dtype)[:, None]
        rows -= own[numbers]
        if (weights != 1).any():
            rows *= np.sqrt(weights).astype(dtype)[:, None]
        return grown._joined(new, own, Z)

    def plus(self, other: Sums, numbers: np.ndarray, classes: int) -> Sums:
        """With the sums of another stream, whose class i is `numbers[i]` here."""
        grown = self.grown(classes)
        weights, means = np.zeros(classes), np.zeros_like(grown.means)
        weights[numbers], means[numbers] = other.weights, other.means
        joined = grown._joined(
            weights, means, np.empty((np.count_nonzero(weights), means.shape[1]), means.dtype)
        )
        return replace(joined, scatter=joined.scatter + other.scatter)

    def _joined(self, weights: np.ndarray, means: np.ndarray, block: np.ndarray) -> Sums:
        """With other weights and means. block: rows to add to the scatter; the last ones, one for each class that has a
        weight, are set here."""
        dtype, present = self.means.dtype, np.flatnonzero(weights > 0)
        between = block[len(block) - len(present) :]
        ours, theirs = self.weights[present], weights[present]
        np.subtract(means[present], self.means[present], out=between)
        moved = self.means.copy()
        moved[present] += (theirs / (ours + theirs)).astype(dtype)[:, None] * between
        between *= np.sqrt(ours * theirs / (ours + theirs)).astype(dtype)[:, None]
        total = self.weights + weights
        return Sums(total, moved, self.scatter + _scatter(block))

    def faded(self, share: float) -> Sums:
        """With all weights multiplied by `share`; classes keep a weight of 2, so that none is lost."""
        weights = np.maximum(share * self.weights, np.minimum(self.weights, 2.0))
        return Sums(weights, self.means, (self.scatter * share).astype(self.scatter.dtype))

    def matrix(self) -> np.ndarray:
        """The scatter as a float64 matrix of which the lower triangle is set."""
        unpack = linalg.stpttr if self.scatter.dtype == np.float32 else linalg.dtpttr
        full: np.ndarray = unpack(self.means.shape[1], self.scatter, uplo="L")[0]
        return np.ascontiguousarray(full.T, np.float64).T


def _scatter(block: np.ndarray) -> np.ndarray:
    """The packed lower triangle of block^T block."""
    if not block.size:
        return np.zeros(block.shape[1] * (block.shape[1] + 1) // 2, block.dtype)
    pack = linalg.strttp if block.dtype == np.float32 else linalg.dtrttp
    packed: np.ndarray = pack((block.T @ block).T, uplo="L")[0]
    return packed


def ranks(chosen: np.ndarray, size: int) -> np.ndarray:
    """The position of each of the numbers below `size` among those that are chosen, -1 for the others: (size,)."""
    found = np.full(size, -1)
    found[chosen] = np.arange(len(chosen))
    return found


# ---- 3. the posterior


@dataclass(frozen=True)
class Discriminant:
    """L, lower, with L L^T = A; V = L^-1 mu^T (m, C); W = A^-1 mu^T (m, C); freedom f."""

    L: np.ndarray
    V: np.ndarray
    W: np.ndarray
    freedom: float

    @classmethod
    def fit(cls, scatter: np.ndarray, means: np.ndarray, total: float, ridge: float) -> Discriminant:
        """scatter: (m, m), of which the lower triangle is read. means (C, m). total: N."""
        m = len(scatter)
        floor = 1e-6 * float(np.trace(scatter)) / m
        while True:
            A = scatter.copy()
            A[np.diag_indices(m)] += ridge + floor
            try:
                L = cholesky(A)  # NumPy's lets other threads run, SciPy's does not
                break
            except LinAlgError:  # rounding of the sums of very many rows
                floor = 10 * floor + ridge
        V = linalg.solve_triangular(L, means.T, lower=True, check_finite=False)
        W = linalg.solve_triangular(L, V, lower=True, trans="T", check_finite=False)
        return cls(L, V, W, max(1.0, total - len(means)))

    @property
    def norms(self) -> np.ndarray:
        norms: np.ndarray = np.einsum("ij,ij->j", self.V, self.V)
        return norms

    def logits(self, Z: np.ndarray) -> np.ndarray:
        """G_c of each row, (n, C)."""
        return self.freedom * (Z @ self.W - self.norms / 2)


def leave_one_out(
    discriminant: Discriminant, weights: np.ndarray, Z: np.ndarray, own: np.ndarray, row_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """G of rows that were summed, each without itself, and G as it is: (n, C) and (n, C).

    weights: n_c. Z: (n, m). own: the class of each row, of more weight than the row. row_weights: w of each row.
    """
    V, norms, f = discriminant.V, discriminant.norms, discriminant.freedom
    U = np.empty((Z.shape[1], len(Z)))
    for start in range(0, len(Z), 100):  # other threads wait while SciPy solves
        part = slice(start, start + 100)
        U[:, part] = linalg.solve_triangular(discriminant.L, Z[part].T, lower=True, check_finite=False)
    squares, products = np.einsum("ij,ij->j", U, U)[:, None], U.T @ V
    D = squares - 2 * products + norms
    i = np.arange(len(own))
    h, rest = D[i, own], weights[own] / (weights[own] - row_weights)
    beta = row_weights * rest
    left = np.maximum(1 - beta * h, 1e-3)
    e = squares - products - products[i, own][:, None] + V[:, own].T @ V
    without = D + (beta / left)[:, None] * e * e
    without[i, own] = rest * rest * h / left
    return -f / 2 * (without - squares), -f / 2 * (D - squares)


def temperature(G: np.ndarray, own: np.ndarray) -> float:
    """The tau with the least mean of -log softmax(tau G) of rows' own classes, by golden section on its logarithm."""
    i, golden = np.arange(len(own)), (sqrt(5) - 1) / 2
    G = G - G.max(axis=1, keepdims=True)

    def loss(log_tau: float) -> float:
        scaled = np.exp(log_tau) * G
        return float((np.log(np.exp(scaled).sum(axis=1)) - scaled[i, own]).mean())

    a, b = np.log(TEMPERATURES)
    c, d = b - golden * (b - a), a + golden * (b - a)
    at_c, at_d = loss(c), loss(d)
    for _ in range(16):
        if at_c < at_d:
            b, d, at_d, c = d, c, at_c, d - golden * (d - a)
            at_c = loss(c)
        else:
            a, c, at_c, d = c, d, at_d, c + golden * (b - c)
            at_d = loss(d)
    return float(np.exp((a + b) / 2))


# ---- 4. the code


def next_codeword(T: np.ndarray, n_bits: int, rng: np.random.Generator) -> np.ndarray:
    """A codeword far from the codewords T (C, r) of -1 and 1: (r,) int8.

    Of random ones (and the opposite of the sum of all) those of least energy, the sum over c of exp(-10 d(t, t_c) / r),
    improved by flipping one bit at a time. Fewer are tried where there are many classes.
    """
    many = len(T) > 256
    drawn = np.where(rng.random((8 if many else 32, n_bits)) < 0.5, -1.0, 1.0)
    if not len(T):
        return drawn[0].astype(np.int8)
    T = T.astype(np.float64)
    total = T.sum(axis=0)
    drawn[0] = np.where(total != 0, -np.sign(total), drawn[0])
    distances = (n_bits - drawn @ T.T) / 2
    energies = np.exp(-10 / n_bits * distances).sum(axis=1)
    best, least = drawn[0], inf
    for i in np.argsort(energies, kind="stable")[: 1 if many else 4 if n_bits > 8 else 32]:
        t, distance, energy = drawn[i].copy(), distances[i], energies[i]
        for _ in range(4 if many else 20):
            flipped = _flipped_fast(T, t, distance) if many else _flipped(T, t, distance)
            k = int(flipped.argmin())
            if flipped[k] >= energy - 1e-12:
                break
            distance, energy = distance + T[:, k] * t[k], flipped[k]
            t[k] = -t[k]
        if energy < least:
            best, least = t, energy
    return best.astype(np.int8)


def _flipped(T: np.ndarray, t: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The energy of t with each of its bits flipped, (r,); distance: of t to each codeword."""
    energies: np.ndarray = np.exp(-10 / len(t) * (distance[:, None] + T * t)).sum(axis=0)
    return energies


def _flipped_fast(T: np.ndarray, t: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The same but for the last digits, without an exponential for each bit."""
    near = np.exp(-10 / len(t) * distance)
    energies: np.ndarray = cosh(10 / len(t)) * near.sum() - sinh(10 / len(t)) * t * (near @ T)
    return energies


def dither(S: np.ndarray, directions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """u_k of each row, (n, r): 1 - 2 Phi, by the usual approximation with tanh (wrong by less than 0.001)."""
    a = S @ directions
    a -= offsets
    a *= a.dtype.type(-0.7978845608028654) * (1 + a.dtype.type(0.044715) * a * a)
    return np.tanh(a, out=a)


def feedback(T: np.ndarray) -> np.ndarray:
    """(t_.j . t_.k) / C, (r, r): what the error of bit j takes from bit k."""
    T = T.astype(np.float64)
    return T.T @ T / max(1, len(T))


def mean_bits(
    G: np.ndarray, T: np.ndarray, gain: float, hard: bool, P: np.ndarray | None = None
) -> np.ndarray:
    """M of each row, (n, r): the mean of T (C, r) under softmax(G) or, where it is hard, the likeliest class's; times
    `gain`, and clipped. T is in the dtype of G. P : softmax(G), where it is known."""
    M: np.ndarray = T[G.argmax(axis=1)] if hard else (softmax(G) if P is None else P) @ T
    M *= G.dtype.type(gain)
    return np.clip(M, -1, 1, out=M)


def gain_of(lo: float) -> float:
    """1 / (1 - 2 lo): what is within lo of certain becomes certain."""
    return 1 / (1 - 2 * lo)


# ---- 5. the choice of settings


@dataclass(frozen=True)
class Choice:
    """tau and rounding, and the discriminant of the ridge."""

    tau: float
    rounding: tuple[float, float]
    discriminant: Discriminant


@dataclass(frozen=True)
class _Tried:
    """A discriminant, with G of the sample without and with each row, and tau."""

    discriminant: Discriminant
    G: np.ndarray
    in_sample: np.ndarray
    tau: float


def choose(
    fit: Callable[[float], Discriminant],
    weights: np.ndarray,
    T: np.ndarray,
    sample: tuple[np.ndarray, np.ndarray, np.ndarray],
    u: np.ndarray,
    openness: float,
    rng: np.random.Generator,
) -> Choice:
    """Settings by leave-one-out predictions of a sample: features (n, m), classes (n,), weights (n,); u: its dither.

    fit: ridge -> discriminant. weights: n_c. T: the codewords (C, r).
    """
    Z, own, row_weights = sample
    if len(T) < 2 or len(own) < LEAST_ROWS:
        return Choice(1.0, FIRST_ROUNDING, fit(RIDGE))

    def tried(step: int) -> _Tried:
        found = fit(RIDGE * RIDGE_STEP**step)
        G, in_sample = leave_one_out(found, weights, Z, own, row_weights)
        return _Tried(found, G, in_sample, temperature(G, own))

    def score(step: int) -> float:
        one = found[step]
        P = softmax(2 * one.tau * one.G)
        return _ranking(P, np.where(learned[:, None], softmax(2 * one.tau * one.in_sample), P), own)

    best, found = 0, {0: tried(0)}  # by the number of steps from RIDGE
    learned = np.arange(len(own)) // 2 % 2 == 0
    if mislabelled(found[0].tau * found[0].G, own):
        learned[:] = False
    scores = {0: score(0)}
    while True:  # down or up while it gets better
        neighbours = [step for step in (best - 1, best + 1) if abs(step) <= MOST_STEPS]
        for step in neighbours:
            if step not in scores:
                found[step] = tried(step)
                scores[step] = score(step)
        other = max(neighbours, key=scores.__getitem__)
        if scores[other] <= scores[best] + TOLERANCE:
            break
        best = other
        found = {step: one for step, one in found.items() if abs(step - best) <= 1}  # each is large
    one = found[best]
    rounding = choose_rounding(one.tau * one.G, one.tau * one.in_sample, own, learned, T, u, openness, rng)
    return Choice(one.tau, rounding, one.discriminant)


def mislabelled(G: np.ndarray, own: np.ndarray) -> bool:
    """Whether predictions are right more often than labels, a > 1 - e; G: tau times the logits of the sample, each row
    left out."""
    agree = G.argmax(axis=1) == own
    certain = np.argsort(-softmax(G).max(axis=1), kind="stable")[: max(1, len(own) // CERTAIN)]
    return bool(agree.mean() > agree[certain].mean() ** 2)


def choose_rounding(
    G: np.ndarray,
    in_sample: np.ndarray,
    own: np.ndarray,
    learned: np.ndarray,
    T: np.ndarray,
    u: np.ndarray,
    openness: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """The rounding of best score; G, in_sample: tau times the logits of the sample without and with each row."""
    scores = _rounding_scores(G, in_sample, own, learned, T, u)
    if openness > 0 and len(T) > 2:
        part = rng.permutation(len(T)) % HIDDEN
        for one in range(HIDDEN):
            kept = part != one
            scores = scores + openness / HIDDEN * _rounding_scores(
                G[:, kept], in_sample[:, kept], own, learned & kept[own], T[kept], u
            )
    return ROUNDINGS[int(np.flatnonzero(scores >= scores.max() - TOLERANCE)[-1])]


def _rounding_scores(
    G: np.ndarray, in_sample: np.ndarray, own: np.ndarray, learned: np.ndarray, T: np.ndarray, u: np.ndarray
) -> np.ndarray:
    """mAP + precision@3 + precision@H2 / 2 of each rounding: even rows of the sample ask odd ones, odd ask even."""
    rows, n = np.flatnonzero(learned), len(own)
    logits = np.concatenate([G, in_sample[rows]])
    floats = T.astype(logits.dtype)
    U, K = np.concatenate([u, u[rows]]), feedback(T)
    scores = np.zeros(len(ROUNDINGS))
    for i, (t, lo) in enumerate(ROUNDINGS):
        hard = t == inf
        both = diffuse(mean_bits(logits if hard else t * logits, floats, gain_of(lo), hard), U, K) > 0
        asked = np.where(both[:n], 1, -1).astype(np.float32)
        searched = asked.copy()
        searched[rows] = np.where(both[n:], 1, -1)
        for a, b in ((0, 1), (1, 0)):
            D = np.rint((T.shape[1] - asked[a::2] @ searched[b::2].T) / 2).astype(np.intp)
            scores[i] += _code_score(D, own[a::2, None] == own[b::2], T.shape[1]) / 2
    return scores


def _ranking(P: np.ndarray, Q: np.ndarray, own: np.ndarray) -> float:
    """mAP of ranking Q by P Q^T: even rows ask odd ones, and odd ones even ones."""
    precisions = []
    for a, b in ((0, 1), (1, 0)):
        order = np.argsort(-(P[a::2] @ Q[b::2].T), axis=1, kind="stable")
        relevant = own[b::2][order] == own[a::2, None]
        found = relevant.cumsum(axis=1)
        ap = (relevant * found / np.arange(1, found.shape[1] + 1)).sum(axis=1)
        precisions.append(ap[found[:, -1] > 0] / found[found[:, -1] > 0, -1])
    pooled = np.concatenate(precisions)
    return float(pooled.mean()) if len(pooled) else 0.0


def _code_score(D: np.ndarray, relevant: np.ndarray, n_bits: int) -> float:
    """mAP + precision@3 + precision@H2 / 2 of distances D (q, n); ties count as the mean over all their orders."""
    asked = len(D)
    cells = D + np.arange(asked)[:, None] * (n_bits + 1)
    shape = (asked, n_bits + 1)
    n = np.bincount(cells.ravel(), minlength=asked * (n_bits + 1)).reshape(shape)
    R = np.bincount(cells[relevant], minlength=asked * (n_bits + 1)).reshape(shape)
    right = R.sum(axis=1)
    if not (right > 0).any():
        return 0.0
    before = n.cumsum(axis=1) - n
    top = (R / np.maximum(n, 1) * np.clip(3 - before, 0, n)).sum(axis=1) / 3
    near = R[:, :3].sum(axis=1) / np.maximum(n[:, :3].sum(axis=1), 1)
    every = precision_sums(n, R).sum(axis=1) / np.maximum(right, 1) + top + near / 2
    return float(every[right > 0].mean())
