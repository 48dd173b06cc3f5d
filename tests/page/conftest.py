"""A service and a browser for each test of the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.page.digits_service import chromium, fill, serving
from tests.serve.running import Running

Opens = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pytest.importorskip("PIL", reason="pillow is not installed")
    path = chromium()
    if path is None:
        pytest.skip("there is no Chromium on PATH")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=path, args=arguments)
        yield found
        found.close()


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Path:
    """Tables and images that tests copy."""
    folder = tmp_path_factory.mktemp("filled")
    fill(folder / "tables", folder / "images")
    return folder


@pytest.fixture
def service(tmp_path: Path, filled: Path) -> Iterator[Running]:
    with serving(tmp_path / "copy", filled) as found:
        yield found


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory, filled: Path) -> Iterator[Running]:
    """For tests that change nothing."""
    with serving(tmp_path_factory.mktemp("shared") / "copy", filled) as found:
        yield found


@pytest.fixture
def open_page(browser: Any, service: Running) -> Iterator[Opens]:
    """open_page(hash, **context) -> a page of a new profile. An error in its console fails the test.

    refused : the status of an answer that the test expects, which the browser reports as an error.
    """
    yield from opening(browser, service)


@pytest.fixture(scope="module")
def open_shared(browser: Any, shared_service: Running) -> Iterator[Opens]:
    """The same for tests that change nothing."""
    yield from opening(browser, shared_service)


def opening(browser: Any, service: Running) -> Iterator[Opens]:
    contexts: list[Any] = []
    errors: list[str] = []

    def heard(message: Any, refused: str) -> None:
        if message.type == "error" and not (refused and f"status of {refused}" in message.text):
            errors.append(message.text)

    def opened(where: str = "", refused: str = "", **context: Any) -> Any:
        settings = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **context}
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: heard(message, refused))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{service.url}/{where}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not errors, errors
