"""The rows that all tables and figures of accuracy are made of, and the paper's three tables themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hashstream.paper import notes, printed
from hashstream.paper.beside import NAMES, counterpart, divergences, on_the_data, over
from hashstream.paper.lineup import COMPARABLE, STANDS_FOR, Contestant
from hashstream.paper.study import Experiment, Section, Sheet, Study, Value

__all__ = ["EXPERIMENT", "groups", "margin_sheet", "measure", "theirs", "value_sheet"]

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
    name, _ = counterpart(study.dataset)
    if not one.printed or study.dataset not in (*COMPARABLE, *STANDS_FOR):
        return None
    return printed.printed(name, one.printed, metric, bits, n_train)


def groups(study: Study) -> tuple[list[Contestant], list[Contestant]]:
    """The methods of the paper's tables with FCOH in both forms, and the others."""
    everyone = study.contestants
    paper = [one for one in everyone if one.printed or one.label == "FCOH"]
    return paper, [one for one in everyone if one not in paper]


def value_sheet(
    study: Study,
    caption: str,
    contestants: Sequence[Contestant],
    value: Callable[[Contestant, int], Value | None],
    beside: Callable[[Contestant, int], float | None] = lambda one, bits: None,
) -> Sheet:
    """A row for each contestant, a column for each code length, the best of each in bold.

    beside: the paper's figure, which is written below ours, with the difference where one may be taken.
    """
    rows, means = [], {}
    for i, one in enumerate(contestants):
        cells = [one.title]
        for j, bits in enumerate(study.scale.bits):
            found = value(one, bits)
            if found is not None:
                means[i, j + 1] = found.mean
            cells.append(_cell(study, one, bits, found, beside(one, bits)))
        rows.append(tuple(cells))
    best = {
        max((at for at in means if at[1] == j), key=lambda at: means[at])
        for j in {column for _, column in means}
    }
    columns = ("method", *(f"{bits} bits" for bits in study.scale.bits))
    return Sheet(caption, columns, tuple(rows), frozenset(best))


def _cell(study: Study, one: Contestant, bits: int, found: Value | None, theirs: float | None) -> str:
    """Ours, and below it the paper's and how many runs could not be finished."""
    lost = len(divergences(study, one.label, bits))
    lines = [str(found) if found else "diverged" if lost else "-"]
    if found and lost:
        lines.append(f"{lost} of {study.scale.runs} runs diverged")
    if theirs is not None:
        comparable = found is not None and counterpart(study.dataset)[1]
        away = f" ({found.mean - theirs:+.3f})" if found is not None and comparable else ""
        lines.append(f"paper {theirs:.3f}{away}")
    return "\n".join(lines)


def margin_sheet(
    study: Study,
    metric: str,
    value: Callable[[Contestant, int], Value | None],
    claimed_metric: str,
    rival: str = "",
) -> Sheet | None:
    """By how much FCOH lies above the best baseline, or above the method `rival`: claimed, printed and measured.

    None where a figure that is needed was not measured.
    """
    name, _ = counterpart(study.dataset)
    bits = study.scale.bits
    baselines = [one for one in groups(study)[0] if one.printed not in ("", "FCOH")]
    if rival:
        baselines = [one for one in baselines if one.printed == rival]
    best = [max((v.mean for one in baselines if (v := value(one, b))), default=None) for b in bits]
    rows = []
    if (claim := printed.CLAIMED.get((name, claimed_metric))) is not None:
        rows.append((f"claimed by the paper for {NAMES[name]}", "8 to 128", f"{claim[0]:+.2f} %"))
        if not rival:
            lengths = [b for b in bits if b in printed.BITS]
            rows.append(
                ("in the paper's table", _list(lengths), f"{_printed_margin(name, metric, lengths):+.2f} %")
            )
    for one in groups(study)[0]:
        if one.name != "FCOH":
            continue
        pairs = [(v.mean, b) for b, length in zip(best, bits, strict=True) if b and (v := value(one, length))]
        if len(pairs) == len(bits):
            ours, theirs = zip(*pairs, strict=True)
            rows.append(
                (f"measured, {one.title}", _list(bits), f"{printed.improvement(ours, theirs):+.2f} %")
            )
    if not rows:
        return None
    whom = rival or "the best baseline"
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
    for metric in metrics:

        def ours(one: Contestant, bits: int, metric: str = metric) -> Value | None:
            return study.values(one.label, metric, bits=bits)

        def paper_s(one: Contestant, bits: int, metric: str = metric) -> float | None:
            return theirs(study, one, metric, bits)

        sheets.append(value_sheet(study, f"{metric}, the paper's methods, {when}", paper, ours, paper_s))
        if others:
            sheets.append(
                value_sheet(study, f"{metric}, methods that the paper's tables do not have", others, ours)
            )
        margin = margin_sheet(study, metric, ours, metric)
        sheets += [margin] if margin else []
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
    )


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
    """How many of the paper's figures are met, and where FCOH stands among the paper's methods."""
    comparable = study.dataset in COMPARABLE
    paper, _ = groups(study)
    measured = {
        (one, bits): value.mean
        for one in paper
        for bits in study.scale.bits
        if (value := study.values(one.label, metric, bits=bits)) is not None
    }
    sentences = []
    away = {
        (one, bits): ours - figure
        for (one, bits), ours in measured.items()
        if comparable and one.printed and (figure := theirs(study, one, metric, bits)) is not None
    }
    if away:
        near = sum(abs(difference) <= NEAR for difference in away.values())
        far, bits = max(away, key=lambda at: abs(away[at]))
        size = sum(map(abs, away.values())) / len(away)
        sentences.append(
            f"{near} of {len(away)} printed figures of {metric} are met within {NEAR}; the mean distance is "
            f"{size:.3f}, the largest {away[far, bits]:+.3f} ({far.title}, {bits} bits)."
        )
    for form in [one for one in paper if one.name == "FCOH"]:
        ranks = {bits: _rank(measured, form, bits) for bits in study.scale.bits if (form, bits) in measured}
        if ranks:
            first = sum(rank == 1 for rank in ranks.values())
            sentences.append(
                f"{form.title} has a better {metric} than the paper's other methods at {first} of {len(ranks)} code "
                "lengths."
            )
    return " ".join(sentences) or f"No {metric} is measured yet."


def _rank(measured: Mapping[tuple[Contestant, int], float], form: Contestant, bits: int) -> int:
    """1 where no method of the paper's other than FCOH is better."""
    others = [value for (one, length), value in measured.items() if length == bits and one.name != form.name]
    return 1 + sum(value > measured[form, bits] for value in others)


EXPERIMENT = Experiment(
    "table-map",
    "mAP and precision@H2 for 8 to 128 bits, all methods: the paper's three accuracy tables",
    measure,
    _show,
)
