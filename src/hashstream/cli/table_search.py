"""`hashstream table search`: the nearest items, for people, for scripts and for other programs."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from hashstream import datasets
from hashstream.cli.cluster_common import AddressOption, lookup
from hashstream.cli.common import console, say
from hashstream.cli.table_common import (
    FeatureColumns,
    Folder,
    IdColumn,
    LabelColumn,
    NoHeader,
    Text,
    WhereOption,
    failing,
    how_to_fill,
    open_source,
    opened,
    where_of,
    work_bar,
)
from hashstream.datasets.rows import ArrayRows, RowSource
from hashstream.hashers.labels import as_labels
from hashstream.scale import Cluster
from hashstream.table import HashTable
from hashstream.table.answers import ANSWER_FILES, Answers, cell_text
from hashstream.table.files import check_file_rows
from hashstream.table.id_text import find_ids
from hashstream.terminal import seconds


class Metric(StrEnum):
    """Distances between features."""

    cosine = "cosine"
    dot = "dot"
    euclidean = "euclidean"


class Compare(StrEnum):
    """Functions that encode a query for codes of older versions."""

    auto = "auto"
    like = "like"
    current = "current"


INCLUDED = ("labels", "fields", "payloads")
AT_ONCE = 1000  # queries
SHOWN = 20  # queries whose answers are printed
WIDEST = 10  # answers per query in the printed table
LONGEST = 60  # characters of a field or a payload there


def search(
    folder: Folder,
    queries: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERIES]", help="A file as for `ingest`, or the name of a data set; see --like."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Items to find per query.")] = 10,
    radius: Annotated[
        int | None, typer.Option(min=0, help="Instead of k items: all that differ in at most this many bits.")
    ] = None,
    asymmetric: Annotated[
        bool,
        typer.Option(
            "--asymmetric",
            help="Weigh each bit by the query's real value: fewer ties, better answers, slower. Distances are then on "
            "the scale of bits, but not whole numbers.",
        ),
    ] = False,
    where: WhereOption = None,
    rescore: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rank this many of the nearest by code again by their features, and print those distances.",
        ),
    ] = None,
    metric: Annotated[
        Metric | None,
        typer.Option(
            help="Distance of --rescore: 1 - cosine, minus the dot product, or Euclidean; cosine by default.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        Compare,
        typer.Option(
            help="How queries are compared with codes of older versions. like: encoded by the functions of each "
            "version. current: by the current ones only. auto: as was better on the table's sample, see `stats`."
        ),
    ] = Compare.auto,
    offset: Annotated[int, typer.Option(min=0, help="Leave out this many of the nearest: for pages.")] = 0,
    include: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Print `fields` or `payloads` of the items, or both, separated by a comma."
        ),
    ] = "",
    like: Annotated[
        str | None,
        typer.Option(metavar="ID[,ID...]", help="Search for items like stored ones, instead of a file."),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="Search only for this many queries, from the start of the file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the answers to a file. .csv: query,rank,id,distance,label. .npz: queries, ids, distances, "
            "labels and, with --radius, offsets. What is included follows, fields by their names."
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object per query: query, ids, distances, labels; fields and payloads if included.",
        ),
    ] = False,
    id: IdColumn = None,
    label: LabelColumn = None,
    features: FeatureColumns = None,
    no_header: NoHeader = False,
    text: Text = False,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="For a cluster: where shards do not answer, answer from the others, and say which share of the items "
            "is missing. By default the search waits for them, and then fails.",
        ),
    ] = False,
    address: AddressOption = None,
) -> None:
    """Find the items whose codes are nearest to those of the queries, exactly; also while another process ingests.

    If queries and items have labels, it also prints how many answers share the label of their query. Queries whose
    label is empty are searched like the others, and left out of that figure.
    """
    with failing(), opened(folder, address, mode="read") as table:
        if (queries is None) == (like is None):
            raise ValueError("give what to search for: a file of QUERIES, or --like ID")
        if radius is not None and asymmetric:
            raise ValueError("--radius counts bits that differ, --asymmetric weighs them: choose one of them")
        if radius is not None and (rescore is not None or offset):
            raise ValueError("--rescore and --offset are for the k nearest: they do not go with --radius")
        if metric is not None and rescore is None:
            raise ValueError(f"--metric {metric.value} is for --rescore N: give both")
        if out is not None and out.suffix.lower() not in ANSWER_FILES:
            raise ValueError(f"--out {out} ends in {out.suffix or 'nothing'}: it must be .csv or .npz")
        if partial and not isinstance(table, Cluster):
            raise ValueError(f"--partial is for clusters, and {folder} is a table")
        if queries is None:
            source = _stored(table, folder, like or "")
        else:
            source = open_source(
                queries, id=id, label=label, features=features, fields=table.fields, header=not no_header, text=text,
                quiet=as_json, dtype=getattr(table.hasher, "dtype_", np.float32),
            )  # fmt: skip
        quiet = as_json or first is not None
        filtered = where_of(where)
        how: dict[str, Any] = {"where": filtered, "compare": compare.value, "include": _included(include)}
        if radius is None:
            how |= {"k": k, "asymmetric": asymmetric, "offset": offset, "rescore": rescore}
            how["metric"] = (metric or Metric.cosine).value
        else:
            how["radius"] = radius
        if partial:
            how["partial"] = True
        answers, labels, taken, missing = _ask(table, source, how, first, quiet=quiet)
        if out is not None:
            answers.save(out)
        more = {"missing": missing} if partial else {}
        if as_json:
            lines = (json.dumps({**one, **more}, ensure_ascii=False) for one in answers.records())
            print("".join(f"{line}\n" for line in lines), end="")
            return
        if out is None and not missing and not len(table):
            say(f"{folder} is empty: {how_to_fill(folder)}")
            return
        if out is None:
            _show(answers, decimals=4 if rescore is not None else 1)
        if missing:
            say(f"{missing:.1%} of the items were not searched: their shards did not answer.")
        else:
            _tell(table, answers, labels, taken, filtered)
        if out is not None:
            say(f"Written to {out}")


def _stored(table: HashTable | Cluster, folder: Path, like: str) -> RowSource:
    """Stored items as queries."""
    if not len(table):
        raise ValueError(f"{folder} is empty, so nothing is like {like}")
    texts = [word.strip() for word in like.removesuffix(",").split(",")]
    items = table.get(find_ids(lookup(table, texts), texts))
    if items.features is None:
        raise ValueError("--like needs features, and this table stores none: give a file of queries")
    known = any(label is not None for label in items.labels)
    y = as_labels(items.labels, "labels") if known else None
    return ArrayRows("the table", items.features, items.ids, y, dtype=items.features.dtype)


def _included(include: str) -> tuple[str, ...]:
    """The parts of --include, and labels in any case."""
    names = [name.strip() for name in include.split(",") if name.strip()]
    for name in names:
        if name not in INCLUDED:
            raise ValueError(f"--include {name}: choose from fields and payloads, as in fields,payloads")
    return tuple(dict.fromkeys(("labels", *names)))


def _ask(
    table: HashTable | Cluster, source: RowSource, how: dict[str, Any], first: int | None, *, quiet: bool
) -> tuple[Answers, np.ndarray | None, float, float]:
    """The answers, the labels of the queries, the seconds that searching took, and the share of items that is missing.

    how : the arguments of the search, `radius` among them for one within a radius.
    """
    search: Any = table.search_radius if "radius" in how else table.search
    parts: list[Answers] = []
    labels: list[np.ndarray] = []
    taken, missing, left = 0.0, 0.0, first
    with work_bar(transient=True, quiet=quiet) as bar:
        task = bar.add_task("queries", total=source.total, note="")
        for rows in source.pieces(AT_ONCE if first is None else min(AT_ONCE, first)):
            check_file_rows(source, rows)
            Q = rows.X[:left]
            clock = time.perf_counter()
            found = search(Q, **how)
            taken += time.perf_counter() - clock
            missing = max(missing, getattr(found, "missing", 0.0))
            names = np.arange(rows.first, rows.first + len(Q)) if rows.ids is None else rows.ids[: len(Q)]
            parts.append(Answers.of(names, found))
            if rows.y is not None:
                labels.append(rows.y[: len(Q)])
            bar.update(task, completed=rows.read)
            left = None if left is None else left - len(Q)
            if left == 0:
                break
    if not parts:
        raise datasets.DatasetError(f"{source.name} has no rows")
    return Answers.joined(parts), np.concatenate(labels) if labels else None, taken, missing


def _show(answers: Answers, decimals: int) -> None:
    """Print a block per query, the nearest first. decimals : of distances that are not whole numbers."""
    shown = list(islice(answers.records(), SHOWN))
    if answers.fields is None and answers.payloads is None:
        _show_columns(shown, decimals)
    else:
        _show_rows(shown, decimals)
    if len(answers) > SHOWN:
        say(f"... and {len(answers) - SHOWN:,} more queries: --out FILE or --json for all.")


def _distance(distance: float, decimals: int) -> str:
    return f"{distance:.{decimals}f}" if isinstance(distance, float) else str(distance)


def _show_rows(shown: list[dict[str, Any]], decimals: int) -> None:
    """A row per item that was found, with its fields and payload."""
    for one in shown:
        nothing = "" if one["ids"] else ": nothing found"
        console.print(f"[bold]query {escape(str(one['query']))}[/]{nothing}", highlight=False)
        if nothing:
            continue
        grid = Table(box=None, padding=(0, 2, 0, 0))
        columns = {"id": one["ids"], "distance": [_distance(d, decimals) for d in one["distances"]]}
        if any(label is not None for label in one["labels"]):
            columns["label"] = one["labels"]
        columns |= one.get("fields", {})
        if "payloads" in one:
            columns["payload"] = one["payloads"]
        for name in columns:
            grid.add_column(escape(name), style="bold blue" if name == "id" else "")
        for row in list(zip(*columns.values(), strict=True))[:WIDEST]:
            grid.add_row(*(escape(_short(value)) for value in row))
        console.print(grid, highlight=False)
        if len(one["ids"]) > WIDEST:
            say(f"and {len(one['ids']) - WIDEST:,} more")


def _short(value: Any) -> str:
    text = str(cell_text(value))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _show_columns(shown: list[dict[str, Any]], decimals: int) -> None:
    """Ids, distances and labels below one another."""
    widest = min(WIDEST, max(len(one["ids"]) for one in shown))
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold")
    grid.add_column(style="dim")
    for _ in range(widest + 1):
        grid.add_column(justify="right")
    for one in shown:
        ids, labels = one["ids"], one["labels"][:WIDEST]
        far = [_distance(d, decimals) for d in one["distances"][:WIDEST]]
        cells = [f"[bold blue]{escape(str(item))}[/]" for item in ids[:WIDEST]]
        more = f"and {len(ids) - WIDEST:,} more" if len(ids) > WIDEST else ""
        cells += [*[""] * (widest - len(cells)), more]
        grid.add_row(f"query {escape(str(one['query']))}", "id" if ids else "nothing found", *cells)
        if ids:
            grid.add_row("", "distance", *far)
        if any(label is not None for label in one["labels"]):
            grid.add_row("", "label", *("" if label is None else escape(str(label)) for label in labels))
    console.print(grid, highlight=False)


def _tell(
    table: HashTable | Cluster, answers: Answers, labels: np.ndarray | None, taken: float,
    where: dict[str, Any] | None,
) -> None:  # fmt: skip
    q = len(answers)
    some = "" if where is None else f"{table.count(where):,} of "
    line = f"{q:,} {'query' if q == 1 else 'queries'} against {some}{len(table):,} items in {seconds(taken)}"
    if labels is not None and any(label is not None for label in answers.labels):
        hits, pairs = answers.sharing(labels)
        if pairs:
            which = " to queries with a label" if pairs < len(answers.ids) else ""
            line += f"; {hits / pairs:.1%} of the {pairs:,} answers{which} share the query's label"
    say(f"{line}.")
