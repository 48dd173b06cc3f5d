"""Numbers that are narrower than float32, and tensors: taken as float32, block by block."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import hashstream as hs
from hashstream.checks import class_stream, state_of
from hashstream.hashers.validation import check_rows, detached

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes, which has bfloat16, is not installed")

NARROW = [
    np.int8,
    np.uint8,
    np.int64,
    bool,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e5m2,
    ">f2",
    ">f4",
]
HASHERS = [
    hs.LSH(n_bits=12, random_state=0),
    hs.FCOH(n_bits=12, feature_map="center", random_state=0),
]


class StandIn:
    """A tensor with the methods of PyTorch's that are used, and its refusals."""

    def __init__(self, array: np.ndarray, requires_grad: bool = False, device: str = "cpu") -> None:
        self.array, self.requires_grad, self.device = array, requires_grad, device
        self.shape, self.ndim, self.itemsize = array.shape, array.ndim, array.itemsize
        self.dtype = f"torch.{array.dtype}"

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Any) -> StandIn:
        return StandIn(self.array[rows], self.requires_grad, self.device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self.device != "cpu":
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy it."
            )
        if self.array.dtype == ml_dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array if dtype is None else self.array.astype(dtype)

    def detach(self) -> StandIn:
        return StandIn(self.array, False, self.device)

    def cpu(self) -> StandIn:
        return StandIn(self.array, self.requires_grad)

    def float(self) -> StandIn:
        return StandIn(self.array.astype(np.float32), self.requires_grad, self.device)

    def is_floating_point(self) -> bool:
        return self.array.dtype.kind in "fV"


def torch_tensor(array: np.ndarray, requires_grad: bool = False, device: str = "cpu") -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if device != "cpu":
        pytest.skip("needs a device that PyTorch can copy from")
    if array.dtype == ml_dtypes.bfloat16:
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    return tensor.requires_grad_(requires_grad)


TENSORS = pytest.mark.parametrize("tensor", [StandIn, torch_tensor], ids=["stand-in", "torch"])


def peak_of(call: Callable[[], object]) -> int:
    """The most memory in bytes that a call holds, its result included."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def narrow_stream(dtype: Any, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """A stream of which every number is one of the type, and as float32 the same stream."""
    X, y = class_stream(n=n)
    return (X > 0 if dtype is bool else np.abs(10 * X).astype(dtype)), y


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: np.dtype(dtype).str + np.dtype(dtype).name)
@pytest.mark.parametrize("hasher", HASHERS, ids=lambda hasher: repr(hasher)[:30])
def test_as_float32(hasher: hs.OnlineHasher, dtype: Any) -> None:
    """Learning and encoding are those of the same numbers as float32, to the last bit."""
    X, y = narrow_stream(dtype)
    wide, kept = X.astype(np.float32), X.copy()
    expected = clone(hasher).fit(wide, y)
    assert state_of(clone(hasher).fit(X, y)) == state_of(expected)
    assert state_of(clone(hasher).partial_fit(X, y)) == state_of(clone(hasher).partial_fit(wide, y))
    assert expected.dtype_ == "float32"
    assert np.array_equal(expected.transform(X), expected.transform(wide))
    assert np.array_equal(expected.decision_function(X), expected.decision_function(wide))
    assert np.array_equal(X, kept)


@pytest.mark.parametrize("dtype", [np.int64, np.float16, ml_dtypes.bfloat16])
def test_a_model_in_double_precision_encodes_them(dtype: Any) -> None:
    X, y = narrow_stream(dtype)
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(X.astype(np.float64), y)
    assert hasher.dtype_ == "float64"
    assert np.array_equal(hasher.transform(X), hasher.transform(X.astype(np.float64)))


@pytest.mark.parametrize(
    ("dtype", "feature_map"),
    [(np.uint8, None), (np.float16, None), (np.float16, "center"), (ml_dtypes.bfloat16, None)],
)
def test_large_input_is_converted_block_by_block(dtype: Any, feature_map: str | None) -> None:
    """A whole copy as float32 would be 61 MB; what is held is some blocks, of 4 MB or less, and the result."""
    n, d = 60_000, 256
    X = np.random.default_rng(0).integers(0, 100, (n, d), np.uint8).astype(dtype)
    y = np.arange(n) % 3
    hasher = hs.LSH(n_bits=8, batch_size=1000, feature_map=feature_map, random_state=0).fit(X, y)
    copy, result = 4 * n * d, n * (1 + 4)
    assert peak_of(lambda: X.astype(np.float32)) >= copy  # NumPy reports to tracemalloc
    hasher.transform(X[:100])
    for call in (hasher.transform, hasher.decision_function, lambda X: hasher.fit(X, y)):
        assert peak_of(lambda call=call: call(X)) < copy / 3 + result
    codes = hasher.transform(X)
    assert np.array_equal(codes, np.packbits(hasher.decision_function(X) > 0, axis=1))
    assert np.array_equal(codes[-50:], hasher.transform(X[-50:].astype(np.float32)))


@pytest.mark.parametrize(
    ("dtype", "feature_map"),
    [(np.float32, None), (np.float32, "center"), (np.float16, None), (ml_dtypes.bfloat16, "center")],
)
def test_the_row_of_a_nan_is_named(dtype: Any, feature_map: str | None) -> None:
    X = np.ones((30_000, 12), dtype)
    X[:50] = class_stream(n=50)[0]
    hasher = hs.LSH(n_bits=12, feature_map=feature_map, random_state=0).fit(X[:50].astype(np.float32))
    X[29_000, 3], X[29_500, 1] = np.nan, np.inf
    for call in (hasher.transform, hasher.decision_function, hs.LSH(n_bits=12).fit, hasher.partial_fit):
        with pytest.raises(ValueError, match=r"X\[29000, 3\] is nan"):
            call(X)


def test_other_kinds_are_refused_as_before() -> None:
    X = class_stream(n=20)[0]
    hasher = hs.LSH(n_bits=12, random_state=0).fit(X)
    for bad in (X + 1j, X.astype("S8").astype(object)[:, :3], X.astype("V8"), X.astype(np.float16)[0], X[:0]):
        with pytest.raises(ValueError):
            hasher.transform(bad)
    with pytest.raises(ValueError, match="X has 11 features, but LSH is expecting 12"):
        hasher.transform(X.astype(ml_dtypes.bfloat16)[:, 1:])


@TENSORS
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_tensors(tensor: Any, dtype: Any) -> None:
    X, y = class_stream()
    X = X.astype(dtype)
    given, labels = tensor(X, requires_grad=True), tensor(y)
    expected = hs.FCOH(n_bits=12, random_state=0).fit(X, y)
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(given, labels)
    assert state_of(hasher) == state_of(expected)
    assert state_of(hasher.partial_fit(given, labels)) == state_of(expected.partial_fit(X, y))
    assert np.array_equal(hasher.transform(given), expected.transform(X))
    assert np.array_equal(hasher.decision_function(given), expected.decision_function(X))
    assert hasher.score(given, labels) == expected.score(X, y)
    some = np.where(np.arange(len(y)) % 2, y, np.nan)
    hasher.fit(given, tensor(some))
    assert hasher.n_seen_ == len(X) // 2
    with pytest.raises(ValueError, match="features"):
        hasher.transform(given[:, :5])
    with pytest.raises(ValueError, match="2D"):
        hasher.transform(given[0])
    with pytest.raises(ValueError, match="minimum of 1"):
        hasher.transform(given[:0])


@TENSORS
def test_a_tensor_that_numpy_has_a_type_for_is_not_copied(tensor: Any) -> None:
    X = class_stream()[0]
    assert np.shares_memory(detached(tensor(X, requires_grad=True)), X)
    rows = check_rows(hs.LSH(), tensor(X.astype(ml_dtypes.bfloat16)), first=True, narrow=True)
    assert not isinstance(rows, np.ndarray)  # a tensor still: converted in blocks


@TENSORS
def test_a_large_tensor_is_converted_block_by_block(tensor: Any) -> None:
    X = np.random.default_rng(0).integers(0, 100, (20_000, 256), np.uint8).astype(ml_dtypes.bfloat16)
    given = tensor(X)  # what PyTorch allocates is not traced: the stand-in is the stricter test
    hasher = hs.LSH(n_bits=8, random_state=0).fit(X[:100])
    copy, result = 4 * X.size, 5 * len(X)
    for call in (hasher.transform, hasher.decision_function):
        assert peak_of(lambda call=call: call(given)) < copy / 3 + result
        assert np.array_equal(call(given), call(X))


@TENSORS
def test_a_tensor_of_another_device_is_copied(tensor: Any) -> None:
    X, y = class_stream()
    far = tensor(X, device="cuda:0")
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(far, tensor(y, device="cuda:0"))
    assert np.array_equal(hasher.transform(far), hasher.transform(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_tensors_is_taken_like_the_rows_of_one(kind: type, dtype: Any) -> None:
    X, y = class_stream(60, 8, 3)
    X = X.astype(dtype)
    rows = kind(StandIn(row, requires_grad=True, device="cuda:0") for row in X)
    hasher = hs.LSH(12, random_state=0).fit(rows, y)
    codes = hs.LSH(12, random_state=0).fit(X, y).transform(X)
    assert np.array_equal(hasher.transform(rows), codes)
    assert np.array_equal(hasher.transform([X[0], rows[1]]), codes[:2])
    labels = [StandIn(np.asarray(label), requires_grad=True) for label in y]
    assert np.array_equal(hs.FCOH(12, random_state=0).fit(X, labels).classes_, np.unique(y))
    named = hs.FCOH(12, random_state=0).fit(X, ["a", *labels[1:]])
    assert set(named.classes_) == {"a", 0, 1, 2}
    with hs.HashTable.open(None, hs.LSH(12, random_state=0)) as table:
        table.ingest(range(60), rows)
        assert table.search(rows[:3], k=1).ids.tolist() == [[0], [1], [2]]
