"""Services for tests: to read, to change, and to harm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.refusals import BODY, A
from tests.serve.running import Running, running
from tests.serve.worlds import fill, no_errors_logged, table_of, unchanged

from hashstream.serve.limits import Limits


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with the table `a`, which the tests only read."""
    with running(tmp_path_factory.mktemp("tables")) as service:
        fill(service)
        yield service


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Running]:
    """A service with the table `a`, for one test."""
    with running(tmp_path / "tables") as service:
        fill(service)
        yield service


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with the table `a`, which is the same in the end."""
    limits = Limits(body_bytes=BODY, bodies_bytes=4 * BODY, body_seconds=1.0)
    with running(tmp_path_factory.mktemp("tables"), limits=limits) as service:
        fill(service)
        with unchanged(service):
            yield service
        assert service.post(f"{A}/search", {"like": [3], "k": 1}).body["ids"] == [[3]]


@pytest.fixture
def nothing_changes(target: Running) -> Iterator[None]:
    """Whatever a test does, no commit, no table and no error in the log comes of it."""
    commits = table_of(target).commits
    with no_errors_logged():
        yield
    assert table_of(target).commits == commits
    assert [served.name for served in target.service.tables] == ["a"]
