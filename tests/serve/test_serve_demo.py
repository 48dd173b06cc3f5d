"""The table that `make serve` shows."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hashstream import datasets
from hashstream.serve import demo
from hashstream.serve.demo import demo_hasher, prepare
from hashstream.serve.teaching.suggestions import suggest
from hashstream.table import HashTable


def test_a_table_without_labels_is_created_once(tmp_path: Path) -> None:
    told: list[str] = []
    made = prepare(tmp_path / "new", "digits", n=300, bits=32, tell=told.append)
    assert (made.name, made.path, made.created) == ("digits", tmp_path / "new" / "digits", True)
    assert "300 images without labels" in told[-1]
    X = datasets.load("digits").X
    with HashTable.open(made.path) as table:
        assert len(table) == 300
        assert table.count({"label": {"$exists": True}}) == 0
        ids = table.ids()
        stored = table.get(ids)
        assert stored.features is not None
        assert np.array_equal(stored.features, X[ids])
        table.label(ids[:20], datasets.load("digits").y[ids[:20]])
        assert len(table.stats().versions) == 1  # every label re-encodes
    again = prepare(tmp_path / "new", n=300, bits=32)
    assert not again.created
    assert again.path == made.path
    with HashTable.open(again.path, mode="read") as table:
        assert table.count({"label": {"$exists": True}}) == 20


def test_thumbnails_are_the_images(tmp_path: Path) -> None:
    made = prepare(tmp_path, "digits", n=50)
    X = datasets.load("digits").X
    with HashTable.open(made.path, mode="read") as table:
        item = suggest(table, 1).items[0].id
        raw, kind = made.images.of(table, item) or (b"", "")
        assert kind == "image/png"
        shown = np.asarray(Image.open(io.BytesIO(raw))).ravel()
        assert np.array_equal(shown, np.round(X[item] / 16 * 255))
        assert made.images.network is not None
        assert np.allclose(made.images.network.embed(raw), X[item], atol=0.05)


def test_an_interrupted_start_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HashTable, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare(tmp_path, "digits", n=50)
    assert not (tmp_path / "digits").exists()
    assert prepare(tmp_path, "digits", n=50).created


def test_what_is_on_the_machine_is_taken_and_digits_are_the_last_resort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def load(name: str) -> datasets.Dataset:
        asked.append(name)
        if name != "digits":
            raise datasets.DatasetError("no network")
        return digits

    digits = datasets.load("digits")
    monkeypatch.setattr(demo.datasets, "load", load)
    monkeypatch.setattr(demo.datasets, "find", lambda name: None)
    told: list[str] = []
    assert prepare(tmp_path / "a", n=40, tell=told.append).name == "digits"
    assert asked == ["mnist", "fashion-mnist", "digits"]
    assert "no network" in " ".join(told)
    asked.clear()
    monkeypatch.setattr(
        demo.datasets, "find", lambda name: ("here", None) if name == "fashion-mnist" else None
    )
    prepare(tmp_path / "b", n=40)
    assert asked == ["fashion-mnist", "digits"]


def test_an_unknown_data_set(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mnist, fashion-mnist, digits"):
        prepare(tmp_path, "cifar10")


def test_the_hasher_has_plain_bits_where_it_can() -> None:
    hasher = demo_hasher(64, 0)
    assert hasher.n_bits == 64
    assert hasher.get_params().get("plain_bits", 48) == 48
