"""Statistics of codes: balance and correlation of bits, distinct codes, collisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hashstream.evaluate.inputs import check_codes

__all__ = ["CodeStatistics", "code_statistics"]

_BITS = 1 << 22  # unpacked at a time: 16 MiB of float32
_LOPSIDED = 0.05  # a bit with this share of ones, or of zeros, or less
_COPIES = 0.95  # two bits with this absolute correlation, or more


@dataclass(frozen=True)
class CodeStatistics:
    """The result of `code_statistics`; `str()` is a summary in words.

    n_codes, n_bits: number of codes, and of bits per code.
    ones: (n_bits,) float64, each bit's share of ones. 0.5 is balanced; 0 or 1 is dead.
    balance: the mean over bits of 1 - |2 ones - 1|: 1 when each bit halves the items, 0 when all
        bits are dead.
    dead: (.,) int64, the bits that are the same in every code, which carry no information.
    correlation_mean, correlation_max: mean and largest absolute correlation between two different bits, without
        dead ones; NaN if fewer than two bits are left. 0 is independent, 1 is a copy (or its complement).
    most_correlated: the two bits of `correlation_max` (the first such pair); None if it is NaN.
    distinct: number of different codes.
    collision: probability that two items drawn at random (not the same one) have the same code; 0 for
        one item.
    biggest_bucket: number of items with the most frequent code.
    """

    n_codes: int
    n_bits: int
    ones: np.ndarray
    balance: float
    dead: np.ndarray
    correlation_mean: float
    correlation_max: float
    most_correlated: tuple[int, int] | None
    distinct: int
    collision: float
    biggest_bucket: int

    def __str__(self) -> str:
        lines = [
            f"{self.n_codes:,} items of {self.n_bits} bits have {self.distinct:,} different codes; the most "
            f"frequent one is shared by {self.biggest_bucket:,} ({self.biggest_bucket / self.n_codes:.1%}).",
            f"Two random items have the same code with probability {self.collision:.2g} "
            f"(independent balanced bits: {2.0**-self.n_bits:.2g}).",
        ]
        if len(self.dead):
            lines.append(f"Dead, the same in every code: {_bits(self.dead)}.")
        lopsided = np.flatnonzero(np.minimum(self.ones, 1 - self.ones) <= _LOPSIDED)
        lopsided = np.setdiff1d(lopsided, self.dead)
        if len(lopsided):
            lines.append(
                f"Nearly dead, at least {1 - _LOPSIDED:.0%} of the items on one side: {_bits(lopsided)}."
            )
        if self.most_correlated is not None:
            i, j = self.most_correlated
            words = f"Bits {i} and {j} are the most alike (absolute correlation {self.correlation_max:.2f}"
            if self.correlation_max >= _COPIES:
                words = f"Bits {i} and {j} say the same (absolute correlation {self.correlation_max:.2f}"
            lines.append(f"{words}; mean over pairs {self.correlation_mean:.2f}).")
        if not len(self.dead) and not len(lopsided):
            lines.append(f"All bits are in use (balance {self.balance:.2f}, 1 is best).")
        return "\n".join(lines)


def code_statistics(codes: ArrayLike, n_bits: int | None = None) -> CodeStatistics:
    """Bit balance, bit correlation, distinct codes and collisions of packed codes.

    codes: (n, ceil(n_bits / 8)) uint8, as `transform` returns them; n_bits: by default 8 per column. Codes
    are unpacked in pieces, so the memory needed is that of a sorted copy of the codes.

    Good values depend on the method: codes learned from labels are meant to coincide within a class, so
    collisions are not a fault by themselves; dead bits and copies are.

    >>> bits = np.array([[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]])
    >>> print(code_statistics(np.packbits(bits, axis=1), 4))
    6 items of 4 bits have 4 different codes; the most frequent one is shared by 2 (33.3%).
    Two random items have the same code with probability 0.13 (independent balanced bits: 0.062).
    Dead, the same in every code: bits 0, 3.
    Bits 1 and 2 are the most alike (absolute correlation 0.33; mean over pairs 0.33).
    """
    codes, n_bits = check_codes(codes, "codes", n_bits)
    n = len(codes)
    both = np.zeros((n_bits, n_bits))  # items that have a one in both bits; the diagonal counts the ones
    rows = max(1, _BITS // n_bits)
    for begin in range(0, n, rows):
        bits = np.unpackbits(codes[begin : begin + rows], axis=1, count=n_bits).astype(np.float32)
        both += bits.T @ bits  # whole numbers below 2^24: exact in float32
    counts = np.diag(both).astype(np.int64)
    ones = counts / n
    alive = np.flatnonzero((counts > 0) & (counts < n))
    mean, largest, pair = _correlation(both[np.ix_(alive, alive)], n)
    _, sizes = np.unique(_rows_as_keys(codes), return_counts=True)
    return CodeStatistics(
        n_codes=n,
        n_bits=n_bits,
        ones=ones,
        balance=float(np.mean(1 - np.abs(2 * ones - 1))),
        dead=np.setdiff1d(np.arange(n_bits), alive),
        correlation_mean=mean,
        correlation_max=largest,
        most_correlated=None if pair is None else (int(alive[pair[0]]), int(alive[pair[1]])),
        distinct=len(sizes),
        collision=float((sizes * (sizes - 1.0)).sum() / max(n * (n - 1.0), 1.0)),
        biggest_bucket=int(sizes.max()),
    )


def _correlation(both: np.ndarray, n: int) -> tuple[float, float, tuple[int, int] | None]:
    """Mean and largest absolute correlation of two bits, and which two, from the counts of common ones."""
    if len(both) < 2:
        return float("nan"), float("nan"), None
    ones = np.diag(both)
    spread = np.sqrt(ones * (n - ones))
    absolute = np.abs(n * both - np.outer(ones, ones)) / np.outer(spread, spread)
    i, j = np.triu_indices(len(both), 1)
    pairs = np.minimum(absolute[i, j], 1.0)
    first = int(pairs.argmax())
    return float(pairs.mean()), float(pairs[first]), (int(i[first]), int(j[first]))


def _rows_as_keys(codes: np.ndarray) -> np.ndarray:
    """(n,): a sortable value per code; up to 64 bits an integer, which sorts fastest."""
    n, width = codes.shape
    if width <= 8:
        padded = np.zeros((n, 8), np.uint8)
        padded[:, :width] = codes
        return padded.view(np.uint64)[:, 0]
    return np.ascontiguousarray(codes).view(np.dtype((np.void, width)))[:, 0]


def _bits(which: np.ndarray) -> str:
    """Such as `bit 3`, or `bits 0, 1, 7`; long lists are cut."""
    shown = ", ".join(str(i) for i in which[:12])
    more = f" and {len(which) - 12} more" if len(which) > 12 else ""
    return f"bit{'s' if len(which) > 1 else ''} {shown}{more}"
