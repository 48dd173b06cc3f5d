"""REPRODUCE: the paper's tables and figures, beside what is measured here."""

from __future__ import annotations

from hashstream.paper.study import FULL, QUICK, Experiment, Scale, Section, Sheet, Study, Value

__all__ = ["FULL", "QUICK", "Experiment", "Scale", "Section", "Sheet", "Study", "Value"]
