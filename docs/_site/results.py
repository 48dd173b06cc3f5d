"""The outputs of benchmarks as pages, each with the command that made it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROW = re.compile(r"^\| (?P<names>`[^|]*) \| (?P<command>.*) \|$", re.MULTILINE)


def commands(index: str) -> dict[str, str]:
    """File or folder of docs/results -> its command, from the table of docs/results/README.md."""
    return {
        name: row["command"] for row in ROW.finditer(index) for name in re.findall(r"`([^`]+)`", row["names"])
    }


def command_of(name: str, found: dict[str, str]) -> str:
    """The command of one file; a name with PART in it stands for several files."""
    for known, command in found.items():
        part = re.fullmatch(re.escape(known).replace("PART", r"([\w-]+)"), name)
        if part and part.groups():
            return re.sub(r"PART`.*", f"{part[1]}`", command)
        if part:
            return command
    raise ValueError(f"docs/results/README.md names no command for {name}")


def output_page(file: Path, found: dict[str, str], benchmarks: Path) -> str:
    """The page of one output. found : `commands`; benchmarks : the folder of the code that wrote it."""
    command = command_of(file.name, found)
    run, _, note = command.removeprefix("`").partition("`")
    name = run.split()[2].removeprefix("benchmarks.")  # hashstream perf NAME, or python -m benchmarks.NAME
    module = benchmarks / f"{name}.py"
    about = (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").partition("\n\n")[0]
    about = re.sub(r"^`hashstream perf \w+`: ", "", about).replace("\n", " ")
    return "\n".join(
        [
            "---",
            "hide: [toc]",
            "---",
            f"# `{run}`",
            "",
            f"{about[:1].upper()}{about[1:]} The code is in"
            f" [benchmarks/{module.name}](../../benchmarks/{module.name}).",
            "",
            f"Output of `{run}`{note}. [Results](README.md) says at which commit it ran, and on which machine.",
            "",
            "```text",
            "\n".join(line.rstrip() for line in file.read_text("utf-8").splitlines()),
            "```",
            "",
        ]
    )


def with_links(index: str, results: Path) -> str:
    """docs/results/README.md, where files and reports that its table names are links."""

    def linked(row: re.Match[str]) -> str:
        names = re.sub(r"`([^`]+)`", lambda name: link(name[0], name[1]), row["names"])
        return f"| {names} | {row['command']} |"

    def link(shown: str, name: str) -> str:
        path = f"{name}report.md" if (results / name / "report.md").is_file() else name
        return f"[{shown}]({path})" if (results / path).is_file() else shown

    return ROW.sub(linked, index)
