"""The rooms form a DAG, no file of it reaches into another's private parts, and nobody asks what a storage is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.rooms import (
    Violation,
    broken_order,
    cycles,
    documented_rooms,
    private_access,
    rooms,
    storage_tests,
    stray_sql,
)

import hashstream

SOURCE = Path(hashstream.__file__).parent
ROOT = Path(__file__).parents[1]

ORDER = [
    "__main__",
    "cli",
    "demo",
    "scale",
    "serve",
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
    "_extras",
    "_files",
    "_machine",
]
"""Rooms and top-level modules, each above those that it may import."""

Checker = Callable[[Path], list[Violation]]

RULES: list[Checker] = [cycles, private_access, storage_tests, stray_sql]


def test_imports_point_down() -> None:
    assert not broken_order(SOURCE, ORDER)


def test_every_room_has_a_place() -> None:
    assert rooms(SOURCE) == set(ORDER)


def test_contributing_lists_every_room() -> None:
    assert documented_rooms((ROOT / "CONTRIBUTING.md").read_text()) == rooms(SOURCE)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule: Checker) -> None:
    found = rule(SOURCE)
    assert not found, "\n".join(map(str, found))


def house(folder: Path, **files: str) -> Path:
    """A package with these files; `__` in a name is the separator of folders."""
    source = folder / "house"
    for name, text in {"": "", "low": "", "high": "from house.low.wall import brick\n", **files}.items():
        path = source.joinpath(*name.split("__")) if name else source
        if not path.suffix:
            path = path / "__init__.py" if name in ("", "low", "high") else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return source


CLEAN = {
    "low__wall": "import os\n\nbrick = os.sep\n",
    "low__roof": """
from house.low import wall

class Tile:
    def __init__(self):
        self._laid = wall.brick
        super()._start()
        type(self)._count()

    def __eq__(self, other):
        return self._laid == other._laid and isinstance(other, Tile)

    def replaced(self, pair):
        return pair._replace(first=self.__dict__)
""",
    "high__storage": "class Storage: ...\nclass Folder(Storage): ...\n",
    "high__user": "from house.high.storage import Storage\n\ndef is_storage(x): return isinstance(x, Storage)\n",
}


@pytest.mark.parametrize("checker", [*RULES, lambda source: broken_order(source, ["high", "low"])])
def test_a_clean_house_passes(tmp_path: Path, checker: Checker) -> None:
    assert checker(house(tmp_path, **CLEAN)) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("from house.high import storage", "imports house.high.storage, a higher room"),
        ("def late():\n    import house.high.user", "imports house.high.user, a higher room"),
        ("import house", "imports the whole package"),
        ("from house import __version__", "imports the whole package"),
    ],
)
def test_an_import_that_points_up_is_found(tmp_path: Path, text: str, says: str) -> None:
    source = house(tmp_path, **CLEAN, low__extra=text)
    (violation,) = broken_order(source, ["high", "low"])
    assert says in str(violation)


@pytest.mark.parametrize(
    "text",
    [
        "from house.low import roof",
        "from house.low.roof import Tile",
        "def late():\n    from house.low.roof import Tile",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.low.roof",
    ],
)
def test_a_cycle_is_found(tmp_path: Path, text: str) -> None:
    found = cycles(house(tmp_path, **CLEAN | {"low__wall": text}))
    assert [violation.module for violation in found] == ["house.low.roof", "house.low.wall"]
    assert "house.low.wall -> house.low.roof -> house.low.wall" in str(found[1])


def test_a_longer_cycle_is_found(tmp_path: Path) -> None:
    files = {"low__a": "import house.low.b", "low__b": "import house.low.c", "low__c": "import house.low.a"}
    assert len(cycles(house(tmp_path, **CLEAN, **files))) == 3


def test_a_package_is_not_imported_from_within(tmp_path: Path) -> None:
    (violation,) = cycles(house(tmp_path, **CLEAN, low__extra="from house.low import anything"))
    assert "imports house.low, the package that it is in" in str(violation)


@pytest.mark.parametrize(
    "text",
    [
        "def look(tile): return tile._laid",
        "def write(tile): tile._laid = 1",
        "def call(tile): return tile.parent()._lay()",
        "from house.low import roof\nroof._secret",
        "from house.low.roof import _secret",
    ],
)
def test_private_access_is_found(tmp_path: Path, text: str) -> None:
    (violation,) = private_access(house(tmp_path, **CLEAN, high__extra=text))
    assert violation.module == "house.high.extra"


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, Folder)",
        "issubclass(x, (int, Folder))",
        "isinstance(x, storage.Folder | None)",
        "type(x) is Folder",
        "Folder == type(x)",
        "isinstance(x, FileSegments)",
        "match x:\n    case Folder(): pass",
        "class Deep(Folder): ...\nisinstance(x, Deep)",
    ],
)
def test_a_question_about_a_storage_is_found(tmp_path: Path, text: str) -> None:
    (violation,) = storage_tests(house(tmp_path, **CLEAN, high__extra=text))
    assert violation.module == "house.high.extra"


@pytest.mark.parametrize(
    "text",
    [
        'QUERY = "SELECT id FROM items"',
        'def f(db): db.execute(f"DELETE FROM {name}")',
        "def f(db, text): return db.execute(text)",
        'def f(db): db.run("PRAGMA user_version")',
    ],
)
def test_sql_elsewhere_is_found(tmp_path: Path, text: str) -> None:
    assert {one.module for one in stray_sql(house(tmp_path, **CLEAN, high__extra=text))} == {
        "house.high.extra"
    }
    assert not stray_sql(house(tmp_path / "home", **CLEAN, high__database=text))


def test_documented_rooms() -> None:
    page = "| room | verb |\n| --- | --- |\n| `cli/`, `demo/` | x |\n| `versions.py` | `no` |\n\n| `not/` |\n"
    assert documented_rooms(page) == {"cli", "demo", "versions"}
