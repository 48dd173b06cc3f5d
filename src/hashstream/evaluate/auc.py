"""Area under a learning curve."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

__all__ = ["auc"]


def auc(points: Iterable[tuple[float, float]], *, rule: Literal["mean", "trapezoid"] = "mean") -> float:
    """Area under a learning curve, in the units of the metric.

    points: pairs (n_train, value): number of samples learned, and the metric at that point. In any order; no
        n_train twice.

    rule="mean": the arithmetic mean of the values, whatever their spacing. This is what the public code of
        the online hashing literature calls AUC. It depends on the checkpoints: one at the very start has the same
        weight as any other.
    rule="trapezoid": the area under the straight lines between the points, divided by the range of n_train.
        Needs at least two points; the spacing matters, and the two ends have half the weight.

    >>> curve = [(2000, 0.5), (4000, 0.7), (8000, 0.8)]
    >>> round(auc(curve), 4)
    0.6667
    >>> round(auc(curve, rule="trapezoid"), 4)
    0.7
    """
    if rule not in ("mean", "trapezoid"):
        raise ValueError(f'rule is {rule!r}: it has to be "mean" or "trapezoid"')
    curve = np.array(list(points), dtype=np.float64)
    if curve.size == 0:
        raise ValueError("points are empty: a curve needs at least one (n_train, value)")
    if curve.ndim != 2 or curve.shape[1] != 2:
        raise ValueError(f"points have shape {curve.shape}: they have to be pairs (n_train, value)")
    if not np.isfinite(curve).all():
        raise ValueError(f"points[{int((~np.isfinite(curve)).any(axis=1).argmax())}] is not finite")
    x, y = curve[np.argsort(curve[:, 0])].T
    if (np.diff(x) == 0).any():
        raise ValueError(f"two points have n_train = {x[:-1][np.diff(x) == 0][0]:g}: average them first")
    if rule == "mean":
        return float(y.mean())
    if len(x) < 2:
        raise ValueError('rule="trapezoid" needs at least two points: one has no range')
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))
