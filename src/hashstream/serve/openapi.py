"""Descriptions of routes for the OpenAPI document, and how errors of a route are answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from hashstream.serve import schemas
from hashstream.serve.bodies import ARROW, JSON, NPY, NPZ
from hashstream.serve.problems import MOST_ERRORS, PROBLEM_JSON, Problem, problem_of
from hashstream.versions import __version__

__all__ = ["Route", "describe", "openapi_of"]

log = logging.getLogger("hashstream.serve")

REF = "#/components/schemas/{model}"
BINARY = {"schema": {"type": "string", "format": "binary"}}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A name of this write, such as a UUID. Repeated with the same key, it is done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
ABOUT = """Tables of compact binary codes that learn from what is stored and taught.

Requests and answers are JSON; of two equal names in an object, the last one counts. For machines, matrices can be sent
as `.npy`, `.npz` or Arrow (Content-Type), and answers be asked for as `.npz` or Arrow (Accept). Errors are problem
details (RFC 9457)."""


class Route(APIRoute):
    """A route whose errors are answered as problem details."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answering(request: Request) -> Response:
            try:
                return await handler(request)
            except ClientDisconnect:
                raise
            except HTTPException:
                raise
            except RequestValidationError as error:
                return _parameters(error).response()
            except Exception as error:
                problem = problem_of(error)
                if problem.name == "internal":
                    log.exception("%s %r failed", request.method, request.url.path)
                return problem.response()

        return answering


def _parameters(error: RequestValidationError) -> Problem:
    found = [{"where": ".".join(map(str, one["loc"])), "what": one["msg"]} for one in error.errors()]
    return Problem("value", f"{found[0]['where']}: {found[0]['what']}", more={"errors": found[:MOST_ERRORS]})


def describe(
    request: type[BaseModel] | None = None,
    answer: type[BaseModel] | None = None,
    *,
    takes: tuple[str, ...] = (JSON,),
    gives: tuple[str, ...] = (),
    status: int = 200,
    required: bool = True,
    key: bool = False,
) -> dict[str, Any]:
    """Arguments for a route's decorator: its body and answer, by schema and media type.

    gives : media types of the answer; those besides JSON, and all where there is no schema, are bytes.
    """
    extra: dict[str, Any] = {}
    if request is not None:
        content: dict[str, Any] = {kind: BINARY for kind in takes if kind != JSON}
        extra["requestBody"] = {
            "required": required,
            "content": {JSON: {"schema": {"$ref": REF.format(model=request.__name__)}}, **content},
        }
    if key:
        extra["parameters"] = [KEY]
    content = {kind: BINARY for kind in gives if kind != JSON}
    if answer is not None:
        content = {JSON: {"schema": {"$ref": REF.format(model=answer.__name__)}}, **content}
    problem = {"schema": {"$ref": REF.format(model="ProblemDetails")}}
    good = {"description": "Done.", **({"content": content} if content else {})}
    return {
        "openapi_extra": extra,
        "status_code": status,
        "response_class": Response,
        "responses": {
            status: good,
            "4XX": {"description": "Refused; nothing has changed.", "content": {PROBLEM_JSON: problem}},
            "5XX": {"description": "Not now.", "content": {PROBLEM_JSON: problem}},
        },
    }


def openapi_of(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """The function that makes the OpenAPI document, with the schemas of bodies that the routes read themselves."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title="hashstream", version=__version__, description=ABOUT, routes=app.routes)
            components = made.setdefault("components", {})
            known = components.setdefault("schemas", {})
            for name in schemas.__all__:
                model = getattr(schemas, name)
                if isinstance(model, type) and issubclass(model, BaseModel):
                    schema = model.model_json_schema(ref_template=REF)
                    known |= schema.pop("$defs", {})
                    known[name] = schema
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            made["security"] = [{"token": []}, {}]
            app.openapi_schema = made
        return app.openapi_schema

    return document


MACHINE_ROWS = (JSON, NPZ, ARROW)
MACHINE_QUERIES = (JSON, NPY, NPZ, ARROW)
