"""Published models: old ones are removed, and whoever finds one gone takes the newest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream import RidgeHash
from hashstream.scale import Cluster, ClusterError
from hashstream.scale.models import Models


def learned(rows: int) -> RidgeHash:
    return RidgeHash(n_bits=16, random_state=0).partial_fit(X[:rows], Y[:rows])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "models").iterdir())


def test_only_the_newest_model_stays(tmp_path: Path) -> None:
    with Cluster.open(tmp_path, hasher_of("FCOH"), publish_every=1, engine=LocalEngine()) as cluster:
        for start in range(0, 500, 100):
            cluster.ingest(np.arange(start, start + 100), X[start : start + 100], Y[start : start + 100])
            assert len(files(tmp_path)) == 1
        cluster.refresh()
        current = Models(tmp_path).current()
        assert current is not None
        assert files(tmp_path) == [current.name]
    with Cluster.open(tmp_path, engine=LocalEngine()) as cluster:
        assert len(cluster.search(X[:3], 2).ids) == 3


def test_what_a_killed_process_left_is_removed_by_the_next_publication(tmp_path: Path) -> None:
    models = Models(tmp_path)
    models.publish(learned(100), "like")
    (old,) = files(tmp_path)
    content = (tmp_path / "models" / old).read_bytes()
    models.publish(learned(200), "like")
    (tmp_path / "models" / old).write_bytes(content)  # as after a kill before it was removed
    (tmp_path / "models" / f"{old}.0123.part").write_bytes(b"half")
    (tmp_path / "models" / "notes.txt").write_text("of somebody else")
    current = models.publish(learned(200), "like")
    assert files(tmp_path) == ["notes.txt", current.name]


def test_a_model_is_removed_after_the_next_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed in between leaves the one that `current` names."""
    models = Models(tmp_path)
    first = models.publish(learned(100), "like")

    def killed(path: Path, data: bytes) -> None:
        if path.name == "current":
            raise KeyboardInterrupt
        path.write_bytes(data)

    monkeypatch.setattr("hashstream.scale.models.write_durably", killed)
    with pytest.raises(KeyboardInterrupt):
        models.publish(learned(200), "like")
    assert models.current() == first
    assert models.newest(first)[0] == first


def test_a_reader_that_comes_late_takes_the_newest(tmp_path: Path) -> None:
    models = Models(tmp_path)
    first = models.publish(learned(100), "like")
    second = models.publish(learned(200), "current")
    found, raw = models.newest(first)
    assert found == second
    assert raw == (tmp_path / "models" / second.name).read_bytes()
    (tmp_path / "models" / second.name).unlink()
    with pytest.raises(ClusterError, match="is missing"):
        models.newest(first)


def test_functions_that_are_published_while_older_ones_are_sent(tmp_path: Path) -> None:
    engine = LocalEngine()
    with Cluster.open(tmp_path, hasher_of("FCOH"), shards=2, engine=engine) as cluster:
        cluster.ingest(range(100), X[:100], Y[:100])
        cluster.ingest(range(100, 200), X[100:200], Y[100:200])

        def before(name: str, method: str) -> None:
            if method == "model":  # another program is faster
                engine.before = None
                cluster.ingest(range(200, 300), X[200:300], Y[200:300])
                cluster.refresh()

        engine.before = before
        cluster.refresh()
        assert engine.before is None
        assert cluster.stats().n_stale == 0
        current = Models(tmp_path).current()
        assert current is not None
        assert cluster.version == current.version


def test_a_shard_that_opens_while_functions_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = LocalEngine()
    with Cluster.open(tmp_path, hasher_of("FCOH"), shards=1, policy="never", engine=engine) as cluster:
        cluster.ingest(range(100), X[:100], Y[:100])
        stale = Models(tmp_path).current()
        cluster.ingest(range(100, 200), X[100:200], Y[100:200])
        engine.actors["the learner"].object.publish()  # and no shard has taken it
        answers = [stale]
        read = Models.current
        monkeypatch.setattr(Models, "current", lambda self: answers.pop() if answers else read(self))
        engine.actors["shard 0"].restart()
        assert len(cluster) == 200
