"""`hashstream table` with fields, payloads, filters and feedback."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli_table.commands import SMALL, X, Y, in_an_empty_folder, table  # noqa: F401 (fixtures)
from typer.testing import CliRunner

from hashstream import cli
from hashstream.table import HashTable

N = 200
TENANT = ["ab"[i % 2] for i in range(N)]
PRICE = [i / 10 if i % 7 else None for i in range(N)]
TAGS = [[["red", "blue"], ["a;b"], [], None][i % 4] for i in range(N)]
TAKEN = [datetime(2024, 1, 1 + i % 28, 12, tzinfo=UTC) if i % 5 else None for i in range(N)]
SOLD = [[True, False, None][i % 3] for i in range(N)]
TITLE = [f"title {i}" if i % 3 else None for i in range(N)]
FIELDS = {"tenant": "str", "price": "float", "tags": "list", "taken": "datetime", "sold": "bool"}
VALUES: dict[str, list[Any]] = {"tenant": TENANT, "price": PRICE, "tags": TAGS, "taken": TAKEN, "sold": SOLD}


def cell(name: str, value: Any) -> Any:
    if value is None:
        return ""
    if name == "tags":
        return json.dumps(value) if value != ["red", "blue"] else "red | blue"
    if name == "sold":
        return "Yes" if value else "0"
    return value.isoformat().replace("+00:00", "Z") if name == "taken" else value


def write(kind: str) -> list[str]:
    """Rows with fields and a title in a file; what to ingest."""
    ids = [f"item {i}" for i in range(N)]
    if kind == "csv":
        with open("rows.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *FIELDS, "title", *(f"f{i}" for i in range(64)), "label"])
            for i in range(N):
                values = [cell(name, VALUES[name][i]) for name in FIELDS]
                writer.writerow([ids[i], *values, TITLE[i] or "", *X[i], Y[i]])
        return ["rows.csv", "--payload", "title"]
    columns = {"id": ids, "label": Y[:N], "x": list(X[:N]), **VALUES, "title": TITLE}
    pq.write_table(pa.table(columns), "rows.parquet")
    return ["rows.parquet", "--payload", "*"]


def declared() -> list[str]:
    return [word for name, kind in FIELDS.items() for word in ("--field", f"{name}:{kind}")]


@pytest.fixture(name="shop")
def table_with_fields() -> list[str]:
    """A table of all rows; what was ingested."""
    files = write("csv")
    table("create", "t", *SMALL, *declared())
    table("ingest", "t", *files)
    return files


def output(*arguments: Any) -> str:
    result = CliRunner().invoke(cli.app, ["table", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


# ---- files


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_are_stored_as_fields_and_payload(kind: str) -> None:
    files = write(kind)
    table("create", "t", *SMALL, "--field", "tenant:str")
    assert "200 new" in table("ingest", "t", *files, *declared())
    with HashTable.open("t", mode="read") as opened:
        assert opened.fields == FIELDS
        held = opened.get([f"item {i}" for i in range(N)])
        assert held.fields == VALUES
        assert held.payloads == [None if title is None else {"title": title} for title in TITLE]
        assert opened.hasher.n_features_in_ == 64
    assert "200 already stored" in table("ingest", "t", *files)


def test_changed_fields_and_payloads_replace_what_is_stored(shop: list[str]) -> None:
    text = Path("rows.csv").read_text()
    Path("rows.csv").write_text(
        text.replace("title 4,", "another title,").replace("item 9,b,0.9,", "item 9,b,9,")
    )
    assert "0 new, 2 replaced, 198 already stored" in table("ingest", "t", *shop)
    with HashTable.open("t", mode="read") as opened:
        held = opened.get(["item 4", "item 9"], features=False)
    assert (held.payloads[0], held.fields["price"][1]) == ({"title": "another title"}, 9.0)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("item 2,a,0.2,", "item 2,a,cheap,", "line 4: field 'price' is 'cheap', but it is of type float"),
        (",Yes,", ",perhaps,", "line 2: field 'sold' is 'perhaps', but it is of type bool, which takes true, false"),
        ("2024-01-03", "2024-13-03", "line 4: field 'taken' is '2024-13-03T12:00:00Z', but it is of type datetime"),
        ('"[""a;b""]"', "[1]", "line 3: field 'tags' is '[1]', but it is of type list"),
    ],
)  # fmt: skip
def test_cells_that_are_no_values_are_named(old: str, new: str, says: str) -> None:
    files = write("csv")
    Path("rows.csv").write_text(Path("rows.csv").read_text().replace(old, new, 1))
    table("create", "t", *declared())
    said = table("ingest", "t", *files, code=2)
    assert f"rows.csv, {says}" in said
    assert "Stopped before the first row" in said


def test_fields_that_cannot_be_declared() -> None:
    assert "field 'a' is of type 'text'; types are str, int, float" in table(
        "create", "t", "--field", "a:text", code=2
    )
    assert "field 'a' has no type: write a:TYPE; types are str" in table(
        "create", "t", "--field", "a", code=2
    )
    files = write("csv")
    table("create", "t", "--field", "tenant:str")
    assert "no file has a column 'tenat'" in table("ingest", "t", *files, "--field", "tenat:str", code=2)
    said = table("ingest", "t", *files, "--field", "tenant:int", code=2)
    assert "field 'tenant' is of type str, and cannot be declared as int" in said
    assert "fields tenant (str)" in table("stats", "t")
    said = table("ingest", "t", "rows.csv", code=2)
    assert "is not a feature, name the features with --features, or store it as a field (--field)" in said
    assert "no column 'subtitle' (--payload)" in table(
        "ingest", "t", "rows.csv", "--payload", "subtitle", code=2
    )
    assert "name the features with --features" in table("ingest", "t", "rows.csv", "--payload", "*", code=2)
    np.save("rows.npy", X)
    assert "--payload does not apply" in table("ingest", "t", "rows.npy", "--payload", "a", code=2)


def test_rows_without_labels_and_feedback() -> None:
    np.save("rows.npy", X[:N])
    table("create", "t", *SMALL)
    said = table("ingest", "t", "rows.npy")
    assert "200 new" in said
    assert "None of these rows has a label (--label), so nothing was learned from them." in said
    assert "2 items have a new label." in table("label", "t", "3=3", "4=4")
    assert "0 items have a new label; 1 had it already." in table("label", "t", "3=3")
    with open("labels.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["label", "id", "by"], *([y, i, "me"] for i, y in enumerate(Y[:N])), ["", 5, ""]]
        )
    assert "198 items have a new label; 2 had it already" in table("label", "t", "--file", "labels.csv")
    with HashTable.open("t", mode="read") as opened:
        assert opened.get(range(N)).labels == Y[:N].tolist()
        assert opened.stats().n_seen == N
    assert "200 already stored" in table("ingest", "t", "rows.npy")  # the labels stay
    assert table("count", "t", "--where", '{"label": {"$exists": true}}') == "200"
    for arguments, says in (
        (["999=1"], "not in the table: 999. Nothing was labelled"),
        (["3"], "'3' is not an id and a label: write ID=LABEL"),
        (["3=cat"], "the label of item 3 is 'cat', but the labels of this table are numbers"),
        (["3=1", "3=2"], "item 3 has two labels"),
        ([], "give labels: ID=LABEL, or --file FILE"),
        (["--file", "none.csv"], "there is no file none.csv"),
        (["--file", "rows.npy"], "labels are read from .csv or .tsv"),
    ):
        assert says in table("label", "t", *arguments, code=2)


def test_labels_are_text_where_those_of_the_table_are() -> None:
    np.savez("rows.npz", x=X[:20], y=[str(y) for y in Y[:20]])
    table("create", "t", *SMALL)
    table("ingest", "t", "rows.npz", "--text")
    table("label", "t", "3=7")
    assert json.loads(output("show", "t", 3, "--json"))["label"] == "7"


# ---- searching


def test_search_with_a_filter_and_all_options(shop: list[str]) -> None:
    np.save("queries.npy", X[300:303])
    where = {"tenant": "a", "price": {"$lt": 10}}
    said = output(
        "search", "t", "queries.npy", "-k", 3, "--where", json.dumps(where), "--rescore", 50, "--metric", "euclidean",
        "--compare", "like", "--offset", 2, "--include", "fields,payloads", "--json",
    )  # fmt: skip
    with HashTable.open("t", mode="read") as opened:
        found = opened.search(
            X[300:303], 3, where=where, rescore=50, metric="euclidean", compare="like", offset=2,
            include=("fields", "payloads"),
        )  # fmt: skip
        n = opened.count(where)
    records = [json.loads(line) for line in said.splitlines()]
    assert [one["ids"] for one in records] == found.ids.tolist()
    assert found.fields is not None
    assert found.payloads is not None
    assert [one["fields"]["price"] for one in records] == found.fields["price"].tolist()
    assert [one["payloads"] for one in records] == found.payloads.tolist()
    assert {name for one in records for name in one["fields"]["tenant"]} == {"a"}
    page = table("search", "t", "queries.npy", "-k", 3, "--where", json.dumps(where), "--include", "fields")
    assert f"3 queries against {n} of 200 items" in page
    assert "query 0 id distance label tenant price tags taken sold" in page
    page = table(
        "search", "t", "queries.npy", "--first", 1, "--include", "fields", "--where", '{"tenant": "c"}'
    )
    assert "query 0: nothing found" in page
    table("search", "t", "queries.npy", "--radius", 9, "--where", json.dumps(where), "--include", "payloads")


def test_answers_as_files(shop: list[str]) -> None:
    def search(out: str) -> None:
        table("search", "t", "rows.csv", "--features", "f*", "--first", 9, "-k", 4, "--include", "fields,payloads",
              "--out", out)  # fmt: skip

    search("answers.csv")
    with open("answers.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["query", "rank", "id", "distance", "label", *FIELDS, "payload"]
    for row in rows:
        i = int(row["id"].removeprefix("item "))
        assert row["tenant"] == TENANT[i]
        assert row["tags"] == ("" if TAGS[i] is None else json.dumps(TAGS[i]))
        assert row["sold"] == {True: "true", False: "false", None: ""}[SOLD[i]]
        assert row["payload"] == ("" if TITLE[i] is None else json.dumps({"title": TITLE[i]}))
    search("answers.npz")
    with np.load("answers.npz", allow_pickle=False) as arrays:
        assert arrays["tenant"].shape == (9, 4)
        assert arrays["price"].dtype == float
        assert arrays["payloads"].ravel().tolist() == [row["payload"] for row in rows]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--where", "{tenant: a}"], """is not JSON (Expecting property name enclosed in double quotes"""),
        (
            ["--where", '"a"'],
            """is not a JSON object. Write it as --where '{"tenant": "a", "price": {"$lt": 10}}'""",
        ),
        (["--where", '{"tenat": "a"}'], "did you mean 'tenant'?"),
        (["--where", '{"price": "a"}'], "field 'price' holds a number, not 'a'"),
        (["--metric", "dot"], "--metric dot is for --rescore N"),
        (["--radius", "3", "--offset", "1"], "do not go with --radius"),
        (["--include", "features"], "--include features: choose from fields and payloads"),
    ],
)
def test_options_that_do_not_fit(shop: list[str], options: list[str], says: str) -> None:
    assert says in table("search", "t", "--like", "item 3", *options, code=2)


# ---- items


def test_items_by_a_filter(shop: list[str]) -> None:
    where = '{"tenant": "a", "sold": true}'
    wanted = [f"item {i}" for i in range(N) if TENANT[i] == "a" and SOLD[i]]
    assert output("count", "t") == "200\n"
    assert output("count", "t", "--where", where) == f"{len(wanted)}\n"
    assert output("ids", "t", "--where", where).splitlines() == wanted
    assert output("ids", "t", "--where", where, "--offset", 2, "--limit", 3).splitlines() == wanted[2:5]
    assert "is not JSON" in table("count", "t", "--where", "{", code=2)


def test_show(shop: list[str]) -> None:
    item = json.loads(output("show", "t", "item 4", "--features", "--json"))
    assert item.pop("version") > 0
    assert item == {
        "id": "item 4",
        "label": int(Y[4]),
        "fields": {"tenant": "a", "price": 0.4, "tags": ["red", "blue"], "taken": "2024-01-05T12:00:00+00:00",
                   "sold": False},
        "payload": {"title": "title 4"},
        "features": X[4].tolist(),
    }  # fmt: skip
    page = table("show", "t", "item 4", "item 7")
    assert 'tenant a price 0.4 tags ["red", "blue"] taken 2024-01-05T12:00:00+00:00 sold false' in page
    assert "payload.title title 4 id item 7" in page
    assert "not in the table: x" in table("show", "t", "x", code=2)


def test_remove_by_a_filter_asks(shop: list[str]) -> None:
    command = ["table", "remove", "t", "--where", '{"tenant": "a"}']
    refused = CliRunner().invoke(cli.app, command, input="n\n")
    assert refused.exit_code == 1
    assert "100 of 200 items match. Remove them for good?" in refused.output
    assert CliRunner().invoke(cli.app, command).exit_code == 1  # nobody is there to answer
    assert output("count", "t") == "200\n"
    assert "100 items removed, 100 left." in CliRunner().invoke(cli.app, command, input="y\n").output
    assert "0 items removed, 100 left." in table("remove", "t", "--where", '{"tenant": "a"}')
    assert "give ids or --where, not both" in table("remove", "t", "item 1", "--where", "{}", code=2)
    assert "an empty filter would remove every item" in table("remove", "t", "--where", "{}", "--yes", code=2)
    every = '{"id": {"$exists": true}}'
    assert "100 items removed, 0 left." in table("remove", "t", "--where", every, "--yes")


def test_stats_tell_fields_and_the_comparison(shop: list[str]) -> None:
    page = table("stats", "t")
    assert "fields tenant (str), price (float), tags (list), taken (datetime), sold (bool)" in page
    assert "compared like with like (not measured yet: that needs codes of several versions)" in page
    facts = json.loads(output("stats", "t", "--json"))
    assert facts["fields"] == FIELDS
    assert facts["comparison"]["choice"] == "like"
    assert "not measured yet" in facts["comparison"]["reason"]


@pytest.mark.parametrize("command", ["count", "ids", "label", "show", "remove", "search", "ingest", "create"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: hashstream table {command} " in table(command, "--help").replace("`", "")
