"""Pages of the docs whose examples need a client or a server."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def run_page(name: str, *clients: str, **instead: str) -> None:
    """Run the examples of a page. clients : modules that it needs. instead : written address -> the one to use."""
    for module in clients:
        pytest.importorskip(module, reason=f"{module} is not installed")
    path = DOCS / name
    text = path.read_text()
    for address, ours in instead.items():
        assert address in text
        text = text.replace(address, ours)
    test = doctest.DocTestParser().get_doctest(text, {}, name, str(path), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    failed, tried = runner.run(test, out=said.append)
    assert tried
    assert not failed, "".join(said)
