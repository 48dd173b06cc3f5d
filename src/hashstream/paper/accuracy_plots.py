"""Figures of accuracy: curves along the stream or along the ranking, and the areas under them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any

from hashstream import pictures
from hashstream.evaluate import auc
from hashstream.evaluate.protocols.paper import K
from hashstream.paper.accuracy import other_methods, paper_methods
from hashstream.paper.contestants import Contestant
from hashstream.paper.format import survivors
from hashstream.paper.section import Drawn
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


def _curve(study: Study, one: Contestant, bits: int, steps: Steps) -> dict[float, Value]:
    """Figures over runs by x; points without one are left out."""
    values = {x: study.values(one.label, metric, bits=bits, n_train=n) for x, (metric, n) in steps.items()}
    return {x: value for x, value in values.items() if value}


def _means(values: Mapping[Any, Value]) -> Curve:
    return [(x, value.mean) for x, value in values.items()]


def _spreads(values: Mapping[Any, Value]) -> Curve:
    return [(x, value.spread) for x, value in values.items() if value.spread > 0]


def _numbers(one: str, x: str, y: str, values: Mapping[Any, Value], **more: Any) -> list[dict[str, Any]]:
    """The points of a curve as rows of a CSV file."""
    return [
        {
            "method": one,
            **more,
            x: place,
            y: value.mean,
            "sd": "" if isnan(value.spread) else value.spread,
            "runs": len(value.runs),
        }
        for place, value in values.items()
    ]


def _with_references(study: Study) -> dict[str, list[Contestant]]:
    """The methods of each figure: the paper's, and the others with FCOH (auto); both with the untrained projection.
    Methods that were asked for one by one are all in one figure."""
    if study.listed:
        return {"listed": study.contestants}
    paper, others = paper_methods(study), other_methods(study)
    untrained = [one for one in others if one.name == "LSH"]
    ours = [one for one in paper if one.label == "FCOH"]
    rest = [one for one in others if one.name != "LSH"]
    figures = {"paper": paper + untrained}
    return {**figures, "others": ours + rest + untrained} if rest else figures


WHO = {
    "listed": "",
    "paper": "the paper's methods; LSH is an untrained projection",
    "others": "methods that are not in the paper's tables, with FCOH (auto)",
}


AREAS = {"listed": "", "paper": "the paper's methods", "others": "other methods"}
"""Titles of panels."""


def panels(
    study: Study,
    name: str,
    steps: Steps,
    *,
    x: str,
    y: str,
    title: str,
    marks: Mapping[str, Mapping[str, Curve]] | None = None,
) -> Drawn:
    """Two figures with one panel per code length; one, with a legend, where methods were asked for one by one."""
    drawn = Drawn()
    for which, contestants in _with_references(study).items():
        found, bands, ends, rows = {}, {}, [], []
        for bits in study.scale.bits:
            curves = {one.title: curve for one in contestants if (curve := _curve(study, one, bits, steps))}
            found[f"{bits} bits"] = {line: _means(values) for line, values in curves.items()}
            bands[f"{bits} bits"] = {line: _spreads(values) for line, values in curves.items()}
            rows += [
                row for line, values in curves.items() for row in _numbers(line, x, y, values, bits=bits)
            ]
            metric, n = list(steps.values())[-1]
            ends += [
                (f"{one.title}, {bits} bits", study.values(one.label, metric, bits=bits, n_train=n))
                for one in contestants
            ]
        if not any(found.values()):
            continue
        file = f"{name}-others" if which == "others" else name
        drawn.figures[file] = pictures.line_panels(
            found,
            x=x,
            y=y,
            title=title,
            subtitle="; ".join(filter(None, (_subtitle(study), WHO[which]))),
            legend=study.listed,
            marks=None if which == "others" else marks,
            bands=bands if study.listed else None,
            note=survivors(ends),
        )
        drawn.captions[file] = ": ".join(filter(None, (title, WHO[which]))) + "."
        drawn.points[file] = rows
    return drawn


def _subtitle(study: Study) -> str:
    runs = "one run" if study.scale.runs == 1 else f"mean of {study.scale.runs} runs"
    return f"{study.dataset}, {runs}"


def areas(study: Study, name: str, steps: Steps, metric: str) -> Drawn:
    """One figure of two panels, the paper's methods and the others: areas against code lengths."""
    panels, bands, every, rows = {}, {}, {}, []
    for which, contestants in _with_references(study).items():
        found = {
            one.title: {b: v for b in study.scale.bits if (v := area(study, one, b, steps))}
            for one in contestants
        }
        every.update({f"{title}, {b} bits": v for title, values in found.items() for b, v in values.items()})
        title = AREAS[which]
        panels[title] = {line: _means(values) for line, values in found.items() if values}
        bands[title] = {line: _spreads(values) for line, values in found.items() if values}
        rows += [row for line, values in found.items() for row in _numbers(line, "bits", metric, values)]
    panels = {title: lines for title, lines in panels.items() if lines}
    if not panels:
        return Drawn()
    title = f"{metric} per code length"
    figure = pictures.line_panels(
        panels,
        x="bits",
        y=metric,
        title=title,
        subtitle=_subtitle(study),
        columns=2,
        in_turn=True,
        legend=study.listed,
        bands=bands if study.listed else None,
        note=survivors(every.items()),
    )
    unique = list({tuple(row.items()): row for row in rows}.values())  # a method may be in both panels
    return Drawn({name: figure}, {name: f"{title}: the mean of the points of each curve."}, {name: unique})
