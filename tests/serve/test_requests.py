"""Every route does what it says, and says the same in every form: JSON, .npy, .npz and Arrow."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from tests.serve.forms import ARROW, JSON, NPZ, arrow, npz, read_arrow, read_npz, vectors
from tests.serve.running import Running, running
from tests.serve.worlds import (
    COLUMNS,
    FIELDS,
    ITEMS,
    LABELS,
    PAYLOADS,
    D,
    N,
    X,
    contents,
    create,
    table_of,
    unchanged,
)
from tests.table.fingerprints import differences, fingerprint

import hashstream as hs

A = "/v1/tables/a"


# ---- the service and its tables


def test_life(home: Running) -> None:
    assert home.get("/healthz").body == home.get("/readyz").body == {"status": "ok"}
    assert home.get("/openapi.json").body["openapi"].startswith("3.1")


def test_page(home: Running) -> None:
    answer = home.get("/")
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_a_table_from_its_creation_to_its_end(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        assert service.get("/v1/tables").body == {"tables": []}
        made = service.post(
            "/v1/tables", {"name": "b", "method": "fcoh", "n_bits": 8, "fields": {"t": "str"}}
        )
        assert made.status == 201
        assert made.body == service.get("/v1/tables/b").body
        assert service.get("/v1/tables").body == {"tables": [made.body]}
        wanted = {
            "name": "b",
            "method": "FCOH",
            "n_bits": 8,
            "n_items": 0,
            "fields": {"t": "str"},
            "commits": 0,
        }
        assert wanted.items() <= made.body.items()
        assert (
            made.body["n_features"] is made.body["dtype"] is made.body["ids"] is made.body["version"] is None
        )
        again = service.post("/v1/tables", {"name": "B"})
        assert (again.status, again.body["type"]) == (409, "urn:hashstream:problem:exists")
        assert service.ask("DELETE", "/v1/tables/b").status == 204
        assert service.get("/v1/tables/b").body["type"] == "urn:hashstream:problem:no-table"
        assert list(tmp_path.iterdir()) == []


def test_info_after_items(home: Running) -> None:
    info = home.get(A).body
    assert info["n_items"] == N
    assert (info["n_features"], info["dtype"], info["ids"]) == (D, "float32", "int")
    assert info["fields"] == FIELDS
    assert info["state"] == "open"
    assert info["parameters"]["random_state"] == 0


@pytest.mark.parametrize("policy", ["never", "every:7", {"name": "every", "settings": {"k": 7}}])
def test_policies(own: Running, policy: Any) -> None:
    create(own, "p", policy=policy)
    found = own.get("/v1/tables/p").body["settings"]["policy"]
    assert found["name"] == ("never" if policy == "never" else "every")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"method": "Nothing"}, "there is no method"),
        ({"parameters": {"zz": 1}}, "zz"),
        ({"parameters": {"n_bits": 8}}, "n_bits"),
        ({"parameters": {"self": 8}}, "self"),
        ({"parameters": {"lambda1": -1.0}}, "lambda1"),
        ({"parameters": {"lambda1": "x"}}, "lambda1"),
        ({"parameters": {"feature_map": "x"}}, "feature_map"),
        ({"parameters": {"random_state": "x"}}, "random_state"),
        ({"parameters": {"random_state": -1}}, "random_state"),
        ({"policy": "zz"}, "zz"),
        ({"policy": {}}, ""),
        ({"policy": {"name": "every", "settings": {"k": "x"}}}, ""),
        ({"policy": {"name": "every", "settings": 3}}, ""),
        ({"policy": {"name": ["every"]}}, ""),
        ({"fields": {"id": "str"}}, "id"),
        ({"fields": {"": "str"}}, ""),
        ({"fields": {"x": "object"}}, "fields.x"),
        ({"fields": {"$x": "str"}}, ""),
        ({"n_bits": 0}, "n_bits"),
        ({"n_bits": 10**9}, "n_bits"),
        ({"name": "../x"}, "name"),
        ({"name": ".x"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "x\n"}, "name"),
        ({"name": "x/y"}, "name"),
        ({"durability": "none"}, "durability"),
        ({"zz": 1}, "zz"),
    ],
)
def test_tables_that_cannot_be(home: Running, wrong: dict[str, Any], says: str) -> None:
    before = sorted(path.name for path in home.service.tables["a"].path.parent.iterdir())
    answer = home.post("/v1/tables", {"name": "new", "method": "FCOH", "n_bits": 8, **wrong})
    home.ask("DELETE", "/v1/tables/new")
    assert answer.status == 422, answer.raw
    assert says in answer.body["detail"]
    assert sorted(path.name for path in home.service.tables["a"].path.parent.iterdir()) == before


# ---- items, in every form


def test_forms_give_equal_tables(tmp_path: Path) -> None:
    rest = {"fields": COLUMNS, "payloads": PAYLOADS, "labels": LABELS}
    columns = {
        "id": np.arange(N),
        "vector": vectors(X),
        "label": LABELS,
        "payload": [None if one is None else json.dumps(one) for one in PAYLOADS],
        **COLUMNS,
    }
    lists = {**columns, "vector": [row.tolist() for row in X], "at": pa.array(COLUMNS["at"])}
    lists["vector"] = pa.array(lists["vector"], pa.list_(pa.float32()))
    bodies = {
        "json": (JSON, json.dumps(ITEMS).encode()),
        "npz": (NPZ, npz(ids=np.arange(N), vectors=X, json=np.array(json.dumps(rest)))),
        "deflated": (NPZ, npz(8, ids=np.arange(N), vectors=X, json=np.array(json.dumps(rest).encode()))),
        "fortran": (
            NPZ,
            npz(ids=np.arange(N), vectors=np.asfortranarray(X), json=np.array(json.dumps(rest))),
        ),
        "swapped": (
            NPZ,
            npz(ids=np.arange(N, dtype=">i4"), vectors=X.astype(">f4"), json=np.array(json.dumps(rest))),
        ),
        "arrow": (ARROW, arrow(columns)),
        "arrow of lists": (ARROW, arrow(lists)),
    }
    with running(tmp_path) as service:
        found = {}
        for number, (name, (kind, body)) in enumerate(bodies.items()):
            address = create(service, f"t{number}")
            answer = service.post(f"{address}/items", body, headers={"Content-Type": kind})
            assert (answer.status, answer.body) == (200, {"stored": N}), (name, answer.raw)
            found[name] = contents(service, f"t{number}")
        direct = hs.HashTable.open(None, hs.FCOH(16, random_state=0), fields=FIELDS)
        direct.ingest(ITEMS["ids"], X, LABELS, fields=COLUMNS, payloads=PAYLOADS)
        found["the library"] = fingerprint(direct, X[:5])
        for name, one in found.items():
            assert not differences(one, found["json"]), name


def test_labels_of_every_kind(tmp_path: Path) -> None:
    """Labels as an array, as a list in JSON and as a column give equal tables; so do rows of a label matrix."""
    matrix = np.eye(3, dtype=int)[np.arange(N) % 3]
    kinds: dict[str, Any] = {
        "texts": [f"c{i % 3}" for i in range(N)],
        "ints": [i % 3 for i in range(N)],
        "floats": [i % 3 + 0.5 for i in range(N)],
        "bools": [i % 2 == 0 for i in range(N)],
        "matrix": matrix.tolist(),
    }
    with running(tmp_path) as service:
        for kind, labels in kinds.items():
            for form, body in (
                (JSON, json.dumps({"ids": list(range(N)), "vectors": X.tolist(), "labels": labels}).encode()),
                (NPZ, npz(ids=np.arange(N), vectors=X, labels=np.array(labels))),
                (ARROW, arrow({"id": np.arange(N), "vector": vectors(X), "label": labels})),
            ):
                address = create(service, f"{kind}-{form.partition('.')[0][-3:]}", fields={})
                answer = service.post(f"{address}/items", body, headers={"Content-Type": form})
                assert answer.status == 200, (kind, form, answer.raw)
                stored = service.post(f"{address}/items/get", {"ids": list(range(N))}).body["labels"]
                assert stored == labels, (kind, form)
                assert [type(one) for one in stored] == [type(one) for one in labels]


def test_learn_false_only_stores(own: Running) -> None:
    table = table_of(own)
    seen = table.stats().n_seen
    body = {"ids": [1000], "vectors": [[1, 2, 3, 4]], "labels": ["cat"], "learn": False}
    assert own.post(f"{A}/items", body).body == {"stored": 1}
    assert (len(table), table.stats().n_seen) == (N + 1, seen)


def test_get_is_what_the_library_returns(home: Running) -> None:
    items = table_of(home).get([5, 8, 0])
    for answer in (
        home.get(f"{A}/items?id=5&id=8&id=0&features=true"),
        home.post(f"{A}/items/get", {"ids": [5, 8, 0], "features": True}),
        home.post(
            f"{A}/items/get", npz(ids=[5, 8, 0], json='{"features": true}'), headers={"Content-Type": NPZ}
        ),
        home.post(f"{A}/items/get?features=true", arrow({"id": [5, 8, 0]}), headers={"Content-Type": ARROW}),
    ):
        assert answer.status == 200, answer.raw
        found = answer.body
        assert found["ids"] == [5, 8, 0]
        assert found["codes"] == [row.tobytes().hex() for row in items.codes]
        assert found["versions"] == items.versions.tolist()
        assert found["labels"] == list(items.labels) == [LABELS[i] for i in (5, 8, 0)]
        assert found["payloads"] == [PAYLOADS[i] for i in (5, 8, 0)]
        assert {n: v for n, v in found["fields"].items() if n != "at"} == {
            name: [values[i] for i in (5, 8, 0)] for name, values in COLUMNS.items() if name != "at"
        }
        assert np.array_equal(np.array(found["features"], np.float32), X[[5, 8, 0]])
    assert home.post(f"{A}/items/get", {"ids": [5]}).body["features"] is None
    arrays = read_npz(
        home.post(f"{A}/items/get", {"ids": [5, 8], "features": True}, headers={"Accept": NPZ}).raw
    )
    assert np.array_equal(arrays["codes"], items.codes[:2])
    assert np.array_equal(arrays["features"], X[[5, 8]])
    assert arrays["features"].dtype == np.float32
    assert (arrays["ids"].tolist(), arrays["labels"]) == ([5, 8], [LABELS[5], LABELS[8]])
    rows = read_arrow(
        home.get(f"{A}/items?id=5&id=8&features=true", headers={"Accept": ARROW}).raw
    ).to_pylist()
    assert [row["id"] for row in rows] == [5, 8]
    assert [row["code"] for row in rows] == [row.tobytes() for row in items.codes[:2]]
    assert [row["label"] for row in rows] == [LABELS[5], LABELS[8]]
    assert [row["vector"] for row in rows] == X[[5, 8]].tolist()
    assert [json.loads(row["payload"]) if row["payload"] else None for row in rows] == [
        PAYLOADS[5],
        PAYLOADS[8],
    ]
    assert [row["tags"] for row in rows] == [COLUMNS["tags"][5], COLUMNS["tags"][8]]


def test_unknown_ids_are_named(home: Running) -> None:
    for answer in (
        home.get(f"{A}/items?id=5&id=777"),
        home.get(f"{A}/items?id=x"),
        home.get(f"{A}/items?id=99999999999999999999999"),
        home.post(f"{A}/items/get", {"ids": [777]}),
        home.post(f"{A}/items/get", {"ids": ["x"]}),
        home.post(f"{A}/search", {"like": [777]}),
    ):
        assert (answer.status, answer.body["type"]) == (404, "urn:hashstream:problem:unknown-id"), answer.raw
        assert "not in the table" in answer.body["detail"]


def test_remove_in_every_form(own: Running) -> None:
    assert own.post(f"{A}/items/remove", {"ids": [1, 2]}).body == {"removed": 2}
    assert own.post(f"{A}/items/remove", npz(ids=[3]), headers={"Content-Type": NPZ}).body == {"removed": 1}
    assert own.post(f"{A}/items/remove", arrow({"id": [4]}), headers={"Content-Type": ARROW}).body == {
        "removed": 1
    }
    rest = table_of(own).count({"tenant": "b"})
    assert own.post(f"{A}/items/remove", {"where": {"tenant": "b"}}).body == {"removed": rest}
    assert own.get(f"{A}/count").body == {"count": N - 4 - rest}


@pytest.mark.parametrize("body", [{}, {"ids": None}, {"ids": [1], "where": {"tenant": "b"}}, {"ids": [777]}])
def test_remove_refuses_what_is_unclear(home: Running, body: dict[str, Any]) -> None:
    with unchanged(home):
        answer = home.post(f"{A}/items/remove", body)
        assert answer.status in (404, 422), answer.raw


def test_ids_and_counts(home: Running) -> None:
    where = {"tenant": "b", "n": {"$lt": 10}}
    address = quote(json.dumps(where))
    assert home.get(f"{A}/ids?where={address}").body == {"ids": [1, 3, 5, 7, 9], "total": 5}
    assert home.get(f"{A}/ids?where={address}&offset=1&limit=2").body == {"ids": [3, 5], "total": 5}
    assert home.post(f"{A}/ids", {"where": where, "offset": 4}).body == {"ids": [9], "total": 5}
    assert home.post(f"{A}/ids").body == {"ids": list(range(N)), "total": N}
    assert home.get(f"{A}/ids?offset=9007199254740992").body == {"ids": [], "total": N}
    assert (
        home.get(f"{A}/count?where={address}").body
        == home.post(f"{A}/count", {"where": where}).body
        == {"count": 5}
    )
    arrays = read_npz(home.post(f"{A}/ids", headers={"Accept": NPZ}).raw)
    assert (arrays["ids"].tolist(), arrays["total"]) == (list(range(N)), N)
    rows = read_arrow(home.post(f"{A}/ids", headers={"Accept": ARROW}).raw)
    assert rows.to_pydict() == {"id": list(range(N))}


def test_text_ids(own: Running) -> None:
    address = create(own, "texts", fields={})
    body = {"ids": ["a", "5", "ü/1"], "vectors": X[:3].tolist()}
    assert own.post(f"{address}/items", body).body == {"stored": 3}
    assert own.get(f"{address}/items?id=5&id={quote('ü/1')}").body["ids"] == ["5", "ü/1"]
    assert own.get(f"{address}/ids").body["ids"] == ["a", "5", "ü/1"]
    assert read_npz(own.get(f"{address}/ids", headers={"Accept": NPZ}).raw)["ids"] == ["a", "5", "ü/1"]
    found = own.post(f"{address}/search", {"like": ["ü/1"], "k": 1}, headers={"Accept": ARROW})
    assert read_arrow(found.raw)["id"].to_pylist() == ["ü/1"]
    found = own.post(
        f"{address}/search", npz(like=np.array(["ü/1"]), json='{"k": 1}'), headers={"Content-Type": NPZ}
    )
    assert found.body["ids"] == [["ü/1"]]
    assert own.post(f"{address}/items/remove", {"ids": ["ü/1"]}).body == {"removed": 1}


# ---- labels, fields, and what keeps a table in order


def test_labels_in_every_form(own: Running) -> None:
    """Also what is answered: how many labels were new."""
    columns = {"id": [20, 23], "label": ["cat", "dog"]}
    for body, kind, changed in (
        (json.dumps({"ids": [2, 5], "labels": ["cat", "dog"]}).encode(), JSON, 2),
        (json.dumps({"ids": [2, 5], "labels": ["cat", "cat"]}).encode(), JSON, 1),
        (npz(ids=[8, 11], labels=np.array(["cat", "dog"])), NPZ, 2),
        (npz(ids=[14], json=np.array('{"labels": ["bird"]}')), NPZ, 1),
        (arrow(columns), ARROW, 2),
    ):
        answer = own.post(f"{A}/labels", body, headers={"Content-Type": kind})
        assert (answer.status, answer.body) == (200, {"changed": changed}), answer.raw
    stored = own.post(f"{A}/items/get", {"ids": [2, 5, 8, 11, 14, 20, 23]}).body["labels"]
    assert stored == ["cat", "cat", "cat", "dog", "bird", "cat", "dog"]


def test_null_takes_a_label_back(own: Running) -> None:
    assert own.post(f"{A}/labels", {"ids": [0], "labels": [None]}).body == {"changed": 1}
    assert own.get(f"{A}/items?id=0").body["labels"] == [None]


def test_fields_refresh_check_compact_flush(own: Running) -> None:
    assert own.post(f"{A}/fields", {"fields": {"colour": "str"}}).body["fields"] == {
        **FIELDS,
        "colour": "str",
    }
    assert (
        own.post(f"{A}/items", {"ids": [70], "vectors": [[1, 2, 3, 4]], "fields": {"colour": ["red"]}}).status
        == 200
    )
    assert own.get(f"{A}/count?where={quote(json.dumps({'colour': 'red'}))}").body == {"count": 1}
    assert own.post(f"{A}/refresh", {"budget": 10}).body["recoded"] <= 10
    assert own.post(f"{A}/refresh").status == 200
    assert own.post(f"{A}/refresh").body == {"recoded": 0}
    assert own.post(f"{A}/check", {"sample": 7}).body["codes"] == 7
    assert own.post(f"{A}/check").body["rows"] == N + 1
    own.post(f"{A}/items/remove", {"ids": [70]})
    assert own.ask("POST", f"{A}/compact").body == {"freed": 1}
    assert own.ask("POST", f"{A}/flush").status == 204
    assert own.post(f"{A}/fields", {"fields": {"colour": "int"}}).status == 422


def test_stats(home: Running) -> None:
    found, stats = home.get(f"{A}/stats").body, table_of(home).stats()
    assert (found["n_items"], found["commits"], found["n_seen"]) == (N, stats.commits, stats.n_seen)
    assert found["versions"] == {str(version): count for version, count in stats.versions.items()}
    assert found["drift"]["bit_flips"] == stats.drift.bit_flips


def test_snapshot_is_the_table(home: Running, tmp_path: Path) -> None:
    answer = home.get(f"{A}/snapshot")
    assert answer.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.raw)) as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"a"}
        archive.extractall(tmp_path, filter="data")
    with hs.HashTable.open(tmp_path / "a") as copy:
        assert not differences(fingerprint(copy, X[:5]), contents(home))


def test_snapshots_one_after_the_other(home: Running) -> None:
    """The end of one is told when the next one may begin; nothing is left of them."""
    for _ in range(5):
        assert home.get(f"{A}/snapshot").status == 200
        assert [path.name for path in home.service.tables["a"].path.parent.iterdir()] == ["a"]


def test_hasher_can_be_loaded(home: Running, tmp_path: Path) -> None:
    answer = home.get(f"{A}/hasher")
    (tmp_path / "hasher").write_bytes(answer.raw)
    hasher = hs.load(tmp_path / "hasher")
    assert np.array_equal(hasher.transform(X), table_of(home).hasher.transform(X))


def test_for_the_page(home: Running) -> None:
    places = home.get(f"{A}/map?n=20").body
    assert len(places["ids"]) == len(places["x"]) == len(places["y"]) == len(places["labels"]) <= 20
    assert {one["label"]: one["count"] for one in home.get(f"{A}/teaching").body["classes"]} == {
        "cat": 20,
        "dog": 20,
    }
    health = home.get(f"{A}/health").body
    assert health["refresh"]["stale"] == table_of(home).stats().n_stale
    assert home.get(f"{A}/health?since=1e18").body["points"] == []
    missing = home.get(f"{A}/images/3")
    assert (missing.status, missing.headers["content-type"]) == (404, "application/problem+json")
    refused = home.ask("POST", f"{A}/embed", b"x", headers={"Content-Type": "image/png"})
    assert (refused.status, refused.headers["content-type"]) == (422, "application/problem+json")


def test_suggestions(home: Running) -> None:
    found = home.get(f"{A}/suggestions?n=5")
    assert found.status == 200
    assert len(found.body["items"]) <= 5
    assert (found.body["n_items"], found.body["n_labelled"]) == (N, 40)


@pytest.mark.parametrize(
    "path", ["suggestions", "map", "teaching", "health", "stats", "ids", "count", "hasher"]
)
def test_an_empty_table_can_be_asked(own: Running, path: str) -> None:
    create(own, "empty")
    answer = own.get(f"/v1/tables/empty/{path}")
    assert answer.status == 200, answer.raw


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("search", {"vectors": [[1, 2, 3]]}),
        ("radius", {"vectors": [[1, 2, 3]], "radius": 2}),
        ("search", {"like": [1]}),
        ("items/get", {"ids": [1]}),
        ("items/get", {"ids": []}),
        ("labels", {"ids": [1], "labels": ["x"]}),
        ("labels", {"ids": [], "labels": []}),
        ("items/remove", {"ids": [1]}),
        ("items/remove", {"where": {"tenant": "x"}}),
        ("refresh", {}),
        ("check", {}),
        ("compact", {}),
        ("flush", {}),
    ],
)
def test_an_empty_table_takes_requests(own: Running, path: str, body: dict[str, Any]) -> None:
    create(own, "empty")
    answer = own.post(f"/v1/tables/empty/{path}", body)
    assert answer.status in (200, 204, 404, 409, 422), answer.raw


# ---- errors


def test_addresses_that_are_not_there(home: Running) -> None:
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/tables/a/nothing", 404),
        ("GET", "/v1/tables/", 404),
        ("PUT", "/v1/tables/a", 405),
        ("GET", f"{A}/search", 405),
        ("POST", "/healthz", 405),
        ("GET", "/v1/tables/no", 404),
        ("GET", "/page/nothing.js", 404),
    ):
        answer = home.ask(method, path)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), path
        assert answer.body["status"] == status
        assert answer.body["type"].startswith("urn:hashstream:problem:")
        assert answer.body["title"]
        assert answer.body["detail"]
    assert "POST" in home.get(f"{A}/search").headers["allow"]
