"""PosteriorHash: codes that round the probabilities of the classes. Our own method, and the one to take by default.

`posterior_steps.py` is the method as a short paper, `posterior_functions.py` computes hash functions by it, and
`posterior_watch.py` notices change. This file keeps the state along a stream, which has two stages:

1. until 1,000 rows have come, the rows themselves are kept;
2. then the map is drawn, and rows are summed in blocks of 500, with a sample of them for the choice of settings. Where
   the watch says that the stream has changed, everything before the change is forgotten: back to 1.

The hash functions change at few points of the stream: when the sums have grown by a quarter, when most rows since the
last change are of classes that have doubled, and when a class is new. So codes that are stored stay current for long,
and the number of versions grows with that of the classes and the logarithm of the stream. Functions are computed when
they are first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import posterior_steps as steps
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.estimator import check_fitted
from hashstream.hashers.features import FeatureMapLike, as_sample, same_map
from hashstream.hashers.generators import RandomState, copy_generator
from hashstream.hashers.labels import LabelBook, Labels
from hashstream.hashers.merging import check_mergeable
from hashstream.hashers.posterior_functions import (
    Functions,
    LateFunctions,
    Plain,
    Rows,
    Snapshot,
    generators,
)
from hashstream.hashers.posterior_rows import Classes, KeptRows, class_sets
from hashstream.hashers.posterior_state import (
    BLOCK,
    FIRST_ROWS,
    FUNCTION_FIELDS,
    LEARNING_FIELDS,
    PLAIN_FIELDS,
    WATCH_FIELDS,
    check_posterior_state,
)
from hashstream.hashers.posterior_steps import Map, Sums
from hashstream.hashers.posterior_watch import HORIZONS, NO_TEST, Watch, few_features, usual_mix
from hashstream.hashers.registry import register
from hashstream.hashers.rounding import Bounded
from hashstream.hashers.state_fields import Field
from hashstream.hashers.threads import on_one_thread
from hashstream.hashers.validation import check_count, check_number, check_numbers

__all__ = ["PosteriorHash"]

GROWTH = 1.25
"""The hash functions change when the sums have grown by this factor."""
NEW_ROWS = 10
"""Rows of a new class after which the hash functions change."""
MAX_WIDTH, MAX_SAMPLE = 8192, 20_000


@register
class PosteriorHash(OnlineHasher):
    """Codes whose Hamming distance ranks by the probability of a common class. Nothing has to be tuned.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    plain_bits : int
        How many of them, the last ones, stay as they are before the first label: signs of a random projection of the
        centred rows. All others are learned. For streams of few labels: see Notes.
    width : int
        Number of random features; 0 for a linear model, which is faster and smaller.
    sample_size : int
        Rows of the stream that are kept for the choice of settings.
    openness : float
        Weight, from 0, of a second test of the codes, in which a third of the classes is left out of the posterior as
        if it had never been taught. Larger values give softer codes.
    drift : bool
        Watch for change: fade with the horizon that predicts best, and start again after a sudden change.
    sample : (n, d) array, optional
        Rows to draw the map from, instead of the first 1,000 of the stream. Learners that are to be merged need the
        same sample and the same `random_state`. It is saved with the model, as all parameters are.
    batch_size : int
        Rows per piece: the watch looks at every piece, and functions change after whole pieces.
    feature_map, random_state
        As in every method.

    Attributes
    ----------
    codewords_ : (n_classes, n_bits - plain_bits) int8 array
        The codeword of each class of `classes_`; zeros where no row of it has been learned.
    plain_, plain_origin_ : (d, plain_bits) and (d,) arrays
        The projection of the plain bits, and what it is centred by; only where there are any.
    sum_weights_, sum_means_, sum_scatter_
        n_c, mu_c and Sw (a packed triangle); empty until the map is drawn.
    horizon_ : float
        About how many of the last rows count: infinite where nothing is forgotten.
    changes_ : int
        How often the stream has changed all at once, so that all but the last rows were forgotten.

    Notes
    -----
    **The method** is described in `hashstream/hashers/posterior_steps.py`.

    **Order.** Unless the watch makes them fade, the sums do not depend on the order of the rows. The map (from the
    first 1,000), the codewords (in order of first appearance) and the sample (random) do.

    **Labels.** A row with several labels is learned as one row for each, with an equal share; leave-one-out leaves out
    one of these at a time, so it is not exact then. Classes may come at any time and need not come again. With one
    class so far, codes are those of a random projection.

    **Corrected labels** (`relabelled`). As long as all rows are kept as they came (`can_correct`: fewer than 1,000, no
    `sample`, no change of the stream), a corrected row takes its new label in its old place, and a row that is taken
    back is dropped. The hash functions are then those of the same rows as before with the labels of now, bit for bit,
    or of all rows where they would have changed. Not undone: classes that a wrong label has brought stay in `classes_`,
    without a codeword, and classes that come later get another codeword than without them. Functions may also change
    at other rows of the stream than without the rows that were taken back. A row is found by its features, up to
    rounding, and its old label; one that is not there is learned in addition. Later, all are: it is not known how much
    a row that was summed still counts.

    **Few labels.** A learned bit says nothing about what tells rows of one class, or of classes without labels, from
    each other. With fewer than some 20 labels per class codes are therefore worse at finding the nearest rows than
    those of a random projection. `plain_bits` keeps some of these. They never change, and are centred by the mean of
    the first batch (the first `batch_size` rows of it; by 0 where these are fewer than 20) or of `sample`. Next to the
    values of learned bits, theirs are about as large as those of an unsure row.

    **Cost** per row: O(m^2), m = d + width; per solution O(m^3), and O(sample_size^2 r) to choose the rounding; per new
    class O(C r). Encoding: O(d (q + C) + q width + (width + r) C + r^2), q = 64 (d up to 128 features). State: m^2 / 2
    + 2 C m + (sample_size + 1,000) d numbers, and 640 C + 41,000 of the watch; until functions are computed, the sums
    that they follow from are held as well. Up to 1,000 of the last rows are kept as they are, and the sample, centred
    and scaled.

    Examples
    --------
    >>> import hashstream as hs
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hs.PosteriorHash(n_bits=32, random_state=0).fit(X[:1500], y[:1500])
    >>> codes = hasher.transform(X)
    >>> hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500])["mAP"] > 0.9
    True
    """

    reference = "hashstream"
    state_size = "(d + w)^2 / 2 + C (d + w) + 2,000 d"
    multilabel = True
    refresh_policy = "grown:0.2"
    colour = "#c2185b"
    marker = "8"
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {"openness": (0.0, 0.5, 2.0)}

    corrects_labels = True
    encodes_at_once = True
    state_fields: ClassVar[dict[str, Field]] = {
        **FUNCTION_FIELDS,
        **LEARNING_FIELDS,
        **WATCH_FIELDS,
        **PLAIN_FIELDS,
    }

    _late: LateFunctions
    _map: Map | None
    _watch: Watch | None

    def __init__(
        self,
        n_bits: int = 32,
        *,
        plain_bits: int = 0,
        width: int = 1024,
        sample_size: int = 1000,
        openness: float = 0.5,
        drift: bool = True,
        sample: ArrayLike | None = None,
        batch_size: int = 100,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.plain_bits = plain_bits
        self.width = width
        self.sample_size = sample_size
        self.openness = openness
        self.drift = drift
        self.sample = sample
        self.batch_size = batch_size
        self.feature_map = feature_map
        self.random_state = random_state

    def check_parameters(self) -> None:
        super().check_parameters()
        if check_count("plain_bits", self.plain_bits, 0) >= self.n_bits:
            raise ValueError(
                f"plain_bits must be less than n_bits={self.n_bits}, so that a bit is learned, not {self.plain_bits}"
            )
        check_count("width", self.width, 0, MAX_WIDTH)
        check_count("sample_size", self.sample_size, 50, MAX_SAMPLE)
        check_number("openness", self.openness, zero=True)
        if not isinstance(self.drift, (bool, np.bool_)):
            raise ValueError(f"drift must be True or False, not {self.drift!r}")
        check_numbers("sample", self.sample)

    def check_state(self) -> None:
        super().check_state()
        check_posterior_state(self)

    def _stored_map(self) -> Map:
        return Map(self.origin_, self.reduction_, self.basis_, self.directions_)

    # ---- learning

    def _start(self, X: np.ndarray) -> None:
        self._drop_functions()
        plain = int(self.plain_bits)
        self.codewords_ = np.zeros((0, self.n_bits_ - plain), np.int8)
        self.changes_ = 0
        self.seed_ = int(self.rng_.integers(1 << 62))
        self._begin(X[:0])
        first = X
        if self.sample is not None:
            sample = as_sample(self.sample, self.n_features_in_, X.dtype)
            first = sample if self.feature_map_ is None else self.feature_map_.transform(sample)
            self._draw(first)
        if plain:
            drawn = Plain.draw(first, plain, self.seed_)
            self.plain_, self.plain_origin_ = drawn.directions, drawn.origin

    @property
    def _plain(self) -> Plain | None:
        return Plain(self.plain_origin_, self.plain_) if "plain_" in self.__dict__ else None

    def _initial_projection(self, d: int) -> np.ndarray | None:
        self._change_functions()  # functions of no row are those of a random projection
        return None

    def _begin(self, none: np.ndarray) -> None:
        """Forget all rows; none: (0, d)."""
        self._map, self._watch = None, None
        nothing = Rows(none, np.zeros(0, np.int64), np.zeros(0))
        self._keep_recent(nothing, np.zeros(0, np.int8), 0)
        self._keep_sums(Sums.empty(0, none.dtype))
        self._keep_sample(nothing, 0)
        self.function_weights_: np.ndarray = np.zeros(0)
        self.since_ = 0.0

    def _draw(self, X: np.ndarray) -> None:
        """Draw the map from rows X: from here on rows are summed."""
        self._use_map(Map.draw(X, int(self.width), generators(self.seed_)[0]))

    def _use_map(self, drawn: Map) -> None:
        self._map = drawn
        none = self.recent_[:0]
        self._keep_sums(Sums.empty(drawn.size, none.dtype))
        self._keep_sample(Rows(drawn.rows(none), np.zeros(0, np.int64), np.zeros(0)), 0)

    def _keep_recent(self, rows: Rows, wrong: np.ndarray, unsummed: int) -> None:
        self.recent_, self.recent_numbers_, self.recent_weights_ = rows.values, rows.numbers, rows.weights
        self.recent_wrong_, self.unsummed_ = wrong, unsummed

    def _keep_sums(self, sums: Sums) -> None:
        self.sum_weights_, self.sum_means_, self.sum_scatter_ = sums.weights, sums.means, sums.scatter

    def _keep_sample(self, rows: Rows, seen: int) -> None:
        self.sample_, self.sample_numbers_, self.sample_weights_ = rows.values, rows.numbers, rows.weights
        self.sampled_ = seen

    @property
    def _recent(self) -> Rows:
        return Rows(self.recent_, self.recent_numbers_, self.recent_weights_)

    @property
    def _sums(self) -> Sums:
        return Sums(self.sum_weights_, self.sum_means_, self.sum_scatter_)

    @property
    def _sample(self) -> Rows:
        return Rows(self.sample_, self.sample_numbers_, self.sample_weights_)

    @property
    def _drawn(self) -> bool:
        return len(self.sum_scatter_) > 0

    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        if self.codewords_.shape[1] != self.n_bits_ - self.plain_bits:
            raise ValueError(
                f"plain_bits is {self.plain_bits} now, but this model was fitted with "
                f"{self.n_bits_ - self.codewords_.shape[1]}: call fit to start over"
            )
        self._restore()
        if not self.drift:
            self._watch = None
        rows = _with_classes(X, labels)
        self._take_codewords(rows.numbers)
        version, at = 0, 0
        while at < len(rows):
            room = (BLOCK if self._drawn else FIRST_ROWS) - self.unsummed_
            self._append(rows[at : at + room])
            version += self._after_rows()
            at += room
        if "_late" not in self.__dict__ and "weights_" not in self.__dict__:  # no row has a label set
            self._change_functions()
            version += 1
        return version

    def _take_codewords(self, numbers: np.ndarray) -> None:
        """Give a codeword to each class that has none yet, in the order of first appearance."""
        T = self.codewords_
        if (more := len(self.label_book_) - len(T)) > 0:
            T = np.concatenate([T, np.zeros((more, T.shape[1]), np.int8)])
        new = numbers[~T[numbers].any(axis=1)]
        if len(new):
            T = T.copy()
            distinct, first = np.unique(new, return_index=True)
            for c in distinct[np.argsort(first)]:
                T[c] = steps.next_codeword(T[T.any(axis=1)], T.shape[1], self.rng_)
        self.codewords_ = T

    def _append(self, rows: Rows) -> None:
        wrong = np.full(len(rows), NO_TEST, np.int8)
        if self._watch is not None and self._map is not None and len(rows):
            few = few_features(self._map, self._map.rows(rows.values))
            self._watch, wrong = self._watch.test(few, rows.numbers)
        wrong = np.concatenate([self.recent_wrong_, wrong])
        self._keep_recent(self._recent.plus(rows), wrong, self.unsummed_ + len(rows))

    def _after_rows(self) -> int:
        """Draw, sum, forget and change the functions where it is time; returns 1 where they change."""
        if self._has_changed():
            self.changes_ += 1
        if not self._drawn and self.unsummed_ < FIRST_ROWS:
            return self._change_before_map()
        if not self._drawn:
            self._draw(self.recent_)
        new = self._has_new_class() or not len(self.function_weights_)
        if self.unsummed_ < BLOCK and not new:
            return 0
        self._sum()
        before = np.append(
            self.function_weights_, np.zeros(len(self.sum_weights_) - len(self.function_weights_))
        )
        total, grown = self.sum_weights_.sum(), np.maximum(self.sum_weights_ - before, 0)
        doubled = grown[self.sum_weights_ >= 2 * before].sum() >= grown.sum() / 2 > 0
        if not (new or doubled or self.since_ >= (1 - 1 / GROWTH) * total):
            return 0
        self._change_functions()
        return 1

    def _has_new_class(self) -> bool:
        pending = np.bincount(self.recent_numbers_[len(self.recent_) - self.unsummed_ :])
        known = self.sum_weights_[: len(pending)]
        pending[: len(known)][known > 0] = 0
        return bool((pending >= NEW_ROWS).any())

    def _change_before_map(self) -> int:
        """Change the functions, where it is time, while they are those of the rows that are kept."""
        weights, before = _class_weights(self._recent), self.function_weights_
        new = np.count_nonzero(weights) > np.count_nonzero(before)
        if not new and weights.sum() < GROWTH * before.sum():
            return 0
        self._change_functions()
        return 1

    def _drop_functions(self) -> None:
        for name in (*FUNCTION_FIELDS, "_late", "_found"):
            self.__dict__.pop(name, None)

    def _change_functions(self, first: int | None = None) -> None:
        """Functions of the current state, to be computed when they are asked for; before there is a map, of the first
        rows alone, where their number is given."""
        self._drop_functions()
        sums, rows = (self._sums, self._sample) if self._drawn else (None, self._recent[:first])
        self._late = self._late_functions(sums, rows)
        self.function_weights_ = self.sum_weights_ if self._drawn else _class_weights(rows)
        self.since_ = 0.0

    def _late_functions(self, sums: Sums | None, rows: Rows) -> LateFunctions:
        return LateFunctions(
            Snapshot(
                self._map,
                sums,
                rows,
                self.codewords_,
                self.seed_,
                int(self.width),
                float(self.openness),
                self._plain,
            )
        )

    # ---- correcting

    def can_correct(self) -> bool:
        if not hasattr(self, "n_seen_"):
            return self.sample is None
        return "sum_scatter_" in self.__dict__ and not self._drawn and not self.changes_

    def _relabel(self, X: np.ndarray, old: Labels, new: Labels) -> int:
        lost, version = self._correct(X, class_sets(old), class_sets(new))
        if len(lost):
            version += self._learn(X[lost], new[lost])
            self.n_seen_ += len(lost)
        return version

    def _take_back(self, X: np.ndarray, old: Labels) -> int:
        lost, version = self._correct(X, class_sets(old), [()] * len(X))
        self.n_seen_ = max(0, self.n_seen_ - (len(X) - len(lost)))
        return version

    def _correct(self, X: np.ndarray, old: list[Classes], new: list[Classes]) -> tuple[np.ndarray, int]:
        """Give rows other classes, or none; returns the rows that are not kept, and 1 where the functions change."""
        self._restore()
        if not self.can_correct():  # rows that were learned in addition have made this one too many
            return np.arange(len(X)), 0
        kept = KeptRows(self._recent, float(self.function_weights_.sum()))
        found = [kept.change(*row) for row in zip(X, old, new, strict=True)]
        lost = np.flatnonzero(~np.array(found, bool))
        if not kept.changed:
            return lost, 0
        before = np.unique(self.recent_numbers_)
        rows, counted = kept.rows()
        T = self.codewords_.copy()
        T[np.setdiff1d(before, rows.numbers)] = 0
        self.codewords_ = T
        self._take_codewords(rows.numbers)
        self._keep_recent(rows, np.full(len(rows), NO_TEST, np.int8), len(rows))
        self.function_weights_ = _class_weights(rows[:counted])
        version = self._after_rows()
        if kept.functions_changed and not version:
            self._change_functions(None if self._drawn else counted)
            version = 1
        return lost, version

    def _start_over(self, none: np.ndarray) -> None:
        self.codewords_ = self.codewords_[:0]
        self._begin(none)

    # ---- summing

    def _sum(self) -> None:
        """Sum the rows that are not summed yet."""
        assert self._map is not None
        classes, sums, recent = len(self.codewords_), self._sums, self._recent
        for start in range(len(recent) - self.unsummed_, len(recent), BLOCK):
            part = slice(start, start + BLOCK)
            rows = Rows(self._map.rows(recent.values[part]), recent.numbers[part], recent.weights[part])
            if self.drift:
                sums = self._faded(sums, rows, self.recent_wrong_[part])
            Z = self._map.features(rows.values, extra=len(np.unique(rows.numbers)))
            sums = sums.plus_rows(Z, rows.numbers, rows.weights, classes)
            self._take_sample(rows)
            self.since_ += float(rows.weights.sum())
        self._keep_sums(sums)
        last = slice(max(0, len(recent) - BLOCK), None)
        self._keep_recent(recent[last].copy(), self.recent_wrong_[last].copy(), 0)

    def _take_sample(self, rows: Rows) -> None:
        """Every row that counts is in the sample with the same chance (algorithm R)."""
        room = min(max(0, int(self.sample_size) - len(self.sample_)), len(rows))
        sample, seen = self._sample.plus(rows[:room]), self.sampled_ + len(rows)
        slots = self.rng_.integers(0, np.arange(self.sampled_ + room, seen) + 1)
        for i in np.flatnonzero(slots < len(sample)):
            at, row = slots[i], room + i
            sample.values[at], sample.numbers[at] = rows.values[row], rows.numbers[row]
            sample.weights[at] = rows.weights[row]
        self._keep_sample(sample, seen)

    # ---- change

    def _faded(self, sums: Sums, rows: Rows, wrong: np.ndarray) -> Sums:
        """The sums (and the weights of the sample) as they should count together with the next block of rows y."""
        assert self._map is not None
        few = few_features(self._map, rows.values)
        watch = self._watch or Watch.empty(few.shape[1], few.dtype)
        usual = usual_mix(sums.weights, rows.numbers, rows.weights)
        self._watch = watch.learn(few, rows.numbers, rows.weights, len(self.codewords_), wrong, usual)
        horizon, total = self._watch.rows, float(sums.weights.sum())
        if not isfinite(horizon) or not total:
            return sums
        share = float(min(np.exp(-rows.weights.sum() / horizon), horizon / total))
        self.sample_weights_ = self.sample_weights_ * share
        self.sampled_ = min(self.sampled_, max(int(horizon), len(self.sample_)))
        return sums.faded(share)

    def _has_changed(self) -> bool:
        """Whether the stream has changed all at once. Then everything before the change is forgotten."""
        if self._watch is None or self._map is None:
            return False
        n = self._watch.suspects(self.recent_wrong_)
        if not n or not usual_mix(self.sum_weights_, self.recent_numbers_[-n:], self.recent_weights_[-n:]):
            return False
        rows, wrong = self._recent[-n:], self.recent_wrong_[-n:]
        few = few_features(self._map, self._map.rows(rows.values))
        if not self._watch.changed(few, rows.numbers, rows.weights, wrong):
            return False
        drawn = self._map
        self._begin(self.recent_[:0])
        if self.sample is not None:
            self._use_map(drawn)
        self._append(rows.copy())
        return True

    @property
    def horizon_(self) -> float:
        """About how many of the last rows count; infinite where nothing is forgotten."""
        check_fitted(self)
        if "_map" not in self.__dict__:
            return HORIZONS[self.__dict__.get("watch_horizon_", 0)]
        return HORIZONS[0] if self._watch is None else self._watch.rows

    # ---- merging

    def merge(self, other: PosteriorHash) -> Self:
        """Add what another learner has learned, as if its stream had come as well.

        Both need the same map: the same `sample` and `random_state`, or copies of one hasher of 1,000 rows to start
        from, which then count twice. A learner of fewer than 1,000 rows has no map yet, and merges with any other.
        Codewords, plain bits and the watch stay this learner's: classes that it does not know take the next codewords.
        A learner of no row takes over the other's codewords and watch. `other` is not changed.
        """
        check_mergeable(self, other, "width", "plain_bits")
        other = other.copy()  # of one version, also where another thread learns meanwhile
        return self._publish(
            lambda mine: on_one_thread(lambda: mine._merged(other)) if other.n_seen_ else None
        )

    def _merged(self, other: PosteriorHash) -> Self:
        return self._learner(self.rng_)._merge(other)

    def _merge(self, other: PosteriorHash) -> Self:
        self._restore()
        other._restore()
        if self._map is not None and other._map is not None and not same_map(self._map, other._map):
            raise ValueError(
                "cannot merge: the maps differ, because they were drawn from different rows: give both learners the "
                "same sample and random_state, or start them as copies of one hasher, with drift=False"
            )
        if self._map is None and other._map is not None:
            self._use_map(other._map)
        if not self.n_seen_:
            self.codewords_, self.label_book_ = other.codewords_, other.label_book_
            self.rng_ = copy_generator(other.rng_)
        numbers = self._numbers_of(other)
        if other._map is not None:
            self._sum()
            theirs = other._sums
            self._keep_sums(self._sums.plus(theirs, numbers[: len(theirs.weights)], len(self.label_book_)))
            self._merge_samples(other._sample, numbers, other.sampled_)
        rest = other._recent[len(other.recent_) - other.unsummed_ :]
        self._append(Rows(rest.values, numbers[rest.numbers], rest.weights))
        if not self.n_seen_:
            self._watch = other._watch
        if not self._drawn and self.unsummed_ >= FIRST_ROWS:
            self._draw(self.recent_)
        if self._drawn:
            self._sum()
        self._change_functions()
        self.n_seen_ += other.n_seen_
        self.changes_ += other.changes_  # rows that it has forgotten are not here either
        self.version_ += other.version_ + 1
        return self

    def _numbers_of(self, other: PosteriorHash) -> np.ndarray:
        """The number here of each class of another learner; new ones take theirs, and a codeword, in its order."""
        known = set(self.label_book_.classes)
        new = [label for label in other.label_book_.classes if label not in known]
        self.label_book_ = LabelBook(self.label_book_.classes + new, other.label_book_.multilabel)
        number = {label: c for c, label in enumerate(self.label_book_.classes)}
        numbers = np.array([number[label] for label in other.label_book_.classes], np.int64)
        self._take_codewords(numbers[other.codewords_.any(axis=1)])
        return numbers

    def _merge_samples(self, theirs: Rows, numbers: np.ndarray, seen: int) -> None:
        """A sample of both streams: from each a share as large as the stream."""
        mine, total = self._sample, self.sampled_ + seen
        size = min(int(self.sample_size), len(mine) + len(theirs))
        drawn = int(self.rng_.binomial(size, seen / max(1, total)))
        take = min(max(drawn, size - len(mine)), len(theirs))
        theirs = theirs[self.rng_.permutation(len(theirs))[:take]]
        both = mine[self.rng_.permutation(len(mine))[: size - take]].plus(
            Rows(theirs.values, numbers[theirs.numbers], theirs.weights)
        )
        self._keep_sample(both[self.rng_.permutation(size)], total)

    def shared_start(self, X: np.ndarray) -> Self:
        """As in the base; the map is drawn from the first 1,000 rows of X where there is no `sample`."""
        if self.sample is not None or hasattr(self, "n_seen_"):
            return self.started(X)
        fresh = self._view()
        fresh.sample = X[:FIRST_ROWS]
        return fresh.started(X)

    def to_merge(self) -> Self:
        """A view with the functions of no row: a merge computes others, and to save those of its rows takes seconds."""
        view = self._view()
        if hasattr(view, "n_seen_"):
            view._restore()
            view._drop_functions()
            view._late = view._late_functions(None, (view._sample if view._drawn else view._recent)[:0])
        return view

    # ---- encoding

    def functions(self) -> Functions:
        """The current hash functions, computed where nobody has asked for them yet."""
        if "weights_" not in self.__dict__:
            return self._late.get()
        found: Functions | None = self.__dict__.get("_found")
        if found is None:
            found = Functions(
                self._stored_map(), self.weights_, self.offsets_, self.function_codewords_, self.dither_,
                self.dither_offsets_, self.gain_, self.hard_, self._plain,
            )  # fmt: skip
            self._found = found
        return found

    def _project(self, X: np.ndarray) -> np.ndarray:
        return self.functions().values(X)

    def _bounded(self, X: np.ndarray) -> Bounded:
        return self.functions().bounded(X)

    def widened(self) -> Self:
        wide = super().widened()
        wide.__dict__.pop("_found", None)
        return wide

    def settled(self) -> Self:
        view = super().settled()
        if hasattr(view, "n_seen_"):
            found = view.functions()
            drawn = found.map
            view.__dict__.update(
                origin_=drawn.origin, reduction_=drawn.reduction, basis_=drawn.basis, directions_=drawn.directions,
                weights_=found.weights, offsets_=found.offsets, function_codewords_=found.codewords,
                dither_=found.dither, dither_offsets_=found.dither_offsets, gain_=found.gain, hard_=found.hard,
                _found=found,
            )  # fmt: skip
            if (watch := view.__dict__.get("_watch")) is not None:
                view.__dict__.update(
                    watch_weights_=np.stack([sums.weights for sums in watch.sums]),
                    watch_means_=np.stack([sums.means for sums in watch.sums]),
                    watch_scatters_=np.stack([sums.scatter for sums in watch.sums]),
                    watch_lost_=watch.lost, watch_block_=watch.block, watch_wrong_=watch.wrong,
                    watch_tested_=watch.tested, watch_horizon_=watch.horizon,
                )  # fmt: skip
        return view

    def _restore(self) -> None:
        """Set the attributes that are made of the state, in a hasher that was loaded."""
        if "_map" in self.__dict__:
            return
        self._map, self._watch = None, None
        if self._drawn:
            self._map = self._stored_map()
        if "watch_weights_" in self.__dict__:
            parts = zip(self.watch_weights_, self.watch_means_, self.watch_scatters_, strict=True)
            self._watch = Watch.of(
                tuple(Sums(*part) for part in parts), self.watch_lost_, self.watch_block_, self.watch_wrong_,
                self.watch_tested_, self.watch_horizon_,
            )  # fmt: skip
        for name in WATCH_FIELDS:
            self.__dict__.pop(name, None)

    def _stop_learning(self) -> None:
        super()._stop_learning()
        for name in (*LEARNING_FIELDS, *WATCH_FIELDS, "_late", "_map", "_watch"):
            self.__dict__.pop(name, None)
        self.sample = None


def _class_weights(rows: Rows) -> np.ndarray:
    weights: np.ndarray = np.bincount(rows.numbers, rows.weights).astype(np.float64, copy=False)
    return weights


def _with_classes(X: np.ndarray, labels: Labels) -> Rows:
    """Rows with their classes, copied. A row of several classes is there once for each, in all with a weight of 1."""
    if labels.indicator is None:
        return Rows(X.copy(), labels.ids[labels.rank].astype(np.int64), np.ones(len(X)))
    rows, numbers = np.nonzero(labels.indicator)
    return Rows(X[rows], numbers.astype(np.int64), 1 / np.bincount(rows, minlength=len(X))[rows])
