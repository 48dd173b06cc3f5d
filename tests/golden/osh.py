"""OSH against the published code (fixtures `osh_*`): `fork` is the algorithm, `shipped` the published harness.

`shipped` loses its state at every step, so that all classes have codeword 0: ``paper_compat=True``.
"""

from __future__ import annotations

import numpy as np

from hashstream.hashers.osh import OSH

TOLERANCE = 1e-6


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    order = np.ravel(fixture["order"]).astype(int)
    X, y = fixture["X"][order].astype(np.float64), fixture["Y"].ravel().astype(int)[order]
    shipped = name.endswith("shipped")
    hasher = OSH(
        n_bits=int(fixture["nbits"]),
        learning_rate=float(fixture["eta"]),
        boost=bool(fixture["boost"]),
        codebook=fixture["ecoc"],
        init=fixture["W0"],
        paper_compat=shipped,
    )
    steps = np.ravel(fixture["snapat"]).astype(int).tolist()
    learned = 0
    for step, expected in sorted(zip(steps, fixture["Wsnap"], strict=True), key=lambda pair: pair[0]):
        if step > learned:
            hasher.partial_fit(X[learned:step], y[learned:step])
            learned = step
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            hasher.projection_, expected, rtol=TOLERANCE, atol=TOLERANCE * scale, err_msg=f"{name}: {step}"
        )
    seen = np.ravel(fixture.get("seen_labels", [])).astype(int).tolist()
    for row, label in enumerate([] if shipped else seen):
        assert np.array_equal(hasher.codeword([hasher.classes_.index(label)])[0], fixture["ecoc"][row])
