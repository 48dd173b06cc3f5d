"""fig-convergence: where W goes with and without class-wise updating, two classes in the plane and one bit.

With two features and one bit, W is a point w of the plane, and the paper's picture can be drawn as it is: W1 the start,
W2 after one update with both classes together, W3 and W4 after one for each class in turn. The loss is the paper's, a
mean over pairs, with one of the two codes relaxed so that it has contours:

    L(w) = mean over i, j of (p_i b_j - S_ij)^2,  p = X w,  b = sgn(p),  S_ij = 1 for one class and -1 for two

Codes alone, L with b_i for p_i, are judged as well. One picture proves little, so the same is done for many draws of
data and start, and what is counted is in how many of them the classes' turns end lower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hashstream.paper.study import Experiment, Section, Sheet, Study, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "STEPS", "Start", "code_loss", "discrete_step", "draw", "loss", "path", "semi_step"]

NAME = "fig-convergence"
DRAWS, ROWS, BATCHES = 200, 100, 10
FIT_WEIGHT, RIDGE = 1.0, 10.0
"""nu, and lambda in units of the mean squared length of a row: the defaults of FCOH's discrete variant."""
SHORT, LONG = 0.5, 1.5
"""Lengths of semi-relaxed steps in units of 1 / (curvature of the loss over both classes). From 2 on, steps with both
classes together run away."""


# ---- data and losses


@dataclass(frozen=True)
class Start:
    """A draw: batches (X (n, 2), y (n,) of 0 and 1), one more to judge on, and W1 (2,)."""

    batches: list[tuple[np.ndarray, np.ndarray]]
    judge: tuple[np.ndarray, np.ndarray]
    w: np.ndarray


def draw(seed: int) -> Start:
    """Two Gaussian classes of equal size, 1 to 4 apart in a random direction, centred; W1 a random unit vector."""
    rng = np.random.default_rng((2022, seed))
    apart, spread = rng.uniform(1.0, 4.0), rng.uniform(0.3, 1.0)
    means = np.outer([-0.5, 0.5], apart * unit(rng))
    y = np.repeat([0, 1], ROWS // 2)
    batches = [(means[y] + spread * rng.standard_normal((ROWS, 2)), y) for _ in range(BATCHES + 1)]
    return Start(batches[:-1], batches[-1], unit(rng))


def unit(rng: np.random.Generator) -> np.ndarray:
    v = rng.standard_normal(2)
    direction: np.ndarray = v / np.linalg.norm(v)
    return direction


def loss(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """L of each of the w (2, ...), one of the two codes relaxed; without forming pairs."""
    p = np.tensordot(X, w, 1)
    return _pairs(p, sign(p), y)


def code_loss(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same of the codes themselves: 4 times the share of pairs that are on the wrong side of each other."""
    b = sign(np.tensordot(X, w, 1))
    return _pairs(b, b, y)


def _pairs(p: np.ndarray, b: np.ndarray, y: np.ndarray) -> np.ndarray:
    """mean over i, j of (p_i b_j - S_ij)^2, for p and b (n, ...)."""
    n, first = len(y), y == 0
    difference = (p[first].sum(axis=0) - p[~first].sum(axis=0)) * (
        b[first].sum(axis=0) - b[~first].sum(axis=0)
    )
    result: np.ndarray = np.mean(p**2, axis=0) - 2 * difference / n**2 + 1
    return result


def sign(p: np.ndarray) -> np.ndarray:
    return np.where(p > 0, 1.0, -1.0)


# ---- updates

Step = Callable[[np.ndarray, np.ndarray, np.ndarray, list[int], np.ndarray, float], np.ndarray]
"""(w, X, y, the classes whose turn it is, running class means (2, 2), mu) -> w after their update."""


def discrete_step(
    w: np.ndarray, X: np.ndarray, y: np.ndarray, turn: list[int], means: np.ndarray, mu: float
) -> np.ndarray:
    """Codes by discrete cyclic coordinate descent (with one bit, one decision for each sample), then w fitted to them
    from where it was: FCOH_C's step. `means` and `mu` play no part."""
    p = X @ w
    b = sign(p)
    wanted = np.empty_like(p)
    for c in turn:
        own = y == c
        wanted[own] = sign(b[own].sum() - b[~own].sum() + FIT_WEIGHT * p[own])
    rows = np.isin(y, turn)
    Z, ridge = X[rows], RIDGE * np.mean(np.sum(X**2, axis=1)) / FIT_WEIGHT
    moved: np.ndarray = w + np.linalg.solve(Z.T @ Z + ridge * np.eye(2), Z.T @ (wanted[rows] - p[rows]))
    return moved


def semi_step(
    w: np.ndarray, X: np.ndarray, y: np.ndarray, turn: list[int], means: np.ndarray, mu: float
) -> np.ndarray:
    """FCOH's gradient step as printed, lambda1 = lambda2 = 1: codes held constant, running class means quantised."""
    p = X @ w
    b = sign(p)
    change = np.zeros(2)
    for c in turn:
        own = y == c
        q = means[c] @ w
        sigma = 1.0 if q > 1 or -1 < q < 0 else -1.0
        errors = np.outer(p[own], b[own]) - 1, np.outer(p[own], b[~own]) + 1
        change += sigma * means[c] + 2 * X[own].T @ (errors[0] @ b[own] + errors[1] @ b[~own])
    moved: np.ndarray = w - mu * change
    return moved


STEPS: dict[str, tuple[Step, float]] = {
    "DCC": (discrete_step, 0.0),
    "semi-relaxation, short step": (semi_step, SHORT),
    "semi-relaxation, long step": (semi_step, LONG),
}
"""How codes are found, as the paper did for its picture and as FCOH does, and the length of the step."""


def path(
    name: str, start: Start, class_wise: bool, batches: int = 1, repeats: int = 1
) -> Iterator[np.ndarray]:
    """W1, then w after each update. repeats: updates of each batch with both classes together."""
    step, length = STEPS[name]
    w, mu = start.w, length / curvature(start.batches[0][0])
    yield w
    sums, counts = np.zeros((2, 2)), np.zeros((2, 1))
    for X, y in start.batches[:batches]:
        for c in (0, 1):
            sums[c] += X[y == c].sum(axis=0)
            counts[c] += np.sum(y == c)
        for turn in [[0], [1]] if class_wise else [[0, 1]] * repeats:
            w = step(w, X, y, turn, sums / counts, mu)
            yield w


def curvature(X: np.ndarray) -> float:
    """Of the sum over all pairs, the codes held constant."""
    return float(2 * len(X) * np.linalg.norm(X, 2) ** 2)


# ---- the experiment

CONTESTS = {
    "one batch": (1, 1),
    "one batch, as many updates": (1, 2),
    f"{BATCHES} batches": (BATCHES, 1),
}
"""Batches, and updates of each with both classes together, where class by class there are two."""
KINDS = ("lower", "equal", "higher")


def measure(study: Study) -> None:
    """The paths of a few draws, and the score over all draws."""
    for name in STEPS:
        for run in range(study.scale.runs):
            start = draw(run)
            for class_wise in (False, True):
                label = _label(name, class_wise)
                for n, w in enumerate(path(name, start, class_wise)):
                    if not _has(study, label, run, n, "loss"):
                        values = {"w0": w[0], "w1": w[1], "loss": loss(w, *start.batches[0])}
                        study.add(NAME, label, 1, run, n, **{k: float(v) for k, v in values.items()})
        for contest, (batches, repeats) in CONTESTS.items():
            label = f"{name}, {contest}"
            if not _has(study, label, 0, DRAWS, "codes_lower"):
                study.add(NAME, label, 1, 0, DRAWS, **_score(name, batches, repeats))


def _score(name: str, batches: int, repeats: int) -> dict[str, float]:
    """In which share of the draws the classes' turns end lower, equal or higher, in L and in the codes' own loss.

    Judged on the batch itself where there is one, otherwise on rows that nobody learned from.
    """
    shares = {f"{what}_{kind}": 0.0 for what in ("loss", "codes") for kind in KINDS}
    for seed in range(DRAWS):
        start = draw(seed)
        data = start.batches[0] if batches == 1 else start.judge
        ends = [list(path(name, start, class_wise, batches, repeats))[-1] for class_wise in (True, False)]
        for what, judge in (("loss", loss), ("codes", code_loss)):
            turns, together = (float(judge(w, *data)) for w in ends)
            difference = 0.0 if abs(turns - together) < 1e-9 else turns - together
            shares[f"{what}_{KINDS[int(np.sign(difference)) + 1]}"] += 1 / DRAWS
    return shares


def _label(name: str, class_wise: bool) -> str:
    return f"{name}, {'class by class' if class_wise else 'together'}"


def _has(study: Study, label: str, run: int, n: int, metric: str) -> bool:
    columns = {"dataset": study.dataset, "protocol": NAME, "method": label, "bits": 1, "run": run}
    return study.results.has([metric], **columns, n_train=n)


def _point(study: Study, label: str, run: int, n: int) -> tuple[float, float, float] | None:
    """w and its loss after n updates."""
    found = [
        study.by_run(label, metric, bits=1, n_train=n, protocol=NAME).get(run)
        for metric in ("w0", "w1", "loss")
    ]
    return None if None in found else tuple(found)  # type: ignore[return-value]


def show(study: Study) -> Section:
    scores: list[tuple[str, ...]] = []
    lower: dict[tuple[str, str], str] = {}
    for name in STEPS:
        for contest in CONTESTS:
            values = [
                study.values(f"{name}, {contest}", f"{what}_{kind}", bits=1, n_train=DRAWS, protocol=NAME)
                for what in ("loss", "codes")
                for kind in KINDS
            ]
            cells = ["-" if value is None else f"{100 * value.mean:.0f} %" for value in values]
            if values[0] is not None:
                scores.append((name, contest, *cells))
                lower[name, contest] = cells[0]
    paths = [
        (
            name,
            str(run),
            *(
                _loss(study, _label(name, cw), run, n)
                for cw, n in ((False, 0), (False, 1), (True, 1), (True, 2))
            ),
        )
        for name in STEPS
        for run in range(study.scale.runs)
        if _point(study, _label(name, True), run, 2)
    ]
    if not scores or not paths:
        return Section(NAME, TITLE, CLAIM, "Nothing is measured yet.", notes=NOTES)
    heads = [f"{what}: {kind}" for what in ("loss", "codes") for kind in KINDS]
    return Section(
        NAME,
        TITLE,
        CLAIM,
        finding(lower),
        (
            Sheet(
                f"Class by class against together: share of {DRAWS} draws of data and start",
                ("codes found by", "after", *heads),
                tuple(scores),
            ),
            Sheet(
                "The loss along the paths of the figure",
                ("codes found by", "draw", "W1", "W2 (together)", "W3 (class 1)", "W4 (then class 2)"),
                tuple(paths),
            ),
        ),
        {NAME: picture(study)},
        {
            NAME: "Contours of the loss of one batch, darker is lower. W1 is the start, W2 one update with both "
            "classes together, W3 and W4 one update for each class in turn. The draws are the first, not chosen."
        },
        NOTES,
        *_verdict(lower),
    )


def _verdict(lower: Mapping[tuple[str, str], str]) -> tuple[Verdict, str]:
    """The claim is of one update each with DCC; it holds in part if it is gone with as many updates on both sides."""
    one, fair, _ = (lower.get(("DCC", contest), "-") for contest in CONTESTS)
    if "-" in (one, fair):
        return "undecided", "Not measured yet."
    brief = (
        f"With DCC class by class ends lower in {one} of the draws, with as many updates for both in {fair}."
    )
    often = [int(share.removesuffix(" %")) > 50 for share in (one, fair)]
    return ("holds" if all(often) else "holds in part" if any(often) else "does not hold"), brief


def finding(lower: Mapping[tuple[str, str], str]) -> str:
    """lower: (how codes are found, after what) -> the share of draws in which class by class ends lower."""
    sentences = []
    for name in STEPS:
        one, fair, many = (lower.get((name, contest), "-") for contest in CONTESTS)
        sentences.append(
            f"{name[0].upper()}{name[1:]}: {one} after one batch, {fair} if both classes together take as many "
            f"updates, {many} after {BATCHES} batches."
        )
    return f"Share of {DRAWS} draws in which class by class ends lower. {' '.join(sentences)}"


def _loss(study: Study, label: str, run: int, n: int) -> str:
    found = _point(study, label, run, n)
    return "-" if found is None else f"{found[2]:.3f}"


TITLE = "Convergence: the path of W, class by class and together"
CLAIM = (
    "On two-class synthetic data, with the codes found by discrete cyclic coordinate descent, updating class by class "
    "(W1, W3, W4) ends at a lower loss than updating with all classes together (W1, W2). The paper shows one draw."
)
NOTES = (
    "The data do not depend on the data set of this report: two Gaussian classes of 50 rows in the plane, random "
    "distance, spread and start, one bit. The paper says neither how its data were made nor of what it drew contours.",
    "Class by class there are two updates, together only one. “As many updates” lets both classes together take two: "
    "what is left of the advantage then is not a matter of counting.",
    f"“{BATCHES} batches” are judged on rows that nobody learned from; one batch on itself. “Codes” is the loss of the "
    "codes alone, which with one bit only depends on the direction of w; often it does not differ at all.",
    f"DCC is the step of FCOH_C, semi-relaxation FCOH's own as printed with λ1 = λ2 = 1; its short step is {SHORT} and "
    f"its long one {LONG} over the curvature of both classes together. As steps get shorter, both orders agree to the "
    "first order and the difference vanishes. One class alone has less curvature, so that a step that is too long for "
    "both together need not be for it: a likely reason for what long steps show.",
)


# ---- the figure


def picture(study: Study) -> Figure:
    """A row of panels for each way to find codes, a column for each draw."""
    from matplotlib.figure import Figure

    from hashstream.pictures import heading

    runs = [run for run in range(study.scale.runs) if _point(study, _label("DCC", True), run, 2)]
    figure = Figure(figsize=(0.4 + 3.5 * len(runs), 0.5 + 3.6 * len(STEPS)), layout="constrained")
    grid = figure.subplots(len(STEPS), len(runs), squeeze=False)
    for row, name in zip(grid, STEPS, strict=True):
        for axes, run in zip(row, runs, strict=True):
            _panel(axes, study, name, run)
    heading(figure, "The path of W: together (W1, W2) and class by class (W1, W3, W4)")
    return figure


def _panel(axes: Axes, study: Study, name: str, run: int) -> None:
    from matplotlib import colormaps

    from hashstream.pictures import COLOURS
    from hashstream.pictures.styles import INK

    X, y = draw(run).batches[0]
    lines = {}
    for class_wise in (False, True):
        label = _label(name, class_wise)
        found = [_point(study, label, run, n) for n in range(3)]
        lines[class_wise] = np.array([point for point in found if point])
    every = np.vstack(list(lines.values()))[:, :2]
    middle, reach = (every.min(0) + every.max(0)) / 2, 0.8 * np.ptp(every, axis=0).max() + 0.05
    w0, w1 = (np.linspace(m - reach, m + reach, 241) for m in middle)
    levels = loss(np.array(np.meshgrid(w0, w1)), X, y)
    # Bands of colour as an image: as many outlines of contours would make a heavy page.
    axes.imshow(
        levels, extent=(w0[0], w0[-1], w1[0], w1[-1]), origin="lower",
        cmap=colormaps["Greys_r"].resampled(18), alpha=0.5, interpolation="none",
    )  # fmt: skip
    for class_wise, colour in ((False, INK), (True, COLOURS["FCOH"])):
        points = lines[class_wise][:, :2]
        for a, b in pairwise(points):
            axes.annotate("", b, a, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2})
        axes.plot(*points.T, "o", color=colour, markersize=4)
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.8, "linewidth": 0}
    for text, class_wise, n, offset in (
        ("W1", False, 0, (-14, 8)),
        ("W2", False, 1, (-16, -14)),
        ("W3", True, 1, (-4, 10)),
        ("W4", True, 2, (9, -3)),
    ):
        colour = COLOURS["FCOH"] if class_wise else INK
        axes.annotate(
            text, lines[class_wise][n][:2], offset, textcoords="offset points", fontsize=8.5,
            color=colour, fontweight="bold", bbox=box,
        )  # fmt: skip
    axes.set_xlim(w0[0], w0[-1])
    axes.set_ylim(w1[0], w1[-1])
    axes.set_aspect("equal")
    axes.set_title(f"{name}, draw {run}", loc="left", fontsize=9, fontweight="bold")
    axes.tick_params(labelsize=7)


EXPERIMENT = Experiment(
    NAME, "two synthetic classes: the path of W with and without class-wise updating", measure, show
)
