"""`fit_parts`: equal bits wherever and in whichever order parts are learned, and nothing learned twice after a kill."""

from __future__ import annotations

import builtins
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hashstream as hs
from hashstream.datasets import FilePart
from hashstream.hashers import PartError, PartProgress, in_processes, remove_learners
from hashstream.hashers.serialization import from_bytes, to_bytes

ROWS = 600
METHODS: dict[str, Callable[..., Any]] = {
    "RidgeHash": lambda **more: hs.RidgeHash(24, batch_size=100, **{"random_state": 0, **more}),
    "RidgeHash[rank]": lambda **more: hs.RidgeHash(24, rank=8, **{"random_state": 0, **more}),
    "RidgeHash[center]": lambda **more: hs.RidgeHash(
        24, batch_size=100, feature_map="center", **{"random_state": 0, **more}
    ),
    "PosteriorHash": lambda **more: hs.PosteriorHash(
        24, width=16, sample_size=100, **{"random_state": 0, **more}
    ),
}


def stream(n: int = 3000, classes: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, 10) float32 of which the last half has classes that the first has not, met in no particular order."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    y[: n // 2] %= classes // 2
    means = rng.normal(size=(classes, 10))
    return (means[y] + rng.normal(size=(n, 10))).astype(np.float32), y


X, Y = stream()


def cut(size: int = ROWS) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[i : i + size], Y[i : i + size]) for i in range(0, len(X), size)]


def backwards(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    return builtins.map(function, reversed(list(tasks)))


@pytest.fixture(params=METHODS)
def hasher(request: pytest.FixtureRequest) -> Any:
    return METHODS[request.param]()


# ---- the result


def test_neither_the_map_nor_the_order_of_completion_matters(hasher: Any, tmp_path: Path) -> None:
    expected = to_bytes(hs.fit_parts(hasher, cut()))
    assert to_bytes(hs.fit_parts(hasher, cut(), map=backwards)) == expected
    with ThreadPoolExecutor(2) as pool:
        assert to_bytes(hs.fit_parts(hasher, cut(), map=pool.map)) == expected
    assert to_bytes(hs.fit_parts(hasher, cut(), work=tmp_path / "work", map=backwards)) == expected
    assert to_bytes(hs.fit_parts(hasher, [lambda part=part: part for part in cut()])) == expected


def test_processes_give_the_same_bits(tmp_path: Path) -> None:
    """By files, of which only the path is sent, and by arrays."""
    hasher, files = METHODS["PosteriorHash"](), []
    for i, (rows, labels) in enumerate(cut()):
        np.savez(tmp_path / f"{i}.npz", X=rows, y=labels)
        files.append(FilePart.of(tmp_path / f"{i}.npz"))
    expected = to_bytes(hs.fit_parts(hasher, cut()))
    with in_processes(2) as processes:
        assert to_bytes(hs.fit_parts(hasher, files, map=processes)) == expected
        assert to_bytes(hs.fit_parts(hasher, cut(), map=processes)) == expected


@pytest.mark.parametrize("method", ["RidgeHash", "RidgeHash[center]"])
def test_ridge_of_float32_equals_one_stream_bit_for_bit(method: str) -> None:
    """Where parts are whole batches: also the order of the classes, of which some come late, and the scale of rows."""
    rows = X.copy()
    rows[1234] *= 30  # much longer than the typical row
    parts = [(rows[i : i + 1000], Y[i : i + 1000]) for i in range(0, len(rows), 1000)]
    whole = METHODS[method]()
    for part in parts:
        whole.partial_fit(*part)
    assert to_bytes(hs.fit_parts(METHODS[method](), parts)) == to_bytes(whole)


def test_ridge_of_float64_equals_one_stream_up_to_rounding() -> None:
    parts = [(rows.astype(np.float64), labels) for rows, labels in cut(350)]
    merged = hs.fit_parts(METHODS["RidgeHash"](), parts)
    whole = METHODS["RidgeHash"]().partial_fit(X.astype(np.float64), Y)
    np.testing.assert_allclose(merged.gram_, whole.gram_, rtol=0, atol=1e-13 * np.abs(whole.gram_).max())
    np.testing.assert_allclose(merged.projection_, whole.projection_, rtol=0, atol=1e-10)
    assert merged.classes_ == whole.classes_


def test_posterior_has_the_sums_and_the_quality_of_one_stream() -> None:
    merged = hs.fit_parts(METHODS["PosteriorHash"](drift=False), cut())
    whole = METHODS["PosteriorHash"](drift=False).partial_fit(X, Y)
    assert merged.n_seen_ == len(X)
    assert merged.sum_weights_.sum() == pytest.approx(len(X))
    assert merged.sample is None  # the parameters are those that were given
    half = slice(0, len(X), 2), slice(1, len(X), 2)
    scores = []
    for one in (merged, whole):
        codes = one.transform(X)
        scores.append(
            hs.evaluate.retrieval(codes[half[0]][:300], Y[half[0]][:300], codes[half[1]], Y[half[1]])["mAP"]
        )
    assert scores[0] > scores[1] - 0.03
    assert merged.partial_fit(X[:700], Y[:700]).n_seen_ == len(X) + 700


def test_the_given_hasher_stays_as_it_is(hasher: Any) -> None:
    before = to_bytes(hasher)
    merged = hs.fit_parts(hasher, cut())
    assert to_bytes(hasher) == before
    assert merged.get_params() == hasher.get_params()
    loaded = from_bytes(to_bytes(merged), "a model")
    assert np.array_equal(loaded.transform(X), merged.transform(X))


def test_a_started_hasher_is_where_learners_begin() -> None:
    started = METHODS["RidgeHash[center]"]().started(X[-200:])
    merged = hs.fit_parts(started, cut())
    assert np.array_equal(merged.feature_map_.mean_, started.feature_map_.mean_)


def test_rows_and_parts_without_labels_are_left_out(hasher: Any) -> None:
    some = [None if i % 3 == 0 else int(label) for i, label in enumerate(Y)]
    parts: list[tuple[Any, Any]] = [(X[:ROWS], [None] * ROWS), (X, some), (X[:5], [None] * 5)]
    merged = hs.fit_parts(hasher, parts)
    assert merged.n_seen_ == len(X) - len(X[::3])


def test_few_rows_are_enough() -> None:
    for method in METHODS.values():
        merged = hs.fit_parts(method(), [(X[i : i + 1], Y[i : i + 1]) for i in range(7)])
        assert merged.n_seen_ == 7
        assert merged.transform(X).shape == (len(X), 3)


# ---- kept learners


class Counting:
    """A map that notes the parts that it is given, and may stop after some."""

    def __init__(self, stop: int = 1 << 30) -> None:
        self.seen: list[str] = []
        self.stop = stop

    def __call__(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            if len(self.seen) == self.stop:
                raise KeyboardInterrupt
            self.seen.append(task.name)
            yield function(task)


def test_the_same_call_learns_only_what_is_missing(hasher: Any, tmp_path: Path) -> None:
    expected = to_bytes(hs.fit_parts(hasher, cut()))
    first, second, third = Counting(stop=3), Counting(), Counting()
    with pytest.raises(KeyboardInterrupt):
        hs.fit_parts(hasher, cut(), work=tmp_path, map=first)
    assert to_bytes(hs.fit_parts(hasher, cut(), work=tmp_path, map=second)) == expected
    assert (first.seen, second.seen) == (["part 0", "part 1", "part 2"], ["part 3", "part 4"])
    news: list[PartProgress] = []
    again = hs.fit_parts(hasher, cut(), work=tmp_path, map=third, progress=news.append)
    assert to_bytes(again) == expected
    assert not third.seen
    assert [(one.part, one.done, one.kept) for one in news] == [(i, True, True) for i in range(5)]


def test_a_learner_of_something_else_is_not_taken(tmp_path: Path) -> None:
    make = METHODS["RidgeHash"]
    hs.fit_parts(make(), cut(), work=tmp_path)
    changed = cut()
    changed[2] = (changed[2][0], np.roll(changed[2][1], 1))
    for hasher, parts, rows, learned in (
        (make(), changed, None, 1),
        (make(random_state=1), cut(), None, 5),
        (hs.RidgeHash(24, batch_size=100, ridge=2.0, random_state=0), cut(), None, 5),
        (make(), cut(), 300, 5),
    ):
        count = Counting()
        found = hs.fit_parts(hasher, parts, work=tmp_path, map=count, rows=rows)
        assert len(count.seen) == learned
        assert to_bytes(found) == to_bytes(hs.fit_parts(hasher, parts, rows=rows))


@pytest.mark.parametrize("damage", [lambda raw: raw[:-9], lambda raw: raw[:-1] + b"\x7f", lambda raw: b""])
def test_a_damaged_learner_is_learned_again(
    damage: Callable[[bytes], bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hasher = METHODS["RidgeHash"]()
    expected = to_bytes(hs.fit_parts(hasher, cut(), work=tmp_path))
    (file,) = tmp_path.glob("learner-part-3-*")
    sound = file.read_bytes()
    file.write_bytes(damage(sound))
    count = Counting()
    with caplog.at_level(logging.WARNING, "hashstream"):
        assert to_bytes(hs.fit_parts(hasher, cut(), work=tmp_path, map=count)) == expected
    assert count.seen == ["part 3"]
    assert "part 3 is learned again" in caplog.text
    assert file.read_bytes() == sound


def test_files_are_known_by_size_and_time(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "a.labels.npy", Y)
    part = FilePart.of(tmp_path / "a.npy")
    before = part.fingerprint()
    assert FilePart.of(tmp_path / "a.npy", text=True).fingerprint() != before
    os.utime(tmp_path / "a.labels.npy", ns=(1, 1))
    assert part.fingerprint() != before
    before = part.fingerprint()
    os.utime(tmp_path / "a.npy", ns=(1, 1))
    assert part.fingerprint() != before


def test_a_file_that_changes_while_it_is_learned_is_learned_again(tmp_path: Path) -> None:
    for i, (rows, labels) in enumerate(cut(1500)):
        np.savez(tmp_path / f"{i}.npz", X=rows, y=labels)
    files = [FilePart.of(tmp_path / f"{i}.npz") for i in range(2)]

    def replaced(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            learned = function(task)
            np.savez(tmp_path / "1.npz", X=X[:900], y=Y[:900])
            yield learned

    hs.fit_parts(METHODS["RidgeHash"](), files, work=tmp_path / "work", map=replaced)
    count = Counting()
    again = hs.fit_parts(METHODS["RidgeHash"](), files, work=tmp_path / "work", map=count)
    assert count.seen == [str(tmp_path / "1.npz")]
    assert again.n_seen_ == 2400


def test_the_folder_is_removed_as_told_and_nothing_else(tmp_path: Path) -> None:
    hasher, work = METHODS["RidgeHash"](), tmp_path / "work"
    hs.fit_parts(hasher, cut(), work=work, keep=False)
    assert not work.exists()
    hs.fit_parts(hasher, cut(), work=work)
    (work / "notes.txt").write_text("mine")
    (work / "learner-x.safetensors.0123.part").write_text("of a process that was killed")
    remove_learners(work)
    assert [path.name for path in work.iterdir()] == ["notes.txt"]


PROGRAM = """
import sys, time
import hashstream as hs
from hashstream.hashers import in_processes
sys.path.insert(0, sys.argv[2])
from test_parts import METHODS, cut

def slow():
    time.sleep(600)

if __name__ == "__main__":
    with in_processes(2) as processes:
        hs.fit_parts(METHODS["RidgeHash"](), [cut(1500)[0], slow], work=sys.argv[1], map=processes)
"""


def test_a_kill_leaves_finished_learners_and_no_process(tmp_path: Path) -> None:
    program, work = tmp_path / "program.py", tmp_path / "work"
    program.write_text(PROGRAM)
    child = subprocess.Popen(
        [sys.executable, program, work, str(Path(__file__).parent)], start_new_session=True
    )
    try:
        while not list(work.glob("learner-*.safetensors")):
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        while True:  # workers end by themselves
            try:
                os.killpg(child.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.05)
    finally:
        if child.poll() is None:
            child.kill()
    count = Counting()
    merged = hs.fit_parts(METHODS["RidgeHash"](), cut(1500), work=work, map=count)
    assert count.seen == ["part 1"]
    assert to_bytes(merged) == to_bytes(hs.fit_parts(METHODS["RidgeHash"](), cut(1500)))


# ---- progress and mistakes


def test_progress_within_a_part(tmp_path: Path) -> None:
    news: list[PartProgress] = []
    hs.fit_parts(METHODS["RidgeHash"](), cut(), rows=200, names=list("abcde"), progress=news.append)
    first = [(one.name, round(one.share, 2), one.done) for one in news if one.part == 0]
    assert first == [("a", 0.33, False), ("a", 0.67, False), ("a", 1.0, False), ("a", 1.0, True)]


@pytest.mark.parametrize("method", ["RidgeHash", "PosteriorHash"])
def test_an_error_names_the_part_and_its_rows(method: str) -> None:
    bad = X[:ROWS].copy()
    bad[450, 3] = np.nan
    for parts, message in (
        ([*cut(), (bad, Y[:ROWS])], "part 5, rows 400 to 599: .*NaN"),
        ([*cut(), (X[:, :4], Y)], "part 5, rows 0 to 199: .*features"),
        ([*cut(), (X[:9], Y[:8])], "part 5: X has 9 rows, but y has 8"),
        ([*cut(), lambda: 1 / 0], "part 5: division by zero"),
        ([(bad, Y[:ROWS])], "part 0, rows 400 to 599: .*NaN"),
    ):
        with pytest.raises(PartError, match=message):
            hs.fit_parts(METHODS[method](), parts, rows=200)


def test_mistakes_are_answered_with_a_sentence(tmp_path: Path) -> None:
    hasher = METHODS["RidgeHash"]()
    with pytest.raises(ValueError, match=r"cannot be merged\. Use RidgeHash or PosteriorHash"):
        hs.fit_parts(hs.FCOH(24), cut())
    with pytest.raises(ValueError, match="there is no part"):
        hs.fit_parts(hasher, [])
    with pytest.raises(ValueError, match="has learned 100 rows already"):
        hs.fit_parts(METHODS["RidgeHash"]().partial_fit(X[:100], Y[:100]), cut())
    with pytest.raises(ValueError, match="needs a random_state"):
        hs.fit_parts(hs.RidgeHash(24), cut(), work=tmp_path)
    with pytest.raises(ValueError, match="one name per part"):
        hs.fit_parts(hasher, cut(), names=["a"])
    with pytest.raises(ValueError, match="no row of any part has a label"):
        hs.fit_parts(hasher, [(X[:5], [None] * 5)])
    with pytest.raises(ValueError, match="map has returned no learner of part 0"):
        hs.fit_parts(hasher, cut(), map=lambda function, tasks: [])
    with pytest.raises(PartError, match="part 0, rows 0 to 2999: RidgeHash requires y"):
        hs.fit_parts(hasher, [(X, None)])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("x.npz", "parts must be a list of parts, not 'x.npz'"),
        (Path("x.npz"), "parts must be a list"),
        (None, "parts must be a list of parts, not None"),
        (["x.npz"], r"part 0 is 'x.npz': a part is .* FilePart.of\(path\)"),
        ((np.ones((5, 2)), np.arange(5)), "part 0 is ndarray"),
        ([(np.ones((5, 2)), np.arange(5)), None], "part 1 is NoneType"),
        ([(1, 2, 3)], "part 0 is tuple"),
    ],
)
def test_what_is_no_part_is_said(wrong: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        hs.fit_parts(hs.RidgeHash(n_bits=8, random_state=0), wrong)
