"""fig-precision-auc: the area under the curve of precision@K, per code length."""

from __future__ import annotations

from hashstream.evaluate.protocols.paper import K
from hashstream.paper.accuracy import measure
from hashstream.paper.accuracy_plots import along_the_ranking
from hashstream.paper.areas import area_section
from hashstream.paper.section import Experiment, Section
from hashstream.paper.study import Study

NAME = "fig-precision-auc"


def show(study: Study) -> Section:
    points = f"K = {K[0]} to {K[-1]}, after {study.stream:,} training instances"
    return area_section(study, NAME, "AUC of precision@K", along_the_ranking(study), points, rival="MIHash")


EXPERIMENT = Experiment(NAME, "area under the curves of fig-precision-k, per code length", measure, show)
