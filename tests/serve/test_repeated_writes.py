"""Writes that are sent more than once with one Idempotency-Key are done once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.serve.running import Answer, running
from tests.serve.worlds import (
    N,
    X,
    create,
    fill,
    item,
    key,
    no_errors_logged,
    table_of,
    until,
    writer_held,
)
from tests.table.fingerprints import differences, fingerprint

A = "/v1/tables/a"


WRITES: list[tuple[str, Any, Any]] = [
    ("items", item(700, labels=["cat"]), {"stored": 1}),
    ("items", item(700, learn=False, payloads=[{"a": 1}]), {"stored": 1}),
    ("labels", {"ids": [2, 5], "labels": ["cat", "dog"]}, {"changed": 2}),
    ("items/remove", {"ids": [1, 2]}, {"removed": 2}),
    ("items/remove", {"where": {"tenant": "a"}}, {"removed": N // 2}),
]


@pytest.mark.parametrize(("path", "body", "answer"), WRITES)
def test_a_write_is_done_once(tmp_path: Path, path: str, body: Any, answer: Any) -> None:
    """Also after a restart. Without the key, the second one would be another write."""
    with running(tmp_path) as service, no_errors_logged():
        fill(service)
        for _ in range(3):
            found = service.post(f"{A}/{path}", body, headers=key("one"))
            assert (found.status, found.body) == (200, answer), found.raw
        assert table_of(service).commits == 2
        contents = fingerprint(table_of(service), X[:5])
    with running(tmp_path) as service:
        found = service.post(f"{A}/{path}", body, headers=key("one"))
        assert (found.status, found.body) == (200, answer)
        assert table_of(service).commits == 2
        assert not differences(fingerprint(table_of(service), X[:5]), contents)


def test_a_key_of_another_write_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as service, no_errors_logged():
        fill(service)
        assert service.post(f"{A}/items", item(700), headers=key("one")).status == 200
        for path, body in (
            ("items", item(701)),
            ("items", item(700, labels=["cat"])),
            ("items", item(700, learn=False)),
            ("items", item(700, payloads=[{"a": 1}])),
            ("items", {**item(700), "vectors": [[1.0, 2.0, 3.0, 5.0]]}),
            ("labels", {"ids": [700], "labels": ["cat"]}),
            ("items/remove", {"ids": [700]}),
        ):
            found = service.post(f"{A}/{path}", body, headers=key("one"))
            assert (found.status, found.body["type"]) == (409, "urn:hashstream:problem:key-reused"), (
                path,
                body,
            )
        assert table_of(service).commits == 2
        create(service, "b")
        assert service.post("/v1/tables/b/items", item(1), headers=key("one")).status == 200, (
            "keys are of one table"
        )


def test_a_refused_write_leaves_its_key_free(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        fill(service)
        assert service.post(f"{A}/items", {"ids": [700], "vectors": [[1]]}, headers=key("one")).status == 422
        assert (
            service.post(f"{A}/labels", {"ids": [777], "labels": ["cat"]}, headers=key("two")).status == 404
        )
        assert service.post(f"{A}/items", item(700), headers=key("one")).status == 200
        assert service.post(f"{A}/labels", {"ids": [1], "labels": ["bird"]}, headers=key("two")).status == 200


def test_the_same_write_in_parallel(tmp_path: Path) -> None:
    """Twenty times at once, and while the first one is under way."""
    with running(tmp_path) as service, no_errors_logged():
        fill(service)
        with ThreadPoolExecutor(20) as threads:
            for number, (path, body, answer) in enumerate(WRITES[:3]):
                before = table_of(service).commits
                with writer_held() as held:
                    first = threads.submit(service.post, f"{A}/{path}", body, headers=key(str(number)))
                    assert held.here.wait(30)
                    others = [
                        threads.submit(service.post, f"{A}/{path}", body, headers=key(str(number)))
                        for _ in range(19)
                    ]
                found: list[Answer] = [one.result(60) for one in (first, *others)]
                assert {(one.status, json.dumps(one.body)) for one in found} == {(200, json.dumps(answer))}
                assert table_of(service).commits == before + 1


def test_different_writes_with_one_key_in_parallel(tmp_path: Path) -> None:
    """One of them is done."""
    with running(tmp_path) as service:
        fill(service)
        before = table_of(service).commits
        with ThreadPoolExecutor(10) as threads, writer_held() as held:
            asked = [
                threads.submit(service.post, f"{A}/items", item(700 + i), headers=key("one"))
                for i in range(10)
            ]
            assert held.here.wait(30)
            until(lambda: service.service.tables["a"].queued == 0 or len(asked) == 10)
            held.go.set()
            statuses = sorted(one.result(60).status for one in asked)
        assert statuses == [200] + [409] * 9
        assert (table_of(service).commits, table_of(service).count()) == (before + 1, N + 1)


def test_tables_are_created_and_deleted_once(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        body = {"name": "b", "method": "FCOH", "n_bits": 8}
        first = service.post("/v1/tables", body, headers=key("one"))
        again = service.post("/v1/tables", body, headers=key("one"))
        assert (first.status, again.status) == (201, 201)
        assert first.body == again.body
        for other in ({**body, "n_bits": 16}, {**body, "name": "c"}):
            found = service.post("/v1/tables", other, headers=key("one"))
            assert (found.status, found.body["type"]) == (409, "urn:hashstream:problem:key-reused")
        assert service.get("/v1/tables/c").status == 404
        found = service.ask("DELETE", "/v1/tables/b", headers=key("one"))
        assert (found.status, found.body["type"]) == (409, "urn:hashstream:problem:key-reused")
        for _ in range(2):
            assert service.ask("DELETE", "/v1/tables/b", headers=key("two")).status == 204
        assert service.ask("DELETE", "/v1/tables/b", headers=key("three")).status == 404
        assert service.ask("DELETE", "/v1/tables/b").status == 404
