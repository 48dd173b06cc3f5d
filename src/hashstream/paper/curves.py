"""The paper's figures of accuracy: along the stream, along the ranking, and the areas under both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean

from hashstream import pictures
from hashstream.evaluate import auc
from hashstream.evaluate.protocols.paper import K
from hashstream.paper import notes, printed
from hashstream.paper.accuracy import groups, margin_sheet, measure, theirs, value_sheet
from hashstream.paper.beside import NAMES, counterpart, on_the_data
from hashstream.paper.lineup import COMPARABLE, Contestant
from hashstream.paper.study import Experiment, Figures, Section, Sheet, Study, Value

__all__ = ["MAP_AUC", "MAP_INSTANCES", "PRECISION_AUC", "PRECISION_K", "area"]

Curve = list[tuple[float, float]]
AMONG = ("FCOH", "HCOH", "MIHash", "BSODH")  # of which the paper's text speaks


def area(study: Study, one: Contestant, bits: int, steps: Mapping[float, tuple[str, int]]) -> Value | None:
    """The area under a curve, over those runs that have all its points.

    steps: for each x of the curve the metric there, and after how many training instances.
    """
    found = {x: study.by_run(one.label, metric, bits=bits, n_train=n) for x, (metric, n) in steps.items()}
    whole = set.intersection(*(set(runs) for runs in found.values()))
    areas = tuple(auc([(x, runs[run]) for x, runs in found.items()]) for run in sorted(whole))
    return Value(areas) if areas else None


def _along_the_stream(study: Study) -> dict[float, tuple[str, int]]:
    return {n: (study.headline, n) for n in study.points}


def _along_the_ranking(study: Study) -> dict[float, tuple[str, int]]:
    return {k: (f"precision@{k}", study.field.setting.stream) for k in K}


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


def _panels(
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
        panels = {}
        for bits in study.scale.bits:
            lines = {one.title: _curve(study, one, bits, steps) for one in contestants}
            panels[f"{bits} bits"] = {line: points for line, points in lines.items() if points}
        if not any(panels.values()):
            continue
        file = name if which == "paper" else f"{name}-{which}"
        figures[file] = pictures.line_panels(
            panels,
            x=x,
            y=y,
            title=title,
            subtitle=_subtitle(study, which),
            marks=marks if which == "paper" else None,
        )
        captions[file] = f"{title}: {WHO[which]}."
    return figures, captions


def _subtitle(study: Study, which: str) -> str:
    runs = "one run" if study.scale.runs == 1 else f"mean of {study.scale.runs} runs"
    return f"{study.dataset}, {runs}; {WHO[which]}"


def _areas(
    study: Study, name: str, steps: Mapping[float, tuple[str, int]], metric: str
) -> tuple[Figures, dict[str, str]]:
    """One figure of two panels: the area for each code length, the paper's methods and the others."""
    panels = {}
    for which, contestants in _with_references(study).items():
        lines = {
            one.title: [(b, v.mean) for b in study.scale.bits if (v := area(study, one, b, steps))]
            for one in contestants
        }
        title = "the paper's methods" if which == "paper" else "other methods"
        panels[title] = {line: points for line, points in lines.items() if points}
    panels = {title: lines for title, lines in panels.items() if lines}
    if not panels:
        return {}, {}
    title = f"{metric} for each code length"
    runs = "one run" if study.scale.runs == 1 else f"mean of {study.scale.runs} runs"
    figure = pictures.line_panels(
        panels, x="bits", y=metric, title=title, subtitle=f"{study.dataset}, {runs}", columns=2, in_turn=True
    )
    return {name: figure}, {name: f"{title}: the mean of the points of each curve."}


def _notes(study: Study, *metrics: str) -> tuple[str, ...]:
    names = {one.name for one in study.contestants}
    return (*on_the_data(study.dataset), *notes.matching(study.dataset, names, metrics))


def _show_instances(study: Study) -> Section:
    metric, first = study.headline, study.points[0]
    marks: dict[str, dict[str, Curve]] = {}
    for (dataset, bits, n), values in printed.EARLY.items():
        if dataset == COMPARABLE.get(study.dataset) and bits in study.scale.bits and n in study.points:
            titles = {one.printed: one.title for one in study.contestants if one.printed}
            marks[f"{bits} bits"] = {titles[m]: [(n, v)] for m, v in values.items() if m in titles}
    figures, captions = _panels(
        study,
        "fig-map-instances",
        _along_the_stream(study),
        x="training instances",
        y=metric,
        title=f"{metric} along the stream",
        marks=marks,
    )
    if marks:
        captions["fig-map-instances"] += " Crosses: the figures that the paper's text gives at 64 bits."
    early = value_sheet(
        study,
        f"{metric} after the first {first:,} training instances",
        study.contestants,
        lambda one, bits: study.values(one.label, metric, bits=bits, n_train=first),
        lambda one, bits: theirs(study, one, metric, bits, first),
    )
    claim = "FCOH is better than all others at every stage, and by a large margin at the first"
    if marks:
        claim += (
            ": at 64 bits after 2,000 instances its mAP is 0.689, MIHash's 0.323, HCOH's 0.329, BSODH's 0.270"
        )
    return Section(
        "fig-map-instances",
        f"{metric} against training instances",
        f"{claim}.",
        _early_finding(study),
        (early,),
        figures,
        captions,
        _notes(study, f"early {metric}"),
    )


def _early_finding(study: Study) -> str:
    """What FCOH and the three methods that the paper names have at the first look, and where nothing was learned."""
    metric, first = study.headline, study.points[0]
    bits = 64 if 64 in study.scale.bits else study.scale.bits[-1]
    shown = [one for one in groups(study)[0] if one.name in AMONG] + [
        one for one in study.contestants if one.name == "LSH"
    ]
    seen = {
        one.title: value.mean
        for one in shown
        if (value := study.values(one.label, metric, bits=bits, n_train=first))
    }
    if not seen:
        return "Nothing is measured yet."
    figures = ", ".join(f"{title} {value:.3f}" for title, value in seen.items())
    best = max(groups(study)[0], key=lambda one: _at(study, one, bits, first))
    untrained = " (LSH is not trained)" if "LSH" in seen else ""
    return (
        f"At {bits} bits after {first:,} instances: {figures}{untrained}. The best of the paper's methods there is "
        f"{best.title}."
    )


def _at(study: Study, one: Contestant, bits: int, n_train: int) -> float:
    value = study.values(one.label, study.headline, bits=bits, n_train=n_train)
    return value.mean if value else -1.0


def _show_areas(
    study: Study, name: str, title: str, metric: str, steps: Mapping[float, tuple[str, int]], rival: str
) -> Section:
    paper, _ = counterpart(study.dataset)

    def value(one: Contestant, bits: int) -> Value | None:
        return area(study, one, bits, steps)

    sheets: list[Sheet] = [
        value_sheet(study, f"{metric}, {_points(study, metric)}", study.contestants, value)
    ]
    margin = margin_sheet(study, metric, value, metric, rival)
    claims = [
        f"{printed.CLAIMED[data, kind][0]} % ({NAMES[data]})"
        for data in NAMES
        for kind in (metric, metric.replace("mAP", "mAP@1000"), metric.replace("mAP@1000", "mAP"))
        if (data, kind) in printed.CLAIMED and (not paper or data == paper)
    ]
    figures, captions = _areas(study, name, steps, metric)
    return Section(
        name,
        title,
        f"FCOH's {metric} lies on average {', '.join(dict.fromkeys(claims))} above that of {rival}, the second best.",
        _area_finding(study, value, metric),
        (*sheets, *([margin] if margin else [])),
        figures,
        captions,
        _notes(study, metric),
    )


def _points(study: Study, metric: str) -> str:
    if "@K" in metric:
        return f"K = {K[0]} to {K[-1]}, after {study.field.setting.stream:,} training instances"
    first, last = study.points[0], study.points[-1]
    return f"mean of {len(study.points)} looks, after {first:,} to {last:,} training instances"


def _area_finding(study: Study, value: Callable[[Contestant, int], Value | None], metric: str) -> str:
    """The five largest areas of the paper's methods, as means over the code lengths."""
    means = {}
    for one in groups(study)[0]:
        found = [area.mean for bits in study.scale.bits if (area := value(one, bits))]
        if len(found) == len(study.scale.bits):
            means[one.title] = mean(found)
    if not means:
        return "Nothing is measured yet."
    ranked = sorted(means, key=lambda title: -means[title])
    order = ", ".join(f"{title} {means[title]:.3f}" for title in ranked[:5])
    return f"{metric}, mean over the code lengths, of the paper's methods: {order}."


def _show_precision(study: Study) -> Section:
    figures, captions = _panels(
        study,
        "fig-precision-k",
        _along_the_ranking(study),
        x="K",
        y="precision@K",
        title="Precision of the first K answers",
    )
    sheets = []
    for k in (10, 100):
        sheets.append(
            value_sheet(
                study,
                f"precision@{k}, after {study.field.setting.stream:,} training instances",
                study.contestants,
                lambda one, bits, k=k: study.values(one.label, f"precision@{k}", bits=bits),  # type: ignore[misc]
            )
        )
    return Section(
        "fig-precision-k",
        "Precision@K",
        "FCOH has the best precision@K on CIFAR-10 and Places205, most visibly from 48 bits on; on MNIST, where "
        "from 32 bits on all good methods are near 90 %, it is competitive.",
        _precision_finding(study),
        tuple(sheets),
        figures,
        captions,
        _notes(study, "precision@K"),
    )


def _precision_finding(study: Study) -> str:
    sentences = []
    for bits in study.scale.bits:
        found = {
            one.title: value.mean
            for one in groups(study)[0]
            if (value := study.values(one.label, "precision@100", bits=bits))
        }
        if found:
            best = max(found, key=lambda title: found[title])
            sentences.append(f"{bits} bits {best} {found[best]:.3f}")
    if not sentences:
        return "Nothing is measured yet."
    return f"The best precision@100 of the paper's methods: {', '.join(sentences)}."


MAP_INSTANCES = Experiment(
    "fig-map-instances", "mAP against training instances, at each code length", measure, _show_instances
)
MAP_AUC = Experiment(
    "fig-map-auc",
    "area under those curves, for each code length",
    measure,
    lambda study: _show_areas(
        study,
        "fig-map-auc",
        f"AUC of {study.headline}",
        f"AUC of {study.headline}",
        _along_the_stream(study),
        "HCOH",
    ),
)
PRECISION_K = Experiment(
    "fig-precision-k", "precision@K for K = 1 to 100, at each code length", measure, _show_precision
)
PRECISION_AUC = Experiment(
    "fig-precision-auc",
    "area under those curves, for each code length",
    measure,
    lambda study: _show_areas(
        study,
        "fig-precision-auc",
        "AUC of precision@K",
        "AUC of precision@K",
        _along_the_ranking(study),
        "MIHash",
    ),
)
