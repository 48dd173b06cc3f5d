"""HCOH against the authors' code (fixtures `hcoh_*`).

In a fixture class c has row c of `codebook`; our classes take rows in order of first appearance, so the rows are handed
over in that order, sketched by `lshW` where the codebook is not as long as the code.
"""

from __future__ import annotations

import numpy as np

from hashstream.hashers.codebooks import sketch
from hashstream.hashers.hcoh import HCOH

TOLERANCE = 1e-6


def targets(fixture: dict[str, np.ndarray]) -> np.ndarray:
    """The codeword of each class of a fixture, class c in row c."""
    codebook, G = fixture["codebook"], fixture["lshW"]
    return sketch(codebook, G) if G.size else codebook


def first_appearance(y: np.ndarray) -> list[int]:
    return list(dict.fromkeys(y.ravel().astype(int).tolist()))


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    y = fixture["Ystream"].ravel().astype(int)
    single = str(fixture.get("classW", "double")) == "single"
    X = fixture["Xstream"].astype(np.float32 if single else np.float64)
    tolerance = 1e-5 if single else TOLERANCE  # seven digits are all that such a fixture has
    n_t, codewords = int(fixture["n_t"]), targets(fixture)
    if "targets" in fixture:
        expected = fixture["targets"]
        assert len(expected) <= len(codewords)
        assert np.array_equal(codewords[: len(expected)], expected), f"{name}: targets"

    hasher = HCOH(
        n_bits=int(fixture["nbits"]),
        learning_rate=float(fixture["eta"]),
        batch_size=n_t,
        codebook=codewords[first_appearance(y)],
        init=fixture["W0"],
    )
    snapshots = dict(zip(np.ravel(fixture["snapat"]).astype(int).tolist(), fixture["Wsnap"], strict=True))
    steps = int(fixture.get("nbatches", len(X) // n_t))
    for step in range(steps):
        rows = slice(step * n_t, (step + 1) * n_t)
        hasher.partial_fit(X[rows], y[rows])
        if step + 1 in snapshots:
            expected = snapshots.pop(step + 1)
            np.testing.assert_allclose(hasher.projection_, expected, rtol=0, atol=tolerance, err_msg=name)
    assert not snapshots, f"{name}: steps {sorted(snapshots)} were never reached"
    np.testing.assert_allclose(
        hasher.projection_, fixture["Wfinal"], rtol=0, atol=tolerance, err_msg=f"{name}: Wfinal"
    )
    for c in first_appearance(y):
        assert np.array_equal(hasher.codeword([hasher.classes_.index(c)])[0], codewords[c])
