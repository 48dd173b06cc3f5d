"""`hashstream serve` and `hashstream token`."""

from __future__ import annotations

import logging
import sys
import threading
import time
import webbrowser
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hashstream._extras import require
from hashstream.cli.cluster_common import AddressOption, is_cluster
from hashstream.cli.common import console, fail, say
from hashstream.cli.quiet import engine_hushed
from hashstream.table import TableError

__all__ = ["serve", "token"]

LOG = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Scope(StrEnum):
    """Scopes of a token, each of which holds those before it."""

    read = "read"
    write = "write"
    admin = "admin"


def serve(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Tables, clusters, or folders of them; new tables are created in the first folder of tables."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Anything but loopback needs --tokens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any that is free.")
    ] = 8000,
    tokens: Annotated[
        Path | None, typer.Option(help="File with hashes of tokens; `hashstream token` adds one.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only search; follow what another process writes.")
    ] = False,
    images: Annotated[
        Path | None, typer.Option(help="Folder of thumbnails, ID.png or ID.jpg, for the page.")
    ] = None,
    pixels: Annotated[
        str | None, typer.Option(help="HxW: the vectors are grey images of this size, such as 28x28.")
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(help="TABLE=FILE.onnx: the network that turns an image into a vector of this table."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(help="Origin of a page elsewhere that may use the service; repeat for more."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="name=number, such as body_bytes=1000000; docs/serve.md lists them."),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Create a table of unlabelled images in the folder first, to teach."),
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    address: AddressOption = None,
) -> None:
    """Serve tables over HTTP, with a page where people search and teach.

    Tables are known by the names of their folders. A request is acknowledged when it is durable. Ctrl-C or SIGTERM
    finishes what is under way and closes the tables.
    """
    for module in ("fastapi", "uvicorn", "pydantic", "prometheus_client"):
        require(module, "serve")
    from hashstream.scale.serving import cluster_kind
    from hashstream.serve.demo import prepare
    from hashstream.serve.images import image_sources
    from hashstream.serve.limits import Limits
    from hashstream.serve.server import run
    from hashstream.serve.service import Service
    from hashstream.serve.tokens import TokenFile

    with engine_hushed() if _has_clusters(folders) else nullcontext():
        logging.basicConfig(format=LOG, stream=sys.stderr, level=logging.WARNING)
        logging.getLogger("hashstream").setLevel(logging.INFO)
        try:
            sources = image_sources(folder=images, pixels=pixels, networks=network or [])
            if demo:
                made = prepare(folders[0], tell=say)
                sources[made.name] = made.images
            service = Service(
                folders,
                limits=Limits().with_given(limit or []),
                tokens=None if tokens is None else TokenFile(tokens),
                read_only=read_only,
                images=sources,
                kinds=[cluster_kind(address)],
            )
            run(
                service,
                host=host,
                port=port,
                origins=tuple(cors or ()),
                started=lambda url: _started(service, url, open_page),
            )
        except (OSError, ValueError, TableError) as error:
            fail(error)


def _has_clusters(folders: list[Path]) -> bool:
    inside = (path for one in folders if one.is_dir() for path in one.iterdir())
    return any(map(is_cluster, folders)) or any(map(is_cluster, inside))


def _started(service: object, url: str, open_page: bool) -> None:
    line = f"\n  The page: [bold blue]{url}[/]    the API: {url}openapi.json    Ctrl-C stops it.\n"
    console.print(line, highlight=False, soft_wrap=True)
    if open_page:
        threading.Thread(target=_open, args=(service, url), daemon=True).start()


def _open(service: object, url: str) -> None:
    while not getattr(service, "ready", False):
        time.sleep(0.1)
    webbrowser.open(url)


def token(
    file: Annotated[Path, typer.Argument(help="File of tokens; created if missing.")],
    name: Annotated[str, typer.Option(help="Whose token it is, to find its line again.")],
    scope: Annotated[Scope, typer.Option(help="What it may do: read, write (and read), or admin (and all).")],
) -> None:
    """Create a token for `hashstream serve --tokens`, and print it once: the file holds only its hash.

    To revoke it, delete its line; a running service notices.
    """
    from hashstream.serve.tokens import add_token

    try:
        made = add_token(file, name, scope.value)
    except (OSError, ValueError) as error:
        fail(error)
    say(made)
