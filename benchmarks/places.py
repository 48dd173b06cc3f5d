"""`hashstream perf places`: a run of the size of Places205: 2.5 million x 128, 205 classes, 100,000 rows learned.

The rows are those of `datasets.Stream`, since the paper's features are not public. Three questions, each as the table
grows from 25,000 over 250,000 to 2.5 million items (5,000 and 50,000 with --quick), 64 bits, float32, one core:

- learning: processor seconds of each method for 100,000 rows in batches of 1,000, with hash functions to encode with
  after every batch: some methods put off this work until then. Batch by batch, the methods take turns. One that has
  taken a minute stops, and its last figure follows from its pace.
- tables: processor seconds of 99 more updates of a full table under each refresh policy, and precision@100 after them
  (`places_tables.py`). Eager is measured for the smaller tables; for all, it is also counted from one refresh.
- searching: one query and 100, scanned and by the multi-index; bytes of memory per item.

Rows are stored in docs/results/perf-places as they are measured (with --quick nowhere) and never measured twice: the
same command continues. Less than 6 GB of memory and 4 GB of disk are used.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.progress import Progress
from rich.table import Table
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks import places_tables as tables
from benchmarks.harness import console, duration, machine
from benchmarks.places_picture import PANELS, places_picture
from benchmarks.places_tables import BATCH, BITS, POLICIES, Advance, Row
from benchmarks.table_size import in_bytes
from hashstream import pictures
from hashstream.evaluate import Results
from hashstream.hashers import OnlineHasher
from hashstream.paper import provenance

OUT = Path(__file__).parents[1] / "docs" / "results" / "perf-places"
PARTS = ("learning", "tables")
SIZES, FEW = (25_000, 250_000, 2_500_000), (5_000, 50_000)
LEARNED = 100_000
COUNTED = 1_000_000  # items, from which on Eager is not run
STOP = 60.0  # seconds

METHODS: dict[str, Callable[[], OnlineHasher]] = {
    "FCOH": lambda: hs.FCOH(BITS, random_state=0),
    "FCOH (paper)": lambda: hs.FCOH.from_paper("places205", BITS, random_state=0),
    "PosteriorHash": lambda: hs.PosteriorHash(BITS, random_state=0),
    "HCOH": lambda: hs.HCOH(BITS, random_state=0),
    "MIHash": lambda: hs.MIHash(BITS, random_state=0),
    "MIHash (paper)": lambda: hs.MIHash.from_paper("places205", BITS, random_state=0),
    "OSH": lambda: hs.OSH(BITS, random_state=0),
    "BSODH": lambda: hs.BSODH(BITS, random_state=0),
    "RidgeHash": lambda: hs.RidgeHash(BITS, random_state=0),
}
FEWER_POLICIES = {"PosteriorHash": ("Never", "Grown(0.2)", "Every(10)", "Lazy")}
"""Policies of other methods; FCOH has all of them. PosteriorHash is no plain projection, which Partial needs, and its
updates take so long that the others would say little of the policy."""


class Rows:
    """Figures by what was measured, kept in a results file."""

    def __init__(self, path: Path) -> None:
        self.results = Results(path)

    def of(self, protocol: str, method: str, n: int) -> Row:
        """metric -> value; empty where nothing was measured."""
        wanted = (f"places-{protocol}", method, n)
        return {
            row["metric"]: row["value"]
            for row in self.results.rows
            if (row["protocol"], row["method"], row["n_train"]) == wanted
        }

    def add(self, protocol: str, method: str, n: int, found: Row) -> None:
        columns = {"dataset": "stream", "protocol": f"places-{protocol}", "method": method, "bits": BITS}
        self.results.append(
            [{**columns, "run": 0, "n_train": n, "metric": m, "value": v} for m, v in found.items()]
        )


@contextmanager
def bar(what: str, steps: int) -> Iterator[Advance]:
    with Progress(console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=steps)
        yield lambda: shown.advance(task)


# ---- learning


def points(rows: int) -> list[int]:
    """Numbers of rows after which the time is noted.

    >>> points(100_000)
    [1000, 2000, 5000, 10000, 25000, 50000, 100000]
    """
    return [n for n in (1000, 2000, 5000, 10_000, 25_000, 50_000, LEARNED) if n <= rows]


def learning(rows: Rows, total: int) -> None:
    """Processor seconds of every method at every point."""
    if all(rows.of("learning", name, total) for name in METHODS):
        return
    hashers = {name: make() for name, make in METHODS.items()}
    spent = dict.fromkeys(METHODS, 0.0)
    noted: dict[str, dict[int, Row]] = {name: {} for name in METHODS}
    done = 0
    with bar(f"learning {total:,} rows", total // BATCH) as advance:
        for X, y in tables.stream(total).batches(BATCH):
            done += len(X)
            for name, hasher in list(hashers.items()):
                clock = time.process_time()
                hasher.partial_fit(X, y).encoder()
                spent[name] += time.process_time() - clock
                if done in points(total):
                    noted[name][done] = {"processor_seconds": spent[name], "learned_rows": done}
                if spent[name] > STOP and done < total:
                    noted[name][total] = {
                        "processor_seconds": spent[name] * total / done,
                        "learned_rows": done,
                    }
                    del hashers[name]
            advance()
    for name, found in noted.items():
        for n, row in found.items():
            rows.add("learning", name, n, row)


def show_learning(rows: Rows, total: int) -> None:
    table = Table(title=f"Learning {total:,} rows in batches of {BATCH:,}, {BITS} bits", title_justify="left")
    for head in ("method", "processor", "over FCOH", "per row"):
        table.add_column(head, justify="left" if head == "method" else "right")
    base = rows.of("learning", "FCOH", total)["processor_seconds"]
    for name in METHODS:
        found = rows.of("learning", name, total)
        taken, seen = found["processor_seconds"], found["learned_rows"]
        mark = "" if seen == total else f" (from {seen:,.0f} rows)"
        table.add_row(name, duration(taken) + mark, f"{taken / base:.2f}", duration(taken / total))
    console.print(table)


# ---- tables


def runs(n: int) -> dict[str, list[str]]:
    """Method -> the policies that are run with n items."""
    every = [name for name in POLICIES if name != "Eager" or n < COUNTED]
    return {"FCOH": every, **{method: list(policies) for method, policies in FEWER_POLICIES.items()}}


def fill(rows: Rows, n: int, folder: Path) -> None:
    """Run what is missing of the tables with n items."""
    for method, wanted in runs(n).items():
        missing = [one for one in wanted if not rows.of("tables", f"{method}, {one}", n)]
        unsearched = not rows.of("search", method, n)
        if not missing and not unsearched:
            continue
        pieces = -(-n // tables.PIECE)
        for with_features in (True, False):
            todo = [
                one
                for one in wanted
                if POLICIES[one][0]().keeps_features is with_features
                and (one in missing or (one == "Never" and unsearched))
            ]
            if not todo:
                continue
            base = folder / "base"
            with bar(f"{n:,} items, {method}", pieces) as advance:
                policy = POLICIES["Never" if with_features else todo[0]][0]()
                y = tables.build(base, METHODS[method](), n, policy, advance)
            for name in todo:
                make, versions = POLICIES[name]
                here = tables.copied(base, folder / "table")
                with bar(f"{n:,} items, {method}, {name}", tables.UPDATES - 1) as advance:
                    found = tables.under_policy(here, make(), versions, y, advance)
                rows.add("tables", f"{method}, {name}", n, found)
                if name == "Never" and unsearched:
                    with bar(f"{n:,} items, {method}, searched", 1):
                        rows.add("search", method, n, tables.searched(here))
            for each in ("base", "table"):
                shutil.rmtree(folder / each)


def show_tables(rows: Rows, n: int) -> None:
    size = tables.batch_rows(n)
    title = f"{n:,} items, {tables.UPDATES - 1} updates by {size:,} rows each, {BITS} bits"
    table = Table(title=title, title_justify="left")
    for head in ("method", "policy", "processor", "over Never", "elapsed", "re-encoded\nper item",
                 "versions", "precision@100"):  # fmt: skip
        table.add_column(head, justify="left" if head in ("method", "policy") else "right")
    for method in runs(n):
        never = rows.of("tables", f"{method}, Never", n)
        base = never["processor_seconds"]
        for policy in POLICIES:
            found = rows.of("tables", f"{method}, {policy}", n)
            if found:
                taken = found["processor_seconds"]
                table.add_row(
                    method,
                    policy,
                    duration(taken),
                    f"{taken / base:.2f}",
                    duration(found["seconds"]),
                    f"{found['recoded_rows'] / n:.2f}",
                    f"{found['versions']:.0f}",
                    f"{found['precision@100']:.3f}",
                )
        counted, refreshes = tables.eager(never, n)
        one = duration(never["refresh_processor_seconds"])
        table.add_row(
            method, f"Eager, {refreshes:.1f} x {one}", duration(counted), f"{counted / base:.2f}", "counted",
            f"{refreshes:.2f}", "1", f"{never['fresh precision@100']:.3f}",
        )  # fmt: skip
    console.print(table)
    if real := rows.of("tables", "FCOH, Eager", n):
        counted, _ = tables.eager(rows.of("tables", "FCOH, Never", n), n)
        console.print(f"Eager with FCOH, counted over measured: {counted / real['processor_seconds']:.2f}")


def show_search(rows: Rows, sizes: tuple[int, ...]) -> None:
    """Two tables, of seconds and of bytes."""
    shown: dict[str, dict[str, tuple[str, Callable[[float], str]]]] = {
        f"Search, top-10, {BITS} bits, one version, one core": {
            "one query,\nscanned": ("scan_1_seconds", duration),
            "by the\nmulti-index": ("auto_1_seconds", duration),
            "100 queries,\nscanned": ("scan_100_seconds", duration),
            "by the\nmulti-index ": ("auto_100_seconds", duration),
            "opened in\n(elapsed)": ("open_seconds", duration),
        },
        "Memory and disk per item": {
            "memory,\nby stats()": ("scan_memory_bytes", in_bytes),
            "of the process,\nscanned": ("scan_own_bytes", in_bytes),
            "of the process,\nwith the index": ("auto_own_bytes", in_bytes),
            "of which\nthe index": ("index_bytes", in_bytes),
            "disk:\nfeatures": ("feature_bytes", in_bytes),
            "disk:\nthe rest": ("disk_bytes", in_bytes),
        },
    }
    for title, columns in shown.items():
        table = Table(title=title, title_justify="left")
        table.add_column("items", justify="right")
        table.add_column("method")
        for head in columns:
            table.add_column(head, justify="right")
        for n in sizes:
            for method in runs(n):
                found = rows.of("search", method, n)
                cells = [unit(found[key]) if key in found else "-" for key, unit in columns.values()]
                table.add_row(f"{n:,}", method, *cells)
        console.print(table)


# ---- all of it


def figures(rows: Rows, sizes: tuple[int, ...], total: int) -> dict[str, dict[str, dict[int, float]]]:
    """What the picture shows: panel -> line -> x -> y."""
    shown: dict[str, dict[str, dict[int, float]]] = {panel: {} for panel in PANELS}

    def draw(panel: str, line: str, n: int, value: float | None) -> None:
        if value is not None:
            shown[panel].setdefault(line, {})[n] = value

    for name in METHODS:
        for n in points(total):
            draw("learning", name, n, rows.of("learning", name, n).get("processor_seconds"))
    for n in sizes:
        for method in runs(n):
            draw("refresh", method, n, rows.of("tables", f"{method}, Never", n)["refresh_processor_seconds"])
        never = rows.of("tables", "FCOH, Never", n)
        counted = {
            "processor_seconds": tables.eager(never, n)[0],
            "precision@100": never["fresh precision@100"],
        }
        for policy in POLICIES:
            found = rows.of("tables", f"FCOH, {policy}", n) or counted
            draw("policies", policy, n, found["processor_seconds"] / never["processor_seconds"])
            draw("precision", policy, n, found["precision@100"])
        found = rows.of("search", "FCOH", n)
        for queries, name in ((1, "one query"), (100, "100 queries")):
            for index, how in (("scan", "scanned"), ("auto", "multi-index")):
                value = found.get(f"{index}_{queries}_seconds")
                draw("search", f"{name}, {how}", n, value and 1e3 * value)
        for name, key in (
            ("features, on disk", "feature_bytes"),
            ("process, with the index", "auto_own_bytes"),
            ("process, scanned", "scan_own_bytes"),
            ("by stats()", "scan_memory_bytes"),
        ):
            value = found.get(key)
            draw("memory", name, n, value and n * value / 1e6)
    return shown


def main(quick: bool = False, part: str | None = None) -> bool:
    """Measure what is missing, print the tables, draw the picture; True, since nothing here has a target."""
    sizes, total = (FEW, 10_000) if quick else (SIZES, LEARNED)
    console.print("hashstream perf places" + (" --quick" if quick else ""))
    console.print(machine())
    console.print(hs.show_versions())
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hashstream-perf-")))
        out = scratch / "rows" if quick else OUT
        rows = Rows(out / "results.csv")
        if not quick:
            stack.enter_context(provenance.recorded(out, rows.results, "hashstream perf places"))
        if part in (None, "learning"):
            learning(rows, total)
            show_learning(rows, total)
        if part in (None, "tables"):
            for n in sizes:
                fill(rows, n, scratch)
                show_tables(rows, n)
            show_search(rows, sizes)
        if part is None and not quick:
            pictures.save(places_picture(figures(rows, sizes, total)), out, "places")
            console.print(f"Rows and picture: {out.relative_to(OUT.parents[2])}")
    if not quick:
        for what, fact in provenance.facts(OUT, len(rows.results.rows)):
            console.print(f"{what}: {fact}", highlight=False)
    console.print(
        "Processor time is that of these programs alone; elapsed time depends on who shares the machine."
    )
    return True
