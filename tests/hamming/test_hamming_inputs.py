"""Odd shapes, odd memory, wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream import hamming


def everything(queries, codes):
    labels = np.arange(len(queries)) % 3, np.arange(len(codes)) % 3
    return [
        hamming.distances(queries, codes),
        *hamming.topk(queries, codes, 5),
        *hamming.radius(queries, codes, 9),
        *hamming.histogram(queries, codes, labels=labels),
        hamming.rank(queries, codes),
        *hamming.stable_scores(queries, codes, labels, at=(3,), k=(4,), radius=(5,)),
    ]


def test_memory_order_does_not_matter_and_nothing_is_written_to(engine, rng):
    queries, codes = (rng.integers(0, 256, (n, 9), dtype=np.uint8) for n in (7, 300))
    expected = everything(queries, codes)
    raw = np.zeros(300 * 9 + 1, np.uint8)
    raw[1:] = codes.ravel()
    wide = np.zeros((300, 20), np.uint8)
    wide[:, 5:14] = codes
    views = {
        "Fortran": np.asfortranarray(codes),
        "unaligned": raw[1:].reshape(300, 9),
        "columns": wide[:, 5:14],
        "every second row": np.repeat(codes, 2, axis=0)[::2],
        "backwards": codes[::-1].copy()[::-1],
        "read-only": codes.copy(),
    }
    views["read-only"].flags.writeable = False
    for name, view in views.items():
        before = view.copy()
        for found, right in zip(everything(queries, view), expected, strict=True):
            np.testing.assert_array_equal(found, right, err_msg=name)
        np.testing.assert_array_equal(view, before, err_msg=name)
    for found, right in zip(everything(np.asfortranarray(queries), codes), expected, strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize(("n_queries", "n_codes"), [(0, 10), (3, 0), (0, 0), (1, 1)])
def test_few_rows(engine, n_queries, n_codes):
    queries, codes = np.zeros((n_queries, 8), np.uint8), np.full((n_codes, 8), 255, np.uint8)
    far, where = hamming.topk(queries, codes, 5)
    assert far.shape == where.shape == (n_queries, min(5, n_codes))
    assert (far == 64).all()
    offsets, found, _ = hamming.radius(queries, codes, 64)
    assert offsets.tolist() == [i * n_codes for i in range(n_queries + 1)]
    assert len(found) == n_queries * n_codes
    assert (
        hamming.distances(queries, codes).shape == hamming.rank(queries, codes).shape == (n_queries, n_codes)
    )
    labels = np.zeros(n_queries, int), np.zeros(n_codes, int)
    scores = hamming.stable_scores(queries, codes, labels, at=(1,))
    assert scores.total.sum() == scores.n_relevant.sum() == n_queries * n_codes
    assert scores.at_hits.sum() == (n_queries if n_codes else 0)


def test_equal_codes_come_in_the_order_of_their_row(engine):
    codes = np.full((5000, 8), 3, np.uint8)
    far, where = hamming.topk(codes[:6], codes, 4999)
    assert not far.any()
    assert (where == np.arange(4999)).all()
    assert (hamming.rank(codes[:6], codes) == np.arange(5000)).all()


def test_subset(engine, rng):
    codes = rng.integers(0, 256, (400, 8), dtype=np.uint8)
    mask = rng.random(400) < 0.1
    rows = rng.permutation(np.flatnonzero(mask))
    expected = hamming.topk(codes[:5], codes, 400, subset=mask)
    for same in (rows, np.concatenate([rows, rows]), rows.astype(np.uint16), rows.tolist()):
        for found, right in zip(hamming.topk(codes[:5], codes, 400, subset=same), expected, strict=True):
            np.testing.assert_array_equal(found, right)
    assert set(expected[1].ravel()) == set(rows)
    for nothing in ([], np.zeros(400, bool)):
        assert hamming.topk(codes[:5], codes, 3, subset=nothing)[1].shape == (5, 0)
        assert hamming.radius(codes[:5], codes, 64, subset=nothing)[0].tolist() == [0] * 6


good = np.zeros((3, 8), np.uint8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: hamming.topk(good.astype(int), good, 1),
            "queries must be packed codes of dtype uint8, got int64",
        ),
        (lambda: hamming.topk(good[0], good, 1), r"queries must be 2-D, .* got shape \(8,\)"),
        (lambda: hamming.topk(good, good[:, :7], 1), "queries have 8 bytes per row but codes have 7"),
        (lambda: hamming.distances(good[:, :0], good[:, :0]), "1 to 128 bytes per row, got 0"),
        (lambda: hamming.distances(good, np.zeros((1, 129), np.uint8)), "1 to 128 bytes per row, got 129"),
        (lambda: hamming.topk(good, good, 0), "k must be at least 1, got 0"),
        (lambda: hamming.radius(good, good, -1), "radius must be at least 0, got -1"),
        (lambda: hamming.topk(good, good, 1, n_threads=0), "n_threads must be at least 1, got 0"),
        (lambda: hamming.topk(good, good, 1, subset=[0, 3]), "subset has row 3, but codes has rows 0 to 2"),
        (lambda: hamming.topk(good, good, 1, subset=[-1]), "subset has row -1"),
        (lambda: hamming.topk(good, good, 1, subset=[True]), "one entry per code: got 1 for 3 codes"),
        (
            lambda: hamming.topk(good, good, 1, subset=[0.5]),
            "row numbers or a boolean mask, got dtype float64",
        ),
        (lambda: hamming.topk(good, good, 1, subset=[[0]]), "subset must be 1-D"),
        (
            lambda: hamming.histogram(good, good, n_bits=56),
            "n_bits must be 57 to 64 for codes of 8 bytes, got 56",
        ),
        (lambda: hamming.histogram(good, good, labels=[1, 2, 3]), "must be a pair"),
        (lambda: hamming.histogram(good, good, labels=([1, 2], [1, 2, 3])), "3 query labels are needed"),
        (
            lambda: hamming.histogram(good, good, labels=([1, 2, 3], good)),
            "both be 1-D classes or both be 2-D",
        ),
        (
            lambda: hamming.histogram(good, good, labels=([1.5] * 3, [1] * 3)),
            "must be integers, got dtype float64",
        ),
        (
            lambda: hamming.histogram(good, good, labels=(good, good[:, 1:])),
            "8 columns but code labels have 7",
        ),
        (lambda: hamming.histogram(good, good, labels=(good, good.astype(np.uint64))), "must both be packed"),
        (
            lambda: hamming.stable_scores(good, good, ([1] * 3, [1] * 3), at=(0,)),
            "at must be at least 1, got",
        ),
        (
            lambda: hamming.stable_scores(good, good, ([1] * 3, [1] * 3), radius=(-1,)),
            "radius must be at least 0",
        ),
        (lambda: hamming.pack(np.zeros(3)), "bits must be 2-D"),
        (lambda: hamming.pack_labels(np.zeros(3)), "indicators must be 2-D"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
