"""The kernel map of OKH against the published wrapper (fixtures `okh_kernel*`)."""

from __future__ import annotations

import numpy as np

from hashstream.hashers.gaussian_map import GaussianMap

TOLERANCE = {"rtol": 0, "atol": 1e-9}


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    X = fixture["X"]
    anchors, rows = X[np.ravel(fixture["anchor_idx"])], X[np.ravel(fixture["val_idx"])]
    kernel = GaussianMap.at(anchors, rows, width="published")
    np.testing.assert_allclose(kernel.mean_squared_, float(fixture["sigma"]), **TOLERANCE, err_msg=name)
    np.testing.assert_allclose(kernel.transform(X).T, fixture["KX"], **TOLERANCE, err_msg=name)
