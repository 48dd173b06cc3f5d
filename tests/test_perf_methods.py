"""`hashstream perf methods` has a floor for every method of the library."""

from __future__ import annotations

from benchmarks.methods import METHODS

import hashstream as hs


def test_every_method_has_a_floor() -> None:
    own = {name for name, method in hs.methods().items() if method.__module__.startswith("hashstream.")}
    assert own == set(METHODS)
