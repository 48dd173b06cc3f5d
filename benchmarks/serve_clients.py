"""Clients of a service in processes of their own: those that search, and one that ingests.

This file imports little, since every client imports it. All clocks are the monotonic clock of the machine, which its
processes share.
"""

from __future__ import annotations

import http.client
import io
import json
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

import numpy as np

BATCH, SLOTS = 100, 100  # rows of a batch, and batches until the same ids come again
LATEST = 60.0  # seconds after its end for which a client is waited for


class Connection:
    """One connection to a service on loopback, kept open."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._connection.connect()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        """The body of an answer. RuntimeError where the service refuses."""
        self._connection.request(method, path, body, headers or {})
        answer = self._connection.getresponse()
        found = answer.read()
        if answer.status not in (200, 204):
            raise RuntimeError(f"{method} {path}: {answer.status} {found[:300]!r}")
        return found

    def search(self, path: str, body: bytes) -> bytes:
        """Search with a body of JSON."""
        return self.ask("POST", path, body, {"Content-Type": "application/json"})

    def json(self, path: str) -> Any:
        return json.loads(self.ask("GET", path))

    def close(self) -> None:
        self._connection.close()


def batch(number: int, first: int, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids from `first` on, features and labels of a batch. The same ids come again after `SLOTS` batches."""
    ids = first + (number % SLOTS) * BATCH + np.arange(BATCH)
    rows = (number * BATCH + np.arange(BATCH)) % len(X)
    return ids, X[rows], y[rows]


def search(port: int, path: str, bodies: list[bytes], pipe: Pipe) -> None:
    """Search, one query per request."""
    connection = Connection(port)
    i = 0

    def one() -> None:
        nonlocal i
        connection.search(path, bodies[i % len(bodies)])
        i += 1

    repeat(one, pipe)


def ingest(port: int, path: str, first: int, X: np.ndarray, y: np.ndarray, pipe: Pipe) -> None:
    """Ingest batches with labels, each with a key."""
    connection = Connection(port)
    run, number = f"{time.time():.6f}", 0

    def one() -> None:
        nonlocal number
        ids, rows, labels = batch(number, first, X, y)
        file = io.BytesIO()
        np.savez(file, ids=ids, vectors=rows, labels=labels)
        headers = {"Content-Type": "application/x-npz", "Idempotency-Key": f"{run}-{number}"}
        connection.ask("POST", path, file.getvalue(), headers)
        number += 1

    repeat(one, pipe)


def repeat(call: Callable[[], None], pipe: Pipe) -> None:
    """Call something again and again between two times, which are asked for when everything is ready.

    Sends an array of the seconds of each call at the end of every period, or the error that ended it as a text.
    """
    try:
        call()  # a connection, and whatever is computed once
        pipe.send("ready")
        begin, end, every = pipe.recv()
        time.sleep(max(0.0, begin - time.monotonic()))
        told = begin + every
        taken: list[float] = []
        while (clock := time.monotonic()) < end:
            if clock >= told:
                pipe.send(np.array(taken))
                told, taken = told + every, []
            call()
            taken.append(time.monotonic() - clock)
        pipe.send(np.array(taken))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
    finally:
        pipe.close()


class Clients:
    """Processes that each run a function which ends in `repeat`; a context, at whose end they are gone."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._pipes: list[Pipe] = []
        self._processes: list[Any] = []

    def start(self, target: Callable[..., None], *args: Any) -> None:
        """target : a function of a module, called with `args` and a pipe."""
        mine, its = self._context.Pipe()
        process = self._context.Process(target=target, args=(*args, its), daemon=True)
        process.start()
        its.close()
        self._pipes.append(mine)
        self._processes.append(process)

    def begin(self, seconds: float, periods: int = 1) -> float:
        """Let all clients begin at once; the time at which they do. seconds : of each period."""
        for told in self._told(LATEST):
            assert told == "ready"
        begin = time.monotonic() + 0.2
        for pipe in self._pipes:
            pipe.send((begin, begin + seconds * periods, seconds))
        return begin

    def period(self, end: float) -> list[np.ndarray]:
        """The seconds of the calls in the next period, of every client. end : the time at which the period ends."""
        return self._told(max(0.0, end - time.monotonic()) + LATEST)

    def _told(self, seconds: float) -> list[Any]:
        """The next message of every client."""
        found = []
        latest = time.monotonic() + seconds
        for pipe in self._pipes:
            if not pipe.poll(max(0.0, latest - time.monotonic())):
                raise RuntimeError("a client does not answer")
            try:
                told = pipe.recv()
            except EOFError:
                raise RuntimeError("a client has ended early") from None
            if isinstance(told, str) and told != "ready":
                raise RuntimeError(f"a client failed: {told}")
            found.append(told)
        return found

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.join(LATEST if error[0] is None else 0)
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self._pipes:
            pipe.close()
