"""Calls of actors: small ones travel as one string of bytes, and have the values and errors of the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hashstream.scale.engine import RayActor, RayEngine, Remote, values


@pytest.fixture
def actor(engine: RayEngine) -> Iterator[RayActor]:
    class Doubling(Remote):  # here, since workers cannot import tests
        reads = frozenset({"double", "double_small"})
        small = frozenset({"double_small"})

        def double(self, X: np.ndarray, wrong: bool = False) -> dict[str, np.ndarray]:
            if wrong:
                raise KeyError("wrong")
            return {"doubled": 2 * X}

        def double_small(self, X: np.ndarray, wrong: bool = False) -> dict[str, np.ndarray]:
            return self.double(X, wrong)

    actor = engine.actor(Doubling, (), name="doubling", node=None, detached=False)
    yield actor
    engine.stop(actor)


@pytest.mark.parametrize("rows", [1, 20_000])  # sent with the call, and stored for it
def test_a_small_call_has_the_value_of_another(engine: RayEngine, actor: RayActor, rows: int) -> None:
    X = np.arange(rows, dtype=np.float64)
    shared = engine.share(X, X.nbytes)
    calls = [actor.submit(method, shared) for method in ("double", "double_small")]
    assert [call.packed for call in calls] == [False, rows == 1]
    for found in values(engine.gather(calls, 60), [actor, actor], 60):
        np.testing.assert_array_equal(found["doubled"], 2 * X)


def test_the_error_of_a_small_call_is_its_own(engine: RayEngine, actor: RayActor) -> None:
    X = np.ones(3)
    calls = [actor.submit("double_small", X, True), actor.submit("double_small", X)]
    wrong, right = engine.gather(calls, 60)
    assert isinstance(wrong.error, KeyError)
    assert not wrong.lost
    np.testing.assert_array_equal(right.value["doubled"], 2 * X)
