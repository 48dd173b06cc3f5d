"""Settings are stored with a table; and the small doors of a table: labels with answers, ids, commits, pauses."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.filled_table import filled, queries
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Commit, HashTable, TableError, policies
from hashstream.table.policies import (
    Eager,
    Every,
    Facts,
    Gated,
    Grown,
    Lazy,
    Never,
    Partial,
    Policy,
    Projected,
    parse,
    register,
)
from hashstream.table.settings import Settings

HASHER = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
X, Y = rows(np.random.default_rng(2), 60)


def table_in(path: Path | None = None, **settings: Any) -> HashTable:
    return HashTable.open(path, HASHER, **settings)


def stored(path: Path) -> Settings:
    """As a reader sees them, which stores none."""
    with HashTable.open(path, mode="read") as table:
        return table.settings


# ---- settings


@pytest.mark.parametrize(
    "policy",
    [
        Eager(),
        Every(7),
        Gated(0.25, every=30, least=9),
        Grown(0.5),
        Lazy(0.5, piece=17),
        Never(),
        Partial(5, k=9),
        Projected(5, ridge=0.5),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_policy_comes_back_with_its_parameters(tmp_path: Path, policy: Policy) -> None:
    table_in(tmp_path / "t", policy=policy).close()
    assert stored(tmp_path / "t").policy == policy
    with HashTable.open(tmp_path / "t") as table:
        assert table.settings.policy == policy
        table.ingest(range(60), X, Y)
    assert stored(tmp_path / "t").policy == policy


def test_a_policy_is_in_force_again(tmp_path: Path) -> None:
    counts = []
    table_in(tmp_path / "t", policy="every:3").close()
    for i in range(6):
        with HashTable.open(tmp_path / "t") as table:
            table.ingest(range(10 * i, 10 * i + 10), X[10 * i : 10 * i + 10], Y[10 * i : 10 * i + 10])
            counts.append(len(table.stats().versions))
    assert counts == [1, 2, 1, 2, 3, 1]


def test_all_settings_are_stored_and_only_what_is_given_changes(tmp_path: Path) -> None:
    table_in(tmp_path / "t").close()
    assert stored(tmp_path / "t") == Settings(Every(100), "full", 16, 20_000, 1 << 30)
    limits: dict[str, Any] = {"max_versions": 3, "checkpoint_rows": 50, "segment_bytes": 4096}
    HashTable.open(tmp_path / "t", policy="never", durability="fast", **limits).close()
    assert stored(tmp_path / "t") == Settings(Never(), "fast", 3, 50, 4096)
    with HashTable.open(tmp_path / "t") as table:
        assert table.settings == Settings(Never(), "fast", 3, 50, 4096)
        for i in range(6):
            table.ingest(range(10 * i, 10 * i + 10), X[10 * i : 10 * i + 10], Y[10 * i : 10 * i + 10])
        assert len(table.stats().versions) == 3
    HashTable.open(tmp_path / "t", durability="full").close()
    assert stored(tmp_path / "t") == Settings(Never(), "full", 3, 50, 4096)
    HashTable.open(tmp_path / "t", max_versions=4).close()
    assert stored(tmp_path / "t") == Settings(Never(), "full", 4, 50, 4096)
    with table_in(keep_features=False) as memory:
        assert memory.settings.policy == Projected()
        assert not memory.keeps_features


def test_numbers_of_numpy_are_stored(tmp_path: Path) -> None:
    """Those of a parameter grid, for instance."""
    three = np.int64(3)
    sizes = {"max_versions": three, "checkpoint_rows": three, "sample_size": three}
    with HashTable.open(tmp_path, hs.FCOH(n_bits=16), policy=Partial(three, three), **sizes) as table:
        table.ingest(range(20), np.eye(20), np.arange(20) % 2)
    with HashTable.open(tmp_path, max_versions=np.int32(4)) as table:
        assert table.settings.policy == Partial(3, 3)
        assert (table.settings.max_versions, table.settings.checkpoint_rows) == (4, 3)


def test_a_snapshot_has_the_settings(tmp_path: Path) -> None:
    for path in (tmp_path / "t", None):
        with table_in(path, policy="gated:0.5", max_versions=5) as table:
            table.ingest(range(60), X, Y)
            table.snapshot(tmp_path / f"copy of {path is None}")
        copy = stored(tmp_path / f"copy of {path is None}")
        assert (copy.policy, copy.max_versions) == (Gated(theta=0.5), 5)


def test_what_a_reader_is_given_is_not_stored(tmp_path: Path) -> None:
    table_in(tmp_path / "t", policy="every:5").close()
    HashTable.open(tmp_path / "t", mode="read", policy="never", durability="fast").close()
    assert stored(tmp_path / "t") == Settings(Every(5))


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"policy": Projected()}, TableError, "Projected does not suit .*, where features are stored"),
        ({"policy": "projected:5"}, TableError, "Projected does not suit"),
        ({"policy": "sometimes"}, ValueError, "there is no policy 'sometimes': choose from eager, every"),
        ({"policy": "every:0"}, ValueError, "k must be at least 1"),
        ({"policy": 3}, TypeError, "policy must be a policy such as"),
        ({"durability": "slow"}, ValueError, 'must be "full" or "fast"'),
        ({"max_versions": 0}, ValueError, "max_versions must be at least 1"),
        ({"checkpoint_rows": 0}, ValueError, "checkpoint_rows must be at least 1"),
        ({"segment_bytes": 0}, ValueError, "segment_bytes must be at least 1"),
        ({"sample_size": 7}, TableError, "sample_size=1000, which cannot be changed"),
        ({"keep_features": False}, TableError, "keep_features=True, which cannot be changed"),
        ({"hasher": hs.LSH(16)}, TableError, "created with FCOH, not with LSH"),
        ({"mode": "append"}, ValueError, "mode must be"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_refused_open_changes_nothing(
    tmp_path: Path, given: dict[str, Any], error: type[Exception], says: str
) -> None:
    with table_in(tmp_path / "t", policy=Every(5)) as table:
        table.ingest(range(60), X, Y)
    with pytest.raises(error, match=says):
        HashTable.open(
            tmp_path / "t", **{"policy": Never(), "durability": "fast", "max_versions": 2, **given}
        )
    assert stored(tmp_path / "t") == Settings(Every(5))
    with HashTable.open(tmp_path / "t") as table:
        assert len(table) == 60
        table.check()
    if error is not TableError:  # no table can be so
        with pytest.raises(error, match=says):
            HashTable.open(tmp_path / "new", **{"hasher": HASHER, **given})
        assert not (tmp_path / "new").exists()


# ---- policies of one's own


@pytest.fixture(name="own")
def policy_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> type[Policy]:
    """A registered policy, until the test ends: re-encode after every `rows` rows."""
    monkeypatch.setattr(policies, "_POLICIES", dict(policies._POLICIES))

    @register
    @dataclass(frozen=True)
    class EveryFewRows(Policy):
        rows: int = 40

        def decide(self, facts: Facts) -> tuple[bool, dict[str, Any]]:
            rows = facts.count("rows") + facts.rows
            return rows >= self.rows, {"rows": rows % self.rows}

    return EveryFewRows


def test_a_registered_policy_is_stored_and_parsed(tmp_path: Path, own: Any) -> None:
    assert parse("everyfewrows:30") == own(30)
    assert parse("EveryFewRows") == own(40)
    table_in(tmp_path / "t", policy="everyfewrows:20").close()
    counts = []
    for i in range(6):
        with HashTable.open(tmp_path / "t") as table:
            assert table.settings.policy == own(20)
            table.ingest(range(10 * i, 10 * i + 10), X[10 * i : 10 * i + 10], Y[10 * i : 10 * i + 10])
            counts.append(len(table.stats().versions))
    assert counts == [1, 1, 2, 1, 2, 1]


def test_a_policy_that_is_not_registered_is_named(tmp_path: Path, own: Any) -> None:
    with table_in(tmp_path / "t", policy=own(20)) as table:
        table.ingest(range(30), X[:30], Y[:30])
    policies._POLICIES.pop("everyfewrows")
    with pytest.raises(TableError, match=r"'everyfewrows' is not registered here: import its module first"):
        HashTable.open(tmp_path / "t")
    with HashTable.open(tmp_path / "t", mode="read") as reader:  # which needs nothing of it
        assert len(reader) == 30
        assert reader.search(X[:2], 3).ids.shape == (2, 3)
        reader.check()
        reader.snapshot(tmp_path / "copy")
    with pytest.raises(
        TableError, match="'everyfewrows' is not registered"
    ):  # nothing has changed by all this
        HashTable.open(tmp_path / "t")
    with HashTable.open(tmp_path / "t", policy=Every(9)) as table:  # instead of it
        table.ingest(range(30, 60), X[30:], Y[30:])
    assert stored(tmp_path / "t").policy == Every(9)
    register(own)
    assert stored(tmp_path / "copy").policy == own(20)


def test_names_are_registered_once(own: Any) -> None:
    assert register(own) is own
    with pytest.raises(ValueError, match="a policy named every is registered already"):
        register(type("Every", (Policy,), {}))
    for wrong in (Every(3), int, "every"):
        with pytest.raises(TypeError, match="a policy is a subclass of Policy"):
            register(wrong)  # type: ignore[type-var]


# ---- labels with answers


@pytest.mark.parametrize("where", ["memory", "folder", "reader"])
def test_labels_come_with_the_answers(tmp_path: Path, where: str) -> None:
    labels = [None if i % 5 == 0 else f"class {y}" for i, y in enumerate(Y)]
    table = table_in(None if where == "memory" else tmp_path / "t", policy=Never())
    for i in range(3):
        part = slice(20 * i, 20 * i + 20)
        table.ingest(range(60)[part], X[part], labels[part])
    table.remove([3])
    table.ingest([4], X[:1], ["other"])
    labels[4] = "other"
    with table, HashTable.open(tmp_path / "t", mode="read") if where == "reader" else table as searched:
        plain, hits = searched.search(X[:9], 7), searched.search(X[:9], 7, include=("labels",))
        assert plain.labels is None
        assert hits.labels is not None
        assert [part.tolist() for part in hits] == [part.tolist() for part in plain]
        assert hits.labels.tolist() == [[labels[one] for one in some] for some in hits.ids.tolist()]
        soft = searched.search(X[:9], 7, asymmetric=True, include=["labels"])
        assert soft.labels is not None
        assert soft.labels.tolist() == [[labels[one] for one in some] for some in soft.ids.tolist()]
        near = searched.search_radius(X[:9], 3, include=("labels",))
        assert searched.search_radius(X[:9], 3).labels is None
        assert near.labels is not None
        assert near.labels.tolist() == [labels[one] for one in near.ids.tolist()]
        for wrong in ("labels", ("codes",), ("labels", "codes")):
            with pytest.raises(ValueError, match="include takes"):
                searched.search(X[:1], include=wrong)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="include takes"):
                searched.search_radius(X[:1], 2, include=wrong)  # type: ignore[arg-type]


def test_labels_of_an_empty_table_and_of_a_matrix() -> None:
    with table_in() as table:
        assert table.search(X[:2], 5, include=("labels",)).labels.shape == (2, 0)  # type: ignore[union-attr]
        Z = np.stack([Y % 2, Y < 2], axis=1).astype(int)
        table.ingest(range(60), X, Z)
        hits = table.search(X[:2], 5, include=("labels",))
        assert [[one.tolist() for one in some] for some in hits.labels] == Z[hits.ids].tolist()  # type: ignore[union-attr]


def test_a_reader_that_is_overtaken_by_a_compaction_still_has_the_labels(tmp_path: Path) -> None:
    with table_in(tmp_path / "t", policy=Never()) as table:
        table.ingest(range(60), X, Y, payloads=[{}] * 60)
        with HashTable.open(tmp_path / "t", mode="read") as reader:
            table.remove(range(0, 60, 2))
            table.compact()
            hits = reader.search(X[:9], 7, include=("labels",))  # of the commit that the reader sees
            assert hits.labels is not None
            assert hits.labels.tolist() == Y[hits.ids].tolist()
            hits = reader.search(X[:9], 7, include=("payloads",))  # which are gone: it sees the last one
            assert (hits.ids % 2 == 1).all()


# ---- the table itself


def test_exists(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("nowhere", "folder", "file"):
        assert not HashTable.exists(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()
    table_in(tmp_path / "t").close()
    assert HashTable.exists(tmp_path / "t")
    assert HashTable.exists(os.fspath(tmp_path / "t"))


def test_repr_says_where_and_how_much(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", policy=Never())
    assert repr(table) == f"<HashTable {tmp_path / 't'}: 0 items, FCOH, 16 bits, 0 versions>"
    table.ingest(range(30), X[:30], Y[:30])
    table.ingest(range(30, 60), X[30:], Y[30:])
    assert "60 items, FCOH, 16 bits, 2 versions>" in repr(table)
    table.close()
    assert repr(table).endswith("versions, closed>")
    with table_in() as memory:
        assert repr(memory) == "<HashTable in memory: 0 items, FCOH, 16 bits, 0 versions>"


def test_ids_and_iteration(tmp_path: Path) -> None:
    with table_in() as table:
        assert table.ids().tolist() == list(table) == []
        table.ingest(["b", "a", "c"], X[:3], Y[:3])
        table.ingest(["b"], X[3:4], Y[3:4])  # in a new place
        table.remove(["c"])
        assert table.ids().tolist() == list(table) == ["a", "b"]
        assert table.ids().dtype == object
        rest = iter(table)
        assert next(rest) == "a"
        table.remove(["b"])  # an iteration is of one commit
        assert list(rest) == ["b"]
    table, model = filled(tmp_path / "t")
    wanted = [one for one, _ in sorted(model.items.items(), key=lambda pair: pair[1].order)]
    assert table.ids().tolist() == list(table) == wanted
    assert table.ids().dtype == np.int64
    table.compact()
    with HashTable.open(tmp_path / "t", mode="read") as reader:
        assert list(reader) == wanted
    table.close()
    with pytest.raises(TableError, match="the table is closed"):
        table.ids()
    with pytest.raises(TableError, match="the table is closed"):
        list(table)


def test_on_commit_tells_what_was_committed(tmp_path: Path) -> None:
    told: list[Commit] = []
    with HashTable.open(tmp_path / "t", HASHER, policy=Every(2), on_commit=told.append) as table:
        table.ingest(range(20), X[:20], Y[:20])
        table.add(range(18, 25), X[18:25])  # two of which replace others
        table.ingest(range(30, 40), X[30:40], Y[30:40])  # the second time that the functions move
        table.remove([0, 1, 2])
        table.ingest(range(40, 50), X[40:50], Y[40:50])
        assert table.refresh(5) == 5
        with pytest.raises(KeyError):
            table.remove([1000])
        table.search(X[:2])
        table.flush()
    assert [one.seq for one in told] == [1, 2, 3, 4, 5, 6]
    figures = [(one.added, one.removed, one.recoded) for one in told]
    assert figures == [(20, 0, 0), (7, 2, 0), (10, 0, 25), (0, 3, 0), (10, 0, 0), (0, 0, 5)]
    assert all(one.recode_seconds > 0 for one in told if one.recoded)


def test_what_on_commit_raises_is_logged_and_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(commit: Commit) -> None:
        raise RuntimeError(f"commit {commit.seq} is too much")

    with (
        caplog.at_level(logging.WARNING, "hashstream.table"),
        HashTable.open(tmp_path / "t", HASHER, on_commit=fail) as table,
    ):
        table.ingest(range(30), X[:30], Y[:30])
        table.remove([3])
        assert len(table) == 29
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert all("on_commit failed, after a commit that is stored" in one for one in said)
    assert "commit 1 is too much" in said[0]
    with HashTable.open(tmp_path / "t") as again:  # on_commit is not stored
        assert len(again) == 29
        again.check()


def refreshers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "hashstream-refresh"]


def test_paused_keeps_the_background_still() -> None:
    before = len(refreshers())
    with table_in(policy=Lazy(share=1.0, piece=5)) as table:
        assert len(refreshers()) == before + 1
        with table.paused():
            assert len(refreshers()) == before
            for i in range(3):
                table.ingest(range(20 * i, 20 * i + 20), X[20 * i : 20 * i + 20], Y[20 * i : 20 * i + 20])
            assert list(table.stats().versions.values()) == [20, 20, 20]
            table.search(queries(), 3)
        assert len(refreshers()) == before + 1
        wait = threading.Event()
        for _ in range(1000):
            if not table.stats().stale:
                break
            wait.wait(0.01)
        assert table.stats().stale == 0
        with pytest.raises(ZeroDivisionError), table.paused():
            raise ZeroDivisionError
        assert len(refreshers()) == before + 1
        with table.paused():
            table.close()
    assert len(refreshers()) == before
    with table_in(policy=Never()) as quiet, quiet.paused():  # nothing to pause
        quiet.ingest(range(60), X, Y)
