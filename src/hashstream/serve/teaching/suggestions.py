"""Items that are worth a label next, and classes that a table's answers confuse.

Suggestions are representatives. Each is the item that brings most of the sample nearer to a labelled item, greedily one
after the other (facility location): so they are spread, and none is an oddity. An item with a sure guess counts up
to twice, since a right guess costs its teacher no click. In simulations of fifty clicks (`hashstream perf teaching`)
this teaches a table more than the items about which it is least certain, which are often odd, or alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from hashstream.hashers.validation import check_count
from hashstream.serve.kinds import Servable
from hashstream.serve.teaching.sampled import Looked, label_key, labelled_ids, look, members, sample_ids

__all__ = ["Confused", "Suggestion", "Suggestions", "suggest"]

MOST_SUGGESTIONS = 200
MOST_CANDIDATES = 2000
VOTERS = 3  # labelled items by which a label is guessed
SHARPNESS = 8.0  # of their votes, by similarity
NUMBERS = 128  # that features are projected to, where they are more
PAIRS = 10  # of confused classes
LEAST_LABELLED = 2


@dataclass(frozen=True)
class Suggestion:
    """An item to label. uncertainty : of the guess, 0..1. guess : None where no item has a label."""

    id: Any
    why: str
    uncertainty: float
    guess: Any


@dataclass(frozen=True)
class Confused:
    """Two classes. share : of the labelled items of both whose nearest labelled item is of the other one."""

    a: Any
    b: Any
    share: float


@dataclass(frozen=True)
class Suggestions:
    """items : the best first. confused : the most confused pair first. n_labelled, n_items : of the table."""

    items: list[Suggestion]
    confused: list[Confused]
    n_labelled: int
    n_items: int

    def to_fields(self) -> dict[str, Any]:
        """As the service answers."""
        return asdict(self)


def suggest(table: Servable, n: int = 12) -> Suggestions:
    """At most n unlabelled items of the sample that are worth a label, and the classes that answers confuse.

    The same table gives the same suggestions. In a label matrix a guess is the row of the nearest labelled item, and no
    classes are confused.
    """
    check_count("n", n, 1, MOST_SUGGESTIONS)
    n_labelled = table.count({"label": {"$exists": True}})
    sample, known = sample_ids(table, MOST_CANDIDATES), labelled_ids(table)
    both = np.concatenate([sample, known[~np.isin(known, sample)]]) if len(known) else sample
    items = look(table, both, features=table.keeps_features)
    labelled = np.array([label is not None for label in items.labels], bool)
    points = vectors(items)
    known_labels = [label for label in items.labels if label is not None]
    picked = _picked(points, labelled, items.ids, known_labels, n)
    return Suggestions(picked, _confused(points[labelled], known_labels), n_labelled, len(table))


def vectors(items: Looked) -> np.ndarray:
    """Items as unit vectors (n, k) float32: features, centred, and bits, with equal weight; bits alone where the table
    keeps no features. Codes that have learned little say little, and features nothing of what has been learned."""
    bits = items.signs / np.sqrt(np.float32(max(1, items.signs.shape[1])))
    if items.features is None:
        return np.asarray(bits)
    largest = float(np.abs(items.features).max(initial=0)) or 1.0  # so that no product overflows
    X = (items.features / largest).astype(np.float32, copy=False)
    if X.shape[1] > NUMBERS:
        X = X @ directions(X.shape[1])
    X = X - X.mean(axis=0)
    length = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    X = np.divide(X, length, out=np.zeros_like(X), where=length > 0)
    return np.concatenate([X, bits], axis=1) * np.float32(0.5**0.5)


@lru_cache(maxsize=4)
def directions(d: int) -> np.ndarray:
    """Random directions (d, 128): products with them keep angles, about, and are fast to compare."""
    drawn: np.ndarray = np.random.default_rng(0).standard_normal((d, NUMBERS), np.float32)
    drawn.flags.writeable = False
    return drawn


def _picked(
    points: np.ndarray, labelled: np.ndarray, ids: np.ndarray, labels: list[Any], n: int
) -> list[Suggestion]:
    """Greedy facility location among the unlabelled items, which are to be near to one of them, too.

    labels : of the labelled ones.
    """
    free = np.flatnonzero(~labelled)
    places = points[free]
    apart = np.maximum(1 - places @ places.T, 0)  # (m, m)
    sure = np.zeros(len(free), np.float32)
    guesses: list[Any] = [None] * len(free)
    disputed: list[Any] = [None] * len(free)
    nearest = np.ones(len(free), np.float32)  # 1: unlike everything
    if labelled.any():
        alike = places @ points[labelled].T
        nearest = np.minimum(nearest, np.maximum(1 - alike.max(axis=1), 0))
        sure, guesses, disputed = _guessed(alike, labels)
    found: list[Suggestion] = []
    gains = np.maximum(nearest - apart, 0).sum(axis=1) * (1 + sure)
    for _ in range(min(n, len(free))):
        best = _best(gains, apart, nearest, sure)
        closer = apart[best] < nearest
        closer[best] = False
        why = _why(int(closer.sum()), guesses[best], disputed[best], float(sure[best]))
        found.append(Suggestion(_plain(ids[free[best]]), why, round(1 - float(sure[best]), 4), guesses[best]))
        nearest = np.minimum(nearest, apart[best])
        gains[best] = -np.inf
    return found


def _best(gains: np.ndarray, apart: np.ndarray, nearest: np.ndarray, sure: np.ndarray) -> int:
    """The item of the greatest gain. Gains only shrink, so that those of before are bounds: few are computed again."""
    done: set[int] = set()
    while True:
        best = int(gains.argmax())
        if best in done or gains[best] == -np.inf:
            return best
        gains[best] = float(np.maximum(nearest - apart[best], 0).sum()) * (1 + float(sure[best]))
        done.add(best)


def _guessed(alike: np.ndarray, labels: list[Any]) -> tuple[np.ndarray, list[Any], list[Any]]:
    """How sure guesses are (m,), 0..1; the guesses; and for each the label that comes second, None where none does.

    alike : (m, labelled) similarities.
    """
    has, classes = members(labels)
    voters = min(VOTERS, alike.shape[1])
    near, left = np.empty((len(alike), voters), np.intp), alike.copy()
    for vote in range(voters):  # much faster than sorting; ties by insertion
        near[:, vote] = left.argmax(axis=1)
        left[np.arange(len(left)), near[:, vote]] = -np.inf
    votes = np.exp(SHARPNESS * (np.take_along_axis(alike, near, axis=1) - 1))
    shares = np.einsum("mv,mvc->mc", votes, has[near])
    shares /= np.maximum(votes.sum(axis=1, keepdims=True), 1e-30)
    keys = [label_key(label) for label in labels]
    # A vote that all share says little where the nearest labelled item is unlike: the similarity is part of the trust.
    trust = np.clip(np.take_along_axis(alike, near[:, :1], axis=1)[:, 0], 0, 1)
    if classes is None:
        return trust.astype(np.float32), [keys[at] for at in near[:, 0]], [None] * len(near)
    order = np.argsort(-shares, axis=1, kind="stable")
    rows = np.arange(len(shares))
    second = order[:, 1] if len(classes) > 1 else order[:, 0]
    doubted = shares[rows, second] > 0
    return (
        (shares[rows, order[:, 0]] * trust).astype(np.float32),
        [classes[c] for c in order[:, 0]],
        [classes[c] if some and len(classes) > 1 else None for c, some in zip(second, doubted, strict=True)],
    )


def _why(like_it: int, guess: Any, second: Any, sure: float) -> str:
    few = {0: "no other item of the sample is", 1: "one other item of the sample is"}
    others = few.get(like_it, f"{like_it} items of the sample are")
    if guess is None:
        return f"No item has a label yet, and {others} like this one."
    if second is not None:
        return (
            f"Its nearest labelled items disagree: {guess} or {second}. {others.capitalize()} like this one."
        )
    if sure < 0.5 and like_it > 0:
        return f"Nothing much like it has a label yet, and {others} like this one."
    return f"It would confirm what the table expects; {others} like this one."


def _confused(points: np.ndarray, labels: list[Any]) -> list[Confused]:
    """Pairs of classes, from the nearest other labelled item of each labelled one, ties by insertion.

    Not by code alone: codes were learned from these very labels, and hardly ever confuse them.
    """
    has, classes = members(labels)
    if len(labels) < LEAST_LABELLED or classes is None:
        return []
    own = has.argmax(axis=1)
    alike = points @ points.T
    np.fill_diagonal(alike, -np.inf)
    other = own[alike.argmax(axis=1)]
    mixed = np.zeros((len(classes), len(classes)))
    np.add.at(mixed, (own, other), 1)
    sizes = has.sum(axis=0)
    mixed += mixed.T
    pairs = [
        Confused(classes[a], classes[b], round(float(mixed[a, b] / (sizes[a] + sizes[b])), 4))
        for a, b in zip(*np.nonzero(np.triu(mixed, 1)), strict=True)
    ]
    return sorted(pairs, key=lambda pair: -pair.share)[:PAIRS]


def _plain(one: Any) -> Any:
    return one.item() if isinstance(one, np.generic) else one
