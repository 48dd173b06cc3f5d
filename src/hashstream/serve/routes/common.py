"""Shared by routes: the table of an address, its scope, and requests turned into arrays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import Depends, Path, Request, Response
from pydantic import BaseModel

from hashstream.serve.answers import Answer, answered, to_json, wanted
from hashstream.serve.bodies import Parsed, media_type, parse
from hashstream.serve.limits import Limits
from hashstream.serve.problems import Problem
from hashstream.serve.schemas import NAME
from hashstream.serve.served import Served
from hashstream.serve.service import Service

__all__ = [
    "Admin",
    "Reads",
    "Serving",
    "TableAdmin",
    "TableName",
    "TableReads",
    "TableWrites",
    "check_rows",
    "check_texts",
    "idempotency_key",
    "json_answer",
    "matrix",
    "read_request",
    "request_of",
    "rows_of",
    "serialized",
    "table_of",
]

Model = TypeVar("Model", bound=BaseModel)
LONGEST_KEY = 200


async def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def scope(name: str) -> Callable[[Request], Awaitable[Service]]:
    """A dependency: the service, where the request may do this."""

    async def allowed(request: Request) -> Service:
        service: Service = request.app.state.service
        service.authorize(request, name)
        return service

    return allowed


TableName = Annotated[str, Path(pattern=NAME, description="The table's name.", examples=["photos"])]


def table(name: str) -> Callable[..., Awaitable[Served]]:
    """A dependency: the table of the address, where the request may do this with it."""

    async def found(request: Request, t: TableName) -> Served:
        return table_of(request, t, name)[1]

    return found


def table_of(request: Request, t: str, scope: str) -> tuple[Service, Served]:
    """The service and its table t, where the request may do this with it.

    Routes that are asked most call it themselves: resolving dependencies takes longer than a small search.
    """
    service: Service = request.app.state.service
    service.authorize(request, scope)
    return service, service.tables[t]


Serving = Annotated[Service, Depends(service_of)]
Reads = Annotated[Service, Depends(scope("read"))]
Admin = Annotated[Service, Depends(scope("admin"))]
TableReads = Annotated[Served, Depends(table("read"))]
TableWrites = Annotated[Served, Depends(table("write"))]
TableAdmin = Annotated[Served, Depends(table("admin"))]


def request_of(model: type[Model], request: Request, body: bytes, limits: Limits) -> Parsed[Model]:
    """A body by its Content-Type."""
    query: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        query.setdefault(name, []).append(value)
    return parse(model, media_type(request.headers.get("content-type", "")), body, query, limits)


async def read_request(model: type[Model], request: Request, service: Service) -> Parsed[Model]:
    """The body of a request, read and parsed in a thread."""
    body = await service.body(request)
    return await service.work(request_of, model, request, body, service.limits)


def matrix(values: Any, name: str, limits: Limits, dtype: Any = None) -> np.ndarray:
    """Vectors as a matrix. dtype : of vectors that came as JSON."""
    if isinstance(values, np.ndarray):
        X = values
    else:
        widths = {len(row) for row in values}
        if len(widths) > 1:
            first = len(values[0])
            row = next(i for i, one in enumerate(values) if len(one) != first)
            raise ValueError(f"{name}[{row}] has {len(values[row])} numbers, but {name}[0] has {first}")
        try:
            with np.errstate(over="ignore"):  # it becomes infinite, which is refused with its row
                X = np.array(values, np.float32 if dtype is None else dtype)
        except OverflowError:
            raise ValueError(f"{name} hold a number that is too large") from None
    if X.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, not {X.dtype}")
    if X.ndim != 2:
        raise ValueError(f"{name} must be a list of lists of numbers, or a matrix, not of shape {X.shape}")
    if X.shape[1] > limits.width:
        raise Problem("too-large", f"{name} have {X.shape[1]:,} features, more than {limits.width:,}")
    return X


def rows_of(values: Any, name: str) -> int:
    """How many values a list, or an array in its place, has."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ValueError(f"{name} must be 1-D, one per item, not of shape {values.shape}")
    return len(values)


def check_rows(n: int, most: int, what: str) -> None:
    if n > most:
        raise Problem("too-large", f"{n:,} {what} at once are more than {most:,}: send several requests")


def check_texts(name: str, values: Any, limits: Limits) -> None:
    """Refuse long texts: each item of an answer repeats them."""
    if isinstance(values, np.ndarray) and (values.dtype.kind not in "UO" or values.ndim != 1):
        return
    for row, value in enumerate(values if values is not None else ()):
        texts = value if isinstance(value, list) else [value]
        if sum(len(text) for text in texts if isinstance(text, str)) > limits.text:
            raise Problem("too-large", f"{name}[{row}] has more than {limits.text:,} characters")


def idempotency_key(request: Request) -> str | None:
    """The header Idempotency-Key; `Problem` where it is not one."""
    key = request.headers.get("idempotency-key")
    if key is not None and not (
        0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable() and " " not in key
    ):
        raise Problem("value", f"Idempotency-Key must have 1 to {LONGEST_KEY} visible ASCII characters")
    return key


def serialized(answer: Answer, request: Request) -> Response:
    """An answer in the media type that the request prefers."""
    body, kind = answered(answer, wanted(request.headers.get("accept", "")))
    return Response(body, media_type=kind)


def json_answer(answer: Any, status: int = 200) -> Response:
    return Response(to_json(answer), status, media_type="application/json")
