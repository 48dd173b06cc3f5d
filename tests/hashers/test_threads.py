"""Learning gives the same bits in every thread, changes nobody's limits, and is seen whole or not at all."""

from __future__ import annotations

import copy
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import hashstream as hs
from hashstream.checks import class_stream, state_of
from hashstream.hashers import threads
from hashstream.hashers.threads import lock_of, n_threads, on_one_thread

METHODS = sorted(hs.methods())


def blas_threads() -> list[int]:
    """As the libraries themselves say."""
    blas = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library.get_num_threads() for library in blas]


def in_thread(work: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.fixture
def two_threads() -> Iterator[list[int]]:
    """Two BLAS threads, set by the main thread: threadpoolctl then ignores what other threads set."""
    with threadpool_limits(2, user_api="blas"):
        if not (found := blas_threads()) or set(found) != {2}:
            pytest.skip("no BLAS library whose threads can be set")
        yield found


class Watching(hs.LSH):
    """Notes how many BLAS threads there are while it learns; `meanwhile` is called in the middle."""

    def _learn(self, X: np.ndarray, labels: object) -> int:
        self.meanwhile()
        noted.append(blas_threads())
        return 1

    meanwhile = staticmethod(lambda: None)


noted: list[list[int]] = []


@pytest.fixture(autouse=True)
def _nothing_noted() -> None:
    noted.clear()


# ---- the same bits


@pytest.fixture(scope="module")
def digests() -> dict[int, dict[str, dict[str, str]]]:
    """Number of BLAS threads -> where it was learned -> method -> digest."""
    script = Path(__file__).with_name("learn_everywhere.py")
    children = {
        n: subprocess.Popen(
            [sys.executable, str(script), str(n)],
            env={**os.environ, "OPENBLAS_NUM_THREADS": str(n), "OMP_NUM_THREADS": str(n)},
            stdout=subprocess.PIPE,
        )
        for n in (1, 2, 4)
    }
    return {n: json.loads(child.communicate(timeout=300)[0]) for n, child in children.items()}


@pytest.mark.parametrize("name", METHODS)
def test_every_thread_learns_the_same_bits(name: str, digests: dict[int, dict[str, dict[str, str]]]) -> None:
    wanted = digests[1]["main"][name]
    other = [(n, where) for n, places in digests.items() for where in places if places[where][name] != wanted]
    assert not other, f"other bits with (BLAS threads, where): {other}"


@pytest.mark.parametrize("where", ["main", "worker"])
def test_the_limit_holds_in_every_thread_and_is_put_back(where: str, two_threads: list[int]) -> None:
    def learn() -> None:
        Watching(8).partial_fit(np.zeros((30, 4)))

    learn() if where == "main" else in_thread(learn)
    assert noted == [[1] * len(two_threads)]
    assert blas_threads() == two_threads


def test_how_many_threads_a_product_may_use(two_threads: list[int]) -> None:
    assert n_threads() == 2
    assert on_one_thread(n_threads) == 1
    with threadpool_limits(1, user_api="blas"):
        assert n_threads() == 1


def test_two_learners_that_overlap(two_threads: list[int]) -> None:
    """The first to begin ends first: the other still learns on one thread, and the last one puts the limit back."""
    both = threading.Barrier(2)
    first_done = threading.Event()

    class First(Watching):
        meanwhile = staticmethod(lambda: both.wait(10))

    class Second(Watching):
        meanwhile = staticmethod(lambda: (both.wait(10), first_done.wait(10)))

    def first() -> None:
        First(8).partial_fit(np.zeros((30, 4)))
        first_done.set()

    with ThreadPoolExecutor(2) as pool:
        for one in (pool.submit(first), pool.submit(Second(8).partial_fit, np.zeros((30, 4)))):
            one.result()
    assert noted == [[1] * len(two_threads)] * 2
    assert blas_threads() == two_threads


def disturbed_once(*args: Any, **parameters: Any) -> Watching:
    """A hasher while whose first learning somebody sets another limit."""
    limits = []

    class Disturbed(Watching):
        @staticmethod
        def meanwhile() -> None:
            if not limits:
                limits.append(threadpool_limits(3, user_api="blas"))

    return Disturbed(*args, **parameters)


def test_a_limit_that_somebody_sets_meanwhile(two_threads: list[int]) -> None:
    """What was learned with it is learned again, and their limit stays."""
    hasher = disturbed_once(8).partial_fit(np.zeros((30, 4)))
    assert noted == [[3] * len(two_threads), [1] * len(two_threads)]
    assert (hasher.version_, hasher.n_seen_) == (1, 30)
    assert blas_threads() == [3] * len(two_threads)


def test_a_limit_that_somebody_sets_over_and_over(
    two_threads: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    class Disturbed(Watching):
        meanwhile = staticmethod(lambda: threadpool_limits(2, user_api="blas"))

    with caplog.at_level(logging.WARNING, "hashstream"):
        hasher = Disturbed(8).partial_fit(np.zeros((30, 4)))
    assert hasher.n_seen_ == 30
    assert "may give a model that differs by rounding" in caplog.text


def test_a_generator_that_was_given_is_drawn_from_once(two_threads: list[int]) -> None:
    X = np.ones((30, 4))
    twice, once = np.random.default_rng(7), np.random.default_rng(7)
    disturbed_W = disturbed_once(8, random_state=twice).partial_fit(X).projection_
    assert disturbed_W.tobytes() == Watching(8, random_state=once).partial_fit(X).projection_.tobytes()
    assert twice.bit_generator.state == once.bit_generator.state


class FakeLibrary:
    """With a number of threads per thread of the process, as MKL and OpenMP have."""

    per_thread = True

    def __init__(self) -> None:
        self.local = threading.local()

    def get(self) -> int:
        return getattr(self.local, "n", 4)

    def set(self, n: int) -> None:
        self.local.n = n


def test_a_library_with_a_limit_per_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary()
    monkeypatch.setattr(threads, "_found", {"fake": library})
    assert in_thread(lambda: (on_one_thread(library.get), library.get())) == (1, 4)
    assert (on_one_thread(lambda: (library.get(), in_thread(library.get))), library.get()) == ((1, 4), 4)


def test_a_library_that_is_loaded_while_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    monkeypatch.setattr(threads, "_found", found)
    library, calls = FakeLibrary(), []

    def work() -> int:
        found["fake"] = library
        calls.append(library.get())
        return calls[-1]

    assert on_one_thread(work) == 1
    assert calls == [4, 1]


# ---- interrupts


def test_an_interrupt_anywhere_leaves_nothing_behind(two_threads: list[int]) -> None:
    """KeyboardInterrupt wherever the interpreter may run a signal's handler around learning, one place after the other:
    as a function is entered or left, and after a call of a C function."""
    X, y = class_stream(n=60)
    watched = {threads.__file__, sys.modules[hs.OnlineHasher.__module__].__file__}
    hasher = hs.FCOH(8, random_state=0).partial_fit(X[:30], y[:30])
    before = state_of(hasher)
    after = state_of(copy.deepcopy(hasher).partial_fit(X[30:], y[30:]))
    interrupted = 0
    while True:
        events = 0

        def profile(frame: Any, event: str, _: Any, last: int = interrupted + 1) -> None:
            nonlocal events
            if frame.f_code.co_filename in watched and event in ("call", "return", "c_return"):
                events += 1
                if events == last:
                    raise KeyboardInterrupt

        learner = copy.deepcopy(hasher)
        sys.setprofile(profile)
        try:
            learner.partial_fit(X[30:], y[30:])
            break
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.setprofile(None)
        assert state_of(learner) in (before, after)
        for lock in (lock_of(learner), threads._lock):
            assert in_thread(lambda lock=lock: lock.acquire(timeout=1) and lock.release() is None)
        assert blas_threads() == two_threads
        on_one_thread(lambda: noted.append(blas_threads()))
        assert noted.pop() == [1] * len(two_threads)
        assert blas_threads() == two_threads
    assert interrupted > 50
    assert state_of(learner) == after


# ---- whole versions


def small(name: str) -> hs.OnlineHasher:
    kind = hs.methods()[name]
    sketch = {"sketch_size": 24} if name in ("SketchHash", "FROSH") else {}
    return kind(n_bits=8, random_state=0, batch_size=20, **sketch)


def readable(hasher: hs.OnlineHasher, X: np.ndarray) -> tuple[bytes, bytes, dict[str, Any]]:
    return hasher.transform(X).tobytes(), hasher.decision_function(X).tobytes(), state_of(hasher)


@pytest.mark.parametrize("call", ["partial_fit", "fit"])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_readers_see_whole_versions(name: str, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that comes before any of the assignments of a call sees the model as it was before the call."""
    X, y = class_stream(n=120)
    hasher = small(name).partial_fit(X[:60], y[:60])
    before = readable(hasher, X)
    seen: list[Any] = []
    reading = False

    def assign(self: Any, attribute: str, value: object) -> None:
        nonlocal reading
        if not reading:
            reading = True
            seen.append(readable(hasher, X))
            reading = False
        object.__setattr__(self, attribute, value)

    monkeypatch.setattr(type(hasher), "__setattr__", assign, raising=False)
    getattr(hasher, call)(X[60:], y[60:])
    monkeypatch.undo()
    assert len(seen) > 5
    assert all(one == before for one in seen)
    assert hasher.n_seen_ == {"partial_fit": 120, "fit": 60}[call]


def test_a_projection_that_is_solved_while_another_thread_learns() -> None:
    X, y = class_stream(n=120)
    meanwhile = []

    class Interrupted(hs.RidgeHash):
        def _solve(self) -> np.ndarray:
            if meanwhile:
                meanwhile.pop()()
            return super()._solve()

    hasher, twin = (
        kind(8, random_state=0).partial_fit(X[:60], y[:60]) for kind in (Interrupted, hs.RidgeHash)
    )
    old = twin.projection_
    new = twin.partial_fit(X[60:], y[60:]).projection_
    meanwhile.append(lambda: in_thread(lambda: hasher.partial_fit(X[60:], y[60:])))
    assert hasher.projection_.tobytes() == old.tobytes()
    assert hasher.projection_.tobytes() == new.tobytes()


def test_a_loaded_projection_is_solved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = class_stream(n=60)
    hs.save(hs.RidgeHash(8, random_state=0).fit(X, y), tmp_path / "ridge")
    loaded, solve, calls = hs.load(tmp_path / "ridge"), hs.RidgeHash._solve, []
    monkeypatch.setattr(hs.RidgeHash, "_solve", lambda self: calls.append(1) or solve(self))
    assert loaded.transform(X).tobytes() == loaded.transform(X).tobytes()
    assert len(calls) == 1


# ---- several threads learn into one hasher


class Slow(hs.FCOH):
    """Lets another thread, or the handler of a signal, come in between."""

    def _learn(self, X: np.ndarray, labels: Any) -> int:
        if between:
            between.pop()()
        return super()._learn(X, labels)


between: list[Any] = []


def test_batches_of_two_threads_are_learned_one_after_the_other() -> None:
    X, y = class_stream(n=90)
    hasher, expected = Slow(8, random_state=0), hs.FCOH(8, random_state=0)
    for start in range(0, 90, 30):
        expected.partial_fit(X[start : start + 30], y[start : start + 30])
    hasher.partial_fit(X[:30], y[:30])
    other = threading.Thread(target=lambda: hasher.partial_fit(X[60:], y[60:]))
    between.append(lambda: (other.start(), other.join(0.2)))
    hasher.partial_fit(X[30:60], y[30:60])
    other.join()
    assert state_of(hasher) == state_of(expected)


def test_a_signal_handler_that_learns() -> None:
    """What the handler learned is not lost: the batch that it interrupted is learned on top."""
    X, y = class_stream(n=90)
    hasher, expected = Slow(8, random_state=0), hs.FCOH(8, random_state=0)
    for rows in (slice(30), slice(60, 90), slice(30, 60)):
        expected.partial_fit(X[rows], y[rows])
    hasher.partial_fit(X[:30], y[:30])
    between.append(lambda: hasher.partial_fit(X[60:], y[60:]))
    hasher.partial_fit(X[30:60], y[30:60])
    assert state_of(hasher) == state_of(expected)


def test_locks_are_not_part_of_a_hasher() -> None:
    X, y = class_stream(n=60)
    hasher = hs.FCOH(8, random_state=0).partial_fit(X, y)
    copied = copy.deepcopy(hasher)
    assert lock_of(copied) is not lock_of(hasher)
    assert lock_of(hasher) is lock_of(hasher)
    keys = id(hasher), id(copied)
    del hasher, copied
    assert not any(key in threads._locks for key in keys)
