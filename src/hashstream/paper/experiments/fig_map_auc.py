"""fig-map-auc: the area under the curve of mAP along the stream, per code length."""

from __future__ import annotations

from hashstream.paper.accuracy import measure
from hashstream.paper.accuracy_plots import along_the_stream
from hashstream.paper.areas import area_section
from hashstream.paper.section import Experiment, Section
from hashstream.paper.study import Study

NAME = "fig-map-auc"


def show(study: Study) -> Section:
    first, last, n = study.checkpoints[0], study.checkpoints[-1], len(study.checkpoints)
    points = f"mean of {n} checkpoints, after {first:,} to {last:,} training instances"
    return area_section(
        study, NAME, f"AUC of {study.headline}", along_the_stream(study), points, rival="HCOH"
    )


EXPERIMENT = Experiment(NAME, "area under the curves of fig-map-instances, per code length", measure, show)
