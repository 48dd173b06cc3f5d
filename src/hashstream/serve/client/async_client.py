"""`AsyncClient`: the client for programs with an event loop. Each call runs in a thread, of a pool, and is awaited.

A call that is cancelled ends at once for the program, but the request goes on in its thread: a write may be done. To
find out, repeat it with the same `key`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypeVar

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.hashers.validation import check_count
from hashstream.serve.client.async_events import AsyncEvents
from hashstream.serve.client.client import Client
from hashstream.serve.client.remote_table import RemoteTable
from hashstream.table.settings import Settings

__all__ = ["AsyncClient", "AsyncRemoteTable"]

P = ParamSpec("P")
R = TypeVar("R")
Inner = TypeVar("Inner")
Inner_co = TypeVar("Inner_co", covariant=True)


class Runner(Protocol[Inner_co]):
    """An object whose methods are those of another one, `inner`, awaited."""

    @property
    def inner(self) -> Inner_co: ...

    def run(self, call: Callable[[], R]) -> Awaitable[R]: ...


def awaited(
    method: Callable[Concatenate[Inner, P], R],
) -> Callable[Concatenate[Runner[Inner], P], Coroutine[Any, Any, R]]:
    """A method of the inner object as one that is awaited, with its signature and documentation."""

    @wraps(method)
    async def call(self: Runner[Inner], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.run(partial(method, self.inner, *args, **kwargs))

    return call


class AsyncRemoteTable:
    """A table of a service: the methods of `RemoteTable`, awaited; see `AsyncClient.table`.

    Properties that are a request are methods here: `await table.fields()`. In the place of `len(table)`, `id in table`
    and iteration: `await table.count()`, `await table.contains(id)` and `async for`.
    """

    def __init__(self, inner: RemoteTable, threads: ThreadPoolExecutor) -> None:
        self._inner, self._threads = inner, threads

    @property
    def inner(self) -> RemoteTable:
        """The table whose methods these are, for code that runs in threads."""
        return self._inner

    def run(self, call: Callable[[], R]) -> Awaitable[R]:
        """Call a function in a thread of the client's pool."""
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    ingest = awaited(RemoteTable.ingest)
    add = awaited(RemoteTable.add)
    label = awaited(RemoteTable.label)
    remove = awaited(RemoteTable.remove)
    declare = awaited(RemoteTable.declare)
    refresh = awaited(RemoteTable.refresh)
    flush = awaited(RemoteTable.flush)
    compact = awaited(RemoteTable.compact)
    search = awaited(RemoteTable.search)
    search_radius = awaited(RemoteTable.search_radius)
    get = awaited(RemoteTable.get)
    ids = awaited(RemoteTable.ids)
    count = awaited(RemoteTable.count)
    contains = awaited(RemoteTable.__contains__)
    info = awaited(RemoteTable.info)
    stats = awaited(RemoteTable.stats)
    check = awaited(RemoteTable.check)
    snapshot = awaited(RemoteTable.snapshot)

    async def fields(self) -> dict[str, str]:
        """The declared fields, name -> type."""
        return await self.run(lambda: self._inner.fields)

    async def settings(self) -> Settings:
        """Policy, durability and limits, as they are stored with the table."""
        return await self.run(lambda: self._inner.settings)

    async def keeps_features(self) -> bool:
        """Whether features are stored, from which items are re-encoded."""
        return await self.run(lambda: self._inner.keeps_features)

    async def commits(self) -> int:
        """The number of the table's last commit."""
        return await self.run(lambda: self._inner.commits)

    async def version(self) -> int | None:
        """The version of the current hash functions; None before the first item."""
        return await self.run(lambda: self._inner.version)

    async def n_features(self) -> int | None:
        """Features per item; None before the first item."""
        return await self.run(lambda: self._inner.n_features)

    async def dtype(self) -> np.dtype[Any] | None:
        """The dtype of features; None before the first item."""
        return await self.run(lambda: self._inner.dtype)

    async def id_kind(self) -> Literal["int", "str"] | None:
        """The kind of the ids; None before the first item."""
        return await self.run(lambda: self._inner.id_kind)

    async def hasher(self) -> OnlineHasher:
        """A copy of the current hasher."""
        return await self.run(lambda: self._inner.hasher)

    async def __aiter__(self) -> AsyncIterator[Any]:
        """The ids of all items, as of one commit, in the order of insertion."""
        for one in (await self.ids()).tolist():
            yield one

    @property
    def name(self) -> str:
        """Its name in the service."""
        return self._inner.name

    @property
    def path(self) -> None:
        """None: the folder is the service's."""
        return None

    def writer(self) -> Self:
        """The table itself: the service lets calls that wait for one another share a commit."""
        return self

    async def close(self) -> None:
        """End the use of this object. The table, and the client, stay open."""
        self._inner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._inner)[1:]}"


def opened(
    method: Callable[Concatenate[Client, P], RemoteTable],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, AsyncRemoteTable]]:
    """A method of the client that returns a table, likewise."""

    @wraps(method)
    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncRemoteTable:
        table = await self.run(partial(method, self.inner, *args, **kwargs))
        return AsyncRemoteTable(table, self.threads)

    return call


class AsyncClient:
    """Tables of a service for programs with an event loop: the methods of `Client`, awaited.

    threads : requests that are under way at once. Further ones wait for a thread.

    Examples
    --------
    A session, with a service at this address:

        async with hs.AsyncClient("http://localhost:8000") as client:
            photos = await client.table("photos")
            nearest, others = await asyncio.gather(photos.search(Q, k=10), photos.count())

    >>> AsyncClient("http://localhost:8000")
    <AsyncClient of http://localhost:8000>
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 5,
        tls: ssl.SSLContext | None = None,
        threads: int = 8,
    ) -> None:
        self._inner = Client(url, token, timeout=timeout, retries=retries, tls=tls)
        self.threads = ThreadPoolExecutor(check_count("threads", threads, 1), "hashstream-client")

    @property
    def inner(self) -> Client:
        """The client whose methods these are, for code that runs in threads."""
        return self._inner

    def run(self, call: Callable[[], R]) -> Awaitable[R]:
        """Call a function in a thread of the pool."""
        return asyncio.get_running_loop().run_in_executor(self.threads, call)

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._inner.url

    tables = awaited(Client.tables)
    table = opened(Client.table)
    create = opened(Client.create)
    delete = awaited(Client.delete)

    def events(self, table: str | None = None) -> AsyncEvents:
        """Events of the service as they happen; as `Client.events`, with `async with` and `async for`."""
        return AsyncEvents(self._inner.events(table))

    async def close(self) -> None:
        """Close the connections. Requests that are under way go on in their threads."""
        self._inner.close()
        self.threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self.url}>"
