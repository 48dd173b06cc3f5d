"""Tables themselves: list, create, delete, and keep them in order."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hashstream.hashers.serialization import to_bytes
from hashstream.serve import schemas
from hashstream.serve.answers import stats_answer
from hashstream.serve.catalogue import HIDDEN
from hashstream.serve.openapi import Route, describe
from hashstream.serve.problems import Problem
from hashstream.serve.routes.common import (
    Admin,
    Reads,
    Serving,
    TableAdmin,
    TableName,
    TableReads,
    TableWrites,
    idempotency_key,
    json_answer,
    read_request,
)
from hashstream.serve.served import Served

router = APIRouter(prefix="/v1/tables", route_class=Route, tags=["tables"])

PIECE = 1 << 20  # bytes of a snapshot that are sent at a time
BLOCK = 512  # of a tar file


@router.get("", **describe(answer=schemas.Tables))
async def list_tables(service: Reads) -> Response:
    """List the tables, with their settings."""
    return json_answer({"tables": await service.work(lambda: [served.info() for served in service.tables])})


@router.post("", **describe(schemas.CreateRequest, schemas.TableInfo, status=201, key=True))
async def create_table(request: Request, service: Admin) -> Response:
    """Create an empty table."""
    asked = await read_request(schemas.CreateRequest, request, service)
    served = await service.long_work(service.tables.create, asked.ask, idempotency_key(request))
    return json_answer(served.info(), 201)


@router.get("/{t}", **describe(answer=schemas.TableInfo))
async def show_table(served: TableReads, service: Serving) -> Response:
    """Show a table's settings, fields and size."""
    return json_answer(await service.work(served.info))


@router.delete("/{t}", **describe(status=204, key=True))
async def delete_table(request: Request, t: TableName, service: Admin) -> Response:
    """Delete a table and everything in it."""
    await service.long_work(service.tables.delete, t, idempotency_key(request))
    return Response(status_code=204)


@router.get("/{t}/stats", **describe(answer=schemas.StatsAnswer))
async def stats(served: TableReads, service: Serving) -> Response:
    """Items, versions, staleness, sizes and signs of drift."""
    return json_answer(await service.work(lambda: stats_answer(served.stats(age=0.0))))


@router.post("/{t}/refresh", **describe(schemas.RefreshRequest, schemas.Recoded, required=False))
async def refresh(request: Request, served: TableWrites, service: Serving) -> Response:
    """Re-encode the items whose codes are of older versions, the oldest first."""
    asked = await read_request(schemas.RefreshRequest, request, service)
    count = await service.written(served.submit(lambda table: table.refresh(asked.ask.budget)))
    if count:
        service.later(served, lambda: served.read(served.curve.after))
    return json_answer({"recoded": count})


@router.post("/{t}/fields", **describe(schemas.FieldsRequest, schemas.TableInfo))
async def declare(request: Request, served: TableAdmin, service: Serving) -> Response:
    """Add fields; the items that are there have no value for them."""
    asked = await read_request(schemas.FieldsRequest, request, service)
    await service.written(served.submit(lambda table: table.declare(asked.ask.fields)))
    return json_answer(served.info())


@router.post("/{t}/check", **describe(schemas.CheckRequest, schemas.Checked, required=False))
async def check(request: Request, served: TableAdmin, service: Serving) -> Response:
    """Verify every checksum, and encode a sample of items again."""
    asked = await read_request(schemas.CheckRequest, request, service)
    return json_answer(
        await service.long_work(lambda: served.read(lambda table: table.check(asked.ask.sample)))
    )


@router.post("/{t}/compact", **describe(answer=schemas.Freed))
async def compact(served: TableAdmin, service: Serving) -> Response:
    """Free the space of items that were removed or replaced."""
    return json_answer({"freed": await service.written(served.submit(lambda table: table.compact()))})


@router.post("/{t}/flush", **describe(status=204))
async def flush(served: TableWrites, service: Serving) -> Response:
    """Write a checkpoint; with durability "fast", everything so far survives a power loss afterwards."""
    await service.written(served.submit(lambda table: table.flush()))
    return Response(status_code=204)


@router.get("/{t}/hasher", **describe(gives=("application/octet-stream",)))
async def hasher(served: TableReads, service: Serving) -> Response:
    """The current hash functions and all that they were learned from, as `hashstream.load` reads it."""
    raw = await service.long_work(lambda: to_bytes(served.read(lambda table: table.hasher)))
    return Response(raw, media_type="application/octet-stream")


@router.get("/{t}/snapshot", **describe(gives=("application/x-tar",)))
async def snapshot(served: TableAdmin, service: Serving) -> Response:
    """A copy of the table as of one commit, as a tar file: unpacked, it is a table."""
    if not served.copying.acquire(blocking=False):
        raise Problem("busy", f"a snapshot of {served.name!r} is being sent: try again later", retry_after=5)
    copy = _Copy(served)
    try:
        await service.long_work(copy.make)
    except BaseException:
        copy.leave()
        raise
    return _Sent(copy)


class _Copy:
    """A copy of a table in a folder, while `copying` is held. It may take longer than a request waits for it."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.folder = served.path.with_name(f"{HIDDEN}copy-{secrets.token_hex(8)}")
        self._lock = threading.Lock()
        self._working, self._left = False, threading.Event()

    def make(self) -> None:
        """In a thread; where nobody waits any more, the copy is removed when it is there."""
        with self._lock:
            if self._left.is_set():
                return
            self._working = True
        try:
            self.served.read(lambda table: table.snapshot(self.folder))
        finally:
            with self._lock:
                self._working = False
                if self._left.is_set():
                    self._remove()

    def leave(self) -> None:
        """Remove the copy, and let another be made; where a thread is still at work, that does it at its end."""
        with self._lock:
            if not self._left.is_set():
                self._left.set()
                if not self._working:
                    self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.served.copying.release()


class _Sent(StreamingResponse):
    """A copy as a tar file. Its folder is removed, and another snapshot may be made, before the client has the last
    piece; and also where the client has gone before the first one."""

    def __init__(self, copy: _Copy) -> None:
        headers = {"Content-Disposition": f'attachment; filename="{copy.served.name}.tar"'}
        super().__init__(self._pieces(), media_type="application/x-tar", headers=headers)
        self._copy = copy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._leave()

    async def _pieces(self) -> AsyncIterator[bytes]:
        pieces = _tar(self._copy.folder, self._copy.served.name)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece
        await self._leave()
        yield bytes(2 * BLOCK)

    async def _leave(self) -> None:
        await asyncio.shield(asyncio.to_thread(self._copy.leave))


def _tar(folder: Path, name: str) -> Iterator[bytes]:
    """The files of a folder as a tar file, piece by piece, without the blocks at its end."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        info = tarfile.TarInfo(f"{name}/{path.relative_to(folder).as_posix()}")
        info.size = path.stat().st_size
        info.mtime = int(path.stat().st_mtime)
        yield info.tobuf(tarfile.PAX_FORMAT)
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece
        yield bytes(-info.size % BLOCK)
