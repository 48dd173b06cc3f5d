"""Search: the nearest items, and all items within a radius."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from hashstream.serve import schemas
from hashstream.serve.answers import search_answer
from hashstream.serve.bodies import Parsed
from hashstream.serve.kinds import Servable
from hashstream.serve.limits import Limits
from hashstream.serve.openapi import MACHINE_QUERIES, MACHINE_ROWS, Route, describe
from hashstream.serve.problems import Problem
from hashstream.serve.routes.common import (
    TableName,
    check_rows,
    matrix,
    request_of,
    rows_of,
    serialized,
    table_of,
)
from hashstream.serve.served import Served
from hashstream.table import HashTable, RadiusResult

router = APIRouter(prefix="/v1/tables/{t}", route_class=Route, tags=["search"])

FORMATS: Any = {"takes": MACHINE_QUERIES, "gives": MACHINE_ROWS}
MOST_AT_ONCE = 20_000_000  # comparisons of a search by radius whose answers are held at once
FEW = 16  # queries by radius at once where the number of items is not known


@router.post(
    "/search",
    **describe(schemas.SearchRequest, schemas.SearchAnswer, **FORMATS),
)
async def search(request: Request, t: TableName) -> Response:
    """The k items nearest to each query, exactly. Queries are vectors, or items that are stored (`like`).

    A body of the type application/x-npy is a matrix of queries; the settings are then parameters of the address.
    """
    service, served = table_of(request, t, "read")
    body = await service.body(request)
    return await service.work(_search, request, body, served, service.limits)


def _search(request: Request, body: bytes, served: Served, limits: Limits) -> Response:
    clock = time.perf_counter()
    asked = request_of(schemas.SearchRequest, request, body, limits)
    ask = asked.ask
    queries = _n_queries(asked, limits)
    _check_answers(queries, ask, limits)

    def answer(table: Servable) -> Any:
        return table.search(
            _queries(asked, table, limits),
            ask.k,
            where=ask.where,
            rescore=ask.rescore,
            metric=ask.metric,
            compare=ask.compare,
            asymmetric=ask.asymmetric,
            offset=ask.offset,
            include=tuple(ask.include),
            **_partial(ask, table),
        )

    response = serialized(search_answer(served.read(answer), partial=ask.partial), request)
    served.latencies.add(time.perf_counter() - clock)
    return response


@router.post(
    "/radius",
    **describe(schemas.RadiusRequest, schemas.RadiusAnswer, **FORMATS),
)
async def radius(request: Request, t: TableName) -> Response:
    """All items at most so many bits away from each query."""
    service, served = table_of(request, t, "read")
    body = await service.body(request)
    return await service.work(_radius, request, body, served, service.limits)


def _radius(request: Request, body: bytes, served: Served, limits: Limits) -> Response:
    clock = time.perf_counter()
    asked = request_of(schemas.RadiusRequest, request, body, limits)
    _n_queries(asked, limits)
    found = served.read(lambda table: _within(asked, table, limits))
    response = serialized(search_answer(found, partial=asked.ask.partial), request)
    served.latencies.add(time.perf_counter() - clock)
    return response


def _within(asked: Parsed[schemas.RadiusRequest], table: Servable, limits: Limits) -> RadiusResult:
    """Items within a radius, with a bound on how many: queries are asked in parts that cannot find too many."""
    ask, Q = asked.ask, _queries(asked, table, limits)
    most = limits.payloads if "payloads" in ask.include else limits.answers
    how: dict[str, Any] = {"where": ask.where, "compare": ask.compare, **_partial(ask, table)}
    # A cluster that has lost shards cannot count its items.
    piece = FEW if ask.partial else max(1, MOST_AT_ONCE // max(1, len(table)))
    parts: list[RadiusResult] = []
    found = 0
    for start in range(0, max(1, len(Q)), piece):
        plain = table.search_radius(Q[start : start + piece], ask.radius, **how)
        found += len(plain.ids)
        if found > most:
            raise Problem(
                "too-large",
                f"more than {most:,} items are within {ask.radius} bits: choose a smaller radius, or fewer queries",
            )
        if ask.include:
            plain = table.search_radius(
                Q[start : start + piece], ask.radius, include=tuple(ask.include), **how
            )
        parts.append(plain)
    return parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: list[RadiusResult]) -> RadiusResult:
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    whole = RadiusResult(
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.ids for part in parts]),
    )
    if parts[0].labels is not None:
        whole.labels = np.concatenate([part.labels for part in parts if part.labels is not None])
    if parts[0].payloads is not None:
        whole.payloads = np.concatenate([part.payloads for part in parts if part.payloads is not None])
    if parts[0].fields is not None:
        whole.fields = {
            name: np.concatenate([part.fields[name] for part in parts if part.fields is not None])
            for name in parts[0].fields
        }
    whole.missing = max(part.missing for part in parts)
    return whole


def _partial(ask: schemas.SearchRequest | schemas.RadiusRequest, table: Servable) -> dict[str, Any]:
    """The argument of a cluster, where it is asked for."""
    if ask.partial and isinstance(table, HashTable):
        raise ValueError("partial is for clusters, and this is a table: all of it is searched. Leave it out")
    return {"partial": True} if ask.partial else {}


def _n_queries(asked: Parsed[Any], limits: Limits) -> int:
    vectors, like = asked.get("vectors"), asked.get("like")
    if (vectors is None) == (like is None):
        raise ValueError("give the queries as vectors, or as ids of stored items in like, and not both")
    if vectors is None:
        n = rows_of(like, "like")
    else:
        n = len(vectors) if isinstance(vectors, list) or vectors.ndim else 0
    check_rows(n, limits.queries, "queries")
    return n


def _queries(asked: Parsed[Any], table: Servable, limits: Limits) -> np.ndarray:
    """The queries as a matrix; of stored items, their features."""
    like = asked.get("like")
    if like is None:
        return matrix(asked.get("vectors"), "vectors", limits, table.dtype)
    X = table.get(like).features
    if X is None:
        raise ValueError("like needs items with features, which this table does not keep: give vectors")
    return X


def _check_answers(queries: int, ask: schemas.SearchRequest, limits: Limits) -> None:
    for name, value in (("k + offset", ask.k + ask.offset), ("rescore", ask.rescore or 0)):
        if value > limits.k:
            raise Problem("too-large", f"{name} is {value:,}, more than {limits.k:,}")
    reach = ask.rescore or ask.k + ask.offset
    check_rows(
        queries * reach, limits.answers // (10 if ask.rescore else 1), "answers (queries times neighbours)"
    )
    if "payloads" in ask.include:
        check_rows(queries * ask.k, limits.payloads, "payloads")
