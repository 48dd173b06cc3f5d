"""The help of every command, as one page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main


def command_page() -> str:
    """The page of the command line, from the commands themselves."""
    from hashstream.cli import app

    about = [
        "# The command line",
        "",
        "What `hashstream COMMAND --help` says, for every command. Install it with `pip install 'hashstream[cli]'`;"
        " `python -m hashstream` is the same.",
        "",
    ]
    return "\n".join([*about, *sections(typer.main.get_command(app), "hashstream", 1)])


def sections(command: Any, name: str, level: int) -> Iterator[str]:
    """Lines of Markdown about a command, and about those below it. level : that of the heading."""
    context = typer.Context(command, info_name=name)
    if level > 1:
        yield from [f"{'#' * level} {name}", ""]
    yield from [text_of(command.help), ""]
    below = getattr(command, "commands", {})
    if not below:
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        yield from ["```sh", usage, "```", ""]
        rows = [parameter_row(parameter, context) for parameter in command.params]
        if shown := [row for row in rows if row]:
            yield from ["| argument or option | meaning |", "| --- | --- |", *shown, ""]
    if command.epilog:
        yield from [text_of(command.epilog), ""]
    for key, child in below.items():
        yield from sections(child, f"{name} {key}", level + 1)


def parameter_row(parameter: Any, context: Any) -> str:
    """One argument or option as the row of a table; "" for `--help`."""
    record = parameter.get_help_record(context)
    if record is None or "--help" in parameter.opts:
        return ""
    names, text = record
    return f"| `{' '.join(names.split())}` | {cell(text)} |"


def text_of(text: str | None) -> str:
    """Help as Markdown. Typer's own line breaks within a paragraph mean nothing."""
    paragraphs = re.split(r"\n\s*\n", (text or "").replace("\b", "").strip())
    return "\n\n".join(paragraph.strip() for paragraph in paragraphs)


def cell(text: str) -> str:
    """Help as the cell of a table, where a bar outside of code would end it."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("|", "\\|") for part in parts)
