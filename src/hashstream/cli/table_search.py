"""`hashstream table search`: the nearest items, for people, for scripts and for other programs."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from hashstream import datasets
from hashstream.cli.common import console
from hashstream.cli.table_common import (
    FeatureColumns,
    Folder,
    IdColumn,
    LabelColumn,
    NoHeader,
    Text,
    check_finite,
    failing,
    open_source,
    opened,
    work_bar,
)
from hashstream.datasets.rows import ArrayRows, RowSource
from hashstream.hashers.labels import as_labels
from hashstream.table import HashTable
from hashstream.table.state.labels import label_at
from hashstream.terminal import seconds

__all__ = ["search"]

AT_ONCE = 1000  # queries
SHOWN = 20  # queries whose answers are printed
WIDEST = 10  # answers of one query in the printed table


@dataclass(frozen=True)
class Answers:
    """What was found for some queries.

    queries : (q,) ids. offsets : (q + 1,): what was found for query i lies at offsets[i]:offsets[i + 1] of
    ids (found,), distances (found,) and labels.
    """

    queries: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    distances: np.ndarray
    labels: list[Any]

    def of(self, i: int) -> slice:
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))


def search(
    folder: Folder,
    queries: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERIES]", help="A file as for `ingest`, or the name of a data set; see --like."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Items to find for each query.")] = 10,
    radius: Annotated[
        int | None, typer.Option(min=0, help="Instead of k items: all that differ in at most so many bits.")
    ] = None,
    asymmetric: Annotated[
        bool,
        typer.Option(
            "--asymmetric",
            help="Rank by how sure the query is of each bit: fewer ties, better answers, slower. Distances are then "
            "on the scale of bits, but not whole.",
        ),
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="ID[,ID...]", help="Ask for what is like items of the table, instead of a file."
        ),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="Ask only so many queries, from the beginning of the file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the answers to a file. .csv: query,rank,id,distance,label. .npz: queries, ids, distances, "
            "labels, and, with --radius, offsets."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a query: query, ids, distances, labels.")
    ] = False,
    id: IdColumn = None,
    label: LabelColumn = None,
    features: FeatureColumns = None,
    no_header: NoHeader = False,
    text: Text = False,
) -> None:
    """Find the items whose codes are nearest to those of the queries, exactly; works while another process ingests.

    Where queries and items have labels, it also says how many of the answers share the label of their query. Queries
    whose label is empty are searched like the others, and left out of that.
    """
    with failing(), opened(folder, mode="read") as table:
        if (queries is None) == (like is None):
            raise ValueError("say what to look for: a file of QUERIES, or --like ID")
        if radius is not None and asymmetric:
            raise ValueError("--radius counts bits that differ, --asymmetric weighs them: say one of them")
        if out is not None and out.suffix.lower() not in (".csv", ".npz"):
            raise ValueError(f"--out {out} ends in {out.suffix or 'nothing'}: it has to be .csv or .npz")
        if queries is not None:
            dtype = getattr(table.hasher, "dtype_", np.float32)
            source = open_source(
                queries, id=id, label=label, features=features, header=not no_header, text=text, dtype=dtype,
                quiet=as_json,
            )  # fmt: skip
        else:
            assert like is not None
            source = _stored(table, folder, like)
        answers, labels, taken = _ask(table, source, k, radius, asymmetric, first, quiet=as_json)
        if as_json:
            print(_lines(answers), end="")
        elif out is None and not len(table):
            console.print(
                f"{escape(str(folder))} is empty: fill it with `hashstream table ingest {escape(str(folder))} FILE`",
                highlight=False,
                soft_wrap=True,
            )
            return
        elif out is None:
            _show(answers, asymmetric)
        if out is not None:
            _write(answers, out, whole=radius is None)
        if not as_json:
            _tell(table, answers, labels, taken, out)


def _stored(table: HashTable, folder: Path, like: str) -> RowSource:
    """Items of the table as queries."""
    words = [word.strip() for word in like.removesuffix(",").split(",")]
    if not len(table):
        raise ValueError(f"{folder} is empty, so nothing is like {like}")
    ids: Any = words
    if len(table) and all(word.lstrip("-").isdigit() for word in words) and words[0] not in table:
        ids = [int(word) for word in words]
    items = table.get(ids)
    if items.features is None:
        raise ValueError("no features are kept in this table, so --like has nothing to ask with: give a file")
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
    """The answers, the labels of the queries, and the seconds that searching alone took."""
    names: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    found: list[np.ndarray] = []
    far: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    taken = 0.0
    left = first
    with work_bar(transient=True, quiet=quiet or first is not None) as bar:
        task = bar.add_task("queries", total=source.total, note="")
        for rows in source.pieces(AT_ONCE if first is None else min(AT_ONCE, first)):
            check_finite(source, rows)
            n = len(rows) if left is None else min(len(rows), left)
            clock = time.perf_counter()
            if radius is not None:
                offsets, distances, ids = table.search_radius(rows.X[:n], radius)
                counts.append(np.diff(offsets))
            else:
                distances, ids = table.search(rows.X[:n], k, asymmetric=asymmetric)
                counts.append(np.full(n, ids.shape[1]))
            taken += time.perf_counter() - clock
            found.append(ids.ravel())
            far.append(distances.ravel())
            names.append(np.arange(rows.first, rows.first + n) if rows.ids is None else rows.ids[:n])
            if rows.y is not None:
                labels.append(rows.y[:n])
            bar.update(task, completed=rows.read)
            if left is not None:
                left -= n
                if not left:
                    break
    if not names:
        raise datasets.DatasetError(f"{source.name} has no rows")
    ids = np.concatenate(found)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    answers = Answers(np.concatenate(names), offsets, ids, np.concatenate(far), _labels(table, ids))
    return answers, np.concatenate(labels) if labels else None, taken


def _labels(table: HashTable, ids: np.ndarray) -> list[Any]:
    """The labels of items, each looked up once."""
    if not len(ids):
        return []
    distinct, place = np.unique(ids, return_inverse=True)
    known = table.get(distinct, features=False).labels
    plain = [one.astype(int).tolist() if isinstance(one, np.ndarray) else one for one in known]
    return [plain[at] for at in place.tolist()]


def _plain(array: np.ndarray) -> list[Any]:
    return [round(one, 6) if isinstance(one, float) else one for one in array.tolist()]


def _lines(answers: Answers) -> str:
    out = io.StringIO()
    for i, query in enumerate(answers.queries.tolist()):
        part = answers.of(i)
        json.dump(
            {
                "query": query,
                "ids": answers.ids[part].tolist(),
                "distances": _plain(answers.distances[part]),
                "labels": answers.labels[part],
            },
            out,
            ensure_ascii=False,
        )
        out.write("\n")
    return out.getvalue()


def _show(answers: Answers, asymmetric: bool) -> None:
    """A block for each query: ids, distances and labels below one another, the nearest first."""
    shown = range(min(SHOWN, len(answers.queries)))
    widest = max((min(WIDEST, answers.offsets[i + 1] - answers.offsets[i]) for i in shown), default=0)
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold")
    grid.add_column(style="dim")
    for _ in range(widest + 1):
        grid.add_column(justify="right")
    for i in shown:
        part = answers.of(i)
        ids, labels = answers.ids[part].tolist(), answers.labels[part]
        far = [f"{one:.1f}" if asymmetric else str(one) for one in answers.distances[part].tolist()]
        more = f"and {len(ids) - WIDEST:,} more" if len(ids) > WIDEST else ""
        cells = [f"[bold blue]{escape(str(one))}[/]" for one in ids[:WIDEST]]
        filled = [*cells, *[""] * (widest - len(cells)), more]
        grid.add_row(f"query {escape(str(answers.queries[i]))}", "id" if ids else "nothing found", *filled)
        if ids:
            grid.add_row("", "distance", *far[:WIDEST])
        if any(label is not None for label in labels):
            grid.add_row("", "label", *("" if one is None else escape(str(one)) for one in labels[:WIDEST]))
    console.print(grid, highlight=False)
    if len(answers.queries) > SHOWN:
        rest = len(answers.queries) - SHOWN
        console.print(f"... and {rest:,} queries more: --out FILE or --json for all.", highlight=False)


def _write(answers: Answers, out: Path, *, whole: bool) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix.lower() == ".csv":
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("query", "rank", "id", "distance", "label"))
            for i, query in enumerate(answers.queries.tolist()):
                part = answers.of(i)
                rows = zip(
                    answers.ids[part].tolist(),
                    _plain(answers.distances[part]),
                    answers.labels[part],
                    strict=True,
                )
                for rank, (one, distance, label) in enumerate(rows, 1):
                    writer.writerow((query, rank, one, distance, "" if label is None else label))
        return
    arrays = {"queries": answers.queries, "ids": answers.ids, "distances": answers.distances}
    if None not in answers.labels:
        arrays["labels"] = np.array(answers.labels)
    arrays = {name: array.astype(str) if array.dtype == object else array for name, array in arrays.items()}
    if whole:
        q = len(answers.queries)
        for name in set(arrays) - {"queries"}:
            arrays[name] = arrays[name].reshape(q, len(answers.ids) // q, *arrays[name].shape[1:])
    else:
        arrays["offsets"] = answers.offsets
    np.savez(out, allow_pickle=False, **arrays)


def _shared(of_query: Any, of_item: Any) -> bool:
    if isinstance(of_query, np.ndarray):
        return bool(np.any(of_query * np.asarray(of_item)))
    return bool(of_query == of_item)


def _tell(
    table: HashTable, answers: Answers, labels: np.ndarray | None, taken: float, out: Path | None
) -> None:
    q = len(answers.queries)
    line = f"{q:,} {'query' if q == 1 else 'queries'} against {len(table):,} items in {seconds(taken)}"
    if labels is not None and any(label is not None for label in answers.labels):
        owner = np.repeat(np.arange(q), np.diff(answers.offsets)).tolist()
        asked = [label_at(labels, i) for i in range(q)]
        pairs = [
            (asked[i], label) for i, label in zip(owner, answers.labels, strict=True) if asked[i] is not None
        ]
        hits = sum(label is not None and _shared(of_query, label) for of_query, label in pairs)
        if pairs:
            which = " to queries with a label" if any(label is None for label in asked) else ""
            line += f"; {hits / len(pairs):.1%} of the {len(pairs):,} answers{which} share the query's label"
    console.print(f"{line}.", highlight=False, soft_wrap=True)
    if out is not None:
        console.print(f"Written to {escape(str(out))}", highlight=False, soft_wrap=True)
