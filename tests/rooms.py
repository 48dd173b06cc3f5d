"""The rules of the house, as functions over a source tree.

`source` is the folder of a package; each checker returns one `Violation` per breach. The rules read the syntax tree
alone, so an import counts wherever it stands: at the top, in a function, or under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "Violation",
    "broken_order",
    "cycles",
    "documented_rooms",
    "private_access",
    "room_of",
    "rooms",
    "storage_tests",
]

PUBLIC_UNDERSCORES = {
    "_replace", "_asdict", "_fields", "_make", "_exit", "_getframe", "_get_param_names", "_is_owned",
}  # fmt: skip
"""Names of other libraries that begin with an underscore: of named tuples, os._exit, sys._getframe, a scikit-learn
estimator's parameters and a re-entrant lock's owner."""

STORAGE_BASE = "Storage"
STORAGE_CLASSES = {"FileSegments", "MemorySegments"}
"""Storage classes that do not derive from `Storage`."""


class Violation(NamedTuple):
    """A breach of a rule: the module that it is in, and a sentence about it."""

    module: str
    message: str

    def __str__(self) -> str:
        return f"{self.module}{self.message}"


def room_of(module: str) -> str:
    """The room or top-level module of a module; "" for the package itself."""
    return (module.split(".") + [""])[1]


def rooms(source: Path) -> set[str]:
    """Every room and top-level module of a package."""
    return {room_of(module) for module in modules(source)} - {""}


def modules(source: Path) -> dict[str, Path]:
    """Files by dotted name; a package is its `__init__`."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(module: str, files: dict[str, Path]) -> Iterator[tuple[str, str, int]]:
    """(module, name or "", line) of each import of the same package; `from package import module` is of the module."""
    top = module.split(".")[0]
    for node in ast.walk(tree(files[module])):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == top:
                    yield alias.name, "", node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{files[module]}:{node.lineno}: imports are absolute here"
            if node.module and node.module.split(".")[0] == top:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield (
                        (inner, "", node.lineno) if inner in files else (node.module, alias.name, node.lineno)
                    )


def broken_order(source: Path, order: list[str]) -> list[Violation]:
    """Imports that point up the list of rooms, or at the package itself."""
    files = modules(source)
    found = []
    for module in files:
        if not room_of(module):
            continue
        here = order.index(room_of(module))
        for imported, _, line in imports(module, files):
            if not room_of(imported):
                found.append(Violation(module, f":{line} imports the whole package"))
            elif order.index(room_of(imported)) < here:
                found.append(Violation(module, f":{line} imports {imported}, a higher room"))
    return found


def cycles(source: Path) -> list[Violation]:
    """One per file that imports itself through others, or that imports the `__init__` of a package around it."""
    files = modules(source)
    graph: dict[str, set[str]] = {module: set() for module in files}
    found = []
    for module in files:
        for imported, _, line in imports(module, files):
            if imported in graph and imported != module:
                graph[module].add(imported)
            if module.startswith(f"{imported}."):
                found.append(Violation(module, f":{line} imports {imported}, the package that it is in"))
    for module in files:
        way = _way_back(module, graph)
        if way:
            found.append(Violation(module, f" imports itself: {' -> '.join(way)}"))
    return found


def _way_back(start: str, graph: dict[str, set[str]]) -> list[str]:
    """The shortest cycle through a module, or nothing."""
    came_from = {start: ""}
    queue = [start]
    for here in queue:
        for there in sorted(graph[here]):
            if there == start:
                way = [start]
                while here:
                    way.append(here)
                    here = came_from[here]
                return way[::-1]
            if there not in came_from:
                came_from[there] = here
                queue.append(there)
    return []


def private_access(source: Path) -> list[Violation]:
    """`x._name` where x is another object and no code of the file defines `_name`; `from module import _name`.

    A file defines the names that it assigns, annotates or declares anywhere: a class's methods and fields, attributes
    of self, names of the module. Two classes of one file may know each other well.
    """
    files = modules(source)
    found = []
    for module in files:
        for imported, name, line in imports(module, files):
            if _is_private(name):
                found.append(Violation(module, f":{line} imports {name} of {imported}"))
        known, classes = _defined(tree(files[module]))
        for node in ast.walk(tree(files[module])):
            if (
                isinstance(node, ast.Attribute)
                and _is_private(node.attr)
                and node.attr not in known
                and not _is_own(node.value, classes)
            ):
                found.append(Violation(module, f":{node.lineno} reads {ast.unparse(node)}"))
    return found


def _is_private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    return name.startswith("_") and name != "_" and not dunder and name not in PUBLIC_UNDERSCORES


def _is_own(value: ast.expr, classes: set[str]) -> bool:
    """Whether an object is self, cls, super(), type(self), or a class of the file."""
    if isinstance(value, ast.Name):
        return value.id in {"self", "cls"} | classes
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id == "super" or ast.unparse(value) == "type(self)"
    return False


def _defined(file: ast.Module) -> tuple[set[str], set[str]]:
    """The names that a file defines, and those of its classes."""
    known: set[str] = set()
    classes = set()
    for node in ast.walk(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known.add(node.name)
        elif isinstance(node, ast.ClassDef):
            known.add(node.name)
            classes.add(node.name)
            for statement in node.body:  # __slots__ = ("_a", "_b")
                if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__slots__":
                    known |= {
                        str(part.value) for part in ast.walk(statement) if isinstance(part, ast.Constant)
                    }
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and _is_own(node.value, classes)
        ):
            known.add(node.attr)
    return known, classes


SQL = re.compile(
    r"^\s*(SELECT .* FROM|INSERT (OR \w+ )?INTO|DELETE FROM|UPDATE \w+ SET|CREATE (TABLE|INDEX|UNIQUE)|PRAGMA"
    r"|BEGIN|COMMIT|ROLLBACK|VACUUM)\b",
    re.S,
)


def stray_sql(source: Path, home: str = "database.py") -> list[Violation]:
    """Statements in SQL, and calls of `execute`, in other files than the one that holds all of them."""
    files = modules(source)
    found = []
    for module, path in files.items():
        if path.name == home:
            continue
        for node in ast.walk(tree(path)):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                text = "BEGIN" if node.func.attr in ("execute", "executescript", "executemany") else ""
            if SQL.match(text):
                found.append(Violation(module, f":{getattr(node, 'lineno', 0)} has SQL"))
    return found


def storage_tests(source: Path) -> list[Violation]:
    """Questions about the class of a storage: isinstance, issubclass, `type(x) is`, and `case Class()`."""
    files = modules(source)
    names = _derived(files)
    found = []
    for module in files:
        for node in ast.walk(tree(files[module])):
            asked: list[ast.expr] = []
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
                asked = node.args[1:]
            elif isinstance(node, ast.Compare) and any(
                _is_type_of(x) for x in [node.left, *node.comparators]
            ):
                asked = [node.left, *node.comparators]
            elif isinstance(node, ast.MatchClass):
                asked = [node.cls]
            used = {
                part.id if isinstance(part, ast.Name) else part.attr
                for expression in asked
                for part in ast.walk(expression)
                if isinstance(part, ast.Name | ast.Attribute)
            }
            for name in sorted(used & names):
                found.append(
                    Violation(module, f":{getattr(node, 'lineno', asked[0].lineno)} asks for {name}")
                )
    return found


def _is_type_of(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "type"


def _derived(files: dict[str, Path]) -> set[str]:
    """The names of all classes that derive from `Storage`, directly or not."""
    bases = {
        node.name: {ast.unparse(base).split(".")[-1] for base in node.bases}
        for path in files.values()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    }
    names = {STORAGE_BASE}
    while more := {name for name, over in bases.items() if over & names} - names:
        names |= more
    return names - {STORAGE_BASE} | STORAGE_CLASSES


def documented_rooms(page: str) -> set[str]:
    """The rooms in the first column of the table of rooms: `name/` and `name.py`, in backticks."""
    rows = page.partition("| room |")[2].partition("\n\n")[0].splitlines()
    cells = " ".join(row.split("|")[1] for row in rows if row.startswith("|"))
    return {name.rstrip("/").removesuffix(".py") for name in re.findall(r"`([^`]+)`", cells)}
