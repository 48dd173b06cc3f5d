"""Learning of parts on a real Ray: equal bits, workers that are killed, errors that name the part."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hashstream as hs
from hashstream.datasets import FilePart
from hashstream.hashers import PartError
from hashstream.hashers.serialization import to_bytes
from hashstream.scale import training
from hashstream.scale.training import fit_parts_on_ray, ray_map

METHODS = {
    "RidgeHash": lambda: hs.RidgeHash(24, batch_size=100, random_state=0),
    "PosteriorHash": lambda: hs.PosteriorHash(24, width=16, sample_size=100, random_state=0),
}


def stream(n: int = 6000, classes: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    return (rng.normal(size=(classes, 10))[y] + rng.normal(size=(n, 10))).astype(np.float32), y


X, Y = stream()


def cut(size: int = 1000) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[i : i + size], Y[i : i + size]) for i in range(0, len(X), size)]


@pytest.fixture
def files(tmp_path: Path) -> list[FilePart]:
    for i, (rows, labels) in enumerate(cut()):
        np.savez(tmp_path / f"{i}.npz", X=rows, y=labels)
    return [FilePart.of(tmp_path / f"{i}.npz") for i in range(len(cut()))]


@pytest.mark.parametrize("method", METHODS)
def test_two_workers_give_the_bits_of_one_process(ray: Any, files: list[FilePart], method: str) -> None:
    hasher = METHODS[method]()
    expected = to_bytes(hs.fit_parts(hasher, cut()))
    assert to_bytes(fit_parts_on_ray(hasher, files)) == expected
    assert to_bytes(hs.fit_parts(hasher, cut(), map=ray_map)) == expected
    assert ray.is_initialized()  # a connection that was there is left open


def test_ridge_on_ray_equals_one_stream(ray: Any, files: list[FilePart]) -> None:
    whole = METHODS["RidgeHash"]()
    for part in cut():
        whole.partial_fit(*part)
    assert to_bytes(fit_parts_on_ray(METHODS["RidgeHash"](), files)) == to_bytes(whole)


def test_a_killed_worker_is_replaced_and_nothing_is_lost(ray: Any, tmp_path: Path) -> None:
    """The third part waits, at its first attempt, until its process is killed."""
    note, killed, third = tmp_path / "pid", [], cut()[2]

    def waits() -> Any:
        if not note.exists():
            new = note.with_suffix(".new")
            new.write_text(str(os.getpid()))
            new.rename(note)
            time.sleep(600)
        return third

    def kill() -> None:
        while not note.exists():
            time.sleep(0.02)
        killed.append(int(note.read_text()))
        os.kill(killed[0], signal.SIGKILL)

    parts: list[Any] = cut()
    parts[2] = waits
    watcher = threading.Thread(target=kill, daemon=True)
    watcher.start()
    merged = hs.fit_parts(METHODS["RidgeHash"](), parts, map=ray_map)
    assert killed
    assert killed[0] != os.getpid()
    assert to_bytes(merged) == to_bytes(hs.fit_parts(METHODS["RidgeHash"](), cut()))


def test_an_error_names_the_part_and_is_not_tried_again(ray: Any, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    tries.mkdir()

    def broken() -> Any:
        (tries / f"{time.time_ns()}").touch()
        raise OSError("the disk is gone")

    with pytest.raises(PartError, match=r"^part 6: the disk is gone$"):
        hs.fit_parts(METHODS["RidgeHash"](), [*cut(), broken], map=ray_map)
    assert len(list(tries.iterdir())) == 1
    bad = X[:1000].copy()
    bad[7] = np.inf
    with pytest.raises(PartError, match=r"^rows of May, rows 0 to 999: .*infinity"):
        fit_parts_on_ray(METHODS["RidgeHash"](), [*cut(), (bad, Y[:1000])], names=[*"abcdef", "rows of May"])


def test_a_part_that_always_kills_its_process_is_named(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = tmp_path / "tries"
    tries.mkdir()

    def deadly() -> Any:
        (tries / f"{time.time_ns()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(training, "DEATHS", 2)
    monkeypatch.setattr(training, "PAUSE", 0.01)
    parts = [*cut(), deadly]
    with pytest.raises(PartError, match=r"^part 6: the process that learned it was lost 2 times"):
        hs.fit_parts(METHODS["RidgeHash"](), parts, map=ray_map)
    assert len(list(tries.iterdir())) == 2
    assert [one.getMessage() for one in caplog.records if "part 6: its process was lost" in one.getMessage()]


class FakeRay:
    """In the place of Ray. deaths : number of a task -> how often its process is lost, and by which error."""

    class exceptions:
        class RayTaskError(Exception): ...

        class WorkerCrashedError(Exception): ...

        class NodeDiedError(Exception): ...

        class OutOfMemoryError(Exception): ...

        class ObjectLostError(Exception): ...

    def __init__(self, deaths: dict[int, list[str]]) -> None:
        self.deaths, self.begun, self.cancelled = deaths, list[int](), list[Any]()

    def remote(self, **options: Any) -> Any:
        assert options["max_retries"] == 0
        run = SimpleNamespace(options=lambda name: run, remote=lambda function, task: Call(function, task))
        return lambda function: run

    def put(self, value: Any) -> Any:
        return value

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2}

    def wait(self, calls: list[Any], num_returns: int, timeout: float | None) -> tuple[list[Any], list[Any]]:
        return calls[:1], calls[1:]

    def get(self, call: Any) -> Any:
        number = call.task.number
        self.begun.append(number)
        if self.deaths.get(number):
            raise getattr(self.exceptions, self.deaths[number].pop())("gone")
        return call.function(call.task)

    def cancel(self, call: Any, force: bool) -> None:
        self.cancelled.append(call.task.number)


class Call:
    def __init__(self, function: Any, task: Any) -> None:
        self.function, self.task = function, task


def run(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(training, "import_ray", lambda: ray)
    monkeypatch.setattr(training, "PAUSE", 1e-4)
    tasks: Any = [SimpleNamespace(name=f"part {number}", number=number) for number in range(6)]
    found: Any = ray_map(lambda task: task.number, tasks)  # type: ignore[arg-type, return-value]
    return sorted(found)


def test_what_is_lost_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    often = ["WorkerCrashedError", "NodeDiedError", "OutOfMemoryError"] * 3
    ray = FakeRay({0: [*often], 3: ["ObjectLostError"], 5: [*often]})
    assert run(ray, monkeypatch) == list(range(6))
    assert [ray.begun.count(number) for number in range(6)] == [10, 1, 1, 2, 1, 10]
    assert not ray.cancelled


def test_what_is_lost_ten_times_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay({4: ["OutOfMemoryError"] * 20})
    with pytest.raises(PartError, match=r"^part 4: .* lost 10 times, .*OutOfMemoryError: gone"):
        run(ray, monkeypatch)
    assert ray.begun.count(4) == 10


def test_few_parts_are_handed_out_at_once(ray: Any) -> None:
    """More would fill the memory of Ray with learners that wait to be merged."""
    taken: list[int] = []

    def tasks() -> Iterator[Any]:
        for number in range(30):
            taken.append(number)
            yield type("Task", (), {"name": str(number), "number": number})

    results = ray_map(lambda task: task.number, tasks())  # type: ignore[arg-type, return-value]
    first = next(iter(results))
    assert len(taken) <= 4
    assert sorted([first, *results]) == list(range(30))  # type: ignore[list-item, type-var]


def test_finished_parts_are_kept_by_the_driver(ray: Any, files: list[FilePart], tmp_path: Path) -> None:
    hasher, work = METHODS["PosteriorHash"](), tmp_path / "work"
    expected = to_bytes(fit_parts_on_ray(hasher, files, work=work))
    assert len(list(work.iterdir())) == len(files)
    assert to_bytes(hs.fit_parts(hasher, files, work=work, map=lambda function, tasks: [])) == expected
