"""Learning to the last bit the same, now and when a log is replayed: on one thread, whatever the process has.

How many threads a product of matrices is cut into moves its rounding, and a model that was learned again from the same
batches must be the same model. Batches are small, so that threads would bring little.
"""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
from threadpoolctl import LibController, ThreadpoolController

from hashstream.hashers import OnlineHasher

__all__ = ["learn"]

_one = threading.Lock()  # limits are the process's: two that begin and end in turn would leave them wrong


@cache
def _libraries() -> list[LibController]:
    """The BLAS libraries of this process; found once, since looking takes milliseconds."""
    found: list[LibController] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


def learn(hasher: OnlineHasher, X: np.ndarray, y: np.ndarray | None) -> None:
    """`hasher.partial_fit(X, y)` on one thread of BLAS."""
    with _one:
        before = [(library, library.get_num_threads()) for library in _libraries()]
        several = [(library, n) for library, n in before if n != 1]
        try:
            for library, _ in several:
                library.set_num_threads(1)
            hasher.partial_fit(X, y)
        finally:
            for library, n in several:
                library.set_num_threads(n)
