"""The watch of PosteriorHash: how much of the stream should count, and has it changed all at once?

Small discriminants on 128 of the features predict every row before it is learned, one of each *horizon* h: its sums
fade by a factor of exp(-1 / h) with every row, so that about the last h rows count. A row is tested where the shortest
horizon knows its class.

- **Slow change.** The sums of the method fade with the longest horizon that no shorter one beats: of the rows on which
  two disagree (times 0.8 for each block since), the shorter is right more often by three standard deviations.
- **Sudden change.** The rows since which the current horizon is wrong more often than it was, by 15 %, are suspect.
  Where a discriminant of these alone, each row left out in turn, is right more often on them than the current horizon,
  by five standard deviations and by a fifth of the rows, the stream has changed: everything else is forgotten.

A stream that visits a part of its world at a time, topic after topic, would look like change to both. So rows whose mix
of classes differs from that of the stream by more than chance would have it count for neither.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, inf, sqrt

import numpy as np

from hashstream.hashers.posterior_steps import Discriminant, Map, Sums, leave_one_out, ranks

HORIZONS = (inf, 8000.0, 4000.0, 2000.0, 1000.0)
"""From the longest to the shortest."""
FEATURES = 64
"""Of each kind, linear and random."""
KNOWN = 5.0
"""Rows by which a class is known."""
DECAY = 0.8
BEATEN = 3.0
SUSPECT_ROWS, SUSPECT_ERROR = 200, 0.15
CHANGED, GAIN = 5.0, 0.2
NO_TEST = -1


def few_features(drawn: Map, Y: np.ndarray) -> np.ndarray:
    """Features of each y for the watch, (n, p): evenly spaced linear ones and the first random ones."""
    linear = Y[:, np.linspace(0, Y.shape[1] - 1, min(FEATURES, Y.shape[1])).astype(np.intp)]
    H = drawn.coordinates(Y) @ drawn.directions[:, :FEATURES]
    return np.concatenate([linear, np.maximum(H, 0, out=H)], axis=1)


Rule = tuple[np.ndarray, np.ndarray]
"""W (p, K) and offsets (K,): the class of a row is the largest of z W + offsets."""


@dataclass(frozen=True)
class Watch:
    """The discriminants of all horizons, and how they did.

    sums: of each horizon. lost (J, J): rows on which i was wrong and j right, faded. block (J, J): the same since the
    last block. wrong, tested: rows of the current horizon, faded. horizon: the current one, a position in HORIZONS.
    known, rules: the classes that are tested, and each horizon's discriminant of these.
    """

    sums: tuple[Sums, ...]
    lost: np.ndarray
    block: np.ndarray
    wrong: float
    tested: float
    horizon: int
    known: np.ndarray
    rules: tuple[Rule, ...]

    @classmethod
    def of(
        cls,
        sums: tuple[Sums, ...],
        lost: np.ndarray,
        block: np.ndarray,
        wrong: float,
        tested: float,
        horizon: int,
    ) -> Watch:
        """The watch with these sums; its rules follow from them."""
        known = np.flatnonzero(sums[-1].weights >= KNOWN)
        rules = tuple(_rule(one, known) for one in sums) if len(known) >= 2 else ()
        return cls(sums, lost, block, wrong, tested, horizon, known, rules)

    @classmethod
    def empty(cls, p: int, dtype: np.dtype) -> Watch:
        zero = np.zeros((len(HORIZONS), len(HORIZONS)))
        return cls.of((Sums.empty(p, dtype),) * len(HORIZONS), zero, zero, 0.0, 0.0, 0)

    @property
    def rows(self) -> float:
        """The horizon that the sums of the method should have."""
        return HORIZONS[self.horizon]

    def test(self, Z: np.ndarray, numbers: np.ndarray) -> tuple[Watch, np.ndarray]:
        """With the predictions of rows that have not been learned; and for each row 1 where the current horizon is
        wrong, 0 where it is right, and -1 where the row is not tested."""
        wrong = np.full(len(numbers), NO_TEST, np.int8)
        rank = ranks(self.known, 1 + max(int(numbers.max()), int(self.known.max(initial=0))))
        tested = np.flatnonzero(rank[numbers] >= 0)
        if not self.rules or not len(tested):
            return self, wrong
        Z, own = Z[tested], rank[numbers[tested]]
        right = np.array([(Z @ W + offsets).argmax(axis=1) == own for W, offsets in self.rules], np.float64)
        wrong[tested] = 1 - right[self.horizon]
        return replace(self, block=self.block + (1 - right) @ right.T), wrong

    def suspects(self, wrong: np.ndarray) -> int:
        """How many of the last rows are suspect: from the one on since which the current horizon is wrong too often."""
        if not self.tested or len(wrong) < SUSPECT_ROWS:
            return 0
        usual = self.wrong / self.tested + SUSPECT_ERROR
        excess = np.cumsum(np.where(wrong == NO_TEST, 0, wrong - usual)[::-1])
        most = int(excess.argmax()) + 1
        return most if most >= SUSPECT_ROWS and excess[most - 1] > CHANGED * sqrt(most) / 4 else 0

    def changed(self, Z: np.ndarray, numbers: np.ndarray, weights: np.ndarray, wrong: np.ndarray) -> bool:
        """Are suspect rows predicted far better by the others of them than by the current horizon?"""
        classes = int(numbers.max()) + 1
        own = Sums.of(Z, numbers, weights, classes)
        known = np.intersect1d(self.known, np.flatnonzero(own.weights >= KNOWN))
        rank = ranks(known, classes)
        rows = np.flatnonzero((rank[numbers] >= 0) & (wrong != NO_TEST))
        if len(known) < 2 or not len(rows):
            return False
        ranked = rank[numbers[rows]]
        G, _ = leave_one_out(
            _fit(own, known), own.weights[known], Z[rows].astype(np.float64), ranked, weights[rows]
        )
        new = G.argmax(axis=1) != ranked
        old = wrong[rows] == 1
        won, lost = int(np.count_nonzero(old & ~new)), int(np.count_nonzero(new & ~old))
        return won - lost > max(CHANGED * sqrt(won + lost), GAIN * len(rows))

    def learn(
        self,
        Z: np.ndarray,
        numbers: np.ndarray,
        weights: np.ndarray,
        classes: int,
        wrong: np.ndarray,
        usual: bool,
    ) -> Watch:
        """With the next block of rows, and the horizon that follows from the tests so far.

        wrong: of these rows, as `test` returned it. usual: whether the tests of these rows count.
        """
        last = Sums.of(Z, numbers, weights, classes)
        everyone = np.arange(classes)
        sums = tuple(
            (one if h == inf else one.faded(exp(-len(numbers) / h))).plus(last, everyone, classes)
            for h, one in zip(HORIZONS, self.sums, strict=True)
        )
        lost, wrongs, tested = DECAY * self.lost, DECAY * self.wrong, DECAY * self.tested
        if usual:
            lost = lost + self.block
            wrongs, tested = (
                wrongs + np.count_nonzero(wrong == 1),
                tested + np.count_nonzero(wrong != NO_TEST),
            )
        return Watch.of(sums, lost, np.zeros_like(lost), wrongs, tested, _longest_unbeaten(lost))


def usual_mix(weights: np.ndarray, numbers: np.ndarray, shares: np.ndarray) -> bool:
    """Whether rows have the mix of classes of the stream, n_c of each, up to chance. shares: the weights of the rows.

    The mean of |q_c - p_c| over samples of n rows is about sqrt(2 p (1 - p) / (pi n)), and never more than 2 p.
    """
    counts = np.bincount(numbers, shares, minlength=len(weights))
    weights = np.append(weights, np.zeros(len(counts) - len(weights)))
    n, total = counts.sum(), weights.sum()
    if not n or not total:
        return False
    p, q = weights / total, counts / n
    chance = np.minimum(np.sqrt(2 * p * (1 - p) / (np.pi * n)), 2 * p).sum() / 2
    return bool(np.abs(p - q).sum() / 2 <= chance + 1.5 / sqrt(n) + 0.05)


def _fit(sums: Sums, known: np.ndarray) -> Discriminant:
    scatter = sums.matrix()
    ridge = 0.05 * float(np.trace(scatter)) / len(scatter) + 50
    return Discriminant.fit(scatter, sums.means[known].astype(np.float64), 0.0, ridge)


def _rule(sums: Sums, known: np.ndarray) -> Rule:
    found, dtype = _fit(sums, known), sums.means.dtype
    return found.W.astype(dtype), (-found.norms / 2).astype(dtype)


def _longest_unbeaten(lost: np.ndarray) -> int:
    for i in range(len(HORIZONS)):
        won, other = lost[i, i + 1 :], lost[i + 1 :, i]
        if not (won - other > BEATEN * np.sqrt(won + other)).any():
            return i
    raise AssertionError("the shortest horizon has none to beat it")
