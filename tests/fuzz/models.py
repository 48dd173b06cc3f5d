"""Fuzzes model files: whatever a file holds, `load` raises FormatError or returns a model that works.

Case i of a seed is a mutation of a saved model (model_mutations.py), most often with a digest that fits. A model that
loads must then encode and learn twice. DivergenceError is allowed there: it says that the numbers are too large, and
leaves the model as it was. Every other exception is a problem.

    python -m tests.fuzz.models --count 10000 --seed 0      many cases
    python -m tests.fuzz.models --case 17 --seed 0          one of them again, in this process
"""

from __future__ import annotations

import traceback
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz import runner
from tests.fuzz.model_files import corpus
from tests.fuzz.model_mutations import mutated
from tests.fuzz.runner import Counts

import hashstream as hs

ROWS = 40

models = cache(corpus)


def run(seconds: float | None = None, count: int | None = None, seed: int = 0) -> Counts:
    """See `runner.run`."""
    return runner.run("tests.fuzz.models", seconds, count, seed)


def try_case(seed: int, case: int, folder: Path) -> str:
    """What became of one case: "worked", "refused", or "problem" and a sentence."""
    rng, path = np.random.default_rng([seed, case]), folder / "mutated"
    raw, what = mutated(models()[rng.integers(len(models()))], rng)
    path.write_bytes(raw)
    try:
        model = hs.load(path)
    except hs.FormatError as error:
        return "refused" if str(path) in str(error) else f"problem {what}: {error} does not name the file"
    except BaseException as error:
        return f"problem {what}: load raised {error!r}: {traceback.format_exc()[-700:]!r}"
    try:
        use(model, rng)
    except hs.DivergenceError:
        return "worked"
    except BaseException as error:
        return f"problem {what}: raised {error!r}: {traceback.format_exc()[-700:]!r}"
    return "worked"


def use(model: hs.OnlineHasher, rng: np.random.Generator) -> None:
    """Encode rows and learn from them, twice; AssertionError where the codes are not codes."""
    fitted = hasattr(model, "n_seen_")
    f = int(model.n_features_in_) if fitted else 12
    if f > 1 << 14:
        return  # no caller has rows of this many features to give
    X = rng.standard_normal((ROWS, f)).astype(model.dtype_ if fitted else np.float64)
    y = _labels(model, rng) if fitted else rng.integers(3, size=ROWS)
    if fitted:
        _encode(model, X)
    for _ in range(2):
        try:
            model.partial_fit(X, y)
        except ValueError as error:
            if not fitted and any(
                name in str(error) for name in ("init must", "sample must", "contains NaN")
            ):
                return  # a parameter that is meant for other features than these
            raise
        _encode(model, X)


def _encode(model: hs.OnlineHasher, X: np.ndarray) -> None:
    assert model.transform(X).shape == (ROWS, -(-model.n_bits_ // 8))
    assert model.decision_function(X[:3]).shape == (3, model.n_bits_)


def _labels(model: hs.OnlineHasher, rng: np.random.Generator) -> Any:
    book = model.label_book_
    if book.multilabel:
        return rng.integers(2, size=(ROWS, len(book)))
    labels = np.empty(ROWS, object)
    classes = [*book.classes[:50], "a class of its own"]
    for row, at in enumerate(rng.integers(len(classes), size=ROWS)):
        labels[row] = classes[at]
    return labels


if __name__ == "__main__":
    runner.main("tests.fuzz.models", __doc__, try_case, models)
