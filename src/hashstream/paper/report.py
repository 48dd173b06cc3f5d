"""A report that a person can send on: one page with everything in it, and the same tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from hashstream.paper import origin
from hashstream.paper.study import Section, Sheet, Study
from hashstream.paper.stylesheet import STYLE

__all__ = ["About", "about", "markdown", "page"]


@dataclass(frozen=True)
class About:
    """Where a report comes from.

    title: its first line. facts: name and text, as lines of a list. settings: a sheet of who took part, and how.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    settings: Sheet


def about(study: Study, command: str, out: Path | None = None) -> About:
    """What a reader has to know to make the report again, or to doubt it.

    out: the folder with the record of measuring runs; by default that of the results.
    """
    setting, scale = study.field.setting, study.scale
    runs = "one run (seed 0)" if scale.runs == 1 else f"{scale.runs} runs (seeds 0 to {scale.runs - 1})"
    facts = [
        ("command", f"`{command}`"),
        ("data", f"{study.dataset}, {origin.without_folders(study.data.source)}. {study.data.note}"),
        (
            "protocol",
            f"{setting.per_class} queries of each class, never learned from; {setting.stream:,} training instances, "
            f"once through; looks after {', '.join(f'{n:,}' for n in study.points)}; all other rows are searched",
        ),
        ("scale", f"{scale.name}: {', '.join(map(str, scale.bits))} bits, {runs}"),
        *origin.facts(study.results.path.parent if out is None else out, len(study.results.rows)),
    ]
    return About(
        f"Online hashing on {study.dataset}: the paper beside what is measured", tuple(facts), settings(study)
    )


def settings(study: Study) -> Sheet:
    """Who took part: the name in this report, the name in results.csv, and the parameters."""
    rows = []
    for one in study.contestants:
        given = _parameters(one.method(n_bits=32))
        text = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
        rows.append((one.title, one.label, text))
    return Sheet(
        "Who took part, with which parameters", ("in this report", "in results.csv", "settings"), tuple(rows)
    )


def _parameters(hasher: Any) -> dict[str, Any]:
    found = hasher.get_params(deep=False) if hasattr(hasher, "get_params") else {}
    return {name: value for name, value in found.items() if name not in ("n_bits", "random_state")}


INTRODUCTION = (
    "Each section sets what the paper (Lin et al., “Fast Class-wise Updating for Online Hashing”, TPAMI 2022) says "
    "beside what one command measured. Figures are means over runs ± their standard deviation; where the paper prints "
    "a figure for the same data, it stands below ours, with ours minus the paper's in brackets. The best of a column "
    "is bold. FCOH (paper) has the paper's settings, FCOH (auto) our defaults, which choose their own step."
)


def page(sections: Sequence[Section], about: About, drawings: Mapping[str, str]) -> str:
    """The report as one HTML file that needs no other. drawings: `<svg>` elements by the names of the figures."""
    return "\n".join(_page(sections, about, drawings))


def _page(sections: Sequence[Section], about: About, drawings: Mapping[str, str]) -> Iterator[str]:
    yield "<!doctype html>"
    yield f'<html lang="en"><head><meta charset="utf-8"><title>{escape(about.title)}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}</style></head><body><main>"
    yield f'<h1>{escape(about.title)}</h1><p class="introduction">{_text(INTRODUCTION)}</p>'
    yield '<div class="story"><h2>What holds, what does not</h2><ul>'
    for section in sections:
        link = f'<a href="#{escape(section.name)}">{_text(section.name)}</a>'
        yield f"<li>{link}: <b>{section.verdict}</b>. {_text(_brief(section))}</li>"
    yield "</ul></div>"
    yield "<nav><h2>Contents</h2><ol>"
    yield from (f'<li><a href="#{escape(s.name)}">{_text(s.title)}</a></li>' for s in sections)
    yield '<li><a href="#about">How this was made</a></li></ol></nav>'
    for section in sections:
        yield f'<section id="{escape(section.name)}"><h2>{_text(section.title)}</h2>'
        yield f'<div class="pair"><div><h3>What the paper says</h3><p>{_text(section.claim)}</p></div>'
        yield f"<div><h3>What is measured here</h3><p>{_text(section.finding)}</p></div></div>"
        for name in section.figures:
            caption = section.captions.get(name, "")
            yield f"<figure>{drawings[name]}<figcaption>{_text(caption)}</figcaption></figure>"
        for sheet in section.sheets:
            yield from _table(sheet)
        if section.notes:
            fresh, before = _new_notes(sections, section)
            yield '<h3>Notes</h3><ul class="notes">'
            yield from (f"<li>{_text(note)}</li>" for note in fresh)
            for earlier, count in before:
                link = f'<a href="#{escape(earlier.name)}">{_text(earlier.title)}</a>'
                yield f"<li>{_of(count)} “{link}” {_holds(count)}</li>"
            yield "</ul>"
        yield "</section>"
    yield '<section id="about"><h2>How this was made</h2><dl>'
    yield from (f"<dt>{escape(name)}</dt><dd>{_text(text)}</dd>" for name, text in about.facts)
    yield "</dl>"
    yield from _table(about.settings)
    yield "</section></main></body></html>\n"


def _brief(section: Section) -> str:
    """The finding in a line, its first sentence where nobody wrote one."""
    return section.brief or section.finding.partition(". ")[0]


def _new_notes(sections: Sequence[Section], section: Section) -> tuple[list[str], list[tuple[Section, int]]]:
    """The notes that no earlier section has, and how many of the others each earlier section was the first to have."""
    first: dict[str, Section] = {}
    for one in sections:
        for note in one.notes:
            first.setdefault(note, one)
    fresh = [note for note in section.notes if first[note] is section]
    counts = [
        (one, sum(first[note] is one for note in section.notes)) for one in sections if one is not section
    ]
    return fresh, [(one, count) for one, count in counts if count]


def _of(count: int) -> str:
    return "1 note of" if count == 1 else f"{count} notes of"


def _holds(count: int) -> str:
    return "holds here, too." if count == 1 else "hold here, too."


def _table(sheet: Sheet) -> Iterator[str]:
    yield f'<div class="wide"><table><caption>{_text(sheet.caption)}</caption><thead><tr>'
    yield "".join(f'<th scope="col">{_text(column)}</th>' for column in sheet.columns)
    yield "</tr></thead><tbody>"
    for i, row in enumerate(sheet.rows):
        cells = [f'<th scope="row">{_text(row[0])}</th>']
        for j, cell in enumerate(row[1:], 1):
            first, *more = (_text(line) for line in cell.split("\n"))
            first = f"<strong>{first}</strong>" if (i, j) in sheet.best else first
            text = "".join([first, *(f"<br><small>{line}</small>" for line in more)])
            cells.append(f"<td>{text}</td>")
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _text(text: str) -> str:
    """Escaped, with `code` between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def markdown(sections: Sequence[Section], about: About) -> str:
    """The texts and tables of the report, with the figures by their files."""
    return "\n".join(_markdown(sections, about))


def _markdown(sections: Sequence[Section], about: About) -> Iterator[str]:
    yield f"# {about.title}\n"
    yield f"{INTRODUCTION}\n"
    yield "## What holds, what does not\n"
    yield from (f"- {one.name}: **{one.verdict}**. {_brief(one)}" for one in sections)
    yield ""
    for section in sections:
        yield f"## {section.title}\n"
        yield f"**What the paper says.** {section.claim}\n"
        yield f"**What is measured here.** {section.finding}\n"
        for name in section.figures:
            yield f"![{section.captions.get(name, name)}](figures/{name}.png)\n"
        for sheet in section.sheets:
            yield from _markdown_table(sheet)
        fresh, before = _new_notes(sections, section)
        yield from (f"- {note}" for note in fresh)
        yield from (f"- {_of(count)} “{earlier.title}” {_holds(count)}" for earlier, count in before)
        yield ""
    yield "## How this was made\n"
    yield from (f"- {name}: {text}" for name, text in about.facts)
    yield ""
    yield from _markdown_table(about.settings)


def _markdown_table(sheet: Sheet) -> Iterator[str]:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def plain(cell: str) -> str:
        return cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")

    yield f"{sheet.caption}:\n"
    yield row([plain(column) for column in sheet.columns])
    yield row(["---"] + ["---:"] * (len(sheet.columns) - 1))
    for i, cells in enumerate(sheet.rows):
        lines = []
        for j, cell in enumerate(cells):
            first, mark, more = plain(cell).partition("<br>")
            lines.append((f"**{first}**" if (i, j) in sheet.best else first) + mark + more)
        yield row(lines)
    yield ""
