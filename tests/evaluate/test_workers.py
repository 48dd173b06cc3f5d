"""Jobs side by side: the same figures, on one thread each, and what happens when one of them fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import odd_hashers as odd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from hashstream import BSODH, FCOH, MIHash, RidgeHash, evaluate
from hashstream.evaluate import protocols, workers

SECONDS = ("train_seconds", "encode_seconds")


@pytest.fixture(scope="module")
def data() -> evaluate.PreparedDataset:
    """Wide enough that BLAS would use its threads."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 120)
    X = (rng.standard_normal((5, 400))[y] + rng.standard_normal((600, 400))).astype(np.float32)
    return evaluate.PreparedDataset("blobs", X, y, protocols.Setting(per_class=10, stream=300, every=100))


def figures(results: evaluate.Results) -> dict[tuple[Any, ...], float]:
    return {
        tuple(row[name] for name in evaluate.COLUMNS[:-1]): row["value"]
        for row in results.rows
        if row["metric"] not in SECONDS
    }


def test_figures_do_not_depend_on_the_workers_and_all_survive_one_that_is_killed(
    data: evaluate.PreparedDataset, tmp_path: Path
) -> None:
    methods = {"FCOH": FCOH, "MIHash": MIHash, "RidgeHash": RidgeHash, "BSODH": BSODH}
    methods |= {"OneThread": odd.OneThread, "Diverging": odd.Diverging}
    jobs = evaluate.jobs(methods, bits=[24], runs=2, settings={"batch_size": 50})
    alone = evaluate.Results(tmp_path / "alone.csv")
    together = evaluate.Results(tmp_path / "together.csv")
    news: dict[int, list[evaluate.JobProgress]] = {1: [], 2: []}
    with threadpool_limits(2):
        evaluate.run(jobs, data, alone, workers=1, progress=news[1].append)
        killed = evaluate.Job("Killed", odd.Killed, 24, 0, {"batch_size": 50})
        with pytest.raises(evaluate.WorkerError, match=r"Killed.*24 bits, run 0 .*SIGKILL.*memory") as lost:
            evaluate.run([jobs[0], killed, *jobs[1:]], data, together, workers=2, progress=news[2].append)
    expected, found = figures(alone), figures(together)
    of_killed = {key: value for key, value in found.items() if key[2].startswith("Killed")}
    assert {key[5] for key in of_killed} == {100, 200}  # what it showed before it died
    assert {key: value for key, value in found.items() if key not in of_killed} == expected
    assert {key[2:7] for key in expected if key[6] == "diverged_rows"} == {
        ("Diverging(batch_size=50)", 24, run, 100, "diverged_rows") for run in (0, 1)
    }
    assert evaluate.Results(together.path).rows == together.rows
    assert "FCOH" not in str(lost.value)
    told = {n: [item for item in news[n] if item.job.name != "Killed"] for n in news}
    for n in news:
        assert Counter(str(item.job) for item in told[n] if item.done) == Counter(map(str, jobs))
        assert {item.error for item in told[n]} == {"", "it ran away"}
    rows = {n: Counter[str]() for n in news}
    for n in news:
        for item in told[n]:
            rows[n][str(item.job)] += item.rows
    assert rows[1] == rows[2] == dict.fromkeys(map(str, jobs), 300)  # those that never came, too


def test_an_exception_in_a_worker_reaches_the_caller(data: evaluate.PreparedDataset, tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    right = evaluate.Job("Moving", odd.Moving, 8, 0)
    wrong = evaluate.Job("Moving", odd.Moving, 8, 0, {"batch_size": 0})
    with pytest.raises(ValueError, match="batch_size") as refused:
        evaluate.run([right, wrong], data, results, protocol=odd.InWorker(), workers=2)
    job, where = refused.value.__notes__
    assert job == "While measuring Moving(batch_size=0), 8 bits, run 0"
    assert where.startswith("In a worker process")
    assert "check_parameters" in where


def test_an_exception_that_cannot_be_sent_is_put_into_words() -> None:
    kept = workers._portable(ValueError("as it is"))
    assert type(kept) is ValueError
    said = workers._portable(odd.Odd(1, 2))
    assert type(said) is RuntimeError
    assert str(said) == "Odd: 1 and 2"
    assert "odd_hashers.Odd: 1 and 2" in said.__notes__[0]


def test_one_thread_also_in_this_process_and_only_while_it_works(
    data: evaluate.PreparedDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    stable_scores = evaluate.scores.hamming.stable_scores

    def record(*arguments: Any, n_threads: int | None = None, **more: Any) -> Any:
        asked.append(n_threads)
        return stable_scores(*arguments, n_threads=n_threads, **more)

    monkeypatch.setattr(evaluate.scores.hamming, "stable_scores", record)
    results = evaluate.Results(tmp_path / "results.csv")
    job = evaluate.Job("OneThread", odd.OneThread, 8, 0)
    with threadpool_limits(2):
        before = threadpool_info()
        for _ in evaluate.measure(job, data, [100, 200], results):
            assert threadpool_info() == before
    assert asked == [1, 1]
    assert {library["num_threads"] for library in before} == {2}


@pytest.mark.parametrize("others", [0, 1])
def test_a_replacement_that_is_killed_before_it_is_ready(
    data: evaluate.PreparedDataset, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """The workers that are left go on; where there is none, it is said, without advice on scripts."""
    made: list[workers._Worker] = []

    class Short(workers._Worker):
        def __init__(self, task: tuple[Any, ...]) -> None:
            super().__init__(task)
            made.append(self)
            if len(made) > 1 + others:
                self.process.kill()

    monkeypatch.setattr(workers, "_Worker", Short)
    killed = evaluate.Job("Killed", odd.Killed, 8, 0, {"batch_size": 50})
    moving = evaluate.jobs({"Moving": odd.Moving}, bits=[8], runs=4)
    todo = [(job, [100, 200, 300]) for job in (killed, *moving)]
    events = []
    with pytest.raises(evaluate.WorkerError) if not others else nullcontext() as raised:
        for job, event in workers.run_in_workers(todo, data, protocols.Paper(), "paper", 1 + others):
            events.append((job, event))
    endings = {str(job): event.lost for job, event in events if isinstance(event, workers.JobEnd)}
    assert "SIGKILL" in endings.pop(str(killed))
    assert len(made) == 2 + others
    if others:
        assert endings == dict.fromkeys(map(str, moving), "")
    else:
        said = str(raised.value)
        assert endings == {}
        assert (
            "was killed (SIGKILL, as the system does when memory runs out) before it could take a job" in said
        )
        assert "jobs not started: 4" in said
        assert "__main__" not in said


def test_what_cannot_be_sent_is_refused_before_anything_starts(
    data: evaluate.PreparedDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local(odd.Moving):
        pass

    results = evaluate.Results(tmp_path / "results.csv")
    jobs = evaluate.jobs({"Local": Local}, bits=[8], runs=2)
    with pytest.raises(ValueError, match=r"Local, 8 bits, run 0 cannot be sent.*workers=1"):
        evaluate.run(jobs, data, results, workers=2)
    monkeypatch.setattr(odd.Moving, "__module__", "__main__")
    jobs = evaluate.jobs({"Moving": odd.Moving}, bits=[8], runs=2)
    with pytest.raises(ValueError, match="Moving is defined in the running script"):
        evaluate.run(jobs, data, results, workers=2)
    assert results.rows == []
    evaluate.run(jobs, data, results, workers=1)
    assert {row["run"] for row in results.rows} == {0, 1}


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "from pathlib import Path\n"
        "from hashstream import LSH, datasets, evaluate\n"
        "print('imported')\n"
        "data = evaluate.PreparedDataset.of(datasets.load('digits'))\n"
        "jobs = evaluate.jobs({'LSH': LSH}, bits=[8], runs=3)\n"
        "evaluate.run(jobs, data, evaluate.Results(Path('results.csv')), workers=2)\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "WorkerError: a worker process ended with exit code 1 before its first job" in done.stderr
    assert 'if __name__ == "__main__"' in done.stderr
    assert 1 <= done.stdout.count("imported") <= 3  # here, and in each worker at the most


def test_impossible_numbers_of_workers_and_checkpoints(
    data: evaluate.PreparedDataset, tmp_path: Path
) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    jobs = evaluate.jobs({"Moving": odd.Moving}, bits=[8], runs=1)
    with pytest.raises(ValueError, match="workers is 0"):
        evaluate.run(jobs, data, results, workers=0)
    with pytest.raises(ValueError, match="checkpoints of drift on blobs are after"):
        evaluate.run(jobs, data, results, protocol=protocols.Drift(), points=[100])
