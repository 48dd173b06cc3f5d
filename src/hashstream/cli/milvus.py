"""`hashstream milvus`: codes of a table in Milvus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hashstream._extras import MissingExtraError
from hashstream.cli.cluster_common import AddressOption
from hashstream.cli.common import console, fail, say
from hashstream.cli.table_common import (
    FeatureColumns,
    IdColumn,
    NoHeader,
    failing,
    open_source,
    opened,
    work_bar,
)
from hashstream.scale.milvus import MilvusError, MilvusExport, MilvusReader
from hashstream.table import Answers, Exported
from hashstream.table.answers import ANSWER_FILES
from hashstream.table.files import check_file_rows
from hashstream.terminal import seconds

__all__ = ["milvus_app"]

AT_ONCE = 1000  # queries

milvus_app = typer.Typer(
    help="Codes of a table in Milvus, for replicated serving and other languages: one collection per version, and an "
    "alias that leads to the current one.",
    no_args_is_help=True,
    epilog="Example: `hashstream milvus export photos photos`, then `hashstream milvus switch photos 1200`, then "
    "`hashstream milvus drop photos`",
)

Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="A table, a cluster, or the folder of an export.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The alias under which readers find the codes.")]
Uri = Annotated[
    str, typer.Option("--uri", envvar="HASHSTREAM_MILVUS_URI", help="The address of the Milvus server.")
]
Token = Annotated[
    str,
    typer.Option("--token", envvar="HASHSTREAM_MILVUS_TOKEN", help="USER:PASSWORD, if the server needs one."),
]
Models = Annotated[
    Path | None,
    typer.Option(
        "--models", help="The folder of the hash functions, which readers need; NAME-models by default."
    ),
]
ADDRESS = "http://127.0.0.1:19530"


@contextmanager
def telling() -> Iterator[None]:
    """Turn errors into a sentence and an exit code."""
    with failing():
        try:
            yield
        except (MilvusError, MissingExtraError) as error:
            fail(error)


@contextmanager
def source_of(path: Path, address: str | None) -> Iterator[Any]:
    """The table, cluster or export in a folder."""
    if (path / "manifest.json").exists():
        yield Exported(path)
        return
    with opened(path, address, mode="read") as table:
        yield table


def _export(uri: str, name: str, models: Path | None, token: str) -> MilvusExport:
    return MilvusExport(uri, name, models or Path(f"{name}-models"), token=token)


@milvus_app.command(
    epilog="Example: `hashstream milvus export photos photos --switch`, "
    "`hashstream milvus export photos-parquet photos --uri http://10.0.0.5:19530`"
)
def export(
    path: Source,
    name: Name,
    uri: Uri = ADDRESS,
    models: Models = None,
    token: Token = "",
    address: AddressOption = None,
    switch: Annotated[
        bool,
        typer.Option(
            "--switch", help="Let readers use these codes at once, as `hashstream milvus switch` does."
        ),
    ] = False,
) -> None:
    """Write all codes to the collection of their version, read them back, and write again what has changed meanwhile.

    Readers do not see them before `hashstream milvus switch`. Interrupted, the same command may be given again.
    """
    with telling(), source_of(path, address) as source, _export(uri, name, models, token) as target:
        start = time.perf_counter()
        with work_bar() as bar:
            task = bar.add_task(name, total=len(source), note="")
            exported = target.export(
                source, lambda count: bar.update(task, completed=count, note=f"{count:,} items")
            )
        with console.status("reading them back"):
            filled = target.settle(source, exported)
        say(
            f"{filled.count:,} items of version {filled.version} in {seconds(time.perf_counter() - start)}; read back, "
            f"with digest {filled.digest:016x}."
        )
        if switch:
            target.switch(filled.version)
            say(
                f"{name} leads to version {filled.version}. `hashstream milvus drop {name}` drops older ones."
            )
        else:
            say(f"`hashstream milvus switch {name} {filled.version}` lets readers use them.")


@milvus_app.command(epilog="Example: `hashstream milvus verify photos photos`")
def verify(
    path: Source,
    name: Name,
    uri: Uri = ADDRESS,
    models: Models = None,
    token: Token = "",
    address: AddressOption = None,
) -> None:
    """Compare the collection of a table's version with the table: count and digest. The exit code is 1 if they
    differ."""
    with telling(), source_of(path, address) as source, _export(uri, name, models, token) as target:
        try:
            with console.status("reading every code"):
                found = target.verify(source)
        except MilvusError as error:
            fail(error, code=1)
        say(f"OK: {found.count:,} items of version {found.version}, digest {found.digest:016x}.")


@milvus_app.command(epilog="Example: `hashstream milvus switch photos 1200`")
def switch(
    name: Name,
    version: Annotated[
        int, typer.Argument(metavar="VERSION", min=0, help="A version that `export` has printed.")
    ],
    uri: Uri = ADDRESS,
    models: Models = None,
    token: Token = "",
) -> None:
    """Let the alias lead to a version. An older one, if it is still there, undoes a switch."""
    with telling(), _export(uri, name, models, token) as target:
        before = target.switch(version)
        say(f"{name} leads to version {version}" + (f", before to {before}." if before is not None else "."))


@milvus_app.command(epilog="Example: `hashstream milvus drop photos --wait 120`")
def drop(
    name: Name,
    uri: Uri = ADDRESS,
    models: Models = None,
    token: Token = "",
    wait: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds to wait first: longer than readers cache, and than a search takes."
        ),
    ] = 60.0,
) -> None:
    """Drop the collections of versions older than the current one."""
    with telling(), _export(uri, name, models, token) as target:
        if not target.versions():
            raise MilvusError(f"there is no collection of {name} at {uri}: is the name right?")
        with console.status(f"waiting {wait:g} seconds"):
            dropped = target.drop_old(wait)
        say(f"Dropped: {', '.join(map(str, dropped)) or 'none'}. In use: {_current(target)}.")


def _current(target: MilvusExport) -> str:
    return next((f"version {version}" for version, used in target.versions().items() if used), "none")


@milvus_app.command(epilog="Example: `hashstream milvus search photos queries.npz -k 10 --out answers.csv`")
def search(
    name: Name,
    queries: Annotated[
        str, typer.Argument(metavar="QUERIES", help="A file of queries: .npy, .npz, .csv, .tsv or .parquet.")
    ],
    uri: Uri = ADDRESS,
    models: Models = None,
    token: Token = "",
    k: Annotated[int, typer.Option("-k", min=1, max=16_384, help="Items per query.")] = 10,
    first: Annotated[
        int | None, typer.Option(min=1, help="Search only for this many queries, from the start of the file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the answers to a .csv or .npz file; JSON is printed without it."),
    ] = None,
    id: IdColumn = None,
    features: FeatureColumns = None,
    no_header: NoHeader = False,
) -> None:
    """Find the items nearest to each query, exactly. Each answer is of one version, also while readers are switched."""
    with telling():
        if out is not None and out.suffix.lower() not in ANSWER_FILES:
            raise ValueError(f"--out {out} ends in {out.suffix or 'nothing'}: it must be .csv or .npz")
        source = open_source(
            queries, id=id, label=None, features=features, header=not no_header, text=False, quiet=True,
            dtype=np.float32,
        )  # fmt: skip
        parts: list[Answers] = []
        with MilvusReader(uri, name, models or Path(f"{name}-models"), token=token) as reader:
            for rows in source.pieces(AT_ONCE if first is None else min(AT_ONCE, first)):
                check_file_rows(source, rows)
                Q = rows.X[: None if first is None else first - sum(map(len, parts))]
                names = np.arange(rows.first, rows.first + len(Q)) if rows.ids is None else rows.ids[: len(Q)]
                parts.append(Answers.of(names, reader.search(Q, k)))
                if first is not None and sum(map(len, parts)) >= first:
                    break
        answers = Answers.joined(parts)
        if out is not None:
            answers.save(out)
            say(f"{len(answers):,} queries. Written to {out}")
            return
        print("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in answers.records()), end="")
