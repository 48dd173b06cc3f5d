"""Docstrings with their short forms spelled out.

They are Markdown with numpydoc's sections. Two short forms have no heading: parameters, or attributes of a class, as
`name : what it is`, one or several in a line, and examples.
"""

from __future__ import annotations

import re

NAMES = r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)"
ENTRY = re.compile(rf"(?:^|(?<=[.;,)] )){NAMES} :(?: |$)")
EXAMPLES = "Examples\n--------\n"
SECTION = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)
SHARED = re.compile(rf"^{NAMES}((?: : .*)?(?:\n .*)*)\n?", re.MULTILINE)


def spelled_out(text: str, names: set[str], title: str) -> str:
    """A docstring with a section for its entries, and one for its examples.

    names : those that an entry may have. title : of the section, such as "Parameters".
    """
    if EXAMPLES not in text:
        text = re.sub(r"^>>> ", f"{EXAMPLES}>>> ", text, count=1, flags=re.MULTILINE)
    section = SECTION.search(text)
    head, tail = (text[: section.start()], text[section.start() :]) if section else (text, "")
    prose, entries = entries_of(head, names)
    if entries:
        lines = [title, "-" * len(title)]
        for shared, about in entries:
            for name in shared.split(", "):  # each has a type of its own
                lines += [name, *(f"    {line}" for line in about)]
        tail = "\n".join([*lines, "", tail])
    return "\n\n".join(filter(None, [prose.rstrip(), one_by_one(tail).rstrip()]))


def entries_of(text: str, names: set[str]) -> tuple[str, list[tuple[str, list[str]]]]:
    """The prose of a text, and its entries as (names, lines)."""
    prose: list[str] = []
    entries: list[tuple[str, list[str]]] = []
    inside = False
    for line in text.splitlines():
        goes_on = inside and (
            line.startswith("    ") or (line and not entries[-1][1][-1].endswith((".", ":")))
        )
        line = line[4:] if goes_on and line.startswith("    ") else line
        found = [
            entry
            for entry in ENTRY.finditer(line)
            if all(name.lstrip("*") in names for name in entry[1].split(", "))
        ]
        before = line[: found[0].start()].rstrip() if found else line
        if goes_on and before:
            entries[-1][1].append(before)
        elif before or not found:
            prose.append(before)
        ends = [entry.start() for entry in found[1:]] + [len(line)]
        entries += [
            (entry[1], [line[entry.end() : end].strip()]) for entry, end in zip(found, ends, strict=False)
        ]
        inside = bool(found) or bool(goes_on)
    return "\n".join(prose), entries


def one_by_one(sections: str) -> str:
    """Sections in which parameters that share a description have it each, so that each gets its own type."""
    parts = re.split(r"^(\w[\w ]*\n-{3,}\n)", sections, flags=re.MULTILINE)
    for i, title in enumerate(parts):
        if title == "Parameters\n----------\n":
            parts[i + 1] = SHARED.sub(
                lambda entry: "".join(f"{name}{entry[2]}\n" for name in entry[1].split(", ")), parts[i + 1]
            )
    return "".join(parts)
