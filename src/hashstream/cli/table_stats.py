"""`hashstream table stats`: a page about a table, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from hashstream.cli.common import console
from hashstream.cli.table_common import Folder, failing, opened
from hashstream.table import Drift, HashTable, TableStats
from hashstream.terminal import size, sparkline

__all__ = ["stats"]

NEWEST = 5  # versions that have a line of their own
LEAST = 0.05  # of mAP, from the lowest bar to the highest


def stats(
    folder: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="The same figures as one JSON object.")] = False,
) -> None:
    """Items, versions alive, how stale the codes are, signs of drift, bytes and files.

    Works while another process writes. Signs of drift are measured on a sample of the items that the table keeps for
    this; what cannot be said yet is said as such.
    """
    with failing(), opened(folder, mode="read") as table:
        found = table.stats()
        if as_json:
            print(json.dumps(_facts(table, found, folder), indent=2))
        else:
            console.print(_page(table, found, folder), highlight=False)


def _files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}


def _facts(table: HashTable, found: TableStats, folder: Path) -> dict[str, Any]:
    facts = asdict(found)
    facts["versions"] = {str(version): count for version, count in found.versions.items()}
    return {"method": type(table.hasher).__name__, **facts, "files": _files(folder)}


def _page(table: HashTable, found: TableStats, folder: Path) -> Table:
    page = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    page.add_column(style="bold", no_wrap=True)
    page.add_column()
    hasher = table.hasher
    page.add_row("table", escape(str(folder)))
    page.add_row(
        "method", f"{type(hasher).__name__}, {hasher.n_bits} bits, has learned from {found.n_seen:,} rows"
    )
    dead = found.n_slots - found.n_items
    gone = f"; {dead:,} removed or replaced still take room: hashstream table compact" if dead else ""
    page.add_row("items", f"[bold blue]{found.n_items:,}[/]{gone}")
    page.add_row("commits", f"{found.commits:,}")
    page.add_section()
    for i, line in enumerate(_versions(found)):
        page.add_row("versions alive" if i == 0 else "", line)
    if found.stale:
        page.add_row(
            "stale",
            f"[bold blue]{found.stale:.1%}[/] of the codes are of older functions; the mean code is "
            f"{found.updates_behind:.1f} updates behind, the oldest {found.most_updates_behind}",
        )
    else:
        page.add_row("stale", "nothing: every code is of the functions of now")
    page.add_section()
    for name, line in _drift(found):
        page.add_row(name, line)
    page.add_section()
    n = max(1, found.n_items)
    page.add_row(
        "in memory",
        f"{size(found.memory_bytes)} for ids and codes, {found.memory_bytes / n:.0f} bytes an item",
    )
    page.add_row("on disk", f"{size(found.disk_bytes)}, of them {size(found.feature_bytes)} features")
    for i, (name, bytes_) in enumerate(_files(folder).items()):
        page.add_row("files" if i == 0 else "", f"{name}  [dim]{size(bytes_)}[/]")
    if found.background_error:
        page.add_row("[red]background[/]", escape(found.background_error))
    return page


def _versions(found: TableStats) -> list[str]:
    if not found.versions:
        return ["none: the table is empty"]
    newest = sorted(found.versions, reverse=True)
    lines = [
        f"version {version:,}: {found.versions[version]:,} items"
        + (" (now)" if version == found.newest_version else "")
        for version in newest[:NEWEST]
    ]
    lines[0] = f"[bold blue]{len(newest)}[/]   {lines[0]}"
    if rest := newest[NEWEST:]:
        items = sum(found.versions[version] for version in rest)
        lines.append(f"{len(rest)} older ones, down to {rest[-1]:,}: {items:,} items")
    return lines


def _over_time(history: tuple[tuple[int, float], ...]) -> str:
    """The mAP of every look as a line of bars, with the first, the last and those in between that stand out."""
    values = [value for _, value in history]
    (first, start), (last, end) = history[0], history[-1]
    if len(values) == 1:
        return f"one look so far, after {first:,} rows"
    least, most = min(values), max(values)
    bars = sparkline(values, least=LEAST)
    line = f"{start:.3f} {bars} {end:.3f}   {len(values)} looks, after {first:,} to {last:,} rows"
    return line if {least, most} <= {start, end} else f"{line}; between {least:.3f} and {most:.3f}"


def _drift(found: TableStats) -> list[tuple[str, str]]:
    """Signs of drift by name, each as a sentence, or why there is none."""
    drift: Drift = found.drift

    def said(name: str, value: float | None, words: str) -> str:
        return f"[dim]{drift.reasons.get(name, 'too little data')}[/]" if value is None else words

    stored, fresh = drift.mean_average_precision, drift.fresh_mean_average_precision
    return [
        (
            "bit flips",
            said(
                "bit_flips",
                drift.bit_flips,
                f"{drift.bit_flips or 0:.1%} of stored bits the functions of now would set otherwise",
            ),
        ),
        (
            "class centres",
            said(
                "centre_shift",
                drift.centre_shift,
                f"the newer half lies {drift.centre_shift or 0:.2f} of a class's spread from the older half",
            ),
        ),
        ("mAP as stored", said("mean_average_precision", stored, f"[bold blue]{stored or 0:.3f}[/]")),
        (
            "mAP if refreshed",
            said("fresh_mean_average_precision", fresh, f"[bold blue]{fresh or 0:.3f}[/]"),
        ),
        (
            "mAP over time",
            _over_time(found.map_history) if found.map_history else said("mean_average_precision", None, ""),
        ),
        ("measured on", f"{drift.n_items:,} items of the table's sample, {drift.n_labelled:,} with a label"),
    ]
