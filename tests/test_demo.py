"""The demo on scikit-learn's digits: a process really killed, what it left, and the pictures."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hashstream import FCOH, HashTable, datasets, evaluate, pictures
from hashstream.demo import demo, feeder
from hashstream.demo.world import LOOKS, World
from hashstream.table import TableError


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
def test_the_whole_story(tmp_path: Path) -> None:
    text = io.StringIO()
    learned = demo(tmp_path / "out", console=Console(file=text, width=400))
    said = text.getvalue()
    assert "MNIST cannot be had, so this demo uses scikit-learn's small digits instead." in said
    assert "could not be downloaded" in said
    assert learned.world.data.name == "digits"

    # What was acknowledged is there, and the end is that of a run that nobody killed.
    killed, world = learned.killed, learned.world
    assert 900 <= killed.acknowledged <= killed.found <= 1500
    assert killed.rows_checked == killed.found
    assert f"It had acknowledged {killed.acknowledged:,} images" in said
    assert f"all {killed.acknowledged:,} are there" in said
    assert learned.same
    assert "to the last bit those of a run that nobody killed" in said
    stream, y = world.split.stream, world.data.y
    with HashTable.open(learned.table, mode="read") as table:
        held = table.get(stream)
        assert len(table) == 1500
        assert held.features is not None
        assert held.features.tobytes() == world.X[stream].tobytes()
        assert held.labels == y[stream].tolist()
        assert table.stats().n_seen == 1500
        assert table.stats().stale == 0
        assert not np.isin(
            world.split.queries, table.search(world.X[:1], 1500)[0]
        ).any()  # they were only asked
    alone = FCOH(32, random_state=0)
    for start in range(0, 1500, 100):
        alone.partial_fit(world.X[stream[start : start + 100]], y[stream[start : start + 100]])
    assert held.codes.tobytes() == alone.transform(world.X[stream]).tobytes()

    # Searched while it grew: looks before the kill and after it, each with a line.
    items = [n for n, _ in learned.curve]
    assert items == sorted(items)
    assert items[0] >= LOOKS[0]
    assert items[-1] == items[-2] == 1500
    for (n, value), (_, best) in zip(learned.curve[:-1], learned.fresh, strict=False):
        assert f"{n:,} images stored   mAP {value:.3f}" in said
        assert f"{best:.3f} made anew" in said
    assert learned.curve[-1][1] == pytest.approx(learned.fresh[-1][1])
    assert learned.curve[-1][1] > learned.untrained["mAP"] + 0.1
    assert f"{learned.scores['mAP']:.3f}   untrained projection {learned.untrained['mAP']:.3f}" in said
    assert "4 bytes of code instead of 256 as float32 (64 times smaller)" in said

    for path in learned.pictures:
        assert str(path) in said
        assert min(png_size(path)) > 500
    assert f"hashstream table stats {learned.table}" in said

    # The same folder serves again: an earlier demo's table goes, nothing else does.
    again = demo(tmp_path / "out", dataset="digits", n_bits=8, console=Console(file=io.StringIO()))
    with HashTable.open(again.table, mode="read") as table:
        assert table.stats().n_bits == 8
    (tmp_path / "other" / "table").mkdir(parents=True)
    with pytest.raises(TableError, match="in the way"):
        demo(tmp_path / "other", dataset="digits", console=Console(file=io.StringIO()))


def test_map_is_that_of_the_judges() -> None:
    world = World.of(datasets.load("digits"), 16, seed=1)
    y, asked, stream = world.data.y, world.split.queries[:30], world.split.stream[:400]
    with HashTable.open(None, FCOH(16, random_state=0)) as table:
        table.ingest(stream, world.X[stream], y[stream])
        ids, _ = table.search(world.X[asked], 400)
        codes = table.hasher.transform(world.X[stream])
        queries = table.hasher.transform(world.X[asked])
    wanted = evaluate.retrieval(queries, y[asked], codes, y[stream], ties="paper", n_bits=16)["mAP"]
    assert evaluate.average_precision(y[ids] == y[asked][:, None]).mean() == pytest.approx(wanted)


def test_a_feeder_that_fails_says_why(tmp_path: Path) -> None:
    world = World.of(datasets.load("digits"), 16, seed=0)
    (tmp_path / "table").write_text("in the way")
    one = feeder.Feeder(tmp_path / "table", world, kill_at=900, pause=0)
    try:
        with pytest.raises(TableError, match=r"ended early: .*is a file, not the folder of a table"):
            one.wait_for(1)
    finally:
        one.end()


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
