"""JUDGE: metrics of retrieval, protocols, results."""

from hashstream.evaluate import protocols
from hashstream.evaluate.auc import auc
from hashstream.evaluate.bench import Job, News, WorkerError, jobs, measure, pending, run
from hashstream.evaluate.code_statistics import CodeStatistics, code_statistics
from hashstream.evaluate.protocols import PreparedDataset
from hashstream.evaluate.results import COLUMNS, Results, Summary, in_hindsight, summarise
from hashstream.evaluate.scores import Scores, retrieval, row_name
from hashstream.evaluate.tuning import Trial, tune

__all__ = [
    "COLUMNS",
    "CodeStatistics",
    "Job",
    "News",
    "PreparedDataset",
    "Results",
    "Scores",
    "Summary",
    "Trial",
    "WorkerError",
    "auc",
    "code_statistics",
    "in_hindsight",
    "jobs",
    "measure",
    "pending",
    "protocols",
    "retrieval",
    "row_name",
    "run",
    "summarise",
    "tune",
]
