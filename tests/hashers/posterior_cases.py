"""Streams, a small PosteriorHash, and a score, for all tests of the method."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import hashstream as hs
from hashstream import PosteriorHash
from hashstream.checks import class_stream

X, Y = class_stream(n=4000)
SMALL: dict[str, Any] = {"n_bits": 16, "width": 16, "sample_size": 200, "random_state": 0}


def small(**parameters) -> PosteriorHash:
    return PosteriorHash(**{**SMALL, **parameters})


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    rows, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return rows[order].astype(np.float32), labels[order]


def precision(hasher: hs.OnlineHasher, train: Any, test: Any) -> float:
    """mAP of test rows that ask for training rows."""
    codes, asked = hasher.transform(train[0]), hasher.transform(test[0])
    return float(hs.evaluate.retrieval(asked, test[1], codes, train[1], n_bits=hasher.n_bits_)["mAP"])
