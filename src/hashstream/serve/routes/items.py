"""Items: ingest, get, count, remove, and labels."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from hashstream.serve import schemas
from hashstream.serve.answers import items_answer, wanted
from hashstream.serve.bodies import JSON, Parsed
from hashstream.serve.json_text import read_json
from hashstream.serve.kinds import Servable
from hashstream.serve.limits import Limits
from hashstream.serve.openapi import MACHINE_ROWS, Route, describe
from hashstream.serve.problems import Problem
from hashstream.serve.routes.common import (
    Serving,
    TableReads,
    TableWrites,
    check_rows,
    check_texts,
    idempotency_key,
    json_answer,
    matrix,
    read_request,
    rows_of,
    serialized,
)
from hashstream.serve.served import Served
from hashstream.serve.service import Service
from hashstream.table import Call, TableError

router = APIRouter(prefix="/v1/tables/{t}", route_class=Route, tags=["items"])

Where = Annotated[str | None, Query(description="A filter, as JSON.", examples=['{"tenant": "a"}'])]


@router.post("/items", **describe(schemas.IngestRequest, schemas.Stored, takes=MACHINE_ROWS, key=True))
async def ingest(request: Request, served: TableWrites, service: Serving) -> Response:
    """Store items, and learn from those that have a label. They are durable when this is answered.

    An id that is stored already is replaced, with all of its data.
    """
    asked = await read_request(schemas.IngestRequest, request, service)
    call, nbytes = await service.work(_ingest_call, asked, served, service.limits, idempotency_key(request))
    await service.written(served.submit(call, nbytes))
    return json_answer({"stored": len(call.args[0])})


def _ingest_call(
    asked: Parsed[schemas.IngestRequest], served: Served, limits: Limits, key: str | None
) -> tuple[Call, int]:
    ids, ask = asked.get("ids"), asked.ask
    check_rows(rows_of(ids, "ids"), limits.rows, "items")
    X = matrix(asked.get("vectors"), "vectors", limits, served.table().dtype)
    for row, payload in enumerate(ask.payloads or ()):
        if payload is not None and len(json.dumps(payload)) > limits.payload_bytes:
            raise Problem(
                "too-large", f"payloads[{row}] takes more than {limits.payload_bytes:,} characters of JSON"
            )
    labels = _labels(asked.get("labels"))
    check_texts("ids", ids, limits)
    check_texts("labels", labels, limits)
    for name, values in (ask.fields or {}).items():
        check_texts(f"fields.{name}", values, limits)
    more = {"fields": ask.fields, "payloads": ask.payloads}
    nbytes = max(X.nbytes, asked.nbytes)  # payloads and fields are in the body only
    return Call("ingest" if ask.learn else "add", (ids, X, labels), more, key=key), nbytes


def _labels(given: Any) -> Any:
    """Labels as the table takes them; lists of 0 and 1 as a matrix, in which a missing row is NaN."""
    if not isinstance(given, list):
        return given
    if not any(isinstance(one, list) for one in given):
        labels = np.empty(len(given), object)  # of each its own type: 1 and 2.5, true and 2
        labels[:] = given
        return labels
    widths = {len(one) for one in given if isinstance(one, list)}
    if len(widths) > 1 or any(one is not None and not isinstance(one, list) for one in given):
        raise ValueError("labels must all be lists of 0 and 1 of one length, or none of them a list")
    missing = [float("nan")] * widths.pop()
    matrix = np.array([missing if one is None else one for one in given], np.float64)
    return matrix if np.isnan(matrix).any() else matrix.astype(np.int64)


@router.get("/items", **describe(answer=schemas.ItemsAnswer, gives=MACHINE_ROWS))
async def show_items(
    request: Request,
    served: TableReads,
    service: Serving,
    id: Annotated[list[str], Query(description="Ids, one or more.", examples=[["17"]])],
    features: bool = False,
) -> Response:
    """Stored data of some items."""
    ask = Parsed(schemas.GetRequest(ids=[], features=features), {"ids": served.ids_of(id)})
    return await service.work(lambda: serialized(_items(ask, served, service.limits), request))


@router.post(
    "/items/get", **describe(schemas.GetRequest, schemas.ItemsAnswer, takes=MACHINE_ROWS, gives=MACHINE_ROWS)
)
async def get_items(request: Request, served: TableReads, service: Serving) -> Response:
    """Stored data of items, for long lists of ids."""
    asked = await read_request(schemas.GetRequest, request, service)
    return await service.work(lambda: serialized(_items(asked, served, service.limits), request))


def _items(asked: Parsed[schemas.GetRequest], served: Served, limits: Limits) -> dict[str, Any]:
    ids, features = asked.get("ids"), asked.ask.features
    check_rows(rows_of(ids, "ids"), limits.payloads, "items")
    if features and len(ids) * (served.table().n_features or 0) * 8 > limits.body_bytes:
        raise Problem(
            "too-large", f"the features of {len(ids):,} items take more than {limits.body_bytes:,} bytes"
        )
    return items_answer(served.read(lambda table: table.get(ids, features=features)))


@router.post(
    "/items/remove", **describe(schemas.RemoveRequest, schemas.Removed, takes=MACHINE_ROWS, key=True)
)
async def remove_items(request: Request, served: TableWrites, service: Serving) -> Response:
    """Remove items for good, by their ids or by a filter."""
    asked = await read_request(schemas.RemoveRequest, request, service)
    ids, where, key = asked.get("ids"), asked.ask.where, idempotency_key(request)
    if ids is not None:
        check_rows(rows_of(ids, "ids"), service.limits.rows, "ids")
    removal = served.submit(lambda table: table.remove(ids, where=where, key=key), asked.nbytes)
    count = await service.written(removal)
    return json_answer({"removed": count})


@router.get("/ids", **describe(answer=schemas.Ids, gives=MACHINE_ROWS))
async def list_ids(
    request: Request,
    served: TableReads,
    service: Serving,
    where: Where = None,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
    limit: Annotated[int, Query(ge=0, le=1 << 53)] = 100,
) -> Response:
    """A page of ids in the order of insertion, and how many there are in all."""
    ask = schemas.IdsRequest(where=_filter(where), offset=offset, limit=limit)
    return await service.work(_ids, ask, request, served, service.limits)


@router.post("/ids", **describe(schemas.IdsRequest, schemas.Ids, gives=MACHINE_ROWS, required=False))
async def all_ids(request: Request, served: TableReads, service: Serving) -> Response:
    """As GET, for long filters; all ids by default."""
    asked = await read_request(schemas.IdsRequest, request, service)
    return await service.work(_ids, asked.ask, request, served, service.limits)


def _ids(ask: schemas.IdsRequest, request: Request, served: Served, limits: Limits) -> Response:
    ids = served.read(lambda table: table.ids(ask.where, offset=ask.offset, limit=ask.limit))
    if wanted(request.headers.get("accept", "")) == JSON:
        check_rows(len(ids), limits.answers, "ids as JSON")
    return serialized({"ids": ids, "total": served.read(lambda table: table.count(ask.where))}, request)


@router.get("/count", **describe(answer=schemas.Count))
async def count(served: TableReads, service: Serving, where: Where = None) -> Response:
    """How many items there are, or match a filter."""
    kept = _filter(where)
    return json_answer({"count": await service.work(lambda: served.read(lambda table: table.count(kept)))})


@router.post("/count", **describe(schemas.CountRequest, schemas.Count, required=False))
async def count_where(request: Request, served: TableReads, service: Serving) -> Response:
    """As GET, for long filters."""
    where = (await read_request(schemas.CountRequest, request, service)).ask.where
    return json_answer({"count": await service.work(lambda: served.read(lambda table: table.count(where)))})


def _filter(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    found = read_json(text, "where", "value")
    if found is not None and not isinstance(found, dict):
        raise Problem("value", 'where must be an object, such as {"tenant": "a"}')
    return found


@router.post("/labels", **describe(schemas.LabelsRequest, schemas.Changed, takes=MACHINE_ROWS, key=True))
async def label(request: Request, served: TableWrites, service: Serving) -> Response:
    """Give labels to stored items, and learn from them. null takes a label back."""
    asked = await read_request(schemas.LabelsRequest, request, service)
    call = await service.work(_label_call, asked, service.limits, idempotency_key(request))
    tested = await _tested(service, served, *call.args)
    changed = await service.written(served.submit(call, asked.nbytes))
    if changed:
        service.later(served, lambda: served.read(lambda table: served.curve.after(table, tested)))
    return json_answer({"changed": changed})


def _label_call(asked: Parsed[schemas.LabelsRequest], limits: Limits, key: str | None) -> Call:
    ids = asked.get("ids")
    check_rows(rows_of(ids, "ids"), limits.rows, "labels")
    labels = _labels(asked.get("labels"))
    check_texts("labels", labels, limits)
    return Call("label", (ids, labels), key=key)


async def _tested(service: Service, served: Served, ids: Any, labels: Any) -> list[float]:
    """How well the items that get a label were found before it is learned; nothing where they cannot be tested."""

    def test(table: Servable) -> list[float]:
        return served.curve.before(table, ids, labels) if len(ids) == len(labels) else []

    with suppress(
        KeyError, TypeError, ValueError, TableError
    ):  # the table's own answer to this request says why
        return await service.work(lambda: served.read(test))
    return []
