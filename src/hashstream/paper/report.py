"""The report: Markdown text, and one HTML page with the same text, the figures and the style sheet in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from hashstream.paper import provenance
from hashstream.paper.section import Section, Sheet
from hashstream.paper.study import Study

STYLE = Path(__file__).with_name("report.css")


@dataclass(frozen=True)
class About:
    """Where a report comes from.

    title: its first line. facts: name and text of each line of a list. settings: who took part, and how.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    settings: Sheet


def about(study: Study, command: str, out: Path | None = None) -> About:
    """Everything a reader needs to reproduce the report, or to doubt it.

    out: the folder with the record of measurements; by default that of the results.
    """
    setting, scale = study.data.setting, study.scale
    runs = "one run (seed 0)" if scale.runs == 1 else f"{scale.runs} runs (seeds 0 to {scale.runs - 1})"
    facts = [
        ("command", f"`{command}`"),
        ("data", f"{study.dataset}, {provenance.without_folders(study.source)}"),
        (
            "protocol",
            f"{setting.per_class} queries per class, never learned from; {setting.stream:,} training instances in one "
            f"pass; checkpoints after {', '.join(f'{n:,}' for n in study.checkpoints)}; all other rows are searched"
            + (
                f"; no queries of classes with fewer than {setting.min_class} rows"
                if setting.min_class
                else ""
            ),
        ),
        ("scale", f"{scale.name}: {', '.join(map(str, scale.bits))} bits, {runs}"),
        (
            "files",
            "`figures` has the figures as SVG, PNG and PDF and their numbers as CSV, `tables` the tables as LaTeX "
            "and CSV, `results.csv` every measured row",
        ),
        *provenance.facts(study.results.path.parent if out is None else out, len(study.results.rows)),
    ]
    title = f"Online hashing on {study.dataset}: the paper compared with what is measured"
    return About(title, tuple(facts), _settings(study))


def _settings(study: Study) -> Sheet:
    """Who took part: the name in this report, the name in results.csv, and the parameters."""
    rows = []
    for one in study.contestants:
        hasher: Any = one.method(n_bits=32)
        given = hasher.get_params(deep=False) if hasattr(hasher, "get_params") else {}
        texts = [
            f"{name}={value!r}"
            for name, value in given.items()
            if value is not None and name not in ("n_bits", "random_state")
        ]
        rows.append((one.title, one.label, ", ".join(texts)))
    columns = ("in this report", "in results.csv", "settings")
    return Sheet("Who took part, with which parameters", columns, tuple(rows))


# ---- Markdown

SUMMARY, MADE = "What holds, what does not", "How this was made"

INTRODUCTION = (
    "Each section compares what the paper (Lin et al., “Fast Class-wise Updating for Online Hashing”, TPAMI 2022) says "
    "with what one command measured. Figures are means over runs ± their standard deviation; where the paper prints a "
    "figure for the same data, it is shown below ours, with ours minus the paper's in brackets. The best of a column "
    "is bold. FCOH (paper) has the paper's settings, FCOH (auto) our defaults, which choose their own step size."
)


def markdown(sections: Sequence[Section], about: About) -> str:
    """The report in Markdown, with links to the files of the figures."""
    return "\n".join(_markdown(sections, about))


def _markdown(sections: Sequence[Section], about: About) -> Iterator[str]:
    yield f"# {_text(about.title)}\n"
    yield f"{INTRODUCTION}\n"
    yield f"## {SUMMARY}\n"
    for one in sections:
        brief = one.brief or one.finding.partition(". ")[0]
        yield f"- {_link(one.name, one.title)}: **{one.verdict}**. {_text(brief)}"
    yield ""
    for section in sections:
        yield f"## {_text(section.title)}\n"
        yield f"**What the paper says.** {_text(section.claim)}\n"
        yield f"**What is measured here.** {_text(section.finding)}\n"
        for name in section.figures:
            yield f"![{_text(section.captions.get(name, name))}](figures/{name}.png)\n"
        for sheet in section.sheets:
            yield from _table(sheet)
        yield from _notes(sections, section)
        yield ""
    yield f"## {MADE}\n"
    yield from (f"- {name}: {_text(text)}" for name, text in about.facts)
    yield ""
    yield from _table(about.settings)


def _text(text: str) -> str:
    """Text in which nothing is taken for HTML or for a link.

    >>> print(_text("OSH[paper](paper_compat=True) < 1"))
    OSH[paper]\\(paper_compat=True) &lt; 1
    """
    return text.replace("<", "&lt;").replace("](", "]\\(")


def _link(text: str, title: str) -> str:
    return f"[{_text(text)}](#{_anchor(title)})"


def _anchor(title: str) -> str:
    """The anchor of a heading, as GitHub derives it.

    >>> _anchor("mAP and precision@H2 for 8, 16 bits")
    'map-and-precisionh2-for-8-16-bits'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _notes(sections: Sequence[Section], section: Section) -> Iterator[str]:
    """The notes that no earlier section has, and links to the earlier sections that have the others."""
    first: dict[str, Section] = {}
    for one in sections:
        for note in one.notes:
            first.setdefault(note, one)
    yield from (f"- {_text(note)}" for note in section.notes if first[note] is section)
    for one in sections:
        count = sum(first[note] is one for note in section.notes)
        if one is not section and count:
            notes = "1 note on" if count == 1 else f"{count} notes on"
            applies = "applies" if count == 1 else "apply"
            yield f"- {notes} “{_link(one.title, one.title)}” {applies} here, too."


def _table(sheet: Sheet) -> Iterator[str]:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def plain(cell: str) -> str:
        return _text(cell).replace("|", "\\|").replace("\n", "<br>")

    yield f"{_text(sheet.caption)}:\n"
    yield row([plain(column) for column in sheet.columns])
    yield row(["---"] + ["---:"] * (len(sheet.columns) - 1))
    for i, cells in enumerate(sheet.rows):
        lines = []
        for j, cell in enumerate(cells):
            first, mark, more = plain(cell).partition("<br>")
            lines.append((f"**{first}**" if (i, j) in sheet.best else first) + mark + more)
        yield row(lines)
    yield ""


# ---- HTML


def page(report: str, drawings: Mapping[str, str]) -> str:
    """The report in Markdown as one HTML file that needs no other.

    drawings: `<svg>` elements by the names of the figures.
    """
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(report)
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(tokens[i + 1].content.replace("&lt;", "<")))
        elif token.type == "table_open":  # the paragraph before a table is its caption
            tokens[i - 3].tag = tokens[i - 1].tag = "caption"
            tokens[i - 3 : i + 1] = [token, *tokens[i - 3 : i]]
        elif token.children and [child.type for child in token.children] == ["image"]:
            image = token.children[0]
            caption = parser.renderInline(image.content)
            name = Path(str(image.attrGet("src"))).stem
            figure = f"<figure>{drawings[name]}<figcaption>{caption}</figcaption></figure>\n"
            tokens[i - 1 : i + 2] = [Token("html_block", "", 0, content=text) for text in (figure, "", "")]
    body = parser.renderer.render(tokens, parser.options, {})
    body = re.sub(r"&lt;br&gt;(.*?)</td>", r"<br><small>\1</small></td>", body).replace("&lt;br&gt;", "<br>")
    title = report.partition("\n")[0].removeprefix("# ").replace("&lt;", "<")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style></head><body><main>\n{body}</main></body></html>\n"
    )
