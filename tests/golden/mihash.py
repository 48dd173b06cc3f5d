"""MIHash against the reference code (fixtures `mihash_*`).

The reservoir starts with X[init_idx]: these rows come first in the stream and take no step. `draws` are the uniforms,
one for each of these, then one for each step. R_X_<k>, R_Y_<k>, R_PQ_<k>: features, labels and keys of the reservoir
after k steps, or after the last snapshot where k is "final".
"""

from __future__ import annotations

import re

import numpy as np

from hashstream.hashers.kernels import mihash
from hashstream.hashers.kernels.mihash import gradient
from hashstream.hashers.mihash import MIHash

TOLERANCE = 1e-6


class GivenDraws(MIHash):
    """MIHash whose uniforms are given instead of drawn."""

    uniforms: np.ndarray
    used = 0

    def _draw(self, n: int) -> np.ndarray:
        self.used += n
        return self.uniforms[self.used - n : self.used]


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    learn(fixture, name)
    if mihash.KERNEL:
        kernel, mihash.KERNEL = mihash.KERNEL, {}
        try:
            learn(fixture, name)
        finally:
            mihash.KERNEL = kernel

    X, y = stream(fixture)
    others = labels(fixture, "init_idx")
    first = gradient(
        fixture["W0"],
        X[0],
        fixture["X"][fixture["init_idx"].ravel()],
        others == y[0] if y.ndim == 1 else others @ y[0] > 0,
        float(fixture["sigscale"]),
        int(fixture["no_bins"]),
    )
    np.testing.assert_allclose(first, fixture["grad_first"], rtol=0, atol=TOLERANCE, err_msg=name)


def labels(fixture: dict[str, np.ndarray], rows: str) -> np.ndarray:
    return np.squeeze(fixture["Y"])[fixture[rows].ravel()]


def stream(fixture: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    if "Xstream" in fixture:
        return fixture["Xstream"], np.squeeze(fixture["Ystream"])
    return fixture["X"][fixture["order"].ravel()], labels(fixture, "order")


def learn(fixture: dict[str, np.ndarray], name: str) -> None:
    initial = fixture["init_idx"].ravel()
    hasher = GivenDraws(
        n_bits=int(fixture["nbits"]),
        reservoir_size=int(fixture["reservoirSize"]),
        n_bins=int(fixture["no_bins"]),
        steepness=float(fixture["sigscale"]),
        learning_rate=float(fixture["stepsize"]),
        decay=float(fixture["decay"]),
        warm_up=len(initial),
        init=fixture["W0"],
    )
    hasher.uniforms = fixture["draws"].ravel()
    if len(initial):
        hasher.partial_fit(fixture["X"][initial], labels(fixture, "init_idx"))
    X, y = stream(fixture)
    snapshots = dict(zip(fixture["snapat"].ravel().tolist(), fixture["Wsnap"], strict=True))
    last = max(snapshots)
    reservoirs = {re.sub(r"R_[A-Z]+_", "", key) for key in fixture if key.startswith("R_")}
    checkpoints = {at: last if at == "final" else int(at) for at in sorted(reservoirs)}
    done = 0
    for step in sorted({*snapshots, *checkpoints.values()}):
        hasher.partial_fit(X[done:step], y[done:step])
        done = step
        if step in snapshots:
            np.testing.assert_allclose(
                hasher.projection_, snapshots.pop(step), rtol=0, atol=TOLERANCE, err_msg=f"{name}: W {step}"
            )
        for at in [at for at, after in checkpoints.items() if after == step]:
            compare_reservoir(hasher, fixture, at, f"{name}: reservoir after {step}")
    assert not snapshots


def compare_reservoir(hasher: MIHash, fixture: dict[str, np.ndarray], at: str, name: str) -> None:
    y = hasher.reservoir_labels_
    found = {
        "X": hasher.reservoir_,
        "Y": np.array(hasher.classes_)[y] if y.ndim == 1 else y,
        "PQ": hasher.reservoir_keys_,
    }
    for part, value in found.items():
        if f"R_{part}_{at}" in fixture:
            expected = np.squeeze(fixture[f"R_{part}_{at}"])
            np.testing.assert_allclose(value, expected, rtol=0, atol=1e-12, err_msg=f"{name}: {part}")
