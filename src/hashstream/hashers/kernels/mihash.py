"""MIHash's steps on a piece of the stream: binding of `_native/mihash.c`, and twin.

The twin's `gradient` has the equations that stand at the head of `mihash.py`. It projects the whole reservoir again
for every instance. The compiled steps update these projections instead, as `mihash.c` explains.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from hashstream.hashers.kernels.binding import POINTER, bind, check_arrays, choice, structure

CLIP = 42.0
"""The sigmoid's argument is held within this, as in the authors' code."""
REFRESH = 1000
"""Rows of the stream after which the compiled steps project the whole reservoir again."""


@dataclass
class Piece:
    """A piece of the stream, as `take_steps` needs it.

    X : (n, d), the instances. reservoir : (m, d), the items before the first of them.
    related : (n, m + n) bool, whether an instance shares a label with each item, and with each instance.
    slots : (n,) int64, the place that each instance takes after its step, or -1.
    rates : (n,) float64, the length of each step; 0 for none.
    scale, bins : A and K. seen : rows of the stream before these.
    """

    X: np.ndarray
    reservoir: np.ndarray
    related: np.ndarray
    slots: np.ndarray
    rates: np.ndarray
    scale: float
    bins: int
    seen: int = 0
    refresh: int = REFRESH
    clip: float = CLIP


# ---- binding

KERNEL = bind("mihash", *[POINTER] * 5)

_CPiece = structure(
    "_CPiece", "size n d r bins size most seen refresh", "real scale clip", "pointer slot rate related"
)


def compiled_take_steps(piece: Piece, W: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    dtype = W.dtype
    X, reservoir = np.ascontiguousarray(piece.X, dtype), np.ascontiguousarray(piece.reservoir, dtype)
    slots = np.ascontiguousarray(piece.slots, np.int64)
    rates = np.ascontiguousarray(piece.rates, np.float64)
    related = np.ascontiguousarray(piece.related, np.uint8)
    (n, d), r, size = X.shape, W.shape[1], len(reservoir)
    moved, P = np.array(W, order="C"), np.ascontiguousarray(P, dtype)
    check_arrays(dtype, {"reservoir": (reservoir, (size, d)), "W": (moved, (d, r)), "P": (P, (size, r))})
    check_arrays(np.uint8, {"related": (related, (n, size + n))})
    check_arrays(np.int64, {"slots": (slots, (n,))})
    check_arrays(np.float64, {"rates": (rates, (n,))})
    # A row takes the place of an item, or the next free one: no place is ever left out.
    last = np.maximum.accumulate(np.append(size - 1, slots))
    if n and (slots.min() < -1 or (slots > last[:-1] + 1).any()):
        raise ValueError("slots must be -1, or a place that is taken, or the next one")
    if not (1 <= piece.bins < 2**31 and piece.refresh >= 1 and 0 <= piece.seen < 2**62):
        raise ValueError(f"bins {piece.bins}, refresh {piece.refresh} or seen {piece.seen} is out of range")
    most = max(size, int(slots.max(initial=-1)) + 1)
    projections = np.zeros((most, r), dtype)
    projections[:size] = P
    c_piece = _CPiece(
        n, d, r, piece.bins, size, most, piece.seen, piece.refresh, piece.scale, piece.clip,
        slots.ctypes.data, rates.ctypes.data, related.ctypes.data,
    )  # fmt: skip
    arrays = (reservoir, X, moved, projections)
    if KERNEL[dtype.char](ctypes.byref(c_piece), *(array.ctypes.data for array in arrays)):
        raise MemoryError("no memory for the steps of this piece")
    return moved, projections


# ---- twin


def twin_take_steps(piece: Piece, W: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take the steps of a piece: W (d, r) and the reservoir's projections P (m, r), both after it, as new arrays."""
    m = len(piece.reservoir)
    everyone = np.concatenate([piece.reservoir, piece.X])
    items = list(range(m))
    for i, x in enumerate(piece.X):
        if piece.rates[i] > 0 and items:
            rate = W.dtype.type(piece.rates[i])
            W = W - rate * gradient(
                W, x, everyone[items], piece.related[i, items], piece.scale, piece.bins, piece.clip
            )
        slot = int(piece.slots[i])
        if slot == len(items):
            items.append(m + i)
        elif slot >= 0:
            items[slot] = m + i
    return W.copy(), everyone[items] @ W


def gradient(
    W: np.ndarray,
    x: np.ndarray,
    reservoir: np.ndarray,
    related: np.ndarray,
    scale: float,
    bins: int,
    clip: float = CLIP,
) -> np.ndarray:
    """The gradient of -I with respect to W (d, r), for one instance x (d,) and the items of the reservoir (m, d)."""
    r, m = W.shape[1], len(reservoir)
    phi, phi_x = sigmoid(reservoir @ W, scale, clip), sigmoid(x @ W, scale, clip)  # Eq. 9
    h = (r - (2 * phi - 1) @ (2 * phi_x - 1)) / 2  # Eq. 8

    # Eq. 7: each distance is shared between the two bins around it.
    centres, width = np.linspace(0, r, bins + 1), r / bins
    distance = h[:, None] - centres  # (m, K + 1)
    rising = (distance > -width) & (distance <= 0)
    falling = (distance > 0) & (distance <= width)
    share = np.where(rising | falling, 1 - np.abs(distance) / width, 0)
    of_related, of_unrelated = share[related].sum(axis=0), share[~related].sum(axis=0)
    n_related = int(related.sum())

    # dI/dP: the brackets 1 + log2 P (1 where P = 0); with p+ / n+ = 1 / m the shares of the classes cancel.
    everything = bracket((of_related + of_unrelated) / m)
    worth = np.where(
        related[:, None],
        everything - bracket(of_related / max(n_related, 1)),
        everything - bracket(of_unrelated / max(m - n_related, 1)),
    )
    slope = (rising.astype(float) - falling) / width  # Eq. 10
    by_h = (worth * slope).sum(axis=1) / m
    by_phi = (by_h[:, None] * (-phi / 2)).sum(axis=0)  # dh/dPhi as in the authors' code
    change: np.ndarray = np.outer(x, scale * phi_x * (1 - phi_x) * by_phi)  # Eq. 11
    return change.astype(W.dtype, copy=False)


def sigmoid(P: np.ndarray, scale: float, clip: float) -> np.ndarray:
    """1 / (1 + e^-z) with z = scale P, held within +-clip."""
    value: np.ndarray = 1 / (1 + np.exp(-np.clip(scale * P, -clip, clip)))
    return value


def bracket(p: np.ndarray) -> np.ndarray:
    """1 + log2 p, and 1 where p is 0."""
    value: np.ndarray = 1 + np.log2(np.where(p > 0, p, 1))
    return value


# ---- choice

take_steps = choice(lambda: KERNEL, compiled_take_steps, twin_take_steps)
