"""Studies of blobs, small enough for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hashstream import datasets, evaluate
from hashstream.evaluate import protocols
from hashstream.paper import Scale, Study

SETTING = protocols.Setting(per_class=10, stream=600, every=200)


def blobs(n: int = 1000, classes: int = 5, d: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) float32 and (n,) labels, classes of equal size that overlap a little."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    X = 1.2 * rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d))
    return X.astype(np.float32), y


def small_study(
    folder: Path, *, runs: int = 1, checkpoints: tuple[int, ...] | None = (0, -1), name: str = "digits"
) -> Study:
    """A study of blobs under the name of a data set, so that its settings and printed figures apply."""
    X, y = blobs()
    data = evaluate.PreparedDataset(name, datasets.centred_unit(X), y, SETTING)
    scale = Scale("small", bits=(8,), runs=runs, checkpoints=checkpoints)
    return Study(data, evaluate.Results(folder / "results.csv"), scale)
