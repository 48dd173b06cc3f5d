"""The documentation is true: its examples run, its links lead somewhere, and the method of CONTRIBUTING works."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import which
from typer.testing import CliRunner

from hashstream import cli, evaluate
from hashstream.checks import check_hasher
from hashstream.hashers import registry

ROOT = Path(__file__).parents[1]
ENGINES = [*sorted((ROOT / "docs/elsewhere").glob("*.md")), ROOT / "docs/milvus.md"]
"""Pages that need clients and servers: tests/test_elsewhere.py and tests/scale/test_milvus.py run their examples."""
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *ENGINES,
    ROOT / "docs/results/README.md",
    ROOT / "examples/README.md",
]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name)
        for page in PAGES
        if ">>> " in page.read_text()
        and page not in ENGINES
        and page.name != "README.md"  # which pytest runs itself
    ],
)
def test_examples_run(page: Path) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert tried
    assert not failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in headings(file), f"{page.name}: {target}"


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_link_to_a_page_is_in_words(page: Path) -> None:
    """On the site there is no file of that name. CONTRIBUTING.md is a file of the repository."""
    assert set(re.findall(r"\[([^]\s]+\.md)\]\(", page.read_text())) <= {"CONTRIBUTING.md"}


def test_tables_of_methods_are_those_of_the_measured_rows() -> None:
    """Otherwise run `python -m benchmarks.which`."""
    page = (ROOT / "docs/which-method.md").read_text()
    assert set(re.findall(r"<!-- table (\S+) -->", page)) == set(which.TABLES)
    assert which.which_method(page) == page
    assert which.which() == (ROOT / "docs/results/which.md").read_text()


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert page.name == "index.md" or f"({page.name})" in index


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example of CONTRIBUTING as perceptron.py, as the current folder."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL)
    (tmp_path / "perceptron.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(registry, "_METHODS", registry.methods(variants=True))
    monkeypatch.delitem(sys.modules, "perceptron", raising=False)
    return tmp_path


def test_the_example_keeps_the_contract(example: Path) -> None:
    import perceptron  # type: ignore[import-not-found]

    check_hasher(perceptron.Perceptron(n_bits=16))
    X, y = np.eye(3)[[0, 1, 2, 0]], np.array([[1, 0, 0], [0, 1, 1], [0, 0, 1], [1, 0, 0]])
    several = perceptron.Perceptron(n_bits=16, step=40.0, random_state=0).fit(X, y)
    assert len(several.codewords_) == 3
    codes = np.unpackbits(several.transform(X), axis=1)
    np.testing.assert_array_equal(codes[0], several.codewords_[0] > 0)
    np.testing.assert_array_equal(codes[2], several.codewords_[2] > 0)


def test_the_example_is_measured_by_name(example: Path) -> None:
    options = [
        "--dataset",
        "digits",
        "--methods",
        "perceptron.py:Perceptron,LSH",
        "--bits",
        "16",
        "--runs",
        "1",
        "--out",
        "results",
    ]
    result = CliRunner().invoke(cli.app, ["bench", *options])
    assert result.exit_code == 0, result.output
    rows = evaluate.Results(example / "results" / "results.csv")
    ours, lsh = evaluate.summarise(rows, "digits", ["mAP"], "paper")[-1:-30:-15]
    assert (ours.method, lsh.method, ours.n_train, lsh.n_train) == ("Perceptron", "LSH", 1500, 1500)
    assert ours.mean > lsh.mean + 0.2  # labels are learned from


@pytest.mark.parametrize(
    ("name", "says"),
    [("nowhere:A", "No module"), ("perceptron:Nobody", "Nobody"), ("perceptron:np", "OnlineHasher")],
)
def test_a_method_that_is_none(example: Path, name: str, says: str) -> None:
    result = CliRunner().invoke(
        cli.app, ["bench", "--dataset", "digits", "--methods", name, "--out", "results"]
    )
    assert result.exit_code != 0
    assert says in result.output
