"""HMOH against the authors' code (fixtures `hmoh_*`): iterate, average and mistakes of each bit.

`Wavg` is divided by the mistakes of each bit and so not finite where there was none; ours is finite there.
"""

from __future__ import annotations

import numpy as np

from hashstream.hashers.codebooks import sketch
from hashstream.hashers.hmoh import HMOH

TOLERANCE = 1e-6


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    X, y = fixture["Xstream"].astype(np.float64), fixture["Ystream"].ravel().astype(int)
    codebook, G = fixture["codebook"], fixture["lshW"]
    codewords = sketch(codebook, G) if G.size else codebook
    n_t = int(fixture.get("num", 1))
    hasher = HMOH(
        n_bits=int(fixture["nbits"]),
        learning_rate=float(fixture["lr"]),
        batch_size=n_t,
        codebook=codewords[list(dict.fromkeys(y.tolist()))],
        init=fixture.get("W0"),
    )
    at = np.ravel(fixture["snapat"]).astype(int).tolist()
    snapshots = {
        step: (W, average) for step, W, average in zip(at, fixture["Wsnap"], fixture["Wavg"], strict=True)
    }
    for step in range(len(X) // n_t):
        rows = slice(step * n_t, (step + 1) * n_t)
        hasher.partial_fit(X[rows], y[rows])
        if step + 1 in snapshots:
            W, average = snapshots.pop(step + 1)
            np.testing.assert_allclose(hasher.iterate_, W, rtol=0, atol=TOLERANCE, err_msg=f"{name}: Wsnap")
            assert np.isfinite(hasher.projection_).all()
            known = np.isfinite(average).all(axis=0)
            assert np.array_equal(known, hasher.mistakes_ > 0), (
                f"{name}: bits without a mistake at {step + 1}"
            )
            np.testing.assert_allclose(
                hasher.projection_[:, known],
                average[:, known],
                rtol=TOLERANCE,
                atol=TOLERANCE,
                err_msg=f"{name}: Wavg",
            )
    assert not snapshots, f"{name}: steps {sorted(snapshots)} were never reached"
    assert np.array_equal(hasher.mistakes_, np.ravel(fixture["counts"])), f"{name}: counts"
