"""Where rows come from: a record of each measuring run next to the results, without the folders of the machine.

out/results.csv     the rows
out/measured.json   a list: when, with which command, versions, kernels, processor and commit rows were measured
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hashstream import _native, evaluate
from hashstream._files import atomic_path
from hashstream._machine import cores
from hashstream.datasets import cache_folder
from hashstream.versions import library_versions

__all__ = ["commit", "facts", "machine", "recorded", "records", "system", "without_folders"]

FILE = "measured.json"


def machine() -> str:
    """Processor, cores that this process may use, and operating system; no host name."""
    model = platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        found = re.search(r"model name\s*:\s*(.+)", information.read_text(errors="replace"))
        model = found[1].strip() if found else model
    return f"{model}, {cores()} cores, {platform.system()}"


def commit() -> str:
    """The commit of the sources where these are a checkout, otherwise ""."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return ""
    git = ["git", "-C", str(root)]
    try:
        head, changed = (
            subprocess.run([*git, *words], capture_output=True, text=True, timeout=10)
            for words in (
                ["rev-parse", "--short", "HEAD"],
                ["status", "--porcelain", "--untracked-files=no", "--", "src"],
            )
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if head.returncode or changed.returncode:
        return ""
    return head.stdout.strip() + (", with uncommitted changes" if changed.stdout.strip() else "")


def system() -> dict[str, str]:
    """The environment of this process: versions, kernels, machine, and the commit where there is one."""
    versions = {**library_versions(), "matplotlib": version("matplotlib")}
    found = {
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "kernels": without_folders(_native.status()),
        "machine": machine(),
    }
    return {**found, "commit": where} if (where := commit()) else found


def without_folders(text: str) -> str:
    """A text without the folders of this machine: paths begin with the name of a variable, or only their last part is
    left.

    >>> without_folders("read from /home/me/data/mnist.npz (by hand), see https://example.org/a/b")
    'read from mnist.npz (by hand), see https://example.org/a/b'
    """
    known = {
        os.environ.get("HASHSTREAM_DATA", ""): "HASHSTREAM_DATA",
        str(cache_folder()): "HASHSTREAM_CACHE",
    }
    for folder, name in known.items():
        for spelt in {folder, str(Path(folder).absolute()), str(Path(folder).resolve())} if folder else ():
            text = re.sub(rf"{re.escape(spelt.rstrip('/'))}(?=/|$|[\s)])", name, text)
    return re.sub(r"(?<![\w:/.~])~?/(?:[^\s/]+/)*([^\s/]+)", r"\1", text)


# ---- records


def records(out: Path) -> list[dict[str, Any]]:
    """The measuring runs of a folder, oldest first; empty where there is no readable record."""
    try:
        found = json.loads((out / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


@contextmanager
def recorded(out: Path, results: evaluate.Results, command: str) -> Iterator[None]:
    """Record what is measured in the context. The record is written before the first row, so that it survives a crash,
    and removed again if no row was added."""
    before, first = records(out), len(results.rows)
    entry = {"when": _now(), "command": command, **system(), "first_row": first}
    _write(out, [*before, entry])
    try:
        yield
    finally:
        new = len(results.rows) - first
        _write(out, [*before, {**entry, "rows": new}] if new else before)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _write(out: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Replace the file atomically; remove it where there are no entries."""
    if not entries:
        (out / FILE).unlink(missing_ok=True)
        return
    out.mkdir(parents=True, exist_ok=True)
    with atomic_path(out / FILE) as new:
        new.write_text(json.dumps(list(entries), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def facts(out: Path, rows: int) -> list[tuple[str, str]]:
    """Where the `rows` rows of a report come from: one line per measuring run, and one for the report itself."""
    lines = []
    entries = records(out)
    unknown = min((int(one.get("first_row", 0)) for one in entries), default=rows)
    if unknown:
        lines.append(("measured", f"{unknown:,} rows without a record of when and where"))
    for one in entries:
        count = f"{one['rows']:,} rows" if "rows" in one else "not finished"
        lines.append(
            ("measured", f"{one.get('when', '?')}, {count}: `{one.get('command', '?')}`; {_environment(one)}")
        )
    lines.append(("report generated", f"{_now()}; {_environment(system())}"))
    return lines


def _environment(entry: Mapping[str, Any]) -> str:
    """The environment of a record, or of this process, in one line."""
    parts = [str(entry[key]) for key in ("machine", "versions") if key in entry]
    parts += [f"{key} {entry[key]}" for key in ("kernels", "commit") if key in entry]
    return "; ".join(parts)
