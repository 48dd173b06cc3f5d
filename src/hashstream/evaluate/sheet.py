"""A table of figures, as LaTeX and as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Sheet", "latex_text", "write_rows"]

SYMBOLS = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "µ": r"$\mu$",
    "“": "``",
    "”": "''",
}
"""Characters that pdfLaTeX cannot print as they are, or takes for commands, and their replacements."""
WIDTHS = {"table": 345.0, "table*": 505.0}  # points: of LaTeX's article, and of the usual two columns
SIZES = {"": 1.0, r"\small": 0.93, r"\footnotesize": 0.86, r"\scriptsize": 0.8}
"""Commands for smaller letters, and how wide these are compared with the usual ones."""


@dataclass(frozen=True)
class Sheet:
    """A table: each of `rows` has one text per column, in which lines after the first are remarks on the figure.

    best: (row, column) of the cells that are set in bold.
    label: what \\ref names it by in the file that `write` makes; by default tab:NAME.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    label: str = ""

    def latex(self, label: str = "") -> str:
        r"""The table for a LaTeX document; it needs \usepackage{booktabs} and nothing else.

        label: what \ref names it by, "" for none.

        >>> sheet = Sheet("mAP", ("method", "32 bits"), (("A_1", "0.5 ± 0.1"), ("B", "0.4")), frozenset({(0, 1)}))
        >>> print(sheet.latex("tab:map"))
        \begin{table}
          \centering
          \caption{mAP}
          \label{tab:map}
          \begin{tabular}{lr}
            \toprule
            method & 32 bits \\
            \midrule
            A\_1 & \textbf{0.5 $\pm$ 0.1} \\
            B & 0.4 \\
            \bottomrule
          \end{tabular}
        \end{table}
        <BLANKLINE>
        """
        body: list[str] = []
        for i, row in enumerate(self.rows):
            body += _lines(row, {j for k, j in self.best if k == i})
        size, kind = self._size()
        parts = [
            rf"\begin{{{kind}}}",
            rf"  \centering{size}",
            rf"  \caption{{{latex_text(self.caption)}}}",
            *([rf"  \label{{{label}}}"] if label else []),
            rf"  \begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            r"    \toprule",
            *_lines(self.columns, set(), small=False),
            r"    \midrule",
            *body,
            r"    \bottomrule",
            r"  \end{tabular}",
            rf"\end{{{kind}}}",
        ]
        return "\n".join(parts) + "\n"

    def _size(self) -> tuple[str, str]:
        """The command for the largest letters with which the table fits the text width of an article, or else that of
        two columns, and the kind of table."""
        texts = zip(self.columns, *self.rows, strict=True)
        letters = sum(max(_letters(text) for text in column) for column in texts)
        for kind, width in WIDTHS.items():
            for size, share in SIZES.items():
                if 5.2 * share * letters + 6 * len(self.columns) <= width:
                    return (rf"{size}\setlength{{\tabcolsep}}{{3pt}}" if size else ""), kind
        return r"\scriptsize\setlength{\tabcolsep}{3pt}", "table*"

    def records(self) -> list[dict[str, str]]:
        """The rows as dictionaries: mean and standard deviation apart, and remarks in columns of their own.

        >>> Sheet("mAP", ("method", "32 bits"), (("A", "0.5 ± 0.1"), ("B", "0.4\\npaper 0.3"))).records()[1]
        {'method': 'B', '32 bits': '0.4', '32 bits sd': '', '32 bits remark': 'paper 0.3'}
        """
        cells = [[_parts(cell) for cell in row] for row in self.rows]
        found: list[dict[str, str]] = [{} for _ in cells]
        for j, column in enumerate(self.columns):
            name = column.replace("\n", " ")
            for part, ending in enumerate(("", " sd", " remark")):
                if not part or any(row[j][part] for row in cells):
                    for record, row in zip(found, cells, strict=True):
                        record[name + ending] = row[j][part]
        return found

    def write(self, folder: Path, name: str, *, comment: str = "") -> None:
        """Write NAME.tex and NAME.csv into an existing folder. comment: a line at the top of NAME.tex."""
        head = f"% {comment}\n" if comment else ""
        text = head + "% \\usepackage{booktabs}\n" + self.latex(self.label or f"tab:{name}")
        (folder / f"{name}.tex").write_text(text, encoding="utf-8")
        write_rows(folder / f"{name}.csv", self.records())


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same keys as a CSV file, the keys in its first line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")


def latex_text(text: str) -> str:
    r"""Text in which nothing is a command of LaTeX.

    >>> print(latex_text("FCOH_C(rate=5%) ± λ1 > -0.5"))
    FCOH\_C(rate=5\%) $\pm$ $\lambda$1 $>$ $-$0.5
    """
    escaped = "".join(SYMBOLS.get(char, char) for char in text)
    return re.sub(r"(?<![\w$])-(?=\d)", "$-$", escaped)


def _lines(cells: Sequence[str], bold: set[int], *, small: bool = True) -> list[str]:
    """The lines of a row: the first of each cell, and remarks in small print below."""
    split = [cell.split("\n") for cell in cells]
    lines = []
    for i in range(max(map(len, split))):
        texts = [latex_text(cell[i]) if i < len(cell) else "" for cell in split]
        if i == 0:
            texts = [rf"\textbf{{{text}}}" if j in bold else text for j, text in enumerate(texts)]
        elif small:
            texts = [rf"{{\tiny {text}}}" if text else "" for text in texts]
        lines.append(f"    {' & '.join(texts)} \\\\")
    return lines


def _letters(cell: str) -> float:
    """The width of a cell, in letters of a figure."""
    first, *remarks = cell.split("\n")
    return max(float(len(first)), *(0.8 * len(remark) for remark in remarks), 0.0)


def _parts(cell: str) -> tuple[str, str, str]:
    """The figure, its standard deviation, and what follows.

    >>> _parts("0.500 ± 0.010 (2 of 3)"), _parts("12,000")
    (('0.500', '0.010', '(2 of 3)'), ('12000', '', ''))
    """
    first, _, remark = cell.partition("\n")
    found = re.fullmatch(r"([+-]?[\d.,]+)(?: ± ([\d.,]+))?(?: (\(.*\)))?", first)
    if found is None:
        return first, "", remark.replace("\n", " ")
    mean, spread, counted = (part or "" for part in found.groups())
    return (
        mean.replace(",", ""),
        spread.replace(",", ""),
        " ".join(filter(None, (counted, remark.replace("\n", " ")))),
    )
