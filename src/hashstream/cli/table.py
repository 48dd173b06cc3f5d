"""`hashstream table`: make, fill, search, look after a table of codes in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from hashstream.cli.common import choose, console, fail
from hashstream.cli.common import settings as parse_settings
from hashstream.cli.table_common import Folder, failing, opened, refreshed, stopping, work_bar
from hashstream.cli.table_ingest import ingest
from hashstream.cli.table_search import search
from hashstream.cli.table_stats import stats
from hashstream.datasets.columns import side_file
from hashstream.hashers import methods
from hashstream.table import HashTable, TableError, TableLocked
from hashstream.terminal import seconds, size

__all__ = ["table_app"]

table_app = typer.Typer(
    help="A searchable table of codes in a folder that survives crashes, while its hash functions learn.",
    no_args_is_help=True,
    epilog="Example: `hashstream table create photos --bits 64`, then `hashstream table ingest photos photos.npz`, "
    "then `hashstream table search photos queries.npz -k 10`\n\n"
    "Without files of your own: `hashstream table ingest photos digits` takes scikit-learn's digits.",
)


@table_app.command(
    epilog="Example: `hashstream table create photos --method FCOH --bits 64`\n\n"
    "Pixels, or features that are not centred: `hashstream table create photos --set feature_map=center`"
)
def create(
    folder: Annotated[Path, typer.Argument(metavar="TABLE", help="A new folder.")],
    method: Annotated[str, typer.Option(help="A name from `hashstream methods`.")] = "FCOH",
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Length of a code.")] = 64,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random in the method.")] = 0,
    no_features: Annotated[
        bool,
        typer.Option(
            "--no-features",
            help="Store codes only. They follow the functions by a projection learned on a small sample: far less "
            "room, and somewhat worse answers.",
        ),
    ] = False,
    sample: Annotated[
        int, typer.Option(min=0, help="Items that the table keeps aside to watch itself by (drift, mAP).")
    ] = 1000,
) -> None:
    """Make an empty table."""
    with failing():
        if HashTable.exists(folder):
            raise TableError(
                f"{folder} is a table already: fill it with `hashstream table ingest {folder} FILE`"
            )
        if ":" in method or "," in method or method.lower() == "all":
            raise ValueError(
                f"--method {method}: name one of `hashstream methods`; a method of your own needs Python"
            )
        for pair in settings or []:
            if pair.partition("=")[0].strip() in ("n_bits", "random_state"):
                raise ValueError(f"--set {pair}: this is what --bits and --seed decide")
        if method.lower() not in map(str.lower, methods(variants=True)):
            raise ValueError(f"there is no method {method}: choose from {', '.join(methods())}")
        ((name, cls),) = choose(method).items()
        given = parse_settings(settings or [], {name: cls})
        hasher = cls(n_bits=bits, random_state=seed, **given)
        with HashTable.open(folder, hasher, keep_features=not no_features, sample_size=sample):
            pass
        console.print(
            f"{escape(str(folder))}: an empty table, {name}, {bits} bits.", highlight=False, soft_wrap=True
        )


table_app.command(
    epilog="Example: `hashstream table ingest photos photos.npz`\n\n"
    "A table with columns, as much as there is: `hashstream table ingest shop items-1.csv items-2.csv --id sku --label "
    "category --features 'f*' --batch 5000`\n\n"
    "Parquet with a column of lists: `hashstream table ingest shop items.parquet --features embedding`\n\n"
    "More rows for a table without ids: `hashstream table ingest photos new.npy --first-id 60000`"
)(ingest)
table_app.command(
    epilog="Example: `hashstream table search photos queries.npz -k 10`\n\n"
    "For other programs: `hashstream table search photos queries.npz -k 100 --out answers.csv`, "
    "`hashstream table search photos queries.npz --first 5 --json`\n\n"
    "What is like an item: `hashstream table search photos --like 17 --asymmetric`"
)(search)
table_app.command(epilog="Example: `hashstream table stats photos`, `hashstream table stats photos --json`")(
    stats
)


@table_app.command(
    epilog="Example: `hashstream table remove photos 17 18 19`\n\n"
    "Many: `hashstream table remove photos --ids gone.npy --missing-ok`"
)
def remove(
    folder: Folder,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="The ids to remove.")] = None,
    file: Annotated[
        Path | None, typer.Option("--ids", help="A file of ids: .npy, or text with one a line.")
    ] = None,
    missing_ok: Annotated[
        bool, typer.Option("--missing-ok", help="Pass over ids that are not in the table.")
    ] = False,
) -> None:
    """Take items out for good. Their room is given back by `compact`.

    Where an id is not in the table, nothing is removed.
    """
    with failing(), opened(folder) as table:
        wanted: list[str] = list(ids or [])
        if file is not None:
            wanted += _ids_of(file)
        if not wanted:
            raise ValueError("say what to remove: ids, or --ids FILE")
        found = [one for word in dict.fromkeys(wanted) if (one := _id_in(table, word)) is not None]
        if len(found) < len(set(wanted)) and not missing_ok:
            lost = [word for word in dict.fromkeys(wanted) if _id_in(table, word) is None]
            more = f" and {len(lost) - 10:,} more" if len(lost) > 10 else ""
            raise KeyError(
                f"not in the table: {', '.join(lost[:10])}{more}. Nothing was removed (see --missing-ok)"
            )
        if found:
            table.remove(np.array(found, dtype=object if isinstance(found[0], str) else np.int64))
        items = "item" if len(found) == 1 else "items"
        console.print(f"{len(found):,} {items} removed, {len(table):,} are left.", highlight=False)


def _ids_of(file: Path) -> list[str]:
    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    if file.suffix.lower() in (".npz", ".parquet", ".pq"):
        raise ValueError(f"{file} ends in {file.suffix}: ids are an .npy file, or text with one a line")
    if file.suffix.lower() == ".npy":
        ids = side_file(file)
        if ids.ndim != 1 or ids.dtype.kind not in "iuU":
            raise ValueError(
                f"{file} has shape {ids.shape} and holds {ids.dtype}: ids are one row of whole numbers or text"
            )
        return [str(one) for one in ids.tolist()]
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} cannot be read as text in UTF-8 ({error})") from error
    return [line.strip() for line in lines if line.strip()]


def _id_in(table: HashTable, word: str) -> int | str | None:
    """The id that somebody means by a word, None where the table has none such."""
    if word in table:
        return word
    if word.removeprefix("-").isdigit() and int(word) in table:
        return int(word)
    return None


@table_app.command(
    epilog="Example: `hashstream table refresh photos`, `hashstream table refresh photos --budget 100000`"
)
def refresh(
    folder: Folder,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Codes to make anew at most, the oldest first; all by default.")
    ] = None,
) -> None:
    """Make codes of older versions anew with the functions of now. Others go on searching meanwhile."""
    with failing(), opened(folder) as table:
        before = table.stats()
        stale = before.n_items - before.versions.get(before.newest_version or 0, 0)
        todo = stale if budget is None else min(stale, budget)
        with stopping() as stopped, work_bar() as bar:
            done = refreshed(table, todo, bar, stopped)
        after = table.stats()
        left = f"{after.stale:.1%} are stale still" if after.stale else "none is stale"
        console.print(
            f"{done:,} codes made anew; {left}. Versions alive: {len(before.versions)} before, "
            f"{len(after.versions)} now.",
            highlight=False,
            soft_wrap=True,
        )
        if number := stopped():
            fail("stopped. What is refreshed stays so: the same command goes on.", code=128 + number)


@table_app.command(epilog="Example: `hashstream table check photos --sample 100000`")
def check(
    folder: Folder,
    sample: Annotated[int, typer.Option(min=0, help="Items whose codes are made again and compared.")] = 1000,
) -> None:
    """Verify every checksum, and make the codes of a sample again. The exit code is 1 where anything is damaged.

    Works while another process writes.
    """
    with failing():
        if not HashTable.exists(folder):
            raise TableError(f"{folder} is not a table: there is no manifest in it")
        try:
            with console.status("reading every row"), opened(folder, mode="read") as table:
                found, kept = table.check(sample), table.keeps_features
        except TableLocked:
            raise
        except TableError as error:
            fail(error, code=1)
        codes = f"{found['codes']:,} codes are what their version makes of their features."
        if not kept:
            codes = "no code was made again, since no features are kept."
        console.print(
            f"Nothing is damaged: {found['batches']:,} batches with {found['rows']:,} rows have the checksums that "
            f"they were stored with, and {codes}",
            highlight=False,
            soft_wrap=True,
        )


@table_app.command(epilog="Example: `hashstream table compact photos`")
def compact(folder: Folder) -> None:
    """Write the folder anew without items that were removed or replaced. It needs room for both meanwhile."""
    with failing():
        start, before = time.perf_counter(), _room(folder)
        with console.status("writing what is alive"), opened(folder) as table:
            dead = table.compact()
        taken, after = time.perf_counter() - start, _room(folder)
    if not dead:
        console.print("Nothing to do: no item was removed or replaced.", highlight=False)
        return
    console.print(
        f"{dead:,} rows dropped in {seconds(taken)}: the folder takes {size(after)} instead of {size(before)}.",
        highlight=False,
        soft_wrap=True,
    )


def _room(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*") if path.is_file())


@table_app.command(epilog="Example: `hashstream table snapshot photos photos-monday`")
def snapshot(
    folder: Folder, copy: Annotated[Path, typer.Argument(metavar="COPY", help="A new folder.")]
) -> None:
    """Copy the table as of one moment, while it is written to."""
    with failing(), opened(folder, mode="read") as table:
        with console.status("copying"):
            table.snapshot(copy)
        console.print(f"Copied to {escape(str(copy))}", highlight=False, soft_wrap=True)
