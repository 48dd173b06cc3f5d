"""The rows that all tables and figures of accuracy are made of, and the paper's three tables themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hashstream.paper import notes, printed
from hashstream.paper.beside import (
    NAMES,
    column,
    counterpart,
    figures_of,
    measured,
    on_the_data,
    over,
    survivors,
    words,
)
from hashstream.paper.lineup import COMPARABLE, STANDS_FOR, Contestant
from hashstream.paper.study import Experiment, Section, Sheet, Study, Value, Verdict

__all__ = [
    "EXPERIMENT",
    "company",
    "forms",
    "groups",
    "margin_sheet",
    "margins",
    "measure",
    "theirs",
    "unmeasured",
    "value_sheet",
]

Found = Callable[[Contestant, int], Value | None]
"""A figure of a contestant at a code length."""

NEAR = 0.03  # what two seeds of one setting may be apart


def measure(study: Study) -> None:
    """Every contestant at every code length, run after run, through the paper's protocol."""
    jobs = [
        job
        for run in range(study.scale.runs)
        for bits in study.scale.bits
        for one in study.contestants
        for job in one.jobs(bits, run + 1)[run:]
    ]
    study.measure("accuracy: ", jobs)


def theirs(study: Study, one: Contestant, metric: str, bits: int, n_train: int | None = None) -> float | None:
    """The paper's figure for a contestant, where the data set is the paper's or takes its place."""
    name = figures_of(study.dataset)
    return printed.printed(name, one.printed, metric, bits, n_train) if name and one.printed else None


def groups(study: Study) -> tuple[list[Contestant], list[Contestant]]:
    """The methods of the paper's tables with FCOH in both forms, and the others."""
    everyone = study.contestants
    paper = [one for one in everyone if one.printed or one.label == "FCOH"]
    return paper, [one for one in everyone if one not in paper]


def forms(study: Study) -> list[Contestant]:
    """FCOH as it takes part: with the paper's settings first, where there are any."""
    return sorted((one for one in groups(study)[0] if one.name == "FCOH"), key=lambda one: not one.printed)


def baselines(study: Study) -> list[Contestant]:
    """The paper's seven other methods, as far as they take part."""
    return [one for one in groups(study)[0] if one.printed not in ("", "FCOH")]


def unmeasured(study: Study, value: Found) -> list[str]:
    """Which of the paper's seven other methods lack a figure at some code length of the study."""
    whole = {one.printed for one in baselines(study) if all(value(one, bits) for bits in study.scale.bits)}
    return [name for name in printed.METHODS if name != "FCOH" and name not in whole]


def company(study: Study, value: Found) -> str:
    """Whom FCOH is held against: the paper's other methods where all have figures, otherwise those that have."""
    missing = unmeasured(study, value)
    there = [one.title for one in baselines(study) if one.printed not in missing]
    if not missing:
        return "all seven other methods of the paper's"
    if not there:
        return ""
    return f"{words(there)} (no figures of {words(missing)})"


def value_sheet(
    study: Study,
    caption: str,
    contestants: Sequence[Contestant],
    value: Found,
    beside: Callable[[Contestant, int], float | None] = lambda one, bits: None,
    until: int | None = None,
) -> Sheet:
    """A row for each contestant, a column for each code length, the best of each in bold.

    until: after how many training instances, the whole stream if not given.
    beside: the paper's figure, which is written below ours, with the difference where one may be taken.
    """
    rows, means = [], {}
    for i, one in enumerate(contestants):
        cells = [one.title]
        for j, bits in enumerate(study.scale.bits):
            found = value(one, bits)
            if found is not None:
                means[i, j + 1] = found.mean
            ends = study.divergences(one.label, bits, until or study.field.setting.stream)
            lines = [measured(found, ends)]
            if (figure := beside(one, bits)) is not None:
                comparable = found is not None and counterpart(study.dataset)[1]
                away = f" ({found.mean - figure:+.3f})" if found is not None and comparable else ""
                lines.append(f"paper {figure:.3f}{away}")
            cells.append("\n".join(lines))
        rows.append(tuple(cells))
    best = {
        max((at for at in means if at[1] == j), key=lambda at: means[at])
        for j in {column for _, column in means}
    }
    columns = ("method", *(f"{bits} bits" for bits in study.scale.bits))
    return Sheet(caption, columns, tuple(rows), frozenset(best))


def margins(study: Study, value: Found, rival: str = "") -> dict[str, float | str]:
    """By how many per cent each form of FCOH lies above the best baseline, or above the method `rival`, in the mean
    over the code lengths; or why there is no such number. Forms without a figure are left out.

    Without one of the paper's seven baselines there is no best one: another may have been.
    """
    against = [one for one in baselines(study) if rival in ("", one.printed)]
    missing = [name for name in unmeasured(study, value) if rival in ("", name)]
    found: dict[str, float | str] = {}
    for one in forms(study):
        ours = [value(one, bits) for bits in study.scale.bits]
        if not any(ours):
            continue
        if missing:
            found[one.title] = f"no figures of {words(missing)}"
            continue
        pairs = [
            (own.mean, max(other.mean for a in against if (other := value(a, bits))), bits)
            for own, bits in zip(ours, study.scale.bits, strict=True)
            if own is not None
        ]
        nothing = [bits for _, best, bits in pairs if best == 0]
        if len(pairs) < len(study.scale.bits):
            found[one.title] = "not measured at every code length"
        elif nothing:
            found[one.title] = f"no ratio to a baseline of 0 ({_list(nothing)} bits)"
        else:
            found[one.title] = printed.improvement(
                [own for own, _, _ in pairs], [best for _, best, _ in pairs]
            )
    return found


def margin_sheet(
    study: Study, metric: str, value: Found, claimed_metric: str, rival: str = ""
) -> Sheet | None:
    """By how much FCOH lies above the best baseline, or above the method `rival`: claimed, printed and measured.

    None where there is nothing to show.
    """
    name, bits = figures_of(study.dataset), study.scale.bits
    rows = []
    if (claim := printed.CLAIMED.get((name, claimed_metric))) is not None:
        rows.append((f"claimed by the paper for {NAMES[name]}", "8 to 128", f"{claim[0]:+.2f} %"))
        if not rival:
            lengths = [b for b in bits if b in printed.BITS]
            rows.append(
                ("in the paper's table", _list(lengths), f"{_printed_margin(name, metric, lengths):+.2f} %")
            )
    for title, above in margins(study, value, rival).items():
        text = f"-\n{above}" if isinstance(above, str) else f"{above:+.2f} %"
        rows.append((f"measured, {title}", _list(bits), text))
    if not rows:
        return None
    whom = rival or "the best of the paper's seven other methods"
    return Sheet(
        f"{claimed_metric} of FCOH over {whom}, mean over the code lengths",
        ("", "bits", "above"),
        tuple(rows),
    )


def _list(bits: Sequence[int]) -> str:
    return ", ".join(map(str, bits))


def _printed_margin(name: str, metric: str, bits: Sequence[int]) -> float:
    """The paper's average improvement in its own table, over some code lengths."""
    ours, best = [], []
    for length in bits:
        found = {m: v for m in printed.METHODS if (v := printed.printed(name, m, metric, length)) is not None}
        ours.append(found["FCOH"])
        best.append(printed.best_baseline(found))
    return printed.improvement(ours, best)


def _show(study: Study) -> Section:
    name, _ = counterpart(study.dataset)
    paper, others = groups(study)
    metrics = (study.headline, "precision@H2")
    sheets: list[Sheet] = []
    when = f"after {study.field.setting.stream:,} training instances, {over(study)}"
    when += f"; below: {column(study.dataset)}" if study.dataset in STANDS_FOR else ""
    for metric in metrics:
        ours = _metric(study, metric)

        def paper_s(one: Contestant, bits: int, metric: str = metric) -> float | None:
            return theirs(study, one, metric, bits)

        sheets.append(value_sheet(study, f"{metric}, the paper's methods, {when}", paper, ours, paper_s))
        if others:
            sheets.append(
                value_sheet(study, f"{metric}, methods that the paper's tables do not have", others, ours)
            )
        margin = margin_sheet(study, metric, ours, metric)
        sheets += [margin] if margin else []
    verdict, brief = _verdict(study, metrics)
    return Section(
        "table-map",
        f"{study.headline} and precision@H2 for {_list(study.scale.bits)} bits",
        _claim(name, study.headline),
        " ".join(_finding(study, metric) for metric in metrics),
        tuple(sheets),
        notes=(
            *on_the_data(study.dataset),
            *notes.matching(study.dataset, {one.name for one in study.contestants}, metrics),
        ),
        verdict=verdict,
        brief=brief,
    )


def _metric(study: Study, metric: str) -> Found:
    """A metric at the end of the stream."""
    return lambda one, bits: study.values(one.label, metric, bits=bits)


def _verdict(study: Study, metrics: Sequence[str]) -> tuple[Verdict, str]:
    """The claim is that FCOH is first in most cases, counted over both metrics: with the paper's settings. It holds in
    part where it is first in some."""
    lines, shares = [], []
    for form in forms(study):
        firsts = {metric: _firsts(study, form, metric) for metric in metrics}
        if not any(firsts.values()):
            continue
        counts = [f"{sum(first)} of {len(first)} code lengths in {m}" for m, first in firsts.items() if first]
        lines.append(f"{form.title} is first at {words(counts)}")
        cases = [first for of_metric in firsts.values() for first in of_metric]
        shares.append(sum(cases) / len(cases))
    against = company(study, _metric(study, metrics[0]))
    if not shares or not against:
        return "undecided", "Not measured yet."
    brief = f"{'; '.join(lines)}, against {against}."
    if unmeasured(study, _metric(study, metrics[0])):
        return "undecided", brief
    if shares[0] > 0:
        return ("holds" if shares[0] > 0.5 else "holds in part"), brief
    return ("only with our defaults" if max(shares) > 0.5 else "does not hold"), brief


def _claim(name: str, headline: str) -> str:
    if not name:
        return (
            "On its three data sets FCOH has the best mAP and precision@H2 in most cases: mAP lies on average 1.49 % "
            "(CIFAR-10), 3.84 % (Places205) and 1.76 % (MNIST) above the best baseline, precision@H2 7.94 %, 12.51 % "
            "and 1.08 %."
        )
    parts = []
    for metric in (headline, "precision@H2"):
        first = sum(
            printed.TABLES[name][metric]["FCOH"][i]
            > printed.best_baseline(
                {m: row[i] for m, row in printed.TABLES[name][metric].items() if i < len(row)}
            )
            for i in range(len(printed.BITS))
        )
        parts.append(
            f"the best {metric} at {first} of 6 code lengths, on average {printed.CLAIMED[name, metric][0]} % "
            "above the best baseline"
        )
    return f"On {NAMES[name]} FCOH has {parts[0]}, and {parts[1]}."


def _finding(study: Study, metric: str) -> str:
    """How many of the paper's figures are met, and where FCOH stands among those of the paper's methods that took
    part."""
    paper, _ = groups(study)
    value = _metric(study, metric)
    every = {
        (one, bits): found
        for one in paper
        for bits in study.scale.bits
        if (found := value(one, bits)) is not None
    }
    sentences = []
    away = {
        (one, bits): ours.mean - figure
        for (one, bits), ours in every.items()
        if study.dataset in COMPARABLE and (figure := theirs(study, one, metric, bits)) is not None
    }
    if away:
        near = sum(abs(difference) <= NEAR for difference in away.values())
        far, bits = max(away, key=lambda at: abs(away[at]))
        size = sum(map(abs, away.values())) / len(away)
        sentences.append(
            f"{near} of {len(away)} printed figures of {metric} are met within {NEAR}; the mean distance is "
            f"{size:.3f}, the largest {away[far, bits]:+.3f} ({far.title}, {bits} bits)."
        )
    against = company(study, value)
    for form in forms(study):
        if (first := _firsts(study, form, metric)) and against:
            sentences.append(
                f"{form.title} has a better {metric} than {against} at {sum(first)} of {len(first)} code lengths."
            )
    if every and not against:
        sentences.append(f"None of the paper's other methods has a {metric} at every code length here.")
    sentences.append(survivors((f"{one.title}, {bits} bits", found) for (one, bits), found in every.items()))
    return " ".join(filter(None, sentences)) or f"No {metric} is measured yet."


def _firsts(study: Study, form: Contestant, metric: str) -> list[bool]:
    """Whether FCOH is better than the `company`, for each code length at which it has a figure itself."""
    value, first = _metric(study, metric), []
    missing = unmeasured(study, value)
    against = [one for one in baselines(study) if one.printed not in missing]
    for bits in study.scale.bits:
        if (ours := value(form, bits)) is not None:
            others = [found.mean for one in against if (found := value(one, bits)) is not None]
            first.append(ours.mean > max(others, default=-1.0))
    return first


EXPERIMENT = Experiment(
    "table-map",
    "mAP and precision@H2 for 8 to 128 bits, all methods: the paper's three accuracy tables",
    measure,
    _show,
)
