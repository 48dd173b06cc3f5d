"""JUDGE: metrics of retrieval, protocols, results."""

from hashstream.evaluate.curves import auc
from hashstream.evaluate.health import CodeStatistics, code_statistics
from hashstream.evaluate.scores import Scores, retrieval, row_name

__all__ = ["CodeStatistics", "Scores", "auc", "code_statistics", "retrieval", "row_name"]
