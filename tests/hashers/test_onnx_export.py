"""`export_onnx`: onnxruntime gives the codes of `transform`, but for bits within rounding of 0, which are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hashstream as hs
from hashstream.checks import class_stream

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

METHODS = sorted(set(hs.methods()) - {"ClassifierHash", "PosteriorHash"})
MAPS = (None, "center", "rbf", "okh")


def fitted(method: str, n_bits: int = 12, dtype: type = np.float32, **parameters: Any) -> hs.OnlineHasher:
    X, y = class_stream(200, 24, 4)
    return hs.methods()[method](n_bits=n_bits, random_state=0, **parameters).partial_fit(X.astype(dtype), y)


def run(path: Path, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes, values = onnxruntime.InferenceSession(path).run(["codes", "values"], {"X": X})
    return codes, values


def doubtful(hasher: hs.OnlineHasher, X: np.ndarray, codes: np.ndarray) -> int:
    """How many bits differ from `transform`; all must be of values that are within rounding of 0."""
    values = hasher.decision_function(X)
    largest = np.abs(values).max(axis=1, keepdims=True)
    differ = np.unpackbits(codes ^ hasher.transform(X), axis=1)[:, : values.shape[1]].astype(bool)
    assert (np.abs(values) < 1e3 * np.finfo(values.dtype).eps * largest)[differ].all()
    return int(differ.sum())


@pytest.mark.thinned("pairs")
@pytest.mark.filterwarnings("ignore:only .* anchors")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_with_every_map(method: str, feature_map: Any, dtype: type, tmp_path: Path) -> None:
    hasher = fitted(method, dtype=dtype, feature_map=feature_map)
    hs.export_onnx(hasher, tmp_path / "hasher.onnx")
    X = np.random.default_rng(1).standard_normal((2000, 24)).astype(dtype)
    codes, values = run(tmp_path / "hasher.onnx", X)
    assert (codes.dtype, codes.shape, values.shape) == (np.uint8, (2000, 2), (2000, 12))
    assert doubtful(hasher, X, codes) <= 2
    np.testing.assert_allclose(values, hasher.decision_function(X), rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:only .* anchors")
@pytest.mark.parametrize(
    ("method", "feature_map"),
    [*((method, "center") for method in METHODS), ("FCOH", None), ("FCOH", "rbf"), ("RidgeHash", "rbf")],
)
def test_a_hundred_thousand_rows(method: str, feature_map: Any, tmp_path: Path) -> None:
    hasher = fitted(method, 20, feature_map=feature_map)
    hs.export_onnx(hasher, tmp_path / "hasher.onnx")
    X = np.random.default_rng(1).standard_normal((100_000, 24)).astype(np.float32)
    assert doubtful(hasher, X, run(tmp_path / "hasher.onnx", X)[0]) <= 20  # of 2,000,000 bits


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows(n: int, tmp_path: Path) -> None:
    hs.export_onnx(fitted("LSH", 9, feature_map="center"), tmp_path / "hasher.onnx")
    assert run(tmp_path / "hasher.onnx", np.ones((n, 24), np.float32))[0].shape == (n, 2)


def test_a_row_that_is_the_mean(tmp_path: Path) -> None:
    hasher = fitted("LSH", 9, feature_map="center")
    hs.export_onnx(hasher, tmp_path / "hasher.onnx")
    X = hasher.feature_map_.mean_[None]
    codes, values = run(tmp_path / "hasher.onnx", X)
    assert not codes.any()
    assert (values == 0).all()


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    hasher = fitted("FCOH", 16)
    hs.export_onnx(hasher, tmp_path / "hasher.onnx")
    model = onnx.load(tmp_path / "hasher.onnx")
    said = {one.key: one.value for one in model.metadata_props}
    assert said == {"method": "FCOH", "version": str(hasher.version_), "n_bits": "16"}
    assert model.producer_name == "hashstream"


@pytest.mark.thinned("values")
@pytest.mark.parametrize(
    "parameters", [{}, {"feature_map": "center"}, {"plain_bits": 4}, {"n_bits": 64}], ids=str
)
@pytest.mark.parametrize("n_seen", [0, 30, 3000])
def test_posterior_hash(n_seen: int, parameters: dict[str, Any], tmp_path: Path) -> None:
    hasher = hs.PosteriorHash(**{"n_bits": 12, "random_state": 0, **parameters})
    X, y = class_stream(4000, 24, 4)
    X = X.astype(np.float32)
    hasher = hasher.started(X[:100]) if not n_seen else hasher.partial_fit(X[:n_seen], y[:n_seen])
    hs.export_onnx(hasher, tmp_path / "hasher.onnx")
    codes, _ = run(tmp_path / "hasher.onnx", X)
    differ = (codes != hasher.transform(X)).any(axis=1)  # where a bit turns, those after it may turn as well
    assert differ.sum() <= 4


def test_a_hundred_thousand_rows_of_posterior_hash(tmp_path: Path) -> None:
    X, y = class_stream(100_000, 24, 20)
    X = X.astype(np.float32)
    hasher = hs.PosteriorHash(n_bits=64, random_state=0).partial_fit(X[:3000], y[:3000])
    hs.export_onnx(hasher, tmp_path / "hasher.onnx")
    differ = (run(tmp_path / "hasher.onnx", X)[0] != hasher.transform(X)).any(axis=1)
    assert differ.sum() <= 100


def test_posterior_hash_of_many_features(tmp_path: Path) -> None:
    """Enough of them for a basis and a reduction."""
    X, y = class_stream(600, 3000, 4)
    X = X.astype(np.float32)
    hasher = hs.PosteriorHash(n_bits=16, random_state=0).partial_fit(X[:500], y[:500])
    assert hasher.functions().map.reduction is not None
    assert hasher.functions().map.basis is not None
    hs.export_onnx(hasher, tmp_path / "hasher.onnx")
    assert (run(tmp_path / "hasher.onnx", X)[0] != hasher.transform(X)).any(axis=1).sum() <= 1


def test_other_methods_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ClassifierHash cannot be exported"):
        hs.export_onnx(fitted("ClassifierHash"), tmp_path / "hasher.onnx")
    assert not list(tmp_path.iterdir())


def test_an_unknown_map_and_an_unfitted_hasher_are_refused(tmp_path: Path) -> None:
    class Mine(hs.features.CenterUnit):
        pass

    with pytest.raises(ValueError, match="the feature map Mine cannot be exported"):
        hs.export_onnx(fitted("LSH", feature_map=Mine()), tmp_path / "hasher.onnx")
    with pytest.raises(ValueError, match="fit"):
        hs.export_onnx(hs.LSH(n_bits=8), tmp_path / "hasher.onnx")
    assert not list(tmp_path.iterdir())
