"""`hashstream table show`, `count`, `ids`, `label` and `remove`: items by their ids, or by a filter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from hashstream.cli.cluster_common import AddressOption, lookup
from hashstream.cli.common import console, say
from hashstream.cli.table_common import Folder, Text, WhereOption, failing, opened, where_of
from hashstream.scale import Cluster
from hashstream.table import HashTable
from hashstream.table.answers import cell_text, plain_value
from hashstream.table.id_text import find_ids, read_ids
from hashstream.table.label_text import find_labels, parse_labels, read_labels

__all__ = ["count", "ids", "label", "remove", "show"]

BATCH = 1000  # labels that are learned and made durable at a time


def show(
    folder: Folder,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The ids of the items.")],
    features: Annotated[bool, typer.Option("--features", help="Their features, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per item.")] = False,
    address: AddressOption = None,
) -> None:
    """Print items: label, version of the code, fields and payload."""
    with failing(), opened(folder, address, mode="read") as table:
        for item in _records(table, ids, features):
            if as_json:
                print(json.dumps(item, ensure_ascii=False))
            else:
                console.print(_page(item), highlight=False)


def _records(table: HashTable | Cluster, texts: list[str], features: bool) -> list[dict[str, Any]]:
    items = table.get(find_ids(lookup(table, texts), texts), features=features)
    records = []
    for row, one in enumerate(items.ids.tolist()):
        label = items.labels[row]
        record = {
            "id": one,
            "label": label.astype(int).tolist() if isinstance(label, np.ndarray) else label,
            "version": int(items.versions[row]),
            "fields": {name: plain_value(values[row]) for name, values in items.fields.items()},
            "payload": items.payloads[row],
        }
        if features:
            record["features"] = None if items.features is None else items.features[row].tolist()
        records.append(record)
    return records


def _page(item: dict[str, Any]) -> Table:
    page = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    page.add_column(style="bold", no_wrap=True)
    page.add_column()
    lines = {"id": item["id"], "label": item["label"], "version": item["version"], **item["fields"]}
    for name, value in (item["payload"] or {}).items():
        lines[f"payload.{name}"] = value
    if "features" in item:
        lines["features"] = item["features"] or "not stored"
    for name, value in lines.items():
        page.add_row(escape(name), "[dim]none[/]" if value is None else escape(str(cell_text(value))))
    page.add_row()
    return page


def count(folder: Folder, where: WhereOption = None, address: AddressOption = None) -> None:
    """Print how many items there are, or match a filter."""
    with failing(), opened(folder, address, mode="read") as table:
        print(table.count(where_of(where)))


def ids(
    folder: Folder,
    where: WhereOption = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out this many at the beginning.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Print at most this many; all by default.")] = None,
    address: AddressOption = None,
) -> None:
    """Print the ids of the items in the order of insertion, one per line, as `remove --ids` reads them."""
    with failing(), opened(folder, address, mode="read") as table:
        for one in table.ids(where_of(where), offset=offset, limit=limit).tolist():
            print(one)


def label(
    folder: Folder,
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="[ID=LABEL...]", help="Ids and their labels, as 17=cat.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", help="A .csv or .tsv file with columns `id` and `label`. Empty labels are skipped."
        ),
    ] = None,
    text: Text = False,
    address: AddressOption = None,
) -> None:
    """Give labels to stored items, and learn from them. A label in the place of another one corrects it.

    Labels are whole numbers if all of them look like that and the table has no others. If an id is not in the table,
    nothing changes. The command may be repeated: an item that has its label already is not learned from again.
    """
    with failing(), opened(folder, address) as table:
        given = [*parse_labels(pairs or []), *([] if file is None else read_labels(file))]
        if not given:
            raise ValueError("give labels: ID=LABEL, or --file FILE")
        try:
            found, labels = find_labels(lookup(table, [one for one, _ in given]), given, text=text)
        except KeyError as error:
            raise KeyError(f"{error.args[0]}. Nothing was labelled") from None
        new = 0
        for first in range(0, len(found), BATCH):
            new += table.label(found[first : first + BATCH], labels[first : first + BATCH])
        same = f"; {len(found) - new:,} had it already" if new < len(found) else ""
        say(f"{new:,} {'item has' if new == 1 else 'items have'} a new label{same}.")


def remove(
    folder: Folder,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="The ids to remove.")] = None,
    file: Annotated[
        Path | None, typer.Option("--ids", help="A file of ids: .npy, or text with one id per line.")
    ] = None,
    where: WhereOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --where: do not ask.")] = False,
    missing_ok: Annotated[
        bool, typer.Option("--missing-ok", help="Skip ids that are not in the table.")
    ] = False,
    address: AddressOption = None,
) -> None:
    """Remove items for good, by their ids or by a filter. Their space is freed by `compact`.

    If an id is not in the table, nothing is removed. With --where, the command says how many items match, and asks.
    """
    with failing(), opened(folder, address) as table:
        texts = [*(ids or []), *([] if file is None else read_ids(file))]
        filtered = where_of(where)
        if not texts and filtered is None:
            raise ValueError("give what to remove: ids, --ids FILE, or --where FILTER")
        if filtered is None:
            removed = _remove_ids(table, texts, missing_ok)
        elif ids or file is not None:
            raise ValueError("give ids or --where, not both")
        else:
            n = table.count(filtered)
            if n and not yes:
                of = f"{n:,} of {len(table):,} items match"
                typer.confirm(f"{of}. Remove {'it' if n == 1 else 'them'} for good?", abort=True)
            removed = table.remove(where=filtered)
        say(f"{removed:,} {'item' if removed == 1 else 'items'} removed, {len(table):,} left.")


def _remove_ids(table: HashTable | Cluster, texts: list[str], missing_ok: bool) -> int:
    try:
        return table.remove(find_ids(lookup(table, texts), texts, missing_ok=missing_ok))
    except KeyError as error:
        raise KeyError(f"{error.args[0]}. Nothing was removed (see --missing-ok)") from None
