"""Against faiss. It may order ties differently, and keep any of those at the k-th distance."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream import hamming

faiss = pytest.importorskip("faiss")


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("n_bits", [8, 32, 64, 128, 256, 512])
@pytest.mark.parametrize("distinct", [None, 50], ids=["random", "duplicates"])
def test_topk_and_radius(engine, n_bits, distinct, rng):
    codes = rng.integers(0, 256, (distinct or 3000, n_bits // 8), dtype=np.uint8)
    codes = codes[rng.integers(0, len(codes), 3000)]
    queries = codes[::300] ^ (rng.random((10, n_bits // 8)) < 0.2).astype(np.uint8)
    index = faiss.IndexBinaryFlat(n_bits)
    index.add(codes)
    for k in (1, 10, 200, 3000):
        theirs, their_rows = index.search(queries, k)
        ours, our_rows = hamming.topk(queries, codes, k)
        np.testing.assert_array_equal(ours, theirs)
        for i in range(len(queries)):
            sure = ours[i] < ours[i, -1] if k < len(codes) else np.ones(k, bool)
            assert set(our_rows[i, sure]) == set(their_rows[i, sure])
    for radius in (0, n_bits // 4, n_bits // 2):
        limits, theirs, their_rows = index.range_search(queries, radius + 1)  # faiss: strictly below
        offsets, ours, our_rows = hamming.radius(queries, codes, radius)
        np.testing.assert_array_equal(offsets, limits.astype(np.int64))
        for i in range(len(queries)):
            mine = slice(offsets[i], offsets[i + 1])
            order = np.lexsort((their_rows[mine], theirs[mine]))
            np.testing.assert_array_equal(ours[mine], theirs[mine][order])
            np.testing.assert_array_equal(our_rows[mine], their_rows[mine][order])
