"""`hashstream cluster`: tables that share their items, on one machine or many."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hashstream.cli.cluster_common import (
    AddressOption,
    ClusterFolder,
    opened_cluster,
    refreshed_cluster,
    steps,
)
from hashstream.cli.cluster_demo import demo
from hashstream.cli.cluster_feed import feed
from hashstream.cli.common import fail, say
from hashstream.cli.common import settings as parse_settings
from hashstream.cli.table import check, compact, method_of, refresh, snapshot
from hashstream.cli.table_common import (
    DurabilityOption,
    FieldOption,
    IndexOption,
    failing,
    stopping,
    work_bar,
)
from hashstream.cli.table_export import export
from hashstream.cli.table_items import count, ids, label, remove, show
from hashstream.cli.table_search import search
from hashstream.cli.table_stats import stats
from hashstream.hashers import load
from hashstream.scale import Cluster, ClusterError
from hashstream.scale.snapshots import was_restored
from hashstream.table import HashTable
from hashstream.table.field_text import parse_fields
from hashstream.terminal import seconds

cluster_app = typer.Typer(
    help="A table that has outgrown one process: its items in shards, on one machine or many, by Ray.\n\n"
    "A shard is a table of its own, in a process of its own, with the items whose ids hash to its number. A search "
    "asks all shards and merges their answers: they are those of one table. One more process, the learner, learns from "
    "all labels in order, and publishes the hash functions to the shards, which re-encode their items.\n\n"
    "A shard that is killed is restarted by Ray from its folder, and searches wait for it. If it does not come back, a "
    "search fails and names it; with --partial it answers from the others, and says which share of the items is "
    "missing. A shard whose disk is lost is restored from a snapshot, and what was fed since is fed again.\n\n"
    "Every command may be given again after anything was killed. Without --address, a Ray is started on this machine "
    'for the command, which takes some seconds. Needs `pip install "hashstream[ray]"`.',
    no_args_is_help=True,
    epilog="Example: `hashstream cluster create photos --shards 4 --bits 64`, then `hashstream cluster feed photos "
    "day-1.npz day-2.npz`, then `hashstream cluster search photos queries.npz -k 10`\n\n"
    "A Ray that stays: `ray start --head`, then `--address auto` with every command. docs/scale.md has more machines.",
)


cluster_app.command(epilog="Example: `hashstream cluster demo --out cluster-output`")(demo)


@cluster_app.command(
    epilog="Example: `hashstream cluster create photos --shards 4 --bits 64`\n\n"
    "On machines with disks of their own, named by `ray start --resources`: `hashstream cluster create "
    "/data/photos --address auto --shards 6 --nodes a,b,c`\n\n"
    "With fields to filter by: `hashstream cluster create photos --field tenant:str --field taken:datetime`"
)
def create(
    folder: Annotated[Path, typer.Argument(metavar="CLUSTER", help="A new folder.")],
    shards: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            help="Number of shards, which cannot be changed later: about one for every core, or every two.",
        ),
    ] = 2,
    method: Annotated[str, typer.Option(help="A name from `hashstream methods`.")] = "PosteriorHash",
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Length of a code.")] = 64,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the method's random numbers.")] = 0,
    field: FieldOption = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Needed on several machines: custom resources of Ray, one per machine, separated by commas. The "
            "first shard runs on the first of them, the next on the next, and after the last comes the first again. "
            "Each machine then has a folder of this name, for its shards, on its own disk; give commands on the first "
            "one. By default, all are on one machine.",
        ),
    ] = None,
    publish_every: Annotated[
        int | None,
        typer.Option(
            min=1, help="Batches that are learned between two publications of the functions; 100 by default."
        ),
    ] = None,
    durability: DurabilityOption = None,
    index: IndexOption = None,
    address: AddressOption = None,
) -> None:
    """Create an empty cluster. Interrupted, or given again, it creates what is missing."""
    with failing():
        if HashTable.exists(folder):
            raise ClusterError(f"{folder} is a table, not a cluster: choose another folder")
        name, cls = method_of(method, settings or [])
        hasher = cls(n_bits=bits, random_state=seed, **parse_settings(settings or [], {name: cls}))
        machines = None if nodes is None else [one.strip() for one in nodes.split(",") if one.strip()]
        with opened_cluster(
            folder,
            address,
            hasher=hasher,
            shards=shards,
            fields=parse_fields(field or []),
            nodes=machines,
            publish_every=publish_every,
            durability=None if durability is None else durability.value,
            index=None if index is None else index.value,
        ) as cluster:
            n, current = len(cluster), type(cluster.hasher).__name__  # another one after `adopt`
            what = f"a cluster of {n:,} items" if n else "an empty cluster"
            say(f"{folder}: {what}, {shards} shards, {current}, {bits} bits.")


cluster_app.command(
    epilog="Example: `hashstream cluster feed photos day-1.npz day-2.npz`\n\n"
    "Parquet with a column of lists: `hashstream cluster feed shop items-*.parquet --features embedding --id sku`\n\n"
    "Without files of your own: `hashstream cluster feed photos digits` takes scikit-learn's digits."
)(feed)
cluster_app.command(
    epilog="Example: `hashstream cluster search photos queries.npz -k 10`\n\n"
    "While a machine is down: `hashstream cluster search photos queries.npz --partial`\n\n"
    "For other programs: `hashstream cluster search photos queries.npz --address auto --json`"
)(search)
cluster_app.command(
    epilog="Example: `hashstream cluster label photos 17=cat 18=dog`\n\n"
    "Many: `hashstream cluster label photos --file labels.csv`, with columns `id` and `label`"
)(label)
cluster_app.command(
    epilog="Example: `hashstream cluster stats photos`, `hashstream cluster stats photos --json`"
)(stats)
cluster_app.command(epilog="Example: `hashstream cluster show photos 17 18`")(show)
cluster_app.command(epilog="""Example: `hashstream cluster count photos --where '{"tenant": "a"}'`""")(count)
cluster_app.command(epilog="Example: `hashstream cluster ids photos --limit 100`")(ids)
cluster_app.command(epilog="Example: `hashstream cluster remove photos 17 18 19`")(remove)
cluster_app.command(epilog="Example: `hashstream cluster refresh photos`")(refresh)
cluster_app.command(epilog="Example: `hashstream cluster check photos --sample 10000`")(check)
cluster_app.command(epilog="Example: `hashstream cluster compact photos`")(compact)
cluster_app.command(
    epilog="Example: `hashstream cluster snapshot photos /backup/photos-monday`, a folder that all machines see"
)(snapshot)
cluster_app.command(
    epilog="Example: `hashstream cluster export photos photos-parquet --features`, then, as one table, "
    "`hashstream table import photos-parquet photos-table`"
)(export)


@cluster_app.command(
    epilog="Example: `hashstream train day-*.npz --on ray --out model.safetensors`, then `hashstream cluster adopt "
    "photos model.safetensors`\n\n"
    "A part of the work now: `hashstream cluster adopt photos model.safetensors --budget 1000000`"
)
def adopt(
    folder: ClusterFolder,
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A file that `hashstream.save` or `hashstream train` wrote."),
    ],
    budget: Annotated[
        int | None, typer.Option(min=1, help="Re-encode at most this many items; all by default.")
    ] = None,
    address: AddressOption = None,
) -> None:
    """Take hash functions that were learned elsewhere, and re-encode the items with them.

    The functions (some kilobytes) go to the shards; the features stay where they are. Searches go on: each shard
    compares codes of each version with the query encoded by that version. The learner goes on from these functions.
    """
    with failing():
        if not model.exists():
            raise ValueError(f"there is no file {model}")
        hasher = load(model)
        with opened_cluster(folder, address) as cluster:
            start, before = time.perf_counter(), type(cluster.hasher).__name__
            with stopping() as stopped, work_bar() as bar:
                cluster.adopt(hasher, 0)
                said = refreshed_cluster(cluster, budget, bar, stopped)
            changed = before != type(hasher).__name__
            method = f" The method is now {type(hasher).__name__}; it was {before}." if changed else ""
            say(f"{said}, after {seconds(time.perf_counter() - start)}.{method}")
            if number := stopped():
                fail("stopped. The same command continues.", code=128 + number)


@cluster_app.command(
    epilog="Example: `hashstream cluster restore /backup/photos-monday photos`\n\n"
    "One shard, whose disk is lost: `hashstream cluster restore /backup/photos-monday photos --shard 3`, then the same "
    "`hashstream cluster feed` as ever: parts that the shard lacks are sent again, the others skipped."
)
def restore(
    snapshot: Annotated[Path, typer.Argument(metavar="SNAPSHOT", help="The folder that `snapshot` wrote.")],
    folder: Annotated[
        Path, typer.Argument(metavar="CLUSTER", help="A new folder; with --shard, the cluster.")
    ],
    shard: Annotated[
        int | None, typer.Option(min=0, help="Restore this shard of a cluster; the others stay as they are.")
    ] = None,
    address: AddressOption = None,
) -> None:
    """Restore a cluster, or one of its shards, from a snapshot. Given again, it does nothing.

    Rows that were fed from files since the snapshot are fed again by `feed`. What was labelled, or ingested by
    programs, in a lost shard since then is lost.
    """
    with failing():
        if shard is None:
            if was_restored(snapshot, folder):
                say(f"Nothing to do: {folder} was restored from {snapshot} already.")
                return
            with work_bar() as bar:
                Cluster.restore(snapshot, folder, progress=steps(bar, "copying"))
            say(f"{folder}: restored from {snapshot}. Feed it what came since.")
            return
        with opened_cluster(folder, address) as cluster, work_bar() as bar:
            tell = steps(bar, f"shard {shard}")
            tell(0, 1)
            parts = cluster.restore_shard(shard, snapshot)
            tell(1, 1)
        again = (
            f"{parts:,} {'part was' if parts == 1 else 'parts were'} fed since the snapshot: feed them again."
        )
        say(
            f"Shard {shard} of {folder} is restored. {again if parts else 'Nothing was fed since the snapshot.'}"
        )


@cluster_app.command(epilog="Example: `hashstream cluster stop photos --address auto`")
def stop(folder: ClusterFolder, address: AddressOption = None) -> None:
    """End the processes of a cluster on a running Ray; its folder stays, and the next command starts them again.

    Without --address there is nothing to stop: such processes end with the command that started them.
    """
    with failing():
        if address is None:
            raise ValueError(
                "give the --address of the Ray that runs the cluster; without it nothing is left running"
            )
        with opened_cluster(folder, address) as cluster:
            cluster.stop()
        say(f"{folder}: stopped. All that was stored is in its folder.")
