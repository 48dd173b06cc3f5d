"""Errors of the client: what a service has refused, as the exceptions that a `HashTable` raises."""

from __future__ import annotations

import json
from typing import Any

from hashstream.hashers import DivergenceError
from hashstream.serve.client.connection import Head
from hashstream.table.errors import DiskFull, KeyReused, OutcomeUnknown, ReadOnly, TableError

__all__ = ["NoSuchTable", "ServiceUnavailable", "bad_answer", "error_of"]

PROBLEM = "application/problem+json"
PREFIX = "urn:hashstream:problem:"
MAX_SENTENCE = 10_000


class ServiceUnavailable(TableError):
    """A service could not be reached, or was too busy, at every attempt. A write may have been done: repeated with the
    same `key`, it is not done twice."""


class NoSuchTable(KeyError):
    """The service has no table of this name."""


EXCEPTIONS: dict[str, type[Exception]] = {
    "value": ValueError,
    "type": TypeError,
    "body": ValueError,
    "unknown-id": KeyError,
    "no-table": NoSuchTable,
    "key-reused": KeyReused,
    "token": PermissionError,
    "scope": PermissionError,
    "origin": PermissionError,
    "host": PermissionError,
    "too-large": ValueError,
    "divergence": DivergenceError,
    "read-only": ReadOnly,
    "disk-full": DiskFull,
    "outcome-unknown": OutcomeUnknown,
    "too-slow": ServiceUnavailable,
    "busy": ServiceUnavailable,
    "starting": ServiceUnavailable,
    "closing": ServiceUnavailable,
    "timeout": ServiceUnavailable,
    "unavailable": ServiceUnavailable,
}
"""Names of problems -> exceptions. All others are a TableError."""

UNAVAILABLE = (408, 429, 503)


def error_of(head: Head, body: bytes | bytearray, url: str) -> Exception:
    """The exception for an answer that is not one of success, with the service's sentence.

    >>> head = Head(404, {"content-type": PROBLEM})
    >>> error_of(head, b'{"type": "urn:hashstream:problem:unknown-id", "detail": "not in the table: 7"}', "")
    KeyError('not in the table: 7')
    """
    problem = _problem(head, body)
    name, detail = problem.get("type"), problem.get("detail")
    if isinstance(name, str) and name.startswith(PREFIX) and isinstance(detail, str):
        return EXCEPTIONS.get(name.removeprefix(PREFIX), TableError)(detail[:MAX_SENTENCE])
    if head.status in UNAVAILABLE:
        return ServiceUnavailable(f"{url} is not available now: it answered with status {head.status}")
    if head.status in (401, 403):
        return PermissionError(f"{url} refused the request, with status {head.status}: is the token right?")
    if 300 <= head.status < 400:
        return TableError(
            f"{url} redirects to another address (status {head.status}), which is not followed: use that address"
        )
    return bad_answer(url, f"status {head.status}")


def bad_answer(url: str, what: str) -> TableError:
    """The error about an answer that no service of this kind gives. what : that it answered with."""
    return TableError(f"the service answered with {what}: is there a hashstream service at {url}?")


def _problem(head: Head, body: bytes | bytearray) -> dict[str, Any]:
    if head.kind != PROBLEM:
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
