"""SketchHash against the public code, with its state kept (`fork`) and lost (`shipped`); fixtures `sketchhash_*`.

Compared are the mean, W W^T and B^T B: singular vectors have no sign of their own, and rotations are drawn.
"""

from __future__ import annotations

import numpy as np

from hashstream.hashers.sketchhash import SketchHash

TOLERANCE = 1e-6


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    X = fixture["X"][fixture["order"]] if "X" in fixture else fixture["Xstream"]
    b = int(fixture["batch_size"])
    shipped = name.endswith("shipped")
    hasher = SketchHash(
        n_bits=int(fixture["nbits"]),
        sketch_size=int(fixture["sketch_size"]),
        batch_size=b,
        paper_compat=shipped,
        random_state=0,
    )
    snapshots = {k: row for row, k in enumerate(fixture["snapat"].tolist())}
    for k in range(1, max(snapshots) + 1):
        hasher.partial_fit(X[(k - 1) * b : k * b])
        if k not in snapshots:
            continue
        row = snapshots.pop(k)
        W = hasher.projection_
        np.testing.assert_allclose(
            hasher.mean_, fixture["mean"][row], rtol=0, atol=TOLERANCE, err_msg=f"{name}, mean, batch {k}"
        )
        np.testing.assert_allclose(
            W @ W.T, fixture[f"WWt_{k}"], rtol=0, atol=TOLERANCE, err_msg=f"{name}, W W^T, batch {k}"
        )
        if fixture[f"BtB_{k}"].size:
            B = hasher.sketch_
            np.testing.assert_allclose(
                B.T @ B, fixture[f"BtB_{k}"], rtol=0, atol=TOLERANCE, err_msg=f"{name}, B^T B, batch {k}"
            )
    assert not snapshots, f"{name}: batches {sorted(snapshots)} were never reached"
