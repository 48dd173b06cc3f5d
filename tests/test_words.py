"""One vocabulary: words that were replaced do not come back, and docstrings begin with a noun phrase or a verb."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hashstream"
KINDS = {".py", ".c", ".h", ".css", ".md"}

INSTEAD = {
    r"anew": "again; re-encode",
    r"(?:functions|world|cost|code|codes|model|state|version) of now": "current",
    r"seats?": "sample",
    r"witness(?:es)?": "commit marker",
    r"ledgers?": "segments",
    r"upkeep": "compact, snapshot",
    r"lineup": "contestants",
    r"(?:one|each|every|last|first|next) look": "checkpoint",
    r"bytes an item": "bytes per item",
    r"no right to": "lacks permission to",
}
"""Pattern of an old word -> the word to use."""

RESERVOIR = r"reservoirs?"
OF_MIHASH = re.compile(r"mihash|mutual_information|^docs/methods\.md$")
"""Files that speak of MIHash's reservoir by the paper's name."""

MANIFEST = r"manifests?"
OF_EXPORTS = re.compile(r"export|restore|keeping|milvus|^docs/architecture\.md$|/table/(table|__init__)\.py$")
"""Files that speak of the manifest of an export."""


def old_words(text: str, name: str) -> list[str]:
    """Every old word of a text, as a sentence with file and line. name : path of the file, relative to the root."""
    instead = INSTEAD if OF_MIHASH.search(name) else {**INSTEAD, RESERVOIR: "sample"}
    instead = instead if OF_EXPORTS.search(name) else {**instead, MANIFEST: "database"}
    return [
        f"{name}:{number}: {found[0]!r}, say {word!r}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, word in instead.items()
        for found in re.finditer(rf"\b{pattern}\b", line, re.IGNORECASE)
    ]


def riddles(text: str, name: str) -> list[str]:
    """Docstrings that begin with "What", those after an assignment among them."""
    strings = (
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    return [
        f"{name}:{string.lineno}: begins with 'What'"
        for string in strings
        if isinstance(string.value, str) and string.value.lstrip().startswith("What ")
    ]


def prose() -> Iterator[Path]:
    """Source files and pages; in docs/results, only what is written by hand."""
    yield from (path for path in sorted(SOURCE.rglob("*")) if path.suffix in KINDS)
    yield from sorted((ROOT / "docs").glob("*.md"))
    yield from sorted((ROOT / "docs/elsewhere").glob("*.md"))
    yield from (path for path in sorted((ROOT / "examples").iterdir()) if path.suffix in KINDS)
    yield from (ROOT / name for name in ("docs/results/README.md", "README.md", "CONTRIBUTING.md"))


def test_old_words_are_gone() -> None:
    assert not [
        found for path in prose() for found in old_words(path.read_text(), str(path.relative_to(ROOT)))
    ]


def test_docstrings_are_no_riddles() -> None:
    modules = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}
    assert not [found for name, path in modules.items() for found in riddles(path.read_text(), name)]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("All codes are made anew.", "anew"),
        ("encoded by the functions of now", "functions of now"),
        ("The table keeps a reservoir", "reservoir"),
        ("Seats of the sample", "Seats"),
        ("the witness and the manifest", "witness"),
        ("mAP at the last look", "last look"),
        ("this user has no right to read it", "no right to"),
    ],
)
def test_an_old_word_is_found(line: str, found: str) -> None:
    (first, *_) = old_words(f"A good line.\n{line}\n", "docs/table.md")
    assert first.startswith(f"docs/table.md:2: {found!r}, say ")


@pytest.mark.parametrize(
    "line",
    ["whatever the classes look like", "watch_head is taken from now on", "a renewed lookup of seating"],
)
def test_plain_english_is_allowed(line: str) -> None:
    assert not old_words(line, "docs/table.md")


def test_the_reservoir_is_a_word_of_mihash() -> None:
    line = "x enters the reservoir"
    assert not old_words(line, "src/hashstream/hashers/mihash.py")
    assert old_words(line, "src/hashstream/hashers/okh.py")


def test_the_manifest_is_a_word_of_exports() -> None:
    line = "the manifest names every file"
    assert not old_words(line, "src/hashstream/table/export/manifest.py")
    assert old_words(line, "src/hashstream/table/reading.py")


def test_a_riddle_is_found() -> None:
    text = '"""A module."""\nX = 1\n"""What X is."""\n\ndef f():\n    """What f\n    does."""\n    return "What now?"\n'
    assert riddles(text, "f.py") == [f"f.py:{n}: begins with 'What'" for n in (3, 6)]
    assert not riddles('"""Whatever it is."""', "f.py")
