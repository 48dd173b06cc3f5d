"""A program that takes a table takes a client: the same calls give the same answers, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.running import running
from tests.serve.same_tables import Scenario, compared
from tests.serve.table_mistakes import MISTAKES
from tests.serve.table_scenarios import SCENARIOS

import hashstream as hs


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hs.Client]:
    with running(tmp_path_factory.mktemp("served")) as service, hs.Client(service.url) as client:
        yield client


@pytest.mark.parametrize("scenario", [*SCENARIOS, *MISTAKES], ids=lambda scenario: scenario.__name__)
def test_the_same_answers(scenario: Scenario, client: hs.Client, tmp_path: Path) -> None:
    count, different = compared(scenario, client, tmp_path)
    assert count
    assert not different, "\n".join(different)
