"""Figures as files, and as elements of a page."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save", "svg"]


def svg(figure: Figure, name: str) -> str:
    """The figure as an `<svg>` element to put into a page: text as text, and ids that begin with `name`.

    Without what nobody sees: comments, metadata, names of groups, and digits behind the first of a pixel.
    """
    import matplotlib

    out = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r"-?\d+\.\d{3,}", lambda number: _short(float(number[0])), text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    text = re.sub(r'( id="|url\(#|href="#)', rf"\1{name}-", text)
    opening = text[: text.index(">")]
    width = float(re.search(r'width="([\d.]+)pt"', opening)[1])  # type: ignore[index]
    opening = re.sub(r' (width|height)="[^"]*"', "", opening)
    shape = f' style="width: 100%; max-width: {width * 4 / 3:.0f}px" role="img"'
    return opening + shape + text[text.index(">") :]


def _short(number: float) -> str:
    """
    >>> _short(123.456), _short(0.015625), _short(7.0)
    ('123.5', '0.0156', '7')
    """
    return f"{round(number, 1):g}" if abs(number) >= 1 else f"{number:.3g}"


def save(figure: Figure, folder: Path, name: str) -> None:
    """NAME.svg and NAME.png into a folder that is there."""
    (folder / f"{name}.svg").write_text(svg(figure, name), encoding="utf-8")
    figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
