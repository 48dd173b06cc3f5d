"""The results file among several processes and data sets: one writer, no row twice, no figures of other data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import odd_hashers as odd
import pytest

from hashstream import evaluate
from hashstream.datasets import fingerprint, from_arrays
from hashstream.evaluate import lock, protocols

ROW = {
    "dataset": "d",
    "protocol": "paper",
    "method": "M",
    "bits": 8,
    "run": 0,
    "n_train": 10,
    "metric": "mAP[paper]",
}
HEAD = ",".join(evaluate.COLUMNS)


@pytest.fixture(scope="module")
def data() -> evaluate.PreparedDataset:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 120)
    X = (rng.standard_normal((5, 12))[y] + rng.standard_normal((600, 12))).astype(np.float32)
    return evaluate.PreparedDataset("blobs", X, y, protocols.Setting(per_class=10, stream=300, every=100))


def rows(*values: float) -> list[dict[str, object]]:
    return [{**ROW, "run": run, "value": value} for run, value in enumerate(values)]


def test_reading_changes_nothing(tmp_path: Path) -> None:
    absent = tmp_path / "new" / "results.csv"
    assert evaluate.Results(absent).rows == []
    assert not absent.parent.exists()
    path = tmp_path / "results.csv"
    evaluate.Results(path).append(rows(0.5, 0.25))
    torn = path.read_text()[:-4]
    path.write_text(torn)
    results = evaluate.Results(path)
    assert [row["value"] for row in results.rows] == [0.5]
    assert path.read_text() == torn
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results.csv"]
    results.append(rows(0.5, 0.75))
    assert path.read_text() == f"{HEAD}\nd,paper,M,8,0,10,mAP[paper],0.5\nd,paper,M,8,1,10,mAP[paper],0.75\n"


@pytest.mark.parametrize("text", ["", HEAD[:20], HEAD])
def test_a_first_line_that_was_cut_off_is_written_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(text)
    evaluate.Results(path).append(rows(0.5))
    assert path.read_text().splitlines() == [HEAD, "d,paper,M,8,0,10,mAP[paper],0.5"]


def test_one_line_of_something_else_is_no_results_file(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("my notes")
    with pytest.raises(ValueError, match="is not a results file"):
        evaluate.Results(path)


def test_of_rows_with_the_same_key_the_first_counts(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    line = "d,paper,M,8,0,10,mAP[paper],"
    path.write_text(f"{HEAD}\n{line}0.5\n{line}0.25\n")
    (summary,) = evaluate.summarise(evaluate.Results(path), "d", ["mAP"], "paper")
    assert (summary.runs, summary.mean) == (1, 0.5)


def test_what_another_has_added_is_read_before_and_not_added_again(
    data: evaluate.PreparedDataset, tmp_path: Path
) -> None:
    path = tmp_path / "results.csv"
    one, other = evaluate.Results(path), evaluate.Results(path)
    job = evaluate.Job("Moving", odd.Moving, 8, 0)
    evaluate.run([job], data, one)
    text = path.read_text()
    news: list[evaluate.JobProgress] = []
    evaluate.run([job], data, other, progress=news.append)
    assert path.read_text() == text
    assert other.rows == one.rows
    assert [item.done for item in news] == [True]
    other.append([{**row, "value": 0.0} for row in one.rows])
    assert path.read_text() == text


HOLD = """
import sys, time
from pathlib import Path
from hashstream.evaluate import Results
with Results(Path(sys.argv[1])).writing():
    print("holds", flush=True)
    time.sleep(60)
"""


def test_one_process_measures_at_a_time_and_a_dead_one_is_in_nobodys_way(
    data: evaluate.PreparedDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.05)
    path = tmp_path / "results.csv"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        results = evaluate.Results(path)  # reading is free
        job = evaluate.Job("Moving", odd.Moving, 8, 0)
        with pytest.raises(ValueError, match=rf"is in use by process {holder.pid} on .*, since 2"):
            evaluate.run([job], data, results)
        with pytest.raises(ValueError, match="is in use by"):
            results.append(rows(0.5))
        assert results.rows == []
        assert not path.exists()
        os.kill(holder.pid, signal.SIGKILL)
    assert (tmp_path / "results.csv.lock").exists()  # left behind
    evaluate.run([job], data, results)
    assert evaluate.pending(job, "blobs", [100, 200, 300], evaluate.Results(path)) == []
    assert not (tmp_path / "results.csv.lock").exists()


def test_an_appending_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    script = HOLD.replace("time.sleep(60)", "time.sleep(0.3)")
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        clock = time.monotonic()
        evaluate.Results(path).append(rows(0.5))
        assert time.monotonic() - clock > 0.1
    assert len(evaluate.Results(path).rows) == 1


def test_other_data_under_the_same_name_is_refused(data: evaluate.PreparedDataset, tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    job = evaluate.Job("Moving", odd.Moving, 8, 0)
    evaluate.run([job], data, results)
    kept = json.loads((tmp_path / "results.datasets.json").read_text())
    assert kept == {"blobs": data.fingerprint}
    text = results.path.read_text()
    other = replace(data, y=data.y[::-1].copy(), fingerprint="")
    for run in (0, 1):  # one that is there, one that is not
        with pytest.raises(ValueError, match="has figures of another blobs"):
            evaluate.run([replace(job, run=run)], other, evaluate.Results(results.path))
        with pytest.raises(ValueError, match="has figures of another blobs"):
            list(evaluate.measure(replace(job, run=run), other, [100], evaluate.Results(results.path)))
    evaluate.run([job], replace(other, dataset="turned"), results)
    assert results.path.read_text().startswith(text)
    assert set(json.loads((tmp_path / "results.datasets.json").read_text())) == {"blobs", "turned"}
    (tmp_path / "results.datasets.json").write_text("[")
    with pytest.raises(ValueError, match=r"results\.datasets\.json is not valid"):
        evaluate.run([job], data, results)


def test_a_fingerprint_is_of_all_labels_and_of_rows_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (1000, 20)).astype(np.uint8), np.arange(1000) % 7
    mark = fingerprint(X, y)
    assert mark == fingerprint(np.asfortranarray(X), y.copy())
    seen = {mark, fingerprint(X.astype(np.float32), y), fingerprint(X.reshape(1000, 20)[:, ::-1], y)}
    for row in (0, 500, 999):
        other, labels = X.copy(), y.copy()
        other[row, 3] ^= 1
        labels[row] += 1
        seen |= {fingerprint(other, y), fingerprint(X, labels)}
    assert len(seen) == 9
    monkeypatch.setattr("hashstream.datasets.dataset._SAMPLED", 2_000)  # every tenth row
    mark = fingerprint(X, y)
    found = []
    for row in range(1000):
        other = X.copy()
        other[row] ^= 1
        found.append(fingerprint(other, y) != mark)
    assert found == [row % 10 == 0 for row in range(1000)]


def test_a_field_has_the_mark_of_the_data_as_they_came() -> None:
    X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    data = from_arrays(X, np.arange(60) % 3, name="mine")
    assert evaluate.PreparedDataset.of(data).fingerprint == fingerprint(X, data.y)


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="mine has one class, 4: there is nothing to tell apart"):
        evaluate.PreparedDataset.of(from_arrays(np.eye(40), np.full(40, 4), name="mine"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mistake_in_a_method_is_no_divergence(
    data: evaluate.PreparedDataset, tmp_path: Path, workers: int
) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    jobs = [evaluate.Job("Mistaken", odd.Mistaken, 8, run) for run in range(2)]
    with pytest.raises(ZeroDivisionError) as raised:
        evaluate.run(jobs, data, results, workers=workers)
    assert any(note.startswith("While measuring Mistaken, 8 bits, run ") for note in raised.value.__notes__)
    assert results.rows == []


def test_summaries_count_the_runs_that_are_asked_for(data: evaluate.PreparedDataset, tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    for run, part in enumerate((0.2, 0.4, 0.9)):
        for n in (100, 200):
            checkpoint = protocols.Checkpoint(n, dict.fromkeys(protocols.Paper().metrics(), part), "paper")
            results.append(checkpoint.rows(**evaluate.Job("M", odd.Moving, 8, run).columns("d")))
    for runs, mean in ((1, 0.2), (2, 0.3), (None, 0.5)):
        one, _ = evaluate.summarise(results, "d", ["mAP"], "paper", runs=runs)
        assert (one.mean, one.runs) == (pytest.approx(mean), runs or 3)
        whole = evaluate.summarise_runs(results, "d", protocols.Paper(), [100, 200], "paper", runs=runs)
        assert [(s.mean, s.runs) for s in whole] == [(pytest.approx(mean), runs or 3)] * 2
