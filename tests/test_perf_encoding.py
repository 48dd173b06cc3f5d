"""`hashstream perf encoding`: its rows have other codes in other cuts, unless they are settled."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.encoding import Count, both, built, count, differing, learned, natural, show_counts


@pytest.mark.parametrize("method", ["RidgeHash", "PosteriorHash"])
def test_built_rows_show_what_settling_is_for(method: str) -> None:
    sides = both(encoder := learned(method))
    found = count(method, "built", sides, built(encoder, 400))
    assert found.rows == 400
    assert found.wrong["unsettled"] > 0
    assert found.wrong["encode"] == 0
    assert show_counts([found])


def test_built_rows_are_next_to_each_other() -> None:
    encoder = learned("RidgeHash")
    low, high = next(built(encoder, 400)).reshape(2, 200, -1)
    assert (encoder.encode(low) != encoder.encode(high)).any(axis=1).all()
    assert np.abs(low - high).max() < 1e-6


def test_a_code_that_depends_on_the_cut_is_counted() -> None:
    X = next(natural(2000))
    assert differing(lambda X: np.full((len(X), 1), len(X) == 1777, np.uint8), X) == 1777
    assert differing(lambda X: np.full((len(X), 1), len(X) == 1, np.uint8), X) == 2000
    assert differing(lambda X: np.full((len(X), 1), X.flags.c_contiguous, np.uint8), X) == 2000
    assert differing(lambda X: np.zeros((len(X), 1), np.uint8), X) == 0


@pytest.mark.parametrize(("unsettled", "settled", "fine"), [(5, 0, True), (5, 1, False), (0, 0, False)])
def test_counts_are_judged(unsettled: int, settled: int, fine: bool) -> None:
    one = Count("RidgeHash", "built, 128 features", 10, {"encode": settled, "unsettled": unsettled})
    assert show_counts([one]) is fine
