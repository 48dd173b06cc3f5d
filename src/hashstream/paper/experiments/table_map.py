"""table-map: mAP and precision@H2 of all methods at every code length, the paper's three tables of accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from hashstream.paper import printed
from hashstream.paper.accuracy import (
    at_the_end,
    baselines,
    fcoh_forms,
    margin_sheet,
    measure,
    no_finding,
    no_verdict,
    notes_on,
    opponents,
    other_methods,
    paper_methods,
    printed_figure,
    unmeasured,
    value_sheet,
)
from hashstream.paper.comparability import NAMES, column, counterpart
from hashstream.paper.contestants import Contestant
from hashstream.paper.format import over, survivors, words
from hashstream.paper.section import Experiment, Section, Sheet, Verdict
from hashstream.paper.study import Study

NEAR = 0.03
"""By how much two seeds of one setting may differ."""


def show(study: Study) -> Section:
    metrics = (study.headline, "precision@H2")
    sheets: list[Sheet] = []
    when = f"after {study.stream:,} training instances, {over(study)}"
    when += f"; below: {column(study.dataset)}" if counterpart(study.dataset).stands_for else ""
    others = other_methods(study)
    for metric in metrics:
        ours = at_the_end(study, metric)

        def paper(one: Contestant, bits: int, metric: str = metric) -> float | None:
            return printed_figure(study, one, metric, bits)

        if study.listed:
            sheets.append(value_sheet(study, f"{metric}, {when}", study.contestants, ours, paper))
        else:
            caption = f"{metric}, the paper's methods, {when}"
            sheets.append(value_sheet(study, caption, paper_methods(study), ours, paper))
        if others and not study.listed:
            caption = f"{metric}, methods that are not in the paper's tables"
            sheets.append(value_sheet(study, caption, others, ours))
        margin = margin_sheet(study, metric, ours)
        sheets += [margin] if margin else []
    verdict, brief = _verdict(study, metrics)
    return Section(
        "table-map",
        f"{study.headline} and precision@H2 for {', '.join(map(str, study.scale.bits))} bits",
        _claim(counterpart(study.dataset).name, study.headline),
        " ".join(filter(None, (_finding(study, metric) for metric in metrics))) or no_finding(study),
        tuple(sheets),
        notes=notes_on(study, *metrics),
        verdict=verdict,
        brief=brief,
    )


def _verdict(study: Study, metrics: Sequence[str]) -> tuple[Verdict, str]:
    """The claim is that FCOH with the paper's settings is first in most cases, over both metrics. It holds in part
    where FCOH is first in some."""
    lines, shares = [], []
    for form in fcoh_forms(study):
        firsts = {metric: _firsts(study, form, metric) for metric in metrics}
        cases = [first for of_metric in firsts.values() for first in of_metric]
        if cases:
            counts = [
                f"{sum(first)} of {len(first)} code lengths in {m}" for m, first in firsts.items() if first
            ]
            lines.append(f"{form.title} is first at {words(counts)}")
            shares.append(sum(cases) / len(cases))
    value = at_the_end(study, metrics[0])
    against = opponents(study, value)
    if not shares or not against:
        return "undecided", no_verdict(study)
    brief = f"{'; '.join(lines)}, compared with {against}."
    if unmeasured(study, value):
        return "undecided", brief
    if shares[0] > 0:
        return ("holds" if shares[0] > 0.5 else "holds in part"), brief
    return ("only with our defaults" if max(shares) > 0.5 else "does not hold"), brief


def _claim(name: str, headline: str) -> str:
    if not name:
        return (
            "On its three data sets FCOH has the best mAP and precision@H2 in most cases: mAP is on average 1.49 % "
            "(CIFAR-10), 3.84 % (Places205) and 1.76 % (MNIST) above the best baseline, precision@H2 7.94 %, 12.51 % "
            "and 1.08 %."
        )
    parts = []
    for metric in (headline, "precision@H2"):
        first = sum(
            printed.TABLES[name][metric]["FCOH"][i] > printed.best_baseline(name, metric, bits)
            for i, bits in enumerate(printed.BITS)
        )
        parts.append(
            f"the best {metric} at {first} of 6 code lengths, on average {printed.CLAIMED[name, metric][0]} % "
            "above the best baseline"
        )
    return f"On {NAMES[name]} FCOH has {parts[0]}, and {parts[1]}."


def _finding(study: Study, metric: str) -> str:
    """How many of the paper's figures are reproduced, and where FCOH stands among the paper's methods; "" if there are
    no figures of these."""
    value = at_the_end(study, metric)
    every = {
        (one, bits): found
        for one in paper_methods(study)
        for bits in study.scale.bits
        if (found := value(one, bits)) is not None
    }
    sentences = []
    away = {
        (one, bits): ours.mean - figure
        for (one, bits), ours in every.items()
        if counterpart(study.dataset).comparable
        and (figure := printed_figure(study, one, metric, bits)) is not None
    }
    if away:
        near = sum(abs(difference) <= NEAR for difference in away.values())
        far, bits = max(away, key=lambda at: abs(away[at]))
        size = sum(map(abs, away.values())) / len(away)
        sentences.append(
            f"{near} of {len(away)} printed figures of {metric} are reproduced within {NEAR}; the mean absolute "
            f"difference is {size:.3f}, the largest difference {away[far, bits]:+.3f} ({far.title}, {bits} bits)."
        )
    against = opponents(study, value)
    for form in fcoh_forms(study):
        if (first := _firsts(study, form, metric)) and against:
            sentences.append(
                f"{form.title} has a better {metric} than {against} at {sum(first)} of {len(first)} code lengths."
            )
    if every and not against:
        sentences.append(f"None of the paper's other methods has a {metric} at every code length here.")
    sentences.append(survivors((f"{one.title}, {bits} bits", found) for (one, bits), found in every.items()))
    return " ".join(filter(None, sentences))


def _firsts(study: Study, form: Contestant, metric: str) -> list[bool]:
    """For each code length at which FCOH has a figure: whether it is better than its opponents."""
    value = at_the_end(study, metric)
    missing = unmeasured(study, value)
    against = [one for one in baselines(study) if one.printed not in missing]
    return [
        ours.mean > max((found.mean for one in against if (found := value(one, bits))), default=-1.0)
        for bits in study.scale.bits
        if (ours := value(form, bits)) is not None
    ]


EXPERIMENT = Experiment(
    "table-map",
    "mAP and precision@H2 for 8 to 128 bits, all methods: the paper's three accuracy tables",
    measure,
    show,
)
