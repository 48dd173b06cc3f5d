"""Rankings with ties: the expected value of a metric when tied items come in random order.

Hamming distances are small integers, so a query ranks a database as a few dozen groups of tied items, and a metric that
depends on places is not defined without a rule for the order inside a group. Here every order of the tied items is
equally likely, and a metric is its expected value. It depends on two counts per distance, items and relevant items, so
no ranking is ever formed: the cost is one step per distance, not per item.

The symbols, for one group of tied items (a distance d with at least one item at it):

    n0, R0    items and relevant items in all nearer groups
    t, r      items and relevant items in the group

Expected values under ties: F. McSherry and M. Najork, "Computing information retrieval performance measures
efficiently in the presence of tied scores", ECIR 2008; for Hamming rankings: K. He, F. Cakir, S. A. Bargal
and S. Sclaroff, "Hashing as Tie-Aware Learning to Rank", CVPR 2018.
"""

from __future__ import annotations

import numpy as np

# Elements of a temporary array: 8 MiB of float64. What is computed for all queries at once is cut to this.
BLOCK = 1 << 20


def harmonic_gap(start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """1/(start + 1) + 1/(start + 2) + ... + 1/(start + length), elementwise, exact to rounding.

    A difference of two harmonic numbers H(start + length) - H(start) loses the digits that they share, and
    `group_sum` multiplies what is left by n0; so past the first places the difference of their asymptotic
    series is taken term by term, in a form without cancellation.

    >>> harmonic_gap(np.array([0, 1_000_000]), np.array([3, 1]))
    array([1.83333333e+00, 9.99999000e-07])
    """
    from scipy.special import digamma  # here: importing it takes as long as NumPy, and every command would

    start, length = np.broadcast_arrays(np.asarray(start, np.float64), np.asarray(length, np.float64))
    end = start + length
    a, b = np.maximum(start, 1.0), np.maximum(end, 1.0)  # the series is not used at 0: any number does
    series = (
        np.log1p((b - a) / a)
        - (b - a) / (2 * a * b)
        + (b - a) * (b + a) / (12 * a**2 * b**2)
        - (a**-4.0 - b**-4.0) / 120
        + (a**-6.0 - b**-6.0) / 252
    )
    return np.asarray(np.where(start < 64, digamma(end + 1) - digamma(start + 1), series))


def group_sum(n0: np.ndarray, R0: np.ndarray, t: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Expected sum, over the relevant items of one tie group, of the precision at their places.

    Place i of the group (i = 1..t) holds a relevant item with probability r/t; given that it does, the i - 1
    places before it hold (i - 1)(r - 1)/(t - 1) of the other relevant ones on average. So the sum is

        sum over i of (r/t) (R0 + 1 + (i - 1) a) / (n0 + i),   a = (r - 1)/(t - 1),

    and with i - 1 = (n0 + i) - (n0 + 1) the only sum left is a piece of the harmonic series:

        (r/t) ((R0 + 1 - a (n0 + 1)) (1/(n0 + 1) + ... + 1/(n0 + t)) + a t).

    Elementwise; a group without relevant items adds 0.

    >>> group_sum(np.array(0), np.array(0), np.array(2), np.array(1))  # first or second: (1/1 + 1/2) / 2
    array(0.75)
    """
    a = (r - 1) / np.maximum(t - 1, 1)
    return np.asarray(r / np.maximum(t, 1) * ((R0 + 1 - a * (n0 + 1)) * harmonic_gap(n0, t) + a * t))


def hypergeometric(t: np.ndarray, r: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distribution of the number of relevant items, of r in a group of t, among its first m places.

    t, r, m: (q,) with 0 <= r <= t and 1 <= m <= t. Returns x and p, both (q, w): row i lists values x with
    probabilities p (0 where the row is padded), summing to 1. Values so far from the mode that all of them
    together have a probability below 1e-20 (Hoeffding's bound) are left out, which keeps w near 10 sqrt(m).

    Ratios of neighbouring probabilities are accumulated, then normalised: factorials of millions in floating
    point would keep only half of the digits.

    >>> x, p = hypergeometric(np.array([4]), np.array([2]), np.array([2]))
    >>> x.tolist(), p.round(6).tolist()
    ([[0.0, 1.0, 2.0]], [[0.166667, 0.666667, 0.166667]])
    """
    t, r, m = (np.asarray(v, np.float64) for v in (t, r, m))
    mode = np.floor((m + 1) * (r + 1) / (t + 2))
    reach = np.ceil(5 * np.sqrt(m)) + 2
    low = np.maximum(np.maximum(0, m - (t - r)), mode - reach)
    high = np.minimum(np.minimum(r, m), mode + reach)
    x = low[:, None] + np.arange(int((high - low).max(initial=0)) + 1)
    inside = x <= high[:, None]
    r, m, rest = r[:, None], m[:, None], (t - r - m)[:, None]
    step = inside[:, 1:]  # from x[j - 1] to x[j]; padding takes the ratio 1 and is blanked below
    up = np.where(step, (r - x[:, :-1]) * (m - x[:, :-1]), 1.0)
    down = np.where(step, x[:, 1:] * (rest + x[:, 1:]), 1.0)
    log_p = np.zeros_like(x)
    np.cumsum(np.log(up / down), axis=1, out=log_p[:, 1:])
    log_p -= np.where(inside, log_p, -np.inf).max(axis=1, keepdims=True)
    p = np.where(inside, np.exp(log_p), 0.0)
    return x, p / p.sum(axis=1, keepdims=True)


class TiedRanking:
    """The rankings of q queries, known only as counts at each distance, and their expected metrics.

    total, relevant: (q, n_bits + 1) integers; column d counts the items, and the relevant items, at distance
    d. Every row of `total` sums to the size of the database, which is at least 1.

    >>> ranking = TiedRanking(np.array([[2, 0, 2]]), np.array([[1, 0, 1]]))  # two tied at 0, two tied at 2
    >>> ranking.average_precision()  # (3/4 + (2/3 + 2/4) / 2) / 2
    array([0.66666667])
    >>> ranking.precision_at(3)
    array([0.5])
    """

    def __init__(self, total: np.ndarray, relevant: np.ndarray) -> None:
        self.total = np.asarray(total, np.int64)
        self.relevant = np.asarray(relevant, np.int64)
        self.ends = np.cumsum(self.total, axis=1)  # items up to and including this distance
        self.hits = np.cumsum(self.relevant, axis=1)
        self._sums = group_sum(self.ends - self.total, self.hits - self.relevant, self.total, self.relevant)
        self._nearer_sums = np.cumsum(self._sums, axis=1) - self._sums

    def average_precision(self) -> np.ndarray:
        """(q,) expected AP: the sum of precisions by the number of relevant items; NaN without any."""
        found = self.hits[:, -1]
        return np.where(found > 0, self._sums.sum(axis=1) / np.maximum(found, 1), np.nan)

    def average_precision_at(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Expected AP of the first n places, divided by the hits inside them, and the probability of a hit.

        In one order, AP@n is (sum of precisions at the hits in the first n places) / (number of those hits),
        and has no value when there are none. If place n falls inside a group, the number of hits is itself
        random: x of them in the m places of the group that are left, x hypergeometric. Given x, the order
        inside those m places is uniform again, so

            E[AP@n; a hit] = sum over x with R0 + x > 0 of P(x) (S0 + group_sum(n0, R0, m, x)) / (R0 + x),

        where S0 is the expected sum of precisions in the nearer groups, which does not depend on x.

        Returns value, weight, both (q,): value = E[AP@n | at least one hit], NaN where a hit is impossible;
        weight = P(at least one hit). The mean over queries with these weights is the mean over all pairs of a
        query and an order of its ties, those without a hit left out.
        """
        group, m = self._cut(n)
        t, r = _at(self.total, group), _at(self.relevant, group)
        n0, R0, S0 = _at(self.ends, group) - t, _at(self.hits, group) - r, _at(self._nearer_sums, group)
        value, weight = np.empty(len(group)), np.empty(len(group))
        rows = max(1, BLOCK // (2 * (5 * int(np.sqrt(m.max(initial=1))) + 4)))
        for begin in range(0, len(group), rows):
            i = slice(begin, begin + rows)
            x, p = hypergeometric(t[i], r[i], m[i])
            found = R0[i, None] + x
            p = np.where(found > 0, p, 0.0)
            sums = S0[i, None] + group_sum(n0[i, None], R0[i, None], m[i, None], x)
            value[i] = (p * sums / np.maximum(found, 1)).sum(axis=1)
            weight[i] = np.minimum(p.sum(axis=1), 1.0)
        return np.where(weight > 0, value / np.where(weight > 0, weight, 1), np.nan), weight

    def precision_at(self, k: int) -> np.ndarray:
        """(q,) expected number of relevant items in the first k places, divided by k."""
        group, m = self._cut(k)
        t, r = _at(self.total, group), _at(self.relevant, group)
        return np.asarray((_at(self.hits, group) - r + m * r / t) / k)

    def precision_within(self, radius: int) -> np.ndarray:
        """(q,) share of relevant items among those at most `radius` away, 0 without any. Free of ties."""
        d = min(radius, self.total.shape[1] - 1)
        return np.asarray(self.hits[:, d] / np.maximum(self.ends[:, d], 1))

    def _cut(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The column in which place n falls (the last place if n is past it), and its places up to n."""
        places = np.minimum(n, self.ends[:, -1])
        group = (self.ends < places[:, None]).sum(axis=1)
        return group, places - _at(self.ends, group) + _at(self.total, group)


def _at(table: np.ndarray, column: np.ndarray) -> np.ndarray:
    """One entry of each row."""
    return np.take_along_axis(table, column[:, None], axis=1)[:, 0]


def discount_sums(n: int) -> np.ndarray:
    """(n + 1,): entry i is the sum of the discounts 1 / log2(1 + place) of the first i places.

    >>> discount_sums(3)
    array([0.        , 1.        , 1.63092975, 2.13092975])
    """
    sums = np.zeros(n + 1)
    np.cumsum(1 / np.log2(np.arange(2, n + 2)), out=sums[1:])
    return sums


def expected_dcg(total: np.ndarray, gains: np.ndarray, discounts: np.ndarray, n: int) -> np.ndarray:
    """(q,) expected sum of gain times discount over the first n places.

    total: (q, n_bits + 1) items at each distance; gains: the same shape, the sum of their gains. DCG is
    linear in the gains, and each place of a group holds the group's mean gain on average, so nothing else is
    needed.
    """
    ends = np.minimum(np.cumsum(total, axis=1), n)
    begins = np.concatenate([np.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
    return np.asarray((gains / np.maximum(total, 1) * (discounts[ends] - discounts[begins])).sum(axis=1))


def ideal_dcg(levels: np.ndarray, gain: np.ndarray, discounts: np.ndarray, n: int) -> np.ndarray:
    """(q,) DCG of the best order: by falling gain.

    levels: (q, L), how many items of the database have the gain `gain[l]`, rising with l.
    """
    return expected_dcg(levels[:, ::-1], levels[:, ::-1] * gain[::-1], discounts, n)
