"""The slow way, kept as the oracle of the fast one: every ranking written out, every order tried."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np


def relevance(query_label, db_labels) -> np.ndarray:
    """(n,) number of shared labels: 0 or 1 for class labels."""
    db_labels = np.asarray(db_labels)
    if db_labels.ndim == 2:
        return np.array([int(np.sum(np.asarray(query_label) & row)) for row in db_labels.astype(int)])
    return np.array([int(label == query_label) for label in db_labels])


def metrics_of_order(grades, distances, at, radius, k) -> dict[str, float]:
    """All metrics of one ranking: grades[i] is the number of labels that the query shares with item i of it.

    NaN stands for "no value": AP without relevant items, AP@N without a hit, nDCG without gain.
    """
    relevant = [g > 0 for g in grades]
    out = {}

    def ap(upto):
        hits, total = 0, 0.0
        for place in range(upto):
            if relevant[place]:
                hits += 1
                total += hits / (place + 1)
        return total / hits if hits else np.nan

    def dcg(order, upto):
        return sum((2.0**g - 1) / np.log2(place + 2) for place, g in enumerate(order[:upto]))

    n = len(grades)
    out["AP"] = ap(n)
    for cut in at:
        out[f"AP@{cut}"] = ap(min(cut, n))
    for r in radius:
        ball = [rel for rel, d in zip(relevant, distances, strict=True) if d <= r]
        out[f"precision@H{r}"] = sum(ball) / len(ball) if ball else 0.0
    for cut in k:
        out[f"precision@{cut}"] = sum(relevant[:cut]) / cut
    best = sorted(grades, reverse=True)
    for name, cut in [("nDCG", n)] + [(f"nDCG@{cut}", cut) for cut in at]:
        ideal = dcg(best, cut)
        out[name] = dcg(list(grades), cut) / ideal if ideal else np.nan
    return out


def stable(query_bits, grades, db_bits, at=(), radius=(), k=()) -> dict[str, float]:
    """The metrics of one query with ties in database order."""
    distances = (np.asarray(query_bits) != np.asarray(db_bits)).sum(axis=1)
    order = np.argsort(distances, kind="stable")
    return metrics_of_order(np.asarray(grades)[order].tolist(), distances[order].tolist(), at, radius, k)


def all_orders(query_bits, grades, db_bits, at=(), radius=(), k=()) -> list[dict[str, float]]:
    """The metrics of one query under every order of its tied items, each order once."""
    distances = (np.asarray(query_bits) != np.asarray(db_bits)).sum(axis=1)
    groups = [np.flatnonzero(distances == d).tolist() for d in np.unique(distances)]
    result = []
    for orders in product(*(permutations(group) for group in groups)):
        order = [i for group in orders for i in group]
        result.append(
            metrics_of_order([int(grades[i]) for i in order], distances[order].tolist(), at, radius, k)
        )
    return result


def mean_of_valued(values) -> float:
    """Mean of what is not NaN; NaN where nothing is left."""
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else np.nan
