"""`hashstream table`: what goes in comes out, stopping and going on, sentences for mistakes, exit codes."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import hashstream as hs
from hashstream import cli
from hashstream.cli.table_common import policy_of
from hashstream.cli.table_ingest import apart
from hashstream.table import Eager, Every, Gated, HashTable, Lazy, Never, Projected

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty current folder, no data folder, and room to print."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HASHSTREAM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


def table(*arguments: Any, code: int = 0) -> str:
    """What `hashstream table` says, as one line of words."""
    result = CliRunner().invoke(cli.app, ["table", *(str(argument) for argument in arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    said = result.stderr if code else result.output
    return " ".join(said.split())


@pytest.fixture
def digits(here: Path) -> Path:
    """A table with the first 1,000 digits, ids 0 to 999."""
    np.savez(here / "first.npz", x=X[:1000], y=Y[:1000])
    table("create", "t", "--bits", 32)
    table("ingest", "t", "first.npz", "--batch", 300)
    return here / "t"


def items(path: str | Path = "t") -> dict[Any, tuple[list[float], Any]]:
    """Everything that is in a table: id -> features, label."""
    with HashTable.open(path, mode="read") as opened:
        ids = opened.search(np.zeros((1, opened.hasher.n_features_in_)), k=1 << 20)[0][0]
        held = opened.get(ids)
        assert held.features is not None
        return {
            one: (x, label)
            for one, x, label in zip(ids.tolist(), held.features.tolist(), held.labels, strict=True)
        }


# ---- help, making


COMMANDS = ["create", "ingest", "search", "stats", "remove", "refresh", "check", "compact", "snapshot"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_an_example(command: str) -> None:
    said = table(command, "--help").replace("│", " ")
    assert "Example:" in said
    assert f"hashstream table {command}" in " ".join(said.split()[6:])


def test_create_says_what_it_made_and_refuses_twice() -> None:
    assert "a: an empty table, FCOH, 64 bits." in table("create", "a", "--set", "feature_map=center")
    with HashTable.open("a") as made:
        assert made.hasher.get_params()["feature_map"] == "center"
        assert made.hasher.get_params()["random_state"] == 0
    assert "a is a table already" in table("create", "a", code=2)
    assert "there is no method FOCH" in table("create", "b", "--method", "FOCH", code=2)
    assert "needs Python" in table("create", "b", "--method", "mine:Method", code=2)
    assert "what --bits and --seed decide" in table("create", "b", "--set", "n_bits=3", code=2)
    assert "FCOH does not have it" in table("create", "b", "--set", "colour=3", code=2)
    assert "batch_size" in table("create", "b", "--set", "batch_size=0", code=2)
    assert not Path("b").exists()


# ---- ingest


def written(suffix: str) -> list[Any]:
    """1,000 digits with words as ids and labels, in a file; what to ingest."""
    ids, labels = [f"digit {i}" for i in range(1000)], [f"class {y}" for y in Y[:1000]]
    if suffix == "csv":
        with open("rows.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["key", *(f"p{i}" for i in range(64)), "class", "note"])
            writer.writerows(
                [one, *x, label, "-"] for one, x, label in zip(ids, X.tolist(), labels, strict=False)
            )
        return ["rows.csv", "--id", "key", "--label", "class", "--features", "p*"]
    if suffix == "npz":
        np.savez("rows.npz", x=X[:1000], y=labels, ids=ids)
        return ["rows.npz"]
    if suffix == "npy":
        np.save("rows.npy", X[:1000])
        np.save("rows.ids.npy", ids)
        np.save("names.npy", labels)
        return ["rows.npy", "--label", "names.npy"]
    pq.write_table(pa.table({"id": ids, "label": labels, "x": list(X[:1000])}), "rows.parquet")
    return ["rows.parquet"]


@pytest.mark.parametrize("suffix", ["csv", "npz", "npy", "parquet"])
def test_every_format_gives_the_same_table(suffix: str) -> None:
    arguments = written(suffix)
    table("create", "t", "--bits", 32)
    said = table("ingest", "t", *arguments, "--batch", 400)
    assert "1,000 rows" in said
    assert "1,000 new. t has 1,000 items" in said
    with HashTable.open(None, hs.FCOH(32, random_state=0)) as model:
        for part in (slice(0, 400), slice(400, 800), slice(800, 1000)):
            rows = range(1000)[part]
            model.ingest([f"digit {i}" for i in rows], X[part], [f"class {y}" for y in Y[part]])
        with HashTable.open("t", mode="read") as opened:
            ids, far = opened.search(X[1000:1050], 20)
            assert ids.tolist() == model.search(X[1000:1050], 20)[0].tolist()
            assert far.tolist() == model.search(X[1000:1050], 20)[1].tolist()
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
    assert "200 there already" in table("ingest", "t", "a.npz")  # compared as doubles without being told


def test_the_same_command_goes_on_and_never_learns_twice(digits: Path) -> None:
    before = digits.stat(), items()
    assert "0 new, 1,000 there already" in table("ingest", "t", "first.npz")
    with HashTable.open("t") as opened:
        assert opened.stats().n_seen == 1000
    assert items() == before[1]
    assert "1,000 there already" in table("ingest", "t", "first.npz", "--resume")
    assert "0 new, 1,000 replaced" in table("ingest", "t", "first.npz", "--again")
    with HashTable.open("t") as opened:
        assert opened.stats().n_seen == 2000


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_after_a_batch_and_gone_on(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    np.savez("rows.npz", x=X[:1000], y=Y[:1000])
    table("create", "t", "--bits", 32)
    ingest, calls = HashTable.ingest, []

    def interrupted(self: HashTable, *batch: Any) -> None:
        calls.append(len(batch[0]))
        if len(calls) == 3:
            os.kill(os.getpid(), number)  # in the middle: the batch is finished all the same
        ingest(self, *batch)

    with monkeypatch.context() as patch:
        patch.setattr(HashTable, "ingest", interrupted)
        said = table("ingest", "t", "rows.npz", "--batch", 200, code=128 + number)
    assert (
        "stopped behind row 599 of rows.npz: its first 600 rows are stored. The same command goes on." in said
    )
    assert len(items()) == 600
    assert "1,000 rows" in (said := table("ingest", "t", "rows.npz", "--batch", 200))
    assert "400 new, 600 there already" in said
    table("create", "u", "--bits", 32)
    table("ingest", "u", "rows.npz", "--batch", 200)
    with HashTable.open("t") as stopped, HashTable.open("u") as whole:
        assert stopped.hasher.projection_.tobytes() == whole.hasher.projection_.tobytes()
        assert stopped.stats().versions == whole.stats().versions


def test_changed_rows_replace_what_was_there(digits: Path) -> None:
    changed, ids = X[:1000].copy(), np.arange(1000)
    changed[17] += 1
    labels = Y[:1000].copy()
    labels[18] = 3 if labels[18] != 3 else 4
    np.savez("second.npz", x=changed, y=labels, ids=ids)
    assert "0 new, 2 replaced, 998 there already" in table("ingest", "t", "second.npz")
    now = items()
    assert now[17] == (changed[17].tolist(), int(Y[17]))
    assert now[18] == (X[18].tolist(), int(labels[18]))
    assert len(now) == 1000


def test_rows_without_ids_never_overwrite_others(digits: Path) -> None:
    np.savez("second.npz", x=X[1000:1200], y=Y[1000:1200])
    said = table("ingest", "t", "second.npz", code=2)
    assert (
        "second.npz has no ids, so row 0 would be item 0, and the table has another item of that id" in said
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
    table("create", "t")
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


def test_storing_without_learning(digits: Path) -> None:
    np.save("more.npy", X[1000:1100])
    said = table("ingest", "t", "more.npy", "--first-id", 1000, code=2)
    assert "FCOH learns from labels, and more.npy has none: name them with --label" in said
    assert "100 new" in table("ingest", "t", "more.npy", "--first-id", 1000, "--no-learn")
    assert "100 there already" in table("ingest", "t", "more.npy", "--first-id", 1000, "--no-learn")
    assert items()[1042] == (X[1042].tolist(), None)
    with HashTable.open("t") as opened:
        assert opened.stats().n_seen == 1000


def test_a_bad_row_is_told_with_its_place_and_what_is_stored() -> None:
    bad = X[:500].copy()
    bad[333, 5] = np.nan
    np.savez("bad.npz", x=bad, y=Y[:500])
    table("create", "t")
    said = table("ingest", "t", "bad.npz", "--batch", 100, code=2)
    assert "NaN" in said
    assert "Stopped behind row 299 of bad.npz: its first 300 rows are stored." in said
    assert len(items()) == 300
    np.savez("narrow.npz", x=X[:5, :9], y=Y[:5])
    assert "9" in table("ingest", "t", "narrow.npz", "--first-id", 900, code=2)
    assert "there is no file none.npz" in table("ingest", "t", "none.npz", code=2)
    assert "--resume passes over" in table("ingest", "t", "bad.npz", "--resume", "--again", code=2)
    assert "there is no folder nowhere" in table("ingest", "nowhere", "bad.npz", code=2)
    Path("empty").mkdir()
    assert "empty is not a table" in table("ingest", "empty", "bad.npz", code=2)


def test_data_sets_by_name() -> None:
    table("create", "t", "--bits", 32)
    assert "1,797 new" in table("ingest", "t", "digits")
    assert "digits is a data set, not a file" in table("ingest", "t", "digits", "--id", "id", code=2)
    assert "5 queries against 1,797 items" in table("search", "t", "digits", "--first", 5)


def test_policies_as_people_type_them() -> None:
    for text, kind in (("eager", Eager), ("gated", Gated), ("lazy", Lazy), ("never", Never)):
        assert type(policy_of(text)) is kind
    assert policy_of("Every:7") == Every(7)
    assert policy_of("projected:9") == Projected(9)
    assert policy_of("gated:0.25") == Gated(theta=0.25)
    share = policy_of("lazy:0.5")
    assert isinstance(share, Lazy)
    assert share.share == 0.5
    for text, says in (("sometimes", "it has to be eager"), ("eager:3", "takes no number"), ("every:0", "at least 1"),
                       ("every:x", "every:x")):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            policy_of(text)
    np.savez("rows.npz", x=X[:600], y=Y[:600])
    table("create", "t")
    table("ingest", "t", "rows.npz", "--batch", 100, "--policy", "eager", "--durability", "fast")
    with HashTable.open("t", mode="read") as opened:
        assert len(opened.stats().versions) == 1
    refusal = table("ingest", "t", "rows.npz", "--policy", "projected:5", code=2)
    assert "Projected does not suit t, where features are kept" in refusal


def test_without_features() -> None:
    np.savez("rows.npz", x=X[:600], y=Y[:600])
    table("create", "t", "--no-features")
    table("ingest", "t", "rows.npz", "--batch", 100)
    said = table("ingest", "t", "rows.npz", code=2)  # nobody can tell whether these are the same rows
    assert "the table has an item of that id" in said
    assert "go on where an earlier run stopped with --resume" in said
    assert "600 there already" in table("ingest", "t", "rows.npz", "--resume")
    assert "no features are kept" in table("search", "t", "--like", 3, code=2)
    assert "3 queries against 600 items" in table("search", "t", "rows.npz", "--first", 3)


# ---- search


def test_answers_are_the_tables_own(digits: Path) -> None:
    np.savez("queries.npz", x=X[1000:1100], y=Y[1000:1100])
    with HashTable.open("t", mode="read") as opened:
        ids, far = opened.search(X[1000:1100], 7)
        soft_ids, soft_far = opened.search(X[1000:1100], 7, asymmetric=True)
        offsets, near_far, near = opened.search_radius(X[1000:1100], 4)
    precision = f"{(Y[ids] == Y[1000:1100, None]).mean():.1%}"

    said = table("search", "t", "queries.npz", "-k", 7)
    assert "100 queries against 1,000 items in" in said
    assert f"{precision} of the 700 answers share the query's label." in said
    first = " ".join(
        ["query 0 id", *map(str, ids[0]), "distance", *map(str, far[0]), "label", *map(str, Y[ids[0]])]
    )
    assert first in said
    assert "query 19 id" in said
    assert "query 20 id" not in said
    assert "... and 80 queries more" in said

    table("search", "t", "queries.npz", "-k", 7, "--out", "new/answers.csv")
    with open("new/answers.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == ids.ravel().tolist()
    assert [int(row["distance"]) for row in rows] == far.ravel().tolist()
    assert [int(row["label"]) for row in rows] == Y[ids].ravel().tolist()
    assert [int(row["query"]) for row in rows] == np.repeat(np.arange(100), 7).tolist()
    assert [int(row["rank"]) for row in rows] == np.tile(np.arange(1, 8), 100).tolist()

    table("search", "t", "queries.npz", "-k", 7, "--asymmetric", "--out", "answers.npz")
    with np.load("answers.npz", allow_pickle=False) as answers:
        assert answers["ids"].tolist() == soft_ids.tolist()
        assert answers["distances"].tolist() == soft_far.tolist()
        assert answers["labels"].tolist() == Y[soft_ids].tolist()
        assert answers["queries"].tolist() == list(range(100))

    table("search", "t", "queries.npz", "--radius", 4, "--out", "near.npz")
    with np.load("near.npz", allow_pickle=False) as answers:
        assert answers["offsets"].tolist() == offsets.tolist()
        assert answers["ids"].tolist() == near.tolist()
        assert answers["distances"].tolist() == near_far.tolist()


def test_json_lines_and_words_as_ids() -> None:
    table("create", "t", "--bits", 32)
    table("ingest", "t", *written("parquet"))
    np.savez("queries.npz", x=X[1000:1030], ids=[f"ask {i}" for i in range(30)])
    result = CliRunner().invoke(
        cli.app, ["table", "search", "t", "queries.npz", "--first", "3", "-k", "2", "--json"]
    )
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    with HashTable.open("t", mode="read") as opened:
        ids, far = opened.search(X[1000:1003], 2)
        labels = opened.get(ids.ravel()).labels
    assert lines == [
        {
            "query": f"ask {i}",
            "ids": ids[i].tolist(),
            "distances": far[i].tolist(),
            "labels": labels[2 * i : 2 * i + 2],
        }
        for i in range(3)
    ]
    table("search", "t", "queries.npz", "-k", 2, "--out", "words.npz")
    with np.load("words.npz", allow_pickle=False) as answers:
        assert answers["ids"][:3].tolist() == ids.tolist()
        assert answers["queries"][:2].tolist() == ["ask 0", "ask 1"]


def test_like_an_item_of_the_table(digits: Path) -> None:
    said = table("search", "t", "--like", "17,18", "-k", 3)
    assert "query 17 id 17" in said
    assert "query 18 id 18" in said
    assert "not in the table: 5000" in table("search", "t", "--like", "17,5000", code=2)
    assert "not in the table: 'x'" in table("search", "t", "--like", "x", code=2)
    assert "say what to look for" in table("search", "t", code=2)
    assert "say what to look for" in table("search", "t", "first.npz", "--like", 3, code=2)
    assert "--radius counts bits" in table("search", "t", "first.npz", "--radius", 2, "--asymmetric", code=2)
    assert "it has to be .csv or .npz" in table("search", "t", "first.npz", "--out", "a.txt", code=2)


def test_labels_of_several_columns() -> None:
    """Multi-label: a 0/1 matrix in and out."""
    Z = np.stack([Y % 2, Y < 5, Y == 0], axis=1).astype(int)
    np.savez("rows.npz", x=X[:400], y=Z[:400])
    table("create", "t", "--bits", 32)
    table("ingest", "t", "rows.npz", "--batch", 200)
    assert "400 there already" in table("ingest", "t", "rows.npz", "--batch", 200)
    table("search", "t", "rows.npz", "--first", 4, "-k", 2, "--out", "answers.npz")
    with np.load("answers.npz") as answers:
        assert answers["labels"].shape == (4, 2, 3)
        assert answers["labels"].tolist() == Z[answers["ids"]].tolist()
    assert "answers share the query's label" in table("search", "t", "rows.npz", "--first", 4, "-k", 2)


# ---- looking after it


def test_stats_page_and_json(digits: Path) -> None:
    table("remove", "t", 3, 4)
    with HashTable.open("t", mode="read") as opened:
        found = opened.stats()
    page = table("stats", "t")
    assert "method FCOH, 32 bits, has learned from 1,000 rows" in page
    assert "items 998; 2 removed or replaced still take room: hashstream table compact" in page
    assert f"versions alive {len(found.versions)} version {found.newest_version}: 100 items (now)" in page
    assert f"stale {found.stale:.1%} of the codes are of older functions" in page
    assert f"mAP as stored {found.drift.mean_average_precision:.3f}" in page
    assert f"mAP if refreshed {found.drift.fresh_mean_average_precision:.3f}" in page
    assert "features-000000.seg" in page
    facts = json.loads(CliRunner().invoke(cli.app, ["table", "stats", "t", "--json"]).stdout)
    assert facts["n_items"] == 998
    assert facts["method"] == "FCOH"
    assert facts["versions"] == {str(version): n for version, n in found.versions.items()}
    assert facts["drift"]["bit_flips"] == found.drift.bit_flips
    assert facts["files"]["manifest.sqlite"] > 0


def test_stats_say_what_cannot_be_said() -> None:
    table("create", "t")
    page = table("stats", "t")
    assert "versions alive none: the table is empty" in page
    assert "bit flips too little data: the table is empty" in page
    assert "mAP as stored too little data: 0 labelled items in the reservoir, 20 are needed" in page
    np.savez("few.npz", x=X[:15], y=Y[:15])
    table("ingest", "t", "few.npz")
    assert "bit flips too little data: 15 items in the reservoir, 20 are needed" in table("stats", "t")
    facts = json.loads(CliRunner().invoke(cli.app, ["table", "stats", "t", "--json"]).stdout)
    assert facts["drift"]["bit_flips"] is None
    assert "too little data" in facts["drift"]["reasons"]["bit_flips"]


def test_refresh(digits: Path) -> None:
    said = table("refresh", "t", "--budget", 250)
    assert "250 codes made anew; 65.0% are stale still." in said
    assert "650 codes made anew; none is stale." in table("refresh", "t")
    assert "0 codes made anew; none is stale" in table("refresh", "t")
    assert "every code is of the functions of now" in table("stats", "t")


def test_remove_and_compact(digits: Path) -> None:
    size = sum(path.stat().st_size for path in digits.glob("features*"))
    assert "not in the table: 5000. Nothing was removed" in table("remove", "t", 1, 5000, code=2)
    assert "say what to remove" in table("remove", "t", code=2)
    assert "1 items removed, 999 are left." in table("remove", "t", 1, 5000, "--missing-ok")
    np.save("gone.npy", np.arange(100, 400))
    Path("gone.txt").write_text("400\n401\n\n")
    assert "300 items removed, 699 are left." in table("remove", "t", "--ids", "gone.npy")
    assert "2 items removed, 697 are left." in table("remove", "t", "--ids", "gone.txt")
    before = items()
    assert set(before) == set(range(1000)) - {1} - set(range(100, 402))
    assert "303 rows dropped" in table("compact", "t")
    assert items() == before
    assert sum(path.stat().st_size for path in digits.glob("features*")) < 0.75 * size
    assert "Nothing to do" in table("compact", "t")
    table("create", "w")
    np.savez("words.npz", x=X[:30], y=Y[:30], ids=[str(i) for i in range(29)] + ["a b"])
    table("ingest", "w", "words.npz", "--text")
    assert "2 items removed, 28 are left." in table("remove", "w", 7, "a b")


def test_check_names_what_is_damaged(digits: Path) -> None:
    said = table("check", "t", "--sample", 500)
    assert "Nothing is damaged: 4 batches with 1,000 rows" in said
    assert "500 codes are what their version makes" in said
    segment = digits / "features-000000.seg"
    raw = bytearray(segment.read_bytes())
    raw[-5000] ^= 1
    segment.write_bytes(raw)
    assert "features-000000.seg" in (said := table("check", "t", code=1))
    assert "damaged" in said
    segment.write_bytes(raw[:-5000])
    assert "features-000000.seg" in table("check", "t", code=1)
    assert "nowhere is not a table" in table("check", "nowhere", code=2)


def test_snapshot(digits: Path) -> None:
    assert "Copied to copy" in table("snapshot", "t", "copy")
    assert items("copy") == items()
    assert "copy is there already" in table("snapshot", "t", "copy", code=2)


def test_a_second_writer_is_told_who_writes(digits: Path) -> None:
    with HashTable.open("t"):
        assert f"open for writing by process {os.getpid()}" in table("ingest", "t", "first.npz", code=2)
        assert "1,000 items" in table("search", "t", "first.npz", "--first", 2)  # readers are welcome
        assert "Nothing is damaged" in table("check", "t")
