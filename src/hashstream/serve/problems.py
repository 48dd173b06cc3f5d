"""Errors as RFC 9457 has them: problem details that carry the library's own sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import Response
from pydantic import ValidationError

from hashstream._extras import MissingExtraError
from hashstream.hashers import DivergenceError
from hashstream.table import (
    Closed,
    DiskFull,
    KeyReused,
    OutcomeUnknown,
    ReadOnly,
    TableError,
    TableLocked,
    Unavailable,
)

__all__ = ["MOST_ERRORS", "PREFIX", "PROBLEM_JSON", "Problem", "problem_of"]

PROBLEM_JSON = "application/problem+json"
PREFIX = "urn:hashstream:problem:"
MOST_ERRORS = 20

STATUS = {
    "body": 400,
    "value": 422,
    "type": 422,
    "unknown-id": 404,
    "no-table": 404,
    "not-found": 404,
    "no-image": 404,
    "method": 405,
    "exists": 409,
    "divergence": 409,
    "key-reused": 409,
    "table": 409,
    "token": 401,
    "scope": 403,
    "origin": 403,
    "host": 403,
    "read-only": 403,
    "too-slow": 408,
    "too-large": 413,
    "media-type": 415,
    "busy": 429,
    "internal": 500,
    "not-supported": 501,
    "starting": 503,
    "unavailable": 503,
    "closing": 503,
    "timeout": 503,
    "outcome-unknown": 503,
    "disk-full": 507,
}


@dataclass
class Problem(Exception):
    """A request that is refused. name : a key of `STATUS`. detail : one sentence. retry_after : seconds."""

    name: str
    detail: str
    retry_after: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.detail

    @property
    def status(self) -> int:
        return STATUS[self.name]

    def headers(self) -> dict[str, str]:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return {**headers, "WWW-Authenticate": 'Bearer realm="hashstream"'} if self.status == 401 else headers

    def body(self) -> bytes:
        return json.dumps(
            {
                "type": PREFIX + self.name,
                "title": HTTPStatus(self.status).phrase,
                "status": self.status,
                "detail": self.detail,
                **self.more,
            }
        ).encode()

    def response(self) -> Response:
        return Response(self.body(), self.status, self.headers(), PROBLEM_JSON)


def problem_of(error: BaseException) -> Problem:
    """The problem that an error of the library, or of reading a request, is to the caller."""
    match error:
        case Problem():
            return error
        case ValidationError():
            return _invalid(error)
        case KeyReused():
            return Problem("key-reused", str(error))
        case DiskFull():
            return Problem("disk-full", str(error))
        case ReadOnly():
            return Problem("read-only", str(error))
        case Closed():
            return Problem("closing", "the table is being closed or reopened: try again", retry_after=1)
        case OutcomeUnknown():
            return Problem("outcome-unknown", str(error), retry_after=1)
        case Unavailable():
            return Problem("unavailable", str(error), retry_after=1)
        case TableLocked() | TableError() | MissingExtraError():
            return Problem("table", str(error))
        case DivergenceError():
            return Problem("divergence", str(error))
        case KeyError():
            return Problem("unknown-id", str(error.args[0]) if error.args else "not in the table")
        case MemoryError():
            return Problem("too-large", "there is not enough memory for this request: ask for less at once")
        case TypeError():
            return Problem("type", str(error))
        case ValueError() | OverflowError() | ArithmeticError():
            return Problem("value", str(error))
        case RecursionError():
            return Problem("value", "the request is nested too deeply")
    return Problem("internal", "the service failed; its log says why")


def _invalid(error: ValidationError) -> Problem:
    """A body, or parameters, that are not as the schema has them."""
    found = [
        {"where": ".".join(map(str, one["loc"])), "what": one["msg"]}
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    first = found[0]
    sentence = f"{first['where']}: {first['what']}" if first["where"] else first["what"]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Problem("value", sentence + more, more={"errors": found[:MOST_ERRORS]})
