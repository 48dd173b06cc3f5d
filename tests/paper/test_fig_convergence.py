"""fig-convergence: the losses against loops over pairs, the paths against FCOH itself, the score against its draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_studies import small_study

from hashstream.hashers import FCOH, FCOH_C, FCOH_S
from hashstream.paper.experiments import fig_convergence
from hashstream.paper.experiments.fig_convergence import EXPERIMENT
from hashstream.paper.two_class_problem import STEPS, code_loss, curvature, draw, loss, path

SEMI = [name for name in STEPS if name.startswith("semi")]


def test_losses_are_means_over_pairs() -> None:
    start = draw(3)
    X, y = start.batches[0]
    relaxed, coded = 0.0, 0.0
    for i in range(len(X)):
        for j in range(len(X)):
            p, q = X[i] @ start.w, X[j] @ start.w
            S = 1 if y[i] == y[j] else -1
            relaxed += (p * np.sign(q) - S) ** 2 / len(X) ** 2
            coded += (np.sign(p) * np.sign(q) - S) ** 2 / len(X) ** 2
    assert loss(start.w, X, y) == pytest.approx(relaxed)
    assert code_loss(start.w, X, y) == pytest.approx(coded)


def test_losses_of_many_points_at_once() -> None:
    start = draw(0)
    W = np.random.default_rng(0).standard_normal((2, 3, 4))
    found = loss(W, *start.batches[0])
    assert found.shape == (3, 4)
    assert found[1, 2] == pytest.approx(float(loss(W[:, 1, 2], *start.batches[0])))


@pytest.mark.parametrize("name", SEMI)
@pytest.mark.parametrize("class_wise", [True, False])
def test_semi_relaxed_paths_are_fcoh_s(name: str, class_wise: bool) -> None:
    for seed in range(5):
        start = draw(seed)
        mu = STEPS[name][1] / curvature(start.batches[0][0])
        settings = {"learning_rate": mu, "lambda1": 1.0, "lambda2": 1.0, "gradient_scale": "none"}
        hasher = (FCOH if class_wise else FCOH_S)(1, init=start.w[:, None], **settings)
        points = list(path(name, start, class_wise, batches=3))
        for batch, (X, y) in enumerate(start.batches[:3], 1):
            hasher.partial_fit(X, y)
            at = points[batch * (2 if class_wise else 1)]
            np.testing.assert_allclose(hasher.projection_[:, 0], at, rtol=1e-9, atol=1e-9)


def test_dcc_paths_are_those_of_the_discrete_variant() -> None:
    for seed in range(5):
        start = draw(seed)
        hasher = FCOH_C(1, init=start.w[:, None], lambda1=1.0, lambda2=1.0)
        points = list(path("DCC", start, True, batches=2))
        for batch, (X, y) in enumerate(start.batches[:2], 1):
            hasher.partial_fit(X, y)
            np.testing.assert_allclose(hasher.projection_[:, 0], points[2 * batch], rtol=1e-9, atol=1e-9)


def test_dcc_together_minimises_its_fit() -> None:
    start = draw(4)
    X, y = start.batches[0]
    _, w = path("DCC", start, False)
    b = np.where(X @ start.w > 0, 1.0, -1.0)
    wanted = np.empty(len(X))
    for i in range(len(X)):  # the code that agrees best with the codes of all others, and with where it is
        pull = sum(b[j] if y[j] == y[i] else -b[j] for j in range(len(X)))
        wanted[i] = 1.0 if pull + X[i] @ start.w > 0 else -1.0
    ridge = 10.0 * np.mean(np.sum(X**2, axis=1))

    def objective(v: np.ndarray) -> float:
        return float(np.sum((wanted - X @ v) ** 2) + ridge * np.sum((v - start.w) ** 2))

    for direction in np.eye(2):
        for step in (-1e-3, 1e-3):
            assert objective(w + step * direction) > objective(w)


def test_paths_have_the_paper_s_points() -> None:
    start = draw(0)
    for name in STEPS:
        assert len(list(path(name, start, False))) == 2  # W1, W2
        assert len(list(path(name, start, True))) == 3  # W1, W3, W4
        assert len(list(path(name, start, False, batches=4, repeats=2))) == 9


def test_the_score_counts_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig_convergence, "DRAWS", 8)
    study = small_study(tmp_path, runs=2)
    EXPERIMENT.measure(study)
    text = study.results.path.read_text()
    EXPERIMENT.measure(study)
    assert study.results.path.read_text() == text

    lower = 0
    for seed in range(8):
        start = draw(seed)
        X, y = start.batches[0]
        *_, turns = path("DCC", start, True)
        *_, together = path("DCC", start, False)
        lower += float(loss(turns, X, y)) < float(loss(together, X, y)) - 1e-9
    section = EXPERIMENT.show(study)
    scores, paths = section.sheets
    first = scores.rows[0]
    assert first[:3] == ("DCC", "one batch", f"{100 * lower / 8:.0f} %")
    for row in scores.rows:
        shares = [int(cell.split()[0]) for cell in row[2:]]
        assert abs(sum(shares[:3]) - 100) <= 1
        assert abs(sum(shares[3:]) - 100) <= 1
    assert len(paths.rows) == 2 * len(STEPS)
    assert paths.rows[0][2] == f"{float(loss(draw(0).w, *draw(0).batches[0])):.3f}"
    (figure,) = section.figures.values()
    assert len(figure.axes) == 2 * len(STEPS)
    assert f"DCC: {100 * lower / 8:.0f} % after one batch" in section.finding


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    assert EXPERIMENT.show(small_study(tmp_path)).finding == "Nothing is measured yet."
