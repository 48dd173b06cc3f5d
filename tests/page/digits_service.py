"""A service with scikit-learn's digits as a table without labels, thumbnails among it, and a browser for its page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from tests.serve.running import Running, running

import hashstream as hs
from hashstream.serve.images import image_sources

N_ITEMS = 600
NAMES = ("chromium", "chromium-browser", "google-chrome")

_digits = load_digits()
X = np.asarray(_digits.data[:N_ITEMS], np.float32)
TRUTH: list[int] = _digits.target[:N_ITEMS].tolist()
"""The true label of item i."""


def chromium() -> str | None:
    """The path of a browser on this machine."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def fill(tables: Path, images: Path) -> None:
    """Create the tables: `digits` with integer ids and thumbnails, `words` with texts, and `empty`."""
    from PIL import Image

    images.mkdir(parents=True)
    for i, row in enumerate(X):
        pixels = 255 - np.minimum(row.reshape(8, 8) * 16, 255).astype(np.uint8)
        Image.fromarray(pixels).save(images / f"{i}.png")
    ink = X.mean(axis=1).round(2).tolist()
    sides = ["left" if i % 2 else "right" for i in range(N_ITEMS)]
    with hs.HashTable.open(
        tables / "digits",
        hasher=hs.PosteriorHash(n_bits=64, random_state=0),
        fields={"ink": float, "side": str},
    ) as table:
        table.ingest(range(N_ITEMS), X, fields={"ink": ink, "side": sides})
    with hs.HashTable.open(
        tables / "words", hasher=hs.PosteriorHash(n_bits=32, random_state=0), fields={"author": str}
    ) as table:
        ids = [f"note/{i}" for i in range(60)]
        labels = [("ham", "spam")[i % 2] for i in range(30)] + [None] * 30
        payloads = [{"title": f"Note {i} <b>bold</b>"} for i in range(60)]
        table.ingest(ids, X[:60], labels, fields={"author": ["<i>Ada</i>"] * 60}, payloads=payloads)
    with hs.HashTable.open(tables / "empty", hasher=hs.PosteriorHash(n_bits=32)):
        pass


@contextmanager
def serving(folder: Path, filled: Path, **settings: Any) -> Iterator[Running]:
    """Serve a copy of the three tables in a new folder. filled : by `fill`. settings : of `running`."""
    shutil.copytree(filled, folder)
    images = {"digits": image_sources(folder=folder / "images")[None]}
    with running(folder / "tables", images=images, **settings) as service:
        yield service


def precision(service: Running, k: int = 10, step: int = 4) -> float:
    """Precision@k of the service's answers, by the true labels: every step-th item as a query."""
    queries = list(range(0, N_ITEMS, step))
    answer = service.post("/v1/tables/digits/search", {"like": queries, "k": k + 1})
    assert answer.status == 200, answer.body
    hits = [
        np.mean([TRUTH[i] == TRUTH[query] for i in [i for i in row if i != query][:k]])
        for query, row in zip(queries, answer.body["ids"], strict=True)
    ]
    return float(np.mean(hits))


def labels_of(service: Running) -> dict[int, Any]:
    """Items of `digits` that have a label."""
    answer = service.post("/v1/tables/digits/items/get", {"ids": list(range(N_ITEMS))})
    return {i: label for i, label in enumerate(answer.body["labels"]) if label is not None}


def state(url: str) -> dict[str, Any]:
    """The state of the page that its address holds."""
    from urllib.parse import parse_qsl

    return {name: json.loads(value) for name, value in parse_qsl(url.partition("#")[2].partition("?")[2])}


def until(page: Any, expression: str) -> None:
    """Wait until an expression holds. Playwright's own `wait_for_function` is refused by the page's security policy."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(30)
    raise AssertionError(f"it never came true: {expression}")
