"""Boards of suggestions on the page: guesses, corrections by one click or key, undo, and nothing lost on a reload."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.page.digits_service import TRUTH, labels_of, precision, until
from tests.serve.running import Running

Opens = Callable[..., Any]

FIRST, SIZE = 12, 24
IDLE = "!document.querySelector('[aria-busy]') && document.querySelectorAll('.choice').length > 0"


def cards(page: Any) -> dict[int, Any]:
    """The cards of the board, by the ids of their items."""
    until(page, IDLE)
    return {json.loads(card.get_attribute("data-id")): card for card in page.query_selector_all(".choice")}


def kinds(page: Any) -> dict[int, str]:
    """Whether a card is open, guess, given or out."""
    known = {"open", "guess", "given", "out"}
    return {i: (known & set(card.get_attribute("class").split())).pop() for i, card in cards(page).items()}


def chosen(page: Any) -> dict[int, Any]:
    """The class that each card counts as, by the button that is pressed."""
    found = {}
    for i, card in cards(page).items():
        pressed = card.query_selector(".pick[aria-pressed=true]")
        found[i] = json.loads(pressed.get_attribute("data-label")) if pressed else None
    return found


def focused(page: Any) -> int:
    """The item of the card that has the focus."""
    found = page.evaluate("document.activeElement.closest('.choice')?.dataset.id")
    assert found is not None, "no card has the focus"
    return int(json.loads(found))


def correct(page: Any) -> int:
    """Give every card its true class, by a click where it counts as another one; how many clicks that took."""
    clicks = 0
    for i, label in chosen(page).items():
        if label != TRUTH[i]:
            cards(page)[i].query_selector(f".pick[data-label='{TRUTH[i]}']").click()
            clicks += 1
    return clicks


def send(page: Any) -> None:
    """Teach the board, and wait for the next one."""
    sent = {i for i, kind in kinds(page).items() if kind in ("guess", "given")}
    page.click("button:has-text('Teach')")
    page.wait_for_selector("text=Taught a board")
    assert sent.isdisjoint(cards(page))


def test_clicks_on_classes_teach_and_precision_rises(open_page: Opens, service: Running) -> None:
    before = precision(service)
    page = open_page("#/digits/teach")
    assert set(kinds(page).values()) == {"open"}
    assert len(cards(page)) == FIRST
    page.click("button:has-text('0 … 9')")
    assert correct(page) == FIRST
    send(page)
    assert len(cards(page)) == SIZE
    assert set(kinds(page).values()) == {"guess"}
    wrong = correct(page)
    assert 0 < wrong < SIZE / 2
    page.wait_for_selector(f"text={wrong} corrected")
    send(page)
    assert precision(service) > before + 0.03
    correct(page)
    send(page)
    assert precision(service) > before + 0.1
    labels = labels_of(service)
    assert len(labels) == FIRST + 2 * SIZE
    assert all(type(label) is int and label == TRUTH[i] for i, label in labels.items())
    bars = page.get_attribute(".boards", "aria-label")
    assert bars.startswith(f"Guesses right, board by board: {SIZE - wrong} of {SIZE}, ")
    page.wait_for_selector(f"text={len(labels)} of 600 items have labels")


def test_every_board_is_a_write_with_a_key_and_a_refresh(open_page: Opens, service: Running) -> None:
    sent: list[tuple[str, str | None]] = []
    page = open_page("#/digits/teach")
    page.on("request", lambda one: one.method == "POST" and sent.append(
        (one.url.rpartition("/")[2], one.headers.get("idempotency-key"))
    ))  # fmt: skip
    cards(page)
    page.keyboard.press("4")
    send(page)
    writes = [(name, key) for name, key in sent if name in ("labels", "refresh")]
    assert [name for name, _ in writes] == ["labels", "refresh"]
    assert all(key for _, key in writes)
    assert list(labels_of(service).values()) == [4]  # open cards are not sent


def test_everything_by_keyboard(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/search")
    page.wait_for_selector(".card")
    page.keyboard.press("t")
    order = list(cards(page))
    assert focused(page) == order[0]
    page.keyboard.press("ArrowRight")
    assert focused(page) == order[1]
    page.keyboard.press("Delete")
    assert kinds(page)[order[1]] == "out"
    assert focused(page) == order[2]
    for _ in range(FIRST - 1):
        page.keyboard.press(str(TRUTH[focused(page)]))
    assert set(kinds(page).values()) == {"given", "out"}
    assert page.inner_text("button.primary").startswith(f"Teach {FIRST - 1}")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Taught a board of 11 items")
    assert labels_of(service) == {i: TRUTH[i] for i in order if i != order[1]}
    assert order[1] not in cards(page)  # it was left out on purpose
    focused(page)
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open] >> text=leave the card out")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")  # confirms all guesses
    page.wait_for_selector("text=24 of 24 guesses were right")
    assert len(labels_of(service)) == FIRST - 1 + SIZE


def test_undo_takes_back_choices_then_whole_boards(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/teach")
    cards(page)
    for _ in range(FIRST):
        page.keyboard.press(str(TRUTH[focused(page)]))
    first = chosen(page)
    send(page)
    after_first = labels_of(service)
    second = list(cards(page))
    correct(page)
    marked = chosen(page)
    send(page)
    page.reload()
    here = next(iter(cards(page)))
    page.keyboard.press("7")
    assert kinds(page)[here] == "given"
    page.keyboard.press("Control+z")
    assert kinds(page)[here] == "guess"
    page.keyboard.press("Control+z")
    page.wait_for_selector("text=Taken back")
    assert list(cards(page)) == second
    assert chosen(page) == marked  # the board as it was sent, to be corrected
    assert labels_of(service) == after_first
    page.click("button:has-text('Undo')")
    until(page, f"document.querySelectorAll('.choice').length === {FIRST}")
    assert chosen(page) == first
    assert labels_of(service) == {}
    until(page, "document.querySelector('.bar-top .actions button').disabled")


def test_answers_can_take_back_a_board(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/teach")
    cards(page)
    page.keyboard.press("3")
    send(page)
    page.click(".switch >> text=Answers")
    page.wait_for_selector(".teachable")
    until(page, "location.hash.includes('q=')")
    page.keyboard.press("Control+z")
    page.wait_for_selector("text=Taken back")
    assert labels_of(service) == {}


def test_a_reload_keeps_choices_that_were_not_sent(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/teach")
    order = list(cards(page))
    page.keyboard.press("5")
    page.keyboard.press("6")
    cards(page)[order[2]].query_selector(".face").click()
    page.reload()
    assert list(cards(page)) == order
    assert list(chosen(page).values())[:3] == [5, 6, None]
    assert list(kinds(page).values())[:4] == ["given", "given", "out", "open"]
    # Labels that others give meanwhile change the suggestions, but not the board that was begun.
    service.post("/v1/tables/digits/labels", {"ids": [order[3]], "labels": [1]})
    page.reload()
    assert list(cards(page)) == [i for i in order if i != order[3]]
    assert list(chosen(page).values())[:2] == [5, 6]


def test_a_click_on_the_picture_leaves_a_card_out_and_takes_it_in_again(open_page: Opens) -> None:
    page = open_page("#/words/teach")
    page.wait_for_selector(".choice.guess")
    face = page.locator(".choice .face").first
    face.click()
    assert page.locator(".choice.out").count() == 1
    assert face.get_attribute("aria-pressed") == "true"
    assert page.inner_text("button.primary").startswith("Teach 23")
    face.click()
    assert page.locator(".choice.out").count() == 0
    assert page.inner_text("button.primary").startswith("Teach 24")


def test_a_class_by_name_for_a_card_and_keys_of_names(open_page: Opens, service: Running) -> None:
    page = open_page("#/words/teach")
    page.wait_for_selector(".choice.guess")
    until(page, "document.activeElement.matches('.choice .face')")
    order = [json.loads(c.get_attribute("data-id")) for c in page.query_selector_all(".choice")]
    page.keyboard.press("c")
    page.keyboard.type("eggs")
    page.keyboard.press("Enter")
    page.keyboard.press("3")  # spam, after eggs and ham
    page.keyboard.press("9")
    page.wait_for_selector("text=No class has the key 9 yet")
    page.click("button:has-text('Teach')")
    page.wait_for_selector("text=Taught a board")
    answer = service.post("/v1/tables/words/items/get", {"ids": order[:2]}).body
    assert answer["labels"] == ["eggs", "spam"]


def test_first_classes_by_name_are_texts(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/teach")
    order = list(cards(page))
    page.locator(".plus").nth(1).click()
    page.keyboard.type("cat")
    page.keyboard.press("Enter")
    assert chosen(page)[order[1]] == "cat"
    page.fill("[aria-label='New class']", "dog")
    page.click("button:has-text('Add')")
    cards(page)[order[0]].query_selector(".pick:has-text('dog')").click()
    page.keyboard.press("Enter")  # the focus is on the card again
    page.wait_for_selector("text=Taught a board of 2 items")
    assert labels_of(service) == {order[1]: "cat", order[0]: "dog"}


def test_more_than_ten_classes_are_in_a_menu(open_page: Opens, service: Running) -> None:
    labels = [f"class {i:02d}" for i in range(14)]
    service.post("/v1/tables/digits/labels", {"ids": list(range(14)), "labels": labels})
    page = open_page("#/digits/teach")
    card = next(iter(cards(page).values()))
    assert len(card.query_selector_all(".pick[data-label]")) == 10
    card.query_selector("select").select_option(label="class 12")
    page.wait_for_selector(".choice.given .tag:has-text('class 12')")


def test_clicks_count_only_where_they_change_something(open_page: Opens) -> None:
    page = open_page("#/digits/teach")
    cards(page)
    for key in ("ArrowRight", "ArrowDown", "1", "2", "Delete", "ArrowLeft"):
        page.keyboard.press(key)
    assert "3 clicks so far" in page.inner_text(".totals")


def test_the_reason_of_the_card_in_focus_is_shown_once(open_page: Opens) -> None:
    page = open_page("#/digits/teach")
    order = list(cards(page))
    page.keyboard.press("ArrowRight")
    caption = page.inner_text(".caption")
    assert caption.startswith(f"Item {order[1]} No item has a label yet")
    assert "No item has a label yet" in cards(page)[order[1]].query_selector(".face").get_attribute("title")
    assert "No item has a label yet" not in page.inner_text(".board .grid")


def test_the_mode_is_in_the_address(open_page: Opens) -> None:
    page = open_page("#/digits/teach")
    cards(page)
    page.click(".switch >> text=Answers")
    page.wait_for_selector(".teachable")
    until(page, "location.hash.includes('mode=')")
    page.reload()
    page.wait_for_selector(".teachable")
    page.click(".switch >> text=Board")
    cards(page)
    assert "mode" not in page.url
    page.goto(page.url.partition("#")[0] + "#/digits/search?q=3")
    page.click("text=Teach with this")
    page.wait_for_selector(".teachable")
    assert page.inner_text(".about strong") == "Item 3"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_on_a_phone_nothing_is_wider_and_boards_follow_each_other(open_page: Opens, motion: str) -> None:
    page = open_page("#/digits/teach", viewport={"width": 400, "height": 800}, reduced_motion=motion)
    cards(page)
    for _ in range(FIRST):
        page.keyboard.press(str(TRUTH[focused(page)]))
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    send(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    sizes = page.evaluate(
        "[...document.querySelectorAll('.pick')].map((p) => p.getBoundingClientRect().toJSON())"
    )
    assert min(min(size["width"], size["height"]) for size in sizes) >= 24


def test_empty_and_fully_labelled_tables_say_so(open_page: Opens, service: Running) -> None:
    page = open_page("#/empty/teach")
    page.wait_for_selector("text=This table has no items yet")
    service.post("/v1/tables/digits/labels", {"ids": list(range(600)), "labels": TRUTH})
    page = open_page("#/digits/teach")
    page.wait_for_selector("text=There is nothing left to suggest")


def test_choices(open_shared: Opens) -> None:
    body = """async () => {
        const { Choices } = await import("/page/choices.js");
        const items = [{id: 1, guess: "a"}, {id: "1", guess: "b"}, {id: 3, guess: null}, {id: 4, guess: "a"}];
        const one = new Choices({ items });
        one.give(items[1], "a");
        one.give(items[2], "c");
        one.leave(items[3]);
        const sent = [one.changes().map((c) => [c.id, c.after]), one.seen(), one.after(items[1])?.id];
        const copy = new Choices({ ...JSON.parse(JSON.stringify(one)), items, fresh: 0 });
        copy.give(items[2], "d");
        copy.give(items[0], "a");
        copy.give(items[0], "a");
        const fresh = copy.fresh;
        copy.takeBack();
        return [...sent, fresh, copy.fresh, copy.of(items[2]).kind, copy.of(items[1]).label];
    }"""
    changes, seen, after, fresh, left, kind, label = open_shared().evaluate(body)
    assert changes == [[1, "a"], ["1", "a"], [3, "c"]]
    assert seen == {"right": 1, "of": 2}
    assert after == 1
    assert (fresh, left, kind, label) == (1, 0, "open", "a")
