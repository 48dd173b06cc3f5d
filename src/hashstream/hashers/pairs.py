"""The base of the methods that learn from pairs: rows 1 and 2 of the stream are a pair, then rows 3 and 4, ..."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.errors import DivergenceError
from hashstream.hashers.labels import Labels
from hashstream.hashers.state_fields import Array, Field, Whole


class PairHasher(OnlineHasher):
    """A method that updates W once per pair of consecutive rows.

    Pairs are counted from the first row of the stream, however it is divided into calls: where a call ends between the
    two rows of a pair, the first of them waits for the next call. So W depends neither on the calls nor on
    `batch_size`, which is only the number of rows handed to the inner loop at once.

    A method writes `_start_pairs(X)` and `_learn_pairs(X, similar)` instead of `_start` and `_learn`.

    Attributes
    ----------
    waiting_ : (1, d) array
        The row that waits for its partner (after the feature map); zeros where none does.
    waiting_class_ : int
        Its class number; -1 where no row waits.
    """

    needs = "pairs of labels"
    state_fields: ClassVar[dict[str, Field]] = {
        "waiting_": Array("1 d"),
        "waiting_class_": Whole(low=-1, below="C"),
    }

    def _start(self, X: np.ndarray) -> None:
        self.waiting_ = np.zeros((1, X.shape[1]), X.dtype)
        self.waiting_class_ = -1
        self._start_pairs(X)

    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        classes = labels.ids[labels.rank]
        if self.waiting_class_ >= 0:
            X = np.concatenate([self.waiting_, X])
            classes = np.append(self.waiting_class_, classes)
        paired = len(X) // 2 * 2
        if paired < len(X):
            self.waiting_, self.waiting_class_ = X[paired:].copy(), int(classes[paired])
        else:
            self.waiting_, self.waiting_class_ = np.zeros_like(self.waiting_), -1
        if not paired:
            return 0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            similar = classes[0:paired:2] == classes[1:paired:2]
            moved = self._learn_pairs(np.ascontiguousarray(X[:paired]), similar)
            if moved and not np.isfinite(np.einsum("ij,ij->", self.projection_, self.projection_)):
                raise DivergenceError(
                    f"{type(self).__name__} left a projection that is not finite: the features or the step are too "
                    "large. The model is as before the call. Scale the features, or take a smaller step."
                )
        return moved

    @abstractmethod
    def _start_pairs(self, X: np.ndarray) -> None:
        """Set the state before the first pair; X (n, d) as in `_start`."""

    @abstractmethod
    def _learn_pairs(self, X: np.ndarray, similar: np.ndarray) -> int:
        """Learn from pairs in turn: rows 2t and 2t + 1 of X (2n, d), C-contiguous, are of one class where similar[t].

        similar : (n,) bool. Replaces `projection_` and returns how many of the pairs moved it.
        """
