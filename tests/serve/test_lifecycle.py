"""From start to end: tables that are opened, created and deleted, and what is under way when a service is stopped."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.serve.raw_sockets import connected, head, reply
from tests.serve.running import Running, running
from tests.serve.worlds import (
    ITEMS,
    Held,
    N,
    create,
    fill,
    item,
    key,
    no_errors_logged,
    until,
)

import hashstream as hs
from hashstream.serve.server import server_of
from hashstream.serve.service import Service
from hashstream.table.storage.folder import failpoints

A = "/v1/tables/a"
ROOT = Path(__file__).parents[2]


class Child:
    """A service in another process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join([str(Path(hs.__file__).parents[1]), str(ROOT)])
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serve.lifecycle_child", str(folder)],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self.process.stdout is not None
        url = urlsplit(self.process.stdout.readline().strip())
        assert url.hostname, self.logged()
        self.http = Running(None, None, url.hostname, url.port or 0)  # type: ignore[arg-type]

    def ready(self) -> Child:
        def answers() -> bool:
            try:
                return self.http.get("/readyz").status == 200
            except ConnectionRefusedError:
                return False

        until(answers)
        return self

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90)

    def logged(self) -> str:
        self.log.flush()
        return Path(self.log.name).read_text()


@contextmanager
def child(folder: Path) -> Iterator[Child]:
    folder.mkdir(exist_ok=True)
    service = Child(folder)
    try:
        yield service.ready()
    finally:
        (folder / "hold").unlink(missing_ok=True)
        if service.process.poll() is None:
            service.process.kill()
        service.process.wait(30)
        service.process.stdout.close()  # type: ignore[union-attr]
        service.log.close()


def test_sigterm_finishes_what_is_under_way(tmp_path: Path) -> None:
    """A write that is held is answered; others are refused; it ends; nothing is learned again afterwards."""
    with child(tmp_path) as service, ThreadPoolExecutor(2) as threads:
        fill(service.http)
        (tmp_path / "hold").touch()
        write = threads.submit(service.http.post, f"{A}/items", item(700, labels=["cat"]))
        until((tmp_path / "held").exists)
        with connected(service.http) as idle, connected(service.http) as listening:
            listening.sendall(head("GET", "/v1/events"))
            assert b"200 OK" in listening.recv(1000)
            idle.sendall(head("GET", "/healthz"))
            assert reply(idle).status == 200
            service.process.send_signal(signal.SIGTERM)
            until(lambda: refused_or_gone(service.http))
            (tmp_path / "hold").unlink()
            assert (write.result(60).status, write.result().body) == (200, {"stored": 1})
        assert service.process.wait(60) == 0, service.logged()
        assert "Traceback" not in service.logged()
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("hashstream")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with hs.HashTable.open(tmp_path / "tables" / "a") as table:
            assert (table.count(), 700 in table) == (N + 1, True)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    assert not [text for text in records if "again" in text]


def refused_or_gone(service: Running) -> bool:
    try:
        answer = service.post(f"{A}/search", {"like": [3], "k": 1}, timeout=10)
    except OSError:
        return True
    return answer.status == 503 and "retry-after" in answer.headers


def test_sigterm_with_open_streams_ends_soon(tmp_path: Path) -> None:
    """Without anything under way: listeners, idle connections and half requests hold up nothing."""
    with child(tmp_path) as service:
        fill(service.http)
        with connected(service.http) as one, connected(service.http), connected(service.http) as half:
            one.sendall(head("GET", "/v1/events"))
            assert b"200 OK" in one.recv(1000)
            half.sendall(b"POST /v1/tab")
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(20) == 0, service.logged()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_good_end(tmp_path: Path, number: signal.Signals) -> None:
    with child(tmp_path) as service:
        service.process.send_signal(number)
        assert service.process.wait(60) == 0, service.logged()
        assert "Traceback" not in service.logged()


def test_kill_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """And the key of a write whose answer was lost finds out what became of it."""
    with child(tmp_path) as service:
        fill(service.http)
        assert service.http.post(f"{A}/items", item(700), headers=key("one")).status == 200
        (tmp_path / "hold").touch()
        with ThreadPoolExecutor(1) as threads:
            lost = threads.submit(service.http.post, f"{A}/items", item(701), headers=key("two"))
            until((tmp_path / "held").exists)
            service.process.kill()
            with pytest.raises(OSError, match=r"."):
                lost.result(60)
    (tmp_path / "held").unlink()
    with child(tmp_path) as service:
        assert service.http.get(f"{A}/count").body == {"count": N + 1}
        for _ in range(2):
            assert service.http.post(f"{A}/items", item(700), headers=key("one")).body == {"stored": 1}
            assert service.http.post(f"{A}/items", item(701), headers=key("two")).body == {"stored": 1}
        assert service.http.get(f"{A}").body["commits"] == 3
        assert service.stop() == 0


def test_two_services_of_one_folder(tmp_path: Path) -> None:
    """The second one says that the first has the table; read-only, it follows."""
    with running(tmp_path) as first:
        fill(first)
        with running(tmp_path) as second:
            info = second.get(A).body
            assert info["state"] == "failed"
            assert "process" in info["error"]
            assert second.post(f"{A}/search", {"like": [3]}).status == 409
            assert second.ask("DELETE", A).status == 409, "the table of another process"
            assert first.get(f"{A}/count").body == {"count": N}
        with running(tmp_path, read_only=True) as reader:
            assert reader.get(f"{A}/count").body == {"count": N}
            first.post(f"{A}/items", item(700))
            until(lambda: reader.get(f"{A}/count").body == {"count": N + 1})
            for method, path, body in (
                ("POST", f"{A}/items", item(701)),
                ("POST", f"{A}/labels", {"ids": [1], "labels": ["dog"]}),
                ("POST", f"{A}/items/remove", {"ids": [1]}),
                ("POST", f"{A}/refresh", {}),
                ("POST", f"{A}/flush", {}),
                ("POST", f"{A}/compact", {}),
                ("POST", f"{A}/fields", {"fields": {"x": "str"}}),
                ("POST", "/v1/tables", {"name": "new"}),
                ("DELETE", A, None),
            ):
                answer = reader.ask(method, path, body)
                assert (answer.status, answer.body["type"]) == (403, "urn:hashstream:problem:read-only"), path
            assert reader.get(A).body["read_only"] is True
            assert reader.get(f"{A}/stats").status == reader.get("/metrics").status == 200
        assert first.get(f"{A}/count").body == {"count": N + 1}


def test_while_it_drains(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        fill(service)
        service.service.drain()
        assert service.get("/healthz").status == 200
        answer = service.get("/readyz")
        assert (answer.status, answer.body["type"]) == (503, "urn:hashstream:problem:closing")
        answer = service.post(f"{A}/items", item(700))
        assert (answer.status, "retry-after" in answer.headers) == (503, True)


def test_tables_are_opened_while_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path) as service:
        fill(service)
    held, usual = Held(), hs.HashTable.open

    def slowly(*args: Any, **more: Any) -> Any:
        held()
        return usual(*args, **more)

    monkeypatch.setattr(hs.HashTable, "open", slowly)
    made = Service([tmp_path])
    server = server_of(made, port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        service = Running(made, server, "127.0.0.1", server.servers[0].sockets[0].getsockname()[1])
        assert service.get("/healthz").status == 200
        assert service.get("/readyz").body["type"] == "urn:hashstream:problem:starting"
        assert service.get(A).body["state"] == "opening"
        for method, path in (
            ("POST", f"{A}/search"),
            ("GET", f"{A}/stats"),
            ("DELETE", A),
            ("POST", f"{A}/flush"),
        ):
            answer = service.ask(method, path, {"like": [3]} if method == "POST" else None)
            assert (answer.status, answer.body["type"]) == (503, "urn:hashstream:problem:starting"), path
        held.go.set()
        until(lambda: service.get("/readyz").status == 200)
        assert service.post(f"{A}/search", {"like": [3], "k": 1}).body["ids"] == [[3]]
    finally:
        held.go.set()
        server.stop()
        thread.join(60)


def test_a_service_that_is_stopped_while_it_opens_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes what it has opened, and opens no more."""
    with running(tmp_path) as service:
        for name in ("a", "b", "c"):
            create(service, name)
    held, usual, opened = Held(), hs.HashTable.open, []

    def slowly(path: Any, *args: Any, **more: Any) -> Any:
        held()
        opened.append(usual(path, *args, **more))
        return opened[-1]

    monkeypatch.setattr(hs.HashTable, "open", slowly)
    made = Service([tmp_path])
    server = server_of(made, port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert held.here.wait(60)
    server.stop()
    until(lambda: made.tables.closing)
    held.go.set()
    thread.join(60)
    assert not thread.is_alive()
    assert [str(table.path) for table in opened] == [str(tmp_path / "a")]
    with hs.HashTable.open(tmp_path / "a"):  # nobody holds its lock
        pass


def test_one_name_in_parallel(tmp_path: Path) -> None:
    """Ten clients create a table at once, and delete it at once."""
    with running(tmp_path) as service, ThreadPoolExecutor(10) as threads, no_errors_logged():
        for _ in range(3):
            made = [threads.submit(service.post, "/v1/tables", {"name": "b", "n_bits": 8}) for _ in range(10)]
            assert sorted(one.result(60).status for one in made) == [201] + [409] * 9
            ended = [threads.submit(service.ask, "DELETE", "/v1/tables/b") for _ in range(10)]
            assert sorted(one.result(60).status for one in ended) == [204] + [404] * 9
        assert list(tmp_path.iterdir()) == []


def test_a_table_that_is_deleted_while_it_is_used(tmp_path: Path) -> None:
    """Every request is answered: done, or the table is closing, or gone."""
    with running(tmp_path) as service, ThreadPoolExecutor(8) as threads, no_errors_logged():
        for _ in range(3):
            fill(service)
            end = threading.Event()

            def use(number: int, end: threading.Event = end) -> set[int]:
                found = set()
                while not end.is_set():
                    found.add(service.post(f"{A}/items", item(700 + number)).status)
                    found.add(service.post(f"{A}/search", {"like": [3], "k": 3}).status)
                    found.add(service.get(f"{A}/stats").status)
                    found.add(service.get("/v1/tables").status)
                return found

            users = [threads.submit(use, number) for number in range(6)]
            assert service.ask("DELETE", A).status == 204
            end.set()
            statuses = set().union(*(one.result(60) for one in users))
            assert statuses <= {200, 404, 503}


def test_a_killed_creation_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / ".hashstream-new-0123").mkdir()
    (tmp_path / ".hashstream-deleted-0123").mkdir()
    (tmp_path / ".hashstream-copy-0123").mkdir()
    (tmp_path / "notes").mkdir()
    with running(tmp_path) as service:
        assert service.get("/v1/tables").body == {"tables": []}
        assert [path.name for path in tmp_path.iterdir()] == ["notes"]
        found = service.post("/v1/tables", {"name": "notes"})
        assert (found.status, found.body["type"]) == (409, "urn:hashstream:problem:exists")

        def fail() -> None:
            raise OSError(28, "No space left on device")

        with failpoints.on("create.before", fail):
            assert service.post("/v1/tables", {"name": "b"}).status == 507
        assert [path.name for path in tmp_path.iterdir()] == ["notes"]
        assert service.post("/v1/tables", {"name": "b"}).status == 201
        assert service.post("/v1/tables/b/items", {**ITEMS, "fields": None}).status == 200
