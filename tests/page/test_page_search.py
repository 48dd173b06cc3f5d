"""The page's search: by an item, a file or numbers, with filters and pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.page.digits_service import N_ITEMS, X, state, until
from tests.serve.running import Running

Opens = Callable[..., Any]


def ids(page: Any) -> list[Any]:
    return [json.loads(card.get_attribute("data-id")) for card in page.query_selector_all(".card")]


def distances(page: Any) -> list[float]:
    return [float(shown.inner_text()) for shown in page.query_selector_all(".card .distance")]


def title(page: Any, text: str) -> None:
    page.wait_for_selector(f"h1:has-text('{text}')")
    page.wait_for_selector("[aria-busy]", state="detached")


def test_it_opens_with_items_to_pick_and_a_line_that_says_what_to_do(open_shared: Opens) -> None:
    page = open_shared()
    title(page, "Pick an item")
    assert "Pick an item" in page.inner_text("#lead")
    assert ids(page) == list(range(24))
    assert state(page.url) == {}
    assert "#/digits/search" in page.url  # the first table that has items
    until(page, "[...document.querySelectorAll('.card img')].every((i) => i.naturalWidth === 8)")


def test_a_click_searches_and_the_answers_are_those_of_the_service(
    open_shared: Opens, shared_service: Running
) -> None:
    page = open_shared()
    page.click("[data-id='7'] .face")
    title(page, "Nearest to item 7")
    answer = shared_service.post("/v1/tables/digits/search", {"like": [7], "k": 24, "rescore": 200}).body
    assert ids(page) == answer["ids"][0]
    assert distances(page) == pytest.approx(answer["distances"][0], abs=1e-3)
    page.click("summary:has-text('Options')")
    page.check("text=Rank by codes alone")
    until(page, "[...document.querySelectorAll('.distance')].every((one) => !one.textContent.includes('.'))")
    by_code = shared_service.post("/v1/tables/digits/search", {"like": [7], "k": 24}).body
    assert ids(page) == by_code["ids"][0]
    assert distances(page) == by_code["distances"][0]
    page.go_back()
    title(page, "Nearest to item 7")
    page.go_back()
    title(page, "Pick an item")


def test_a_link_shows_the_same_to_somebody_else(open_shared: Opens) -> None:
    page = open_shared()
    page.click("[data-id='3'] .face")
    title(page, "Nearest to item 3")
    page.keyboard.press("n")
    page.wait_for_selector("text=page 2 of 25")
    other = open_shared("#" + page.url.partition("#")[2])
    other.wait_for_selector("text=page 2 of 25")
    assert ids(other) == ids(page)


def test_filters_by_form_and_by_json(open_shared: Opens, shared_service: Running) -> None:
    page = open_shared("#/digits/search?q=5")
    title(page, "Nearest to item 5")
    page.keyboard.press("f")
    page.select_option("[aria-label=Field]", "ink")
    page.select_option("[aria-label=Operator]", "$gt")
    page.fill(".condition .value input", "5")
    page.click("text=+ Add")
    page.locator("[aria-label=Field]").nth(1).select_option("side")
    page.locator(".condition .value input").nth(1).fill("left")
    page.keyboard.press("Enter")
    where = {"$and": [{"ink": {"$gt": 5}}, {"side": "left"}]}
    until(page, "location.hash.includes('where')")
    title(page, "Nearest to item 5")
    assert state(page.url)["where"] == where
    expected = shared_service.post(
        "/v1/tables/digits/search", {"like": [5], "k": 24, "where": where, "rescore": 200}
    ).body
    page.wait_for_selector("text=that match")
    assert ids(page) == expected["ids"][0]
    page.click("text=JSON")
    page.fill("[aria-label='Filter as JSON']", '{"$or": [{"ink": {"$lt": 3}}, {"id": 9}]}')
    page.click("text=Apply")
    until(page, "decodeURIComponent(location.hash).includes('$or')")
    page.wait_for_selector("text=that match")
    page.reload()
    title(page, "Nearest to item 5")
    assert "$or" in page.input_value("[aria-label='Filter as JSON']")


def test_a_filter_that_is_wrong_says_how(open_shared: Opens) -> None:
    page = open_shared("#/digits/search?where=" + '{"colour": 3}'.replace('"', "%22"), refused="422")
    page.wait_for_selector("text=unknown field 'colour'")
    page.click("text=Start again")
    title(page, "Pick an item")
    page.keyboard.press("f")
    page.select_option("[aria-label=Field]", "ink")
    page.click("text=Apply")
    page.wait_for_selector("text=Give a value for ink")


def test_pages_end(open_shared: Opens) -> None:
    page = open_shared("#/digits/search?page=24")
    page.wait_for_selector("text=page 25 of 25")
    assert page.is_disabled("text=Next")
    assert ids(page) == list(range(576, N_ITEMS))
    page = open_shared("#/digits/search?page=99")
    page.click("text=First page")
    title(page, "Pick an item")


@pytest.mark.parametrize("kind", ["npy", "json", "csv"])
def test_a_file_with_a_vector_searches(open_shared: Opens, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"query.{kind}"
    row = X[11]
    if kind == "npy":
        np.save(file, row)
    else:
        file.write_text(json.dumps(row.tolist()) if kind == "json" else ",".join(map(str, row.tolist())))
    page = open_shared("#/digits/search")
    page.set_input_files("#file", file)
    title(page, f"Nearest to query.{kind}")
    assert ids(page)[0] == 11
    page.reload()
    title(page, f"Nearest to query.{kind}")  # kept in the tab


def test_a_vector_of_another_length_is_refused_with_a_sentence(open_shared: Opens) -> None:
    page = open_shared("#/digits/search")
    page.click("text=Paste numbers")
    page.fill("[aria-label='A vector as JSON or CSV']", "[1, 2, 3]")
    page.click("details >> text=Search")
    page.wait_for_selector("text=the pasted vector has 3 numbers; the items of this table have 64.")


def test_details_show_fields_and_the_code(open_shared: Opens, shared_service: Running) -> None:
    page = open_shared("#/digits/search?q=5&item=6")
    page.wait_for_selector("dialog[open] h2:has-text('Item 6')")
    item = shared_service.post("/v1/tables/digits/items/get", {"ids": [6]}).body
    assert page.inner_text(".hex") == item["codes"][0]
    on = page.query_selector_all(".bits .on")
    assert len(on) == int(item["codes"][0], 16).bit_count()
    assert str(item["fields"]["ink"][0]) in page.inner_text(".detail")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    until(page, "!location.hash.includes('item')")  # set by an event that follows
    assert state(page.url) == {"q": 5}


def test_items_without_images_show_text_and_markup_is_text(open_shared: Opens) -> None:
    page = open_shared('#/words/search?q="note/3"')
    title(page, "Nearest to item note/3")
    assert "Note 3 <b>bold</b>" in page.inner_text(".card.own .face")
    assert page.query_selector(".card b, .card i, .query b") is None
    assert "spam" in page.inner_text(".query")


def test_an_empty_table_and_a_wrong_link_say_what_to_do(open_shared: Opens) -> None:
    page = open_shared("#/empty/search")
    page.wait_for_selector("text=This table has no items yet")
    page = open_shared("#/nothing/search")
    page.click("a.pill:has-text('words')")
    title(page, "Pick an item")
