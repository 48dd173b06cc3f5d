"""`EventStream`: server-sent events of a service, over as many connections as it takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

from hashstream.serve.client.errors import bad_answer
from hashstream.serve.client.sending import Request, Sender, TryLater, check_kind, pause_before

__all__ = ["EventStream", "parse_events"]

EVENTS = "text/event-stream"
SILENCE = 60.0  # seconds after which a connection counts as lost; a service is heard every 15 seconds
MAX_EVENT = 1 << 20  # bytes


class EventStream(Iterator[dict[str, Any]]):
    """Events as they happen: dicts with the key "event" for their name. It waits for the next one, and connects again
    where the connection is lost; what happened meanwhile is missed.

    One thread iterates. `close`, from any thread, ends the iteration; so does leaving a `with` block.
    """

    def __init__(self, sender: Sender, path: str, *, most_failures: int) -> None:
        """most_failures : connections in a row that may fail."""
        self._sender, self._path, self._most = sender, path, most_failures
        self._closed = threading.Event()
        self._interrupt: Callable[[], None] = self._closed.set  # of the connection, once there is one
        self._events = self._run()

    def __next__(self) -> dict[str, Any]:
        return next(self._events)

    def close(self) -> None:
        """End the iteration."""
        self._closed.set()
        self._interrupt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> Iterator[dict[str, Any]]:
        failures = 0
        while not self._closed.is_set():
            try:
                for event in self._connected():
                    failures = 0
                    if event:
                        yield event
            except TryLater as later:
                failures += 1
                if self._closed.is_set():
                    return
                if later.final or failures > self._most:
                    raise later.reason from later.__cause__
                self._closed.wait(later.wait)
            self._closed.wait(pause_before(max(1, failures)))

    def _connected(self) -> Iterator[dict[str, Any]]:
        """The events of one connection; an empty one at its beginning."""
        request = Request("GET", self._path, accept=EVENTS)
        with self._sender.open(request, SILENCE) as (head, stream):
            check_kind(head, EVENTS, self._sender.url)
            self._interrupt = stream.interrupt
            if self._closed.is_set():  # before there was something to interrupt
                return
            yield {}
            try:
                yield from parse_events(stream.pieces)
            except ValueError as error:
                raise bad_answer(self._sender.url, str(error)) from error


def parse_events(pieces: Iterator[bytes | bytearray]) -> Iterator[dict[str, Any]]:
    """Events from the bytes of a stream, however they are cut; ValueError where they are not events with JSON.

    >>> list(parse_events(iter([b": hello\\n\\nevent: commit\\nda", b'ta: {"seq": 3}\\n\\n'])))
    [{'event': 'commit', 'seq': 3}]
    """
    held, name, data = bytearray(), "message", list[str]()
    for piece in pieces:
        held += piece
        *lines, rest = bytes(held).replace(b"\r\n", b"\n").split(b"\n")
        held = bytearray(rest)
        if len(held) + sum(map(len, data)) > MAX_EVENT:
            raise ValueError("an event that is too long")
        for line in lines:
            field, _, value = line.decode("utf-8", "replace").partition(":")
            if field == "event":
                name = value.removeprefix(" ")
            elif field == "data":
                data.append(value.removeprefix(" "))
            elif not line:
                if data:
                    yield _event(name, "\n".join(data))
                name, data = "message", []


def _event(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"an event whose data are not an object: {text[:80]!r}")
    return {"event": name, **found}
