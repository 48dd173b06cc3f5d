"""Streams with a long tail in bursts, and features that turn slowly: against what each protocol promises."""

from __future__ import annotations

import numpy as np
import pytest
from recorder import SEED, Recorder, mean_ap, rows_of, run_stream

from hashstream.evaluate import protocols
from hashstream.evaluate.protocols import Bursts, SlowDrift
from hashstream.evaluate.protocols.bursts import tail
from hashstream.evaluate.protocols.slow_drift import pairs_of


@pytest.mark.parametrize("topics", [3, 10])
def test_topics_come_one_after_the_other_twice(data: protocols.PreparedDataset, topics: int) -> None:
    hasher, checkpoints = run_stream(Bursts(topics), data)
    X, y = hasher.stream
    half, end = (checkpoint.n_train for checkpoint in checkpoints)
    assert half == end // 2 == len(y) // 2
    orders = []
    for visit in (y[:half], y[half:]):
        last = {label: np.flatnonzero(visit == label)[-1] for label in set(visit)}
        groups, begin = [], 0
        while begin < len(visit):  # a topic ends where no class of it comes again
            stop = begin + 1
            while stop < (until := max(last[label] for label in visit[begin:stop]) + 1):
                stop = until
            groups.append(frozenset(visit[begin:stop]))
            begin = stop
        orders.append(groups)
    assert orders[0] == orders[1]
    assert len(orders[0]) == min(topics, 5)  # of ten classes
    assert set().union(*orders[0]) == set(data.y)
    first = [label for label in y[:half] if label in orders[0][0]]
    assert first != sorted(first)  # shuffled within a topic
    # The same rows as without topics, and the same database.
    plain, still = run_stream(Bursts(1), data)
    shuffled = rows_of(data, plain.stream[0])
    assert sorted(shuffled) == sorted(rows_of(data, X))
    assert sorted(shuffled[:half]) == sorted(rows_of(data, X[:half]))
    assert [checkpoint.n_train for checkpoint in still] == [half, end]
    for mine, other in zip(hasher.encoded, plain.encoded, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_one_topic_is_stationary() -> None:
    """Rows of rare classes come as early as those of frequent ones, in the stream and in the database."""
    y = np.repeat(np.arange(20), 1000)
    X = np.arange(20_000.0)[:, None] + np.zeros(2)
    data = protocols.PreparedDataset(
        "even", X, y, protocols.Setting(per_class=10, stream=5_000, every=500), "even"
    )
    task, recorder = Bursts(1).task(data, SEED), Recorder()
    recorder.partial_fit(task.X, task.y)
    task.judge(recorder, len(task.y))
    database = y[recorder.encoded[0][:, 0].astype(int)]
    for labels in (task.y, database):
        sizes = np.bincount(labels)
        assert sizes.max() > 7 * sizes.min()  # 20^0.7 is 8.1
        rare = np.flatnonzero(np.isin(labels, np.argsort(sizes)[:10]))
        assert abs(rare.mean() / len(labels) - 0.5) < 4 / np.sqrt(12 * len(rare))  # four standard errors


def test_classes_of_bursts_have_a_long_tail(data: protocols.PreparedDataset) -> None:
    split, available = data.split(SEED), {label: (data.y == label).sum() - 8 for label in set(data.y)}
    hasher, checkpoints = run_stream(Bursts(), data)
    wanted = [max(5, round(np.median(list(available.values())) * rank**-0.7)) for rank in range(1, 11)]
    assert tail(np.array(list(available.values())), 600).tolist() == wanted
    y, searched = hasher.stream[1], data.y[rows_of(data, hasher.encoded[0])]
    of_stream, of_database = (
        {label: (labels == label).sum() for label in available} for labels in (y, searched)
    )
    sizes = sorted(of_stream.values(), reverse=True)
    assert all(found <= size for found, size in zip(sizes, wanted, strict=True))
    assert sizes[3:] == wanted[3:]  # the largest may give rows, so that there are as many for every seed
    assert sizes[0] > 2 * sizes[4]
    factor = min(available[label] / of_stream[label] for label in available)
    for label in available:
        assert of_stream[label] <= of_database[label] <= available[label]
        assert of_database[label] == pytest.approx(factor * of_stream[label], abs=1)
    assert (
        set(rows_of(data, hasher.stream[0])) <= set(rows_of(data, hasher.encoded[0])) <= set(split.retrieval)
    )
    np.testing.assert_array_equal(rows_of(data, hasher.encoded[1]), split.queries)
    queries = data.X[split.queries], data.y[split.queries]
    expected = mean_ap(hasher, queries, (hasher.encoded[-2], searched))
    assert checkpoints[-1].scores["mAP"] == pytest.approx(expected)


def test_bursts_are_as_long_for_every_seed() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), [11, 12, 13, 14, 40, 60, 80, 100, 200, 300, 400, 500])
    X = rng.standard_normal((len(y), 3))
    for stream in (300, 1000):
        data = protocols.PreparedDataset(
            "odd", X, y, protocols.Setting(per_class=10, stream=stream, every=20)
        )
        lengths, largest = set(), set()
        for seed in range(20):
            labels = Bursts().task(data, seed).y
            sizes = np.bincount(labels, minlength=12)
            assert (sizes >= np.minimum(5, np.bincount(y) - 10)).all()
            assert (sizes <= np.bincount(y) - 10).all()
            lengths.add(len(labels))
            largest.add(int(sizes.argmax()))
        assert lengths == {Bursts().points(data)[-1]}
        assert len(largest) > 1


def by_the_book(X: np.ndarray, pairs: np.ndarray, angles: list[float]) -> np.ndarray:
    """Each row rotated by its angle in the plane of each pair of features, one after the other."""
    found = X.astype(np.float64)
    for row, angle in zip(found, angles, strict=True):
        for a, b in pairs.T:
            z = complex(row[a], row[b]) * np.exp(1j * angle)
            row[a], row[b] = z.real, z.imag
    return found


@pytest.mark.parametrize("turns", [1.0, 2.5])
@pytest.mark.parametrize("features", [14, 13])
def test_slow_drift(data: protocols.PreparedDataset, turns: float, features: int) -> None:
    data = protocols.PreparedDataset("letters", data.X[:, :features], data.y, data.setting)
    kept = data.X.copy()
    hasher, checkpoints = run_stream(SlowDrift(turns), data)
    split, pairs = data.split(SEED), pairs_of(features, SEED)
    X, y = hasher.stream
    assert len(set(pairs.ravel())) == pairs.size == 14 - 2 * (features % 2)
    np.testing.assert_array_equal(y, data.y[split.stream])
    np.testing.assert_array_equal(X[0], data.X[split.stream[0]])
    angles = [turns * np.pi / 2 * row / 599 for row in range(600)]
    np.testing.assert_allclose(X, by_the_book(data.X[split.stream], pairs, angles), atol=1e-5)
    assert [checkpoint.n_train for checkpoint in checkpoints] == [100, 200, 300, 400, 500, 600]
    for at, checkpoint in enumerate(checkpoints):
        replay = Recorder()
        for piece in hasher.learned[: at + 1]:
            replay.partial_fit(*piece)
        database, queries = hasher.encoded[2 * at : 2 * at + 2]
        for seen, rows in ((database, split.retrieval), (queries, split.queries)):
            now = [angles[checkpoint.n_train - 1]] * len(rows)
            np.testing.assert_allclose(seen, by_the_book(data.X[rows], pairs, now), atol=1e-5)
        expected = mean_ap(replay, (queries, data.y[split.queries]), (database, data.y[split.retrieval]))
        assert checkpoint.scores["mAP"] == pytest.approx(expected)
    before, after = data.X[split.retrieval], hasher.encoded[-2]
    np.testing.assert_allclose(before @ before.T, after @ after.T, rtol=1e-4, atol=1e-4)  # as hard as it was
    np.testing.assert_array_equal(data.X, kept)


def test_slow_drift_at_other_checkpoints_and_its_area(data: protocols.PreparedDataset) -> None:
    _, whole = run_stream(SlowDrift(), data)
    _, (between, end) = run_stream(SlowDrift(), data, (550, 600))
    assert end.scores["mAP"] == whole[-1].scores["mAP"]
    assert between.scores["mAP"] != end.scores["mAP"]
    curves = {"mAP": {100: 0.4, 200: 0.8, 300: 0.6}}
    assert SlowDrift().run_metrics(curves, [100, 200, 300]) == {"AUC of mAP": pytest.approx(0.6)}
