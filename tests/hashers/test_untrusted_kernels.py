"""Kernels refuse indexes and shapes that would lead out of an array, whatever state they are handed."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream.checks import class_stream
from hashstream.hashers.fcoh_steps import Batch, Rate
from hashstream.hashers.kernels import adapthash, codewords, fcoh, mihash, okh
from hashstream.hashers.kernels.mihash import Piece

X, Y = class_stream(n=120, d=12)


def needs(kernel) -> None:
    if not kernel:
        pytest.skip("no compiled kernels")


@pytest.mark.parametrize("rows", [[0, 1, 2, 4], [0, -1, 2, 3], [0, 1, 2, 2**40]])
def test_codeword_kernel_refuses_rows(rows) -> None:
    needs(codewords.KERNEL)
    codebook, W = np.ones((4, 6), np.int8), np.zeros((12, 6))
    with pytest.raises(ValueError, match="rows must be from 0 to 3"):
        codewords.take_steps("hcoh", X[:4], np.array(rows), codebook, W, 0.1)


def test_codeword_kernel_refuses_shapes() -> None:
    needs(codewords.KERNEL)
    codebook, W, rows = np.ones((4, 6), np.int8), np.zeros((12, 6)), np.arange(4)
    for total, held, mistakes in (((12, 5), 6, 6), ((12, 6), 5, 6), ((12, 6), 6, 5)):
        averaging = np.zeros(total), np.zeros(held, np.int64), np.zeros(mistakes, np.int64)
        with pytest.raises(ValueError, match=r"(total|held|mistakes) must"):
            codewords.take_steps("hmoh", X[:4], rows, codebook, W, 0.1, 1, averaging)
    with pytest.raises(ValueError, match="averaging"):
        codewords.take_steps("hmoh", X[:4], rows, codebook, W, 0.1)
    with pytest.raises(ValueError, match="batch"):
        codewords.take_steps("hcoh", X[:4], rows, codebook, W, 0.1, 0)


@pytest.mark.parametrize("first", [[0, 3, 2, 4], [1, 2, 4], [0, 2, 400], [-1, 2, 4], []])
def test_fcoh_kernel_refuses_classes(first) -> None:
    needs(fcoh.KERNEL)
    first = np.array(first, np.int64)
    weights = np.ones(max(0, len(first) - 1))
    batch = Batch(np.eye(7), np.zeros((7, 3)), first, weights, weights)
    with pytest.raises(ValueError, match="first"):
        fcoh.take_steps(batch, Rate(False, 0.1))
    with pytest.raises(ValueError, match="first"):
        fcoh.gather(X[:4], np.arange(4), first, np.empty((7, 12)))


def test_fcoh_kernel_refuses_order_and_weights() -> None:
    needs(fcoh.KERNEL)
    first = np.array([0, 2, 4])
    for order in ([0, 1, 2, 4], [0, 1, 2, -1]):
        with pytest.raises(ValueError, match="order"):
            fcoh.gather(X[:4], np.array(order), first, np.empty((7, 12)))
    batch = Batch(np.eye(7), np.zeros((7, 3)), first, np.ones(1), np.ones(2))
    with pytest.raises(ValueError, match="similar must"):
        fcoh.take_steps(batch, Rate(False, 0.1))


@pytest.mark.parametrize("slots", [[2, 1], [1, 3], [-2, 0], [0, 2**40]])
def test_mihash_kernel_refuses_slots(slots) -> None:
    needs(mihash.KERNEL)
    piece = Piece(X[:2], X[:1], np.ones((2, 3), bool), np.array(slots), np.ones(2), 1.0, 4)
    with pytest.raises(ValueError, match="slots"):
        mihash.take_steps(piece, np.zeros((12, 3)), np.zeros((1, 3)))


@pytest.mark.parametrize("filled", [-2, 1, 63, 66, 2**40])
def test_adapthash_kernel_refuses_fills(filled: int) -> None:
    needs(adapthash.KERNEL)
    W = np.zeros((12, 4))
    block = adapthash.Block.of(W)
    block.filled = filled
    with pytest.raises(ValueError, match="filled"):
        adapthash.learn_pairs(W, block, X[:2], np.ones(1, bool), (0.0, 4.0), 0.1, 0.01)


def test_pair_kernels_refuse_shapes() -> None:
    needs(okh.KERNEL)
    W, similar = np.zeros((12, 4)), np.ones(2, bool)
    for rows in (X[:3], X[:4, :11], X[:4].astype(np.float32), X[:8:2]):
        with pytest.raises(ValueError, match="X must be"):
            okh.learn_pairs(W, rows, similar, (0.0, 4.0), 0.1)
        for block in (None, adapthash.Block.of(W)):
            with pytest.raises(ValueError, match="X must be"):
                adapthash.learn_pairs(W, block, rows, similar, (0.0, 4.0), 0.1, 0.01)
