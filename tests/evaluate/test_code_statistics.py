import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hashstream as hs


@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(2, 30), st.integers(1, 80)), elements=st.integers(0, 1)),
)
def test_against_numpy(bits):
    n, n_bits = bits.shape
    got = hs.evaluate.code_statistics(np.packbits(bits, axis=1), n_bits)
    np.testing.assert_allclose(got.ones, bits.mean(axis=0))
    dead = [j for j in range(n_bits) if bits[:, j].min() == bits[:, j].max()]
    assert got.dead.tolist() == dead
    rows = [tuple(row) for row in bits.tolist()]
    assert got.distinct == len(set(rows))
    assert got.biggest_bucket == max(rows.count(row) for row in rows)
    same = sum(rows[i] == rows[j] for i in range(n) for j in range(n) if i != j)
    assert got.collision == pytest.approx(same / (n * (n - 1)))
    alive = [j for j in range(n_bits) if j not in dead]
    if len(alive) > 1:
        table = np.abs(np.corrcoef(bits[:, alive].T.astype(float)))
        pairs = table[np.triu_indices(len(alive), 1)]
        assert got.correlation_mean == pytest.approx(pairs.mean())
        assert got.correlation_max == pytest.approx(pairs.max())
        i, j = (alive.index(b) for b in got.most_correlated)
        assert table[i, j] == pytest.approx(pairs.max())
    else:
        assert np.isnan(got.correlation_mean)
        assert got.most_correlated is None


def test_words_name_what_is_wrong():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (1000, 8))
    bits[:, 3] = 1
    bits[:, 5] = 1 - bits[:, 2]
    bits[:, 7] = np.arange(1000) < 20
    words = str(hs.evaluate.code_statistics(np.packbits(bits, axis=1)))
    assert "Dead, the same in every code: bit 3." in words
    assert "Bits 2 and 5 say the same" in words
    assert "one side: bit 7." in words
    assert "All bits are in use" not in words


def test_healthy_codes_are_called_so():
    bits = np.random.default_rng(0).integers(0, 2, (5000, 24))
    got = hs.evaluate.code_statistics(np.packbits(bits, axis=1))
    assert "All bits are in use" in str(got)
    assert got.balance > 0.95
    assert got.correlation_max < 0.1


def test_pieces_do_not_change_the_result(monkeypatch):
    codes = np.random.default_rng(1).integers(0, 256, (300, 3), np.uint8)
    whole = hs.evaluate.code_statistics(codes)
    monkeypatch.setattr(sys.modules["hashstream.evaluate.code_statistics"], "_BITS", 7)
    cut = hs.evaluate.code_statistics(np.asfortranarray(codes))
    assert str(cut) == str(whole)
    np.testing.assert_array_equal(cut.ones, whole.ones)
    assert cut.correlation_mean == whole.correlation_mean


def test_one_item_and_all_items_equal():
    one = hs.evaluate.code_statistics(np.zeros((1, 2), np.uint8))
    assert (one.collision, one.distinct, one.biggest_bucket, len(one.dead)) == (0, 1, 1, 16)
    same = hs.evaluate.code_statistics(np.full((10, 9), 255, np.uint8))
    assert (same.collision, same.distinct, same.biggest_bucket, len(same.dead)) == (1, 1, 10, 72)
    assert "and 60 more" in str(same)


@pytest.mark.parametrize(
    ("codes", "n_bits", "says"),
    [
        (np.zeros((0, 1), np.uint8), None, "empty"),
        (np.zeros((3, 1)), None, "uint8"),
        (np.zeros(3, np.uint8), None, "shape"),
        (np.zeros((3, 2), np.uint8), 8, "9 to 16"),
        (np.array([[0], [1]], np.uint8), 4, r"codes\[1\] has ones past bit 4"),
        (np.zeros((3, 1), np.uint8), 2.5, "an integer"),
    ],
)
def test_bad_input_is_named(codes, n_bits, says):
    with pytest.raises(ValueError, match=says):
        hs.evaluate.code_statistics(codes, n_bits)
