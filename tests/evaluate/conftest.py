"""Fixtures of the tests of protocols."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream.evaluate import protocols


@pytest.fixture(scope="module")
def data() -> protocols.PreparedDataset:
    """Ten classes of different sizes, called by letters."""
    rng = np.random.default_rng(1)
    y = np.repeat(list("jihgfedcba"), np.arange(60, 110, 5))
    X = 2 * rng.standard_normal((10, 14))[np.unique(y, return_inverse=True)[1]]
    X += rng.standard_normal(X.shape)
    order = rng.permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    return protocols.PreparedDataset("letters", X, y, protocols.Setting(per_class=8, stream=600, every=100))
