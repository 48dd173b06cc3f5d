"""The service itself: whether it lives, its metrics, its events, and the page."""

from __future__ import annotations

from importlib.resources import files
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from hashstream.serve import schemas
from hashstream.serve.openapi import Route, describe
from hashstream.serve.problems import Problem
from hashstream.serve.routes.common import Reads, Serving, json_answer
from hashstream.serve.schemas import NAME

router = APIRouter(route_class=Route, tags=["service"])

PAGE = Path(str(files("hashstream.serve") / "page"))
POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/healthz", **describe(answer=schemas.Status))
async def healthz() -> Response:
    """The process answers."""
    return json_answer({"status": "ok"})


@router.get("/readyz", **describe(answer=schemas.Status))
async def readyz(service: Serving) -> Response:
    """All tables are open, and the service is not stopping."""
    if not service.ready:
        if service.draining:
            raise Problem("closing", "the service is stopping", retry_after=1)
        raise Problem("starting", "tables are being opened", retry_after=1)
    failed = sum(served.state == "failed" for served in service.tables)
    return json_answer({"status": f"tables that could not be opened: {failed}" if failed else "ok"})


@router.get("/metrics", **describe(gives=("text/plain",)))
async def metrics(service: Reads) -> Response:
    """Metrics for Prometheus."""
    return Response(
        await service.work(service.metrics.text), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


@router.get("/v1/events", **describe(gives=("text/event-stream",)))
async def events(service: Reads, table: Annotated[str | None, Query(pattern=NAME)] = None) -> Response:
    """Server-sent events: commits, learning, refreshes; of one table, or of all."""
    stream = service.events.listen(table)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.get("/", include_in_schema=False)
async def page() -> Response:
    return _file("index.html")


@router.get("/page/{name}", include_in_schema=False)
async def page_file(name: str) -> Response:
    return _file(name)


_FILES = {path.name: path for path in PAGE.iterdir() if path.is_file()} if PAGE.is_dir() else {}


def _file(name: str) -> Response:
    """A file of the page, among those that the package has: no name of a request becomes a path."""
    path = _FILES.get(name)
    if path is None:
        raise Problem("not-found", f"there is no {name!r} here")
    kind = {".js": "text/javascript", ".svg": "image/svg+xml"}.get(path.suffix) or guess_type(name)[0]
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(path.read_bytes(), media_type=kind, headers=headers)
