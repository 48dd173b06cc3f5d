"""A table of unlabelled images to teach: what `make serve` shows."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hashstream import datasets
from hashstream.hashers import OnlineHasher, PosteriorHash
from hashstream.serve.embedding import Pixels
from hashstream.serve.images import Images
from hashstream.table import HashTable

__all__ = ["NAMES", "DemoTable", "demo_hasher", "prepare"]

NAMES = ("mnist", "fashion-mnist", "digits")
"""Data sets of images, the first choice first; the last one is part of scikit-learn, and always there."""
WHITE = {"digits": 16.0}  # 255 in the others
PLAIN_SHARE = 0.75
SAMPLE = 2000
POLICY = "eager"
"""Every label that changes the functions re-encodes the table, so that the next answers show what was taught."""


@dataclass(frozen=True)
class DemoTable:
    """name : of the table, and of its data set. path : its folder. images : its thumbnails. created : not there before.

    Ids are rows of the data set, so that `datasets.load(name).y[id]` is the label that nobody has given yet.
    """

    name: str
    path: Path
    images: Images
    created: bool


def prepare(
    folder: str | Path,
    dataset: str = "auto",
    n: int = 10_000,
    bits: int = 64,
    seed: int = 0,
    *,
    tell: Callable[[str], Any] | None = None,
) -> DemoTable:
    """A table in a folder, named after its data set: created without labels once, and taken as it is afterwards.

    dataset : one of NAMES, or "auto": a table that is there already, else data that are on this machine, else data that
        can be downloaded. n : images at most. tell : is told in a sentence what takes a while.
    """
    home, say = Path(folder), tell or (lambda _: None)
    if dataset != "auto" and dataset not in NAMES:
        raise ValueError(f"the demo has {', '.join(NAMES)}, and no {dataset!r}")
    for name in NAMES if dataset == "auto" else (dataset,):
        if HashTable.exists(home / name):
            return _described(name, home / name, created=False)
    data = _loaded(dataset, say)
    shape = data.image_shape
    assert shape is not None
    rows = np.sort(np.random.default_rng(seed).permutation(len(data.X))[:n])
    say(f"A new table of {len(rows):,} images without labels, from {data.name}.")
    home.mkdir(parents=True, exist_ok=True)
    part = home / f".hashstream-{secrets.token_hex(8)}"  # a table that is half there is not taken for one
    hasher = demo_hasher(bits, seed)
    with HashTable.open(part, hasher, policy=POLICY, sample_size=SAMPLE) as table:
        table.add(rows, data.X[rows].astype(np.float32))
    part.rename(home / data.name)
    return _described(data.name, home / data.name, created=True)


def demo_hasher(bits: int, seed: int) -> OnlineHasher:
    """PosteriorHash for people who have given few labels: three quarters of the bits stay those of a projection, so
    that the first labels do not make answers much worse."""
    return PosteriorHash(bits, plain_bits=int(bits * PLAIN_SHARE), random_state=seed)


def _loaded(dataset: str, say: Callable[[str], Any]) -> datasets.Dataset:
    if dataset != "auto":
        return datasets.load(dataset)
    here = [name for name in NAMES[:-1] if datasets.find(name) is not None]
    for name in here or NAMES[:-1]:
        try:
            if not here:
                say(f"{datasets.CATALOGUE[name].title} is not on this machine: downloading it.")
            return datasets.load(name)
        except datasets.DatasetError as error:
            say(f"{name} cannot be loaded: {error}")
    return datasets.load(NAMES[-1])


def _described(name: str, path: Path, *, created: bool) -> DemoTable:
    shape = datasets.CATALOGUE[name].image_shape
    assert shape is not None
    pixels = Pixels(*shape, WHITE.get(name, 255.0))
    return DemoTable(name, path, Images(pixels=pixels, network=pixels), created)
