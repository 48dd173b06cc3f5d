"""The C kernel against its NumPy twin, with enough input for tiles, blocks, ranges and threads to matter."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hashstream import hamming
from hashstream.hamming import _kernel, _twin
from hashstream.hamming._labels import Labels

pytestmark = pytest.mark.skipif(not _kernel.available(), reason="installed without a C compiler")


def agree(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype == np.float64:
            np.testing.assert_allclose(a, b, rtol=1e-12)
        else:
            np.testing.assert_array_equal(a, b)


def random(rng, n, width):
    return rng.integers(0, 256, (n, width), dtype=np.uint8)


def duplicates(rng, n, width):
    """A few distinct codes, each many times."""
    return random(rng, 7, width)[rng.integers(0, 7, n)]


def clustered(rng, n, width):
    """A few centres, each code a centre with some bits flipped."""
    flips = rng.integers(0, 256, (3, n, width), dtype=np.uint8)
    return duplicates(rng, n, width) ^ (flips[0] & flips[1] & flips[2])


def receding(rng, n, width):
    """Every code nearer to zero than all before it: each of them enters a top-k."""
    ones = np.sort(rng.integers(0, 8 * width + 1, n))[::-1]
    return np.packbits(np.arange(8 * width) < ones[:, None], axis=1)


@pytest.fixture(params=[False, True], ids=["vector", "portable"])
def portable(request, monkeypatch):
    monkeypatch.setattr(_kernel, "portable", request.param)


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("make", [random, duplicates, clustered, receding])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 9, 12, 16, 31, 32, 33, 62, 63, 100, 128])
def test_every_function(portable, make, width, rng):
    n = 5000 if width < 20 else 700
    codes = make(rng, n, width)
    n_classes, dtype = (5, np.int32) if width % 2 else (2, np.uint8)
    labels = Labels(*(rng.integers(0, n_classes, size, dtype=dtype) for size in (21, n)))
    cutoffs = np.array([1, 10, 3000])
    rows = np.flatnonzero(rng.random(n) < 0.4)
    for n_queries, threads in ((1, 1), (3, 2), (21, 1), (21, 2)):
        queries = random(rng, n_queries, width)
        queries[0] = 0
        some = Labels(labels.queries[:n_queries], labels.codes)
        agree([_kernel.distances(queries, codes, threads)], [_twin.distances(queries, codes, threads)])
        for k, subset in ((1, None), (150, rows), (150, None), (n, None)):
            ours = _kernel.topk(queries, codes, k, subset, threads)
            agree(ours, _twin.topk(queries, codes, k, subset, threads))
        for radius, subset in ((0, None), (2 * width, rows), (4 * width, None)):
            ours = _kernel.radius(queries, codes, radius, subset, threads)
            agree(ours, _twin.radius(queries, codes, radius, subset, threads))
        agree(
            _kernel.histogram(queries, codes, some, threads), _twin.histogram(queries, codes, some, threads)
        )
        agree([_kernel.rank(queries, codes, threads)], [_twin.rank(queries, codes, threads)])
        ours = _kernel.stable_scores(queries, codes, some, cutoffs, threads)
        agree(ours, _twin.stable_scores(queries, codes, some, cutoffs, threads))


@pytest.mark.parametrize("width", range(1, 129))
def test_every_width(portable, width, rng):
    """One code more than whole vectors, and complements, which are as far as codes can be."""
    codes, queries = random(rng, 129, width), random(rng, 5, width)
    codes[7] = ~queries[0]
    agree([_kernel.distances(queries, codes, 1)], [_twin.distances(queries, codes, 1)])
    agree([_kernel.distances(queries[:1], codes, 1)], [_twin.distances(queries[:1], codes, 1)])
    agree(_kernel.topk(queries, codes, 9, None, 1), _twin.topk(queries, codes, 9, None, 1))
    agree(_kernel.topk(queries[:1], codes, 9, None, 1), _twin.topk(queries[:1], codes, 9, None, 1))


@pytest.mark.parametrize("width", [4, 8, 16, 32])
@pytest.mark.parametrize("make", [random, clustered])
def test_many_codes(make, width, rng):
    """Enough work for threads to be started, with queries in blocks and with codes in ranges."""
    codes, queries = make(rng, 200_003, width), random(rng, 40, width)
    for n_queries in (1, 2, 5, 40):
        one = hamming.topk(queries[:n_queries], codes, 100, n_threads=1)
        agree(one, _twin.topk(queries[:n_queries], codes, 100, None, 1))
        for threads in (2, 5):
            agree(hamming.topk(queries[:n_queries], codes, 100, n_threads=threads), one)
        within = hamming.radius(queries[:n_queries], codes, int(one[0].max()), n_threads=1)
        agree(hamming.radius(queries[:n_queries], codes, int(one[0].max()), n_threads=3), within)
        assert (np.diff(within[0]) >= 100).all()


def test_searches_at_the_same_time_do_not_disturb_each_other(rng):
    codes, queries = random(rng, 60_000, 8), random(rng, 32, 8)
    labels = rng.integers(0, 9, 32), rng.integers(0, 9, 60_000)

    def everything(i):
        mine = queries[i : i + 4]
        return (
            *hamming.topk(mine, codes, 50, n_threads=2),
            *hamming.radius(mine, codes, 20, n_threads=2),
            *hamming.stable_scores(mine, codes, (labels[0][i : i + 4], labels[1]), at=(9,), n_threads=2),
        )

    expected = [everything(i) for i in range(28)]
    with ThreadPoolExecutor(8) as pool:
        for found, alone in zip(pool.map(everything, range(28)), expected, strict=True):
            agree(found, alone)
