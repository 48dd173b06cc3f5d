"""`hashstream table`: create, fill, search and maintain a table of codes in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from hashstream._machine import size
from hashstream.cli.cluster_common import AddressOption, is_cluster, refreshed_cluster, steps
from hashstream.cli.common import choose, console, fail, say
from hashstream.cli.common import settings as parse_settings
from hashstream.cli.table_common import (
    DurabilityOption,
    FieldOption,
    Folder,
    IndexOption,
    PolicyOption,
    failing,
    file_sizes,
    opened,
    refreshed,
    refuse_cluster,
    stopping,
    to_store,
    work_bar,
)
from hashstream.cli.table_export import export, import_
from hashstream.cli.table_ingest import ingest
from hashstream.cli.table_items import count, ids, label, remove, show
from hashstream.cli.table_search import search
from hashstream.cli.table_stats import stats
from hashstream.hashers import methods
from hashstream.scale import Cluster
from hashstream.scale.snapshots import snapshot_time
from hashstream.table import HashTable, TableError
from hashstream.table.field_text import parse_fields
from hashstream.table.storage.folder.snapshot import copied_commit
from hashstream.terminal import seconds

table_app = typer.Typer(
    help="A durable, searchable table of codes in a folder, consistent while its hash functions learn.",
    no_args_is_help=True,
    epilog="Example: `hashstream table create photos --bits 64`, then `hashstream table ingest photos photos.npz`, "
    "then `hashstream table search photos queries.npz -k 10`\n\n"
    "Without files of your own: `hashstream table ingest photos digits` takes scikit-learn's digits.",
)


@table_app.command(
    epilog="Example: `hashstream table create photos --bits 64`\n\n"
    "A linear model, faster and smaller: `hashstream table create photos --set width=0`\n\n"
    "The paper's method: `hashstream table create photos --method FCOH --set feature_map=center`\n\n"
    "With fields to filter by: `hashstream table create photos --field tenant:str --field taken:datetime`\n\n"
    "Re-encoded in the background: `hashstream table create photos --policy lazy`"
)
def create(
    folder: Annotated[Path, typer.Argument(metavar="TABLE", help="A new folder.")],
    method: Annotated[str, typer.Option(help="A name from `hashstream methods`.")] = "PosteriorHash",
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Length of a code.")] = 64,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the method's random numbers.")] = 0,
    field: FieldOption = None,
    policy: PolicyOption = None,
    durability: DurabilityOption = None,
    index: IndexOption = None,
    no_features: Annotated[
        bool,
        typer.Option(
            "--no-features",
            help="Store codes only. They are re-encoded by a projection learned on a small sample: far less space, and "
            "somewhat worse answers.",
        ),
    ] = False,
    sample: Annotated[
        int, typer.Option(min=0, help="Items of the sample on which the table measures itself (drift, mAP).")
    ] = 1000,
) -> None:
    """Create an empty table."""
    with failing():
        if HashTable.exists(folder):
            raise TableError(
                f"{folder} is already a table: fill it with `hashstream table ingest {folder} FILE`"
            )
        refuse_cluster(folder)
        name, cls = method_of(method, settings or [])
        hasher = cls(n_bits=bits, random_state=seed, **parse_settings(settings or [], {name: cls}))
        HashTable.open(
            folder,
            hasher,
            fields=parse_fields(field or []),
            keep_features=False if no_features else None,
            sample_size=sample,
            **to_store(policy, durability, index),
        ).close()
        say(f"{folder}: an empty table, {name}, {bits} bits.")


def method_of(method: str, settings: list[str]) -> tuple[str, Any]:
    """Name and class of --method; ValueError where it, or a name of --set, cannot be that of a table."""
    if ":" in method or "," in method or method.lower() == "all":
        raise ValueError(
            f"--method {method}: choose one of `hashstream methods`; a method of your own needs Python"
        )
    if method.lower() not in map(str.lower, methods(variants=True)):
        raise ValueError(f"there is no method {method}: choose from {', '.join(methods())}")
    for pair in settings:
        if pair.partition("=")[0].strip() in ("n_bits", "random_state"):
            raise ValueError(f"--set {pair}: use --bits and --seed instead")
    ((name, cls),) = choose(method).items()
    return name, cls


table_app.command(
    epilog="Example: `hashstream table ingest photos photos.npz`\n\n"
    "Columns by name, from several files: `hashstream table ingest shop items-1.csv items-2.csv --id sku --label "
    "category --features 'f*' --batch 5000`\n\n"
    "Parquet with a column of lists: `hashstream table ingest shop items.parquet --features embedding`\n\n"
    "Fields to filter by, and a payload: `hashstream table ingest shop items.csv --features 'f*' --field price:float "
    "--payload title --payload url`\n\n"
    "More rows for a table without ids: `hashstream table ingest photos new.npy --first-id 60000`"
)(ingest)
table_app.command(
    epilog="Example: `hashstream table search photos queries.npz -k 10`\n\n"
    "For other programs: `hashstream table search photos queries.npz -k 100 --out answers.csv`, "
    "`hashstream table search photos queries.npz --first 5 --json`\n\n"
    "Items like a stored one: `hashstream table search photos --like 17 --asymmetric`\n\n"
    """Only some items: `hashstream table search photos queries.npz --where '{"tenant": "a", "price": {"$lt": 10}}' """
    "--include fields,payloads`\n\n"
    "The best 10 of the 200 nearest by their features: `hashstream table search photos queries.npz --rescore 200`"
)(search)
table_app.command(epilog="Example: `hashstream table stats photos`, `hashstream table stats photos --json`")(
    stats
)


table_app.command(
    epilog="Example: `hashstream table show photos 17 18`, `hashstream table show photos 17 --features --json`"
)(show)
table_app.command(
    epilog="""Example: `hashstream table count photos --where '{"tenant": "a", "taken": {"$gte": "2024-01-01"}}'`"""
)(count)
table_app.command(
    epilog="""Example: `hashstream table ids photos --where '{"label": null}' --limit 100`"""
    "\n\nPages: `hashstream table ids photos --offset 100 --limit 100`"
)(ids)
table_app.command(
    epilog="Example: `hashstream table label photos 17=cat 18=dog`\n\n"
    "Many: `hashstream table label photos --file labels.csv`, with columns `id` and `label`"
)(label)
table_app.command(
    epilog="Example: `hashstream table remove photos 17 18 19`\n\n"
    "Many: `hashstream table remove photos --ids gone.npy --missing-ok`\n\n"
    """By a filter: `hashstream table remove photos --where '{"tenant": "a"}'`"""
)(remove)


@table_app.command(
    epilog="Example: `hashstream table refresh photos`, `hashstream table refresh photos --budget 100000`"
)
def refresh(
    folder: Folder,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Re-encode at most this many items; all by default.")
    ] = None,
    address: AddressOption = None,
) -> None:
    """Re-encode the items of older versions with the current functions, the oldest first, while others search."""
    with failing(), opened(folder, address) as table:
        before = len(table.stats().versions)
        with stopping() as stopped, work_bar() as bar:
            if isinstance(table, Cluster):
                said = refreshed_cluster(table, budget, bar, stopped)
            else:
                said = f"{refreshed(table, budget, bar, stopped):,} items re-encoded; "
                stale = table.stats().stale
                said += f"{stale:.1%} are still stale" if stale else "none is stale"
        say(f"{said}. Versions in use: {before} before, {len(table.stats().versions)} now.")
        if number := stopped():
            fail("stopped. Items that are re-encoded stay so: the same command continues.", code=128 + number)


@table_app.command(epilog="Example: `hashstream table check photos --sample 100000`")
def check(
    folder: Folder,
    sample: Annotated[
        int, typer.Option(min=0, help="Items that are re-encoded and compared; of a cluster, per shard.")
    ] = 1000,
    address: AddressOption = None,
) -> None:
    """Verify every checksum, and re-encode a sample of the codes. The exit code is 1 if anything is damaged.

    Works while another process writes.
    """
    with failing():
        code = 1 if HashTable.exists(folder) or is_cluster(folder) else 2
    with failing(code), opened(folder, address, mode="read") as table:
        if isinstance(table, Cluster):
            with work_bar() as bar:
                found = table.check(sample, progress=steps(bar, "reading every row"))
        else:
            with console.status("reading every row"):
                found = table.check(sample)
        codes = "no code was re-encoded, since no features are stored"
        if table.keeps_features:
            codes = f"{found['codes']:,} codes re-encoded and identical"
        say(f"OK: checksums of {found['batches']:,} batches ({found['rows']:,} rows) match; {codes}")


@table_app.command(epilog="Example: `hashstream table compact photos`")
def compact(folder: Folder, address: AddressOption = None) -> None:
    """Rewrite the folder without removed and replaced items. Meanwhile there must be space for both."""
    with failing(), opened(folder, address) as table:
        start, before = time.perf_counter(), sum(file_sizes(folder).values())
        with console.status("writing the items"):
            dead = table.compact()
    taken, after = time.perf_counter() - start, sum(file_sizes(folder).values())  # closed: without a log
    if dead:
        say(f"{dead:,} rows dropped in {seconds(taken)}: {size(after)} on disk, before {size(before)}.")
    else:
        say("Nothing to do: no item was removed or replaced.")


@table_app.command(epilog="Example: `hashstream table snapshot photos photos-monday`")
def snapshot(
    folder: Folder,
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="A new folder.")],
    address: AddressOption = None,
) -> None:
    """Copy the table as of one commit, while others write to it. Of a cluster, each shard as of one commit.

    Given again, it does nothing but say how old the copy is: a complete copy is never changed, and a newer one needs
    another folder. One of a cluster that was killed before it was complete is begun again.
    """
    with failing(), opened(folder, address, mode="read") as table:
        whole = isinstance(table, Cluster)
        if (held := _held(copy, table, folder)) is not None:
            say(
                f"Nothing to do: {copy} holds a copy of {folder} {held} For a newer one, give another folder."
            )
            return
        if whole:
            with work_bar() as bar:
                table.snapshot(copy, progress=steps(bar, "copying"))
        else:
            with console.status("copying"):
                table.snapshot(copy)
        say(f"Copied to {copy}")


def _held(copy: Path, table: HashTable | Cluster, folder: Path) -> str | None:
    """How old the copy is that a folder holds of a table or a cluster; None where it holds none."""
    if isinstance(table, Cluster):
        written = snapshot_time(copy, table.config)
        return None if written is None else f"already, written on {written:%Y-%m-%d at %H:%M}."
    found = copied_commit(copy, folder)
    if found is None:
        return None
    seq, more = found
    if not more:
        return f"as of its last commit, {seq}."
    return f"as of commit {seq}; {folder} has {more:,} {'commit' if more == 1 else 'commits'} more."


table_app.command(
    epilog="Example: `hashstream table export photos photos-parquet`, then, for DuckDB, "
    "`SELECT id, label FROM 'photos-parquet/part-*.parquet'`\n\n"
    "To move a table: `hashstream table export photos photos-parquet --features`, then "
    "`hashstream table import photos-parquet photos-2`"
)(export)
table_app.command("import", epilog="Example: `hashstream table import photos-parquet photos-2`")(import_)
