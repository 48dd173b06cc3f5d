"""The OpenAPI document is valid and true: what it allows is answered as it says, and what it forbids is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.serve.running import Running, running
from tests.serve.schema_cases import run, schema_of
from tests.serve.worlds import fill, no_errors_logged

CASES = 320


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("tables")) as found:
        fill(found)
        yield found


@pytest.fixture(scope="module")
def document(service: Running) -> dict[str, Any]:
    found: dict[str, Any] = service.get("/openapi.json").body
    return found


def test_it_is_valid(service: Running, document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    schema_of(service).validate()
    references = set(re.findall(r'"#/components/schemas/(\w+)"', service.get("/openapi.json").raw.decode()))
    assert references <= set(document["components"]["schemas"])


def test_every_route_is_described(document: dict[str, Any]) -> None:
    names = set()
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            where = f"{method} {path}"
            assert route["description"], where
            good = [status for status in route["responses"] if status.startswith("2")]
            assert len(good) == 1, where
            assert good == ["204"] or route["responses"][good[0]]["content"], where
            for status in ("4XX", "5XX"):
                assert list(route["responses"][status]["content"]) == ["application/problem+json"], where
            assert route["operationId"] not in names
            names.add(route["operationId"])


def test_a_few_hundred_cases(service: Running) -> None:
    """`tests/run_schema_fuzz.py` runs more."""
    with no_errors_logged():
        tally = run(service, CASES)
    assert not tally.wrong, "\n".join(tally.wrong[:10])
    assert tally.cases.total() > CASES / 2
    statuses = {status for counts in tally.statuses.values() for status in counts}
    assert {200, 201, 204, 400, 404, 422} <= statuses
