"""JUDGE: metrics of retrieval, protocols, results."""

from hashstream.evaluate import protocols
from hashstream.evaluate.bench import Job, News, WorkerError, jobs, measure, pending, run
from hashstream.evaluate.curves import auc
from hashstream.evaluate.health import CodeStatistics, code_statistics
from hashstream.evaluate.protocols import Field
from hashstream.evaluate.results import COLUMNS, Results, Summary, in_hindsight, summarise
from hashstream.evaluate.scores import Scores, retrieval, row_name
from hashstream.evaluate.tuning import Trial, tune

__all__ = [
    "COLUMNS",
    "CodeStatistics",
    "Field",
    "Job",
    "News",
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
