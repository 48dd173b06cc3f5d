"""Hashers and protocols that misbehave, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from hashstream import LSH, DivergenceError
from hashstream.evaluate.protocols import Paper, PreparedDataset, Task


class Moving(LSH):
    """A projection that takes a random step with each batch, so that every checkpoint has its own figures."""

    def _learn(self, X: np.ndarray, labels: Any) -> bool:
        step = self.rng_.standard_normal(self.projection_.shape).astype(X.dtype)
        self.projection_ = self.projection_ + np.float32(0.1) * step
        return True


class OneThread(Moving):
    """Wants BLAS to have one thread whenever it learns."""

    def _learn(self, X: np.ndarray, labels: Any) -> bool:
        threads = {library["num_threads"] for library in threadpool_info()}
        if threads != {1}:
            raise RuntimeError(f"there are pools of {threads} threads")
        return super()._learn(X, labels)


class Diverging(Moving):
    """Cannot go on after 150 rows, in the middle of its second call."""

    def _learn(self, X: np.ndarray, labels: Any) -> bool:
        if self.n_seen_ >= 150:
            raise DivergenceError("it ran away")
        return super()._learn(X, labels)


class Mistaken(Moving):
    """Divides by nothing: a mistake of who wrote it, no divergence."""

    def _learn(self, X: np.ndarray, labels: Any) -> bool:
        return bool(1 / (len(X) - len(X)))


class Killed(Moving):
    """Has its process killed after 250 rows, as the system does where memory runs out."""

    def _learn(self, X: np.ndarray, labels: Any) -> bool:
        if self.n_seen_ >= 250:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._learn(X, labels)


class Odd(Exception):
    """An exception that cannot be made again from its arguments."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


@dataclass(frozen=True)
class InWorker(Paper):
    """A protocol that wants what a worker should have: features mapped from a file, and no ear for Ctrl-C."""

    kind = "in-worker"

    def task(self, data: PreparedDataset, seed: int, *, ties: str = "paper") -> Task:
        if not isinstance(data.X, np.memmap):
            raise TypeError(f"the features are a {type(data.X)}")
        if signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, []):
            raise TypeError("Ctrl-C was not blocked when the process began")
        return super().task(data, seed, ties=ties)
