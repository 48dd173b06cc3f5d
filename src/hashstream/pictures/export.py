"""Figures as files, and as elements of an HTML page."""

from __future__ import annotations

import re
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FONT = "'DejaVu Sans', Verdana, Arial, sans-serif"

SHORTER = (
    (r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", ""),
    (r'<g id="[^"]*"', "<g"),
    (r"font-family: [^;\"]*; ", ""),
    (r' transform="rotate\(-0 [^"]*\)"', ""),
    (r"\s*\n\s*", "\n"),
    (r"(<g/>|<g>\s*</g>|<defs>\s*</defs>)\n", ""),
)
"""Patterns that shorten an SVG file without changing its appearance, and their replacements."""


def svg(figure: Figure, name: str) -> str:
    """The figure as an `<svg>` element of an HTML page: text as text, and ids that begin with `name`.

    It is shortened, since a report has many.
    """
    import matplotlib

    out = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    for pattern, instead in SHORTER:
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    text = re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"\s*([A-Za-z])\s*", r"\1", path[0]), text)
    text = re.sub(
        r"<[^>]+>", lambda tag: re.sub(r"-?\d+\.\d{3,}", _short, tag[0]), text
    )  # in tags only, not in text
    text = re.sub(r'( id="|url\(#|href="#)', rf"\1{name}-", text)
    opening, closing, rest = text.partition(">")
    size = re.search(r'viewBox="0 0 ([\d.]+)', opening)
    width = f"max-width: {float(size[1]) * 4 / 3:.0f}px; " if size else ""
    opening = re.sub(r' (width|height)="[^"]*"', "", opening)
    shape = f' role="img" style="width: 100%; {width}font-family: {FONT}; stroke-linejoin: round"'
    return opening + shape + closing + rest


def _short(found: re.Match[str]) -> str:
    """A number with as many digits as can be seen.

    >>> [re.sub(".+", _short, number) for number in ("123.456", "0.015625", "7.0")]
    ['123.5', '0.0156', '7']
    """
    number = float(found[0])
    return f"{round(number, 1):g}" if abs(number) >= 1 else f"{number:.3g}"


def read_off(figure: Figure) -> list[dict[str, str | float]]:
    """The points of the lines that have a label: panel, line, x and y. Where the ticks of the x axis were set by hand,
    x is the text of its tick.

    For figures whose numbers are not known otherwise.
    """
    from matplotlib.ticker import FixedLocator

    found: list[dict[str, str | float]] = []
    for axes in figure.axes:
        lines = [(line.get_label(), line) for line in axes.lines]
        lines += [(bars.get_label(), bars.lines[0]) for bars in axes.containers if hasattr(bars, "lines")]
        ticks = {}
        if isinstance(axes.xaxis.get_major_locator(), FixedLocator):
            texts = (text.get_text() for text in axes.get_xticklabels())
            ticks = dict(zip(axes.get_xticks(), texts, strict=True))
        for name, line in lines:
            for x, y in np.asarray(line.get_xydata(), np.float64).tolist():
                if not str(name).startswith("_"):  # Matplotlib's name of a line without a label
                    place = ticks.get(x, x)
                    found.append({"panel": axes.get_title(loc="left"), "line": str(name), "x": place, "y": y})
    return found


def save(figure: Figure, folder: Path, name: str) -> str:
    """Write NAME.svg, NAME.pdf and NAME.png into an existing folder; returns the result of `svg`."""
    import matplotlib
    from PIL import Image

    element = svg(figure, name)
    (folder / f"{name}.svg").write_text(element, encoding="utf-8")
    # Type 42: publishers refuse Matplotlib's default, Type 3. No date: the same figure is the same file.
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(
            folder / f"{name}.pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None}
        )
    pixels = BytesIO()
    figure.savefig(pixels, format="png", dpi=120)
    # Lines and letters have few colours: a palette takes a third of the space without a visible difference.
    few = Image.open(pixels).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(folder / f"{name}.png", optimize=True)
    return element
