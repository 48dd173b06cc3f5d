"""`hashstream table` with files in which some labels are empty."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli_table.commands import SMALL, X, Y, in_an_empty_folder, items, table  # noqa: F401 (fixtures)

import hashstream as hs
from hashstream.table import HashTable

N = 300
KEPT = np.arange(N) % 4 != 1
WORDS = {True: [f"class {y}" for y in Y[:N]], False: [int(y) for y in Y[:N]]}


def write(kind: str, words: bool, rows: slice = slice(0, N)) -> str:
    labels: list[Any] = [label if kept else None for label, kept in zip(WORDS[words], KEPT, strict=True)][
        rows
    ]
    features, ids, name = X[:N][rows], list(range(N))[rows], f"rows.{kind}"
    if kind == "csv":
        with open(name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *(f"p{i}" for i in range(64)), "label"])
            for one, x, label in zip(ids, features.tolist(), labels, strict=True):
                writer.writerow([one, *x, "" if label is None else label])
    elif kind == "parquet":
        pq.write_table(pa.table({"id": ids, "label": labels, "x": list(features)}), name)
    else:
        missing: Any = "" if words else np.nan
        np.savez(name, ids=ids, x=features, y=np.array([missing if one is None else one for one in labels]))
    return name


@pytest.mark.thinned("values")
@pytest.mark.parametrize("words", [True, False], ids=["words", "numbers"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_rows_without_a_label_are_stored_and_searched(kind: str, words: bool) -> None:
    file = write(kind, words)
    table("create", "t", *SMALL)
    assert "300 rows in" in table("ingest", "t", file, "--batch", 100)
    wanted = [label if kept else None for label, kept in zip(WORDS[words], KEPT, strict=True)]
    held = items()
    assert [held[i][1] for i in range(N)] == wanted
    with HashTable.open("t", mode="read") as opened:
        assert opened.hasher.n_seen_ == KEPT.sum()
        assert isinstance(opened.hasher, hs.PosteriorHash)
        _, ids = opened.search(X[:40], 5)
    assert "300 already stored" in table("ingest", "t", file)
    queries = write(kind, words, slice(0, 40))
    said = table("search", "t", queries, "-k", 5)
    labels = np.array([-1 if label is None else y for label, y in zip(wanted, Y, strict=False)])
    asked = KEPT[:40]
    hits = (labels[ids[asked]] == Y[:40][asked][:, None]).mean()
    assert (
        f"{hits:.1%} of the {5 * asked.sum()} answers to queries with a label share the query's label" in said
    )
    assert "40 queries against 300 items" in table(
        "search", "t", "--like", ",".join(map(str, range(40))), "-k", 5
    )
    table("search", "t", queries, "--json")
    table("search", "t", queries, "--out", "answers.csv")
    table("search", "t", queries, "--out", "answers.npz")


def test_queries_without_any_label() -> None:
    table("create", "t", *SMALL)
    table("ingest", "t", write("csv", True))
    np.savez("queries.npz", x=X[:5], y=np.full(5, np.nan))
    said = table("search", "t", "queries.npz")
    assert "5 queries against 300 items" in said
    assert "share" not in said


def test_a_batch_without_any_label() -> None:
    np.savez("none.npz", x=X[:50], y=np.full(50, np.nan), ids=np.arange(1000, 1050))
    table("create", "t", *SMALL)
    assert "50 rows in" in table("ingest", "t", "none.npz")
    table("ingest", "t", write("csv", False))
    assert "50 rows in" in table("ingest", "t", "none.npz")
    held = items()
    assert [held[i][1] for i in range(1000, 1050)] == [None] * 50


def test_a_matrix_with_empty_cells() -> None:
    with open("rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"p{i}" for i in range(64)), "is_even", "is_small"])
        for i, x in enumerate(X[:60].tolist()):
            writer.writerow([*x, int(Y[i] % 2 == 0), "" if i % 3 == 0 else int(Y[i] < 5)])
    options = ["rows.csv", "--label", "is_*"]
    table("create", "t", *SMALL)
    table("ingest", "t", *options)
    held = items()
    assert [held[i][1] is None for i in range(60)] == [i % 3 == 0 for i in range(60)]
    assert "60 already stored" in table("ingest", "t", *options)
    assert "answers to queries with a label" in table("search", "t", *options)
    assert "3 queries" in table("search", "t", "--like", "0,1,2")


def test_the_help_says_so() -> None:
    assert "a row without a label" in table("ingest", "--help").replace("│", "").replace("  ", " ")
    assert "Rows without a label are stored, and not learned from" in table("ingest", "--help")
    assert "Queries whose label is empty are searched like the others" in table("search", "--help")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.parquet"])
def test_a_damaged_file_is_a_sentence(name: str) -> None:
    """Exit code and a sentence, before and after the table has learned."""
    table("create", "t", *SMALL)
    for junk in (
        b"",
        b"\x93NUMPY\1\0",
        b"PK\3\4" + bytes(50),
        b"PAR1" + bytes(30) + b"PAR1",
        b"\xff\xfe" * 40,
    ):
        with open(name, "wb") as file:
            file.write(junk)
        assert name in table("ingest", "t", name, code=2)
