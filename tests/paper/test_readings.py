"""readings: the hashers do what their names say, distances follow from the rows, divergence counts as the worst."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_studies import blobs, small_study

from hashstream import datasets
from hashstream.evaluate.protocols import SETTINGS
from hashstream.hashers import FCOH
from hashstream.hashers.fcoh_literal import LiteralFCOH
from hashstream.paper import Study
from hashstream.paper.experiments import fig_parameters
from hashstream.paper.experiments import readings as readings_module
from hashstream.paper.experiments.readings import (
    EARLY,
    EXPERIMENT,
    MAP,
    PRECISION,
    SWEEP,
    WITHOUT,
    Reading,
    distance,
    ranked,
    readings,
    targets,
)
from hashstream.paper.fcoh_readings import DIVISORS, ReadFCOH


def mnist_study(folder: Path, runs: int = 1) -> Study:
    """A study without rows of data, in the setting of MNIST, of which only `show` can be called."""
    study = small_study(folder, name="mnist", runs=runs, checkpoints=None)
    return replace(study, data=replace(study.data, setting=SETTINGS["mnist"]))


def fill(study: Study, reading: Reading, offset: float = 0.0, without_similar: float = 0.0) -> None:
    """Rows that are `offset` above every printed figure; mAP falls by 0.01 from each n_t to the next.

    without_similar: added with lambda1 = 0.
    """
    for i, target in enumerate(targets(study)):
        label = reading.job("mnist", target.bits, 0, target.changes).label
        if target.after:
            value = target.figure + offset - 0.01 * i
            study.add("paper", reading.job("mnist", 32, 0, {}).label, 32, 0, 20_000, **{"mAP[paper]": 1.0})
        else:
            value = target.figure + offset + (without_similar if "lambda1" in target.changes else 0)
        study.add("paper", label, target.bits, 0, target.n_train, **{f"{target.metric}[paper]": value})


# ---- the hashers


@pytest.mark.parametrize("scale", ["none", "class", "batch", "bits"])
def test_readings_that_fcoh_offers_are_fcoh(scale: str) -> None:
    X, y = blobs(200)
    X = datasets.centred_unit(X)
    settings = {"learning_rate": 1e-3, "lambda1": 0.1, "lambda2": 0.01, "gradient_scale": scale}
    ours = ReadFCOH(16, **settings, random_state=3).fit(X, y)
    theirs = FCOH(16, **settings, random_state=3).fit(X, y)
    assert np.array_equal(ours.projection_, theirs.projection_)


def test_divisors_are_those_of_the_equations() -> None:
    """One batch with classes of one size: "pairs" and "inner" are the printed equations with other lambdas."""
    X, y = blobs(50)
    X = datasets.centred_unit(X.astype(np.float64))
    settings = {"learning_rate": 0.1, "lambda1": 0.3, "lambda2": 0.2, "batch_size": 50}
    n_c, n_n, r = 10, 40, 8
    for scale, own, other in (("pairs", n_c * n_c, n_c * n_n), ("inner", r * r, r * r)):
        found = ReadFCOH(r, **settings, gradient_scale=scale, random_state=0).fit(X, y)
        W0 = FCOH(r, learning_rate=1e-300, lambda2=0.0, random_state=0).fit(X, y).projection_
        literal = LiteralFCOH(W0, 0.1, 0.3 / own, 0.2 / other)
        literal.partial_fit(X, y)
        assert found.projection_.dtype == np.float32  # the rows are: sums differ by the processor
        assert np.allclose(found.projection_, literal.W, atol=1e-6)
        assert not np.allclose(W0, literal.W, atol=1e-3)
    with pytest.raises(ValueError, match="none, class, batch, bits, inner, pairs"):
        ReadFCOH(r, gradient_scale="rows").fit(X, y)


def test_a_class_alone_in_its_batch_has_no_pairs_to_divide_by() -> None:
    X, _ = blobs(20)
    hasher = ReadFCOH(8, learning_rate=1e-3, gradient_scale="pairs").fit(
        datasets.centred_unit(X), np.zeros(20)
    )
    assert np.isfinite(hasher.projection_).all()


def test_gaussian_w0_has_the_directions_of_the_unit_one() -> None:
    X, y = blobs(30, d=200)
    tiny = {"learning_rate": 1e-30, "random_state": 5}
    unit, drawn = (ReadFCOH(64, gaussian=g, **tiny).fit(X, y).projection_ for g in (False, True))
    lengths = np.linalg.norm(drawn, axis=0)
    assert np.allclose(drawn / lengths, unit, atol=1e-5)
    assert abs(np.mean(lengths**2) / 200 - 1) < 0.05
    assert lengths.std() > 0.3


def test_a_bias_is_a_column_of_ones() -> None:
    X, y = blobs(100)
    with_ones = np.column_stack([X, np.ones(100, X.dtype)])
    settings = {"learning_rate": 1e-4, "random_state": 0}
    ours = ReadFCOH(16, bias=True, **settings).fit(X, y)
    theirs = ReadFCOH(16, **settings).fit(with_ones, y)
    assert np.array_equal(ours.projection_, theirs.projection_)
    assert np.array_equal(ours.transform(X), theirs.transform(with_ones))


# ---- readings and figures


def test_every_reading_is_measured_in_full_and_plain_ones_quickly(tmp_path: Path) -> None:
    full = readings(mnist_study(tmp_path, runs=3))
    assert len(full) == len(set(full)) == 3 * 2 * len(DIVISORS)
    quick = readings(mnist_study(tmp_path))
    assert quick == full[: len(quick)]
    assert len(quick) == 2 * len(DIVISORS)
    other = replace(mnist_study(tmp_path, runs=3), data=small_study(tmp_path, name="cifar10").data)
    assert len(readings(other)) == len(quick)


def test_rows_are_shared_with_fig_parameters(tmp_path: Path) -> None:
    study = mnist_study(tmp_path, runs=3)
    swept = {point.label for point in fig_parameters.points(study)}
    for target in targets(study):
        if target.bits == 32:
            assert Reading("bits", 0.1).job("mnist", 32, 0, target.changes).label in swept
            assert Reading("bits", 0.1, bias=True).job("mnist", 32, 0, target.changes).label not in swept


def test_targets_are_the_printed_figures(tmp_path: Path) -> None:
    study = replace(mnist_study(tmp_path), scale=replace(mnist_study(tmp_path).scale, bits=(8, 64)))
    found = {(t.group, t.text): t.figure for t in targets(study)}
    assert found == {
        (MAP, "8 bits"): 0.673,
        (MAP, "64 bits"): 0.784,
        (PRECISION, "8 bits"): 0.506,
        (PRECISION, "64 bits"): 0.817,
        (SWEEP, "n_t = 500"): 0.786,
        (SWEEP, "n_t = 1,000"): 0.786,
        (SWEEP, "n_t = 2,000"): 0.786,
        (WITHOUT, "λ1 = 0"): 0.605,
        (WITHOUT, "λ2 = 0"): 0.637,
        (EARLY, "64 bits, 2,000 rows"): 0.689,
    }


def test_distances(tmp_path: Path) -> None:
    study = mnist_study(tmp_path)
    exact, above = Reading("bits", 0.1), Reading("batch", 0.1)
    fill(study, exact)
    fill(study, above, 0.05)
    first, second = ranked(study)
    assert (first.reading, second.reading) == (exact, above)
    assert first.overall == pytest.approx(0)
    assert second.groups == pytest.approx({MAP: 0.05, PRECISION: 0.05, SWEEP: 0, WITHOUT: 0.05, EARLY: 0.05})
    assert second.overall == pytest.approx(0.04)
    assert second.numbers == pytest.approx(0.05)
    section = EXPERIMENT.show(study)
    assert section.verdict == "holds in part"
    assert section.finding.startswith("Of 2 readings, terms / r, μ = 0.1 is nearest to all printed figures")
    assert "10 readings are not measured yet" in section.finding
    assert "It is also nearest without the sweep of n_t (0.000)." in section.finding
    assert section.sheets[0].rows[0][:4] == ("terms / r", "0.1", "unit", "no")
    assert section.sheets[1].rows[0] == ("paper", "0.673")
    assert section.figures


def test_which_pairs_matter_more(tmp_path: Path) -> None:
    study = mnist_study(tmp_path)
    fill(study, Reading("bits", 0.1))
    fill(study, Reading("class", 0.1), without_similar=0.05)
    fill(study, Reading("batch", 0.1), without_similar=-0.05)
    assert (
        "The printed mAP is lower with λ1 = 0 (0.605) than with λ2 = 0 (0.637): so it is in 2 of the 3 readings"
        in EXPERIMENT.show(study).finding
    )


def test_a_sweep_that_diverges_is_not_hidden_by_near_numbers(tmp_path: Path) -> None:
    study = mnist_study(tmp_path)
    stays, diverges = Reading("batch", 0.1), Reading("bits", 0.1)
    fill(study, stays, 0.05)
    for target in targets(study):
        label = diverges.job("mnist", target.bits, 0, target.changes).label
        if target.after:
            study.add("paper", label, 32, 0, 500, diverged_rows=500.0)
        else:
            study.add(
                "paper", label, target.bits, 0, target.n_train, **{f"{target.metric}[paper]": target.figure}
            )
    first, second = ranked(study)
    assert (first.reading, second.reading) == (stays, diverges)
    assert (second.lost, second.numbers, second.groups[SWEEP]) == pytest.approx((3, 0, 0.786))
    section = EXPERIMENT.show(study)
    assert (
        "Without the sweep of n_t, for which the paper prints no numbers, terms / r, μ = 0.1 is"
        in section.finding
    )
    assert section.verdict == "does not hold"
    assert {(0, 9), (1, 10)} <= section.sheets[0].best


def test_divergence_is_as_far_as_the_printed_figure_and_rises_count(tmp_path: Path) -> None:
    study = mnist_study(tmp_path, runs=2)
    reading = Reading("none", 0.01)
    by_text = {target.text: target for target in targets(study)}
    label = reading.job("mnist", 32, 0, {"lambda1": 0}).label
    study.add("paper", label, 32, 0, 20_000, **{"mAP[paper]": 0.705})
    assert distance(study, reading, by_text["λ1 = 0"]) == pytest.approx(0.1)
    study.add("paper", label, 32, 1, 100, diverged_rows=100.0)
    assert distance(study, reading, by_text["λ1 = 0"]) == pytest.approx(0.5 * 0.605 + 0.5 * 0.1)

    sizes = {size: reading.job("mnist", 32, 0, {"batch_size": size}).label for size in (500, 1000, 2000)}
    study.add("paper", sizes[500], 32, 0, 20_000, **{"mAP[paper]": 0.6})
    assert distance(study, reading, by_text["n_t = 500"]) is None  # n_t = 100 is not measured
    study.add("paper", reading.job("mnist", 32, 0, {}).label, 32, 0, 20_000, **{"mAP[paper]": 0.5})
    study.add("paper", sizes[1000], 32, 0, 20_000, **{"mAP[paper]": 0.4})
    for run in range(2):
        study.add("paper", sizes[2000], 32, run, 2000, diverged_rows=2000.0)
    away = [distance(study, reading, by_text[f"n_t = {size:,}"]) for size in sizes]
    assert away == pytest.approx([0.1, 0, 0.786])
    assert not ranked(study)  # other figures are missing
    assert EXPERIMENT.show(study).finding == "Nothing is measured yet."


def test_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for divisor in ("class", "batch", "inner"):
        monkeypatch.delitem(DIVISORS, divisor)
    study = small_study(tmp_path, name="mnist")
    EXPERIMENT.measure(study)
    text = study.results.path.read_text()
    EXPERIMENT.measure(study)
    assert study.results.path.read_text() == text
    section = EXPERIMENT.show(study)
    assert len(section.sheets[0].rows) == 6
    assert "not measured" not in section.finding


def test_only_data_with_printed_figures(tmp_path: Path) -> None:
    assert [EXPERIMENT.fits(name) for name in ("mnist", "cifar10", "tinyimagenet200", "digits", "mine.npz")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    study = small_study(tmp_path, name="digits")
    EXPERIMENT.measure(study)
    assert not study.results.rows
    assert "no figures" in EXPERIMENT.show(study).finding


def test_other_features_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings_module, "SIZES", ())
    study = small_study(tmp_path, name="cifar10")
    for target in targets(study):
        label = Reading("none", 0.01).job("cifar10", target.bits, 0, target.changes).label
        study.add("paper", label, target.bits, 0, 600, **{f"{target.metric}[paper]": target.figure})
    section = EXPERIMENT.show(study)
    assert section.verdict == "holds"
    assert "features, ours on cifar10" in section.notes[-1]
