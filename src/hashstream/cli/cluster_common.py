"""Shared by commands that may meet a cluster: its options, opening it, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from hashstream.cli.quiet import engine_hushed
from hashstream.scale import Cluster, ClusterError
from hashstream.table import HashTable

__all__ = [
    "AddressOption", "ClusterFolder", "Known", "is_cluster", "lookup", "opened_cluster", "refreshed_cluster", "steps",
]  # fmt: skip

PIECES = 20  # of a refresh: how often the bar moves

AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="For a cluster: the running Ray that has its shards, as HOST:PORT, or `auto` for the one of this machine. "
        "By default a Ray is started here for this command, and ends with it.",
    ),
]
ClusterFolder = Annotated[Path, typer.Argument(metavar="CLUSTER", help="The folder of the cluster.")]


def is_cluster(folder: Path) -> bool:
    """Whether a folder holds a cluster."""
    return bool(Cluster.exists(folder))


@contextmanager
def opened_cluster(folder: Path, address: str | None, **options: Any) -> Iterator[Cluster]:
    """Open a cluster, and close it at the end whatever happens. options : as for `Cluster.open`, for a new one."""
    if not options and not is_cluster(folder):
        if HashTable.exists(folder):
            raise ClusterError(f"{folder} is a table, not a cluster: use `hashstream table` with it")
        what = "is not a cluster" if folder.exists() else "does not exist"
        raise ClusterError(f"{folder} {what}: create one with `hashstream cluster create {folder}`")
    with engine_hushed():
        try:
            cluster = Cluster.open(folder, address=address, **options)
        except ConnectionError as error:
            raise ClusterError(str(error)) from error
        with cluster:
            yield cluster


def refreshed_cluster(cluster: Cluster, budget: int | None, bar: Progress, stopped: Callable[[], int]) -> str:
    """Publish the current functions and have the shards re-encode, in pieces that are each durable.

    Returns a phrase about all items: shards also re-encode by themselves, so counting what is done here says little.
    budget : items at most that are re-encoded here; all by default.
    """
    shards = cluster.config.shards
    done = cluster.refresh(1)  # publishes, so that it is known what is stale
    stats = cluster.stats()
    todo = stats.n_stale if budget is None else min(stats.n_stale, budget - done)
    task = bar.add_task("codes", total=stats.n_items, completed=stats.n_items - stats.n_stale, note="")
    while todo > 0 and not stopped():
        count = cluster.refresh(max(1, min(todo, max(1 << 16, -(-stats.n_items // PIECES))) // shards))
        if not count:
            break
        todo -= count
        bar.advance(task, count)
    stats = cluster.stats()
    bar.update(task, completed=stats.n_items - stats.n_stale)
    current = f"{stats.n_items - stats.n_stale:,} of {stats.n_items:,} items"
    return f"{current} are encoded with the current functions, version {cluster.version}"


def steps(bar: Progress, what: str) -> Callable[[int, int], None]:
    """A function that moves a bar: called with what is done and the total."""
    task = bar.add_task(what, total=None, note="")

    def tell(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)

    return tell


class Known:
    """Those of some ids that a cluster has, asked for at once: one by one would be a message each."""

    def __init__(self, cluster: Cluster, texts: Iterable[str]) -> None:
        numbers = [text for text in texts if text.lstrip("-").isdecimal() and len(text) < 20]
        names: list[Any] = list(map(int, numbers)) if cluster.id_kind == "int" else list(texts)
        self.count = cluster.count
        self._ids = set(cluster.ids({"id": {"$in": names}}).tolist()) if names else set()

    def __contains__(self, one: Any) -> bool:
        return one in self._ids


def lookup(table: Any, texts: Iterable[str]) -> Any:
    """A table, or in the place of a cluster those of the ids that it has: for `find_ids` and `find_labels`."""
    return Known(table, texts) if isinstance(table, Cluster) else table
