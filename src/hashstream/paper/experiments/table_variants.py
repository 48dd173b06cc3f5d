"""table-variants: what class-wise updating and semi-relaxation each contribute, at 32 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hashstream.evaluate import Job
from hashstream.hashers import methods
from hashstream.paper.comparability import column, counterpart, figures_of, on_the_data
from hashstream.paper.contestants import with_paper_settings
from hashstream.paper.format import cell, measured, over, signed, survivors
from hashstream.paper.printed import printed
from hashstream.paper.section import Experiment, Section, Sheet, Verdict
from hashstream.paper.study import Study, Value

BITS = 32
ORDER = ("FCOH", "FCOH_C", "FCOH_S", "BSODH")
"""The paper's order, best first."""


@dataclass(frozen=True)
class Variant:
    """A row: its name in the paper, whose settings it has, and the hasher, by the name that results have for it."""

    row: str
    settings: str
    label: str
    method: Callable[..., Any]

    def job(self, run: int) -> Job:
        return Job(self.label, self.method, BITS, run)


def variants(dataset: str) -> list[Variant]:
    """The paper's four rows with the paper's settings, then FCOH_S and FCOH with our defaults.

    On a data set of the user's own, for which the paper has no settings, all four with our defaults.

    >>> [one.label for one in variants("mnist")]
    ['BSODH[paper]', 'FCOH_S[paper]', 'FCOH_C[paper]', 'FCOH[paper]', 'FCOH_S', 'FCOH']
    >>> [one.label for one in variants("my data")]
    ['BSODH', 'FCOH_S', 'FCOH_C', 'FCOH']
    """
    known = bool(counterpart(dataset).name)
    settings, suffix = ("paper", "[paper]") if known else ("default", "")
    found = [
        Variant(row, settings, row + suffix, with_paper_settings(row, dataset)) for row in reversed(ORDER)
    ]
    if known:
        every = methods(variants=True)
        found += [Variant(row, "auto", row, every[row]) for row in ("FCOH_S", "FCOH")]
    return found


def measure(study: Study) -> None:
    every = variants(study.dataset)
    study.measure("variants: ", [one.job(run) for run in range(study.scale.runs) for one in every])


def show(study: Study) -> Section:
    name, comparable = figures_of(study.dataset), counterpart(study.dataset).comparable
    metric, first, stream = study.headline, study.checkpoints[0], study.stream
    every = variants(study.dataset)
    values = [study.values(one.label, metric, bits=BITS) for one in every]
    rows = []
    for one, value in zip(every, values, strict=True):
        theirs = printed(name, one.row, metric, BITS) if one.settings == "paper" else None
        away = value.mean - theirs if value and theirs is not None and comparable else None
        early, late = (
            measured(
                study.values(one.label, metric, bits=BITS, n_train=n), study.divergences(one.label, BITS, n)
            )
            for n in (first, stream)
        )
        paper = (cell(theirs), signed(away)) if name else ()
        rows.append((one.row, one.settings, early, late, *paper))
    best = frozenset(
        (max(among, key=lambda i: getattr(values[i], "mean", 0.0)), 3)
        for settings in ("paper", "default", "auto")
        if (among := [i for i, one in enumerate(every) if one.settings == settings and values[i]])
    )
    sheet = Sheet(
        f"{metric} at {BITS} bits, {over(study)}",
        (
            "variant",
            "settings",
            f"after {first:,}",
            f"after {stream:,}",
            *((column(study.dataset), "ours - paper") if name else ()),
        ),
        tuple(rows),
        best,
    )
    ours = {one.row: v for one, v in zip(every, values, strict=True) if v and one.settings != "auto"}
    lost = [
        one.row
        for one, value in zip(every, values, strict=True)
        if one.settings != "auto" and not value and study.divergences(one.label, BITS, stream)
    ]
    verdict, brief = _verdict(ours, lost)
    return Section(
        "table-variants",
        "Variants: what class-wise updating and semi-relaxation contribute",
        "At 32 bits FCOH beats FCOH_C (class-wise updating, but codes found bit by bit), which beats FCOH_S "
        "(semi-relaxation, but one step for the whole batch), which beats BSODH: both ideas help.",
        finding(ours),
        (sheet,),
        notes=(*NOTES, *on_the_data(study.dataset)),
        verdict=verdict,
        brief=brief,
    )


def _verdict(values: Mapping[str, Value], lost: Sequence[str]) -> tuple[Verdict, str]:
    """lost : rows whose runs all diverged. They have no figure, but are no reason to measure more."""
    if len(values) + len(lost) < len(ORDER):
        return "undecided", f"{len(values)} of {len(ORDER)} variants have a figure."
    ranked = sorted(values, key=lambda row: -values[row].mean)
    diverged = [f"{', '.join(row for row in ORDER if row in lost)} diverged"] if lost else []
    brief = "; ".join(
        [*([" > ".join(ranked)] if ranked else []), *diverged, f"the paper: {' > '.join(ORDER)}."]
    )
    if not ranked:
        return "does not hold", brief
    if ranked == list(ORDER):
        return "holds", brief
    return ("holds in part" if ranked[-1] == "BSODH" or ranked[0] == "FCOH" else "does not hold"), brief


def finding(values: Mapping[str, Value]) -> str:
    """The measured order of the rows, and whether the runs can tell the variants of FCOH apart.

    >>> print(finding({"BSODH": Value((0.70,)), "FCOH_S": Value((0.72,)), "FCOH": Value((0.71,))}))
    FCOH_S 0.720 > FCOH 0.710 > BSODH 0.700. The paper's order is FCOH > FCOH_C > FCOH_S >
    BSODH. The forms of FCOH are within 0.010 of each other; one run cannot tell 0.03 from noise. No figure: FCOH_C.
    """
    if not values:
        return "Nothing is measured yet."
    ranked = sorted(values, key=lambda row: -values[row].mean)
    text = " > ".join(f"{row} {values[row].mean:.3f}" for row in ranked)
    text += (
        ", the paper's order." if ranked == list(ORDER) else f". The paper's order is {' > '.join(ORDER)}."
    )
    forms = [value for row, value in values.items() if row != "BSODH"]
    if len(forms) > 1:
        means, spreads = [v.mean for v in forms], [v.spread for v in forms if len(v.runs) > 1]
        text += f" The forms of FCOH are within {max(means) - min(means):.3f} of each other; "
        if spreads:
            text += f"one form varies by up to {max(spreads):.3f} (standard deviation) from run to run."
        else:
            text += "one run cannot tell 0.03 from noise."
    lost = [row for row in ORDER if row not in values]
    some = survivors(values.items())
    return text + (f" No figure: {', '.join(lost)}." if lost else "") + (f" {some}" if some else "")


NOTES = (
    "Settings “paper” are those of Table III under the reading that works (`from_paper`); “auto” is our default, "
    "which chooses its own step size. FCOH_C has no gradient step and so no “auto”; BSODH has no step at all.",
    "The paper defines its variants only in words. FCOH_S here takes one step per batch along the sum of the classes' "
    "gradients, which differs from FCOH only to second order in the step size. FCOH_C here finds the codes of a class "
    "by discrete cyclic coordinate descent and fits W to them by a ridge regression that is centred on the previous W; "
    "its weights (`fit_weight`, `ridge`) are ours. Another reading may give another order.",
    "The paper describes BSODH as FCOH without either idea. That is not literally true: BSODH also keeps the codes of "
    "all past samples, learns nothing from its first batch, and takes batches twenty times as large.",
)

EXPERIMENT = Experiment(
    "table-variants", "BSODH, FCOH_S, FCOH_C and FCOH at 32 bits: what each idea contributes", measure, show
)
