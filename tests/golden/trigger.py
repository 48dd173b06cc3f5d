"""The gate's mutual information against the reference trigger (fixtures `trigger_*`).

H1, H2, ...: 0/1 codes of a reservoir under several hash functions, one bit a column; Yr: labels; mi1, mi2, ...
"""

from __future__ import annotations

import re

import numpy as np

from hashstream.hashers.mutual_information import sample_mutual_information

TOLERANCE = 1e-9


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    numbers = [key[2:] for key in fixture if re.fullmatch(r"mi\d*", key)]
    assert numbers, f"{name} holds nothing to compare"
    labels = (
        fixture["Yr"] if fixture["Yr"].ndim == 2 and fixture["Yr"].shape[1] > 1 else fixture["Yr"].ravel()
    )
    for number in numbers:
        bits = np.atleast_2d(fixture[f"H{number}"]) > 0
        found = sample_mutual_information(np.packbits(bits, axis=1), labels, n_bits=bits.shape[1])
        np.testing.assert_allclose(found, fixture[f"mi{number}"], rtol=0, atol=TOLERANCE, err_msg=name)
