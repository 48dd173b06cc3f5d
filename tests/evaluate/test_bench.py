"""The results file, and measuring into it: nothing twice, nothing lost, the same after an interruption."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from hashstream import BSODH, FROSH, LSH, datasets, evaluate
from hashstream.evaluate import protocols


class Moving(LSH):
    """A projection that takes a random step with each batch, so that every checkpoint has its own figures."""

    def _learn(self, X: np.ndarray, labels: object) -> bool:
        step = self.rng_.standard_normal(self.projection_.shape).astype(X.dtype)
        self.projection_ = self.projection_ + np.float32(0.1) * step
        return True


POINTS = [100, 200, 300]


@pytest.fixture(scope="module")
def data() -> evaluate.PreparedDataset:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 120)
    X = (rng.standard_normal((5, 12))[y] + rng.standard_normal((600, 12))).astype(np.float32)
    return evaluate.PreparedDataset("blobs", X, y, protocols.Setting(per_class=10, stream=300, every=100))


def run(data: evaluate.PreparedDataset, path: Path, runs: int = 2) -> evaluate.Results:
    results = evaluate.Results(path)
    for job in evaluate.jobs({"Moving": Moving}, bits=[8, 12], runs=runs):
        for _ in evaluate.measure(job, data, POINTS, results):
            pass
    return results


def without_times(results: evaluate.Results) -> list[dict[str, object]]:
    return [row for row in results.rows if row["metric"] not in ("train_seconds", "encode_seconds")]


def test_rows_are_written_as_they_are_measured(data: evaluate.PreparedDataset, tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "new" / "results.csv")
    (job,) = evaluate.jobs({"LSH": LSH}, bits=[16], runs=1)
    checkpoints = evaluate.measure(job, data, POINTS, results)
    per_checkpoint = len(protocols.Paper().metrics())
    for i in (1, 2):
        next(checkpoints)
        lines = results.path.read_text().splitlines()
        assert lines[0] == "dataset,protocol,method,bits,run,n_train,metric,value"
        assert len(lines) == 1 + i * per_checkpoint
    assert lines[1].startswith("blobs,paper,LSH,16,0,100,mAP[paper],0.")


def test_what_is_there_is_read_back_exactly_and_not_measured_again(
    data: evaluate.PreparedDataset, tmp_path: Path
) -> None:
    first = run(data, tmp_path / "results.csv")
    text = first.path.read_text()
    again = run(data, tmp_path / "results.csv")
    assert again.rows == first.rows
    assert again.path.read_text() == text
    assert len(first.rows) == 2 * 2 * len(POINTS) * len(protocols.Paper().metrics())


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.77, 0.999])
def test_continued_after_a_cut_anywhere_equals_one_go(
    data: evaluate.PreparedDataset, tmp_path: Path, cut: float
) -> None:
    whole = run(data, tmp_path / "whole.csv")
    text = whole.path.read_text()
    (tmp_path / "cut.csv").write_text(text[: int(cut * len(text))])
    continued = run(data, tmp_path / "cut.csv")
    assert without_times(continued) == without_times(whole)
    assert len(continued.rows) == len(whole.rows)
    assert evaluate.Results(tmp_path / "cut.csv").rows == continued.rows


def test_more_runs_and_the_other_rule_add_to_the_same_file(
    data: evaluate.PreparedDataset, tmp_path: Path
) -> None:
    before = run(data, tmp_path / "results.csv", runs=1)
    after = run(data, tmp_path / "results.csv", runs=2)
    assert after.rows[: len(before.rows)] == before.rows
    (job,) = evaluate.jobs({"Moving": Moving}, bits=[8], runs=1)
    assert evaluate.pending(job, "blobs", POINTS, after, ties="paper") == []
    assert evaluate.pending(job, "blobs", POINTS, after, ties="aware") == POINTS
    list(evaluate.measure(job, data, POINTS, after, ties="aware"))
    keys = [tuple(row[name] for name in evaluate.COLUMNS[:-1]) for row in after.rows]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("method", ["BSODH", "FROSH", "Moving"])
def test_a_row_is_the_same_whichever_checkpoints_are_asked_for_first(method: str, tmp_path: Path) -> None:
    """For batches, 256 and 2,000 rows, that do not fit between two checkpoints."""
    digits = evaluate.PreparedDataset.of(datasets.load("digits"))
    settings = {} if method == "BSODH" else {"batch_size": 256}
    made = {"BSODH": BSODH, "FROSH": FROSH, "Moving": Moving}[method]
    (job,) = evaluate.jobs({method: made}, bits=[16], runs=1, settings=settings)
    whole = evaluate.Results(tmp_path / "whole.csv")
    evaluate.run([job], digits, whole)
    apart = evaluate.Results(tmp_path / "apart.csv")
    for points in ([1500], [150, 300, 1200], None):
        evaluate.run([job], digits, apart, points=points)
    off = evaluate.Results(tmp_path / "off.csv")
    evaluate.run([job], digits, off, points=[150])

    def figures(results: evaluate.Results) -> dict[tuple[int, str], float]:
        return {(row["n_train"], row["metric"]): row["value"] for row in without_times(results)}

    found = figures(apart)
    assert {key: value for key, value in found.items() if key[0] != 150} == figures(whole)
    assert {key: value for key, value in found.items() if key[0] == 150} == figures(off)
    assert {n for n, _ in found} == {150, *range(100, 1501, 100)}


def test_settings_are_part_of_the_name(data: evaluate.PreparedDataset, tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    jobs = evaluate.jobs({"LSH": LSH}, bits=[8], runs=1, settings={"batch_size": 50, "feature_map": None})
    list(evaluate.measure(jobs[0], data, POINTS, results))
    read = evaluate.Results(tmp_path / "results.csv")
    assert {row["method"] for row in read.rows} == {"LSH(batch_size=50, feature_map=None)"}
    assert evaluate.pending(jobs[0], "blobs", POINTS, read, ties="paper") == []


def test_summary(tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    columns = {"dataset": "d", "protocol": "paper", "method": "M", "bits": 8, "n_train": 10}
    for run_number, value in enumerate((0.2, 0.4)):
        results.append([{**columns, "run": run_number, "metric": "mAP[paper]", "value": value}])
    results.append([{**columns, "run": 0, "metric": "train_seconds", "value": 2.0}])
    mean_ap, seconds = evaluate.summarise(results, "d", ["mAP", "train_seconds"], "paper")
    assert (mean_ap.mean, mean_ap.runs) == (pytest.approx(0.3), 2)
    assert mean_ap.spread == pytest.approx(np.std([0.2, 0.4], ddof=1))
    assert str(mean_ap) == "0.300 ± 0.141"
    assert str(seconds) == "2"
    assert evaluate.summarise(results, "other", ["mAP"], "paper") == []


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", ",".join(evaluate.COLUMNS) + "\nd,paper,M,many,0,1,mAP,0.5\n"]
)
def test_a_file_that_is_no_results_file_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="results"):
        evaluate.Results(path)
    assert path.read_text() == text


def test_progress_is_silent_a_function_or_a_bar(
    data: evaluate.PreparedDataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = evaluate.jobs({"LSH": LSH}, bits=[8], runs=2)
    evaluate.run(jobs, data, evaluate.Results(tmp_path / "a.csv"))
    assert capsys.readouterr() == ("", "")
    news: list[evaluate.JobProgress] = []
    evaluate.run(jobs, data, evaluate.Results(tmp_path / "b.csv"), progress=news.append)
    assert sum(one.rows for one in news) == 2 * 300
    assert capsys.readouterr() == ("", "")
    for said in ("2 of 2: LSH, 8 bits, run 1, mAP", ""):  # the second time there is nothing to do
        evaluate.run(jobs, data, evaluate.Results(tmp_path / "c.csv"), progress="bar")
        out, err = capsys.readouterr()
        assert out == ""
        assert said in " ".join(err.split())
        assert bool(err) is bool(said)
    with pytest.raises(ValueError, match="progress is 'bars'"):
        evaluate.run(jobs, data, evaluate.Results(tmp_path / "d.csv"), progress="bars")  # type: ignore[arg-type]


def test_whole_runs_come_first() -> None:
    jobs = evaluate.jobs({"A": LSH, "B": LSH}, bits=[8, 16], runs=2)
    order = [(job.run, job.bits, job.name) for job in jobs]
    assert order == list(itertools.product([0, 1], [8, 16], ["A", "B"]))
