"""Saved models to mutate, and a file taken apart and sealed again with a digest that fits."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors.numpy import load as read_tensors

import hashstream as hs
from hashstream.checks import class_stream
from hashstream.hashers import FCOH_C
from hashstream.hashers.gaussian_map import GaussianMap
from hashstream.hashers.serialization import _digest, to_bytes

DTYPES = {
    **{
        f"{kind}{8 * size}": f"{kind[0].upper()}{8 * size}"
        for kind in ("int", "uint")
        for size in (1, 2, 4, 8)
    },
    **{"float16": "F16", "float32": "F32", "float64": "F64", "bool": "BOOL"},
}
NEST = "@nest "
"""A string in a card that `sealed` replaces by as many nested lists as the number after it says."""


@dataclass
class Parts:
    """A model file: its card, as JSON that may be changed, and its tensors."""

    card: Any
    tensors: dict[str, np.ndarray]

    @property
    def hasher(self) -> Any:
        """The hasher's part of the card; the card itself where a mutation has taken that away."""
        return self.card.get("hasher", self.card)

    @property
    def name(self) -> str:
        return str(self.card["hasher"]["object"])


def opened(raw: bytes) -> Parts:
    """The parts of a model file."""
    size = int.from_bytes(raw[:8], "little")
    card = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["card"])
    return Parts(card, {name: tensor.copy() for name, tensor in sorted(read_tensors(raw).items())})


def sealed(parts: Parts) -> bytes:
    """The parts as a file, with a digest that fits."""
    text = json.dumps(parts.card, sort_keys=True)
    while (at := text.find(f'"{NEST}')) >= 0:
        end = text.index('"', at + 1)
        depth = int(text[at + 1 + len(NEST) : end])
        text = text[:at] + '{"list": [' * depth + "1" + "]}" * depth + text[end + 1 :]
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in parts.tensors.items()}
    return _written(tensors, {"card": text, "sha256": _digest(text, tensors)})


def _written(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """A safetensors file whose bytes are always the same: the library's own writer orders the metadata at random."""
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": DTYPES[tensor.dtype.name],
            "shape": tensor.shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(tensor.tobytes() for tensor in tensors.values())


def corpus() -> list[bytes]:
    """A saved model of every method, in each of its forms of state, with every feature map and kind of label."""
    X, y = class_stream(n=90, d=12, classes=4)
    names = np.array(["a", "b", "c", "d"])[y]
    matrix = (np.random.default_rng(0).random((90, 5)) < 0.4).astype(int)
    single = X.astype(np.float32)
    models: list[hs.OnlineHasher] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for method in hs.methods(variants=True).values():
            models += [
                method(n_bits=6, random_state=0).partial_fit(X[:41], y[:41]),
                method(n_bits=16, random_state=0, feature_map="center").partial_fit(single, names),
                method(n_bits=8, random_state=0, feature_map=hs.features.RBFAnchors(10)).partial_fit(
                    X, names
                ),
                method(n_bits=5, random_state=np.random.Generator(np.random.MT19937(3))),
            ]
            if method.multilabel:
                models.append(method(n_bits=9, random_state=0).partial_fit(X[:50], matrix[:50]))
        models += [
            hs.FCOH(8, learning_rate=1e-4, passes=2, random_state=0).partial_fit(X, y),
            FCOH_C(8, random_state=0).partial_fit(X, y),
            hs.OSH(8, boost=False, random_state=0).partial_fit(X, y),
            hs.OSH(8, paper_compat=True, codebook=np.ones((2, 8)), random_state=0).partial_fit(X, y),
            hs.HCOH(8, batch_size=7, rows="ordered", random_state=0).partial_fit(X, y),
            hs.MIHash(8, reservoir_size=20, n_bins=7, random_state=0).partial_fit(X, y),
            hs.OKH(8, feature_map=GaussianMap(9, width="published"), random_state=0).partial_fit(X, y),
            hs.SketchHash(8, sketch_size=4, random_state=0).partial_fit(X),
            hs.SketchHash(8, paper_compat=True, random_state=0).partial_fit(X),
            hs.FROSH(8, sketch_size=8, random_state=0).partial_fit(X),
            hs.RidgeHash(8, rank=6, forgetting=0.99, random_state=0).partial_fit(X, y),
            hs.RidgeHash(8, classes=[3, 1, 0, 2], random_state=0).partial_fit(X, y),
            *posterior_stages(),
            hs.PosteriorHash(9, plain_bits=4, width=8, random_state=0).partial_fit(X, y),
            hs.LSH(
                8, init=np.ones((12, 8)), random_state=np.random.Generator(np.random.Philox(3))
            ).partial_fit(X),
            hs.LSH(8, random_state=np.random.Generator(np.random.SFC64(3))),
            hs.FCOH(8, feature_map=hs.features.CenterUnit(sample=X[:30]), random_state=0),
        ]
    return [sealed(opened(to_bytes(model))) for model in models]


def posterior_stages() -> list[hs.PosteriorHash]:
    """PosteriorHash with no row learned, with a drawn map, a watch, rows that are not summed yet, and after a change;
    before the map is drawn it is in the corpus as any method is."""
    X, y = class_stream(n=3000, d=12, classes=4)
    small: dict[str, Any] = {"n_bits": 6, "width": 8, "sample_size": 60, "random_state": 0}
    moved = np.concatenate([X[:1500], X[1500:, ::-1]])
    stages = [
        hs.PosteriorHash(**small).partial_fit(X[:20], np.zeros((20, 3), int)),
        hs.PosteriorHash(**small, sample=X[:100]).partial_fit(X[:7], y[:7]),
        hs.PosteriorHash(**small, drift=False).partial_fit(X[:1100], y[:1100]),
        hs.PosteriorHash(**small).partial_fit(X[:1730].astype(np.float32), y[:1730]),
        hs.PosteriorHash(**small).partial_fit(moved[:1900], y[:1900]),
    ]
    assert stages[-1].changes_ == 1
    return stages
