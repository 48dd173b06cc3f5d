"""Figures made of results. They are `Figure` objects of their own: no pyplot, no state, no display needed."""

from hashstream.pictures.demo import learning_curves, neighbour_grid
from hashstream.pictures.export import save, svg
from hashstream.pictures.lines import line_panels
from hashstream.pictures.styles import COLOURS, Style, heading, logarithmic, style, tidy, under

__all__ = [
    "COLOURS",
    "Style",
    "heading",
    "learning_curves",
    "line_panels",
    "logarithmic",
    "neighbour_grid",
    "save",
    "style",
    "svg",
    "tidy",
    "under",
]
