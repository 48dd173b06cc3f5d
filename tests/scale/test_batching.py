"""Calls of many threads go out together, and each gets its own answer."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from hashstream.scale.batching import Batcher


def split(result: np.ndarray, counts: list[int]) -> list[np.ndarray]:
    return np.split(result, np.cumsum(counts)[:-1])


class Scatter:
    """Doubles rows; holds batches back until it is told to let them go."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.error: Exception | None = None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        self.batches.append(len(rows))
        self.begun.release()
        assert self.go.acquire(timeout=30)
        if self.error is not None:
            raise self.error
        return rows * 2


def rows_of(i: int, n: int = 1) -> np.ndarray:
    return np.full((n, 1), i)


def start(
    pool: ThreadPoolExecutor, batcher: Batcher[np.ndarray], scatter: Scatter, calls: list[np.ndarray]
) -> list[Future[np.ndarray]]:
    """The first call is away; the others wait."""
    futures = [pool.submit(batcher.call, "key", calls[0], scatter)]
    assert scatter.begun.acquire(timeout=30)
    for at, rows in enumerate(calls[1:], 1):
        futures.append(pool.submit(batcher.call, "key", rows, scatter))
        while batcher.waiting("key") < at:
            threading.Event().wait(0.001)
    return futures


def test_calls_that_wait_are_sent_as_one() -> None:
    scatter, batcher = Scatter(), Batcher(split)
    with ThreadPoolExecutor(8) as pool:
        futures = start(pool, batcher, scatter, [rows_of(i, 1 + i % 3) for i in range(8)])
        for _ in range(2):
            scatter.go.release()
        for i, future in enumerate(futures):
            assert future.result(30).tolist() == rows_of(2 * i, 1 + i % 3).tolist()
    assert scatter.batches == [1, sum(1 + i % 3 for i in range(1, 8))]


def test_a_single_caller_is_sent_at_once() -> None:
    scatter, batcher = Scatter(), Batcher(split)
    for i in range(5):
        scatter.go.release()
        assert batcher.call("key", rows_of(i), scatter).tolist() == [[2 * i]]
    assert scatter.batches == [1] * 5


def test_other_arguments_are_other_batches() -> None:
    one, other, batcher = Scatter(), Scatter(), Batcher(split)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(batcher.call, "one", rows_of(1), one)
        second = pool.submit(batcher.call, "other", rows_of(2), other)
        assert one.begun.acquire(timeout=30)
        assert other.begun.acquire(timeout=30)  # while the first is away
        one.go.release()
        other.go.release()
        assert (first.result(30).item(), second.result(30).item()) == (2, 4)


def test_batches_have_a_limit() -> None:
    scatter, batcher = Scatter(), Batcher(split, rows=5)
    with ThreadPoolExecutor(8) as pool:
        futures = start(pool, batcher, scatter, [rows_of(i, n) for i, n in enumerate([1, 2, 2, 2, 1])])
        for _ in range(3):
            scatter.go.release()
        assert [len(future.result(30)) for future in futures] == [1, 2, 2, 2, 1]
    assert scatter.batches == [1, 4, 3]


def test_a_large_call_is_sent_alone_and_at_once() -> None:
    scatter, batcher = Scatter(), Batcher(split, rows=5)
    with ThreadPoolExecutor(2) as pool:
        futures = start(pool, batcher, scatter, [rows_of(0)])
        futures.append(pool.submit(batcher.call, "key", rows_of(1, 3), scatter))
        assert scatter.begun.acquire(timeout=30)  # while the first is away
        for _ in range(2):
            scatter.go.release()
        assert [len(future.result(30)) for future in futures] == [1, 3]


def test_a_call_that_has_waited_too_long_is_sent_alone() -> None:
    scatter, batcher = Scatter(), Batcher(split)
    with ThreadPoolExecutor(3) as pool:
        futures = start(pool, batcher, scatter, [rows_of(0), rows_of(1)])  # the second one is patient
        futures.append(pool.submit(batcher.call, "key", rows_of(2), scatter, patience=0.01))
        assert scatter.begun.acquire(timeout=30)  # while the first is away
        assert (scatter.batches, batcher.waiting("key")) == ([1, 1], 1)
        for _ in range(3):
            scatter.go.release()
        assert [future.result(30).item() for future in futures] == [0, 2, 4]


def test_impatient_callers_get_their_own_rows_under_pressure() -> None:
    """Some withdraw at the moment at which they are taken, or chosen to lead."""
    batcher = Batcher(split)
    rng = np.random.default_rng(0)
    patience = rng.exponential(0.0005, (16, 100))

    def send(rows: np.ndarray) -> np.ndarray:
        threading.Event().wait(0.0005)
        return rows * 2

    def caller(i: int) -> None:
        for j in range(100):
            found = batcher.call("key", rows_of(1000 * i + j), send, patience=patience[i, j])
            assert found.tolist() == [[2 * (1000 * i + j)]]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(caller, range(16)))
    assert batcher.waiting("key") == 0


def test_an_error_before_a_batch_is_sent_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    scatter, batcher = Scatter(), Batcher(split)
    take, failures = batcher._take, iter([True])

    def no_memory(*arguments: Any) -> None:
        if next(failures, False):
            raise MemoryError
        take(*arguments)

    monkeypatch.setattr(batcher, "_take", no_memory)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(MemoryError):
            pool.submit(batcher.call, "key", rows_of(1), scatter).result(30)
        assert batcher.waiting("key") == 0
        scatter.go.release()
        assert pool.submit(batcher.call, "key", rows_of(2), scatter).result(30).item() == 4


def test_an_error_reaches_all_of_its_batch_and_no_other() -> None:
    scatter, batcher = Scatter(), Batcher(split)
    with ThreadPoolExecutor(4) as pool:
        futures = start(pool, batcher, scatter, [rows_of(i) for i in range(4)])
        scatter.go.release()
        assert futures[0].result(30).item() == 0
        assert scatter.begun.acquire(timeout=30)
        scatter.error = RuntimeError("no answer")
        scatter.go.release()
        for future in futures[1:]:
            with pytest.raises(RuntimeError, match="no answer"):
                future.result(30)
    scatter.error = None
    scatter.go.release()
    assert batcher.call("key", rows_of(5), scatter).item() == 10


def test_every_caller_gets_its_own_rows_under_pressure() -> None:
    batcher = Batcher(split)
    sizes: list[int] = []

    def send(rows: np.ndarray) -> np.ndarray:
        sizes.append(len(rows))
        return rows * 2

    def caller(i: int) -> None:
        for j in range(200):
            number = 1000 * i + j
            assert batcher.call(j % 2, rows_of(number), send).tolist() == [[2 * number]]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(caller, range(16)))
    assert sum(sizes) == 16 * 200


def test_wrong_rows_of_one_caller_do_not_concern_the_others() -> None:
    go, batches = threading.Event(), []

    def send(rows: np.ndarray) -> np.ndarray:
        batches.append(len(rows))
        assert go.wait(30)
        if (rows < 0).any():
            raise ValueError(f"row {int(np.argmax(rows < 0))} is negative")
        return rows * 2

    batcher = Batcher(split)
    with ThreadPoolExecutor(5) as pool:
        futures = []
        for at, i in enumerate([0, 1, -1, 3, 4]):
            futures.append(pool.submit(batcher.call, "key", rows_of(i), send))
            while len(batches) + batcher.waiting("key") <= at:
                threading.Event().wait(0.001)
        go.set()
        assert [futures[at].result(30).item() for at in (0, 1, 3, 4)] == [0, 2, 6, 8]
        with pytest.raises(ValueError, match="row 0 is negative"):
            futures[2].result(30)
    assert batches == [1, 4, 1, 1, 1, 1]


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals go elsewhere")
def test_an_interrupt_concerns_nobody_else() -> None:
    """Ctrl-C comes to the main thread, which others must not wait for, neither as their leader nor in their queue."""
    scatter, batcher, inside = Scatter(), Batcher(split), threading.Event()

    def send(rows: np.ndarray) -> np.ndarray:
        inside.set()
        threading.Event().wait(30)
        return rows

    def interrupt() -> None:
        while not inside.is_set() and not batcher.waiting("key"):
            threading.Event().wait(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(batcher.call, "key", rows_of(1), scatter)
            assert scatter.begun.acquire(timeout=30)
            pool.submit(interrupt)
            with pytest.raises(KeyboardInterrupt):
                batcher.call("key", rows_of(2), send)
            second = pool.submit(batcher.call, "key", rows_of(3), scatter)
            for _ in range(2):
                scatter.go.release()
            assert [first.result(30).item(), second.result(30).item()] == [2, 6]
    finally:
        signal.signal(signal.SIGINT, before)
