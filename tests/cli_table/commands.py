"""`hashstream table` as a test calls it, where, files to give to it, and what is in the table then.

Fixtures are imported from here: `conftest.py` can be there only once where doctests are collected, too.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from hashstream import cli
from hashstream.table import HashTable

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)

SMALL = ("--bits", 16, "--set", "width=16", "--set", "sample_size=100")
"""Options of `create` for a PosteriorHash that learns fast, where the method and its codes are not what is tested."""


def table(*arguments: Any, code: int = 0) -> str:
    """What `hashstream table` says, as one line of words."""
    result = CliRunner().invoke(cli.app, ["table", *(str(argument) for argument in arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    said = result.stderr if code else result.output
    return " ".join(said.split())


def items(path: str | Path = "t") -> dict[Any, tuple[list[float], Any]]:
    """Everything that is in a table: id -> features, label."""
    with HashTable.open(path, mode="read") as opened:
        ids = opened.search(np.zeros((1, opened.hasher.n_features_in_)), k=1 << 20).ids[0]
        held = opened.get(ids)
        assert held.features is not None
        return {
            one: (x, label)
            for one, x, label in zip(ids.tolist(), held.features.tolist(), held.labels, strict=True)
        }


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


@pytest.fixture(autouse=True, name="here")
def in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty current folder, no data folder, and room to print."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HASHSTREAM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


_made: dict[str, Path] = {}  # folders that are copied for each test


@pytest.fixture(name="digits")
def table_of_digits(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with the first 1,000 digits, ids 0 to 999, encoded by four versions. Made once by each process."""
    np.savez(here / "first.npz", x=X[:1000], y=Y[:1000])
    if "digits" not in _made:
        table("create", "t", "--bits", 32)
        table("ingest", "t", "first.npz", "--batch", 300, "--no-refresh")
        _made["digits"] = tmp_path_factory.mktemp("made") / "digits"
        shutil.copytree(here / "t", _made["digits"])
    else:
        shutil.copytree(_made["digits"], here / "t")
    return here / "t"
