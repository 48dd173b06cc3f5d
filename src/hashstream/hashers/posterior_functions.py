"""The hash functions of PosteriorHash, and how they follow from the state of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, isinf, sqrt
from typing import Self

import numpy as np

from hashstream.hashers import linalg
from hashstream.hashers import posterior_steps as steps
from hashstream.hashers.kernels.posterior import diffuse
from hashstream.hashers.kernels.settle import column_lengths
from hashstream.hashers.posterior_steps import Map, Sums
from hashstream.hashers.rounding import Bounded
from hashstream.hashers.softmax import softmax
from hashstream.hashers.threads import lock_of, on_one_thread

__all__ = ["Functions", "LateFunctions", "Plain", "Rows", "Snapshot", "generators"]

PLAIN_ROWS = 20
"""The mean of fewer rows is further from the centre than 0 often is."""


@dataclass(frozen=True)
class Rows:
    """Rows x or y (n, d), each with a class number (n,) int64 and a weight (n,)."""

    values: np.ndarray
    numbers: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, which: slice | np.ndarray) -> Self:
        """A view of some of them."""
        return type(self)(self.values[which], self.numbers[which], self.weights[which])

    def plus(self, other: Rows) -> Self:
        parts = zip(
            (self.values, self.numbers, self.weights),
            (other.values, other.numbers, other.weights),
            strict=True,
        )
        return type(self)(*map(np.concatenate, parts))

    def copy(self) -> Self:
        return type(self)(self.values.copy(), self.numbers.copy(), self.weights.copy())


@dataclass(frozen=True)
class Plain:
    """A random projection of centred rows, which nothing that is learned changes: origin (d,), directions (d, p)."""

    origin: np.ndarray
    directions: np.ndarray

    @classmethod
    def draw(cls, X: np.ndarray, n_bits: int, seed: int) -> Plain:
        """For a stream that begins with the rows X (n, d); around 0 where these are few."""
        d, dtype = X.shape[1], X.dtype
        origin = steps.mean(X) if len(X) >= PLAIN_ROWS else np.zeros(d, dtype)
        drawn = np.random.default_rng([seed, 3]).standard_normal((d, n_bits))
        return cls(origin, (drawn / sqrt(d)).astype(dtype))

    def values(self, X: np.ndarray) -> np.ndarray:
        """Real values whose signs are the bits, (n, p): about uniform on (-1, 1), as the dither of learned bits is."""
        D, scale = steps.centred(X, self.origin)
        D *= scale
        return steps.dither(D, self.directions, np.zeros(self.directions.shape[1], X.dtype))


@dataclass(frozen=True)
class Functions:
    """The hash functions of one version.

    weights (m, K), offsets (K,): of the logits, with all factors. codewords (K, r). dither (q, r), dither_offsets (r,).
    gain: 1 / (1 - 2 lo), or 0 where there is one class, so that bits are those of the dither. hard: t is infinite.
    plain: the bits after these r, where there are any.
    """

    map: Map
    weights: np.ndarray
    offsets: np.ndarray
    codewords: np.ndarray
    dither: np.ndarray
    dither_offsets: np.ndarray
    gain: float
    hard: bool
    plain: Plain | None = None

    def values(self, X: np.ndarray) -> np.ndarray:
        """The real values whose signs are the bits, (n, r), and after them those of the plain bits."""
        return self._with_plain(self._learned(X)[0], X)

    def bounded(self, X: np.ndarray) -> Bounded:
        """The values, with bounds of their rounding."""
        values, G, P = self._learned(X)
        values = self._with_plain(values, X)
        return Bounded(values, self._rounding(G, P), np.ones(values.shape[1], X.dtype))

    def _with_plain(self, values: np.ndarray, X: np.ndarray) -> np.ndarray:
        return values if self.plain is None else np.concatenate([values, self.plain.values(X)], axis=1)

    def _rounding(self, G: np.ndarray, P: np.ndarray | None) -> np.ndarray:
        """How far rounding may have moved the values of each row, (n,).

        An error e of the logits moves p_c by about p_c (1 - p_c) e, M by as much times the gain, and the values through
        the feedback K by |K| times as much; where the code is hard, bits change where two logits are equal. To this
        comes the rounding of the dither and of the feedback. Against float64, on random data of 16 to 2,048 features
        and 2 to 100 classes, float32 was off by at most a fifth of this, mostly by a tenth.
        """
        logits, feedback, rest = self._errors
        if P is None:
            top = np.partition(G, -2, axis=1)[:, -2:] if G.shape[1] > 1 else np.array([[-np.inf, 0]])
            return np.where(top[:, 1] - top[:, 0] < 2 * logits, np.inf, rest)
        spread = 1 - P
        spread *= P
        spread = np.sqrt(np.einsum("ij,ij->i", spread, spread))
        return rest + feedback * logits * np.minimum(1, exp(min(logits, 10)) * spread)

    @cached_property
    def _errors(self) -> tuple[float, float, float]:
        """Errors of logits; of values per error of the logits; of values otherwise: all with a wide margin."""
        K, d, width = self._tables[3].astype(np.float64), len(self.map.origin), self.map.directions.shape[1]
        unit = np.finfo(self.weights.dtype).eps / 2 * max(1, sqrt(d / 1024))
        largest = column_lengths(self.weights) * sqrt(d + width) + np.abs(self.offsets)
        dither = column_lengths(self.dither) * sqrt(d) + np.abs(self.dither_offsets)
        rest = 64 + 16 * dither.max(initial=0) + 32 * np.abs(K).sum(axis=1).max(initial=0)
        feedback = self.gain * (1 + np.sqrt((K * K).sum(axis=1)).max(initial=0))
        return 64 * unit * float(largest.max()), float(feedback), unit * float(rest)

    def _learned(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The values, the logits and, unless the code is hard, the posterior."""
        joint, last, T, K = self._tables
        D, scale = self.map.centred(X)
        if self.map.reduction is not None:
            D = D @ self.map.reduction
        if self.map.basis is None:
            S = D * scale
            G = S @ joint
        else:
            both = D @ joint
            both *= scale
            S, G = both[:, : -len(self.offsets)], both[:, -len(self.offsets) :]
        G = G + self.map.random(S) @ last
        G += self.offsets
        P = None if self.hard else softmax(G)
        M = steps.mean_bits(G, T, self.gain, self.hard, P)
        return diffuse(M, steps.dither(S, self.dither, self.dither_offsets), K), G, P

    @cached_property
    def _tables(self) -> tuple[np.ndarray, ...]:
        """The basis, where there is one, and the linear weights; those of random features; codewords; feedback."""
        dtype, basis, linear = (
            self.weights.dtype,
            self.map.basis,
            self.map.size - self.map.directions.shape[1],
        )
        first = self.weights[:linear]
        joint = first if basis is None else np.concatenate([basis, first], axis=1)
        T = self.codewords.astype(dtype)
        K = steps.feedback(self.codewords).astype(dtype)
        if not self.gain:
            K[:] = 0  # bits of the dither itself have no mean to be near to
        return joint, self.weights[linear:], T, K


@dataclass(frozen=True)
class Snapshot:
    """The state that hash functions are computed from.

    rows: x where the map is still to be drawn from them, so that map and sums are None; otherwise y, of the sample.
    """

    map: Map | None
    sums: Sums | None
    rows: Rows
    codewords: np.ndarray
    seed: int
    width: int
    openness: float
    plain: Plain | None = None

    def functions(self) -> Functions:
        """Solve the sums and choose the settings."""
        rows = self.rows
        for_map, for_dither, for_choice = generators(self.seed)  # so that few bits change with a version
        if not len(rows):
            return self._random_functions(for_dither)
        drawn = self.map or Map.draw(rows.values, self.width, for_map)
        Y = rows.values if self.map else drawn.rows(rows.values)
        Z, sums, rotation = drawn.features(Y).astype(np.float64), self.sums, None
        if sums is None:
            rotation, sums, Z = _summed(Z, rows, len(self.codewords))
        known = np.flatnonzero(sums.weights > 0)
        weights, means, scatter = sums.weights[known], sums.means[known].astype(np.float64), sums.matrix()
        T, own = self.codewords[known], steps.ranks(known, len(sums.weights))[rows.numbers]
        S = drawn.coordinates(Y).astype(np.float64)
        directions, centre = _dither_directions(S, rows.weights, T.shape[1], for_dither)
        usable = for_choice.permutation(np.flatnonzero(weights[own] > rows.weights * (1 + 1e-9)))
        chosen = steps.choose(
            lambda ridge: steps.Discriminant.fit(scatter, means, float(weights.sum()), ridge),
            weights,
            T,
            (Z[usable], own[usable], rows.weights[usable]),
            steps.dither(S[usable], directions, centre),
            self.openness,
            for_choice,
        )
        (t, lo), found, dtype = chosen.rounding, chosen.discriminant, Y.dtype
        scale = chosen.tau * found.freedom * (1 if isinf(t) else t)
        W = found.W if rotation is None else rotation @ found.W
        # What all logits have in common does not count, and is far larger than what tells them apart: with it, logits
        # in float32 would lose two digits.
        W, norms = W - W.mean(axis=1, keepdims=True), found.norms - found.norms.mean()
        return Functions(
            drawn,
            np.ascontiguousarray(scale * W, dtype),  # as after loading: the order changes how products round
            (-scale / 2 * norms).astype(dtype),
            T,
            np.ascontiguousarray(directions, dtype),
            centre.astype(dtype),
            0.0 if len(T) < 2 else steps.gain_of(lo),
            isinf(t),
            self.plain,
        )

    def _random_functions(self, rng: np.random.Generator) -> Functions:
        """Bits of a random projection, where no row has been learned."""
        n_bits, dtype, d = self.codewords.shape[1], self.rows.values.dtype, self.rows.values.shape[1]
        origin = np.zeros(d, dtype) if self.plain is None else self.plain.origin
        drawn = self.map or Map(origin, None, None, np.zeros((d, 0), dtype))
        q = len(drawn.directions)
        return Functions(
            drawn,
            np.zeros((drawn.size, 1), dtype),
            np.zeros(1, dtype),
            np.ones((1, n_bits), np.int8),
            (rng.standard_normal((q, n_bits)) / sqrt(q)).astype(dtype),
            np.zeros(n_bits, dtype),
            0.0,
            False,
            self.plain,
        )


def generators(seed: int) -> list[np.random.Generator]:
    """Generators for the map, the dither and the choice of settings."""
    return [np.random.default_rng([seed, part]) for part in range(3)]


class LateFunctions:
    """Functions that are computed once, when they are first asked for, by whichever view of the hasher."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot: Snapshot | None = snapshot
        self.found: Functions | None = None

    def get(self) -> Functions:
        if self.found is None:
            with lock_of(self):  # others that ask meanwhile wait: it may take seconds
                if self.found is None:
                    assert self.snapshot is not None
                    self.found = on_one_thread(self.snapshot.functions)
                    self.snapshot = None
        return self.found


def _summed(Z: np.ndarray, rows: Rows, classes: int) -> tuple[np.ndarray | None, Sums, np.ndarray]:
    """The sums of all rows, and their features: both in an orthonormal basis of the span of the features, (m, n), where
    rows are fewer than features. What is orthogonal to all rows adds the same to every distance."""
    basis = None
    if len(Z) < Z.shape[1]:
        basis, R = linalg.qr(Z.T, mode="economic", check_finite=False)
        Z = np.ascontiguousarray(R.T)
    return basis, Sums.of(Z, rows.numbers, rows.weights, classes), Z


def _dither_directions(
    S: np.ndarray, weights: np.ndarray, n_bits: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian directions with the covariance of S, scaled to variance 1: (q, r); and their means (r,)."""
    q = S.shape[1]
    drawn = rng.standard_normal((q, n_bits))
    share = weights / weights.sum()
    mean = share @ S
    S = S - mean
    C = (S * share[:, None]).T @ S
    floor = 1e-6 * float(np.trace(C)) / q or 1.0
    V = linalg.cholesky(C + floor * np.eye(q), lower=True) @ drawn
    V /= np.sqrt(np.einsum("ij,ij->j", V, C @ V + floor * V))
    return V, mean @ V
