"""A cluster that is opened again with other arguments says so, as a table does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of
from typer.testing import CliRunner

from hashstream import FCOH, HashTable, OnlineHasher, RidgeHash, cli, save
from hashstream.hashers import registry
from hashstream.scale import Cluster, ClusterError, creating
from hashstream.table import TableError
from hashstream.table.errors import Closed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Cluster.open(
        tmp_path / "cluster", hasher_of("FCOH"), engine=LocalEngine(), fields={"a": str}
    ) as cluster:
        cluster.ingest(range(20), X[:20], Y[:20], fields={"a": ["x"] * 20})
    return tmp_path / "cluster"


@pytest.mark.parametrize(
    "given",
    [
        {"policy": "never"},
        {"durability": "fast"},
        {"index": "scan"},
        {"shards": 3},
        {"publish_every": 7},
        {"nodes": ["m"]},
    ],
)
def test_fixed_settings(folder: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ClusterError, match=f"was created with {next(iter(given))} "):
        Cluster.open(folder, engine=LocalEngine(), **given)
    with Cluster.open(folder, engine=LocalEngine(), policy="lazy", durability="full", shards=2) as cluster:
        assert len(cluster) == 20


@pytest.mark.parametrize("other", [FCOH(n_bits=64, random_state=0), RidgeHash(n_bits=32, random_state=0)])
def test_another_hasher(folder: Path, other: Any) -> None:
    with pytest.raises(TableError, match="leave hasher= out"):
        Cluster.open(folder, other, engine=LocalEngine())
    Cluster.open(folder, hasher_of("FCOH"), engine=LocalEngine()).close()


def test_more_fields_are_declared(folder: Path) -> None:
    with Cluster.open(folder, engine=LocalEngine(), fields={"a": str, "b": float}) as cluster:
        assert cluster.fields == {"a": "str", "b": "float"}
        cluster.add([30], X[30:31], fields={"b": [0.5]})
        assert cluster.count({"b": {"$lt": 1}}) == 1
    with pytest.raises(ValueError, match="field 'a' is of type str"):
        Cluster.open(folder, engine=LocalEngine(), fields={"a": float})


def test_another_hasher_after_an_interrupted_creation(tmp_path: Path) -> None:
    engine = LocalEngine()

    def before(name: str, method: str) -> None:
        if (name, method) == ("shard 1", "create"):
            raise KeyboardInterrupt

    engine.before = before
    with pytest.raises(KeyboardInterrupt):
        Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), engine=engine)
    with pytest.raises(TableError, match="leave hasher= out"):
        Cluster.open(tmp_path / "cluster", FCOH(n_bits=64, random_state=0), engine=LocalEngine())
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), engine=LocalEngine()) as cluster:
        cluster.ingest(range(20), X[:20], Y[:20])
        assert len(cluster) == 20


def test_what_cannot_change_is_asked_for_once(tmp_path: Path) -> None:
    engine = LocalEngine()
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), engine=engine) as cluster:
        assert (cluster.n_features, cluster.dtype, cluster.id_kind) == (None, None, None)
        cluster.ingest(range(20), X[:20], Y[:20])
        assert (cluster.n_features, cluster.dtype, cluster.id_kind) == (X.shape[1], X.dtype, "int")
        engine.calls.clear()
        assert (cluster.n_features, cluster.dtype, cluster.id_kind) == (X.shape[1], X.dtype, "int")
        assert not engine.calls
        cluster.close()
        for call in (lambda: cluster.n_features, lambda: cluster.dtype, lambda: cluster.id_kind):
            with pytest.raises(Closed):
                call()


OTHERS = [RidgeHash(n_bits=32, random_state=0), FCOH(n_bits=32, random_state=7)]


@pytest.mark.parametrize("other", OTHERS, ids=["another method", "another seed"])
def test_the_call_that_created_a_cluster_still_opens_it(folder: Path, other: OnlineHasher) -> None:
    """After functions were adopted; so it does a copy. Another hasher is refused as ever."""
    other = other.copy()
    for start in range(0, 200, 10):
        other.partial_fit(X[start : start + 10], Y[start : start + 10])
    with Cluster.open(folder, engine=LocalEngine()) as cluster:
        cluster.adopt(other)
        cluster.snapshot(folder.parent / "copy")
        cluster.export(folder.parent / "exported", features=True)
    Cluster.restore(folder.parent / "copy", folder.parent / "restored")
    for one in (folder, folder.parent / "restored"):
        for given in (
            hasher_of("FCOH"),
            type(other)(n_bits=32, random_state=other.get_params()["random_state"]),
        ):
            with Cluster.open(one, given, engine=LocalEngine()) as cluster:
                assert type(cluster.hasher) is type(other)
                cluster.ingest([30], X[30:31], Y[30:31])
        with pytest.raises(TableError, match="was created with FCOH, not with LSH"):
            Cluster.open(one, hasher_of("LSH"), engine=LocalEngine())
    HashTable.restore(folder.parent / "exported", folder.parent / "table").close()
    HashTable.open(folder.parent / "table", hasher_of("FCOH")).close()


class Own(RidgeHash):
    """A method of somebody's own."""


def test_a_method_of_ones_own_is_needed_only_to_compare_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, path = Own(n_bits=32, random_state=0), tmp_path / "c"
    with monkeypatch.context() as here:
        here.setitem(registry._METHODS, "Own", Own)
        with Cluster.open(path, own, engine=LocalEngine()) as cluster:
            cluster.ingest(range(20), X[:20], Y[:20])
            adopted = hasher_of("FCOH").partial_fit(X[:300], Y[:300])
            adopted.version_ = cluster.hasher.version_ + 1
            cluster.adopt(adopted)
        Cluster.open(path, own, engine=LocalEngine()).close()
    with Cluster.open(path, hasher_of("FCOH"), engine=LocalEngine()) as cluster:  # another program
        assert type(cluster.hasher) is FCOH
        assert cluster.check()
    with pytest.raises(TableError, match="unknown method 'Own'"):
        Cluster.open(path, hasher_of("LSH"), engine=LocalEngine())


def test_the_command_that_created_a_cluster_may_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creating, "RayEngine", lambda address: LocalEngine())
    create = ("cluster", "create", tmp_path / "c", "--shards", 2, "--bits", 32, "--method", "FCOH")
    assert said(create).endswith("an empty cluster, 2 shards, FCOH, 32 bits.")
    model = tmp_path / "model.safetensors"
    save(RidgeHash(n_bits=32, random_state=0).partial_fit(X[:100], Y[:100]), model)
    adopt = ("cluster", "adopt", tmp_path / "c", model)
    assert said(adopt).endswith("The method is now RidgeHash; it was FCOH.")
    assert "method" not in said(adopt)
    assert said(create).endswith("an empty cluster, 2 shards, RidgeHash, 32 bits.")
    assert "was created with FCOH, not with LSH" in said((*create[:-1], "LSH"), code=2)


def said(arguments: tuple[Any, ...], code: int = 0) -> str:
    result = CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": "300"})
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())
