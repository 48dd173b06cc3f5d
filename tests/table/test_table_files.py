"""Files into a table without the command line: interrupted, continued, changed; ids as text; answers as files."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.datasets import DatasetError, open_rows
from hashstream.table import HashTable, RadiusResult, SearchResult
from hashstream.table.answers import Answers
from hashstream.table.files import FileIngest, Progress, Tally
from hashstream.table.id_text import find_ids, read_ids

HASHER = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
X, Y = rows(np.random.default_rng(2), 100)
IDS = np.array([f"item {i}" for i in range(100)])


@pytest.fixture(name="file")
def one_file(tmp_path: Path) -> Path:
    """100 labelled rows with ids."""
    np.savez(tmp_path / "rows.npz", ids=IDS, x=X, y=Y)
    return tmp_path / "rows.npz"


@pytest.fixture(name="plain")
def file_without_ids(tmp_path: Path) -> Path:
    """The same rows without ids."""
    np.savez(tmp_path / "plain.npz", x=X, y=Y)
    return tmp_path / "plain.npz"


def table_in(path: Path | None = None, **settings: Any) -> HashTable:
    return HashTable.open(path, HASHER, **settings)


def held(table: HashTable) -> dict[Any, tuple[list[float], Any]]:
    items = table.get(table.ids())
    assert items.features is not None
    pairs = zip(items.features.tolist(), items.labels, strict=True)
    return dict(zip(items.ids.tolist(), pairs, strict=True))


class Interrupted(Exception):
    pass


# ---- ingest


def test_a_file_is_ingested_as_its_batches_would_be(file: Path) -> None:
    steps: list[Progress] = []
    with table_in() as table, table_in() as by_hand:
        tally = table.ingest_files([file], batch=30, refresh=False, progress=steps.append)
        assert tally == Tally(new=100)
        for first in range(0, 100, 30):
            part = slice(first, first + 30)
            by_hand.ingest(IDS[part], X[part], Y[part])
        assert fingerprint(table, X[:5]) == fingerprint(by_hand, X[:5])
        assert held(table) == {IDS[i]: (X[i].tolist(), int(Y[i])) for i in range(100)}
    assert [(step.row, step.read) for step in steps] == [
        (0, 0), (30, 30), (60, 60), (90, 90), (100, 100),
    ]  # fmt: skip
    assert {step.source.name for step in steps if step.source} == {str(file)}


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_interrupted_and_run_again_it_is_the_same_table(file: Path, tmp_path: Path, stop: int) -> None:
    steps: list[Progress] = []

    def interrupt(step: Progress) -> None:
        steps.append(step)
        if len(steps) == stop + 1:  # the first is the start of the file
            raise Interrupted

    with table_in(tmp_path / "whole") as whole:
        whole.ingest_files([file], batch=30)
        with table_in(tmp_path / "t") as table, pytest.raises(Interrupted):
            table.ingest_files([file], batch=30, progress=interrupt)
        with HashTable.open(tmp_path / "t") as table:
            stored = min(100, 30 * stop)
            assert len(table) == stored
            assert table.ingest_files([file], batch=30) == Tally(new=100 - stored, known=stored)
            assert fingerprint(table, X[:5]) == fingerprint(whole, X[:5])
            assert table.ingest_files([file], batch=7) == Tally(known=100)
            assert fingerprint(table, X[:5]) == fingerprint(whole, X[:5])


def test_changed_rows_replace_what_is_stored(file: Path, tmp_path: Path) -> None:
    changed, labels = X.copy(), Y.copy()
    changed[17] += 1
    labels[18] = (labels[18] + 1) % 4
    np.savez(tmp_path / "second.npz", ids=IDS, x=changed, y=labels)
    with table_in() as table:
        table.ingest_files([file])
        assert table.ingest_files([tmp_path / "second.npz"]) == Tally(replaced=2, known=98)
        assert held(table) == {IDS[i]: (changed[i].tolist(), int(labels[i])) for i in range(100)}
        assert table.stats().n_seen == 102


def test_resume_does_not_compare_and_again_learns_once_more(file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "second.npz", ids=IDS, x=X + 1, y=Y)
    with table_in() as table:
        table.ingest_files([file])
        before = fingerprint(table, X[:5])
        assert table.ingest_files([tmp_path / "second.npz"], resume=True) == Tally(known=100)
        assert fingerprint(table, X[:5]) == before
        assert table.ingest_files([file], again=True) == Tally(replaced=100)
        assert table.stats().n_seen == 200
        with pytest.raises(ValueError, match="choose one of them"):
            table.ingest_files([file], resume=True, again=True)
        with pytest.raises(ValueError, match="batch must be at least 1"):
            table.ingest_files([file], batch=0)
        assert table.stats().n_seen == 200


def test_rows_without_ids_are_counted_over_all_files(plain: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "more.npz", x=X[:40] + 1, y=Y[:40])
    with table_in() as table:
        assert table.ingest_files([plain, tmp_path / "more.npz"], batch=30, first_id=5) == Tally(new=140)
        assert table.ids().tolist() == list(range(5, 145))
        assert held(table)[107] == ((X[2] + 1).tolist(), int(Y[2]))
        assert table.ingest_files([plain, tmp_path / "more.npz"], first_id=5) == Tally(known=140)


def test_rows_without_ids_never_overwrite_others(plain: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "more.npz", x=X[:40] + 1, y=Y[:40])
    with table_in() as table:
        table.ingest_files([plain])
        before = fingerprint(table, X[:5])
        with pytest.raises(
            ValueError, match=r"row 0 would be item 0, .* another item with that id"
        ) as refused:
            table.ingest_files([tmp_path / "more.npz"])
        for word in ("id, --id", "first_id, --first-id", "resume, --resume", "again, --again"):
            assert f"({word})" in str(refused.value)
        assert fingerprint(table, X[:5]) == before
        assert table.ingest_files([tmp_path / "more.npz"], resume=True) == Tally(known=40)
        assert table.ingest_files([tmp_path / "more.npz"], first_id=100) == Tally(new=40)
        assert table.ingest_files([tmp_path / "more.npz"], again=True) == Tally(replaced=40)
        assert held(table)[3] == ((X[3] + 1).tolist(), int(Y[3]))


def test_without_features_rows_cannot_be_compared(plain: Path) -> None:
    with table_in(keep_features=False) as table:
        table.ingest_files([plain])
        with pytest.raises(ValueError, match="the table has an item with that id"):
            table.ingest_files([plain])
        assert table.ingest_files([plain], resume=True) == Tally(known=100)


def test_rows_are_stored_without_learning(file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "second.npz", ids=np.char.add(IDS, "!"), x=X, y=Y)
    with table_in() as table:
        table.ingest_files([file])
        W = table.hasher.projection_.tobytes()
        assert table.ingest_files([tmp_path / "second.npz"], learn=False) == Tally(new=100)
        assert table.ingest_files([tmp_path / "second.npz"], learn=False) == Tally(known=100)
        assert table.hasher.projection_.tobytes() == W
        assert table.get(["item 3!"]).labels == [None]


def test_labels_are_stored_without_learning(tmp_path: Path) -> None:
    table = table_in(tmp_path / "t", policy="never")
    table.ingest(range(30), X[:30], Y[:30])
    W, seen = table.hasher.projection_.tobytes(), table.stats().n_seen
    labels = [None if i % 3 == 0 else int(y) for i, y in enumerate(Y[30:60])]
    table.add(range(30, 60), X[30:60], labels)
    for _ in range(2):
        assert table.get(range(30, 60)).labels == labels
        assert table.hasher.projection_.tobytes() == W
        assert table.stats().n_seen == seen
        hits = table.search(X[30:33], 1, include=("labels",))
        assert hits.labels is not None
        table.close()
        table = HashTable.open(tmp_path / "t")
    with pytest.raises(ValueError):
        table.add([100, 101], X[:2], [1])
    assert 100 not in table
    table.close()


def test_the_last_row_of_an_id_stays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X[:6], y=Y[:6], ids=["a", "b", "a", "a", "c", "b"])
    with table_in() as table:
        assert table.ingest_files([tmp_path / "a.npz"]) == Tally(new=3, replaced=3)
        assert held(table) == {one: (X[i].tolist(), int(Y[i])) for one, i in (("a", 3), ("c", 4), ("b", 5))}


def test_columns_and_sources(tmp_path: Path) -> None:
    with (tmp_path / "rows.csv").open("w", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(["key", *(f"f{i}" for i in range(12)), "class", "note"])
        writer.writerows(
            [i, *x, f"class {y}", "-"] for i, (x, y) in enumerate(zip(X.tolist(), Y, strict=True))
        )
    columns: dict[str, Any] = {"id": "key", "label": "class", "features": "f*"}
    wanted = {i: (X[i].tolist(), f"class {Y[i]}") for i in range(100)}
    with table_in() as table:
        table.ingest_files([str(tmp_path / "rows.csv")], **columns)
        assert held(table) == wanted
    with table_in() as table:
        work = FileIngest(table, batch=40)
        assert [step.row for step in work.run([open_rows(tmp_path / "rows.csv", **columns)])] == [
            0,
            40,
            80,
            100,
        ]
        assert work.tally == Tally(new=100)
        assert work.tally.rows == 100
        assert held(table) == wanted


def test_features_are_read_in_the_tables_precision(tmp_path: Path) -> None:
    np.savez(tmp_path / "doubles.npz", x=X.astype(np.float64) / 3, y=Y)
    with table_in() as table:
        table.ingest_files([tmp_path / "doubles.npz"], dtype=np.float64)
        assert held(table)[7][0] == (X[7].astype(np.float64) / 3).tolist()
        assert table.ingest_files([tmp_path / "doubles.npz"]) == Tally(known=100)


def test_files_that_are_refused(file: Path, tmp_path: Path) -> None:
    bad = X.copy()
    bad[77, 5] = np.nan
    np.savez(tmp_path / "bad.npz", ids=np.arange(100), x=bad, y=Y)
    (tmp_path / "empty.csv").write_text(f"id,{','.join(f'f{i}' for i in range(12))},label\n")
    with table_in() as table:
        with pytest.raises(ValueError, match=r"bad.npz: feature 5 of row 77 is nan: features must be finite"):
            table.ingest_files([tmp_path / "bad.npz"], batch=25)
        assert table.ids().tolist() == list(range(75))  # whole batches
        for name, says in (("empty.csv", "empty.csv has no rows"), ("none.npz", "there is no file")):
            with pytest.raises(DatasetError, match=says):
                table.ingest_files([tmp_path / name])
        with pytest.raises(ValueError, match="ids"):
            table.ingest_files([file])  # strings, and the table has numbers
        assert len(table) == 75


# ---- fields and payloads

FIELDS = {"tenant": "str", "count": "int", "taken": "datetime", "tags": "list", "new": "bool"}
MOMENT = datetime(2024, 5, 31, 12, tzinfo=UTC)


def test_arrays_of_an_npz_file_are_fields_and_payload(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    prices = np.where(np.arange(100) % 3, np.arange(100.0), np.nan)
    moments = np.full(100, np.datetime64("2024-05-31T12:00"))
    np.savez(path, ids=IDS, x=X, y=Y, tenant=["a", ""] * 50, count=np.arange(100), taken=moments,
             tags=[["a", "b"], ["c", ""]] * 50, new=[True, False] * 50, price=prices, classes=["x"])  # fmt: skip
    with table_in(fields=FIELDS) as table:
        assert table.ingest_files([path], payload="*") == Tally(new=100)
        items = table.get(["item 1", "item 3"])
        assert items.fields == {
            "tenant": [None, None], "count": [1, 3], "taken": [MOMENT.replace(tzinfo=None)] * 2,
            "tags": [["c"], ["c"]], "new": [False, False],
        }  # fmt: skip
        assert items.payloads == [{"price": 1.0}, None]
        assert table.ingest_files([path], payload="*") == Tally(known=100)
        assert table.ingest_files([path]) == Tally(replaced=66, known=34)  # those that had a payload
        with pytest.raises(DatasetError, match=r"has 100 rows, but classes \(--payload\) has shape \(1,\)"):
            table.ingest_files([path], payload=["classes"])
        np.savez(path, ids=IDS, x=X, tenant=np.arange(100))
        with pytest.raises(ValueError, match=r"rows.npz, row 0: field 'tenant' is 0, but it is of type str"):
            table.ingest_files([path])
        np.savez(path, ids=IDS, x=X, price=[np.inf] * 100)
        with pytest.raises(DatasetError, match="price is infinite in row 0, which a payload cannot hold"):
            table.ingest_files([path], payload=["price"])


@pytest.mark.parametrize(
    ("name", "cells", "values"),
    [
        ("count", ["3", "-4.0", "", "+5", " 6 "], [3, -4, None, 5, 6]),
        ("new", ["true", "NO", "1", "0", ""], [True, False, True, False, None]),
        ("taken", ["2024-05-31T12:00:00Z", "2024-05-31T14:00:00+02:00", "", "2024-05-31", "20240531"],
         [MOMENT, MOMENT, None, datetime(2024, 5, 31), datetime(2024, 5, 31)]),
        ("tags", ["a|b; c", '["a|b"]', "", "[]", "a"], [["a", "b", "c"], ["a|b"], None, [], ["a"]]),
        ("tenant", ["a", "7", "", " b ", "nan"], ["a", "7", None, " b ", "nan"]),
    ],
)  # fmt: skip
def test_text_is_parsed_by_the_type_of_its_field(
    tmp_path: Path, name: str, cells: list[str], values: list[Any]
) -> None:
    path = tmp_path / "rows.tsv"
    with path.open("w", newline="") as text:
        writer = csv.writer(text, delimiter="\t")
        writer.writerow(["id", name, *(f"f{i}" for i in range(12))])
        writer.writerows([i, cell, *X[i].tolist()] for i, cell in enumerate(cells))
    with table_in(fields=FIELDS) as table:
        table.ingest_files([path])
        assert table.get(range(5)).fields[name] == values
        assert table.ingest_files([path]) == Tally(known=5)


@pytest.mark.parametrize(
    ("name", "cell"),
    [("count", "3.5"), ("count", "1_000"), ("count", "9" * 19), ("new", "2"), ("taken", "soon"), ("tags", "[1]"),
     ("tags", "[")],
)  # fmt: skip
def test_text_that_is_no_value_is_named(tmp_path: Path, name: str, cell: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"id,{name},f0\n0,,1\n1,{cell},2\n")
    with table_in(fields=FIELDS) as table:
        with pytest.raises(ValueError, match=r"rows\.csv, line 3: field ") as refused:
            table.ingest_files([path])
        assert f"field '{name}' is " in str(refused.value)
        assert not len(table)


def test_fields_are_no_features_unless_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,f0,f1,count,y\n0,1,2,3,4\n1,5,6,7,8\n")
    with table_in(fields={"count": int, "y": float}) as table:
        table.ingest_files([path])
        assert held(table) == {0: ([1, 2], None), 1: ([5, 6], None)}
        assert table.get([0, 1]).fields == {"count": [3, 7], "y": [4.0, 8.0]}
    with table_in(fields={"count": int, "y": float}) as table:
        table.ingest_files([path], features="f*,count", label="y", payload=["id"])
        assert held(table) == {0: ([1, 2, 3], 4), 1: ([5, 6, 7], 8)}
        assert table.get([0, 1]).fields == {"count": [3, 7], "y": [4.0, 8.0]}
        assert table.get([0]).payloads == [{"id": "0"}]


def test_rows_without_labels_keep_the_labels_that_came_later(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=X)
    with table_in() as table:
        assert table.ingest_files([tmp_path / "rows.npz"]) == Tally(new=100)
        assert table.label([3, 4], Y[3:5]) == 2
        assert table.ingest_files([tmp_path / "rows.npz"]) == Tally(known=100)
        assert table.get([3, 4]).labels == Y[3:5].tolist()


def test_answers_with_fields_and_payloads(tmp_path: Path) -> None:
    with table_in(fields={"rank": int, "taken": "datetime", "tags": list}) as table:
        fields = {
            "rank": [7, None] * 50,
            "taken": [MOMENT] * 100,
            "tags": [["a"], None] * 50,
        }
        table.ingest(range(100), X, Y, fields=fields, payloads=[{"n": i} for i in range(100)])
        found = [table.search(X[part], 3, include=("fields", "payloads")) for part in (slice(2), slice(2, 4))]
    parts = [Answers.of(np.arange(2), found[0]), Answers.of(np.arange(2, 4), found[1])]
    answers = Answers.joined(parts)
    ids = answers.ids.tolist()
    records = list(answers.records())
    assert json.loads(json.dumps(records)) == records
    assert [one for record in records for one in record["payloads"]] == [{"n": i} for i in ids]
    assert records[0]["fields"]["taken"] == [MOMENT.isoformat()] * 3
    answers.save(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert list(rows[0]) == [
        *["query", "rank", "id", "distance", "label", "field.rank", "taken", "tags", "payload"]
    ]
    assert [row["tags"] for row in rows] == ['["a"]' if i % 2 == 0 else "" for i in ids]
    answers.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        wanted = [[7.0 if i % 2 == 0 else None for i in ids[row : row + 3]] for row in range(0, 12, 3)]
        np.testing.assert_array_equal(arrays["rank"], np.array(wanted, float))
        assert arrays["payloads"].ravel().tolist() == [json.dumps({"n": i}) for i in ids]


# ---- ids as text


def test_ids_that_texts_stand_for(tmp_path: Path) -> None:
    with table_in() as numbers, table_in() as words:
        numbers.ingest([-3, 0, 7, 12], X[:4], Y[:4])
        words.ingest(["7", "a b", "-3"], X[:3], Y[:3])
        assert find_ids(numbers, ["12", "-3", "07", "7"]).tolist() == [12, -3, 7]
        assert find_ids(words, ["7", "a b"]).tolist() == ["7", "a b"]
        odd = ["²", "--3", "", "9" * 5000, "x"]
        assert find_ids(numbers, [*odd, "7"], missing_ok=True).tolist() == [7]
        with pytest.raises(KeyError, match="not in the table: 5, x"):
            find_ids(numbers, ["7", "5", "x"])
        with pytest.raises(KeyError, match="10 and 5 more"):
            find_ids(words, [str(i) for i in range(16)])
        numbers.remove(find_ids(numbers, ["nothing"], missing_ok=True))
        assert len(numbers) == 4


def test_ids_in_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.array([3, -4]))
    np.save(tmp_path / "words.npy", np.array(["a b", "c"]))
    np.save(tmp_path / "rows.npy", X)
    (tmp_path / "ids.txt").write_text("3\n\n  a b \n", encoding="utf-8")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "ids.npz").write_bytes(b"")
    assert read_ids(tmp_path / "numbers.npy") == ["3", "-4"]
    assert read_ids(tmp_path / "words.npy") == ["a b", "c"]
    assert read_ids(tmp_path / "ids.txt") == ["3", "a b"]
    for name, says in (("rows.npy", r"shape \(100, 12\)"), ("bytes.txt", "not a valid text file in UTF-8"),
                       ("ids.npz", "ends in .npz"), ("none.txt", "there is no file")):  # fmt: skip
        with pytest.raises(DatasetError, match=says):
            read_ids(tmp_path / name)


# ---- answers


def answers_of(table: HashTable, *, radius: int | None = None) -> Answers:
    """Answers to the first 20 rows, asked in two parts, by queries that have words as ids."""
    names = IDS[:20].astype(object)
    found: list[SearchResult | RadiusResult] = []
    for part in (slice(0, 15), slice(15, 20)):
        if radius is None:
            found.append(table.search(X[part], 4, include=("labels",)))
        else:
            found.append(table.search_radius(X[part], radius, include=("labels",)))
    return Answers.joined([Answers.of(names[:15], found[0]), Answers.of(names[15:], found[1])])


def test_answers_as_records_and_files(file: Path, tmp_path: Path) -> None:
    with table_in() as table:
        table.ingest_files([file])
        distances, ids = table.search(X[:20], 4)
        answers = answers_of(table)
        labels = [table.get(some).labels for some in ids]
    records = list(answers.records())
    assert len(answers) == 20
    assert records == [
        {
            "query": f"item {i}",
            "ids": ids[i].tolist(),
            "distances": distances[i].tolist(),
            "labels": labels[i],
        }
        for i in range(20)
    ]
    assert json.loads(json.dumps(records)) == records
    hits = sum(label == Y[i] for i in range(20) for label in labels[i])
    assert answers.sharing(Y[:20]) == (hits, 80)
    assert answers.sharing(np.where(np.arange(20) < 10, Y[:20], np.nan))[1] == 40
    answers.save(tmp_path / "new" / "answers.csv")
    with (tmp_path / "new" / "answers.csv").open() as text:
        lines = list(csv.DictReader(text))
    assert [line["id"] for line in lines] == ids.ravel().tolist()
    assert [int(line["rank"]) for line in lines] == [1, 2, 3, 4] * 20
    assert [int(line["label"]) for line in lines] == [label for some in labels for label in some]
    answers.save(tmp_path / "answers.npz")
    with np.load(tmp_path / "answers.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"queries", "ids", "distances", "labels"}
        assert arrays["ids"].tolist() == ids.tolist()
        assert arrays["labels"].tolist() == labels
    with pytest.raises(ValueError, match=r"ends in \.txt"):
        answers.save(tmp_path / "answers.txt")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["answers.csv"]


def test_answers_within_a_radius(file: Path, tmp_path: Path) -> None:
    with table_in() as table:
        table.ingest_files([file])
        offsets, distances, ids = table.search_radius(X[:20], 2)
        answers = answers_of(table, radius=2)
    assert answers.offsets.tolist() == offsets.tolist()
    assert answers.per_query is None
    answers.save(tmp_path / "near.npz")
    with np.load(tmp_path / "near.npz", allow_pickle=False) as arrays:
        assert arrays["offsets"].tolist() == offsets.tolist()
        assert arrays["ids"].tolist() == ids.tolist()
        assert arrays["distances"].tolist() == distances.tolist()


def test_answers_with_a_matrix_of_labels_and_with_missing_ones(tmp_path: Path) -> None:
    Z = np.stack([Y % 2, Y < 2, Y == 0], axis=1).astype(int)
    with table_in() as table:
        table.ingest(range(100), X, Z)
        found = table.search(X[:5], 3, include=("labels",))
    answers = Answers.of(np.arange(5), found)
    assert answers.labels == Z[found.ids.ravel()].tolist()
    assert answers.sharing(Z[:5])[0] == (Z[found.ids] * Z[:5, None]).any(axis=2).sum()
    answers.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["labels"].shape == (5, 3, 3)
    with table_in() as table:
        table.ingest(range(100), X, [None if i % 2 else int(y) for i, y in enumerate(Y)])
        answers = Answers.of(np.arange(5), table.search(X[:5], 30, include=("labels",)))
    assert None in answers.labels
    answers.save(tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as arrays:
        assert set(arrays) == {"queries", "ids", "distances"}
