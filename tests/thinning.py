"""`@pytest.mark.thinned`: of a long product of parameters, the cases that show each value, or each pair of values."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest

__all__ = ["thinned"]


def thinned(items: list[pytest.Item]) -> list[pytest.Item]:
    """The items without the cases that the mark leaves out; the order stays."""
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thinned") and hasattr(item, "callspec"):
            groups[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for cases in groups.values():
        left_out |= {*cases} - {*_chosen(cases)}
    return [item for item in items if item not in left_out]


def _chosen(cases: list[pytest.Item]) -> list[pytest.Item]:
    """The first n cases, or, one after the other, the case that shows most that is new."""
    (how,) = cases[0].get_closest_marker("thinned").args
    if isinstance(how, int):
        return cases[:how]
    shown = [_shown(case, {"values": 1, "pairs": 2}[how]) for case in cases]
    missing, chosen = set().union(*shown), []
    while missing:
        best = max(range(len(cases)), key=lambda i: len(shown[i] & missing))
        missing -= shown[best]
        chosen.append(cases[best])
    return chosen


def _shown(case: pytest.Item, size: int) -> set[tuple[tuple[str, str], ...]]:
    """The values of a case, or its pairs of values, as text: some cannot be hashed."""
    values = sorted((name, repr(value)) for name, value in case.callspec.params.items())
    return {*itertools.combinations(values, min(size, len(values)))}
