"""readings: FCOH under each reading of the equations, and how far it is from all printed figures at once.

This looks for the reading that the paper's own figures were made with. None of our defaults is chosen by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import mean
from typing import TYPE_CHECKING, Any

from hashstream import pictures
from hashstream.evaluate import Job
from hashstream.hashers import FCOH
from hashstream.paper import printed
from hashstream.paper.comparability import NAMES, column, counterpart, figures_of, on_the_data
from hashstream.paper.experiments.fig_parameters import CHOSEN, PRINTED_MU, draw_sweep
from hashstream.paper.fcoh_readings import DIVISORS, ReadFCOH
from hashstream.paper.format import cell, measured, over, words
from hashstream.paper.section import Experiment, Section, Sheet, Verdict
from hashstream.paper.study import Study, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, BITS, NEAR = "readings", 32, 0.03
"""BITS: the code length of the paper's sweeps. NEAR: by how much two seeds of one setting may differ."""
SIZES = (500, 1000, 2000)
"""Values of n_t after the paper's own; its sweep goes from 100 to 2,000."""

MAP, PRECISION, SWEEP, WITHOUT, EARLY = "mAP", "precision@H2", "n_t", "λ = 0", "early mAP"
"""Groups of figures."""


@dataclass(frozen=True)
class Reading:
    """One way to read the equations: a divisor of the inner-product terms (a key of DIVISORS), mu, W0, and a bias."""

    divisor: str
    mu: float
    gaussian: bool = False
    bias: bool = False

    @property
    def title(self) -> str:
        """
        >>> Reading("bits", 0.1, gaussian=True).title
        'terms / r, μ = 0.1, Gaussian W0'
        """
        more = ("Gaussian W0" if self.gaussian else "", "bias" if self.bias else "")
        return ", ".join(filter(None, (DIVISORS[self.divisor], f"μ = {self.mu:g}", *more)))

    def job(self, name: str, bits: int, run: int, changes: Mapping[str, float]) -> Job:
        """A job with the paper's settings for its data set `name`, then `changes`.

        A reading that `FCOH` offers has the label that fig-parameters has for it, so that no row is measured twice.
        """
        settings: dict[str, Any] = {**CHOSEN[name], "learning_rate": self.mu, "gradient_scale": self.divisor}
        extra = {key: True for key in ("gaussian", "bias") if getattr(self, key)}
        plain = not extra and self.divisor in ("none", "class", "batch", "bits")
        return Job("FCOH", FCOH if plain else ReadFCOH, bits, run, {**settings, **extra, **changes})


@dataclass(frozen=True)
class Target:
    """A printed figure, and the setting that it belongs to.

    figure: what is printed; for n_t, where only the paper's plot had the figures, that at the paper's own n_t.
    after: the setting with the next smaller n_t, than which the text says that this one is not better.
    """

    group: str
    text: str
    metric: str
    figure: float
    bits: int
    n_train: int
    changes: Mapping[str, float] = field(default_factory=dict)
    after: Target | None = None


def fits(dataset: str) -> bool:
    """Whether there are printed figures, with two values of mu: MNIST and CIFAR-10, also with other features."""
    return len(PRINTED_MU.get(figures_of(dataset), ())) > 1


def readings(study: Study) -> list[Reading]:
    """Every reading, first those with W0 of unit length and without a bias, from which each other differs in one.

    The first alone at a scale of one run, and where the printed figures were measured on other features.
    """
    every = study.scale.runs > 1 and counterpart(study.dataset).comparable
    return [
        Reading(divisor, mu, gaussian, bias)
        for gaussian, bias in [(False, False), *([(True, False), (False, True)] if every else [])]
        for divisor in DIVISORS
        for mu in sorted(PRINTED_MU[figures_of(study.dataset)])
    ]


def targets(study: Study) -> list[Target]:
    """All printed figures of FCOH that a study of this scale can have, group by group."""
    name, headline, stream = figures_of(study.dataset), study.headline, study.stream

    def figure(row: str, metric: str, bits: int) -> float:
        found = printed.printed(name, row, metric, bits)
        assert found is not None
        return found

    lengths = [bits for bits in study.scale.bits if bits in printed.BITS]
    found = [
        Target(group, f"{bits} bits", metric, figure("FCOH", metric, bits), bits, stream)
        for group, metric in ((MAP, headline), (PRECISION, "precision@H2"))
        for bits in lengths
    ]
    last = Target(
        SWEEP, f"n_t = {CHOSEN[name]['batch_size']:,}", headline, figure("FCOH", headline, BITS), BITS, stream
    )
    for size in SIZES:
        if size <= study.data.setting.every:
            changes = {"batch_size": size}
            last = Target(SWEEP, f"n_t = {size:,}", headline, last.figure, BITS, stream, changes, last)
            found.append(last)
    for parameter, symbol in (("lambda1", "λ1 = 0"), ("lambda2", "λ2 = 0")):
        theirs = figure(f"FCOH {parameter}=0", headline, BITS)
        found.append(Target(WITHOUT, symbol, headline, theirs, BITS, stream, {parameter: 0}))
    for (where, bits, n_train), row in printed.EARLY.items():
        if where == name and n_train in study.checkpoints:
            found.append(
                Target(EARLY, f"{bits} bits, {n_train:,} rows", headline, row["FCOH"], bits, n_train)
            )
    return found


def measure(study: Study) -> None:
    """Every reading at every setting of a printed figure, run by run."""
    if not fits(study.dataset):
        return
    name = figures_of(study.dataset)
    every = targets(study)
    every += [target.after for target in every if target.after]
    settings = {(target.bits, tuple(target.changes.items())) for target in every}
    points_of = {
        (bits, changes): tuple(
            sorted(
                {
                    study.stream,
                    *(t.n_train for t in every if (t.bits, tuple(t.changes.items())) == (bits, changes)),
                }
            )
        )
        for bits, changes in sorted(settings)
    }
    for run in range(study.scale.runs):
        for points in sorted(set(points_of.values())):
            jobs = [
                reading.job(name, bits, run, dict(changes))
                for reading in readings(study)
                for (bits, changes), when in points_of.items()
                if when == points
            ]
            study.measure(f"readings, run {run}: ", jobs, checkpoints=points)


# ---- distances


def entry(study: Study, reading: Reading, target: Target) -> tuple[Value | None, dict[int, int]]:
    """The measured figure of a target, and the runs that diverged before it: run -> rows."""
    label = reading.job(figures_of(study.dataset), target.bits, 0, target.changes).label
    value = study.values(label, target.metric, bits=target.bits, n_train=target.n_train)
    return value, study.divergences(label, target.bits, target.n_train)


def distance(study: Study, reading: Reading, target: Target) -> float | None:
    """How far the mean over runs is from the printed figure; None where nothing was measured.

    A run that diverged is as far as the whole printed figure. For n_t: by how much the mean is above that of the next
    smaller n_t.
    """
    value, lost = entry(study, reading, target)
    if value is None and not lost:
        return None
    share = len(lost) / (len(lost) + (len(value.runs) if value else 0))
    away = 0.0
    if value and target.after:
        before, gone = entry(study, reading, target.after)
        if before is None and not gone:
            return None
        away = max(0.0, value.mean - (before.mean if before else 0.0))
    elif value:
        away = abs(value.mean - target.figure)
    return share * target.figure + (1 - share) * away


@dataclass(frozen=True)
class Distances:
    """Mean distance of a reading per group of figures. lost: number of figures with a run that diverged.

    overall: the mean of all groups. numbers: of those that the paper prints numbers for, so without the sweep of n_t.
    """

    reading: Reading
    groups: dict[str, float]
    lost: int

    @property
    def overall(self) -> float:
        return mean(self.groups.values())

    @property
    def numbers(self) -> float:
        return mean(away for group, away in self.groups.items() if group != SWEEP)


def ranked(study: Study) -> list[Distances]:
    """The readings with a figure for every target, nearest first."""
    every, found = targets(study), []
    for reading in readings(study):
        away = [(target.group, distance(study, reading, target)) for target in every]
        known = [(group, one) for group, one in away if one is not None]
        if len(known) == len(every):
            groups = {group: mean(one for g, one in known if g == group) for group, _ in known}
            lost = sum(1 for target in every if entry(study, reading, target)[1])
            found.append(Distances(reading, groups, lost))
    return sorted(found, key=lambda one: one.overall)


def nearest_by_divisor(found: list[Distances]) -> list[Distances]:
    """The nearest reading of each divisor, in the order of DIVISORS."""
    first = {divisor: [one for one in found if one.reading.divisor == divisor][:1] for divisor in DIVISORS}
    return [one for some in first.values() for one in some]


# ---- the section

TITLE = "Readings of the equations"
CLAIM = (
    "The equations, as printed, with the λ1, λ2, n_t and μ of Table III give all printed figures; mAP falls as n_t "
    "grows from 100 to 2,000."
)


def show(study: Study) -> Section:
    if not fits(study.dataset):
        text = f"The paper prints no figures that readings on {study.dataset} could be compared with."
        return Section(NAME, TITLE, CLAIM, text, notes=on_the_data(study.dataset), brief=text)
    found = ranked(study)
    if not found:
        return Section(NAME, TITLE, CLAIM, "Nothing is measured yet.", brief="Not measured yet.")
    best = nearest_by_divisor(found)
    return Section(
        NAME,
        TITLE,
        CLAIM,
        finding(study, found),
        (_distance_sheet(study, found), *_figure_sheets(study, best)),
        {NAME: figure(study, best)},
        {
            NAME: "The nearest reading of each divisor, chosen by its distance to the printed figures. Black diamonds: "
            "the printed figures. Crosses at the bottom: some run diverged."
        },
        _notes(study),
        *_verdict(study, found),
    )


def _distance_sheet(study: Study, found: list[Distances]) -> Sheet:
    groups = list(found[0].groups)
    rows = [
        (
            DIVISORS[one.reading.divisor],
            f"{one.reading.mu:g}",
            "Gaussian" if one.reading.gaussian else "unit",
            "yes" if one.reading.bias else "no",
            *(cell(one.groups[group]) for group in groups),
            cell(one.overall),
            cell(one.numbers),
            str(one.lost) if one.lost else "-",
        )
        for one in found
    ]
    columns = [[one.groups[group] for one in found] for group in groups]
    columns += [[one.overall for one in found], [one.numbers for one in found]]
    runs = f"the mean over {study.scale.runs} runs" if study.scale.runs > 1 else "one run"
    return Sheet(
        f"Distance of {runs} to the printed figures: the mean of each group, of all {len(groups)} groups, and of those "
        "with printed numbers (without n_t)",
        ("terms", "μ", "W0", "bias", *groups, "overall", "without n_t", "figures with runs that diverged"),
        tuple(rows),
        frozenset(
            (i, 4 + j)
            for j, values in enumerate(columns)
            for i, value in enumerate(values)
            if round(value, 3) == round(min(values), 3)
        ),
    )


def _figure_sheets(study: Study, best: list[Distances]) -> Iterator[Sheet]:
    """The figures themselves, of the nearest reading of each divisor, below the printed ones."""
    every = targets(study)
    for metric, groups in (
        (study.headline, (MAP,)),
        (PRECISION, (PRECISION,)),
        (study.headline, (SWEEP, WITHOUT, EARLY)),
    ):
        some = [target for target in every if target.group in groups]
        if some and some[0].after:
            some = [some[0].after, *some]
        rows = [(column(study.dataset), *("-" if target.after else cell(target.figure) for target in some))]
        for one in best:
            rows.append((one.reading.title, *(measured(*entry(study, one.reading, t)) for t in some)))
        where = f" at {BITS} bits where no other length is given" if WITHOUT in groups else ""
        caption = f"{metric} of the nearest reading of each divisor{where}, {over(study)}"
        yield Sheet(caption, ("reading", *(target.text for target in some)), tuple(rows))


def finding(study: Study, found: list[Distances]) -> str:
    """Which reading is nearest overall and in each group, what diverges, and what the smaller choices change."""
    first, groups = found[0], list(found[0].groups)
    each = ", ".join(f"{group} {first.groups[group]:.3f}" for group in groups)
    text = [
        f"Of {len(found)} readings, {first.reading.title} is nearest to all printed figures at once: its mean distance "
        f"is {first.overall:.3f} ({each})."
    ]
    rest = nearest_by_divisor(found)
    others = [
        f"{one.reading.title} {one.overall:.3f}" for one in sorted(rest, key=lambda one: one.overall)[1:]
    ]
    if others:
        text.append(f"The nearest of every other divisor: {'; '.join(others)}.")
    closest = min(found, key=lambda one: one.numbers)
    text.append(
        f"Without the sweep of n_t, for which the paper prints no numbers, {closest.reading.title} is nearest "
        f"({closest.numbers:.3f}; {first.reading.title} {first.numbers:.3f})."
        if closest is not first
        else f"It is also nearest without the sweep of n_t ({closest.numbers:.3f})."
    )
    alone = []
    for group in groups:
        near = min(found, key=lambda one: one.groups[group])
        alone.append(f"{group} {near.reading.title} ({near.groups[group]:.3f})")
    text.append(f"Nearest in one group alone: {'; '.join(alone)}.")
    lost = sum(1 for one in found if one.lost)
    text.append(f"{lost} of {len(found)} readings diverge in some run of some figure.")
    for key, what in (("gaussian", "A Gaussian W0"), ("bias", "A bias")):
        plain = {
            (r.divisor, r.mu): one.overall
            for one in found
            for r in [one.reading]
            if not (r.gaussian or r.bias)
        }
        changes = [
            one.overall - plain[one.reading.divisor, one.reading.mu]
            for one in found
            if getattr(one.reading, key) and (one.reading.divisor, one.reading.mu) in plain
        ]
        if changes:
            nearer = sum(change < 0 for change in changes)
            text.append(
                f"{what} changes the distance by {mean(changes):+.3f} on average, and lowers it for "
                f"{nearer} of {len(changes)} readings."
            )
    text += _without(study, [one.reading for one in found])
    if missing := len(readings(study)) - len(found):
        text.append(f"{missing} readings are not measured yet.")
    return " ".join(text)


def _without(study: Study, every: list[Reading]) -> list[str]:
    """Whether similar or dissimilar pairs matter more: how many readings agree with the paper."""
    similar, dissimilar = (target for target in targets(study) if target.group == WITHOUT)
    agree: list[bool] = []
    for reading in every:
        (first, lost), (second, gone) = (entry(study, reading, one) for one in (similar, dissimilar))
        if first and second and not (lost or gone or reading.gaussian or reading.bias):
            agree.append((first.mean < second.mean) == (similar.figure < dissimilar.figure))
    if not agree:
        return []
    less, more = sorted((similar, dissimilar), key=lambda one: one.figure)
    return [
        f"The printed mAP is lower with {less.text} ({less.figure:.3f}) than with {more.text} ({more.figure:.3f}): so "
        f"it is in {sum(agree)} of the {len(agree)} readings with W0 of unit length and no bias that stay finite there."
    ]


def _verdict(study: Study, found: list[Distances]) -> tuple[Verdict, str]:
    """The claim holds if the printed equations are near in every group, and in part if another reading is."""
    near = [one for one in found if max(one.groups.values()) <= NEAR]
    first = found[0]
    far = [f"{group} {away:.3f}" for group, away in first.groups.items() if away > NEAR]
    brief = f"The nearest reading is {first.reading.title}, {first.overall:.3f} from the printed figures"
    brief += f"; beyond {NEAR}: {words(far)}." if far else "."
    closest = min(found, key=lambda one: one.numbers)
    if closest is not first:
        brief += f" Without the sweep of n_t it is {closest.reading.title}, {closest.numbers:.3f}."
    if any(one.reading.divisor == "none" for one in near):
        return "holds", brief
    return ("holds in part" if near else "does not hold"), brief


def _notes(study: Study) -> tuple[str, ...]:
    name = figures_of(study.dataset)
    table, text = PRINTED_MU[name]
    notes = [
        "The printed equations sum over pairs. “terms / n_c”, “/ n_t” and “/ r” divide both inner-product terms by the "
        "rows of the class, the rows of the batch and the bits; “terms / r²” divides the inner products by r before "
        "they are compared with ±1; “means over pairs” divides each term by the number of its pairs, n_c² and "
        f"n_c (n_t - n_c). Each with both printed values of μ: Table III has {table:g} for {NAMES[name]}, the text "
        f"{text:g}. None is chosen by us; a row of the table is one reading with one μ.",
        "W0 is “normal Gaussian” in the paper: with the entries as drawn, or with columns of unit length, as in the "
        "programs of the other methods. A bias is a column of ones, appended to the unit-length rows. These two vary "
        "one at a time.",
        "The distance in a group is the mean absolute difference between the mean over runs and the printed figure. "
        "Every run that diverged counts as far as the whole printed figure, the worst possible. The figures of the "
        "sweep of n_t are in a plot of the paper only, and of that only the sentence was at hand, that mAP falls as "
        f"n_t grows: here the distance is by how much mAP rises from each n_t to the next, from 100 to "
        f"{', '.join(f'{size:,}' for size in SIZES)}, at {BITS} bits. A reading that "
        "learns nothing is at distance 0 there. The groups count alike.",
        "This compares figures of test queries, to find out how the paper's were made. No default is chosen by it.",
    ]
    comparable = counterpart(study.dataset).comparable
    if not comparable or study.scale.runs == 1:
        notes.append(
            "Only W0 with columns of unit length and no bias: the others are compared on MNIST, in full."
        )
    if not comparable:
        notes.append(
            f"The paper's figures were measured on its {NAMES[name]} features, ours on {study.dataset}: the distances "
            "can rank readings, but none of them can be expected to be small."
        )
    return tuple(notes)


# ---- the figure

STYLES: dict[str, dict[str, Any]] = {
    "none": {"color": "#666666", "marker": "s", "linestyle": (0, (4, 1.5))},
    "class": {"color": "#117733", "marker": "v", "linestyle": "-"},
    "batch": {"color": "#d55e00", "marker": "^", "linestyle": "-"},
    "bits": {"color": "#0b5fa5", "marker": "o", "linestyle": "-"},
    "inner": {"color": "#882255", "marker": "P", "linestyle": (0, (1, 1))},
    "pairs": {"color": "#b8860b", "marker": "X", "linestyle": (0, (1, 1))},
}


def figure(study: Study, best: list[Distances]) -> Figure:
    """Three panels: the two tables of accuracy by code length, and all other figures."""
    every = targets(study)
    some = [target for target in every if target.group in (SWEEP, WITHOUT, EARLY)]
    if some[0].after:
        some = [some[0].after, *some]
    panels = {
        study.headline: [target for target in every if target.group == MAP],
        PRECISION: [target for target in every if target.group == PRECISION],
        f"{study.headline}, other settings": some,
    }
    drawing = pictures.new_figure(12, 4.4)
    axes: Axes
    grid = drawing.subplots(1, 3, sharey=True)
    for axes, (title, these) in zip(grid, panels.items(), strict=True):
        for shift, one in enumerate(best):
            entries = [entry(study, one.reading, target) for target in these]
            style = {**STYLES[one.reading.divisor], **({"linestyle": "none"} if these is some else {})}
            draw_sweep(axes, entries, style, one.reading.title, 0.03 * shift)
        known = [(i, t.figure) for i, t in enumerate(these) if not t.after]
        axes.plot(
            *zip(*known, strict=True), "D" if these is some else "D-", label=column(study.dataset),
            color=pictures.INK, markerfacecolor="white", markersize=7, zorder=5,
        )  # fmt: skip
        texts = [target.text.removesuffix(" bits") if these is not some else target.text for target in these]
        axes.set_xticks(range(len(these)), texts, fontsize=8, rotation=0 if these is not some else 35)
        axes.set_xlim(-0.4, len(these) - 0.6)
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
        pictures.tidy(axes)
    for axes in grid[:2]:
        axes.set_xlabel("bits")
    grid[0].set_ylim(bottom=0)
    handles, labels = grid[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    pictures.heading(drawing, f"Readings of FCOH's equations and the printed figures, {study.dataset}")
    return drawing


EXPERIMENT = Experiment(
    NAME, "readings of the equations, by their distance to all printed figures at once", measure, show, fits
)
