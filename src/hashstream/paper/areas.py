"""The section of an area under curves of accuracy, with FCOH's margin over the rival that the paper names."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from hashstream.paper import printed
from hashstream.paper.accuracy import (
    Found,
    margin_sheet,
    margins,
    no_finding,
    no_verdict,
    notes_on,
    paper_methods,
    value_sheet,
)
from hashstream.paper.accuracy_plots import Steps, area, areas
from hashstream.paper.comparability import NAMES, counterpart, figures_of
from hashstream.paper.contestants import Contestant
from hashstream.paper.format import survivors
from hashstream.paper.section import Section, Verdict
from hashstream.paper.study import Study, Value

__all__ = ["area_section"]


def area_section(study: Study, name: str, metric: str, steps: Steps, points: str, *, rival: str) -> Section:
    """points: the points of a curve in words, for the caption of the table."""
    paper = counterpart(study.dataset).name

    def value(one: Contestant, bits: int) -> Value | None:
        return area(study, one, bits, steps)

    margin = margin_sheet(study, metric, value, rival)
    claims = [
        f"{printed.CLAIMED[data, kind][0]} % ({NAMES[data]})"
        for data in NAMES
        for kind in (metric, metric.replace("mAP", "mAP@1000"), metric.replace("mAP@1000", "mAP"))
        if (data, kind) in printed.CLAIMED and (not paper or data == paper)
    ]
    drawn = areas(study, name, steps, metric)
    return Section(
        name,
        metric,
        f"FCOH's {metric} is on average {', '.join(dict.fromkeys(claims))} above that of {rival}, the second best.",
        _finding(study, value, metric),
        (
            value_sheet(study, f"{metric}, {points}", study.contestants, value),
            *([margin] if margin else []),
        ),
        drawn.figures,
        drawn.captions,
        notes_on(study, metric),
        *_verdict(study, metric, margins(study, value, rival), rival),
        points=drawn.points,
    )


def _verdict(study: Study, metric: str, found: Mapping[str, float | str], rival: str) -> tuple[Verdict, str]:
    """The claim is a margin over one rival. It holds where the margin with the paper's settings is at least half as
    large, in part where it is smaller; "only with our defaults" where only that margin is at least half as large."""
    numbers = {title: above for title, above in found.items() if isinstance(above, float)}
    if not numbers:
        reasons = ", ".join(f"{title}: {why}" for title, why in found.items())
        return "undecided", f"{reasons}." if reasons else no_verdict(study)
    claim = printed.CLAIMED.get((figures_of(study.dataset), metric), (0.0, ""))[0]
    brief = ", ".join(f"{title} {above:+.1f} %" for title, above in numbers.items()) + f" over {rival}"
    brief += f"; claimed {claim:+.2f} %." if claim else "."
    first, best = next(iter(numbers.values())), max(numbers.values())
    if first > 0 and first >= claim / 2:
        return "holds", brief
    if best > 0 and best >= claim / 2:
        return "only with our defaults", brief
    return ("holds in part" if first > 0 else "does not hold"), brief


def _finding(study: Study, value: Found, metric: str) -> str:
    """The five largest areas of the paper's methods, averaged over the code lengths."""
    means, every = {}, {}
    for one in paper_methods(study):
        found = {bits: area for bits in study.scale.bits if (area := value(one, bits))}
        every.update({f"{one.title}, {bits} bits": area for bits, area in found.items()})
        if len(found) == len(study.scale.bits):
            means[one.title] = mean(area.mean for area in found.values())
    if not means:
        return no_finding(study)
    ranked = sorted(means, key=lambda title: -means[title])
    order = ", ".join(f"{title} {means[title]:.3f}" for title in ranked[:5])
    first = f"the first five of {len(means)}" if len(means) > 5 else "all"
    text = f"{metric}, mean over the code lengths, {first} of the paper's methods that took part: {order}."
    return " ".join(filter(None, (text, survivors(every.items()))))
