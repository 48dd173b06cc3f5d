"""fig-map-instances: mAP along the stream, at each code length."""

from __future__ import annotations

from hashstream.paper import printed
from hashstream.paper.accuracy import (
    at_the_end,
    fcoh_forms,
    measure,
    no_finding,
    no_verdict,
    notes_on,
    paper_methods,
    printed_figure,
    unmeasured,
    value_sheet,
)
from hashstream.paper.accuracy_plots import Curve, along_the_stream, panels
from hashstream.paper.comparability import counterpart
from hashstream.paper.contestants import Contestant
from hashstream.paper.format import words
from hashstream.paper.section import Experiment, Section, Verdict
from hashstream.paper.study import Study

NAME = "fig-map-instances"
NAMED_BY_THE_PAPER = ("FCOH", "HCOH", "MIHash", "BSODH")
"""The methods whose first figures the paper's text gives."""


def show(study: Study) -> Section:
    metric, first = study.headline, study.checkpoints[0]
    marks = _printed_points(study)
    drawn = panels(
        study,
        NAME,
        along_the_stream(study),
        x="training instances",
        y=metric,
        title=f"{metric} along the stream",
        marks=marks,
    )
    if marks:
        drawn.captions[NAME] += " Crosses: the figures that the paper's text gives at 64 bits."
    early = value_sheet(
        study,
        f"{metric} after the first {first:,} training instances",
        study.contestants,
        lambda one, bits: study.values(one.label, metric, bits=bits, n_train=first),
        lambda one, bits: printed_figure(study, one, metric, bits, first),
        until=first,
    )
    claim = "FCOH is better than all others at every stage, and by a large margin at the first"
    if marks:
        claim += (
            ": at 64 bits after 2,000 instances its mAP is 0.689, MIHash's 0.323, HCOH's 0.329, BSODH's 0.270"
        )
    return Section(
        NAME,
        f"{metric} against training instances",
        f"{claim}.",
        _finding(study),
        (early,),
        drawn.figures,
        drawn.captions,
        notes_on(study, f"early {metric}"),
        *_verdict(study),
        points=drawn.points,
    )


def _printed_points(study: Study) -> dict[str, dict[str, Curve]]:
    """Panel -> method -> the points that the paper's text gives, where the data are comparable."""
    found: dict[str, dict[str, Curve]] = {}
    name, comparable, _ = counterpart(study.dataset)
    titles = {one.printed: one.title for one in study.contestants if one.printed}
    for (dataset, bits, n), values in printed.EARLY.items():
        if comparable and dataset == name and bits in study.scale.bits and n in study.checkpoints:
            found[f"{bits} bits"] = {titles[m]: [(n, v)] for m, v in values.items() if m in titles}
    return {panel: marks for panel, marks in found.items() if marks}


def _verdict(study: Study) -> tuple[Verdict, str]:
    """The claim is that FCOH is first at every checkpoint and code length. It holds in part where FCOH is first at most
    of them."""
    rivals = [one for one in paper_methods(study) if one.name != "FCOH"]
    lines, shares = [], []
    for form in fcoh_forms(study):
        first = [
            ours > max((_at(study, one, b, n) for one in rivals), default=-1.0)
            for b in study.scale.bits
            for n in study.checkpoints
            if (ours := _at(study, form, b, n)) >= 0
        ]
        if first:
            lines.append(f"{form.title} is first at {sum(first)} of {len(first)} stages and code lengths")
            shares.append(sum(first) / len(first))
    missing = unmeasured(study, at_the_end(study, study.headline))
    if not shares or len(missing) == 7:
        return "undecided", no_verdict(study)
    brief = "; ".join(lines) + (f" (no figures of {words(missing)})." if missing else ".")
    if missing:
        return "undecided", brief
    if shares[0] > 0.5:
        return ("holds" if shares[0] == 1 else "holds in part"), brief
    return ("only with our defaults" if max(shares) > 0.5 else "does not hold"), brief


def _finding(study: Study) -> str:
    """The figures at the first checkpoint: of FCOH, of the methods that the paper names, and without training."""
    metric, first = study.headline, study.checkpoints[0]
    bits = 64 if 64 in study.scale.bits else study.scale.bits[-1]
    shown = [one for one in paper_methods(study) if one.name in NAMED_BY_THE_PAPER]
    shown += [one for one in study.contestants if one.name == "LSH"]
    seen = {
        one.title: value
        for one in shown
        if (value := study.values(one.label, metric, bits=bits, n_train=first))
    }
    there = {one.title: at for one in paper_methods(study) if (at := _at(study, one, bits, first)) >= 0}
    if not seen or not there:
        return no_finding(study)
    figures = ", ".join(f"{title} {value.told}" for title, value in seen.items())
    untrained = " (LSH is not trained)" if "LSH" in seen else ""
    return (
        f"At {bits} bits after {first:,} instances: {figures}{untrained}. The best there of the paper's methods that "
        f"took part ({words(list(there))}) is {max(there, key=lambda title: there[title])}."
    )


def _at(study: Study, one: Contestant, bits: int, n_train: int) -> float:
    value = study.values(one.label, study.headline, bits=bits, n_train=n_train)
    return value.mean if value else -1.0


EXPERIMENT = Experiment(NAME, "mAP against training instances, at each code length", measure, show)
