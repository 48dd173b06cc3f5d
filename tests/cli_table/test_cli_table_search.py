"""`hashstream table search`: the answers of the table itself, on the screen and in files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from tests.cli_table.commands import SMALL, X, Y, in_an_empty_folder, table, table_of_digits, written  # noqa: F401 (fixtures)
from typer.testing import CliRunner

from hashstream import cli
from hashstream.table import HashTable


def test_answers_are_the_tables_own(digits: Path) -> None:
    np.savez("queries.npz", x=X[1000:1100], y=Y[1000:1100])
    with HashTable.open("t", mode="read") as opened:
        far, ids = opened.search(X[1000:1100], 7)
        soft_far, soft_ids = opened.search(X[1000:1100], 7, asymmetric=True)
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
    assert "... and 80 more queries" in said

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
    table("create", "t", *SMALL)
    table("ingest", "t", *written("parquet"))
    np.savez("queries.npz", x=X[1000:1030], ids=[f"ask {i}" for i in range(30)])
    result = CliRunner().invoke(
        cli.app, ["table", "search", "t", "queries.npz", "--first", "3", "-k", "2", "--json"]
    )
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    with HashTable.open("t", mode="read") as opened:
        far, ids = opened.search(X[1000:1003], 2)
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
    with HashTable.open("t", mode="read") as opened:
        far, ids = opened.search(X[17:19], 3)
    assert far[:, 0].tolist() == [0, 0]
    for query, near in zip((17, 18), ids.tolist(), strict=True):
        assert f"query {query} id {near[0]} {near[1]} {near[2]} distance 0 " in said
    assert "not in the table: 5000" in table("search", "t", "--like", "17,5000", code=2)
    assert "not in the table: x" in table("search", "t", "--like", "x", code=2)
    assert "give what to search for" in table("search", "t", code=2)
    assert "give what to search for" in table("search", "t", "first.npz", "--like", 3, code=2)
    assert "--radius counts bits" in table("search", "t", "first.npz", "--radius", 2, "--asymmetric", code=2)
    assert "it must be .csv or .npz" in table("search", "t", "first.npz", "--out", "a.txt", code=2)


def test_labels_of_several_columns() -> None:
    """Multi-label: a 0/1 matrix in and out."""
    Z = np.stack([Y % 2, Y < 5, Y == 0], axis=1).astype(int)
    np.savez("rows.npz", x=X[:400], y=Z[:400])
    table("create", "t", *SMALL)
    table("ingest", "t", "rows.npz", "--batch", 200)
    assert "400 already stored" in table("ingest", "t", "rows.npz", "--batch", 200)
    table("search", "t", "rows.npz", "--first", 4, "-k", 2, "--out", "answers.npz")
    with np.load("answers.npz") as answers:
        assert answers["labels"].shape == (4, 2, 3)
        assert answers["labels"].tolist() == Z[answers["ids"]].tolist()
    assert "answers share the query's label" in table("search", "t", "rows.npz", "--first", 4, "-k", 2)
