"""Retrieval metrics with ties in database order, against the reference evaluation.

Hd, Hq: 0/1 codes, one bit a column; Yd, Yq: labels; AP: each query's; mAP; mAP_<N>: of the first N places;
prec_n<R>: within radius R; prec_k: over the cut-offs Ks.
"""

from __future__ import annotations

import re

import numpy as np

from hashstream.evaluate import retrieval

TOLERANCE = {"rtol": 0, "atol": 1e-9}


def check(fixture: dict[str, np.ndarray], name: str) -> None:
    at = {key: int(key[4:]) for key in fixture if re.fullmatch(r"mAP_\d+", key)}
    radius = {key: int(key[6:]) for key in fixture if re.fullmatch(r"prec_n\d+", key)}
    k = [int(cut) for cut in np.atleast_1d(fixture.get("Ks", []))]
    queries, codes = np.atleast_2d(fixture["Hq"]), np.atleast_2d(fixture["Hd"])
    scores = retrieval(
        np.packbits(queries > 0, axis=1),
        fixture["Yq"].ravel(),
        np.packbits(codes > 0, axis=1),
        fixture["Yd"].ravel(),
        at=at.values(),
        radius=radius.values(),
        k=k,
        ties="paper",
        n_bits=codes.shape[1],
        per_query=True,
    )
    expected = {"mAP": fixture["mAP"]}
    expected |= {f"mAP@{cut}": fixture[key] for key, cut in at.items()}
    expected |= {f"precision@H{r}": fixture[key] for key, r in radius.items()}
    expected |= {
        f"precision@{cut}": value for cut, value in zip(k, np.ravel(fixture.get("prec_k", [])), strict=True)
    }
    assert len(expected) > 1, f"{name} holds nothing to compare"
    assert set(scores) == set(expected)
    for metric, value in expected.items():
        np.testing.assert_allclose(scores[metric], value, **TOLERANCE, err_msg=f"{name}: {metric}")
    np.testing.assert_allclose(
        scores.per_query["AP"], np.ravel(fixture["AP"]), **TOLERANCE, err_msg=f"{name}: AP"
    )
