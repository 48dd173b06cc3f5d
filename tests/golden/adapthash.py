"""AdaptHash against its authors' code (fixtures `adapthash_*`)."""

from __future__ import annotations

import numpy as np

from hashstream.hashers.adapthash import AdaptHash

TOLERANCE = {"rtol": 0, "atol": 1e-6}


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    if "order" in fixture:
        X, y = fixture["X"][fixture["order"]], fixture["Y"].ravel()[fixture["order"]]
    else:
        X, y = fixture["Xstream"], fixture["Ystream"].ravel()
    settings = {
        "alpha": float(fixture["alpha"]),
        "orthogonality": float(fixture["lambda"]),
        "learning_rate": float(fixture["eta"]),
        "init": fixture["W0"],
    }
    n_bits = fixture["W0"].shape[1]
    hasher = AdaptHash(n_bits, **settings)
    snapshots = dict(zip(np.ravel(fixture["snapat"]).tolist(), fixture["Wsnap"], strict=True))
    moved = []
    for t in range(len(X) // 2):
        before = getattr(hasher, "version_", 0)
        hasher.partial_fit(X[2 * t : 2 * t + 2], y[2 * t : 2 * t + 2])
        moved.append(hasher.version_ - before)
        if t + 1 in snapshots:
            expected = snapshots.pop(t + 1)
            np.testing.assert_allclose(hasher.projection_, expected, **TOLERANCE, err_msg=f"{name}: {t + 1}")
    assert not snapshots, f"{name}: pairs {sorted(snapshots)} were never reached"
    changed = np.ravel(fixture["changed"])
    np.testing.assert_array_equal(moved[: len(changed)], changed, err_msg=name)

    whole = AdaptHash(n_bits, **settings).partial_fit(X, y)
    np.testing.assert_allclose(
        whole.projection_, hasher.projection_, **TOLERANCE, err_msg=f"{name}: one call"
    )
