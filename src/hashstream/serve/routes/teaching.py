"""For the page: suggestions, the map, the curve, its health, thumbnails, and images as queries."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from hashstream.serve import schemas
from hashstream.serve.bodies import media_type
from hashstream.serve.health import EVERY
from hashstream.serve.openapi import Route, describe
from hashstream.serve.problems import Problem
from hashstream.serve.routes.common import Serving, TableReads, json_answer
from hashstream.serve.teaching.suggestions import suggest

router = APIRouter(prefix="/v1/tables/{t}", route_class=Route, tags=["teaching"])

IMAGE = {
    "requestBody": {
        "required": True,
        "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/suggestions", **describe(answer=schemas.SuggestionsAnswer))
async def suggestions(
    served: TableReads, service: Serving, n: Annotated[int, Query(ge=1, le=100)] = 12
) -> Response:
    """Items to label next: those that stand for most others; and the classes that answers confuse."""
    return json_answer(await service.work(lambda: served.read(lambda table: suggest(table, n).to_fields())))


@router.get("/map", **describe(answer=schemas.MapAnswer))
async def code_map(
    served: TableReads, service: Serving, n: Annotated[int, Query(ge=1, le=5000)] = 1000
) -> Response:
    """The table's sample in two dimensions, by Hamming distance."""
    return json_answer(await service.work(lambda: served.read(lambda table: served.code_map.frame(table, n))))


@router.get("/teaching", **describe(answer=schemas.TeachingAnswer))
async def teaching(served: TableReads, service: Serving) -> Response:
    """How well items were found as labels came, and how many labels each class has."""
    return json_answer(await service.work(lambda: served.read(served.curve.teaching)))


@router.get("/health", **describe(answer=schemas.HealthAnswer))
async def health(
    served: TableReads, service: Serving, since: Annotated[float, Query(ge=0, allow_inf_nan=False)] = 0.0
) -> Response:
    """Figures over time, and what a refresh would bring."""
    outlook = await service.work(served.refresh_outlook)
    return json_answer({"points": served.health.points(since), "every": EVERY, "refresh": outlook})


@router.get("/images/{id:path}", **describe(gives=("image/*",)))
async def image(id: str, served: TableReads, service: Serving) -> Response:
    """A thumbnail of an item."""
    found = await service.work(
        lambda: served.read(lambda table: served.images.of(table, served.ids_of([id])[0]))
    )
    if found is None:
        raise Problem("no-image", f"there is no image of {id!r}")
    raw, kind = found
    return Response(raw, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


@router.post("/embed", **{**describe(answer=schemas.EmbedAnswer), "openapi_extra": IMAGE})
async def embed(request: Request, served: TableReads, service: Serving) -> Response:
    """Turn an image into a vector of the table, with the network that the service was started with."""
    if served.images.network is None:
        raise Problem(
            "value", "this table has no network for images: start the service with --network TABLE=FILE.onnx"
        )
    kind = media_type(request.headers.get("content-type", ""))
    if not kind.startswith("image/"):
        raise Problem(
            "media-type", f"send an image file, with a Content-Type such as image/png, not {kind!r}"
        )
    body = await service.body(request)
    return json_answer({"vector": await service.work(served.images.network.embed, body)})
