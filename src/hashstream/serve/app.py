"""`create_app`: the service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from hashstream.serve.gate import Gate
from hashstream.serve.openapi import openapi_of
from hashstream.serve.problems import Problem
from hashstream.serve.routes import items, search, service, tables, teaching
from hashstream.serve.service import Service

__all__ = ["create_app"]


def create_app(served: Service, *, origins: tuple[str, ...] = ()) -> ASGIApp:
    """The application of a service. origins : of pages elsewhere that may use it (CORS); none by default.

    It opens the tables when it starts, and closes them when it stops.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await served.start()
        try:
            yield
        finally:
            await served.stop()

    app = FastAPI(lifespan=lifespan, redirect_slashes=False, redoc_url=None, docs_url=None)
    app.state.service = served
    for room in (search, items, tables, teaching, service):  # they are tried in this order: the busiest first
        app.include_router(room.router)
    app.openapi = openapi_of(app)  # type: ignore[method-assign]
    app.add_exception_handler(HTTPException, _not_found)
    wrapped: ASGIApp = app
    if origins:
        wrapped = CORSMiddleware(
            app,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
        )
    return Gate(wrapped, served, origins)


async def _not_found(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        problem = Problem(
            "method", "this address does not take this method; /openapi.json lists what there is"
        )
    else:
        problem = Problem("not-found", "there is nothing at this address; /openapi.json lists what there is")
    response = problem.response()
    response.headers.update(error.headers or {})
    return response
