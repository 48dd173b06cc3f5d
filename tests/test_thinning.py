"""`@pytest.mark.thinned` on products whose cases can be counted."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

PRODUCTS = """
import pytest

@pytest.mark.thinned({how!r})
@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize("b", [[], [0]])
@pytest.mark.parametrize("c", ["x", "y"])
def test_product(a, b, c):
    pass

@pytest.mark.parametrize("a", [1, 2, 3])
def test_whole(a):
    pass
"""


@pytest.mark.parametrize(
    ("how", "options", "cases"),
    [("values", [], 3), ("pairs", [], 6), (2, [], 2), ("values", ["--all-cases"], 12)],
)
def test_cases(pytester: pytest.Pytester, how: str | int, options: list[str], cases: int) -> None:
    pytester.makeconftest("from tests.conftest import *  # noqa: F403")
    pytester.makepyfile(PRODUCTS.format(how=how))
    result = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", *options)
    result.assert_outcomes(passed=cases + 3, deselected=12 - cases)
