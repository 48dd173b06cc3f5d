"""The two figures of `hashstream demo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hashstream.pictures.figure import INK, PALE, SOFT, new_figure, tidy
from hashstream.pictures.lines import spread
from hashstream.pictures.styles import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAME, OTHER = "#1a9850", "#d7301f"
SIGNAL = "#b2182b"


def learning_curves(
    curves: Mapping[str, Sequence[tuple[int, float]]],
    *,
    untrained: tuple[str, float],
    title: str,
    subtitle: str,
    unit: str = "training instances",
    above: tuple[str, Sequence[tuple[int, float]]] | None = None,
    event: tuple[int, str] | None = None,
) -> Figure:
    """mAP against training instances, each line named at its end.

    curves: method -> points (n_train, mAP). untrained: name and mAP of a method that does not learn, a level line.
    above: name and points of a pale line; the gap between it and the first curve is filled. event: n_train and name of
    an event.
    """
    figure = new_figure(7.5, 4.4)
    axes = figure.add_subplot()
    last = max(n for points in curves.values() for n, _ in points)
    name, level = untrained
    ends = {name: level}
    axes.plot([0, last], [level, level], color=COLOURS["LSH"], linewidth=2, linestyle=(0, (5, 2)))
    if event is not None:
        axes.axvline(event[0], color=SIGNAL, linewidth=1.2, linestyle=(0, (2, 2)), zorder=1)
        axes.annotate(
            event[1], (event[0], 0.06), (6, 0), textcoords="offset points", va="center", color=SIGNAL
        )
    if above is not None:
        first, points = next(iter(curves.items()))
        _draw_above(axes, *above, points, COLOURS.get(first, INK))
    lowest = min(points[0] for points in curves.values())
    for line, (method, points) in enumerate(curves.items()):
        n, value = zip(*points, strict=True)
        colour = COLOURS.get(method, INK)
        axes.plot(n, value, color=colour, linewidth=2.5, marker="o", markersize=5, clip_on=False, zorder=3)
        axes.annotate(  # below all curves, which rise from here
            f"{value[0]:.2f} after {n[0]:,}",
            lowest,
            (8, -5 - 13 * line),
            textcoords="offset points",
            color=colour,
        )
        ends[method] = value[-1]
    for label, place in spread(ends, 0.14, 1.0).items():
        axes.annotate(
            f"{label}\n{ends[label]:.3f}",
            (last, place),
            (10, 0),
            textcoords="offset points",
            va="center",
            color=COLOURS.get(label, COLOURS["LSH"] if label == name else INK),
            fontweight="bold",
            linespacing=1.3,
        )
    axes.set_xlim(0, last)
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
    axes.set_xlabel(unit)
    axes.set_ylabel("mAP")
    tidy(axes, size=10)
    _head(axes, title, subtitle)
    return figure


def _draw_above(
    axes: Axes,
    name: str,
    points: Sequence[tuple[int, float]],
    first: Sequence[tuple[int, float]],
    colour: str,
) -> None:
    """Draw the pale line, the gap below it, and its name."""
    n, value = np.array(points, float).T
    below = np.array(first, float)[:, 1]
    axes.fill_between(n, below, value, color=colour, alpha=0.2, linewidth=0)
    axes.plot(n, value, color=colour, alpha=0.5, linewidth=1.5, zorder=2)
    axes.annotate(
        name, (n[0], value.max()), (0, 4), textcoords="offset points", color=colour, alpha=0.7, fontsize=9
    )


def _head(axes: Axes, title: str, subtitle: str) -> None:
    """Two lines above the axes, aligned with their left side; the layout makes room for them."""
    styles: tuple[tuple[str, float, dict[str, Any]], ...] = (
        (title, 30, {"fontsize": 13, "fontweight": "bold", "color": INK}),
        (subtitle, 14, {"fontsize": 9.5, "color": SOFT}),
    )
    for text, above, style in styles:
        axes.annotate(text, (0, 1), (0, above), xycoords="axes fraction", textcoords="offset points", **style)


def neighbour_grid(
    queries: np.ndarray,
    query_labels: np.ndarray,
    neighbours: np.ndarray,
    neighbour_labels: np.ndarray,
    distances: np.ndarray,
    *,
    title: str,
    subtitle: str,
) -> Figure:
    """One row per query: the query, and its nearest neighbours, nearest first.

    queries: (q, height, width) images. neighbours: (q, k, height, width). query_labels: (q,),
    neighbour_labels: (q, k). distances: (q, k), written under each neighbour. A neighbour of the query's
    class has a green frame, any other a dashed red one.
    """

    q, k = distances.shape
    cell, row, gap = 1.16, 1.38, 0.55  # an image is 1 wide
    width, height = 1 + gap + k * cell, q * row
    figure = new_figure(max(0.62 * width, 6.7), 0.62 * height + 1.0)  # not narrower than the subtitle
    from matplotlib.patches import Rectangle

    axes = figure.add_subplot()
    lightest, darkest = (
        float(min(queries.min(), neighbours.min())),
        float(max(queries.max(), neighbours.max())),
    )

    def draw(image: np.ndarray, x: float, y: float) -> None:
        axes.imshow(
            image,
            extent=(x, x + 1, y, y + 1),
            cmap="gray_r",
            vmin=lightest,
            vmax=darkest,
            interpolation="nearest",
            origin="upper",
        )

    for i in range(q):
        y = (q - 1 - i) * row + 0.3
        draw(queries[i], 0, y)
        axes.add_patch(Rectangle((0, y), 1, 1, fill=False, edgecolor=INK, linewidth=1.2))
        axes.text(0.5, y - 0.06, f"class {query_labels[i]}", ha="center", va="top", fontsize=8, color=INK)
        for j in range(k):
            x = 1 + gap + j * cell
            same = neighbour_labels[i, j] == query_labels[i]
            colour = SAME if same else OTHER
            draw(neighbours[i, j], x, y)
            style, weight = ("-", 2.2) if same else ((0, (3, 1.2)), 3.0)
            axes.add_patch(
                Rectangle((x, y), 1, 1, fill=False, edgecolor=colour, linewidth=weight, linestyle=style)
            )
            axes.text(
                x + 0.5,
                y - 0.06,
                f"{distances[i, j]}",
                ha="center",
                va="top",
                fontsize=8,
                color=SOFT if same else OTHER,
                fontweight="normal" if same else "bold",
            )
    axes.text(0.5, height + 0.02, "query", ha="center", va="bottom", fontsize=9, color=INK)
    axes.text(
        1 + gap,
        height + 0.02,
        "nearest neighbours, Hamming distance below",
        va="bottom",
        fontsize=9,
        color=INK,
    )
    axes.plot([1 + gap / 2] * 2, [0, height - 0.1], color=PALE, linewidth=1)
    axes.set_xlim(-0.05, width)
    axes.set_ylim(-0.1, height + 0.45)
    axes.set_aspect("equal")
    axes.axis("off")
    _head(axes, title, subtitle)
    return figure
