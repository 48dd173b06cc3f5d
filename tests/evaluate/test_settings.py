"""The size of an experiment: queries, stream and classes as asked for, and names that tell settings apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recorder import SEED, rows_of, run_stream

from hashstream import LSH, datasets, evaluate
from hashstream.evaluate import protocols
from hashstream.evaluate.protocols import PROTOCOLS, Setting, Validation, setting_named, setting_of

SIZES = [300, 150, 80, 40, 20, 12, 6, 3, 1]
"""A long tail."""


@pytest.fixture(scope="module")
def tail() -> evaluate.PreparedDataset:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    X = 2 * rng.standard_normal((len(SIZES), 14))[y] + rng.standard_normal((len(y), 14))
    return evaluate.PreparedDataset.of(datasets.from_arrays(X, y, name="tail"))


@pytest.mark.parametrize("protocol", [*PROTOCOLS.values(), Validation()], ids=lambda protocol: protocol.kind)
def test_rare_classes_are_searched_and_not_asked_for(
    tail: evaluate.PreparedDataset, protocol: protocols.Protocol
) -> None:
    assert tail.dataset == "tail"  # the usual setting: nothing was asked for
    assert tail.setting.per_class == 1
    np.testing.assert_array_equal(tail.asked, np.arange(6))
    hasher, checkpoints = run_stream(protocol, tail)
    assert checkpoints[-1].n_train == protocol.points(tail)[-1]
    for checkpoint in checkpoints:
        assert all(np.isfinite(checkpoint.scores[name]) for name in protocol.metrics())
    split = tail.split(SEED)
    assert set(tail.y[split.queries]) == set(range(6))
    assert set(tail.y[split.retrieval]) == set(range(9))
    if protocol.kind == "paper":
        encoded = [rows_of(tail, X) for X in hasher.encoded[:2]]
        assert {6, 7, 8} <= set(tail.y[encoded[0]])
        assert set(tail.y[encoded[1]]) == set(range(6))


def test_a_split_leaves_out_small_classes_and_draws_as_before() -> None:
    y = np.repeat([0, 1, 2], [30, 4, 30])
    part = datasets.split(y, per_class=5, stream=20, min_class=5, seed=3)
    assert np.bincount(y[part.queries], minlength=3).tolist() == [5, 0, 5]
    np.testing.assert_array_equal(np.sort(np.concatenate([part.queries, part.retrieval])), np.arange(64))
    whole = datasets.split(y[y != 1], per_class=5, stream=20, seed=3)
    np.testing.assert_array_equal(y[part.queries], y[y != 1][whole.queries])
    with pytest.raises(ValueError, match="with min_class=5 it is not asked for"):
        datasets.split(y, per_class=5, stream=20)
    with pytest.raises(ValueError, match="no class has as many rows, the largest has 30"):
        datasets.split(y, per_class=5, stream=20, min_class=31)


def test_what_is_asked_for() -> None:
    digits = datasets.load("digits").y  # ten classes of 174 to 183 rows
    assert setting_of("digits", digits, queries=105) == Setting(10, 1500, 100)  # equally many of each
    assert setting_of("digits", digits, stream=600) == Setting(
        20, 600, 100
    )  # checkpoints stay where they are
    assert setting_of("digits", digits, stream=333).checkpoints == (*range(34, 333, 34), 333)
    assert setting_of("digits", digits, queries=800) == Setting(80, 990, 99)  # fewer rows are left to learn
    assert setting_of("digits", digits, min_class=180).min_class == 180
    y = np.repeat(np.arange(len(SIZES)), SIZES)
    assert setting_of("tail", y) == Setting(1, 600, 60, 10)
    assert setting_of("tail", y, min_class=3) == Setting(1, 600, 60, 3)
    assert setting_of("tail", y, queries=60) == Setting(15, 550, 55, 40)  # half of a class, at most
    assert setting_of("tail", y, queries=60, min_class=100) == Setting(30, 550, 55, 100)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"queries": 4}, "each of 6 classes of tail needs at least one: ask for 6 or more"),
        ({"queries": 450}, "tail has enough rows for 150"),
        ({"stream": 607}, "stream is 607: tail has 606 rows that are not queries"),
        ({"min_class": 301}, "no class of tail has 301 rows, the largest has 300"),
        ({"stream": 0}, "stream must be at least 1, not 0"),
        ({"stream": 1.5}, "stream must be a whole number, not 1.5"),
        ({"min_class": "x"}, "min_class must be a whole number, not 'x'"),
        ({"queries": True}, "queries must be a whole number, not True"),
    ],
)
def test_what_the_data_cannot_have(asked: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        setting_of("tail", np.repeat(np.arange(len(SIZES)), SIZES), **asked)


def test_numbers_of_numpy_are_taken_as_those_of_python() -> None:
    y = np.repeat(np.arange(len(SIZES)), SIZES)
    asked = {"queries": 60, "stream": 500, "min_class": 100}
    as_numpy = {name: np.int64(value) for name, value in asked.items()}
    assert setting_named("tail", y, **as_numpy) == setting_named("tail", y, **asked)
    assert all(type(value) is int for value in vars(setting_of("tail", y, **as_numpy)).values())


def test_names_have_what_differs_from_the_usual_setting() -> None:
    digits = datasets.load("digits").y
    for asked, name in (
        ({"queries": 200, "stream": 1500, "min_class": 100}, "digits"),
        ({"queries": 100}, "digits[queries=100]"),
        ({"queries": 100, "stream": 500}, "digits[queries=100,stream=500]"),
        ({"queries": 109}, "digits[queries=100]"),  # those that are drawn, equally many of each class
        ({"stream": 1500, "min_class": 180}, "digits[min_class=180]"),
    ):
        assert setting_named("digits", digits, **asked)[0] == name
        assert protocols.plain_name(name) == "digits"


def test_an_option_that_another_one_needs() -> None:
    y = np.repeat(np.arange(len(SIZES)), SIZES)
    with pytest.raises(ValueError, match="or set a larger min_class"):
        setting_named("tail", y, queries=4)
    assert setting_named("tail", y, queries=4, min_class=80) == (
        "tail[queries=3,min_class=80]", Setting(1, 600, 60, 80),
    )  # fmt: skip


def test_classes_that_are_all_small() -> None:
    y = np.repeat(np.arange(20), 5)
    with pytest.raises(
        ValueError, match=r"the largest has 5: set min_class \(of `bench` and `paper`: --min-class\)"
    ):
        setting_named("small", y)
    with pytest.raises(ValueError, match="no two rows of small share a label"):
        setting_named("small", np.arange(20), min_class=2)
    assert setting_named("small", y, min_class=5) == ("small[min_class=5]", Setting(1, 80, 8))


def test_rows_of_two_settings_share_a_file_and_nothing_else(tmp_path: Path) -> None:
    loaded = datasets.load("digits")
    results = evaluate.Results(tmp_path / "results.csv")
    jobs = evaluate.jobs({"LSH": LSH}, bits=[8], runs=1)
    found = {}
    for queries in (None, 50):
        data = evaluate.PreparedDataset.of(loaded, queries=queries, stream=300)
        assert evaluate.unfinished(jobs, data.dataset, [300], results)
        evaluate.run(jobs, data, results, points=[300])
        (one,) = evaluate.summarise(results, data.dataset, ["mAP"], "paper")
        found[data.dataset] = one.mean
    assert set(found) == {"digits[stream=300]", "digits[queries=50,stream=300]"}
    assert len(set(found.values())) == 2
