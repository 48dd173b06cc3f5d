"""Figures of accuracy: who is drawn with whom, curves as far as they were measured, and the areas under them."""

from __future__ import annotations

from collections.abc import Mapping

from hashstream import pictures
from hashstream.evaluate import auc
from hashstream.paper.accuracy import groups
from hashstream.paper.beside import survivors
from hashstream.paper.lineup import Contestant
from hashstream.paper.study import Figures, Study, Value

__all__ = ["Curve", "area", "areas", "panels"]

Curve = list[tuple[float, float]]


def area(study: Study, one: Contestant, bits: int, steps: Mapping[float, tuple[str, int]]) -> Value | None:
    """The area under a curve, over those runs that have all its points.

    steps: for each x of the curve the metric there, and after how many training instances.
    """
    found = {x: study.by_run(one.label, metric, bits=bits, n_train=n) for x, (metric, n) in steps.items()}
    whole = set.intersection(*(set(runs) for runs in found.values()))
    areas = tuple(auc([(x, runs[run]) for x, runs in found.items()]) for run in sorted(whole))
    ends = study.divergences(one.label, bits, max(n for _, n in steps.values()))
    return Value(areas, len(set(ends) - whole)) if areas else None


def _curve(study: Study, one: Contestant, bits: int, steps: Mapping[float, tuple[str, int]]) -> Curve:
    """Means over runs, as far as they were measured."""
    values = {x: study.values(one.label, metric, bits=bits, n_train=n) for x, (metric, n) in steps.items()}
    return [(x, value.mean) for x, value in values.items() if value]


def _with_references(study: Study) -> dict[str, list[Contestant]]:
    """Who is drawn together: the paper's methods, and the others, each beside our FCOH and the untrained projection."""
    paper, others = groups(study)
    untrained = [one for one in others if one.name == "LSH"]
    ours = [one for one in paper if one.label == "FCOH"]
    rest = [one for one in others if one.name != "LSH"]
    figures = {"paper": paper + untrained}
    return {**figures, "others": ours + rest + untrained} if rest else figures


WHO = {
    "paper": "the paper's methods; LSH is an untrained projection",
    "others": "methods that the paper's tables do not have, beside FCOH (auto)",
}


def panels(
    study: Study,
    name: str,
    steps: Mapping[float, tuple[str, int]],
    *,
    x: str,
    y: str,
    title: str,
    marks: Mapping[str, Mapping[str, Curve]] | None = None,
) -> tuple[Figures, dict[str, str]]:
    """Two figures with a panel for each code length, and their captions."""
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
            subtitle=_subtitle(study, which),
            marks=marks if which == "paper" else None,
            note=survivors(ends),
        )
        captions[file] = f"{title}: {WHO[which]}."
    return figures, captions


def _subtitle(study: Study, which: str) -> str:
    runs = "one run" if study.scale.runs == 1 else f"mean of {study.scale.runs} runs"
    return f"{study.dataset}, {runs}; {WHO[which]}"


def areas(
    study: Study, name: str, steps: Mapping[float, tuple[str, int]], metric: str
) -> tuple[Figures, dict[str, str]]:
    """One figure of two panels: the area for each code length, the paper's methods and the others."""
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
    title = f"{metric} for each code length"
    runs = "one run" if study.scale.runs == 1 else f"mean of {study.scale.runs} runs"
    figure = pictures.line_panels(
        panels,
        x="bits",
        y=metric,
        title=title,
        subtitle=f"{study.dataset}, {runs}",
        columns=2,
        in_turn=True,
        note=survivors(every.items()),
    )
    return {name: figure}, {name: f"{title}: the mean of the points of each curve."}
