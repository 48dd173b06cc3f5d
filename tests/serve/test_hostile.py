"""Requests that no client of good will sends: refused with a sentence, they change nothing. JSON and addresses."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from tests.serve.forms import JSON
from tests.serve.raw_sockets import ask, head, memory_below
from tests.serve.refusals import MB, A, refused, send
from tests.serve.running import Running

pytestmark = pytest.mark.usefixtures("nothing_changes")

V = '"vectors": [[1, 2, 3, 4]]'
# ---- JSON

HUGE = "1" + "0" * 400
ITEMS = {
    "nothing": "",
    "half an object": "{",
    "a list": "[]",
    "null": "null",
    "a text": '"x"',
    "a number": "3",
    "no vectors": '{"ids": [1]}',
    "two values": f'{{"ids": [1], {V}}} x',
    "unknown name": f'{{"ids": [1], {V}, "zz": 1}}',
    "infinite by overflow": '{"ids": [1], "vectors": [[1e999, 1, 1, 1]]}',
    "infinite as float32": '{"ids": [1], "vectors": [[1e39, 1, 1, 1]]}',
    "NaN": '{"ids": [1], "vectors": [[NaN, 1, 1, 1]]}',
    "Infinity": '{"ids": [1], "vectors": [[-Infinity, 1, 1, 1]]}',
    "a huge integer": f'{{"ids": [1], "vectors": [[{HUGE}, 1, 1, 1]]}}',
    "a text for a number": '{"ids": [1], "vectors": [["1", 2, 3, 4]]}',
    "true for a number": '{"ids": [1], "vectors": [[true, 2, 3, 4]]}',
    "no rows": '{"ids": [], "vectors": []}',
    "no features": '{"ids": [1], "vectors": [[]]}',
    "too few features": '{"ids": [1], "vectors": [[1, 2, 3]]}',
    "ragged": '{"ids": [1, 2], "vectors": [[1, 2, 3, 4], [1]]}',
    "more ids than vectors": f'{{"ids": [1, 2], {V}}}',
    "an id twice": '{"ids": [1, 1], "vectors": [[1, 2, 3, 4], [1, 2, 3, 4]]}',
    "a huge id": f'{{"ids": [{HUGE}], {V}}}',
    "an id of 64 bits": f'{{"ids": [9223372036854775808], {V}}}',
    "a small id of 64 bits": f'{{"ids": [-9223372036854775809], {V}}}',
    "a float as id": f'{{"ids": [1.0], {V}}}',
    "true as id": f'{{"ids": [true], {V}}}',
    "null as id": f'{{"ids": [null], {V}}}',
    "a text as id": f'{{"ids": ["x"], {V}}}',
    "a long text as id": f'{{"ids": ["{"x" * 10 * MB}"], {V}}}',
    "an infinite label": f'{{"ids": [700], {V}, "labels": [1e999]}}',
    "an object as label": f'{{"ids": [700], {V}, "labels": [{{"a": 1}}]}}',
    "a row as label": f'{{"ids": [700], {V}, "labels": [[0, 1]]}}',
    "a row of twos": f'{{"ids": [700], {V}, "labels": [[0, 2]]}}',
    "rows and texts": '{"ids": [1, 2], "vectors": [[1, 2, 3, 4], [1, 2, 3, 4]], "labels": [[0, 1], "a"]}',
    "more labels than rows": f'{{"ids": [700], {V}, "labels": ["a", "b"]}}',
    "a label of half a character": f'{{"ids": [700], {V}' + ', "labels": ["\\ud800"]}',
    "an endless label": f'{{"ids": [700], {V}, "labels": ["{"x" * 10 * MB}"]}}',
    "a payload that is a text": f'{{"ids": [700], {V}, "payloads": ["a"]}}',
    "a payload without JSON": f'{{"ids": [700], {V}, "payloads": [{{"a": 1e999}}]}}',
    "half a character in a payload": f'{{"ids": [700], {V}, "payloads": [{{"a": "\\udfff"}}]}}',
    "a deep payload": f'{{"ids": [700], {V}, "payloads": [{{"a": {"[" * 190}1{"]" * 190}}}]}}',
    "a deeper payload": f'{{"ids": [700], {V}, "payloads": [{{"a": {"[" * 5000}1{"]" * 5000}}}]}}',
    "a large payload": f'{{"ids": [700], {V}, "payloads": [{{"a": "{"x" * 70_000}"}}]}}',
    "a field of another type": f'{{"ids": [700], {V}, "fields": {{"n": [1.5]}}}}',
    "a huge number in a field": f'{{"ids": [700], {V}, "fields": {{"n": [{HUGE}]}}}}',
    "an endless number in a field": f'{{"ids": [700], {V}, "fields": {{"price": [{"9" * 5000}]}}}}',
    "no time": f'{{"ids": [700], {V}, "fields": {{"at": ["x"]}}}}',
    "a time too far": f'{{"ids": [700], {V}, "fields": {{"at": ["9999-12-31T23:59:59-14:00"]}}}}',
    "a list of numbers": f'{{"ids": [700], {V}, "fields": {{"tags": [["a", 1]]}}}}',
    "an unknown field": f'{{"ids": [700], {V}, "fields": {{"zz": [1]}}}}',
    "a short field": f'{{"ids": [700], {V}, "fields": {{"n": []}}}}',
    "deep lists": "[" * 100_000,
    "deep ids": '{"ids": ' + "[" * 100_000,
    "invalid UTF-8": b'{"ids": [700], "vectors": [[1, 2, 3, 4]], "labels": ["\xff\xfe"]}',
    "half a character": f'{{"ids": [700], {V}, "labels": ["\ud800"]}}',
    "UTF-16": f'{{"ids": [700], {V}}}'.encode("utf-16"),
    "a NUL": "\0",
}


@pytest.mark.parametrize("body", ITEMS.values(), ids=ITEMS)
def test_items_as_json(target: Running, body: str | bytes) -> None:
    refused(send(target, f"{A}/items", body), 400, 413, 422)


LABELS = {
    "fewer labels": '{"ids": [1], "labels": []}',
    "more labels": '{"ids": [1], "labels": ["a", "b"]}',
    "an unknown id": '{"ids": [999], "labels": ["a"]}',
    "a text as id": '{"ids": ["x"], "labels": ["a"]}',
    "an infinite label": '{"ids": [1], "labels": [1e999]}',
    "a row": '{"ids": [1], "labels": [[0, 1]]}',
    "rows and texts": '{"ids": [1, 2], "labels": [[0, 1], "a"]}',
    "an id twice": '{"ids": [1, 1], "labels": ["a", "b"]}',
    "a huge id": f'{{"ids": [{HUGE}], "labels": ["a"]}}',
    "an object": '{"ids": [1], "labels": {"1": "a"}}',
}


@pytest.mark.parametrize("body", LABELS.values(), ids=LABELS)
def test_labels_as_json(target: Running, body: str) -> None:
    refused(send(target, f"{A}/labels", body), 404, 422)


SEARCHES = {
    "no queries": "{}",
    "an empty list": '{"vectors": []}',
    "both": f'{{{V}, "like": [1]}}',
    "like nothing": '{"like": []}',
    "like a stranger": '{"like": [999]}',
    "like a huge id": f'{{"like": [{HUGE}]}}',
    "NaN": '{"vectors": [[1, 2, 3, NaN]]}',
    "infinite as float32": '{"vectors": [[1, 2, 3, 1e39]]}',
    "k of 0": f'{{{V}, "k": 0}}',
    "k below 0": f'{{{V}, "k": -1}}',
    "a huge k": f'{{{V}, "k": {HUGE}}}',
    "a broken k": f'{{{V}, "k": 1.5}}',
    "k as text": f'{{{V}, "k": "1"}}',
    "a far offset": f'{{{V}, "offset": 9999}}',
    "a huge offset": f'{{{V}, "offset": {HUGE}}}',
    "rescore below k": f'{{{V}, "rescore": 3}}',
    "a huge rescore": f'{{{V}, "rescore": {HUGE}}}',
    "unknown metric": f'{{{V}, "metric": "l1"}}',
    "unknown include": f'{{{V}, "include": ["x"]}}',
    "unknown field": f'{{{V}, "where": {{"zz": 1}}}}',
    "another type": f'{{{V}, "where": {{"tenant": 1}}}}',
    "no filters": f'{{{V}, "where": {{"$and": []}}}}',
    "no operator": f'{{{V}, "where": {{"n": {{"$zz": 1}}}}}}',
    "a deep filter": f'{{{V}, "where": ' + '{"$not":' * 150 + "{}" + "}" * 151,
    "a deeper filter": f'{{{V}, "where": ' + '{"$not":' * 5000 + "{}" + "}" * 5001,
    "half a character": f'{{{V}, "where": {{"tenant": "\\ud800"}}}}',
    "a time too far": f'{{{V}, "where": {{"at": {{"$lt": "0001-01-01T00:00:00+14:00"}}}}}}',
    "a list as filter": f'{{{V}, "where": []}}',
    "a label that is a list": f'{{{V}, "where": {{"label": {{"$in": [[1]]}}}}}}',
}


@pytest.mark.parametrize("body", SEARCHES.values(), ids=SEARCHES)
def test_searches_as_json(target: Running, body: str) -> None:
    refused(send(target, f"{A}/search", body), 400, 404, 413, 422)


def test_numbers_that_only_look_wrong(target: Running) -> None:
    for body in (
        f'{{{V}, "where": {{"n": {{"$lt": {HUGE}}}}}}}',
        '{"vectors": [[-0.0, 0, 1e-999, 3e38]], "k": 1}',
    ):
        assert send(target, f"{A}/search", body).status == 200


@pytest.mark.parametrize(
    "body",
    [
        '{"ids": [' + "[]," * MB + "[]]}",
        '{"ids": [' + "1.5," * MB + "1.5]}",
        '{"ids": ' + "[" * 3 + "[]," * MB + "[]" + "]" * 3 + "}",
        "{" + ",".join(f'"{i}":0' for i in range(MB)) + "}",
        '{"ids": [1], "vectors": [' + '"",' * MB + '""]}',
        '{"ids": [1], "vectors": [[' + '"",' * MB + '""]]}',
        '{"ids": [1], "vectors": [[1, 2, 3, 4]], "labels": [' + "{}," * MB + "{}]}",
        '{"ids": [1], "vectors": [[1, 2, 3, 4]], "labels": [[' + "2," * MB + "2]]}",
        '{"ids": [1], "vectors": [[1, 2, 3, 4]], "payloads": [' + "0," * MB + "0]}",
        '{"ids": [1], "vectors": [[1, 2, 3, 4]], "fields": {'
        + ",".join(f'"{i}":0' for i in range(MB))
        + "}}",
    ],
    ids=["ids", "floats", "deep", "names", "vectors", "numbers", "labels", "rows", "payloads", "fields"],
)
def test_a_million_errors_are_not_a_gigabyte(target: Running, body: str) -> None:
    with memory_below(400 * MB):
        refused(send(target, f"{A}/items", body), 400, 413, 422)


def test_a_million_parameters_of_a_method(target: Running) -> None:
    parameters = ",".join(f'"{i}":{{}}' for i in range(MB))
    with memory_below(400 * MB):
        refused(send(target, "/v1/tables", f'{{"name": "x", "parameters": {{{parameters}}}}}'), 400, 413, 422)


def test_the_last_of_two_equal_names_counts(target: Running) -> None:
    """As most parsers of JSON have it. The document says so."""
    found = send(target, f"{A}/search", '{"like": [1], "like": [3], "k": 1}').body
    assert found["ids"] == [[3]]


# ---- media types


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/xml", "multipart/form-data", "x", "application/x-pickle", "a" * 5000],
)
@pytest.mark.parametrize("path", ["items", "search", "labels", "items/remove", "refresh"])
def test_media_types(target: Running, path: str, kind: str) -> None:
    refused(send(target, f"{A}/{path}", b'{"ids": [1]}', kind), 415)


def test_odd_accept_headers(target: Running) -> None:
    for accept in ("", "*/*", "text/html", ",,;;", "application/x-npz;q=0", "\xff", "a" * 5000):
        answer = target.post(f"{A}/search", {"like": [1], "k": 1}, headers={"Accept": accept})
        assert answer.status == 200


# ---- addresses

TRAVERSALS = [
    *(
        "..",
        "%2e%2e",
        "..%2f..",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "%00",
        "a%00",
        "a%0a",
        "%0d%0aX:1",
        "a%2f..%2fa",
    ),
    *(
        "...",
        ".hashstream-x",
        "a%5c..",
        "%ff",
        "%c0%ae%c0%ae",
        "~",
        "a%20b",
        "x" * 65,
        "x" * 5000,
        quote("ä"),
        "%25",
    ),
]


@pytest.mark.parametrize("name", TRAVERSALS)
def test_names_of_tables(target: Running, name: str) -> None:
    for method, path in (
        ("GET", ""),
        ("GET", "/stats"),
        ("POST", "/search"),
        ("DELETE", ""),
        ("GET", "/snapshot"),
    ):
        answer = target.ask(method, f"/v1/tables/{name}{path}", b"{}" if method == "POST" else None)
        refused(answer, 404, 405, 422)


@pytest.mark.parametrize(
    "name", [*TRAVERSALS, "../../service.py", "../__init__.py", "%2e%2e/service.py", "/etc/passwd"]
)
def test_names_of_files(target: Running, name: str) -> None:
    for path in (f"/page/{name}", f"{A}/images/{name}"):
        refused(target.get(path), 404, 422)


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "\xe4", "\x7f", "a\tb", "\x1b[0m"])
def test_idempotency_keys(target: Running, key: str) -> None:
    for path, body in (
        (f"{A}/items", {"ids": [1], "vectors": [[1, 2, 3, 4]]}),
        (f"{A}/labels", {"ids": [1], "labels": ["cat"]}),
        (f"{A}/items/remove", {"ids": [1]}),
        ("/v1/tables", {"name": "new"}),
    ):
        found = ask(
            target,
            head(
                "POST",
                path,
                f"Idempotency-Key: {key}",
                f"Content-Type: {JSON}",
                "Connection: close",
                f"Content-Length: {len(json.dumps(body))}",
            ),
            json.dumps(body).encode(),
        )
        assert found.status in (400, 422), (path, found)
    assert target.ask("DELETE", A, headers={"Idempotency-Key": "a b"}).status == 422


def test_headers_cannot_be_injected(target: Running) -> None:
    """A key with an end of line is two headers to every parser; the second one must not reach an answer."""
    found = ask(target, head("GET", A, "Idempotency-Key: a\r\nX-Evil: 1", "Connection: close"))
    assert found.status == 200
    assert "evil" not in found.head.lower()
    for path in ("/v1/%0d%0aX-Evil:%201", f"{A}/items?id=%0d%0aX-Evil:%201", "/page/%0d%0aX-Evil:1"):
        assert "x-evil" not in ask(target, head("GET", path, "Connection: close")).head.lower()
