"""Partial answers over HTTP: asked for, and never silently short. Without Ray."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of
from tests.serve.running import Running, running

from hashstream import HashTable
from hashstream.scale import Cluster
from hashstream.scale.serving import ServedCluster
from hashstream.serve.client import Client, RemoteTable
from hashstream.serve.kinds import TableKind

Q = X[1500:1503]
ENGINE = LocalEngine()
OPENED: dict[str, RemoteTable] = {}


@pytest.fixture(name="home", scope="module")
def a_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a table `t`, and a cluster `c` that has lost one of two shards."""
    folder = tmp_path_factory.mktemp("tables")
    for store in (
        HashTable.open(folder / "t", hasher_of("FCOH")),
        Cluster.open(folder / "c", hasher_of("FCOH"), shards=2, engine=LocalEngine()),
    ):
        store.ingest(range(300), X[:300], Y[:300])
        store.close()

    def opened(path: Path, read_only: bool, told: Any) -> ServedCluster:
        return ServedCluster.open(path, engine=ENGINE, timeout=1.0)

    with running(folder, kinds=[TableKind("a cluster", Cluster.exists, opened, removable=False)]) as service:
        table = OPENED["c"] = Client(service.url).table("c")
        assert table.search(Q).missing == 0
        assert table.search(Q, partial=True).missing == 0
        ENGINE.actors["shard 1"].lost = True
        yield service


def test_partial_answers_say_what_is_missing(home: Running) -> None:
    table = OPENED["c"]
    assert home.post("/v1/tables/c/search", {"vectors": Q.tolist()}).status == 503
    nearest = table.search(Q, 5, partial=True, include=("labels",))
    assert nearest.ids.shape == (3, 5)
    within = table.search_radius(Q, 20, partial=True)
    assert 0.3 < nearest.missing == within.missing < 0.7
    vectors = {"vectors": Q.tolist(), "partial": True}
    for route, more in (("search", {"k": 5}), ("radius", {"radius": 20})):
        assert home.post(f"/v1/tables/c/{route}", {**vectors, **more}).body["missing"] == nearest.missing


def test_the_share_is_in_the_metadata_of_arrow(home: Running) -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    head = {"Accept": "application/vnd.apache.arrow.stream"}
    answer = home.post("/v1/tables/c/search", {"vectors": Q.tolist(), "partial": True}, headers=head)
    metadata = ipc.open_stream(io.BytesIO(answer.raw)).schema.metadata
    assert 0.3 < float(metadata[b"missing"]) < 0.7


def test_a_table_refuses_it(home: Running) -> None:
    for route, more in (("search", {}), ("radius", {"radius": 3})):
        answer = home.post(f"/v1/tables/t/{route}", {"vectors": Q.tolist(), "partial": True, **more})
        assert answer.status == 422
        assert "partial is for clusters" in answer.body["detail"]
    with pytest.raises(ValueError, match="partial is for clusters"):
        Client(home.url).table("t").search(Q, partial=True)
    body = home.post("/v1/tables/t/search", {"vectors": np.asarray(Q).tolist()}).body
    assert "missing" not in body
