"""fig-parameters: FCOH at 32 bits as n_t, lambda1, lambda2 and mu vary one at a time, compared with our defaults.

Three readings of the paper are swept, because the printed one diverges for many settings: the equations as printed, and
with the inner-product terms divided by the number of bits, or by the number of rows in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hashstream import pictures
from hashstream.evaluate import Job
from hashstream.hashers import FCOH, methods
from hashstream.paper.comparability import NAMES, column, counterpart, figures_of, on_the_data
from hashstream.paper.format import cell, measured, over
from hashstream.paper.printed import printed
from hashstream.paper.section import Experiment, Section, Sheet, Verdict
from hashstream.paper.study import Study, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, BITS = "fig-parameters", 32

READINGS = {"none": "as printed", "bits": "terms / r", "batch": "terms / n_t"}
"""gradient_scale -> the name of the reading."""

CHOSEN: dict[str, dict[str, float]] = {
    "mnist": {"batch_size": 100, "lambda1": 1e-1, "lambda2": 1e-2},
    "cifar10": {"batch_size": 100, "lambda1": 1e-2, "lambda2": 1e-2},
    "places205": {"batch_size": 1000, "lambda1": 1e-1, "lambda2": 1e-1},
}
"""Table III, without mu."""
PRINTED_MU: dict[str, tuple[float, ...]] = {
    "mnist": (1e-2, 1e-1),
    "cifar10": (1e-1, 1e-2),
    "places205": (1e-4,),
}
"""mu: from Table III, then from the text where that disagrees."""
MU: dict[str, dict[str, float]] = {
    "none": {"mnist": 1e-2, "cifar10": 1e-2, "places205": 1e-4},
    "bits": {"mnist": 1e-1, "cifar10": 1e-1, "places205": 1e-4},
    "batch": {"mnist": 1e-1, "cifar10": 1e-1, "places205": 1e-1},
}
"""mu while the other parameters vary: the larger of the printed values with which a reading does not diverge. On
Places205, where 1e-4 is printed, a thousand times that for terms divided by its thousand rows."""

SYMBOLS = {"batch_size": "n_t", "lambda1": "λ1", "lambda2": "λ2", "learning_rate": "μ"}
POWERS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
GRID: dict[str, tuple[float, ...]] = {
    "batch_size": (100, 200, 500, 1000, 1500, 2000),
    "lambda1": (0, *POWERS, 1),
    "lambda2": (0, *POWERS, 1),
    "learning_rate": POWERS,
}
FEW: dict[str, tuple[float, ...]] = {
    "batch_size": (100, 500, 1000, 2000),
    "lambda1": (0, 1e-4, 1e-2, 1e-1, 1),
    "lambda2": (0, 1e-4, 1e-2, 1e-1, 1),
    "learning_rate": (1e-4, 1e-3, 1e-2, 1e-1),
}
"""The values at a scale of one run."""


def centre(dataset: str, reading: str) -> dict[str, Any]:
    """The setting around which a reading is swept: the paper's, or MNIST's where the paper has none for the data.

    >>> centre("mnist", "none")["learning_rate"], centre("mnist", "bits")["learning_rate"]
    (0.01, 0.1)
    """
    name = counterpart(dataset).name or "mnist"
    chosen: dict[str, Any] = {**CHOSEN[name], "learning_rate": MU[reading][name], "gradient_scale": reading}
    return chosen


def grid(study: Study) -> dict[str, tuple[float, ...]]:
    """The values of each parameter at the study's scale; n_t only up to the distance of two checkpoints."""
    every = GRID if study.scale.runs > 1 else FEW
    sizes = tuple(n for n in every["batch_size"] if n <= study.data.setting.every)
    return {**every, "batch_size": sizes or every["batch_size"][:1]}


@dataclass(frozen=True)
class Point:
    """One setting of a sweep: `parameter` at `value`, all others at the centre of the reading."""

    parameter: str
    value: float
    reading: str
    settings: dict[str, Any]

    def job(self, run: int) -> Job:
        return Job("FCOH", methods()["FCOH"], BITS, run, self.settings)

    @property
    def label(self) -> str:
        return self.job(0).label


def points(study: Study) -> list[Point]:
    """Every setting of the figure; the centre of a reading is part of all four sweeps."""
    return [
        Point(parameter, value, reading, {**centre(study.dataset, reading), parameter: value})
        for reading in READINGS
        for parameter, values in grid(study).items()
        for value in values
    ]


def measure(study: Study) -> None:
    """Every setting, and FCOH with our defaults, at the end of the stream."""
    settings = {point.label: point for point in points(study)}
    jobs = [
        job
        for run in range(study.scale.runs)
        for job in (
            *(point.job(run) for point in settings.values()),
            Job("FCOH", methods()["FCOH"], BITS, run),
        )
    ]
    study.measure("parameters: ", jobs, checkpoints=[study.stream])


def show(study: Study) -> Section:
    metric, name = study.headline, figures_of(study.dataset)
    auto = study.values("FCOH", metric, bits=BITS)
    found = {
        (p.parameter, p.reading, p.value): (
            study.values(p.label, metric, bits=BITS),
            study.divergences(p.label, BITS, study.stream),
        )
        for p in points(study)
    }
    if not any(value for value, _ in found.values()):
        return Section(
            NAME, TITLE, CLAIM, "Nothing is measured yet.", notes=_notes(study), brief="Not measured yet."
        )
    rows = []
    for parameter, values in grid(study).items():
        for value in values:
            cells = [measured(*found[parameter, reading, value]) for reading in READINGS]
            theirs = (cell(_printed(name, parameter, value, metric)),) if name else ()
            rows.append((SYMBOLS[parameter], f"{value:g}", *cells, *theirs))
    sheet = Sheet(
        f"{metric} at {BITS} bits, {over(study)}; auto, which has none of these parameters: {cell(auto)}",
        ("parameter", "value", *READINGS.values(), *((column(study.dataset),) if name else ())),
        tuple(rows),
    )
    return Section(
        NAME,
        TITLE,
        CLAIM,
        finding(study, found, auto),
        (sheet,),
        {NAME: figure(study, found, auto)},
        {
            NAME: "Each panel varies one parameter; the others stay at the paper's setting (for μ see the notes). "
            "Crosses at the bottom: some run diverged, and a line above them shows the others."
            + (" Diamonds: the figures that the paper prints." if name else "")
        },
        _notes(study),
        *_verdict(study, found),
    )


def _verdict(study: Study, found: Found) -> tuple[Verdict, str]:
    """The claims are that both terms are needed, and that the printed setting works. The first is tested in the reading
    of FCOH (paper), the second as printed."""
    printed_lost = sum(bool(lost) for (_, reading, _), (_, lost) in found.items() if reading == "none")
    settings = sum(reading == "none" for _, reading, _ in found)
    reading = str(FCOH.from_paper(counterpart(study.dataset).name or "mnist", BITS).gradient_scale)
    base = found["lambda1", reading, centre(study.dataset, reading)["lambda1"]][0]
    without = [found[parameter, reading, 0][0] for parameter in ("lambda1", "lambda2")]
    if base is None:
        return "undecided", f"As printed, {printed_lost} of {settings} settings diverge."
    costs = [base.mean - value.mean if value else None for value in without]
    brief = (
        f"Without similar pairs {_cost(costs[0])}, without dissimilar ones {_cost(costs[1])} "
        f"({READINGS[reading]}); as printed, {printed_lost} of {settings} settings diverge."
    )
    needed = [cost is None or cost > 0.03 for cost in costs]
    if all(needed):
        return ("holds in part" if printed_lost else "holds"), brief
    return ("holds in part" if any(needed) else "does not hold"), brief


def _cost(cost: float | None) -> str:
    return "it diverges" if cost is None else f"{-cost:+.3f}"


TITLE = "Parameters: n_t, λ1, λ2 and μ"
CLAIM = (
    "At 32 bits mAP falls as n_t grows on CIFAR-10 and MNIST and is best near 1,000 on Places205; leaving out similar "
    "pairs (λ1 = 0) or dissimilar ones (λ2 = 0) costs much; μ matters, and λ1, λ2 and μ are found among the powers of "
    "ten from 1e-5 to 1e-1."
)


def _notes(study: Study) -> tuple[str, ...]:
    name = counterpart(study.dataset).name or "mnist"
    used = ", ".join(f"{MU[reading][name]:g} ({title})" for reading, title in READINGS.items())
    table, *text = PRINTED_MU[name]
    said = f"Table III prints μ = {table:g} for {NAMES[name]}"
    said += f", the text {text[0]:g}" if text else ", and the text agrees"
    every = study.data.setting.every
    odd = [f"{n:,.0f}" for n in grid(study)["batch_size"] if every % n]
    cut = f"A batch ends at a checkpoint, and there is one every {every:,} rows: with n_t = {', '.join(odd)} the last "
    cut += "batch before each is shorter."
    return (
        "“As printed” means the paper's equations; “terms / r” and “terms / n_t” divide both inner-product terms by "
        "the number of bits, or by the number of rows in a batch. The largest step that does not diverge shrinks with "
        "the number of bits and with the rows of a class: with the printed equations no single μ works for all of 8 to "
        "128 bits and all n_t, and only terms / n_t survives the paper's sweep of n_t.",
        f"{said}. While the other parameters vary, μ is {used}.",
        *([cut] if odd else []),
        "“auto” is FCOH without any of these four parameters: the step size follows from the curvature, the weight of "
        "dissimilar pairs from their number, and large batches are learned in pieces of 100.",
        *on_the_data(study.dataset),
    )


Found = dict[tuple[str, str, float], tuple[Value | None, dict[int, int]]]
"""(parameter, reading, value) -> the figure, and the runs that diverged: run -> after how many rows."""


def _printed(name: str, parameter: str, value: float, metric: str) -> float | None:
    """The paper's figure for a setting: with one term left out, or with the values that it chose."""
    if not name:
        return None
    if value == 0:
        return printed(name, f"FCOH {parameter}=0", metric, BITS)
    chosen = PRINTED_MU[name] if parameter == "learning_rate" else (CHOSEN[name][parameter],)
    return printed(name, "FCOH", metric, BITS) if value in chosen else None


def finding(study: Study, found: Found, auto: Value | None) -> str:
    """For each reading: how many settings diverged, the best figure, and the cost of leaving a term out."""
    text = []
    for reading, title in READINGS.items():
        mine = {key: entry for key, entry in found.items() if key[1] == reading}
        lost = sum(1 for _, diverged in mine.values() if diverged)
        text.append(f"{title[0].upper()}{title[1:]}: {lost} of {len(mine)} settings diverge.")
        finite = [(value.mean, key) for key, (value, _) in mine.items() if value]
        if finite:
            best, at = max(finite)
            counted = getattr(mine[at][0], "counted", "")
            some = f", {counted}" if counted else ""
            text.append(f"The best figure is {best:.3f} ({SYMBOLS[at[0]]} = {at[2]:g}{some}).")
        base = mine["lambda1", reading, centre(study.dataset, reading)["lambda1"]][0]
        without = [mine[parameter, reading, 0][0] for parameter in ("lambda1", "lambda2")]
        if base:
            lambdas = " and ".join(
                f"{cell(value)} with {SYMBOLS[parameter]} = 0"
                for parameter, value in zip(("lambda1", "lambda2"), without, strict=True)
            )
            text.append(f"At the paper's setting {base.mean:.3f}; {lambdas}.")
    name = figures_of(study.dataset)
    if name:
        theirs = [
            printed(name, row, study.headline, BITS) for row in ("FCOH", "FCOH lambda1=0", "FCOH lambda2=0")
        ]
        text.append(
            f"The {column(study.dataset)}: {cell(theirs[0])}, {cell(theirs[1])} and {cell(theirs[2])}."
        )
    if auto:
        above = sum(1 for value, _ in found.values() if value and value.mean > auto.mean)
        text.append(f"Auto reaches {auto}; {above} of {len(found)} swept settings are above it.")
    return " ".join(text)


# ---- the figure


def figure(study: Study, found: Found, auto: Value | None) -> Figure:
    """Four panels with a common y axis, one per parameter."""
    blue = pictures.style("FCOH").colour
    styles: dict[str, dict[str, Any]] = {
        "none": {"color": "#666666", "marker": "s", "linestyle": (0, (4, 1.5))},
        "bits": {
            "color": blue,
            "marker": "o",
            "linestyle": (0, (4, 1.5)),
            "markerfacecolor": "white",
        },
        "batch": {"color": "#a0a0a0", "marker": "^", "linestyle": (0, (1, 1))},
    }
    drawing = pictures.new_figure(12, 3.9)
    grid_axes = drawing.subplots(1, 4, sharey=True)
    metric, name = study.headline, figures_of(study.dataset)
    for axes, (parameter, values) in zip(grid_axes, grid(study).items(), strict=True):
        if auto:
            spread = auto.spread if len(auto.runs) > 1 else 0.0
            axes.axhspan(auto.mean - spread, auto.mean + spread, color=blue, alpha=0.15, linewidth=0)
            axes.axhline(auto.mean, color=blue, linewidth=1.8, label="auto")
        for shift, (reading, title) in enumerate(READINGS.items()):
            draw_sweep(
                axes, [found[parameter, reading, v] for v in values], styles[reading], title, 0.04 * shift
            )
        theirs = [(i, p) for i, v in enumerate(values) if (p := _printed(name, parameter, v, metric))]
        if theirs:
            x, y = zip(*theirs, strict=True)
            axes.plot(
                x, y, "D", label=column(study.dataset), color=pictures.INK, markerfacecolor="white", markersize=7,
                zorder=5,
            )  # fmt: skip
        axes.set_xticks(range(len(values)), [f"{v:g}" for v in values], fontsize=8, rotation=35)
        axes.set_xlim(-0.4, len(values) - 0.6)
        axes.set_title(SYMBOLS[parameter], loc="left", fontsize=11, fontweight="bold")
        pictures.tidy(axes)
    grid_axes[0].set_ylabel(metric)
    grid_axes[0].set_ylim(bottom=0)
    handles, labels = grid_axes[1].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    pictures.heading(drawing, f"{metric} of FCOH at {BITS} bits, {study.dataset}, as one parameter varies")
    return drawing


def draw_sweep(
    axes: Axes,
    entries: list[tuple[Value | None, dict[int, int]]],
    style: dict[str, Any],
    title: str,
    height: float,
) -> None:
    """The line of a reading with its spread, and crosses at the bottom where runs diverged."""
    places = [i for i, (value, _) in enumerate(entries) if value]
    values = [entry for entry, _ in entries if entry]
    spread = [v.spread if len(v.runs) > 1 else 0.0 for v in values]
    axes.errorbar(
        places, [v.mean for v in values], spread, linewidth=1.7, markersize=5, capsize=2, label=title, **style
    )
    lost = [i for i, (_, diverged) in enumerate(entries) if diverged]
    axes.plot(
        lost,
        [0.02 + height] * len(lost),
        "x",
        color=style["color"],
        markersize=7,
        markeredgewidth=2,
        transform=axes.get_xaxis_transform(),
    )


EXPERIMENT = Experiment(
    NAME, "sweeps of n_t, lambda1, lambda2 and mu at 32 bits, compared with our defaults", measure, show
)
