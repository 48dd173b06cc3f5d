"""JUDGE: retrieval metrics, protocols, results."""

from hashstream.evaluate import protocols
from hashstream.evaluate.auc import auc
from hashstream.evaluate.bench import (
    Job,
    WorkerError,
    check_sources,
    jobs,
    measure,
    pending,
    run,
    unfinished,
)
from hashstream.evaluate.code_statistics import CodeStatistics, code_statistics
from hashstream.evaluate.comparison import Comparison, compare
from hashstream.evaluate.progress import JobProgress, watch_jobs
from hashstream.evaluate.protocols import PreparedDataset
from hashstream.evaluate.results import COLUMNS, Results, Summary, summarise, summarise_runs
from hashstream.evaluate.scores import Scores, Ties, average_precision, retrieval, row_name
from hashstream.evaluate.sheet import Sheet, write_rows
from hashstream.evaluate.tuning import Trial, tune
from hashstream.evaluate.workers import worker_count

__all__ = [
    "COLUMNS",
    "CodeStatistics",
    "Comparison",
    "Job",
    "JobProgress",
    "PreparedDataset",
    "Results",
    "Scores",
    "Sheet",
    "Summary",
    "Ties",
    "Trial",
    "WorkerError",
    "auc",
    "average_precision",
    "check_sources",
    "code_statistics",
    "compare",
    "jobs",
    "measure",
    "pending",
    "protocols",
    "retrieval",
    "row_name",
    "run",
    "summarise",
    "summarise_runs",
    "tune",
    "unfinished",
    "watch_jobs",
    "worker_count",
    "write_rows",
]
