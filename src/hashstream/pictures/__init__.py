"""Figures of results, as matplotlib `Figure` objects: no pyplot, no global state, no display needed.

They need the extra `hashstream[plots]`; matplotlib is imported when the first figure is drawn.
"""

from hashstream.pictures.cluster import cluster_run
from hashstream.pictures.comparison import comparison_curves
from hashstream.pictures.demo import learning_curves, neighbour_grid
from hashstream.pictures.export import read_off, save, svg
from hashstream.pictures.figure import (
    INK,
    heading,
    logarithmic,
    new_figure,
    tidy,
    under,
)
from hashstream.pictures.lines import line_panels
from hashstream.pictures.styles import COLOURS, Style, style, styles

__all__ = [
    "COLOURS",
    "INK",
    "Style",
    "cluster_run",
    "comparison_curves",
    "heading",
    "learning_curves",
    "line_panels",
    "logarithmic",
    "neighbour_grid",
    "new_figure",
    "read_off",
    "save",
    "style",
    "styles",
    "svg",
    "tidy",
    "under",
]
