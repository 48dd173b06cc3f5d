"""`hashstream table stats`: a page about a table, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hashstream._machine import size
from hashstream.cli.cluster_common import AddressOption
from hashstream.cli.common import console
from hashstream.cli.table_common import Folder, failing, file_sizes, opened
from hashstream.scale import Cluster, ClusterStats
from hashstream.table import HashTable, TableStats
from hashstream.terminal import sparkline

NEWEST = 5  # versions that have a line of their own
LEAST = 0.05  # of mAP, from the lowest bar to the highest


def stats(
    folder: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="The same figures as one JSON object.")] = False,
    address: AddressOption = None,
) -> None:
    """Print items, fields, versions in use, staleness, signs of drift, settings, bytes and files.

    Works while another process writes. Signs of drift are measured on the table's sample; a figure for which there is
    too little data is reported as such.
    """
    with failing(), opened(folder, address, mode="read") as table:
        found = table.stats()
        if as_json:
            facts = {"method": type(table.hasher).__name__, **asdict(found), "files": file_sizes(folder)}
            facts["fields"] = table.fields
            facts["comparison"]["reason"] = _reason(found)
            print(json.dumps(facts, indent=2))
        else:
            console.print(_page(table, found, folder), highlight=False)


def _page(table: HashTable | Cluster, found: TableStats, folder: Path) -> Table:
    page = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    page.add_column(style="bold", no_wrap=True)
    page.add_column()

    def section(rows: dict[str, str | list[str]]) -> None:
        for name, lines in rows.items():
            for i, line in enumerate([lines] if isinstance(lines, str) else lines):
                page.add_row("" if i else name, line)
        page.add_section()

    hasher, what = table.hasher, "cluster" if isinstance(table, Cluster) else "table"
    dead = found.n_slots - found.n_items
    gone = f"; {dead:,} removed or replaced ones still use space: hashstream {what} compact" if dead else ""
    section({
        what: escape(str(folder)),
        "method": f"{type(hasher).__name__}, {hasher.n_bits} bits, has learned from {found.n_seen:,} rows",
        "items": f"[bold blue]{found.n_items:,}[/]{gone}",
        "fields": escape(", ".join(f"{name} ({kind})" for name, kind in table.fields.items())) or "none",
        "commits": f"{found.commits:,}",
        "settings": escape(_settings(table)),
    })  # fmt: skip
    if isinstance(found, ClusterStats):
        section({"shards": [_shard(at, one) for at, one in enumerate(found.shards)]})
    stale = "none: every code is current"
    if found.stale:
        stale = (
            f"[bold blue]{found.stale:.1%}[/] of the codes are of older versions; the mean code is "
            f"{found.updates_behind:.1f} updates old, the oldest {found.most_updates_behind}"
        )
    choice = {"like": "like with like", "current": "by the current functions"}[found.comparison.choice]
    compared = f"{choice} [dim]({_reason(found)})[/]"
    section({"versions in use": _versions(found), "stale": stale, "compared": compared})
    section(_drift(found))
    per_item = found.memory_bytes / max(1, found.n_items)
    looked_up = "none yet: every search reads all codes"
    if found.n_indexed:
        share = f"{found.n_indexed / found.n_items:.1%} of the codes"
        looked_up = f"{share}, by a multi-index of {size(found.index_bytes)}; the others are scanned"
    section({
        "in memory": f"{size(found.memory_bytes)} for ids and codes, {per_item:.0f} bytes per item",
        "looked up": looked_up,
        "on disk": f"{size(found.disk_bytes)}, of which {size(found.feature_bytes)} features",
        "files": [f"{name}  [dim]{size(n_bytes)}[/]" for name, n_bytes in file_sizes(folder).items()],
    })  # fmt: skip
    if found.background_error:
        section({"[red]background[/]": escape(found.background_error)})
    return page


def _settings(table: HashTable | Cluster) -> str:
    if isinstance(table, Cluster):
        config = table.config
        settings = {"durability": "full", **config.settings}
        where = f", on {', '.join(config.nodes)}" if config.nodes else ""
        said = f"{config.shards} shards{where}; functions published every {config.publish_every} batches, "
    else:
        settings, said = {"policy": table.settings.policy, "durability": table.settings.durability}, ""
    return f"{said}policy {settings['policy']}, durability {settings['durability']}"


def _shard(number: int, found: TableStats) -> str:
    """A line about a shard."""
    stale = f"{found.stale:.1%} stale" if found.stale else "all current"
    sizes = f"{size(found.memory_bytes)} in memory, {size(found.disk_bytes)} on disk"
    return f"{number}: {found.n_items:,} items, {stale}, {sizes}"


def _reason(found: TableStats) -> str:
    """Why queries are compared with codes of older versions as they are."""
    measured = found.comparison.rows > 0
    return found.comparison.reason if measured else "not measured yet: that needs codes of several versions"


def _versions(found: TableStats) -> list[str]:
    if not found.versions:
        return ["none: the table is empty"]
    newest = sorted(found.versions, reverse=True)
    lines = [
        f"version {version:,}: {found.versions[version]:,} items"
        + (" (current)" if version == found.newest_version else "")
        for version in newest[:NEWEST]
    ]
    lines[0] = f"[bold blue]{len(newest)}[/]   {lines[0]}"
    if rest := newest[NEWEST:]:
        items = sum(found.versions[version] for version in rest)
        lines.append(f"{len(rest)} older ones, down to {rest[-1]:,}: {items:,} items")
    return lines


def _drift(found: TableStats) -> dict[str, str | list[str]]:
    """Signs of drift by name, each as a phrase, or the reason why there is none."""
    drift = found.drift

    def said(name: str, words: str) -> str:
        value = getattr(drift, name)
        reason = f"[dim]{drift.reasons.get(name, 'too little data')}[/]"
        return reason if value is None else words.format(value)

    return {
        "bit flips": said(
            "bit_flips", "{:.1%} of the stored bits differ from what the current functions give"
        ),
        "class centres": said(
            "centre_shift",
            "those of the newer half are {:.2f} of a class's spread from those of the older half",
        ),
        "mAP as stored": said("mean_average_precision", "[bold blue]{:.3f}[/]"),
        "mAP if refreshed": said("fresh_mean_average_precision", "[bold blue]{:.3f}[/]"),
        "mAP over time": _over_time(found.map_history) or said("mean_average_precision", ""),
        "measured on": f"{drift.n_items:,} items of the table's sample, {drift.n_labelled:,} with a label",
    }


def _over_time(history: tuple[tuple[int, float], ...]) -> str:
    """The mAP of every checkpoint as a line of bars, with first and last, and the extremes if they are others."""
    if len(history) < 2:
        return f"one checkpoint so far, after {history[0][0]:,} rows" if history else ""
    values = [value for _, value in history]
    (first, start), (last, end) = history[0], history[-1]
    least, most = min(values), max(values)
    bars = sparkline(values, least=LEAST)
    line = f"{start:.3f} {bars} {end:.3f}   {len(values)} checkpoints, after {first:,} to {last:,} rows"
    return line if {least, most} <= {start, end} else f"{line}; between {least:.3f} and {most:.3f}"
