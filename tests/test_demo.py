"""The demo on scikit-learn's digits, and its pictures."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hashstream import pictures
from hashstream.demo import demo


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">2I", head[16:24])


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data folder, an empty cache, nobody to download from."""
    monkeypatch.delenv("HASHSTREAM_DATA", raising=False)
    monkeypatch.setenv("HASHSTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HASHSTREAM_MNIST_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.usefixtures("nothing_here")
def test_without_mnist_the_demo_says_so_and_uses_digits(tmp_path: Path) -> None:
    text = io.StringIO()
    learned = demo(tmp_path / "out", console=Console(file=text, width=200))
    said = text.getvalue()
    assert "MNIST cannot be had, so this demo uses scikit-learn's small digits instead." in said
    assert "could not be downloaded" in said
    assert (
        "4 bytes instead of 256 as float32 (64 times smaller; 16 times smaller than the raw pixels)" in said
    )
    for path in learned.pictures:
        assert str(path) in said
        width, height = png_size(path)
        assert min(width, height) > 500
    assert learned.data.name == "digits"
    assert [n for n, _ in learned.curve] == list(range(100, 1501, 100))
    for n, value in learned.curve:
        assert f"FCOH, {n:,} seen   mAP {value:.3f}" in said
    assert f"{learned.scores['mAP']:.3f}   untrained projection {learned.untrained['mAP']:.3f}" in said
    assert learned.scores["mAP"] > learned.untrained["mAP"] + 0.1


def test_queries_are_never_learned_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hashstream import FCOH
    from hashstream import demo as module

    given = []

    class Watched(FCOH):
        def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Watched:
            given.append(len(X))
            seen.update(map(bytes, np.ascontiguousarray(X)))
            return super().partial_fit(X, y)

    seen: set[bytes] = set()
    monkeypatch.setattr(module, "FCOH", Watched)
    learned = demo(tmp_path, dataset="digits", n_bits=16, seed=3, console=Console(file=io.StringIO()))
    unit = module.datasets.centred_unit(learned.data.X)
    assert sum(given) == 1500
    assert seen == set(map(bytes, unit[learned.split.stream]))
    assert not seen & set(map(bytes, unit[learned.split.queries]))


def test_labels_at_the_ends_of_curves_keep_apart() -> None:
    placed = pictures.demo._apart({"a": 0.50, "b": 0.51, "c": 0.9}, 0.05)
    heights = sorted(placed.values())
    assert min(np.diff(heights)) >= 0.0999
    assert placed["c"] == 0.9


def test_pictures_leave_no_state_behind() -> None:
    code = (
        "import hashstream, hashstream.cli, sys; assert 'matplotlib' not in sys.modules; "
        "from hashstream import pictures; "
        "pictures.learning_curves({'FCOH': [(1, .2), (9, .4)]}, untrained=('u', .1), title='', subtitle=''); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
