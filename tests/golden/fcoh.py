"""FCOH against the paper's equations written as loops over pairs (fixtures `fcoh_*`)."""

from __future__ import annotations

import numpy as np

import hashstream as hs

TOLERANCE = 1e-9
SCALES = {
    "none": "none",
    "r": "bits",
    "bits": "bits",
    "n_c": "class",
    "class": "class",
    "n_t": "batch",
    "batch": "batch",
}


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    X, y, W0 = fixture["Xstream"], fixture["Ystream"], fixture["W0"]
    n_t = int(fixture["n_t"])
    mu = float(fixture["mu"])
    hasher = hs.FCOH(
        n_bits=int(fixture["nbits"]),
        learning_rate=mu,
        lambda1=float(fixture["lambda1"]),
        lambda2=float(fixture["lambda2"]),
        gradient_scale=SCALES[str(fixture["grad_norm"])],
        batch_size=n_t,
        init=W0,
    )
    snapshots = dict(zip(fixture["snapat"].tolist(), fixture["Wsnap"], strict=True))
    for batch in range(len(X) // n_t):
        rows = slice(batch * n_t, (batch + 1) * n_t)
        hasher.partial_fit(X[rows], y[rows])
        if batch + 1 in snapshots:
            expected = snapshots.pop(batch + 1)
            np.testing.assert_allclose(hasher.projection_, expected, rtol=0, atol=TOLERANCE, err_msg=name)
    assert not snapshots, f"{name}: batches {sorted(snapshots)} were never reached"

    order = [hasher.classes_.index(label) for label in fixture["class_ids"].tolist()]
    np.testing.assert_array_equal(hasher.class_counts_[order], fixture["class_counts"])
    np.testing.assert_allclose(hasher.class_means_[order], fixture["class_means"], rtol=0, atol=TOLERANCE)

    check_first_class(fixture, name, mu, n_t)


def check_first_class(fixture: dict[str, np.ndarray], name: str, mu: float, n_t: int) -> None:
    """The first class's gradient alone: the step of the smallest label, with the whole batch as its surroundings.

    The hasher takes all classes' steps of a batch at once, so the first is seen through `fcoh_steps.walk`.
    """
    from hashstream.hashers.fcoh_steps import Batch, Rate, class_steps, descend, walk

    X, y, W0 = fixture["Xstream"][:n_t], fixture["Ystream"][:n_t], fixture["W0"]
    r = W0.shape[1]
    order = np.argsort(y, kind="stable")
    labels, first, counts = np.unique(y[order], return_index=True, return_counts=True)
    Z = np.vstack([X[order], *[X[y == label].mean(axis=0) for label in labels]])
    scale = {"none": 1.0, "bits": r, "class": counts, "batch": n_t}[SCALES[str(fixture["grad_norm"])]]
    ones = np.ones(len(labels))
    batch = Batch(
        Z @ Z.T, Z @ W0, np.append(first, n_t),
        float(fixture["lambda1"]) * ones / scale, float(fixture["lambda2"]) * ones / scale,
    )  # fmt: skip
    rate = Rate(False, 1.0)
    C = walk(batch.K, batch.P, [next(class_steps(batch))], descend(rate), rate)
    gradient = -Z.T @ C
    np.testing.assert_allclose(gradient, fixture["grad_first"], rtol=0, atol=TOLERANCE, err_msg=name)
    np.testing.assert_allclose(
        W0 - mu * gradient, fixture["W_after_first_class"], rtol=0, atol=TOLERANCE, err_msg=name
    )
