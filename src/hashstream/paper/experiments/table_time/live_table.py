"""table-time on a live table: the stream goes through a `HashTable` under each refresh policy.

The table has the whole database from the first batch on, as the paper's cost model assumes: the first batch is
ingested, all other rows are added without learning from them, and the rows of each later batch replace the stored ones.
So every rebuild re-encodes the whole database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from hashstream.evaluate import average_precision
from hashstream.evaluate.protocols import PreparedDataset
from hashstream.hashers import OnlineHasher
from hashstream.paper.contestants import Contestant
from hashstream.paper.experiments.table_time.model import rows_between_rebuilds
from hashstream.paper.experiments.table_time.protocol import BITS, NAME, encoding_seconds
from hashstream.paper.study import Measurement, Study
from hashstream.table import Commit, Eager, Every, Gated, HashTable, Lazy, Never, Policy, Projected

__all__ = ["FIGURES", "POLICIES", "Plan", "contestants", "measure", "metric", "plan", "plan_of", "run_policy"]

METHODS = ("FCOH", "HCOH", "MIHash")
"""The methods whose tables the paper discusses."""
ROWS, BATCHES, CHECKPOINTS = 100, 200, 5
"""The fewest rows of a batch, the most batches, and the number of checkpoints."""
QUERIES, AT_ONCE = 100, 50
"""The most queries per checkpoint, since a full ranking of a table with many versions takes 10 ms; and how many of
these rankings are held in memory at once."""


POLICIES: dict[str, Callable[[], Policy]] = {
    "Eager": Eager,
    "Every(7)": lambda: Every(7),
    "Gated": Gated,
    "Lazy": Lazy,
    "Projected(7)": lambda: Projected(7),
    "Never": Never,
}
"""By their names in results. Seven divides no checkpoint, so that none is always right after a refresh."""

FIGURES = ("seconds", "learn_seconds", "rebuild_seconds", "recode_seconds", "recoded_rows", "items")
"""Measured for each policy in addition to the answers: seconds in `ingest`; to learn the same batches without a table;
to encode the database once; to re-encode, also in the background; re-encoded items; items in the table."""


def metric(figure: str, policy: str) -> str:
    """The name of a figure in results.

    >>> metric("recoded_rows", "Every(7)")
    'policy_recoded_rows[Every(7)]'
    """
    return f"policy_{figure}[{policy}]"


@dataclass(frozen=True)
class Plan:
    """A stream of `stream` rows, fed `rows` at a time."""

    stream: int
    rows: int

    @property
    def batches(self) -> int:
        return -(-self.stream // self.rows)

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Numbers of rows after which queries are asked; the last is the end of the stream.

        >>> Plan(20_000, 100).checkpoints, Plan(250, 100).checkpoints
        ((4000, 8000, 12000, 16000, 20000), (100, 200, 250))
        """
        ends = {-(-self.batches * i // CHECKPOINTS) for i in range(1, CHECKPOINTS + 1)}
        return tuple(min(end * self.rows, self.stream) for end in sorted(ends))

    def parts(self) -> Iterator[slice]:
        for start in range(0, self.stream, self.rows):
            yield slice(start, min(start + self.rows, self.stream))


def plan(stream: int, rows: int | None) -> Plan:
    """Batches of the method's own size, `rows`, but not so small that rebuilding after each of them takes too long.

    >>> plan(20_000, 1).rows, plan(100_000, 1_000).rows, plan(100_000, None).rows
    (100, 1000, 500)
    """
    return Plan(stream, max(rows or 1, ROWS, -(-stream // BATCHES)))


def contestants(study: Study) -> list[Contestant]:
    return [one for one in study.contestants if one.name in METHODS and one.method not in study.methods]


def plan_of(study: Study, one: Contestant) -> Plan:
    return plan(study.stream, rows_between_rebuilds(one.name, study.dataset))


def measure(study: Study) -> None:
    """Run every policy for every method and run, one after the other."""
    measurements = [
        Measurement(
            one.job(BITS, run),
            study.stream,
            tuple(metric(figure, policy) for figure in (*FIGURES, study.headline)),
            partial(_run, study, one, policy, run),
        )
        for run in range(study.scale.runs)
        for one in contestants(study)
        for policy in POLICIES
    ]
    study.measure_all(NAME, "a live table: ", measurements)


def _run(
    study: Study, one: Contestant, policy: str, run: int, progress: Callable[[int], None]
) -> dict[int, dict[str, float]]:
    found = run_policy(
        partial(one.method, n_bits=BITS, random_state=run),
        policy,
        study.data,
        run,
        plan_of(study, one),
        measure=study.headline,
        progress=progress,
    )
    return {n: {metric(name, policy): v for name, v in figures.items()} for n, figures in found.items()}


def run_policy(
    make: Callable[[], OnlineHasher],
    policy: str,
    data: PreparedDataset,
    seed: int,
    plan: Plan,
    *,
    measure: str = "mAP",
    progress: Callable[[int], None] | None = None,
) -> dict[int, dict[str, float]]:
    """Stream a fresh hasher through a table in memory; returns the figures by the number of rows.

    policy: a key of POLICIES. measure: "mAP", or "mAP@N" for some N.
    """
    split = data.split(seed)
    database, queries = data.X[split.retrieval], some_queries(split.queries, data.y)
    learn_seconds = _learn(make(), data, split.stream, plan)

    found: dict[int, dict[str, float]] = {}
    rule, spent, rebuilds = POLICIES[policy](), 0.0, []
    limit = plan.batches + 1  # so many versions that only the policy re-encodes
    commits: list[Commit] = []
    with HashTable.open(None, make(), policy=rule, max_versions=limit, on_commit=commits.append) as table:
        for part in plan.parts():
            rows = split.stream[part]
            X, y = data.X[rows], data.y[rows]
            clock = time.perf_counter()
            table.ingest(rows, X, y)
            spent += time.perf_counter() - clock
            if part.start == 0:
                rest = split.retrieval[~np.isin(split.retrieval, rows)]
                table.add(rest, data.X[rest])
            if progress is not None:
                progress(len(rows))
            if part.stop in plan.checkpoints:
                with table.paused():
                    found[part.stop] = {measure: answers(table, data, queries, measure)}
                    seconds, items = sum(c.recode_seconds for c in commits), sum(c.recoded for c in commits)
                    # at every checkpoint, since the speed of the machine varies
                    rebuilds += [encoding_seconds(table.hasher, database) for _ in range(2)]
        figures = (spent, learn_seconds, median(rebuilds), seconds, items, len(table))
        found[plan.stream] |= dict(zip(FIGURES, map(float, figures), strict=True))
    return found


def _learn(hasher: OnlineHasher, data: PreparedDataset, stream: np.ndarray, plan: Plan) -> float:
    """Seconds to learn the same batches without a table."""
    spent = 0.0
    for part in plan.parts():
        X, y = data.X[stream[part]], data.y[stream[part]]
        clock = time.perf_counter()
        hasher.partial_fit(X, y)
        spent += time.perf_counter() - clock
    return spent


def some_queries(queries: np.ndarray, y: np.ndarray) -> np.ndarray:
    """At most QUERIES of the queries (rows of y), equally many of each class, give or take one."""
    of_class = queries[np.argsort(y[queries], kind="stable")]
    some = np.linspace(0, len(queries), min(QUERIES, len(queries)), endpoint=False).astype(np.int64)
    return np.asarray(of_class[some])


def answers(table: HashTable, data: PreparedDataset, queries: np.ndarray, measure: str) -> float:
    """mAP of the table's answers, whose ids are rows of the data; for "mAP@N", of the first N answers."""
    _, _, cut = measure.partition("@")
    k, scores = int(cut) if cut else len(table), []
    for start in range(0, len(queries), AT_ONCE):
        some = queries[start : start + AT_ONCE]
        _, ids = table.search(data.X[some], k, compare="like")  # the cost model compares codes of one version
        scores.append(average_precision(data.y[ids] == data.y[some, None]))
    return float(np.nanmean(np.concatenate(scores)))
