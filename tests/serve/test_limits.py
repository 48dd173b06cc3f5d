"""Every limit is kept, and said: too much is 413, too many are 429, too long is 503, and a full disk is 507."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.forms import ARROW, NPY, NPZ, arrow, npy, npz, vectors
from tests.serve.raw_sockets import connected, head, reply
from tests.serve.running import Answer, Running, running
from tests.serve.worlds import (
    Held,
    N,
    X,
    fill,
    item,
    no_errors_logged,
    table_of,
    unchanged,
    until,
    writer_held,
)

from hashstream.serve.limits import Limits
from hashstream.table import HashTable
from hashstream.table.storage.folder import failpoints

A = "/v1/tables/a"


@contextmanager
def limited(folder: Path, **limits: Any) -> Iterator[Running]:
    with running(folder, limits=Limits(**limits)) as service:
        fill(service)
        yield service


def too_large(answer: Answer, *words: str) -> None:
    assert (answer.status, answer.body["type"]) == (413, "urn:hashstream:problem:too-large"), answer.raw
    for word in words:
        assert word in answer.body["detail"], answer.body["detail"]


def busy(answer: Answer) -> None:
    assert (answer.status, answer.body["type"]) == (429, "urn:hashstream:problem:busy"), answer.raw
    assert int(answer.headers["retry-after"]) > 0


# ---- too much in one request


def test_sizes_of_requests(tmp_path: Path) -> None:
    with (
        limited(
            tmp_path,
            rows=100,
            width=10,
            queries=5,
            k=50,
            answers=120,
            payloads=20,
            payload_bytes=100,
            text=100,
            body_bytes=60_000,
            values=2_000,
        ) as service,
        unchanged(service),
    ):
        many = list(range(101))
        wide = np.ones((1, 11), np.float32)
        for kind, body in (
            ("application/json", {"ids": many, "vectors": [[1, 2, 3, 4]] * 101}),
            (NPZ, npz(ids=np.arange(101), vectors=np.ones((101, 4), np.float32))),
            (ARROW, arrow({"id": many, "vector": vectors(np.ones((101, 4), np.float32))})),
        ):
            too_large(service.post(f"{A}/items", body, headers={"Content-Type": kind}), "101", "100")
        too_large(service.post(f"{A}/labels", {"ids": many, "labels": ["cat"] * 101}), "101", "100")
        too_large(service.post(f"{A}/items/remove", {"ids": many}), "101", "100")
        too_large(service.post(f"{A}/items/get", {"ids": list(range(21))}), "21", "20")
        too_large(service.get(f"{A}/items?" + "&".join(f"id={i}" for i in range(21))), "21", "20")
        for path in ("search", "radius?radius=1"):
            too_large(service.post(f"{A}/{path}", npy(wide), headers={"Content-Type": NPY}), "11", "10")
            too_large(service.post(f"{A}/{path}", npy(X[:6]), headers={"Content-Type": NPY}), "6", "5")
        too_large(service.post(f"{A}/items", {"ids": [1], "vectors": wide.tolist()}), "11", "10")
        too_large(service.post(f"{A}/search", {"like": [1], "k": 51}), "51", "50")
        too_large(service.post(f"{A}/search", {"like": [1], "k": 40, "offset": 11}), "51", "50")
        too_large(service.post(f"{A}/search", {"like": [1], "k": 4, "rescore": 51}), "51", "50")
        too_large(service.post(f"{A}/search", {"like": [1, 2, 3], "k": 41}), "123", "120")
        too_large(service.post(f"{A}/search", {"like": [1], "k": 21, "include": ["payloads"]}), "21", "20")
        too_large(service.post(f"{A}/radius", {"like": [1, 2, 3], "radius": 16}), "120")
        too_large(service.post(f"{A}/radius", {"like": [1], "radius": 16, "include": ["payloads"]}), "20")
        for long in (
            {"payloads": [{"a": "x" * 100}]},
            {"labels": ["x" * 101]},
            {"fields": {"tenant": ["x" * 101]}},
        ):
            too_large(service.post(f"{A}/items", item(1, **long)), "100")
        too_large(service.post(f"{A}/items", item(1, fields={"tags": [["x" * 60, "y" * 60]]})), "100")
        too_large(service.post(f"{A}/labels", {"ids": [1], "labels": ["x" * 101]}), "100")
        too_large(service.post(f"{A}/items", {**item(1), "ids": ["x" * 101]}), "100")
        too_large(service.post(f"{A}/items", b" " * 60_001), "60,000")
        too_large(service.post(f"{A}/search", {"vectors": [[]] * 2_001}), "2,000", "JSON")
        too_large(
            service.post(f"{A}/search", npz(8, vectors=np.zeros((1, 20_000))), headers={"Content-Type": NPZ})
        )
        at_most = [
            service.post(f"{A}/search", {"like": [1, 2], "k": 50}),
            service.post(f"{A}/items/get", {"ids": list(range(20))}),
            service.post(f"{A}/radius", {"like": [1, 2], "radius": 16}),
            service.post(f"{A}/search", {"like": [1], "k": 20, "include": ["payloads"]}),
        ]
        assert [answer.status for answer in at_most] == [200] * 4


def test_answers_of_a_search_by_radius_are_bounded_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked in parts, it finds the same."""
    with limited(tmp_path) as service:
        body = {"like": list(range(20)), "radius": 5, "include": ["labels", "fields", "payloads"]}
        whole = service.post(f"{A}/radius", body)
        monkeypatch.setattr("hashstream.serve.routes.search.MOST_AT_ONCE", 3 * N)
        assert service.post(f"{A}/radius", body).raw == whole.raw


def test_limits_by_name() -> None:
    given = Limits().with_given(["k=7", "seconds=0.5"])
    assert (given.k, given.seconds) == (7, 0.5)
    for text in ("zz=1", "k", "k=x", "k=0", "k=-1", "seconds=nan", "k=1.5", "seconds=inf=1", ""):
        with pytest.raises(ValueError, match="limit"):
            Limits().with_given([text])
    for one in fields(Limits):
        with pytest.raises(ValueError, match=one.name):
            Limits(**{one.name: 0})


# ---- too many at once


def while_held(service: Running, held: Held, first: Callable[[], Answer], n: int) -> list[Any]:
    """Start a write and wait until it is held, then n more."""
    threads = ThreadPoolExecutor(n + 1)
    begun = [threads.submit(first)]
    assert held.here.wait(30)
    waiting = service.service.tables["a"]
    for number in range(n):
        begun.append(threads.submit(service.post, f"{A}/items", item(800 + number)))
        until(lambda number=number: waiting.queued > number)  # type: ignore[misc]
    return begun


def test_the_queue_of_writes_is_bounded(tmp_path: Path) -> None:
    with limited(tmp_path, queue=3) as service:
        before = table_of(service).commits
        with writer_held() as held:
            begun = while_held(service, held, lambda: service.post(f"{A}/items", item(700)), 3)
            for path, body in (
                ("items", item(900)),
                ("labels", {"ids": [1], "labels": ["dog"]}),
                ("items/remove", {"ids": [1]}),
                ("refresh", {}),
                ("flush", {}),
            ):
                busy(service.post(f"{A}/{path}", body))
            assert service.post(f"{A}/search", {"like": [3], "k": 1}).status == 200, (
                "searches wait for no write"
            )
            assert service.get("/readyz").status == 200
            assert table_of(service).commits == before
        assert [answer.result(60).status for answer in begun] == [200] * 4
        assert table_of(service).count() == N + 4
        assert service.post(f"{A}/items", item(900)).status == 200


def test_the_bytes_of_the_queue_are_bounded(tmp_path: Path) -> None:
    """Payloads count, too, and labels."""
    large = item(901, payloads=[{"a": "x" * 30_000}])
    labels = {"ids": [1, 2], "labels": ["x" * 20_000, "y" * 20_000]}
    with limited(tmp_path, queue_bytes=40_000, text=50_000) as service, writer_held() as held:
        begun = while_held(service, held, lambda: service.post(f"{A}/items", item(700)), 1)
        with ThreadPoolExecutor(1) as other:
            second = other.submit(service.post, f"{A}/items", large)
            until(lambda: service.service.tables["a"].queued > 1)
            busy(service.post(f"{A}/items", {**large, "ids": [902]}))
            busy(service.post(f"{A}/labels", labels))
            busy(service.post(f"{A}/items/remove", {"ids": [1], "where": {"tenant": "x" * 30_000}}))
            held.go.set()
            assert second.result(60).status == 200
        assert all(answer.result(60).status == 200 for answer in begun)


def test_requests_at_once_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with limited(tmp_path, concurrent=2) as service:
        held, count = Held(), HashTable.count

        def held_count(*args: Any, **more: Any) -> int:
            held()
            return count(*args, **more)

        monkeypatch.setattr(HashTable, "count", held_count)
        with ThreadPoolExecutor(2) as threads:
            begun = [threads.submit(service.get, f"{A}/count") for _ in range(2)]
            until(lambda: service.service._under_way == 2)
            busy(service.post(f"{A}/search", {"like": [3], "k": 1}))
            busy(service.get(f"{A}/stats"))
            busy(service.post(f"{A}/items", item(700)))
            assert service.get("/healthz").status == service.get("/readyz").status == 200
            held.go.set()
            assert [one.result(60).body for one in begun] == [{"count": N}] * 2
        assert service.post(f"{A}/search", {"like": [3], "k": 1}).status == 200


def test_bodies_at_once_are_bounded(tmp_path: Path) -> None:
    with limited(tmp_path, body_bytes=50_000, bodies_bytes=100_000, body_seconds=20.0) as service:
        part = head("POST", f"{A}/items", "Content-Type: application/json", "Content-Length: 50000") + bytes(
            45_000
        )
        with connected(service) as one, connected(service) as two:
            one.sendall(part)
            two.sendall(part)
            until(lambda: service.service._held == 90_000)
            busy(service.post(f"{A}/items", b" " * 20_000))
            assert service.post(f"{A}/search", {"like": [3], "k": 1}).status == 200
        until(lambda: service.service._held == 0)
        assert service.service._held == 0, "the bodies of clients that left count for ever"


def test_connections_are_bounded(tmp_path: Path) -> None:
    with limited(tmp_path, connections=4) as service:
        with ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(connected(service))
            one = stack.enter_context(connected(service))
            one.sendall(head("GET", "/healthz", "Connection: close"))
            assert reply(one).status == 503
        assert service.get("/healthz").status == 200


def test_tables_are_bounded(tmp_path: Path) -> None:
    with limited(tmp_path, tables=2) as service:
        assert service.post("/v1/tables", {"name": "b"}).status == 201
        refused = service.post("/v1/tables", {"name": "c"})
        assert refused.status == 429
        assert "2 tables" in refused.body["detail"]
        service.ask("DELETE", "/v1/tables/b")
        assert service.post("/v1/tables", {"name": "c"}).status == 201


# ---- too long


@contextmanager
def impatient(service: Running) -> Iterator[None]:
    """Requests within the block have little time."""
    usual = service.service.limits
    service.service.limits = replace(usual, seconds=0.2)
    try:
        yield
    finally:
        service.service.limits = usual


def test_a_write_that_takes_too_long(tmp_path: Path) -> None:
    """It may be done later, and its key tells."""
    with limited(tmp_path) as service, no_errors_logged():
        with writer_held(), impatient(service):
            answer = service.post(f"{A}/items", item(700), headers={"Idempotency-Key": "one"})
            assert (answer.status, answer.body["type"]) == (503, "urn:hashstream:problem:timeout")
            assert "Idempotency-Key" in answer.body["detail"]
            assert int(answer.headers["retry-after"]) > 0
        again = service.post(f"{A}/items", item(700), headers={"Idempotency-Key": "one"})
        assert (again.status, again.body) == (200, {"stored": 1})
        assert (table_of(service).commits, table_of(service).count()) == (2, N + 1)


def test_a_search_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, search = Held(), HashTable.search

    def held_search(*args: Any, **more: Any) -> Any:
        held()
        return search(*args, **more)

    with limited(tmp_path) as service, no_errors_logged():
        monkeypatch.setattr(HashTable, "search", held_search)
        with impatient(service):
            answer = service.post(f"{A}/search", {"like": [3], "k": 1})
        assert (answer.status, answer.body["type"]) == (503, "urn:hashstream:problem:timeout")
        held.go.set()
        assert service.get(f"{A}/count").body == {"count": N}


def test_a_snapshot_that_takes_too_long(tmp_path: Path) -> None:
    """Nothing of it stays on the disk, and no other is made while it goes on."""
    held = Held()

    def copies() -> list[str]:
        return [path.name for path in tmp_path.iterdir() if path.name.startswith(".hashstream-")]

    with limited(tmp_path) as service, no_errors_logged():
        with failpoints.on("snapshot.copied", held), impatient(service):
            answer = service.get(f"{A}/snapshot")
            assert (answer.status, answer.body["type"]) == (503, "urn:hashstream:problem:timeout")
            busy(service.get(f"{A}/snapshot"))
            held.go.set()
            until(lambda: not service.service.tables["a"].copying.locked())
        assert copies() == []
        assert service.get(f"{A}/snapshot").status == 200
        assert copies() == []


# ---- a full disk


@pytest.mark.parametrize("point", ["segment.write", "segment.written", "commit.before"])
def test_a_full_disk(tmp_path: Path, point: str) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with limited(tmp_path) as service:
        with unchanged(service), failpoints.on(point, full):
            for number in range(3):
                answer = service.post(
                    f"{A}/items", item(700 + number), headers={"Idempotency-Key": f"k{number}"}
                )
                assert (answer.status, answer.body["type"]) == (507, "urn:hashstream:problem:disk-full"), (
                    answer.raw
                )
                assert "disk is full" in answer.body["detail"]
                assert service.post(f"{A}/search", {"like": [3], "k": 1}).body["ids"] == [[3]]
        for number in range(3):
            answer = service.post(f"{A}/items", item(700 + number), headers={"Idempotency-Key": f"k{number}"})
            assert answer.status == 200
        assert table_of(service).count() == N + 3


def test_a_write_of_unknown_outcome(tmp_path: Path) -> None:
    """An error after the commit: the table is reopened, which finds out; the same key gives the right answer."""
    failures = iter([True])

    def fail() -> None:
        if next(failures, False):
            raise OSError(errno.EIO, "Input/output error")

    with limited(tmp_path) as service, failpoints.on("commit.after", fail):
        first = service.post(f"{A}/items", item(700), headers={"Idempotency-Key": "one"})
        assert first.status in (200, 409, 503), first.raw
        again = service.post(f"{A}/items", item(700), headers={"Idempotency-Key": "one"})
        assert (again.status, again.body) == (200, {"stored": 1})
        assert table_of(service).count() == N + 1
        assert table_of(service).commits == 2
        assert service.post(f"{A}/search", {"like": [700], "k": 1}).status == 200
        assert service.get("/readyz").status == 200


def test_a_table_that_cannot_be_reopened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are refused at once, others are served, and the table comes back by itself."""
    monkeypatch.setattr("hashstream.serve.worker.REOPEN_AGAIN", 0.05)
    opened, usual = threading.Event(), HashTable.open

    def open_later(*args: Any, **more: Any) -> HashTable:
        if not opened.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        return usual(*args, **more)

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    with limited(tmp_path) as service:
        fill(service, "b")
        with failpoints.on("commit.after", fail), monkeypatch.context() as patched:
            patched.setattr(HashTable, "open", open_later)
            service.post(f"{A}/items", item(700), headers={"Idempotency-Key": "one"})
            until(lambda: service.post(f"{A}/search", {"like": [3]}, timeout=10).status == 503)
            for path, body in (("search", {"like": [3]}), ("items", item(701)), ("count", {})):
                answer = service.post(f"{A}/{path}", body, timeout=10)
                assert (answer.status, answer.body["type"]) == (503, "urn:hashstream:problem:starting"), path
                assert "No space left" in answer.body["detail"]
            assert "No space left" in service.get(A).body["error"]
            assert service.get("/metrics").status == service.get("/v1/tables").status == 200
            assert service.post("/v1/tables/b/search", {"like": [3], "k": 1}).status == 200
            opened.set()
            until(lambda: service.post(f"{A}/search", {"like": [3], "k": 1}).status == 200)
        assert service.post(f"{A}/items", item(700), headers={"Idempotency-Key": "one"}).body == {"stored": 1}
        assert table_of(service).count() == N + 1
