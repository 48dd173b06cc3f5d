"""A cluster over HTTP: the routes of a table, and those that it refuses."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.serve.running import Running, running

from hashstream import HashTable, PosteriorHash
from hashstream.scale import Cluster
from hashstream.scale.serving import ServedCluster, cluster_kind
from hashstream.serve.client import Client

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture(scope="module")
def home(engine: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a cluster `c` and a table `t`, which have the same items."""
    folder = tmp_path_factory.mktemp("tables")
    hasher = PosteriorHash(32, random_state=0)
    Cluster.open(folder / "c", hasher, shards=2, fields={"even": bool}).close()
    HashTable.open(folder / "t", hasher, fields={"even": bool}, policy="never").close()
    with running(folder, kinds=[cluster_kind()]) as service:
        yield service


def test_a_cluster_is_served_as_a_table_is(home: Running) -> None:
    client = Client(home.url)
    assert client.tables() == ["c", "t"]
    c, t = client.table("c"), client.table("t")
    for table in (c, t):
        fields = {"even": [bool(i % 2 == 0) for i in range(400)]}
        table.ingest(range(400), X[:400], Y[:400], fields=fields, payloads=[{"row": i} for i in range(400)])
        table.add(range(400, 500), X[400:500])
        assert table.label([400, 401], [7, 7]) == 2
        assert table.remove([3, 4]) == 2
        table.refresh()
    assert len(c) == len(t) == c.count() == 498
    for how in ({}, {"where": {"even": True}}, {"rescore": 30}, {"offset": 2}, {"asymmetric": True}):
        mine, theirs = c.search(X[500:520], 7, **how), t.search(X[500:520], 7, **how)
        np.testing.assert_array_equal(mine.ids, theirs.ids)
        np.testing.assert_allclose(mine.distances, theirs.distances)
    hits, expected = (one.search(X[500:503], 3, include=("labels", "fields", "payloads")) for one in (c, t))
    assert hits.payloads.tolist() == expected.payloads.tolist()
    assert hits.fields["even"].tolist() == expected.fields["even"].tolist()
    within, others = (one.search_radius(X[500:510], 3) for one in (c, t))
    np.testing.assert_array_equal(within.ids, others.ids)
    np.testing.assert_array_equal(c.ids(limit=20), t.ids(limit=20))
    np.testing.assert_array_equal(c.get([7, 401]).features, X[[7, 401]])
    assert c.stats().n_items == 498
    assert c.version == t.version
    with pytest.raises(KeyError, match="4711"):
        c.get([4711])
    assert c.check()["rows"] >= 498


def test_what_the_page_asks_for(home: Running) -> None:
    for route in ("suggestions", "map", "teaching", "health", "stats"):
        assert home.get(f"/v1/tables/c/{route}").status == 200, route
    assert len(home.get("/v1/tables/c/stats").body["shards"]) == 2
    assert home.get("/metrics").status == 200


def test_a_write_with_a_key_is_done_once(home: Running) -> None:
    body = {"ids": [1000], "vectors": [X[1000].tolist()], "labels": [int(Y[1000])]}
    key = {"Idempotency-Key": "one"}
    before = home.get("/v1/tables/c/stats").body["n_seen"]
    for _ in range(2):
        assert home.post("/v1/tables/c/items", body, headers=key).status == 200
    assert home.get("/v1/tables/c/stats").body["n_seen"] == before + 1
    other = {**body, "ids": [1001]}
    assert home.post("/v1/tables/c/items", other, headers=key).status == 409


def test_a_cluster_is_not_deleted_over_http(home: Running) -> None:
    answer = home.ask("DELETE", "/v1/tables/c")
    assert answer.status == 501
    assert answer.body["detail"] == "'c' is a cluster, which cannot be deleted over HTTP"
    assert home.get("/v1/tables/c").body["state"] == "open"


def test_searches_go_on_when_a_shard_is_killed(home: Running, tmp_path: Path) -> None:
    table = home.service.tables["c"].table()
    assert isinstance(table, ServedCluster)
    before = home.post("/v1/tables/c/search", {"like": [7, 8], "k": 5}).body
    os.kill(table.shard_pids()[0], signal.SIGKILL)
    assert home.post("/v1/tables/c/search", {"like": [7, 8], "k": 5}).body == before
