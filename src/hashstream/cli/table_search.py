"""`hashstream table search`: the nearest items, for people, for scripts and for other programs."""

from __future__ import annotations

import json
import time
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from hashstream import datasets
from hashstream.cli.common import console, say
from hashstream.cli.table_common import (
    FeatureColumns,
    Folder,
    IdColumn,
    LabelColumn,
    NoHeader,
    Text,
    failing,
    open_source,
    opened,
    work_bar,
)
from hashstream.datasets.rows import ArrayRows, RowSource
from hashstream.hashers.labels import as_labels
from hashstream.table import HashTable
from hashstream.table.answers import ANSWER_FILES, Answers
from hashstream.table.files import check_file_rows
from hashstream.table.id_text import find_ids
from hashstream.terminal import seconds

AT_ONCE = 1000  # queries
SHOWN = 20  # queries whose answers are printed
WIDEST = 10  # answers per query in the printed table


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
            "labels and, with --radius, offsets."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per query: query, ids, distances, labels.")
    ] = False,
    id: IdColumn = None,
    label: LabelColumn = None,
    features: FeatureColumns = None,
    no_header: NoHeader = False,
    text: Text = False,
) -> None:
    """Find the items whose codes are nearest to those of the queries, exactly; also while another process ingests.

    If queries and items have labels, it also prints how many answers share the label of their query. Queries whose
    label is empty are searched like the others, and left out of that figure.
    """
    with failing(), opened(folder, mode="read") as table:
        if (queries is None) == (like is None):
            raise ValueError("give what to search for: a file of QUERIES, or --like ID")
        if radius is not None and asymmetric:
            raise ValueError("--radius counts bits that differ, --asymmetric weighs them: choose one of them")
        if out is not None and out.suffix.lower() not in ANSWER_FILES:
            raise ValueError(f"--out {out} ends in {out.suffix or 'nothing'}: it must be .csv or .npz")
        if queries is None:
            source = _stored(table, folder, like or "")
        else:
            source = open_source(
                queries, id=id, label=label, features=features, header=not no_header, text=text, quiet=as_json,
                dtype=getattr(table.hasher, "dtype_", np.float32),
            )  # fmt: skip
        quiet = as_json or first is not None
        answers, labels, taken = _ask(table, source, k, radius, asymmetric, first, quiet=quiet)
        if out is not None:
            answers.save(out)
        if as_json:
            print("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in answers.records()), end="")
            return
        if out is None and not len(table):
            say(f"{folder} is empty: fill it with `hashstream table ingest {folder} FILE`")
            return
        if out is None:
            _show(answers)
        _tell(table, answers, labels, taken)
        if out is not None:
            say(f"Written to {out}")


def _stored(table: HashTable, folder: Path, like: str) -> RowSource:
    """Stored items as queries."""
    if not len(table):
        raise ValueError(f"{folder} is empty, so nothing is like {like}")
    items = table.get(find_ids(table, [word.strip() for word in like.removesuffix(",").split(",")]))
    if items.features is None:
        raise ValueError("--like needs features, and this table stores none: give a file of queries")
    known = any(label is not None for label in items.labels)
    y = as_labels(items.labels, "labels") if known else None
    return ArrayRows("the table", items.features, items.ids, y, dtype=items.features.dtype)


def _ask(
    table: HashTable,
    source: RowSource,
    k: int,
    radius: int | None,
    asymmetric: bool,
    first: int | None,
    *,
    quiet: bool,
) -> tuple[Answers, np.ndarray | None, float]:
    """The answers, the labels of the queries, and the seconds that searching took."""
    parts: list[Answers] = []
    labels: list[np.ndarray] = []
    taken, left = 0.0, first
    with work_bar(transient=True, quiet=quiet) as bar:
        task = bar.add_task("queries", total=source.total, note="")
        for rows in source.pieces(AT_ONCE if first is None else min(AT_ONCE, first)):
            check_file_rows(source, rows)
            Q = rows.X[:left]
            clock = time.perf_counter()
            found = (
                table.search(Q, k, asymmetric=asymmetric, include=("labels",))
                if radius is None
                else table.search_radius(Q, radius, include=("labels",))
            )
            taken += time.perf_counter() - clock
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
    return Answers.joined(parts), np.concatenate(labels) if labels else None, taken


def _show(answers: Answers) -> None:
    """Print a block per query: ids, distances and labels below one another, the nearest first."""
    shown = list(islice(answers.records(), SHOWN))
    widest = min(WIDEST, max(len(one["ids"]) for one in shown))
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold")
    grid.add_column(style="dim")
    for _ in range(widest + 1):
        grid.add_column(justify="right")
    for one in shown:
        ids, labels = one["ids"], one["labels"][:WIDEST]
        far = [f"{d:.1f}" if isinstance(d, float) else str(d) for d in one["distances"][:WIDEST]]
        cells = [f"[bold blue]{escape(str(item))}[/]" for item in ids[:WIDEST]]
        more = f"and {len(ids) - WIDEST:,} more" if len(ids) > WIDEST else ""
        cells += [*[""] * (widest - len(cells)), more]
        grid.add_row(f"query {escape(str(one['query']))}", "id" if ids else "nothing found", *cells)
        if ids:
            grid.add_row("", "distance", *far)
        if any(label is not None for label in one["labels"]):
            grid.add_row("", "label", *("" if label is None else escape(str(label)) for label in labels))
    console.print(grid, highlight=False)
    if len(answers) > SHOWN:
        say(f"... and {len(answers) - SHOWN:,} more queries: --out FILE or --json for all.")


def _tell(table: HashTable, answers: Answers, labels: np.ndarray | None, taken: float) -> None:
    q = len(answers)
    line = f"{q:,} {'query' if q == 1 else 'queries'} against {len(table):,} items in {seconds(taken)}"
    if labels is not None and any(label is not None for label in answers.labels):
        hits, pairs = answers.sharing(labels)
        if pairs:
            which = " to queries with a label" if pairs < len(answers.ids) else ""
            line += f"; {hits / pairs:.1%} of the {pairs:,} answers{which} share the query's label"
    say(f"{line}.")
