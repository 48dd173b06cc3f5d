"""The rows that all tables and figures of accuracy share, FCOH's margins over the other methods, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hashstream.paper import notes, printed
from hashstream.paper.comparability import NAMES, counterpart, figures_of, on_the_data
from hashstream.paper.contestants import Contestant
from hashstream.paper.format import measured, words
from hashstream.paper.section import Sheet
from hashstream.paper.study import Study, Value

__all__ = [
    "Found",
    "at_the_end",
    "baselines",
    "fcoh_forms",
    "margin_sheet",
    "margins",
    "measure",
    "no_finding",
    "no_verdict",
    "notes_on",
    "opponents",
    "other_methods",
    "paper_methods",
    "printed_figure",
    "unmeasured",
    "value_sheet",
]

Found = Callable[[Contestant, int], Value | None]
"""The figure of a contestant at a code length."""


def measure(study: Study) -> None:
    """Stream every contestant at every code length through the paper's protocol, one run after the other."""
    jobs = [
        one.job(bits, run)
        for run in range(study.scale.runs)
        for bits in study.scale.bits
        for one in study.contestants
    ]
    study.measure("accuracy: ", jobs)


def at_the_end(study: Study, metric: str) -> Found:
    """A metric at the end of the stream."""
    return lambda one, bits: study.values(one.label, metric, bits=bits)


def printed_figure(
    study: Study, one: Contestant, metric: str, bits: int, n_train: int | None = None
) -> float | None:
    """The paper's figure for a contestant, where the data set is the paper's or takes its place."""
    name = figures_of(study.dataset)
    return printed.printed(name, one.printed, metric, bits, n_train) if name and one.printed else None


def notes_on(study: Study, *metrics: str) -> tuple[str, ...]:
    """The notes on the data, and on the methods of the study in these metrics."""
    names = {one.name for one in study.contestants}
    return (*on_the_data(study.dataset), *notes.matching(study.dataset, names, metrics))


# ---- groups of contestants


def paper_methods(study: Study) -> list[Contestant]:
    """The methods of the paper's tables, FCOH in both forms."""
    return [one for one in study.contestants if one.printed or one.label == "FCOH"]


def other_methods(study: Study) -> list[Contestant]:
    """The methods that are not in the paper's tables."""
    return [one for one in study.contestants if not one.printed and one.label != "FCOH"]


def fcoh_forms(study: Study) -> list[Contestant]:
    """FCOH with the paper's settings, where there are any, then with our defaults."""
    return sorted(
        (one for one in paper_methods(study) if one.name == "FCOH"), key=lambda one: not one.printed
    )


def baselines(study: Study) -> list[Contestant]:
    """The paper's seven other methods, as far as they take part."""
    return [one for one in paper_methods(study) if one.printed not in ("", "FCOH")]


def unmeasured(study: Study, value: Found) -> list[str]:
    """Those of the paper's seven other methods that lack a figure at some code length."""
    whole = {one.printed for one in baselines(study) if all(value(one, bits) for bits in study.scale.bits)}
    return [name for name in printed.METHODS if name != "FCOH" and name not in whole]


def opponents(study: Study, value: Found) -> str:
    """The methods that FCOH is compared with, in words: all seven of the paper's, or those that have figures."""
    missing = unmeasured(study, value)
    if not missing:
        return "all seven other methods of the paper"
    there = [one.title for one in baselines(study) if one.printed not in missing]
    return f"{words(there)} (no figures of {words(missing)})" if there else ""


def no_finding(study: Study) -> str:
    """The sentence in place of a finding about the paper's methods, where none has a figure."""
    return "Nothing is measured yet." if paper_methods(study) else "None of the paper's methods took part."


def no_verdict(study: Study) -> str:
    """The sentence in place of a verdict on FCOH, where it or all that it is compared with lack figures."""
    if not fcoh_forms(study):
        return "FCOH did not take part."
    return "Not measured yet." if baselines(study) else "None of the paper's other methods took part."


# ---- tables


def value_sheet(
    study: Study,
    caption: str,
    contestants: Sequence[Contestant],
    value: Found,
    paper: Callable[[Contestant, int], float | None] = lambda one, bits: None,
    until: int | None = None,
) -> Sheet:
    """One row per contestant, one column per code length, the best of each column in bold, with all printed like it.

    A mean over some of the runs only is never bold: the runs that diverged may be the worst ones.

    paper: the paper's figure, written below ours, with the difference where the two are comparable.
    until: the number of training instances, by default the whole stream.
    """
    rows, means = [], {}
    for i, one in enumerate(contestants):
        cells = [one.title]
        for j, bits in enumerate(study.scale.bits, 1):
            found = value(one, bits)
            lines = [measured(found, study.divergences(one.label, bits, until or study.stream))]
            if found is not None and not found.diverged:
                means[i, j] = round(found.mean, 3)
            if (figure := paper(one, bits)) is not None:
                comparable = found is not None and counterpart(study.dataset).comparable
                difference = f" ({found.mean - figure:+.3f})" if found is not None and comparable else ""
                lines.append(f"paper {figure:.3f}{difference}")
            cells.append("\n".join(lines))
        rows.append(tuple(cells))
    best = {at for at in means if means[at] == max(means[other] for other in means if other[1] == at[1])}
    columns = ("method", *(f"{bits} bits" for bits in study.scale.bits))
    return Sheet(caption, columns, tuple(rows), frozenset(best))


def margins(study: Study, value: Found, rival: str = "") -> dict[str, float | str]:
    """By how many per cent each form of FCOH is above the best baseline, or above `rival`, averaged over the code
    lengths; or a reason why there is no such number. Forms without any figure are left out.

    If one of the paper's seven baselines is missing, there is no best one: the missing one may have been it.
    """
    against = [one for one in baselines(study) if rival in ("", one.printed)]
    missing = [name for name in unmeasured(study, value) if rival in ("", name)]
    found: dict[str, float | str] = {}
    for one in fcoh_forms(study):
        ours = {bits: own.mean for bits in study.scale.bits if (own := value(one, bits))}
        if not ours:
            continue
        if missing:
            found[one.title] = f"no figures of {words(missing)}"
            continue
        best = {bits: max(other.mean for a in against if (other := value(a, bits))) for bits in ours}
        zero = [bits for bits in ours if best[bits] == 0]
        if len(ours) < len(study.scale.bits):
            found[one.title] = "not measured at every code length"
        elif zero:
            found[one.title] = f"no ratio to a baseline of 0 ({_list(zero)} bits)"
        else:
            found[one.title] = printed.improvement(list(ours.values()), list(best.values()))
    return found


def margin_sheet(study: Study, metric: str, value: Found, rival: str = "") -> Sheet | None:
    """FCOH's margin over the best baseline, or over `rival`: claimed, printed and measured; None if there is none."""
    name, bits = figures_of(study.dataset), study.scale.bits
    rows = []
    if (claim := printed.CLAIMED.get((name, metric))) is not None:
        rows.append((f"claimed by the paper for {NAMES[name]}", "8 to 128", f"{claim[0]:+.2f} %"))
        if not rival:
            lengths = [b for b in bits if b in printed.BITS]
            margin = printed.margin(name, metric, lengths)
            rows.append(("in the paper's table", _list(lengths), f"{margin:+.2f} %"))
    for title, above in margins(study, value, rival).items():
        text = f"-\n{above}" if isinstance(above, str) else f"{above:+.2f} %"
        rows.append((f"measured, {title}", _list(bits), text))
    if not rows:
        return None
    whom = rival or "the best of the paper's seven other methods"
    caption = f"{metric} of FCOH compared with {whom}, mean over the code lengths"
    return Sheet(caption, ("", "bits", "above"), tuple(rows))


def _list(bits: Sequence[int]) -> str:
    return ", ".join(map(str, bits))
