"""Modules of the page that need no page: marks, vectors, filters, classes, geometry; run in the browser."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Opens = Callable[..., Any]


@pytest.fixture(scope="module")
def run(open_shared: Opens) -> Callable[..., Any]:
    """run(module, body, argument) -> the value of a function body with the module as m."""
    page = open_shared()

    def call(module: str, body: str, argument: Any = None) -> Any:
        code = f"async (arg) => {{ const m = await import('/page/{module}'); {body} }}"
        return page.evaluate(code, argument)

    return call


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> str:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return base64.b64encode(file.getvalue()).decode()


READ = "return m.readNpy(Uint8Array.from(atob(arg), (c) => c.charCodeAt(0)).buffer)"


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "|u1", "|i1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_npy_files(run: Callable[..., Any], dtype: str, version: tuple[int, int]) -> None:
    array = np.array([[1, 2, 100], [4, 5, 6]], dtype)
    assert run("vectors.js", READ, npy(array, version)) == [1, 2, 100]
    assert run("vectors.js", READ, npy(array[0], version)) == [1, 2, 100]


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.array([1 + 2j]), "not read here"),
        (np.zeros((2, 2, 2), "<f4"), "one dimension"),
        (np.asfortranarray(np.ones((3, 2), "<f4")), "Fortran"),
    ],
)
def test_npy_files_that_are_refused(run: Callable[..., Any], array: np.ndarray, says: str) -> None:
    caught = "try { " + READ + " } catch (e) { return e.message }"
    assert says in run("vectors.js", caught, npy(array))
    assert "not an .npy file" in run("vectors.js", caught, base64.b64encode(b"hello there").decode())


TEXTS = [
    "[1, 2.5, -3]",
    "[[1, 2.5, -3], [4, 5, 6]]",
    '{"vector": [1, 2.5, -3]}',
    "1,2.5,-3",
    "1\n2.5\n-3",
    "1; 2.5; -3",
    "a,b,c\n1,2.5,-3\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_vectors(run: Callable[..., Any], text: str) -> None:
    assert run("vectors.js", "return m.readText(arg)", text) == [1, 2.5, -3]


@pytest.mark.parametrize("text", ["", "[1, null]", "[1,", "a,b", "{}", "[]"])
def test_texts_that_are_no_vectors(run: Callable[..., Any], text: str) -> None:
    found = run("vectors.js", "try { m.readText(arg); return '' } catch (e) { return e.message }", text)
    assert found.endswith(".")


@pytest.mark.parametrize(
    "where",
    [
        None,
        {"a": 1},
        {"a": {"$lt": 3}},
        {"$and": [{"a": {"$lt": 3}}, {"a": {"$gte": 1}}, {"label": None}]},
        {"tags": {"$in": ["x", "y"]}},
    ],
)
def test_filters_come_back_from_their_conditions(run: Callable[..., Any], where: Any) -> None:
    assert run("filter.js", "return m.whereOf(m.conditionsOf(arg))", where) == where


@pytest.mark.parametrize("where", [{"$or": [{"a": 1}]}, {"$not": {"a": 1}}, {"a": {"$not": {"$lt": 1}}}])
def test_filters_that_only_json_can_show(run: Callable[..., Any], where: Any) -> None:
    assert run("filter.js", "return m.conditionsOf(arg)", where) is None


def test_marks(run: Callable[..., Any]) -> None:
    body = """
        const marks = new m.Marks();
        const answers = [{id: 1, label: null}, {id: "1", label: null}, {id: 3, label: "cat"}, {id: 4, label: "dog"}];
        const query = {id: 9, label: null};
        const early = marks.changes(query, answers);
        marks.own = "cat";
        marks.toggle(answers[1]);                 // wrong, no class
        marks.toggle(answers[3]);                 // a label that is wrong: it is a cat
        const some = marks.changes(query, answers);
        marks.toggle(answers[2]);                 // not a cat after all: its label is taken back
        marks.set(answers[1], false, "bird");
        const copy = new m.Marks();
        copy.fromState(JSON.parse(JSON.stringify(marks.toState())));
        return [early, some, copy.changes(query, answers), copy.changes(query, answers, {fresh: false})];
    """
    early, some, all_, old = run("marks.js", body)
    change = lambda id, before, after: {"id": id, "before": before, "after": after}  # noqa: E731
    assert early == []
    assert some == [change(9, None, "cat"), change(1, None, "cat"), change(4, "dog", "cat")]
    rest = [change("1", None, "bird"), change(3, "cat", None), change(4, "dog", "cat")]
    assert all_ == [change(9, None, "cat"), change(1, None, "cat"), *rest]
    assert old == [change(9, None, "cat"), *rest]


def test_keys_of_classes(run: Callable[..., Any]) -> None:
    body = """
        const classes = new m.Classes(arg[0]);
        classes.take(arg[1].map((label) => ({label, count: 1})));
        const looks = arg[1].map((label) => classes.colour(label) + classes.shape(label));
        const keys = [classes.ofKey("1"), classes.ofKey("0"), classes.keyOf(arg[1][0])];
        return [...keys, classes.parse("7"), new Set(looks).size];
    """
    assert run("classes.js", body, ["digits", list(range(10))]) == [1, 0, "0", 7, 10]
    words = [f"class {i:02d}" for i in range(40)]
    assert run("classes.js", body, ["words", words]) == ["class 00", "class 09", "1", "7", 40]


def test_a_map_that_was_turned_or_mirrored_is_turned_back(run: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    before = rng.uniform(-1, 1, (30, 2))
    before /= np.abs(before - (before.max(0) + before.min(0)) / 2).max()
    before -= (before.max(0) + before.min(0)) / 2
    for angle, mirror in (1.0, 1), (2.5, -1), (0.0, -1):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ np.diag(
            [1, mirror]
        )
        moved = before @ turn.T
        found = run("geometry.js", "return m.aligned(arg[0], arg[1])", [moved.tolist(), before.tolist()])
        np.testing.assert_allclose(found, before, atol=1e-6)
