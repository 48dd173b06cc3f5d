"""Figures of accuracy: curves along the stream or along the ranking, and the areas under them."""

from __future__ import annotations

from collections.abc import Mapping

from hashstream import pictures
from hashstream.evaluate import auc
from hashstream.evaluate.protocols.paper import K
from hashstream.paper.accuracy import other_methods, paper_methods
from hashstream.paper.contestants import Contestant
from hashstream.paper.format import survivors
from hashstream.paper.section import Figures
from hashstream.paper.study import Study, Value

__all__ = ["Curve", "Steps", "along_the_ranking", "along_the_stream", "area", "areas", "panels"]

Curve = list[tuple[float, float]]
Steps = Mapping[float, tuple[str, int]]
"""The points of a curve: x -> (metric, number of training instances)."""


def along_the_stream(study: Study) -> Steps:
    return {n: (study.headline, n) for n in study.checkpoints}


def along_the_ranking(study: Study) -> Steps:
    return {k: (f"precision@{k}", study.stream) for k in K}


def area(study: Study, one: Contestant, bits: int, steps: Steps) -> Value | None:
    """The area under a curve, over the runs that have all its points."""
    found = {x: study.by_run(one.label, metric, bits=bits, n_train=n) for x, (metric, n) in steps.items()}
    whole = set.intersection(*(set(runs) for runs in found.values()))
    areas = tuple(auc([(x, runs[run]) for x, runs in found.items()]) for run in sorted(whole))
    ends = study.divergences(one.label, bits, max(n for _, n in steps.values()))
    return Value(areas, len(set(ends) - whole)) if areas else None


def _curve(study: Study, one: Contestant, bits: int, steps: Steps) -> Curve:
    """Means over runs; points without a figure are left out."""
    values = {x: study.values(one.label, metric, bits=bits, n_train=n) for x, (metric, n) in steps.items()}
    return [(x, value.mean) for x, value in values.items() if value]


def _with_references(study: Study) -> dict[str, list[Contestant]]:
    """The methods of each figure: the paper's, and the others with FCOH (auto); both with the untrained projection."""
    paper, others = paper_methods(study), other_methods(study)
    untrained = [one for one in others if one.name == "LSH"]
    ours = [one for one in paper if one.label == "FCOH"]
    rest = [one for one in others if one.name != "LSH"]
    figures = {"paper": paper + untrained}
    return {**figures, "others": ours + rest + untrained} if rest else figures


WHO = {
    "paper": "the paper's methods; LSH is an untrained projection",
    "others": "methods that are not in the paper's tables, with FCOH (auto)",
}


def panels(
    study: Study,
    name: str,
    steps: Steps,
    *,
    x: str,
    y: str,
    title: str,
    marks: Mapping[str, Mapping[str, Curve]] | None = None,
) -> tuple[Figures, dict[str, str]]:
    """Two figures with one panel per code length, and their captions."""
    figures: Figures = {}
    captions = {}
    for which, contestants in _with_references(study).items():
        found, ends = {}, []
        for bits in study.scale.bits:
            lines = {one.title: _curve(study, one, bits, steps) for one in contestants}
            found[f"{bits} bits"] = {line: points for line, points in lines.items() if points}
            metric, n = list(steps.values())[-1]
            ends += [
                (f"{one.title}, {bits} bits", study.values(one.label, metric, bits=bits, n_train=n))
                for one in contestants
            ]
        if not any(found.values()):
            continue
        file = name if which == "paper" else f"{name}-{which}"
        figures[file] = pictures.line_panels(
            found,
            x=x,
            y=y,
            title=title,
            subtitle=f"{_subtitle(study)}; {WHO[which]}",
            marks=marks if which == "paper" else None,
            note=survivors(ends),
        )
        captions[file] = f"{title}: {WHO[which]}."
    return figures, captions


def _subtitle(study: Study) -> str:
    runs = "one run" if study.scale.runs == 1 else f"mean of {study.scale.runs} runs"
    return f"{study.dataset}, {runs}"


def areas(study: Study, name: str, steps: Steps, metric: str) -> tuple[Figures, dict[str, str]]:
    """One figure of two panels, the paper's methods and the others: areas against code lengths."""
    panels, every = {}, {}
    for which, contestants in _with_references(study).items():
        found = {
            one.title: {b: v for b in study.scale.bits if (v := area(study, one, b, steps))}
            for one in contestants
        }
        lines = {title: [(b, v.mean) for b, v in values.items()] for title, values in found.items()}
        every.update({f"{title}, {b} bits": v for title, values in found.items() for b, v in values.items()})
        title = "the paper's methods" if which == "paper" else "other methods"
        panels[title] = {line: points for line, points in lines.items() if points}
    panels = {title: lines for title, lines in panels.items() if lines}
    if not panels:
        return {}, {}
    title = f"{metric} per code length"
    figure = pictures.line_panels(
        panels,
        x="bits",
        y=metric,
        title=title,
        subtitle=_subtitle(study),
        columns=2,
        in_turn=True,
        note=survivors(every.items()),
    )
    return {name: figure}, {name: f"{title}: the mean of the points of each curve."}
