"""REPRODUCE: the paper's tables and figures, compared with what is measured here.

from hashstream import paper
paper.run("table-map", dataset="digits", out="paper-digits")
"""

from __future__ import annotations

from hashstream.paper.experiments import EXPERIMENTS
from hashstream.paper.runner import Outcome, run
from hashstream.paper.section import Experiment, Section, Sheet
from hashstream.paper.study import FULL, QUICK, Scale, Study, Value

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "QUICK",
    "Experiment",
    "Outcome",
    "Scale",
    "Section",
    "Sheet",
    "Study",
    "Value",
    "run",
]
