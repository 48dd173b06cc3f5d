"""The contract of every method: `OnlineHasher`.

A method's own file defines its parameters and three steps. Validation, feature maps, pieces, versions, undoing a failed
call, encoding and saving are here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from hashstream import hamming
from hashstream.hashers.bits import Output, as_output
from hashstream.hashers.encoder import Encoder, Product
from hashstream.hashers.estimator import Transformer, check_fitted, parameter_names
from hashstream.hashers.features import FeatureMap, FeatureMapLike, check_feature_map, warmed_up
from hashstream.hashers.generators import RandomState, as_generator, copy_generator
from hashstream.hashers.labels import LabelBook, Labels, LabelsLike, as_labels, labelled, missing_rows
from hashstream.hashers.leave_one_out import leave_one_out_map
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.rounding import Bounded, unknown_bound, widened
from hashstream.hashers.state_fields import Array, Field
from hashstream.hashers.threads import lock_of, on_one_thread
from hashstream.hashers.validation import (
    as_floats,
    check_choice,
    check_count,
    check_finite,
    check_numbers,
    check_rows,
)

__all__ = ["MAX_BITS", "OnlineHasher"]

MAX_BITS = 1024
SCORED_ROWS = 2000


class OnlineHasher(Transformer, ABC):
    """A method that learns r hash functions from a labelled stream: bit k of x is 1 where f_k(x) > 0.

    A method writes `__init__` (parameters stored untouched, among them `n_bits`, `batch_size`, `feature_map` and
    `random_state`) and:

    - `check_parameters()`: raise ValueError for a parameter that is out of range (call `super()` first);
    - `_start(X)`: set the state before the first piece (n, d); `self.rng_` is there to draw from;
    - `_learn(X, labels)`: learn from one piece of at most `batch_size` rows;
    - `_project(X)`: the real values whose signs are the bits, (n, n_bits); by default `X @ self.projection_`. It need
      not work before the first `_learn`: until then a hasher encodes by the projection that `_start` has set, or by a
      random one (`started`).
    - `_relabel(X, old, new)` and `_take_back(X, old)`: count rows with other labels, or no longer, where the method
      `corrects_labels`.

    State lives in attributes that end with an underscore. `_learn` must *replace* them and never write into them: it
    is given a copy that shares them with the model that others read meanwhile. Arrays, numbers, strings, lists of these
    and random generators are saved and loaded without further work. Model files are untrusted: declare the entries in
    `state_fields` (see `state_fields.py`), and check in `check_state()` what a declaration cannot express, so that
    `_learn` and `_project` never see a state that this method could not have produced.

    Threads: learning gives the same bits in every thread and with any number of BLAS threads, as it runs on one
    (`hashstream.hashers.threads`; a method that computes state later than in `_learn` does so in `on_one_thread`). What
    is learned is published in one step when the call is done: `transform` and `decision_function` of other threads see
    the model before the call or after it. Calls of `partial_fit` on one hasher are done one after the other.

    Attributes
    ----------
    projection_ : (d, n_bits) array
        W, where the method is a projection.
    version_ : int
        Grows whenever the code of an input may have changed.
    n_seen_ : int
        Rows learned from.
    classes_ : list
        The labels seen, in order of first appearance (ascending within a piece); for label matrices the columns.
    initial_ : (d, n_bits) array
        The projection that encodes until the first row is learned. Only in a hasher that was `started`, has learned
        nothing and has no `projection_` to use.
    n_features_in_ : int
        d, the width of the input (before the feature map).
    """

    reference: ClassVar[str] = ""
    """Where the method was published."""
    needs: ClassVar[str] = "labels"
    """Supervision that it learns from: "labels", "pairs of labels" or "nothing"."""
    state_size: ClassVar[str] = "d r"
    """Size of the state in numbers, in terms of d, r, C (classes) and its own parameters."""
    colour: ClassVar[str] = ""
    """Colour in plots, as "#rrggbb"; chosen from the name where it is empty."""
    marker: ClassVar[str] = ""
    """Marker in plots, as Matplotlib names it."""
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Parameter -> the values that `hashstream tune` tries unless told otherwise."""
    refresh_policy: ClassVar[str] = "every:100"
    """When a table re-encodes its items, unless told otherwise: the text of a policy."""
    variant_of: ClassVar[str] = ""
    """Name of the method that this one exists to be compared with; "" for a method in its own right."""
    needs_labels: ClassVar[bool] = True
    multilabel: ClassVar[bool] = False
    """True where y may be a 0/1 matrix."""
    corrects_labels: ClassVar[bool] = False
    """True where `relabelled` takes the old labels back out; see `can_correct` for what it may depend on."""
    encodes_at_once: ClassVar[bool] = False
    """True where the method has functions of its own before anything is learned, without being a projection."""
    state_fields: ClassVar[dict[str, Field]] = {"initial_": Array("d r", optional=True)}
    """Entry of the state -> its dtype, shape and range, in addition to those of the classes above."""

    n_bits: int
    batch_size: int
    feature_map: FeatureMapLike
    random_state: RandomState

    projection_: np.ndarray
    initial_: np.ndarray
    n_bits_: int
    version_: int
    n_seen_: int
    label_book_: LabelBook
    feature_map_: FeatureMap | None
    rng_: np.random.Generator
    dtype_: str
    n_features_in_: int

    # ---- learning

    def fit(self, X: ArrayLike, y: LabelsLike | None = None) -> Self:
        """Forget everything, then learn the rows of X as a stream in pieces of `batch_size`.

        Equal to a fresh `partial_fit` for each piece in turn. It begins a new model, whose versions count from 0.
        Rows without a label are left out, as in `partial_fit`; where no row has one, ValueError, and nothing changes.
        """
        fresh = self._view()
        for name in state(fresh):
            delattr(fresh, name)
        fresh.check_parameters()
        X = check_finite(check_rows(fresh, X, first=True, narrow=True))
        X, y = labelled(X, fresh.check_labels(y, len(X)))
        if not len(X):
            raise ValueError("y has no label: every entry is missing, so there is nothing to learn from")
        step = fresh._piece_rows()
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            fresh = fresh._learned(as_floats(X[rows]), None if y is None else y[rows])
        with lock_of(self):
            self.__dict__ = fresh.__dict__
        return self

    def partial_fit(self, X: ArrayLike, y: LabelsLike | None = None) -> Self:
        """Learn from one batch of any size; more than `batch_size` rows are learned in pieces of it.

        X : (n, d) array, or tensor of PyTorch. float64 and float32 are computed in as they come (the first batch
            decides for the model); integers, float16 and bfloat16 are taken as float32.
        y : (n,) labels of any hashable kind, or, for a method with `multilabel`, an (n, C) matrix of 0 and 1.
            A new class may appear at any time. None, NaN, NaT and pandas.NA mean that a row has no label (in a matrix,
            anywhere in its row): it is not learned from, and the model is as if it had not been given. Any other
            value is a label, -1 and "" included. A batch in which no row has a label changes nothing; as the first
            batch, too, so that the model is still not fitted.

        If anything raises, the model is as it was before the call.
        """

        def learn(before: Self) -> Self | None:
            after = before.learned(*before.check_batch(X, y))
            return None if after is before else after

        return self._publish(learn)

    def _publish(self, learn: Callable[[Self], Self | None]) -> Self:
        """Take over the state of `learn(a copy of this hasher)`, in one step and only if it does not raise; None means
        that there was nothing to learn."""
        with lock_of(self):
            while True:
                before = self.__dict__
                after = learn(self._view())
                if after is None:
                    return self
                if self.__dict__ is before:
                    self.__dict__ = after.__dict__
                    return self
                # `fit`, or the handler of a signal, has come in between: learn on top of it.

    def check_batch(self, X: ArrayLike, y: LabelsLike | None) -> tuple[np.ndarray, np.ndarray | None]:
        """X and y as checked arrays; ValueError where this hasher cannot learn from them.

        Sets the number of features where this hasher has learned nothing yet.
        """
        self._check_once()
        first = not hasattr(self, "n_seen_")
        if not first and not hasattr(self, "rng_"):
            raise ValueError("these are the hash functions of one version: they encode, and cannot learn")
        if not first and self.n_bits != self.n_bits_:
            raise ValueError(
                f"n_bits is {self.n_bits} now, but this model was fitted with {self.n_bits_}: call fit to start over"
            )
        X = check_finite(check_rows(self, X, first=first))
        return X, self.check_labels(y, len(X))

    def learned(self, X: np.ndarray, y: np.ndarray | None) -> Self:
        """A hasher that has also learned from a batch: X and y as `check_batch` returns them.

        This one stays as it is. Where no row has a label, it is what is returned.
        """
        X, y = labelled(X, y)
        return self._learned(X, y) if len(X) else self

    def relabelled(self, X: np.ndarray, old: np.ndarray, new: np.ndarray) -> Self:
        """A hasher for which rows that this one has learned with the labels `old` count with the labels `new`.

        X (k, d), old and new as `check_batch` returns them, no old label missing. Where a new label is missing, the old
        one is taken back and no other takes its place.

        Where `can_correct()`, the model is as if the rows had been learned with the new labels from the beginning, up
        to rounding and the order of the classes; rows that are taken back, as if they had never been learned: `n_seen_`
        falls by them. A class that has lost all its rows stays in `classes_`. Where no row is left, the hasher is one
        that was `started`, without classes. For a method that does not learn from labels nothing changes.

        Otherwise the rows are learned with the new labels in addition, and labels cannot be taken back: rows without a
        new one leave the model as it is.

        This one stays as it is. Where nothing changes, it may be what is returned.
        """
        check_fitted(self)
        if not len(X) == len(old) == len(new):
            raise ValueError(
                f"{len(X)} rows have {len(old)} old and {len(new)} new labels: one old and one new label per row"
            )
        if (missing := missing_rows(old)) is not None:
            raise ValueError(f"old[{int(missing.argmax())}] is missing: only labels can be corrected")
        if not len(X):
            return self
        if not self.n_seen_:
            raise ValueError("no row has been learned, so there is no label to correct")
        if not self.can_correct():
            return self.learned(X, new)
        return on_one_thread(lambda: self._learner(self.rng_)._relabel_rows(X, old, new))

    def can_correct(self) -> bool:
        """Whether `relabelled` takes the old labels back out, with these parameters and after this stream."""
        return self.corrects_labels

    def started(self, X: np.ndarray) -> Self:
        """A hasher that can encode before it has learned anything: X (n, d) as `check_rows` returns it, n >= 1.

        It has the state of the beginning of a stream whose first rows are X: the feature map is warmed up on them, and
        nothing is learned (`n_seen_` and `version_` are 0). Codes are those of the projection that the method begins
        with, or, where it begins with none, of a random one; `version_` grows when learning replaces them. Learning
        goes on as if X had been the first batch, with the same random numbers.

        This one stays as it is. Where it has started already, it is what is returned.
        """
        if hasattr(self, "n_seen_"):
            return self
        fresh = self._view()
        fresh._check_once()
        fresh.n_features_in_ = check_finite(X).shape[1]
        rng = as_generator(self.random_state)
        return on_one_thread(lambda: fresh._learner(rng)._started(X))

    def shared_start(self, X: np.ndarray) -> Self:
        """The hasher whose copies learn the parts of a stream and are then merged (`fit_parts`): X as in `started`.

        As `started`, with everything set that learners have to agree in. A method that needs more overrides it.
        """
        return self.started(X)

    def to_merge(self) -> Self:
        """A view to be saved and merged into another learner: it need not encode well."""
        return self._view()

    def _started(self, X: np.ndarray) -> Self:
        self._set_initial(self._start_stream(X).shape[1])
        return self

    def _set_initial(self, d: int) -> None:
        if (initial := self._initial_projection(d)) is not None:
            self.initial_ = initial

    def _initial_projection(self, d: int) -> np.ndarray | None:
        """The projection (d, n_bits) that encodes until the first row is learned; None where the method's own functions
        can, as `_start` has left them."""
        W: np.ndarray | None = self.__dict__.get("projection_")
        if W is not None and W.any():
            return None if self.is_projection() else W
        apart = as_generator(copy_generator(self.rng_))  # what the method draws later stays the same
        return initial_projection(None, apart, d, self.n_bits_, self.dtype_)

    def _learned(self, X: np.ndarray, y: np.ndarray | None) -> Self:
        """A hasher that has also learned these rows; this one is left as it is."""
        rng = self.rng_ if hasattr(self, "n_seen_") else as_generator(self.random_state)
        return on_one_thread(lambda: self._learner(rng)._learn_rows(X, y))

    def _learner(self, rng: np.random.Generator) -> Self:
        """A view that may learn: it has a copy of the generator, the only part of the state that is written into."""
        learner = self._view()
        learner.rng_ = copy_generator(rng)
        return learner

    def _learn_rows(self, X: np.ndarray, y: np.ndarray | None) -> Self:
        Z = self._features(X) if hasattr(self, "n_seen_") else self._start_stream(X)
        step = self._piece_rows()
        for start in range(0, len(Z), step):
            rows = slice(start, start + step)
            if y is None:
                labels = Labels(np.empty(0, np.intp), np.empty(0, np.intp))
            else:
                self.label_book_, labels = self.label_book_.read(y[rows])
            moved = self._learn(Z[rows], labels)
            if "initial_" in self.__dict__:
                del self.initial_
                moved = max(1, moved)
            self.version_ += moved
            self.n_seen_ += len(Z[rows])
        return self

    def _relabel_rows(self, X: np.ndarray, old: np.ndarray, new: np.ndarray) -> Self:
        gone = missing_rows(new)
        kept = np.arange(len(X)) if gone is None else np.flatnonzero(~gone)
        for rows in self._pieces(kept):
            before = self._read_known(old[rows])
            self.label_book_, after = self.label_book_.read(new[rows])
            self.version_ += self._relabel(self._features(X[rows]), before, after)
        if gone is None:
            return self
        for rows in self._pieces(np.flatnonzero(gone)):
            Z = self._features(X[rows])
            self.version_ += self._take_back(Z, self._read_known(old[rows]))
        if not self.n_seen_:
            self.label_book_ = LabelBook()
            self._start_over(Z[:0])
            self._set_initial(Z.shape[1])
        return self

    def _pieces(self, rows: np.ndarray) -> list[np.ndarray]:
        step = self._piece_rows()
        return [rows[start : start + step] for start in range(0, len(rows), step)]

    def _read_known(self, old: np.ndarray) -> Labels:
        """Labels of rows that were learned, as class numbers."""
        known = len(self.label_book_)
        book, labels = self.label_book_.read(old)
        if self.needs_labels and len(book) > known:
            raise ValueError(f"no row with the label {book.classes[known]!r} has been learned")
        return labels

    def _start_stream(self, X: np.ndarray) -> np.ndarray:
        """Set the state before the first row of a stream that begins with X; returns X after the feature map."""
        self.n_bits_ = int(self.n_bits)
        self.dtype_ = str(X.dtype)
        self.feature_map_ = warmed_up(self.feature_map, X, self.rng_)
        self.label_book_ = LabelBook()
        self.version_ = 0
        self.n_seen_ = 0
        Z = self._features(X)
        self._start(Z[: self._piece_rows()])
        return Z

    def _check_once(self) -> None:
        """`check_parameters`, but not again for the very same objects: a batch may take less time than the checks."""
        given = [self.__dict__[name] for name in parameter_names(type(self))]
        checked = self.__dict__.get("_checked", ())
        if len(checked) != len(given) or any(a is not b for a, b in zip(given, checked, strict=True)):
            self.check_parameters()
            self._checked = given

    def copy(self) -> Self:
        """Another hasher that goes on from here: what one of them learns, the other does not see.

        Learning never writes into arrays, so they are shared, and the copy costs nothing.
        """
        return self._view() if hasattr(self, "n_seen_") else deepcopy(self)

    def _view(self) -> Self:
        """Another object with the same parameters and state: what it sees does not change while this one learns."""
        view = object.__new__(type(self))
        view.__dict__ = dict(self.__dict__)
        return view

    def settled(self) -> Self:
        """A view of which the state is complete: what a method computes only when it is needed, is computed."""
        return self._view()

    def _stop_learning(self) -> None:
        """Drop the state that only learning needs. Called on a view that is settled."""
        self.__dict__.pop("rng_", None)

    def _piece_rows(self) -> int:
        """The largest number of rows that `_learn` is given at once."""
        return int(self.batch_size)

    def check_labels(self, y: LabelsLike | None, n: int) -> np.ndarray | None:
        """y as an array with one label per row, or None; a ValueError where it cannot be. n : rows."""
        if y is None:
            if self.needs_labels:
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None: "
                    "it learns from labels"
                )
            return None
        y = as_labels(y)
        if y.ndim == 0 or len(y) != n:
            raise ValueError(f"X has {n} rows, but y has shape {y.shape}: it needs one label per row")
        if y.ndim == 2 and not self.multilabel:
            raise ValueError(
                f"{type(self).__name__} takes one label per row, not a matrix of shape {y.shape}"
            )
        return y

    # ---- encoding

    def encoder(self) -> Encoder:
        """The current hash functions, frozen. They share this model's arrays, which learning replaces."""
        check_fitted(self)
        view = self.settled()
        initial: Any = view.__dict__.get("initial_")
        projection: Any = getattr(view, "projection_", None) if initial is None else initial
        known = view.version_, view.n_bits_, view.n_features_in_, view.dtype_, view.feature_map_, projection
        if self.is_projection() or initial is not None:  # a small encoder, as those of old versions are kept
            product = Product(projection) if view.feature_map_ is None else None
            return Encoder(*known, product, partial(_product, projection))
        view._stop_learning()
        return Encoder(*known, None, view._project, view._bounded, view)

    def widened(self) -> Self:
        """A fitted hasher with the same functions that computes in float64."""
        wide = widened(self)
        wide.dtype_ = "float64"
        wide.feature_map_ = None if self.feature_map_ is None else widened(self.feature_map_)
        return wide

    @classmethod
    def is_projection(cls) -> bool:
        """True where the values of rows, after the feature map, are X @ projection_ and nothing else."""
        return cls._project is OnlineHasher._project

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Real values whose signs are the bits: (n, n_bits) float."""
        X, encoder = self._to_encode(X)
        return encoder.decision_function(X)

    def transform(self, X: ArrayLike, output: Output | Literal["packed"] = "packed") -> np.ndarray:
        """The codes of X: (n, ceil(n_bits / 8)) uint8, bits in the order of `np.packbits`, 1 where f_k(x) > 0.

        X is encoded in blocks, so a memory-mapped X of any length and type of numbers needs no more memory than its
        codes. All codes are of one version, also where another thread calls `partial_fit` meanwhile.

        output : "packed", as tables and `hamming` take them; "bits", (n, n_bits) uint8 of 0 and 1, as scikit-learn's
            distances need them; "signs", (n, n_bits) float32 of -1 and +1. In a pipeline, the step `Bits` does this
            and follows `set_output`; this is always an array.
        """
        check_choice("output", output, ("packed", *get_args(Output)))
        checked, encoder = self._to_encode(X)
        codes = encoder.encode(checked)
        if output != "packed":
            return as_output(hamming.unpack(codes, encoder.n_bits), output)
        contained: np.ndarray = self._contained(codes, X)
        return contained

    def score(self, X: ArrayLike, y: LabelsLike | None = None) -> float:
        """Mean average precision of these rows among themselves, for scikit-learn's searches and cross-validation.

        Each row is a query for all others, ranked by the Hamming distance of their codes. Those with its label are
        relevant, or in a label matrix those that share one. This is the mAP of `evaluate.retrieval` with ties="aware",
        where no query finds itself. Rows that the hasher has learned from score higher than new ones: give others, as
        cross-validation does.

        X : (n, d). y : (n,) labels, or an (n, C) matrix of 0 and 1 for a method with `multilabel`. Rows without a label
        are left out, and so are queries whose label no other row has; ValueError where this leaves none. Of more than
        2,000 rows with labels, 2,000 are drawn, the same for every hasher, so that time and memory are bounded.
        """
        X, encoder = self._to_encode(X)
        labels = self.check_labels(y, len(X))
        if labels is None:
            raise ValueError(
                f"{type(self).__name__}.score requires y to be passed: codes are judged by labels"
            )
        missing = missing_rows(labels)
        rows = np.arange(len(X)) if missing is None else np.flatnonzero(~missing)
        if len(rows) > SCORED_ROWS:
            rows = np.sort(np.random.default_rng(0).choice(rows, SCORED_ROWS, replace=False))
        if len(rows) < len(X):
            check_finite(X)  # also in rows that are left out, and so that an error names a row of X
        read = LabelBook().read(labels[rows])[1]
        relevance = read.rank if read.indicator is None else read.indicator
        found = leave_one_out_map(encoder.encode(X[rows]), relevance, encoder.n_bits)
        if found is None:
            raise ValueError("y has no two rows that share a label, so no row can find another")
        return found

    def _to_encode(self, X: ArrayLike) -> tuple[np.ndarray, Encoder]:
        """X, checked, and the functions to encode it with, both of one version."""
        check_fitted(self)
        view = self._view()
        return check_rows(view, X, first=False, narrow=True), view.encoder()

    def _features(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused as such
            X = X.astype(self.dtype_, copy=False)
        return X if self.feature_map_ is None else self.feature_map_.transform(X)

    # ---- to be defined by a method

    def check_parameters(self) -> None:
        check_count("n_bits", self.n_bits, 1, MAX_BITS)
        check_count("batch_size", self.batch_size, 1)
        check_feature_map(self.feature_map)
        if not isinstance(self.random_state, RandomState) or isinstance(self.random_state, bool):
            raise ValueError(
                "random_state must be None, a whole number, a Generator, a SeedSequence or a RandomState, "
                f"not {self.random_state!r}"
            )
        if isinstance(self.random_state, int) and self.random_state < 0:
            raise ValueError(f"random_state must not be negative, but is {self.random_state}")
        check_numbers("init", getattr(self, "init", None))

    def check_state(self) -> None:
        """Raise ValueError, naming the entry, for a loaded state that fits `state_fields` and is still inconsistent."""

    @abstractmethod
    def _start(self, X: np.ndarray) -> None:
        """Set the state before the first piece; X is that piece after the feature map, (n, d)."""

    @abstractmethod
    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        """Learn from one piece; X (n, d) after the feature map, n at most `_piece_rows()`.

        Returns by how much `version_` grows: the number of updates, and 0 where equal input still gets equal codes.
        """

    def _relabel(self, X: np.ndarray, old: Labels, new: Labels) -> int:
        """Count rows X (k, d), after the feature map, with the labels `new` that were learned with `old`.

        Called only where `can_correct()`. Returns by how much `version_` grows. By default nothing changes, as is right
        for a method that does not learn from labels.
        """
        return 0

    def _take_back(self, X: np.ndarray, old: Labels) -> int:
        """Count rows X (k, d), after the feature map, no longer that were learned with the labels `old`.

        Called only where `can_correct()`. Lowers `n_seen_` by the rows, and returns by how much `version_` grows. By
        default nothing changes, as for `_relabel`.
        """
        return 0

    def _start_over(self, none: np.ndarray) -> None:
        """Set the state before the first row again, after the last one was taken back; none: (0, d)."""
        self._start(none)

    def _project(self, X: np.ndarray) -> np.ndarray:
        return _product(self.projection_, X)

    def _bounded(self, X: np.ndarray) -> Bounded:
        """`_project`, with bounds of its rounding (see `rounding.py`). The default suits values that are about as exact
        as the largest of their row. To be defined by a method with a `_project` of its own, where that is not so or
        bits also change elsewhere than at 0."""
        return unknown_bound(self._project(X))

    # ---- for scikit-learn

    @property
    def classes_(self) -> list[Any]:
        check_fitted(self)
        return list(self.label_book_.classes)

    @property
    def _n_features_out(self) -> int:
        return -(-self.n_bits_ // 8)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_seen_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.needs_labels
        tags.transformer_tags.preserves_dtype = []
        tags.non_deterministic = self.random_state is None
        return tags


def state(estimator: Any) -> dict[str, Any]:
    """The learned attributes of an estimator: those that end with an underscore and start with none."""
    return {name: value for name, value in vars(estimator).items() if name[-1] == "_" and name[0] != "_"}


def _product(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    projected: np.ndarray = X @ W
    return projected
