"""The demo on scikit-learn's digits: a process really killed, what it left, and the pictures."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hashstream import FCOH, HashTable, PosteriorHash, cli, datasets, evaluate, pictures
from hashstream.demo import DemoResult, Setup, demo, feeder
from hashstream.demo.setup import CHECKPOINTS
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
def test_the_whole_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[DemoResult] = []

    def recorded(*arguments: Any, **more: Any) -> DemoResult:
        results.append(demo(*arguments, **more))
        return results[-1]

    monkeypatch.setattr("hashstream.demo.demo", recorded)
    monkeypatch.setenv("COLUMNS", "400")
    called = CliRunner().invoke(cli.app, ["demo", "--out", str(tmp_path / "out")])
    assert called.exit_code == 0, called.output
    (learned,), said = results, called.output
    assert "MNIST is not available, so this demo uses scikit-learn's small digits." in said
    assert "could not be downloaded" in said
    assert learned.setup.data.name == "digits"

    # What was acknowledged is there, and the end is that of a run without a kill.
    recovery, setup = learned.recovery, learned.setup
    assert 900 <= recovery.acknowledged <= recovery.found <= 1500
    assert recovery.rows_checked == recovery.found
    assert f"It had acknowledged {recovery.acknowledged:,} images" in said
    assert f"all {recovery.acknowledged:,} are there" in said
    assert learned.same
    assert "bit for bit those of a run without a kill" in said
    stream, y = setup.split.stream, setup.data.y
    with HashTable.open(learned.table, mode="read") as table:
        held = table.get(stream)
        assert len(table) == 1500
        assert held.features is not None
        assert held.features.tobytes() == setup.X[stream].tobytes()
        assert held.labels == y[stream].tolist()
        assert table.stats().n_seen == 1500
        assert table.stats().stale == 0
        assert not np.isin(
            setup.split.queries, table.search(setup.X[:1], 1500).ids
        ).any()  # they were only asked
    alone = PosteriorHash(32, random_state=0)
    for start in range(0, 1500, 100):
        alone.partial_fit(setup.X[stream[start : start + 100]], y[stream[start : start + 100]])
    assert held.codes.tobytes() == alone.transform(setup.X[stream]).tobytes()

    # Searched while it grew: checkpoints before the kill and after it, each with a line.
    items = [one.items for one in learned.checkpoints]
    assert items == sorted(items)
    assert items[0] >= CHECKPOINTS[0]
    assert items[-1] == items[-2] == 1500
    for one in learned.checkpoints[:-1]:
        assert f"{one.items:,} images stored   mAP {one.stored:.3f}" in said
        assert f"{one.fresh:.3f} re-encoded" in said
    assert learned.checkpoints[-1].stored == pytest.approx(learned.checkpoints[-1].fresh)
    assert learned.checkpoints[-1].stored > learned.untrained["mAP"] + 0.1
    scores = [learned.scores["mAP"], learned.fcoh.scores["mAP"], learned.untrained["mAP"]]
    assert scores == sorted(scores, reverse=True)
    assert "{:.3f}   FCOH {:.3f}   untrained projection {:.3f}".format(*scores) in said
    assert [n for n, _ in learned.fcoh.curve] == sorted(set(items))
    assert "4 bytes of code instead of 256 as float32 (64 times smaller)" in said

    for path in learned.pictures:
        assert str(path) in said
        assert min(png_size(path)) > 500
    assert f"hashstream table stats {learned.table}" in said

    assert sorted(path.name for path in learned.table.parent.iterdir()) == [
        "learning-curve.png",
        "neighbours.png",
        "table",
    ]


def test_the_table_of_an_earlier_demo_goes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Begun(Exception):
        pass

    def begin(folder: Path, *arguments: Any, **more: Any) -> None:
        raise Begun(f"exists: {folder.exists()}")

    monkeypatch.setattr("hashstream.demo.run.Feeder", begin)
    HashTable.open(tmp_path / "out" / "table", FCOH(8)).close()
    with pytest.raises(Begun, match="exists: False"):
        demo(datasets.load("digits"), tmp_path / "out", n_bits=8)
    (tmp_path / "other" / "table").mkdir(parents=True)
    with pytest.raises(TableError, match="is not the table of an earlier demo"):
        demo(datasets.load("digits"), tmp_path / "other")


def test_fcoh_is_measured_with_all_codes_re_encoded() -> None:
    setup = Setup.of(datasets.load("digits"), 16, seed=1)
    y, stream, queries = setup.data.y, setup.split.stream, setup.split.queries
    found = setup.compare([300, 1500])
    hasher = FCOH(16, random_state=1)
    for start in range(0, 300, 100):
        hasher.partial_fit(setup.X[stream[start : start + 100]], y[stream[start : start + 100]])
    codes, asked = hasher.transform(setup.X[stream[:300]]), hasher.transform(setup.X[queries])
    scores = evaluate.retrieval(asked, y[queries], codes, y[stream[:300]], ties="paper", n_bits=16)
    assert found.curve[0] == (300, pytest.approx(scores["mAP"]))
    assert found.curve[1] == (
        1500,
        pytest.approx(found.scores["mAP"]),
    )  # of digits, every query is asked each time


def test_map_is_that_of_the_judges() -> None:
    setup = Setup.of(datasets.load("digits"), 16, seed=1)
    y, asked, stream = setup.data.y, setup.split.queries[:30], setup.split.stream[:400]
    with HashTable.open(None, FCOH(16, random_state=0)) as table:
        table.ingest(stream, setup.X[stream], y[stream])
        _, ids = table.search(setup.X[asked], 400)
        codes = table.hasher.transform(setup.X[stream])
        queries = table.hasher.transform(setup.X[asked])
    wanted = evaluate.retrieval(queries, y[asked], codes, y[stream], ties="paper", n_bits=16)["mAP"]
    assert evaluate.average_precision(y[ids] == y[asked][:, None]).mean() == pytest.approx(wanted)


def test_a_feeder_that_fails_says_why(tmp_path: Path) -> None:
    setup = Setup.of(datasets.load("digits"), 16, seed=0)
    (tmp_path / "table").write_text("in the way")
    one = feeder.Feeder(tmp_path / "table", setup, kill_at=900, pause=0)
    try:
        with pytest.raises(TableError, match=r"ended early: .*is a file, not the folder of a table"):
            one.wait_for(1)
    finally:
        one.end()


def test_labels_at_the_ends_of_curves_keep_apart() -> None:
    placed = pictures.lines.spread({"a": 0.50, "b": 0.51, "c": 0.9}, 0.1, 1.0)
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
