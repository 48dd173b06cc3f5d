"""Files of the page keep to the rules: nothing from elsewhere, nothing inline, data never becomes markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hashstream

PAGE = Path(hashstream.__file__).parent / "serve" / "page"
FILES = sorted(path for path in PAGE.iterdir() if path.is_file())
MODULES = [path for path in FILES if path.suffix == ".js"]


def test_there_is_a_page() -> None:
    assert {"index.html", "app.js", "base.css"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_short_and_lines_too(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 400
    if path.suffix == ".js":
        long = [f"{path.name}:{i}" for i, line in enumerate(lines, 1) if len(line) > 120]
        assert not long


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_data_never_becomes_markup_or_code(path: Path) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser"
    assert not re.findall(forbidden, path.read_text())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_imports_are_files_of_the_page(path: Path) -> None:
    wanted = re.findall(
        r'^(?:import|export) .*?from "(.*?)";', path.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    assert all(name.startswith("./") and (PAGE / name).is_file() for name in wanted)


def test_the_page_has_no_inline_script_or_style() -> None:
    text = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)
    links = re.findall(r'(?:src|href)="(?!#)(.*?)"', text)
    assert links
    assert all((PAGE.parent / link).is_file() for link in links)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    found = set(re.findall(r"https?://[^\s\"'`)]+", path.read_text()))
    assert found <= {"http://www.w3.org/2000/svg"}
