"""Searches answer in every form what the library returns: JSON, .npy, .npz and Arrow."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.serve.forms import ARROW, JSON, NPY, NPZ, arrow, npy, npz, read_arrow, read_npz, vectors
from tests.serve.running import Running
from tests.serve.worlds import (
    X,
    create,
    table_of,
)

Q = X[:3] + 0.01
A = "/v1/tables/a"


SEARCHES: list[dict[str, Any]] = [
    {"k": 5},
    {"k": 3, "offset": 2},
    {"k": 4, "where": {"tenant": "a"}},
    {"k": 100},
    {"k": 4, "rescore": 20, "metric": "euclidean"},
    {"k": 4, "asymmetric": True},
    {"k": 4, "compare": "current"},
    {"k": 2, "where": {"n": {"$lt": 0}}},
    {"k": 3, "include": ["labels", "fields", "payloads"]},
]


@pytest.mark.parametrize("settings", SEARCHES, ids=lambda one: "-".join(one))
def test_search_in_every_form(home: Running, settings: dict[str, Any]) -> None:
    wanted = table_of(home).search(Q, **{"k": 10, **settings})
    query = "&".join(
        f"{name}={quote(json.dumps(value)) if name == 'where' else ','.join(value) if name == 'include' else value}"
        for name, value in settings.items()
    )
    bodies = [
        (f"{A}/search", JSON, json.dumps({"vectors": Q.tolist(), **settings}).encode()),
        (f"{A}/search?{query}", NPY, npy(Q)),
        (f"{A}/search", NPZ, npz(vectors=Q, json=np.array(json.dumps(settings)))),
        (f"{A}/search?{query}", ARROW, arrow({"vector": vectors(Q)})),
    ]
    answers = [home.post(path, body, headers={"Content-Type": kind}) for path, kind, body in bodies]
    for answer in answers:
        assert answer.status == 200, answer.raw
        assert answer.raw == answers[0].raw
    found = answers[0].body
    assert found["ids"] == wanted.ids.tolist()
    assert np.allclose(found["distances"], wanted.distances)
    included = set(settings.get("include", ()))
    assert set(found) == {"distances", "ids"} | included
    if included:
        assert found["labels"] == wanted.labels.tolist()
        assert found["payloads"] == wanted.payloads.tolist()
        assert found["fields"]["tags"] == wanted.fields["tags"].tolist()
    path, kind, body = bodies[0]
    arrays = read_npz(home.post(path, body, headers={"Content-Type": kind, "Accept": NPZ}).raw)
    assert np.array_equal(arrays["ids"], wanted.ids)
    assert np.array_equal(arrays["distances"], wanted.distances)
    assert arrays["distances"].dtype == wanted.distances.dtype
    rows = read_arrow(home.post(path, body, headers={"Content-Type": kind, "Accept": ARROW}).raw)
    q, m = wanted.ids.shape
    assert rows["query"].to_pylist() == np.repeat(np.arange(q), m).tolist()
    assert rows["id"].to_pylist() == wanted.ids.ravel().tolist()
    assert rows["distance"].to_pylist() == wanted.distances.ravel().tolist()
    if included:
        assert rows["label"].to_pylist() == wanted.labels.ravel().tolist()


@pytest.mark.parametrize(
    "settings", [{"radius": 2}, {"radius": 16, "include": ["labels", "fields", "payloads"]}, {"radius": 0}]
)
def test_radius_in_every_form(home: Running, settings: dict[str, Any]) -> None:
    wanted = table_of(home).search_radius(Q, settings["radius"], include=tuple(settings.get("include", ())))
    query = f"radius={settings['radius']}&include={','.join(settings.get('include', ()))}"
    answers = [
        home.post(path, body, headers={"Content-Type": kind})
        for path, kind, body in (
            (f"{A}/radius", JSON, json.dumps({"vectors": Q.tolist(), **settings}).encode()),
            (f"{A}/radius?{query}", NPY, npy(Q)),
            (f"{A}/radius", NPZ, npz(vectors=Q, json=np.array(json.dumps(settings)))),
            (f"{A}/radius?{query}", ARROW, arrow({"vector": vectors(Q)})),
        )
    ]
    for answer in answers:
        assert (answer.status, answer.raw) == (200, answers[0].raw)
    found = answers[0].body
    assert found["offsets"] == wanted.offsets.tolist()
    assert found["distances"] == wanted.distances.tolist()
    assert found["ids"] == wanted.ids.tolist()
    if "include" in settings:
        assert found["payloads"] == wanted.payloads.tolist()
    rows = read_arrow(
        home.post(f"{A}/radius", {"vectors": Q.tolist(), **settings}, headers={"Accept": ARROW}).raw
    )
    assert rows["query"].to_pylist() == np.repeat(np.arange(len(Q)), np.diff(wanted.offsets)).tolist()
    assert rows["id"].to_pylist() == wanted.ids.tolist()


def test_like_is_the_stored_vector(home: Running) -> None:
    by_vector = home.post(f"{A}/search", {"vectors": X[[3, 9]].tolist()})
    assert home.post(f"{A}/search", {"like": [3, 9]}).raw == by_vector.raw
    assert (
        home.post(f"{A}/search", npz(like=np.array([3, 9])), headers={"Content-Type": NPZ}).raw
        == by_vector.raw
    )
    by_vector = home.post(f"{A}/radius", {"vectors": X[[3, 9]].tolist(), "radius": 3})
    assert home.post(f"{A}/radius", {"like": [3, 9], "radius": 3}).raw == by_vector.raw


def test_numbers_that_json_lacks_become_null(own: Running) -> None:
    body = {"ids": [1000], "vectors": [[1, 2, 3, 4]], "fields": {"price": [float("inf")]}}
    assert own.post(f"{A}/items", body).status == 200
    answer = own.get(f"{A}/items?id=1000")
    assert answer.body["fields"]["price"] == [None]
    assert b"Infinity" not in answer.raw


@pytest.mark.parametrize(
    ("labels", "times"),
    [
        ([2**63, 10**400, 1], ["2024-01-01T00:00:00", "2024-01-01T00:00:00+02:00", None]),
        ([1, 2.5, True], ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999999", None]),
        (["a", 1, None], [None, None, None]),
        ([1.5, float("nan"), -0.0], ["1600-01-01T00:00:00", None, None]),
        ([True, False, None], [None, None, "2024-01-01"]),
        (["\u0000", "\U0001f600", "x" * 1_000], [None, None, None]),
        ([None, None, None], [None, None, None]),
    ],
)
def test_odd_values_are_answered_in_every_form(own: Running, labels: list[Any], times: list[Any]) -> None:
    """Whatever can be stored can be found: one item must not spoil the answers that it is in."""
    create(own, "odd")
    body = {
        "ids": [1, 2, 3],
        "vectors": X[:3].tolist(),
        "labels": labels,
        "fields": {"at": times},
        "learn": False,
    }
    assert own.post("/v1/tables/odd/items", body).status == 200
    asked = {"like": [1, 2, 3], "k": 3, "include": ["labels", "fields", "payloads"]}
    plain = own.post("/v1/tables/odd/search", asked).body
    for kind in (NPZ, ARROW):
        for path, one in (("search", asked), ("items/get", {"ids": [1, 2, 3], "features": True})):
            answer = own.post(f"/v1/tables/odd/{path}", one, headers={"Accept": kind})
            assert (answer.status, answer.headers["content-type"]) == (200, kind), answer.raw
    found = own.post("/v1/tables/odd/search", asked, headers={"Accept": NPZ})
    assert read_npz(found.raw)["labels"] == plain["labels"]
    for path in ("stats", "teaching", "map", "suggestions", "items?id=1"):
        assert own.get(f"/v1/tables/odd/{path}").status == 200, path
