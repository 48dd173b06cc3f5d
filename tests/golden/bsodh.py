"""BSODH against the authors' program (fixtures `bsodh_*`): W, the codes of the batch, and all past codes."""

from __future__ import annotations

import numpy as np

from hashstream.hashers.bsodh import BSODH

TOLERANCE = 1e-6


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    X, y = fixture["Xstream"], fixture["Ystream"]
    n_t, updates = int(fixture["n_t"]), int(fixture["nupdates"])
    hasher = BSODH(
        n_bits=int(fixture["nbits"]),
        eta_s=float(fixture["eta_s"]),
        eta_d=float(fixture["eta_d"]),
        sigma=float(fixture["sigma"]),
        ridge=float(fixture["lambda"]),
        batch_size=n_t,
        init=fixture["W0"],
    )
    snapshots = {k: row for row, k in enumerate(fixture["snapat"].tolist())}
    past_codes = {int(key.removeprefix("Be_")): key for key in fixture if key.startswith("Be_")}
    hasher.partial_fit(X[:n_t], y[:n_t])
    for k in range(1, updates + 1):
        rows = slice(k * n_t, (k + 1) * n_t)
        hasher.partial_fit(X[rows], y[rows])
        if k in past_codes:
            numbers = [hasher.classes_.index(label) for label in y[: k * n_t].tolist()]
            np.testing.assert_array_equal(
                hasher.class_codes_[numbers].T, fixture[past_codes.pop(k)], err_msg=f"{name}, B_e, update {k}"
            )
        if k in snapshots:
            row = snapshots.pop(k)
            np.testing.assert_array_equal(
                hasher.last_codes_.T, fixture["Bs"][row], err_msg=f"{name}, B_s, update {k}"
            )
            np.testing.assert_allclose(
                hasher.projection_,
                fixture["Wsnap"][row],
                rtol=0,
                atol=TOLERANCE,
                err_msg=f"{name}, W, update {k}",
            )
    assert not snapshots, f"{name}: updates {sorted(snapshots)} were never reached"
    assert not past_codes, f"{name}: past codes of updates {sorted(past_codes)} were never reached"
    np.testing.assert_allclose(hasher.projection_, fixture["Wfinal"], rtol=0, atol=TOLERANCE, err_msg=name)
