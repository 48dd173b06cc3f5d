"""Teaching on the page: marks, re-ranking, the curve, undo, and nothing lost on a reload."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.page.digits_service import TRUTH, labels_of, precision, state, until
from tests.serve.running import Running

Opens = Callable[..., Any]


def ready(page: Any) -> int:
    """Wait until a query and its answers are shown; the query's id."""
    page.wait_for_selector(".teachable")
    asked = "new URLSearchParams(location.hash.split('?')[1]).get('q')"
    shown = "document.querySelector('.about strong')?.textContent"
    until(page, f"!document.querySelector('[aria-busy]') && {shown} === `Item ${{{asked}}}`")
    return int(state(page.url)["q"])


def cards(page: Any) -> dict[int, Any]:
    return {json.loads(card.get_attribute("data-id")): card for card in page.query_selector_all(".teachable")}


def marked(page: Any, kind: str) -> set[int]:
    return {i for i, card in cards(page).items() if kind in card.get_attribute("class").split()}


def mark(page: Any) -> int:
    """Say what the query is, by one key, and click the answers that are wrong; the query's id."""
    query = ready(page)
    page.keyboard.press(str(TRUTH[query]))
    for i, card in cards(page).items():
        wrong = TRUTH[i] != TRUTH[query]
        if wrong != ("other" in card.get_attribute("class").split()):
            card.query_selector(".face").click()
    return query


def send(page: Any) -> None:
    page.keyboard.press("Enter")
    page.wait_for_selector("button:has-text('Next item')")


def teach(page: Any, times: int) -> None:
    for _ in range(times):
        query = mark(page)
        send(page)
        page.keyboard.press("Enter")
        until(page, f"new URLSearchParams(location.hash.split('?')[1]).get('q') !== '{query}'")
    ready(page)


def test_clicks_teach_the_table_and_precision_rises(open_page: Opens, service: Running) -> None:
    before = precision(service)
    page = open_page("#/digits/teach?mode=answers")
    teach(page, 20)
    labels = labels_of(service)
    assert len(labels) > 100
    assert all(label == TRUTH[i] for i, label in labels.items())
    assert precision(service) > before + 0.05
    counts = service.get("/v1/tables/digits/teaching").body["classes"]
    assert sum(one["count"] for one in counts) == len(labels)
    page.wait_for_selector(f"text={len(labels)} of 600 items have labels")
    page.reload()
    ready(page)
    page.wait_for_selector(f"text={len(labels)} of 600 items have labels")
    assert labels_of(service) == labels


def test_wrong_answers_stay_without_label_unless_given_a_class(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/teach?q=0")
    query = ready(page)
    page.keyboard.press("0")
    first, second, *rest = cards(page)
    cards(page)[first].query_selector(".face").click()
    cards(page)[second].query_selector(".face").click()
    page.keyboard.press("7")  # the focus is on the second wrong answer
    assert marked(page, "other") == {first, second}
    assert state(page.url) == {"q": 0, "c": [0], "no": [first], "as": [[second, 7]]}
    page.reload()
    ready(page)
    assert marked(page, "other") == {first, second}
    send(page)
    assert labels_of(service) == {query: 0, second: 7, **dict.fromkeys(rest, 0)}


def test_undo_takes_labels_back_step_by_step_also_after_a_reload(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/teach?mode=answers")
    one = mark(page)
    send(page)
    after_one = labels_of(service)
    page.keyboard.press("Enter")
    until(page, f"new URLSearchParams(location.hash.split('?')[1]).get('q') !== '{one}'")
    two = mark(page)
    send(page)
    assert len(labels_of(service)) > len(after_one)
    page.reload()
    ready(page)
    page.keyboard.press("Control+z")
    page.wait_for_selector("text=Taken back")
    page.wait_for_selector("[aria-busy]", state="detached")
    assert labels_of(service) == after_one
    assert state(page.url)["q"] == two
    page.keyboard.press("Control+z")
    until(page, f"new URLSearchParams(location.hash.split('?')[1]).get('q') === '{one}'")
    page.wait_for_selector("[aria-busy]", state="detached")
    assert labels_of(service) == {}
    assert page.is_disabled("button:has-text('Undo')")


def test_a_stroke_and_a_shift_click_mark_several(open_page: Opens) -> None:
    page = open_page("#/digits/teach?q=1")
    ready(page)
    page.keyboard.press("1")
    faces = page.query_selector_all(".teachable .face")
    order = list(cards(page))

    def middle(place: int) -> tuple[float, float]:
        box = faces[place].bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    page.mouse.move(*middle(0))
    page.mouse.down()
    page.mouse.move(*middle(2), steps=10)
    page.mouse.up()
    assert marked(page, "other") == set(order[:3])
    faces[6].click()
    faces[9].click(modifiers=["Shift"])
    assert marked(page, "other") == {*order[:3], *order[6:10]}
    page.keyboard.press("a")
    assert marked(page, "other") == set()
    page.keyboard.press("x")
    assert marked(page, "other") == set(order)


def test_a_new_class_by_name(open_page: Opens, service: Running) -> None:
    page = open_page('#/words/teach?q="note/40"')
    page.wait_for_selector(".teachable")
    page.keyboard.press("c")
    page.keyboard.type("eggs")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chip[aria-checked=true]:has-text('eggs')")
    page.keyboard.press("x")
    send(page)
    answer = service.post("/v1/tables/words/items/get", {"ids": ["note/40", "note/41"]}).body
    assert answer["labels"] == ["eggs", None]


def test_labels_of_others_are_kept_by_undo(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/teach?q=2&k=12")
    query = ready(page)
    page.keyboard.press("2")
    send(page)
    other = next(iter(set(labels_of(service)) - {query}))
    service.post("/v1/tables/digits/labels", {"ids": [other], "labels": [9]})
    page.keyboard.press("Control+z")
    page.wait_for_selector("text=1 item had another label by now and kept it")
    assert labels_of(service) == {other: 9}


def test_the_curve_and_the_reason_of_a_suggestion_are_shown(open_page: Opens, service: Running) -> None:
    page = open_page("#/digits/teach?mode=answers")
    ready(page)
    assert page.inner_text(".why")
    teach(page, 4)
    page.wait_for_selector(
        ".progress svg[aria-label*='mAP of labelled items'], .progress svg[aria-label*='all from']"
    )
