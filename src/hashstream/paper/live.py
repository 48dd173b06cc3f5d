"""table-time, run instead of reckoned: the stream goes through a live table under each refresh policy.

The table has the whole database from the first batch on, as the paper's cost model assumes: the first batch is
ingested, all other rows are added without learning from them, and the rows of each later batch replace what was
stored of them. So every rebuild makes the codes of the whole database anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hashstream.evaluate import Job, JobProgress, average_precision
from hashstream.evaluate.protocols import PreparedDataset
from hashstream.hashers import DivergenceError, OnlineHasher
from hashstream.paper.lineup import Contestant
from hashstream.paper.study import Study
from hashstream.paper.timing import BITS, NAME, encoding_seconds
from hashstream.table import Eager, Every, Gated, HashTable, Lazy, Never, Policy, Projected

__all__ = [
    "FIGURES",
    "POLICIES",
    "Plan",
    "contestants",
    "measure",
    "metric",
    "plan",
    "run_policy",
]

METHODS = ("FCOH", "HCOH", "MIHash")
"""Those about whose tables the paper has something to say."""
ROWS, BATCHES, LOOKS = 100, 200, 5
"""Rows of a batch at least, batches at most, and how often the queries are asked."""
ASKED, AT_ONCE = 100, 50
"""Queries at each look at most, since a whole ranking of a table with many versions takes a hundredth of a second; and
how many of these rankings are held at a time."""


class OwnLazy(Lazy):
    """`Lazy` for one table, which takes this very object: so it can be told to rest while queries are asked."""

    def for_one_table(self) -> OwnLazy:
        return self


POLICIES: dict[str, Callable[[], Policy]] = {
    "Eager": Eager,
    "Every(7)": lambda: Every(7),
    "Gated": Gated,
    "Lazy": OwnLazy,
    "Projected(7)": lambda: Projected(7),
    "Never": Never,
}
"""By the names in results. Seven has no multiple in common with the looks, so none is always right after a refresh."""

FIGURES = ("seconds", "learn_seconds", "rebuild_seconds", "recode_seconds", "recoded_rows", "items")
"""What is measured of a policy beside the answers: seconds in `ingest`; of learning the same batches without a table;
of encoding the database once; of making codes anew, in the background too; how many codes were; items in the table."""


def metric(figure: str, policy: str) -> str:
    """A figure's name in results.

    >>> metric("recoded_rows", "Every(7)")
    'policy_recoded_rows[Every(7)]'
    """
    return f"policy_{figure}[{policy}]"


@dataclass(frozen=True)
class Plan:
    """How a stream of `stream` rows is fed: `rows` at a time."""

    stream: int
    rows: int

    @property
    def batches(self) -> int:
        return -(-self.stream // self.rows)

    @property
    def looks(self) -> tuple[int, ...]:
        """After how many rows queries are asked, at the end last.

        >>> Plan(20_000, 100).looks, Plan(250, 100).looks
        ((4000, 8000, 12000, 16000, 20000), (100, 200, 250))
        """
        ends = {-(-self.batches * i // LOOKS) for i in range(1, LOOKS + 1)}
        return tuple(min(end * self.rows, self.stream) for end in sorted(ends))

    def parts(self) -> Iterator[slice]:
        for start in range(0, self.stream, self.rows):
            yield slice(start, min(start + self.rows, self.stream))


def plan(stream: int, rows: int | None) -> Plan:
    """Batches of the method's own size, `rows`, but no smaller than is bearable where each one means a rebuild.

    >>> plan(20_000, 1).rows, plan(100_000, 1_000).rows, plan(100_000, None).rows
    (100, 1000, 500)
    """
    return Plan(stream, max(rows or 1, ROWS, -(-stream // BATCHES)))


def contestants(study: Study) -> list[Contestant]:
    return [one for one in study.contestants if one.name in METHODS and one.label not in study.also]


class CountingTable(HashTable):
    """A table that counts the codes that it makes anew, and the seconds that takes."""

    recoded = 0
    recode_seconds = 0.0

    def _recode(self, *arguments: Any, **more: Any) -> list[Any]:
        clock = time.perf_counter()
        made = super()._recode(*arguments, **more)
        self.recode_seconds += time.perf_counter() - clock
        return made

    def _commit(self, change: Any, *arguments: Any, **more: Any) -> None:
        super()._commit(change, *arguments, **more)
        self.recoded += sum(len(piece.slots) for piece in change.recoded)


def measure(study: Study, rows_of: Callable[[Contestant], int | None]) -> None:
    """Every policy for every method and run that the results do not have, one after the other.

    rows_of: rows between two rebuilds of a method by the paper's model, None where it does not say.
    """
    stream = study.field.setting.stream
    missing = [
        (run, one, policy)
        for run in range(study.scale.runs)
        for one in contestants(study)
        for policy in POLICIES
        if not _there(study, one, policy, run)
    ]
    if not missing:
        return
    with study.watching("a live table: ", len(missing), stream * len(missing)) as watch:
        tell = watch or (lambda news: None)
        for run, one, policy in missing:
            job, told = Job(one.label, one.method, BITS, run), 0

            def count(rows: int, job: Job = job) -> None:
                nonlocal told
                told += rows
                tell(JobProgress(job, rows=rows))

            course = plan(stream, rows_of(one))
            try:
                with threadpool_limits(1):  # as all that is measured here
                    found = run_policy(
                        partial(one.method, n_bits=BITS, random_state=run),
                        policy, study.field, run, course, measure=study.headline, progress=count,
                    )  # fmt: skip
            except DivergenceError:  # as without a table, of which the results tell
                found = {}
            for n, figures in found.items():
                study.add(NAME, one.label, BITS, run, n, **{metric(f, policy): v for f, v in figures.items()})
            tell(JobProgress(job, rows=stream - told, done=True))


def _there(study: Study, one: Contestant, policy: str, run: int) -> bool:
    """Whether there is nothing left to measure: all figures are there, or the method does not get to the end."""
    columns = {"dataset": study.dataset, "protocol": NAME, "method": one.label, "bits": BITS, "run": run}
    if study.results.diverged(**columns) is not None:
        return True
    wanted = [metric(figure, policy) for figure in (*FIGURES, study.headline)]
    return study.results.has(wanted, **columns, n_train=study.field.setting.stream)


def run_policy(
    make: Callable[[], OnlineHasher],
    policy: str,
    field: PreparedDataset,
    seed: int,
    course: Plan,
    *,
    measure: str = "mAP",
    progress: Callable[[int], None] | None = None,
) -> dict[int, dict[str, float]]:
    """Stream a fresh hasher through a table in memory, and say after how many rows what was found.

    policy: its name in POLICIES. measure: "mAP", or "mAP@N" for some N.
    """
    split = field.split(seed)
    database, queries = field.X[split.retrieval], asked(split.queries, field.y)
    learn_seconds = _learn(make(), field, split.stream, course)

    found: dict[int, dict[str, float]] = {}
    rule, spent, rebuilds = POLICIES[policy](), 0.0, []
    limit = course.batches + 1  # versions: so many that only the policy counts
    with CountingTable.open(None, make(), policy=rule, max_versions=limit) as table:
        assert isinstance(table, CountingTable)
        for part in course.parts():
            rows = split.stream[part]
            X, y = field.X[rows], field.y[rows]
            clock = time.perf_counter()
            table.ingest(rows, X, y)
            spent += time.perf_counter() - clock
            if part.start == 0:
                rest = split.retrieval[~np.isin(split.retrieval, rows)]
                table.add(rest, field.X[rest])
            if progress is not None:
                progress(len(rows))
            if part.stop in course.looks:
                rule.closing()  # what is done in the background rests meanwhile
                found[part.stop] = {measure: answers(table, field, queries, measure)}
                # again and again: the machine is not always equally fast
                rebuilds += [encoding_seconds(table.hasher, database) for _ in range(2)]
                if part.stop < course.stream:
                    rule.opened(table)
        figures = (spent, learn_seconds, median(rebuilds), table.recode_seconds, table.recoded, len(table))
        found[course.stream] |= dict(zip(FIGURES, map(float, figures), strict=True))
    return found


def _learn(hasher: OnlineHasher, field: PreparedDataset, stream: np.ndarray, course: Plan) -> float:
    """Seconds to learn the same batches, with nothing else to do."""
    spent = 0.0
    for part in course.parts():
        X, y = field.X[stream[part]], field.y[stream[part]]
        clock = time.perf_counter()
        hasher.partial_fit(X, y)
        spent += time.perf_counter() - clock
    return spent


def asked(queries: np.ndarray, y: np.ndarray) -> np.ndarray:
    """At most ASKED of the queries (rows of y), of each class as many as of any other, give or take one."""
    of_class = queries[np.argsort(y[queries], kind="stable")]
    some = np.linspace(0, len(queries), min(ASKED, len(queries)), endpoint=False).astype(np.int64)
    return np.asarray(of_class[some])


def answers(table: HashTable, field: PreparedDataset, queries: np.ndarray, measure: str) -> float:
    """mAP of the table's own answers; ids are rows of the field. For "mAP@N", over the first N of them."""
    _, _, cut = measure.partition("@")
    k, scores = int(cut) if cut else len(table), []
    for start in range(0, len(queries), AT_ONCE):
        some = queries[start : start + AT_ONCE]
        _, ids = table.search(field.X[some], k)
        scores.append(average_precision(field.y[ids] == field.y[some, None]))
    return float(np.nanmean(np.concatenate(scores)))
