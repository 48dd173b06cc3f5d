"""`export_onnx`: the hash functions of a model as an ONNX graph, features in and packed codes out.

The graph is that of the equations: the feature map, the functions, signs, and bits in the order of `np.packbits`. It
does not settle values that rounding could turn (`rounding.py`), so of a row with a value within rounding of 0 that bit
may differ from `transform`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from hashstream._extras import require
from hashstream._files import write_file
from hashstream.hashers import posterior_steps as steps
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.features import CenterUnit, FeatureMap, RBFAnchors
from hashstream.hashers.gaussian_map import GaussianMap
from hashstream.hashers.posterior import PosteriorHash
from hashstream.hashers.posterior_functions import Functions
from hashstream.hashers.serialization import check_given
from hashstream.hashers.sketch import SketchingHasher
from hashstream.versions import __version__

__all__ = ["export_onnx"]

OPSET, IR_VERSION = 17, 8
"""Old enough for any runtime since 2022."""


def export_onnx(hasher: OnlineHasher, path: str | os.PathLike[str]) -> None:
    """Write the current hash functions of a fitted hasher to `path`, whole or not at all.

    The graph takes `X` (n, d) in the model's dtype, and gives `codes` (n, ceil(n_bits / 8)) uint8 and `values`
    (n, n_bits), whose signs the bits are. NaN and infinity are not refused. Its metadata name the method, its version
    and the number of bits. For every method of hashstream but ClassifierHash, with any of its feature maps, and for
    methods of one's own whose values are X @ projection_; ValueError for others. Needs the extra `onnx`.

    >>> import tempfile, onnxruntime, numpy as np, hashstream as hs
    >>> X = np.random.default_rng(0).standard_normal((100, 16)).astype(np.float32)
    >>> hasher = hs.LSH(n_bits=12, random_state=0).fit(X)
    >>> path = tempfile.mkdtemp() + "/hasher.onnx"
    >>> export_onnx(hasher, path)
    >>> (codes,) = onnxruntime.InferenceSession(path).run(["codes"], {"X": X})
    >>> np.array_equal(codes, hasher.transform(X))
    True
    """
    check_given(hasher, "exported")
    onnx = require("onnx", "onnx")
    encoder = hasher.encoder()
    graph = _Graph(np.dtype(encoder.dtype))
    features, model = graph.mapped("X", encoder.feature_map), encoder.model
    if model is None and encoder.projection is not None:
        graph.node("MatMul", features, encoder.projection, out="values")
    elif isinstance(model, SketchingHasher):
        product = graph.node("MatMul", features, model.projection_)
        graph.node("Sub", product, model.mean_ @ model.projection_, out="values")
    elif isinstance(model, PosteriorHash):
        graph.posterior(features, model.functions(), out="values")
    else:
        raise ValueError(f"{type(hasher).__name__} cannot be exported: its bits are not signs of a product")
    graph.packed("values", encoder.n_bits, out="codes")
    real = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(encoder.dtype))
    written = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "hashstream",
            [onnx.helper.make_tensor_value_info("X", real, ["n", encoder.n_features])],
            [
                onnx.helper.make_tensor_value_info("codes", onnx.TensorProto.UINT8, ["n", encoder.width]),
                onnx.helper.make_tensor_value_info("values", real, ["n", encoder.n_bits]),
            ],
            graph.constants,
        ),
        producer_name="hashstream",
        producer_version=__version__,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    card = {"method": type(hasher).__name__, "version": encoder.version, "n_bits": encoder.n_bits}
    onnx.helper.set_model_props(written, {name: str(value) for name, value in card.items()})
    onnx.checker.check_model(written, full_check=True)
    write_file(Path(path), written.SerializeToString())


class _Graph:
    """Nodes and constants of a graph; a method adds nodes and returns the name of their result."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype, self.helper = dtype, require("onnx", "onnx").helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(
            require("onnx.numpy_helper", "onnx").from_array(np.ascontiguousarray(value), name)
        )
        return name

    def node(self, operator: str, *inputs: str | np.ndarray, out: str = "", **attributes: Any) -> str:
        """Arrays become constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        out = out or f"n{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, names, [out], **attributes))
        return out

    def real(self, value: float) -> np.ndarray:
        return np.array(value, self.dtype)

    def mapped(self, X: str, feature_map: FeatureMap | None) -> str:
        """The features of X."""
        if feature_map is None:
            return X
        if (write := MAPS.get(type(feature_map))) is None:
            raise ValueError(f"the feature map {type(feature_map).__name__} cannot be exported")
        return write(self, X, feature_map)

    def unit(self, X: str) -> str:
        """Rows of unit length; zero rows stay zero."""
        lengths = self.node("Sqrt", self.node("ReduceSumSquare", X, axes=[1], keepdims=1))
        some = self.node("Greater", lengths, self.real(0))
        return self.node("Div", X, self.node("Where", some, lengths, self.real(1)))

    def gaussian(self, X: str, origin: np.ndarray, anchors: np.ndarray, width: float) -> str:
        """exp(-|x - a_j|^2 / (2 width)), for anchors (m, d) about the origin."""
        X = self.node("Sub", X, origin)
        inner = self.node("MatMul", X, -2 * anchors.T)
        squares = self.node("ReduceSumSquare", X, axes=[1], keepdims=1)
        about = self.node("Add", inner, np.einsum("ij,ij->i", anchors, anchors))
        squared = self.node("Relu", self.node("Add", about, squares))
        return self.node("Exp", self.node("Div", squared, self.real(-2 * width)))

    def posterior(self, X: str, found: Functions, out: str) -> str:
        """The values of PosteriorHash: see `Functions`, step by step."""
        Y = self.centred(X, found.map.origin)
        if found.map.reduction is not None:
            Y = self.node("MatMul", Y, found.map.reduction)
        S = Y if found.map.basis is None else self.node("MatMul", Y, found.map.basis)
        linear = found.map.size - found.map.directions.shape[1]
        G = self.node("Add", self.node("MatMul", Y, found.weights[:linear]), found.offsets)
        if found.map.directions.shape[1]:
            random = self.node("Relu", self.node("MatMul", S, found.map.directions))
            G = self.node("Add", G, self.node("MatMul", random, found.weights[linear:]))
        T = found.codewords.astype(self.dtype)
        if found.hard:
            M = self.node("Gather", T, self.node("ArgMax", G, axis=1, keepdims=0), axis=0)
        else:
            M = self.node("MatMul", self.node("Softmax", G, axis=1), T)
        M = self.node("Clip", self.node("Mul", M, self.real(found.gain)), self.real(-1), self.real(1))
        u = self.dither(S, found.dither, found.dither_offsets)
        K = steps.feedback(found.codewords) if found.gain else np.zeros((T.shape[1],) * 2)
        if found.plain is None:
            return self.diffused(M, u, K, out)
        values = self.diffused(M, u, K, "")
        plain = self.centred(X, found.plain.origin)
        plain = self.dither(plain, found.plain.directions, np.zeros(found.plain.directions.shape[1]))
        return self.node("Concat", values, plain, out=out, axis=1)

    def centred(self, X: str, origin: np.ndarray) -> str:
        """sqrt(d) (x - o) / |x - o|; 0 where x = o."""
        return self.node("Mul", self.unit(self.node("Sub", X, origin)), self.real(sqrt(len(origin))))

    def dither(self, S: str, directions: np.ndarray, offsets: np.ndarray) -> str:
        """`posterior_steps.dither`."""
        a = self.node("Sub", self.node("MatMul", S, directions), offsets.astype(self.dtype))
        cubic = self.node("Mul", self.node("Mul", a, a), self.real(0.044715))
        factor = self.node("Mul", self.node("Add", cubic, self.real(1)), self.real(-sqrt(2 / pi)))
        return self.node("Tanh", self.node("Mul", a, factor))

    def diffused(self, M: str, u: str, K: np.ndarray, out: str) -> str:
        """M + u, with the error of each bit taken from those after it, bit by bit."""
        values, n_bits = self.node("Add", M, u), len(K)
        for k in range(n_bits - 1 if K.any() else 0):
            value, mean = (self.node("Gather", one, np.array([k], np.int64), axis=1) for one in (values, M))
            bit = self.node("Where", self.node("Greater", value, self.real(0)), self.real(1), self.real(-1))
            after = np.where(np.arange(n_bits) > k, K[k], 0).astype(self.dtype)
            values = self.node("Sub", values, self.node("Mul", self.node("Sub", bit, mean), after))
        return self.node("Identity", values, out=out)

    def packed(self, values: str, n_bits: int, out: str) -> str:
        """The signs of values (n, n_bits) as bits of bytes, the first the highest."""
        width = -(-n_bits // 8)
        bits = self.node("Cast", self.node("Greater", values, self.real(0)), to=1)  # float32 holds any byte
        if n_bits % 8:
            pads = np.array([0, 0, 0, 8 * width - n_bits], np.int64)
            bits = self.node("Pad", bits, pads, np.array(0, np.float32))
        bits = self.node("Reshape", bits, np.array([0, width, 8], np.int64))
        powers = 2.0 ** np.arange(7, -1, -1, dtype=np.float32)
        numbers = self.node("ReduceSum", self.node("Mul", bits, powers), np.array([2], np.int64), keepdims=0)
        return self.node("Cast", numbers, out=out, to=2)


def _center_unit(graph: _Graph, X: str, fitted: Any) -> str:
    return graph.unit(graph.node("Sub", X, fitted.mean_))


def _rbf_anchors(graph: _Graph, X: str, fitted: Any) -> str:
    near = graph.gaussian(X, fitted.origin_, fitted.anchors_, fitted.width_)
    return graph.unit(graph.node("Sub", near, fitted.mean_))


def _gaussian_map(graph: _Graph, X: str, fitted: Any) -> str:
    near = graph.gaussian(X, fitted.origin_, fitted.anchors_, fitted.width_)
    return graph.node("Pad", near, np.array([0, 0, 0, 1], np.int64), graph.real(1))


MAPS: dict[type[FeatureMap], Callable[[_Graph, str, Any], str]] = {
    CenterUnit: _center_unit,
    RBFAnchors: _rbf_anchors,
    GaussianMap: _gaussian_map,
}
