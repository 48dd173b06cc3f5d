"""The rooms form a DAG: an import only ever points down this list."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hashstream

SOURCE = Path(hashstream.__file__).parent

ORDER = [
    "cli",
    "demo",
    "paper",
    "checks",
    "table",
    "terminal",
    "pictures",
    "evaluate",
    "datasets",
    "hashers",
    "hamming",
    "versions",
    "_native",
    "_files",
    "_machine",
]
"""Rooms and top-level modules, each above those that it may import."""


def room(module: str) -> str:
    return module.split(".")[1]


def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(path: Path) -> set[str]:
    """The rooms that a file imports; `import hashstream` itself counts as the top of the house."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "hashstream"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            if node.module == "hashstream":
                found |= {f"hashstream.{alias.name}" for alias in node.names}
            elif node.module and node.module.startswith("hashstream."):
                found.add(node.module)
    return found


@pytest.mark.parametrize("module", sorted(set(modules()) - {"hashstream"}))
def test_imports_point_down(module: str) -> None:
    here = ORDER.index(room(module))
    for imported in imports(modules()[module]):
        assert imported != "hashstream", f"{module} imports the whole house"
        there = ORDER.index(room(imported))
        assert there >= here, f"{module} imports {imported}, which stands higher"


def test_every_room_has_a_place() -> None:
    assert {room(module) for module in modules() if module != "hashstream"} <= set(ORDER)
