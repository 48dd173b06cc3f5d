"""The page by keyboard alone, on a phone, in the dark, with a token, and the views of health and the map."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.page.digits_service import TRUTH, labels_of, serving, state, until
from tests.serve.running import Running

from hashstream.serve.tokens import TokenFile, add_token

Opens = Callable[..., Any]


def focused(page: Any, selector: str) -> bool:
    return bool(page.evaluate("(s) => Boolean(document.activeElement?.matches(s))", selector))


def tab_to(page: Any, selector: str, most: int = 60) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if focused(page, selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_everything_by_keyboard(open_page: Opens, service: Running) -> None:
    page = open_page()
    page.wait_for_selector(".card")
    tab_to(page, ".card .face")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("i")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    until(page, "document.activeElement.matches('.card .face')")  # the focus goes back to where it was
    until(page, "!location.hash.includes('item=')")  # and so does the address
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Nearest to item')")
    page.keyboard.press("t")
    page.wait_for_selector(".choice")
    tab_to(page, ".switch a:not([aria-current])")
    page.keyboard.press("Enter")
    page.wait_for_selector(".teachable")
    until(page, "location.hash.includes('q=')")
    query = state(page.url)["q"]
    page.keyboard.press(str(TRUTH[query]))
    page.keyboard.press("g")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.locator(".teachable.other").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_selector("button:has-text('Next item')")
    assert labels_of(service)[query] == TRUTH[query]
    assert len(labels_of(service)) == 24  # the query and all answers but one
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open] >> text=undo the last step")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]", state="detached")
    for key, view in ("h", "health"), ("m", "map"), ("s", "search"):
        page.keyboard.press(key)
        until(page, f"location.hash.includes('/{view}')")


def test_keys_rest_while_a_text_is_typed(open_page: Opens) -> None:
    page = open_page("#/words/teach?mode=answers")
    page.wait_for_selector(".teachable")
    page.keyboard.press("c")
    page.keyboard.type("shtm?")
    assert "/teach" in page.url
    assert page.input_value("[aria-label='New class']") == "shtm?"


@pytest.mark.parametrize("view", ["search", "search?q=3", "teach", "teach?mode=answers", "health", "map"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_window(open_shared: Opens, view: str, width: int) -> None:
    page = open_shared(f"#/digits/{view}", viewport={"width": width, "height": 800})
    page.wait_for_selector(".card .distance, .choice, .chart, .legend button")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_dark_by_the_system_and_by_the_button(open_page: Opens) -> None:
    page = open_page(color_scheme="dark")
    page.wait_for_selector(".card")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#theme")  # light
    light = page.evaluate(ground)
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
    page.reload()
    page.wait_for_selector(".card")
    assert page.evaluate(ground) == light
    other = open_page(color_scheme="light")
    other.wait_for_selector(".card")
    assert other.evaluate(ground) == light


def test_health_says_what_a_refresh_brings(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/health")
    page.wait_for_selector(".tile:has-text('600')")
    page.wait_for_selector(".live.on")
    assert (
        service.post("/v1/tables/digits/labels", {"ids": list(range(100)), "labels": TRUTH[:100]}).status
        == 200
    )
    page.wait_for_selector(".events >> text=100 items labelled")
    stale = service.get("/v1/tables/digits/health").body["refresh"]["stale"]
    if stale:
        page.wait_for_selector(f"text={stale} items would be re-encoded")
        page.click("text=Refresh now")
        page.wait_for_selector(f"text={stale} items re-encoded")
    page.wait_for_selector("text=Nothing: every code is of the current version.")


def test_the_map_opens_an_item_and_hides_classes(open_page: Opens, service: Running) -> None:
    service.post("/v1/tables/digits/labels", {"ids": list(range(50)), "labels": TRUTH[:50]})
    page = open_page("#/digits/map")
    page.wait_for_selector(".legend button")
    assert page.locator(".legend button").count() == 11  # ten classes, and no label
    page.locator(".legend button").first.click()
    until(page, "location.hash.includes('only')")
    assert 0 not in state(page.url)["only"]
    page.keyboard.press("g")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    assert "Item" in page.inner_text(".tip")
    item = page.inner_text(".tip strong")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"h1:has-text('Nearest to {item.lower()}')")


def test_a_token_is_asked_for_and_sent_everywhere(browser: Any, tmp_path: Path, filled: Path) -> None:
    tokens = tmp_path / "tokens"
    token = add_token(tokens, "reader", "write")
    with serving(tmp_path / "copy", filled, tokens=TokenFile(tokens), token=token) as service:
        page = browser.new_page()
        page.goto(service.url)
        page.wait_for_selector("dialog[open] >> text=needs a token")
        page.fill("dialog input", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open] >> text=not known")
        page.fill("dialog input", token)
        page.keyboard.press("Enter")
        page.wait_for_selector(".card")
        until(page, "[...document.querySelectorAll('.card img')].every((i) => i.naturalWidth === 8)")
        assert page.evaluate("document.querySelector('.card img').src").startswith("blob:")
        page.reload()
        page.wait_for_selector(".card")  # kept in the tab
        page.keyboard.press("h")
        page.wait_for_selector(".live.on")
        page.close()
