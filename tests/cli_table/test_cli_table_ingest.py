"""`hashstream table create` and `ingest`: what goes in comes out, stopping and going on, sentences for mistakes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli_table.commands import SMALL, X, Y, in_an_empty_folder, items, table, table_of_digits, written  # noqa: F401 (fixtures)

import hashstream as hs
from hashstream.table import Eager, Every, HashTable, Lazy, Never, Policy
from hashstream.table.files import apart

COMMANDS = ["create", "ingest", "search", "stats", "remove", "refresh", "check", "compact", "snapshot"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_an_example(command: str) -> None:
    said = table(command, "--help").replace("│", " ")
    assert "Example:" in said
    assert f"hashstream table {command}" in " ".join(said.split()[6:])


def test_create_says_what_it_made_and_refuses_twice() -> None:
    assert "a: an empty table, PosteriorHash, 64 bits." in table("create", "a", "--set", "feature_map=center")
    with HashTable.open("a") as made:
        assert made.hasher.get_params()["feature_map"] == "center"
        assert made.hasher.get_params()["random_state"] == 0
    assert "a is already a table" in table("create", "a", code=2)
    assert "there is no method FOCH" in table("create", "b", "--method", "FOCH", code=2)
    assert "needs Python" in table("create", "b", "--method", "mine:Method", code=2)
    assert "use --bits and --seed instead" in table("create", "b", "--set", "n_bits=3", code=2)
    assert "PosteriorHash has no such parameter" in table("create", "b", "--set", "colour=3", code=2)
    assert "batch_size" in table("create", "b", "--set", "batch_size=0", code=2)
    assert not Path("b").exists()


@pytest.mark.parametrize("suffix", ["csv", "npz", "npy", "parquet"])
def test_every_format_gives_the_same_table(suffix: str) -> None:
    arguments = written(suffix)
    table("create", "t", *SMALL)
    said = table("ingest", "t", *arguments, "--batch", 400)
    assert "1,000 rows" in said
    assert "1,000 new. t has 1,000 items" in said
    with HashTable.open(None, hs.PosteriorHash(16, width=16, sample_size=100, random_state=0)) as model:
        for part in (slice(0, 400), slice(400, 800), slice(800, 1000)):
            rows = range(1000)[part]
            model.ingest([f"digit {i}" for i in rows], X[part], [f"class {y}" for y in Y[part]])
        model.refresh()  # as the command does at its end
        with HashTable.open("t", mode="read") as opened:
            far, ids = opened.search(X[1000:1050], 20)
            assert ids.tolist() == model.search(X[1000:1050], 20).ids.tolist()
            assert far.tolist() == model.search(X[1000:1050], 20).distances.tolist()
            assert opened.stats().versions == model.stats().versions
            names = [f"digit {i}" for i in range(0, 1000, 7)]
            assert opened.get(names).labels == model.get(names).labels
            assert opened.get(names).features.tobytes() == X[:1000:7].tobytes()  # type: ignore[union-attr]


def test_doubles_and_what_follows_them() -> None:
    doubles = X[:200].astype(np.float64) / 3
    np.savez("a.npz", x=doubles, y=Y[:200])
    table("create", "t")
    table("ingest", "t", "a.npz", "--double")
    assert items()[7][0] == doubles[7].tolist()
    assert "200 already stored" in table("ingest", "t", "a.npz")  # compared as doubles without being told


def test_the_same_command_goes_on_and_never_learns_twice(digits: Path) -> None:
    before = digits.stat(), items()
    assert "0 new, 1,000 already stored" in table("ingest", "t", "first.npz")
    with HashTable.open("t") as opened:
        assert opened.stats().n_seen == 1000
    assert items() == before[1]
    assert "1,000 already stored" in table("ingest", "t", "first.npz", "--resume")
    assert "0 new, 1,000 replaced" in table("ingest", "t", "first.npz", "--again")
    with HashTable.open("t") as opened:
        assert opened.stats().n_seen == 2000


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_after_a_batch_and_gone_on(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    np.savez("rows.npz", x=X[:1000], y=Y[:1000])
    table("create", "t", *SMALL)
    ingest, calls = HashTable.ingest, []

    def interrupted(self: HashTable, *batch: Any, **more: Any) -> None:
        calls.append(len(batch[0]))
        if len(calls) == 3:
            os.kill(os.getpid(), number)  # in the middle: the batch is finished all the same
        ingest(self, *batch, **more)

    with monkeypatch.context() as patch:
        patch.setattr(HashTable, "ingest", interrupted)
        said = table("ingest", "t", "rows.npz", "--batch", 200, code=128 + number)
    assert (
        "stopped after row 599 of rows.npz: its first 600 rows are stored. The same command continues."
        in said
    )
    assert len(items()) == 600
    assert "1,000 rows" in (said := table("ingest", "t", "rows.npz", "--batch", 200))
    assert "400 new, 600 already stored" in said
    table("create", "u", *SMALL)
    table("ingest", "u", "rows.npz", "--batch", 200)
    with HashTable.open("t") as stopped, HashTable.open("u") as whole:
        arrays = [list(one.hasher.encoder().arrays()) for one in (stopped, whole)]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(*arrays, strict=True))
        assert stopped.stats().versions == whole.stats().versions


def test_changed_rows_replace_what_was_there(digits: Path) -> None:
    changed, ids = X[:1000].copy(), np.arange(1000)
    changed[17] += 1
    labels = Y[:1000].copy()
    labels[18] = 3 if labels[18] != 3 else 4
    np.savez("second.npz", x=changed, y=labels, ids=ids)
    assert "0 new, 2 replaced, 998 already stored" in table("ingest", "t", "second.npz")
    now = items()
    assert now[17] == (changed[17].tolist(), int(Y[17]))
    assert now[18] == (X[18].tolist(), int(labels[18]))
    assert len(now) == 1000


def test_rows_without_ids_never_overwrite_others(digits: Path) -> None:
    np.savez("second.npz", x=X[1000:1200], y=Y[1000:1200])
    said = table("ingest", "t", "second.npz", code=2)
    assert (
        "second.npz has no ids, so row 0 would be item 0, and the table has another item with that id" in said
    )
    assert "--first-id" in said
    assert "Stopped before the first row of second.npz" in said
    assert "200 new" in table("ingest", "t", "second.npz", "--first-id", 1000)
    now = items()
    assert len(now) == 1200
    assert now[1003] == (X[1003].tolist(), int(Y[1003]))
    assert now[3] == (X[3].tolist(), int(Y[3]))


def test_rows_of_several_files_count_on() -> None:
    np.savez("a.npz", x=X[:150], y=Y[:150])
    np.savez("b.npz", x=X[150:250], y=Y[150:250])
    table("create", "t", *SMALL)
    assert "250 rows" in table("ingest", "t", "a.npz", "b.npz", "--batch", 40)
    assert items() == {i: (X[i].tolist(), int(Y[i])) for i in range(250)}


def test_an_id_that_comes_twice_is_replaced_by_the_later() -> None:
    np.savez("a.npz", x=X[:6], y=Y[:6], ids=["a", "b", "a", "a", "c", "b"])
    table("create", "t")
    assert "3 new, 3 replaced" in table("ingest", "t", "a.npz")
    assert items() == {one: (X[i].tolist(), int(Y[i])) for one, i in (("a", 3), ("c", 4), ("b", 5))}
    parts = list(apart(np.array([1, 1, 2, 3, 1, 2])))
    assert [(part.start, part.stop) for part in parts] == [(0, 1), (1, 4), (4, 6)]
    assert list(apart(np.empty(0))) == []


def test_what_is_learned_again_where_an_id_comes_twice() -> None:
    np.savez("a.npz", x=X[:6], y=Y[:6], ids=["a", "b", "a", "a", "c", "b"])
    table("create", "t")
    table("ingest", "t", "a.npz")
    assert "6 already stored" in table("ingest", "t", "a.npz", "--resume")
    said = table("ingest", "t", "a.npz")  # each row of "a" and "b" differs from the one that is there
    assert "5 replaced, 1 already stored" in said
    with HashTable.open("t", mode="read") as opened:
        assert opened.stats().n_seen == 6 + 5
    assert items() == {one: (X[i].tolist(), int(Y[i])) for one, i in (("a", 3), ("c", 4), ("b", 5))}
    assert "several rows of one id" in table("ingest", "--help").replace("│ ", "")


def test_items_are_re_encoded_at_the_end() -> None:
    np.savez("rows.npz", x=X[:600], y=Y[:600])
    np.save("more.npy", X[600:700])

    def alive(*options: str) -> int:
        table("ingest", "t", *options)
        with HashTable.open("t", mode="read") as opened:
            return len(opened.stats().versions)

    learning = ["rows.npz", "--batch", "200", "--again"]
    table("create", "t", "--bits", 32, "--method", "FCOH")
    assert "all codes are current" in table("ingest", "t", *learning)
    assert alive(*learning) == 1
    assert alive(*learning, "--no-refresh") > 1
    assert alive("more.npy", "--first-id", "600", "--no-learn") > 1
    assert alive("more.npy", "--first-id", "600", "--no-learn", "--refresh") == 1
    assert alive(*learning, "--policy", "never") > 1
    assert "re-encodes them" in table("ingest", "t", *learning, "--policy", "never")
    assert alive(*learning, "--policy", "never", "--refresh") == 1
    table("create", "u", *SMALL, "--no-features")
    assert "of the codes are stale" in table("ingest", "u", "rows.npz", "--batch", 200)


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="signals of POSIX")
def test_stopped_while_items_are_re_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez("rows.npz", x=X[:600], y=Y[:600])
    table("create", "t", "--bits", 32, "--method", "FCOH")
    refresh = HashTable.refresh

    def interrupted(self: HashTable, budget: int | None = None) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return refresh(self, min(budget or 100, 100))

    with monkeypatch.context() as patch:
        patch.setattr(HashTable, "refresh", interrupted)
        said = table("ingest", "t", "rows.npz", "--batch", 200, code=128 + signal.SIGINT)
    assert (
        "All rows are stored, but some items are stale: `hashstream table refresh t` re-encodes them." in said
    )
    assert "600 already stored" in (said := table("ingest", "t", "rows.npz", "--batch", 200))
    assert "all codes are current" in said


def test_storing_without_learning(digits: Path) -> None:
    np.save("more.npy", X[1000:1100])
    assert "100 new" in table("ingest", "t", "more.npy", "--first-id", 1000, "--no-learn")
    assert "100 already stored" in table("ingest", "t", "more.npy", "--first-id", 1000, "--no-learn")
    assert items()[1042] == (X[1042].tolist(), None)
    with HashTable.open("t") as opened:
        assert opened.stats().n_seen == 1000


def test_a_bad_row_is_told_with_its_place_and_what_is_stored() -> None:
    bad = X[:500].copy()
    bad[333, 5] = np.nan
    np.savez("bad.npz", x=bad, y=Y[:500])
    table("create", "t", *SMALL)
    said = table("ingest", "t", "bad.npz", "--batch", 100, code=2)
    assert "feature 5 of row 333 is nan" in said
    assert "Stopped after row 299 of bad.npz: its first 300 rows are stored." in said
    assert len(items()) == 300
    np.savez("narrow.npz", x=X[:5, :9], y=Y[:5])
    assert "9" in table("ingest", "t", "narrow.npz", "--first-id", 900, code=2)
    assert "there is no file none.npz" in table("ingest", "t", "none.npz", code=2)
    assert "resume skips stored rows" in table("ingest", "t", "bad.npz", "--resume", "--again", code=2)
    assert "nowhere does not exist: create a table with `hashstream table create nowhere`" in table(
        "ingest", "nowhere", "bad.npz", code=2
    )
    Path("empty").mkdir()
    assert "empty is not a table" in table("ingest", "empty", "bad.npz", code=2)


def test_data_sets_by_name() -> None:
    table("create", "t", "--bits", 32)
    assert "1,797 new" in table("ingest", "t", "digits")
    assert "digits is a data set, not a file" in table("ingest", "t", "digits", "--id", "id", code=2)
    assert "5 queries against 1,797 items" in table("search", "t", "digits", "--first", 5)


def test_settings_are_stored_and_by_default_kept() -> None:
    np.savez("rows.npz", x=X[:600], y=Y[:600])

    def stored() -> tuple[Policy, str]:
        with HashTable.open("t", mode="read") as opened:
            return opened.settings.policy, opened.settings.durability

    table("create", "t", *SMALL, "--policy", "Every:7", "--durability", "fast")
    assert stored() == (Every(7), "fast")
    table("ingest", "t", "rows.npz", "--batch", 100)
    assert stored() == (Every(7), "fast")
    with HashTable.open("t", mode="read") as opened:
        assert len(opened.stats().versions) > 1  # a policy was chosen, so nothing is re-encoded at the end
    for text, policy in (("lazy:0.5", Lazy(share=0.5)), ("never", Never()), ("eager", Eager())):
        table("ingest", "t", "rows.npz", "--policy", text, "--resume")
        assert stored() == (policy, "fast")
    table("ingest", "t", "rows.npz", "--again", "--batch", 100, "--durability", "full")
    assert stored() == (Eager(), "full")
    with HashTable.open("t", mode="read") as opened:
        assert len(opened.stats().versions) == 1
    assert "settings policy Eager(), durability full" in table("stats", "t")
    table("create", "u", "--policy", "projected:9")
    assert "policy Projected(k=9, ridge=0.001)" in table("stats", "u")
    with HashTable.open("u", mode="read") as opened:
        assert not opened.keeps_features


def test_settings_that_are_refused_change_nothing() -> None:
    np.savez("rows.npz", x=X[:600], y=Y[:600])
    table("create", "t", "--policy", "every:3")
    for text, says in (
        ("sometimes", "there is no policy 'sometimes': choose from eager, every,"),
        ("eager:3", "takes no number"),
        ("every:0", "at least 1"),
        ("every:x", "after the colon, must be a whole number"),
        ("lazy:much", "after the colon, must be a number"),
    ):
        assert says in table("ingest", "t", "rows.npz", "--policy", text, code=2)
        assert says in table("create", "u", "--policy", text, code=2)
    refusal = table("ingest", "t", "rows.npz", "--policy", "projected:5", code=2)
    assert "Projected does not suit" in refusal
    assert "t, where features are stored" in refusal
    assert "Every needs features" in table("create", "u", "--policy", "every:5", "--no-features", code=2)
    assert "slow" in table("ingest", "t", "rows.npz", "--durability", "slow", code=2)
    with HashTable.open("t", mode="read") as opened:
        assert opened.settings.policy == Every(3)
        assert len(opened) == 0
    assert not Path("u").exists()


@pytest.mark.parametrize("command", ["create", "ingest"])
def test_the_help_says_that_settings_are_stored(command: str) -> None:
    said = " ".join(table(command, "--help").replace("│", " ").split())
    assert said.count("Stored with the table; by default as stored") == 3


def test_without_features() -> None:
    np.savez("rows.npz", x=X[:600], y=Y[:600])
    table("create", "t", *SMALL, "--no-features")
    table("ingest", "t", "rows.npz", "--batch", 100)
    said = table("ingest", "t", "rows.npz", code=2)  # nobody can tell whether these are the same rows
    assert "the table has an item with that id" in said
    assert "skip what an earlier run has stored (resume, --resume)" in said
    assert "600 already stored" in table("ingest", "t", "rows.npz", "--resume")
    assert "--like needs features, and this table stores none" in table("search", "t", "--like", 3, code=2)
    assert "3 queries against 600 items" in table("search", "t", "rows.npz", "--first", 3)
