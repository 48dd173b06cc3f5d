"""The site has every page and every public name. `make docs` builds it and checks its links."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from hashstream import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS / "_site"))

from check import problems  # noqa: E402
from command_help import command_page  # noqa: E402
from links import ROOT_PAGES, slug, with_site_links  # noqa: E402
from reference import reference, reference_page  # noqa: E402
from results import command_of, commands, output_page, with_links  # noqa: E402
from sections import spelled_out  # noqa: E402

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
OUTPUTS = sorted((DOCS / "results").glob("perf-*.txt"))


def pages(nav: Any) -> Iterator[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else []:
        yield from pages(part)


def test_every_page_is_in_the_navigation_once() -> None:
    written = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    outputs = [f"results/{file.stem}.md" for file in OUTPUTS]
    names = [f"reference/{name}" for name in [*reference(), "index.md", "commands.md"]]
    assert sorted(pages(CONFIG["nav"])) == sorted([*written, *outputs, *names, *ROOT_PAGES.values()])


def test_every_public_name_is_in_the_reference() -> None:
    described = [name for page in reference().values() for name in page.names]
    assert len(described) == len(set(described))
    objects = [getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in described]
    for room in ("", ".hamming", ".features", ".evaluate", ".datasets", ".table", ".scale", ".checks"):
        module = import_module(f"hashstream.hashers{room}" if room == ".features" else f"hashstream{room}")
        for name in module.__all__:
            value = getattr(module, name)
            assert (
                name == "__version__" or isinstance(value, type(sys)) or any(value is o for o in objects)
            ), name


def test_every_command_is_in_the_reference() -> None:
    page = command_page()
    for name in re.findall(
        r"^@?(?:app|table_app|cluster_app)\.command\(\"(\w+)\"", Path(cli.__file__).read_text()
    ):
        assert f" {name}\n" in page
    for command in ("## hashstream bench", "### hashstream table search", "### hashstream milvus export"):
        assert f"\n{command}\n" in page
    assert "`--bits" in page


def test_the_extra_is_complete() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    needed = {re.split(r"[\[>=<]", name)[0] for name in project["optional-dependencies"]["docs"]}
    assert needed <= pinned
    plugins = {
        name for plugin in CONFIG["plugins"] for name in (plugin if isinstance(plugin, dict) else [plugin])
    }
    assert plugins <= {"search", *needed}  # mkdocs-material brings the search
    assert f"mkdocs-{CONFIG['theme']['name']}" in needed


@pytest.mark.parametrize("file", OUTPUTS, ids=lambda file: file.stem)
def test_an_output_is_shown_with_its_command(file: Path) -> None:
    found = commands((DOCS / "results/README.md").read_text())
    page = output_page(file, found, ROOT / "benchmarks")
    assert re.search(r"^# `(hashstream perf |python -m benchmarks\.)\w+( --[\w -]+)?`$", page, re.MULTILINE)
    assert file.read_text().splitlines()[0].rstrip() in page


def test_a_command_of_several_files() -> None:
    found = commands("| `a-PART.txt`, `b.png` | `run --part PART`: one, two |\n| `c.txt` | `run` |\n")
    assert command_of("a-one.txt", found) == "`run --part one`"
    assert command_of("b.png", found) == "`run --part PART`: one, two"
    with pytest.raises(ValueError, match="no command for d"):
        command_of("d.txt", found)


def test_names_of_results_are_links() -> None:
    index = "| `perf-fcoh.txt`, `perf-PART.txt` | `run` |\n| `paper-mnist/`, `serve/` | `perf-fcoh.txt` |\n"
    assert with_links(index, DOCS / "results") == (
        "| [`perf-fcoh.txt`](perf-fcoh.txt), `perf-PART.txt` | `run` |\n"
        "| [`paper-mnist/`](paper-mnist/report.md), `serve/` | `perf-fcoh.txt` |\n"
    )


@pytest.mark.parametrize(
    ("source", "target", "link"),
    [
        ("docs/table.md", "filters.md#filters", "filters.md#filters"),
        ("docs/table.md", "#search", "#search"),
        ("docs/table.md", "../CONTRIBUTING.md#words", "project/contributing.md#words"),
        ("docs/table.md", "results/perf-table.txt", "results/perf-table.md"),
        ("docs/table.md", "../Dockerfile", "https://host/us/blob/main/Dockerfile"),
        ("docs/table.md", "../benchmarks", "https://host/us/tree/main/benchmarks"),
        ("docs/table.md", "https://elsewhere.org/x.md", "https://elsewhere.org/x.md"),
        ("docs/results/README.md", "../table.md", "../table.md"),
        ("README.md", "docs/table.md#search", "../table.md#search"),
        ("README.md", "CHANGELOG.md", "changelog.md"),
        ("README.md", "docs/results/perf-fcoh.txt", "../results/perf-fcoh.md"),
    ],
)
def test_links_of_the_repository_are_links_of_the_site(source: str, target: str, link: str) -> None:
    def converted(text: str) -> str:
        return with_site_links(text, source, "https://host/us", lambda path: (ROOT / path).is_dir())

    assert converted(f"see [it]({target}), and ![too]({target})") == f"see [it]({link}), and ![too]({link})"
    code = f"`[it]({target})` and\n\n```python\nx = f[i]({target})\n```\n"
    assert converted(code) == code


def test_anchors_are_those_of_a_code_host() -> None:
    assert slug("mAP and precision@H2: n_t, λ1 (8 bits)") == "map-and-precisionh2-n_t-λ1-8-bits"


def test_short_docstrings_are_spelled_out() -> None:
    text = "Do it.\n\nk : how many,\n    at least 1.\na, b : both. Which : no entry.\nz : no parameter.\n\n>>> 1\n1"
    assert spelled_out(text, {"k", "a", "b"}, "Parameters") == (
        "Do it.\n\nz : no parameter.\n\nParameters\n----------\nk\n    how many,\n    at least 1.\na\n"
        "    both. Which : no entry.\nb\n    both. Which : no entry.\n\nExamples\n--------\n>>> 1\n1"
    )
    text = "Do it.\n\nReturns\n-------\nint\n\n>>> 1\n1\n\nMore."
    assert spelled_out(text, set(), "Parameters") == text.replace(">>>", "Examples\n--------\n>>>")
    assert spelled_out("Examples\n--------\n>>> 1", set(), "Attributes") == "Examples\n--------\n>>> 1"


def test_the_reference_asks_for_names() -> None:
    page = reference()["hamming.md"]
    assert "::: hashstream.hamming.topk\n" in reference_page(page)


def test_the_checker_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    good = '<a href="../#here">up</a><a href="https://elsewhere.org/">out</a><img src="p.png">'
    (tmp_path / "index.html").write_text('<h1 id="here">x</h1><a href="a/">a</a><a href="#here">h</a>')
    (tmp_path / "a" / "index.html").write_text(good)
    (tmp_path / "a" / "p.png").write_text("")
    assert problems(tmp_path) == []
    bad = '<a href="../#gone"></a><a href="none/"></a><script src="https://cdn.org/x.js"></script>'
    (tmp_path / "a" / "index.html").write_text(bad)
    (tmp_path / "s.css").write_text("a { background: url(https://cdn.org/f.woff) }")
    assert problems(tmp_path) == [
        "a/index.html: loads https://cdn.org/x.js",
        "a/index.html: ../#gone: no such anchor",
        "a/index.html: none/ leads nowhere",
        "s.css: loads https://cdn.org/f.woff",
    ]
