"""Some hundred altered folders of tables; `make fuzz` has as many as one has time for."""

from __future__ import annotations

import sys

import pytest
from tests.fuzz import folders


@pytest.mark.skipif(sys.platform == "win32", reason="the fuzzer needs select and resource limits")
def test_altered_folders_are_refused_or_work() -> None:
    counts = folders.run(count=150, seed=11)
    assert counts.problems == []
    assert counts.refused > 50
    assert counts.worked > 10
