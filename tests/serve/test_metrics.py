"""Metrics for Prometheus: what happened is counted, by route, and tables tell their figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.serve.running import Running, running
from tests.serve.worlds import N, create, fill, table_of

A = "/v1/tables/a"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as service:
        fill(service)
        yield service


def samples(service: Running) -> dict[tuple[str, tuple[str, ...]], float]:
    """Name and values of labels -> value."""
    answer = service.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (one.name, tuple(one.labels[name] for name in sorted(one.labels))): one.value
        for family in text_string_to_metric_families(answer.raw.decode())
        for one in family.samples
    }


def count(service: Running, method: str, route: str, status: int) -> float:
    return samples(service).get(("hashstream_requests_total", (method, route, str(status))), 0.0)


def test_requests_are_counted_by_route(home: Running) -> None:
    for number in range(3):
        home.post(f"{A}/search", {"like": [number], "k": 1})
    home.post(f"{A}/search", {"like": [777]})
    home.post(f"{A}/search", b"{", headers={"Content-Type": "application/json"})
    home.get("/v1/tables/nothing")
    route = "/v1/tables/{t}/search"
    assert count(home, "POST", route, 200) == 3
    assert count(home, "POST", route, 404) == 1
    assert count(home, "POST", route, 400) == 1
    assert count(home, "GET", "/v1/tables/{t}", 404) == 1
    found = samples(home)
    assert found["hashstream_request_seconds_count", (route,)] == 5
    assert found["hashstream_request_seconds_sum", (route,)] > 0
    assert found["hashstream_requests_in_flight", ()] == 1  # this one


def test_addresses_make_no_metrics(home: Running) -> None:
    """However many addresses and methods are tried, the metrics do not grow."""
    home.get("/nothing")
    home.ask("BREW", "/coffee")
    home.get(f"{A}/images/0")
    home.get("/page/0.js")
    home.get("/v1/tables/x0")
    samples(home)
    before = len(samples(home))
    for number in range(20):
        home.get(f"/nothing/{number}")
        home.ask(f"BREW{number}", f"/coffee/{number}")
        home.get(f"{A}/images/{number}")
        home.get(f"/page/{number}.js")
        home.get(f"/v1/tables/x{number}")
    after = samples(home)
    assert len(after) == before
    assert not [labels for _, labels in after if "BREW0" in labels or "x0" in labels]


def test_tables_tell_their_figures(home: Running) -> None:
    stats = table_of(home).stats()
    found = samples(home)
    assert found["hashstream_table_rows", ("a",)] == N
    assert found["hashstream_table_commits", ("a",)] == stats.commits
    assert found["hashstream_table_memory_bytes", ("a",)] == stats.memory_bytes
    assert found["hashstream_table_open", ("a",)] == 1
    assert found["hashstream_table_queued_writes", ("a",)] == 0
    create(home, "b")
    assert samples(home)["hashstream_table_rows", ("b",)] == 0
    home.ask("DELETE", "/v1/tables/b")
    assert not [labels for _, labels in samples(home) if "b" in labels]


def test_refusals_by_the_gate_are_counted(home: Running) -> None:
    home.get("/v1/tables", headers={"Host": "evil.example"})
    assert count(home, "GET", "none", 403) == 1


def test_a_table_that_cannot_be_opened(tmp_path: Path) -> None:
    """The others are served, and everybody is told."""
    with running(tmp_path) as service:
        fill(service)
        create(service, "broken")
    database = next(path for path in (tmp_path / "broken").iterdir() if path.suffix in (".sqlite", ".db"))
    database.write_bytes(b"x" * 10_000)
    with running(tmp_path) as service:
        found = samples(service)
        assert found["hashstream_table_open", ("broken",)] == 0
        assert found["hashstream_table_open", ("a",)] == 1
        info = service.get("/v1/tables/broken").body
        assert info["state"] == "failed"
        assert info["error"]
        assert service.get("/readyz").body == {"status": "tables that could not be opened: 1"}
        assert service.post(f"{A}/search", {"like": [3], "k": 1}).body["ids"] == [[3]]
        for method, path in (("POST", "search"), ("GET", "stats"), ("POST", "flush"), ("GET", "snapshot")):
            answer = service.ask(method, f"/v1/tables/broken/{path}", b"{}" if method == "POST" else None)
            assert answer.status in (409, 415), answer.raw
        assert service.ask("DELETE", "/v1/tables/broken").status == 204
        assert service.get("/readyz").body == {"status": "ok"}
