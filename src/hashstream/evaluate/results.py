"""Results of experiments: rows in a CSV file, and summaries over runs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from hashstream._files import atomic_path
from hashstream.evaluate.lock import WriterLock
from hashstream.evaluate.protocols import Protocol, metric_row, plain_name

__all__ = ["COLUMNS", "DIVERGED", "Results", "Summary", "summarise", "summarise_runs"]

COLUMNS = ("dataset", "protocol", "method", "bits", "run", "n_train", "metric", "value")
DIVERGED = "diverged_rows"
"""The metric of a run that diverged: the rows after which its hasher raised DivergenceError."""


class Results:
    """A results file: rows with COLUMNS, only ever appended to.

    Opening it only reads: a missing file is created with the first row, and an incomplete last line (from a crash) is
    ignored, and removed when rows are appended. Of rows with the same key (all columns but the value) the first counts.
    One process at a time appends rows, after reading those of others.

    results.datasets.json, next to it, has a fingerprint of each data set, so that figures of another file with the same
    name are not confused with them; results.methods.json has one of the source of each method of the user's own.

    It is CSV rather than a database because the file is the published result: people read, diff and commit it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self._known: set[tuple[Any, ...]] = set()
        self._diverged: dict[tuple[Any, ...], int] = {}
        self._size = 0  # bytes that have been read
        self._lock: WriterLock | None = None
        if path.exists():
            self._read()

    def _read(self) -> None:
        """Add the rows of the file to the known ones."""
        text = self.path.read_bytes().decode()
        head = ",".join(COLUMNS)
        whole = text[: text.rfind("\n") + 1]
        reader = csv.DictReader(io.StringIO(whole))
        if tuple(reader.fieldnames or COLUMNS) != COLUMNS or not (whole or head.startswith(text)):
            raise ValueError(f"{self.path} is not a results file: its first line has to be {head}")
        rows = []
        for row in reader:
            try:
                numbers = {name: int(row[name]) for name in ("bits", "run", "n_train")}
                rows.append({**row, **numbers, "value": float(row["value"])})
            except (TypeError, ValueError):
                raise ValueError(f"{self.path}, line {reader.line_num}, is not a row of results") from None
        self._add(rows)
        self._size = len(whole.encode())

    def _add(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the new ones of these rows, and return them."""
        new = {self._key(row): row for row in reversed(rows) if self._key(row) not in self._known}
        added = list(new.values())[::-1]
        self.rows += added
        self._known |= new.keys()
        self._diverged |= {self._job(row): row["n_train"] for row in added if row["metric"] == DIVERGED}
        return added

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the file for appending, and read what others have appended; ValueError names another holder.

        Nested calls are allowed.
        """
        if self._lock is not None:
            yield
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = WriterLock(self.path)
        try:
            if not self.path.exists():
                self._size = 0
            elif self.path.stat().st_size != self._size:
                self._read()
            yield
        finally:
            self._lock.release()
            self._lock = None

    def check_data(self, dataset: str, fingerprint: str) -> None:
        """Raise ValueError if the file has rows of other data with this name, whatever the setting (`setting_named`).

        fingerprint: of the current data, `PreparedDataset.fingerprint`.
        """
        name = plain_name(dataset)
        known = {found for each, found in self._noted("datasets").items() if plain_name(each) == name}
        if known - {fingerprint}:
            raise ValueError(
                f"{self.path} has figures of another {name}: the same name, but other vectors or labels. Use "
                "another folder, or rename the data file"
            )

    def mark_data(self, dataset: str, fingerprint: str) -> None:
        """`check_data`, and store the fingerprint if there is none for this name yet."""
        with self.writing():
            self.check_data(dataset, fingerprint)
            self._note("datasets", {dataset: fingerprint})

    def check_sources(self, digests: Mapping[str, str]) -> None:
        """Raise ValueError if the file has rows of a method whose source was another then.

        digests: method -> digest of its current source (`sources.source_digests`).
        """
        known, measured = self._noted("methods"), {row["method"].partition("(")[0] for row in self.rows}
        changed = [
            name for name, digest in digests.items() if name in measured and known.get(name, digest) != digest
        ]
        if changed:
            raise ValueError(
                f"{self.path} has figures of an earlier {changed[0]}: its source has changed since they were measured. "
                "Use another folder, give the class another name, or delete its rows there and its line in "
                f"{self._notes('methods').name}"
            )

    def mark_sources(self, digests: Mapping[str, str]) -> None:
        """`check_sources`, and store the digests."""
        if digests:
            with self.writing():
                self.check_sources(digests)
                self._note("methods", digests)

    def _notes(self, kind: str) -> Path:
        return self.path.with_name(f"{self.path.stem}.{kind}.json")

    def _noted(self, kind: str) -> dict[str, str]:
        """Name -> fingerprint, of data sets or methods."""
        path = self._notes(kind)
        if not path.exists():
            return {}
        try:
            return {str(name): str(value) for name, value in json.loads(path.read_text()).items()}
        except (ValueError, AttributeError):
            raise ValueError(
                f"{path} is not valid: it has to be a JSON object with a fingerprint for each of the {kind}"
            ) from None

    def _note(self, kind: str, new: Mapping[str, str]) -> None:
        """Store fingerprints."""
        known = self._noted(kind)
        if known | dict(new) != known:
            text = json.dumps(known | dict(new), indent=1, sort_keys=True)
            with atomic_path(self._notes(kind)) as part:
                part.write_text(f"{text}\n")

    @staticmethod
    def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in COLUMNS[:-1])

    @staticmethod
    def _job(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in COLUMNS[:5])

    def has(self, metrics: Sequence[str], **columns: Any) -> bool:
        """Whether every metric of `metrics` is there for these columns."""
        return all(self._key({**columns, "metric": metric}) in self._known for metric in metrics)

    def diverged(self, **columns: Any) -> int | None:
        """The number of rows after which the job with these columns diverged; None if it did not."""
        return self._diverged.get(self._job(columns))

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append the new ones of these rows, in one write."""
        with self.writing():
            lines = io.StringIO()
            csv.DictWriter(lines, COLUMNS, lineterminator="\n").writerows(self._add(rows))
            head = "" if self._size else ",".join(COLUMNS) + "\n"
            with self.path.open("ab") as file:
                file.truncate(self._size)  # removes an incomplete last line
                file.write((head + lines.getvalue()).encode())
                self._size = file.tell()


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over runs (NaN for one run) of one metric at one checkpoint.

    missing: runs without a value (NaN), which both ignore. The mean of none is NaN.
    """

    method: str
    bits: int
    n_train: int
    metric: str
    runs: int
    mean: float
    spread: float
    missing: int = 0

    @property
    def decimals(self) -> int:
        """Decimal places of a mean as it is printed, but for times."""
        return 0 if self.metric.endswith("_rows") else 3

    def __str__(self) -> str:
        if self.missing == self.runs:
            return "never" if self.metric.endswith("_rows") else "none"
        if self.metric.endswith("_seconds"):  # their deviation is noise of the machine
            return f"{self.mean:.3g}"
        spread = "" if isnan(self.spread) else f" ± {self.spread:,.{self.decimals}f}"
        counted = f" ({self.runs - self.missing} of {self.runs})" if self.missing else ""
        return f"{self.mean:,.{self.decimals}f}{spread}{counted}"


Group = tuple[int, str, int, str]
"""Bits, method, n_train, metric."""


def _summaries(groups: Mapping[Group, Sequence[float]]) -> list[Summary]:
    found = []
    for (bits, method, n, metric), values in sorted(groups.items()):
        there = [value for value in values if not isnan(value)]
        average = mean(there) if there else nan
        spread = stdev(there) if len(there) > 1 else nan
        missing = len(values) - len(there)
        found.append(Summary(method, bits, n, metric, len(values), average, spread, missing))
    return found


def _rows(results: Results, dataset: str, protocol: str, runs: int | None) -> Iterator[dict[str, Any]]:
    for row in results.rows:
        if (row["dataset"], row["protocol"]) == (dataset, protocol) and (runs is None or row["run"] < runs):
            yield row


def summarise(
    results: Results,
    dataset: str,
    metrics: Sequence[str],
    ties: str,
    protocol: str = "paper",
    *,
    runs: int | None = None,
) -> list[Summary]:
    """One summary per code length, method, checkpoint and metric in the results, sorted in this order.

    metrics: plain names, as in `Checkpoint.scores` ("mAP", "train_seconds").
    runs: count only runs 0 to `runs` - 1; by default all.
    """
    names = {metric_row(name, ties): name for name in metrics}
    groups: dict[Group, list[float]] = {}
    for row in _rows(results, dataset, protocol, runs):
        if row["metric"] in names:
            key = (row["bits"], row["method"], row["n_train"], names[row["metric"]])
            groups.setdefault(key, []).append(row["value"])
    return _summaries(groups)


def summarise_runs(
    results: Results,
    dataset: str,
    protocol: Protocol,
    points: Sequence[int],
    ties: str,
    *,
    runs: int | None = None,
) -> list[Summary]:
    """Summaries of `Protocol.run_metrics` (areas under curves, forgetting, time to recover).

    points: the checkpoints of a complete run; runs that lack one are ignored. One summary per code length, method and
    metric, with the last checkpoint as its n_train.
    runs: count only runs 0 to `runs` - 1; by default all.
    """
    seen: dict[tuple[int, str, int], dict[str, dict[int, float]]] = {}
    wanted = set(points)
    for row in _rows(results, dataset, protocol.name, runs):
        if row["n_train"] in wanted:
            curves = seen.setdefault((row["bits"], row["method"], row["run"]), {})
            curves.setdefault(row["metric"], {})[row["n_train"]] = row["value"]
    groups: dict[Group, list[float]] = {}
    metrics = [metric_row(name, ties) for name in protocol.metrics()]
    for (bits, method, _), curves in seen.items():
        if any(curves.get(name, {}).keys() != wanted for name in metrics):
            continue
        plain = {name.removesuffix(f"[{ties}]"): curve for name, curve in curves.items()}
        for name, value in protocol.run_metrics(plain, points).items():
            groups.setdefault((bits, method, points[-1], name), []).append(value)
    return _summaries(groups)
