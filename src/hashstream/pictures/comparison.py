"""The figure of a comparison of methods, as `hashstream bench` draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hashstream.evaluate import Comparison
from hashstream.evaluate.protocols import plain_name
from hashstream.pictures.lines import Points, line_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["comparison_curves"]


def comparison_curves(compared: Comparison) -> Figure | None:
    """Curves along the stream, one panel per code length and metric, methods in the order of the comparison.

    With a single checkpoint, along the code lengths instead. A band has the height of the standard deviation over runs
    on either side. There is no title: the figure is meant to have a caption. None if nothing was measured.
    """
    along_bits = len({one.n_train for one in compared.curves}) == 1
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    bands: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for one in sorted(compared.curves, key=lambda one: one.bits):  # the order of methods stays
        place = f"after {one.n_train:,} rows" if along_bits else f"{one.bits} bits"
        metric = f", {one.metric}" if len(compared.drawn) > 1 else ""
        panel = f"{plain_name(compared.dataset)}, {place}{metric}"
        x = one.bits if along_bits else one.n_train
        panels.setdefault(panel, {}).setdefault(one.method, []).append((x, one.mean))
        if one.spread > 0:  # NaN for a single run
            bands.setdefault(panel, {}).setdefault(one.method, []).append((x, one.spread))
    if not panels:
        return None
    lost = [f"{row.method}, {row.bits} bits ({len(row.diverged)})" for row in compared.rows if row.diverged]
    lines: dict[str, dict[str, Points]] = {panel: dict(found) for panel, found in panels.items()}
    return line_panels(
        lines,
        x="bits" if along_bits else "training instances",
        y=compared.drawn[0] if len(compared.drawn) == 1 else "mAP",
        title="",
        subtitle="",
        in_turn=along_bits,
        legend=True,
        bands={panel: dict(found) for panel, found in bands.items()},
        note=f"Without the runs that diverged: {', '.join(lost)}." if lost else "",
    )
