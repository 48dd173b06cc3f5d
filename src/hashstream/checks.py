"""The contract of `OnlineHasher`, as checks for any method, a third party's too.

>>> import hashstream as hs
>>> hs.checks.check_hasher(hs.LSH(n_bits=16, random_state=0))

Each check takes an unfitted hasher (whose parameters it keeps) and raises AssertionError with a sentence. They run on
small streams of Gaussian classes, in seconds.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from hashstream.hashers import OnlineHasher, load, save
from hashstream.hashers.base import state
from hashstream.hashers.registry import methods

__all__ = ["CHECKS", "check_hasher", "class_stream", "state_of"]


def check_hasher(hasher: OnlineHasher, *, skip: dict[str, str] | None = None) -> None:
    """Run every check of the contract; AssertionError names the first that fails, and why.

    hasher : the method with the parameters to check it with; it is cloned, never fitted itself.
    skip : check name -> the reason why it cannot apply. An unknown name or an empty reason is a ValueError.
    """
    skip = skip or {}
    names = [check.__name__ for check in CHECKS]
    for name, reason in skip.items():
        if name not in names or not reason.strip():
            raise ValueError(
                f"skip maps the name of a check ({', '.join(names)}) to a reason, not {name!r} to {reason!r}"
            )
    for check in CHECKS:
        if check.__name__ in skip:
            continue
        try:
            check(hasher)
        except Exception as error:
            raise AssertionError(f"{type(hasher).__name__}, {check.__name__}: {error}") from error


# ---- helpers


def class_stream(n: int = 300, d: int = 12, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A stream of Gaussian classes, one after the other in turn: X (n, d) float64, y (n,) int64."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = 2 * rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d))
    return X, y


def state_of(hasher: OnlineHasher) -> dict[str, Any]:
    """Everything that was learned, attribute by attribute, in a form that can be compared."""
    return {name: _plain(value) for name, value in state(hasher.settled()).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if hasattr(value, "__dict__"):
        return {key: _plain(part) for key, part in vars(value).items()}
    return value


def _fresh(hasher: OnlineHasher, **parameters: Any) -> OnlineHasher:
    copy: OnlineHasher = clone(hasher)
    return copy.set_params(**{"random_state": 0, **parameters})


def _pieces(X: np.ndarray, y: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(X), size):
        yield X[start : start + size], y[start : start + size]


def _learn(hasher: OnlineHasher, X: np.ndarray, y: np.ndarray, size: int = 50) -> OnlineHasher:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a feature map that is warmed up on few rows says so
        for X_piece, y_piece in _pieces(X, y, size):
            hasher.partial_fit(X_piece, y_piece)
    return hasher


def _started(hasher: OnlineHasher, X: np.ndarray) -> OnlineHasher:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return _fresh(hasher).started(X)


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


# ---- the checks


def check_codes(hasher: OnlineHasher) -> None:
    """transform packs the signs of decision_function: (n, ceil(n_bits / 8)) uint8, strictly positive is 1."""
    X, y = class_stream()
    learned = _learn(_fresh(hasher), X, y)
    values, codes = learned.decision_function(X), learned.transform(X)
    _require(values.shape == (len(X), hasher.n_bits), f"decision_function has shape {values.shape}")
    _require(codes.dtype == np.uint8, f"transform gives {codes.dtype}, not uint8")
    _require(np.array_equal(codes, np.packbits(values > 0, axis=1)), "codes are not the packed signs")
    _require(np.isfinite(values).all(), "decision_function is not finite")
    same = np.array_equal(codes[:7], learned.transform(X[:7]))
    _require(same, "the code of a row depends on the other rows")


def check_input_not_mutated(hasher: OnlineHasher) -> None:
    """No call writes to the caller's arrays; read-only arrays are fine."""
    X, y = class_stream()
    X.flags.writeable = y.flags.writeable = False
    before = X.copy(), y.copy()
    learned = _learn(_fresh(hasher), X, y)
    learned.transform(X)
    learned.decision_function(X)
    _require(np.array_equal(X, before[0]) and np.array_equal(y, before[1]), "an input array was written to")


def check_no_shared_state(hasher: OnlineHasher) -> None:
    """The model keeps no view of the caller's arrays: changing them afterwards changes nothing."""
    X, y = class_stream()
    learned = _learn(_fresh(hasher), X, y)
    before = state_of(learned)
    X += 100
    y[:] = 0
    _require(state_of(learned) == before, "the state changed when the caller changed an array")


def check_clone_independent(hasher: OnlineHasher) -> None:
    """A clone has the parameters and nothing else, and learning in one leaves the other alone."""
    X, y = class_stream()
    learned = _learn(_fresh(hasher), X, y)
    before = state_of(learned)
    twin = clone(learned)
    _require(not hasattr(twin, "n_seen_"), "a clone is fitted")
    _learn(twin, X[:100], y[:100])
    _require(state_of(learned) == before, "learning in a clone changed the original")


def check_fit_is_a_loop(hasher: OnlineHasher) -> None:
    """fit forgets, then equals partial_fit on the stream in pieces of batch_size."""
    X, y = class_stream(n=130)
    size = 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = _fresh(hasher, batch_size=size).fit(X[::-1], y[::-1]).fit(X, y)
    looped = _learn(_fresh(hasher, batch_size=size), X, y, size)
    _require(state_of(fitted) == state_of(looped), "fit differs from a loop of partial_fit")


def check_pieces(hasher: OnlineHasher) -> None:
    """A batch larger than batch_size is learned in pieces of it (without a feature map, which sees the whole batch)."""
    X, y = class_stream(n=120)
    whole = _fresh(hasher, batch_size=40, feature_map=None).partial_fit(X, y)
    looped = _learn(_fresh(hasher, batch_size=40, feature_map=None), X, y, 40)
    same = np.array_equal(whole.decision_function(X), looped.decision_function(X))
    _require(same, "one large batch differs from its pieces")


def check_small_batches(hasher: OnlineHasher) -> None:
    """Batches of one sample, and batches of one class, leave a finite model."""
    X, y = class_stream(n=60)
    for order, size in ((np.arange(len(X)), 1), (np.argsort(y, kind="stable"), 15)):
        learned = _learn(_fresh(hasher), X[order], y[order], size)
        _require(np.isfinite(learned.decision_function(X)).all(), f"not finite after batches of {size}")
        _require(learned.n_seen_ == len(X), f"n_seen_ is {learned.n_seen_} after {len(X)} rows")


def check_late_class(hasher: OnlineHasher) -> None:
    """A class may appear at any time; classes_ keeps the order of first appearance."""
    X, y = class_stream(classes=5)
    late = y == 2
    learned = _learn(_fresh(hasher), X[~late], y[~late])
    _learn(learned, X[late], y[late])
    _require(np.isfinite(learned.decision_function(X)).all(), "not finite after a late class")
    _require(learned.classes_ == [0, 1, 3, 4, 2], f"classes_ is {learned.classes_}")


def check_string_labels(hasher: OnlineHasher) -> None:
    """Labels are names: strings in the same order give the same codes as integers."""
    X, y = class_stream()
    names = np.array(["ant", "bee", "cat", "dog"])
    by_number, by_name = _learn(_fresh(hasher), X, y), _learn(_fresh(hasher), X, names[y])
    same = np.array_equal(by_number.transform(X), by_name.transform(X))
    _require(same, "string labels give other codes than integers")
    _require(by_name.classes_ == names.tolist(), f"classes_ is {by_name.classes_}")


def check_missing_labels(hasher: OnlineHasher) -> None:
    """Rows whose label is missing are not learned from: the model is as if they had not been given."""
    X, y = class_stream(n=100)
    some = [None if i % 3 == 0 else int(label) for i, label in enumerate(y)]
    kept = np.arange(len(y)) % 3 != 0
    expected = _fresh(hasher).partial_fit(X[kept], y[kept])
    for what, labels in (("None", some), ("NaN", np.where(kept, y, np.nan))):
        learned = _fresh(hasher)
        learned.partial_fit(X[:20], [None] * 20)
        _require(not state_of(learned), "a first batch without any label changed the hasher")
        learned.partial_fit(X, labels)
        _require(state_of(learned) == state_of(expected), f"rows with the label {what} were learned from")
        before = state_of(learned)
        learned.partial_fit(X[:20], [None] * 20)
        _require(state_of(learned) == before, "a batch without any label changed the model")


def check_started(hasher: OnlineHasher) -> None:
    """A hasher that was started encodes before it has learned anything, and then learns as if it had not been."""
    X, y = class_stream()
    started = _started(hasher, X[:50])
    _require((started.n_seen_, started.version_) == (0, 0), "n_seen_ and version_ do not start at 0")
    codes, values = started.transform(X), started.decision_function(X)
    _require(bool(codes.any() and np.ptp(values, axis=0).any()), "codes say nothing before the first label")
    before = state_of(started)
    _require(state_of(_started(hasher, X[:50])) == before, "starting twice with one random_state differs")
    after = _learn(started.copy(), X, y)
    _require(state_of(started) == before, "learning in a copy changed the hasher that was started")
    same = np.array_equal(after.transform(X), codes)
    _require(after.version_ > 0 or same, "codes changed, but version_ did not grow")
    expected = _learn(_fresh(hasher), X, y)
    learned, directly = ({**state_of(model), "version_": None} for model in (after, expected))
    _require(learned == directly, "a start changes what is learned")


def check_relabelled(hasher: OnlineHasher) -> None:
    """Correcting labels, or taking them back, leaves the hasher as it is; where it `can_correct`, codes become those of
    the right labels, and rows without one no longer count."""
    X, y = class_stream()
    wrong = y.copy()
    wrong[20::5] = (wrong[20::5] + 1) % 4
    rows = np.flatnonzero(wrong != y)
    model = _learn(_fresh(hasher), X, wrong)
    before = state_of(model)
    after, again = (model.relabelled(X[rows], wrong[rows], y[rows]) for _ in range(2))
    _require(state_of(model) == before, "a correction changed the hasher that it was asked of")
    _require(state_of(after) == state_of(again), "two corrections of one hasher differ")
    same = np.array_equal(after.transform(X), model.transform(X))
    _require(after.version_ > model.version_ or same, "codes changed, but version_ did not grow")
    if model.can_correct():
        values = after.decision_function(X)
        expected = _learn(_fresh(hasher), X, y).decision_function(X)
        differing = np.abs(expected[(values > 0) != (expected > 0)]).max(initial=0)
        _require(differing <= 1e-9 * np.abs(expected).max(), "codes are not those of the right labels")
    back = model.relabelled(X[rows], wrong[rows], np.full(len(rows), None, object))
    _require(state_of(model) == before, "a label that was taken back changed the hasher that it was asked of")
    same = np.array_equal(back.transform(X), model.transform(X))
    _require(back.version_ > model.version_ or same, "codes changed, but version_ did not grow")
    left = len(X) - len(rows) if model.can_correct() and model.needs_labels else len(X)
    _require(back.n_seen_ == left, f"n_seen_ is {back.n_seen_}, not {left}, after labels were taken back")


def check_precision(hasher: OnlineHasher) -> None:
    """float32 in is float32 arithmetic, float64 in is float64, and the two agree on nearly all bits."""
    X, y = class_stream(n=200)
    double = _learn(_fresh(hasher), X, y)
    single = _learn(_fresh(hasher), X.astype(np.float32), y)
    _require(double.decision_function(X).dtype == np.float64, "float64 in, but not float64 out")
    kept = single.decision_function(X.astype(np.float32)).dtype == np.float32
    _require(kept, "float32 in, but not float32 out")
    differing = np.unpackbits(double.transform(X) ^ single.transform(X.astype(np.float32))).mean()
    _require(differing <= 0.02, f"{differing:.1%} of the bits differ between float32 and float64")


def check_save_load(hasher: OnlineHasher) -> None:
    """A saved and loaded hasher gives the same codes and goes on learning bit for bit as if nothing had happened."""
    if methods(variants=True).get(type(hasher).__name__) is not type(hasher):
        raise AssertionError("the method is not registered, so it cannot be loaded: use @hashstream.register")
    X, y = class_stream()
    for model in (_started(hasher, X[:150]), _learn(_fresh(hasher), X[:150], y[:150])):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "hasher.safetensors"
            save(model, path)
            loaded = load(path)
        _require(state_of(loaded) == state_of(model), "the loaded state differs")
        _learn(model, X[150:], y[150:])
        _learn(loaded, X[150:], y[150:])
        _require(state_of(loaded) == state_of(model), "learning on after loading differs")


def check_bad_input(hasher: OnlineHasher) -> None:
    """Bad input raises ValueError and changes nothing, before and after the first batch."""
    X, y = class_stream(n=100)
    poisoned, infinite = X.copy(), X.copy()
    poisoned[31, 2], infinite[7, 0] = np.nan, np.inf
    cases: list[tuple[str, Any, Any]] = [
        ("NaN", poisoned, y),
        ("infinity", infinite, y),
        ("1-D X", X[0], y[:1]),
        ("empty X", X[:0], y[:0]),
        ("too few labels", X, y[:-1]),
        ("labels of three dimensions", X, np.zeros((len(X), 2, 2))),
    ]
    if hasher.needs_labels:
        cases.append(("no labels", X, None))
    if not hasher.multilabel:
        cases.append(("a label matrix", X, np.eye(4)[y]))
    learned = _learn(_fresh(hasher), X, y)
    for what, bad_X, bad_y in [*cases, ("a wrong width", X[:, :-1], y)]:
        for model in [learned] + [_fresh(hasher)] * (what != "a wrong width"):
            before = state_of(model)
            try:
                model.partial_fit(bad_X, bad_y)
            except ValueError as error:
                named = what != "NaN" or "31" in str(error)
                _require(named, f"the error does not say which row holds the NaN: {error}")
            else:
                raise AssertionError(f"{what} did not raise ValueError")
            _require(state_of(model) == before, f"{what} raised, but changed the model")
    for what, bad in (("NaN", poisoned), ("a wrong width", X[:, :-1])):
        try:
            learned.transform(bad)
        except ValueError:
            continue
        raise AssertionError(f"transform accepted {what}")


def check_undo(hasher: OnlineHasher) -> None:
    """Learning replaces what was learned and never writes into it: only so can a call that fails be undone."""
    X, y = class_stream()
    model = _learn(_fresh(hasher), X[:100], y[:100])
    kept = state(model)
    before = state_of(model)
    _learn(model, X[100:], y[100:])
    for name, value in kept.items():
        _require(_plain(value) == before[name], f"{name} was written into: replace it")


def check_bounded_state(hasher: OnlineHasher) -> None:
    """The state does not grow with the number of samples seen."""
    X, y = class_stream(n=2000)
    learned = _learn(_fresh(hasher), X[:1000], y[:1000])
    early = _bytes(learned)
    _learn(learned, X[1000:], y[1000:])
    _require(_bytes(learned) <= early * 1.01 + 64, f"the state grew from {early} to {_bytes(learned)} bytes")


def check_version(hasher: OnlineHasher) -> None:
    """version_ never falls, and grows with every batch after which some code differs."""
    X, y = class_stream()
    model = _fresh(hasher)
    seen: list[tuple[int, bytes]] = []
    for X_piece, y_piece in _pieces(X, y, 50):
        _learn(model, X_piece, y_piece)
        seen.append((model.version_, model.transform(X).tobytes()))
    for (old, old_codes), (new, new_codes) in pairwise(seen):
        _require(new >= old, "version_ fell")
        _require(new > old or old_codes == new_codes, "codes changed, but version_ did not grow")


def check_reproducible(hasher: OnlineHasher) -> None:
    """The same random_state gives the same model, and NumPy's global random state is left alone."""
    X, y = class_stream()
    before = repr(np.random.get_state())  # noqa: NPY002
    first, second = _learn(_fresh(hasher), X, y), _learn(_fresh(hasher), X, y)
    _require(state_of(first) == state_of(second), "two models with one random_state differ")
    _require(repr(np.random.get_state()) == before, "the global random state was used")  # noqa: NPY002


def check_threads(hasher: OnlineHasher) -> None:
    """Learning in another thread, with two BLAS threads, gives the same bits as in this one with one.

    State that is computed later than in `_learn` has to be computed in `hashers.on_one_thread`.
    """
    X, y = class_stream(n=200, d=300)
    X /= 5  # rows as long as those of the other checks
    with threadpool_limits(1, user_api="blas"):
        here = _learn(_fresh(hasher), X, y)
        values = here.decision_function(X[:50])
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as pool:
        there = pool.submit(_learn, _fresh(hasher), X, y).result()
        other_values = pool.submit(there.decision_function, X[:50]).result()
    _require(state_of(here) == state_of(there), "learning in another thread gives another state")
    _require(np.array_equal(values, other_values), "what was learned in another thread projects differently")


def check_whole_versions(hasher: OnlineHasher) -> None:
    """Encoding while another thread learns uses the model before the call or after it, never a mixture."""
    X, y = class_stream(n=120)
    model = _learn(_fresh(hasher), X[:60], y[:60])
    before = model.decision_function(X)
    mixed: list[str] = []
    reading = False

    def assign(self: Any, name: str, value: Any) -> None:
        nonlocal reading
        if not reading:  # a reader comes just before the assignment
            reading = True
            if not np.array_equal(model.decision_function(X), before):
                mixed.append(name)
            reading = False
        object.__setattr__(self, name, value)

    kind = type(model)
    model.__class__ = type(kind.__name__, (kind,), {"__setattr__": assign, "__module__": kind.__module__})
    _learn(model, X[60:], y[60:], 60)
    _require(not mixed, f"codes changed before learning was done, before {mixed[:1]} was assigned")


def _bytes(hasher: OnlineHasher) -> int:
    def size(value: Any) -> int:
        if isinstance(value, np.ndarray):
            return int(value.nbytes if value.base is None else value.base.nbytes)
        if isinstance(value, (list, tuple)):
            return sum(map(size, value)) + 8 * len(value)
        if isinstance(value, dict):
            return sum(map(size, value.values()))
        return size(vars(value)) if hasattr(value, "__dict__") and not isinstance(value, type) else 8

    return size(vars(hasher))


CHECKS: tuple[Callable[[OnlineHasher], None], ...] = tuple(
    thing for name, thing in globals().items() if name.startswith("check_") and name != "check_hasher"
)
"""Every check of this file, in its order."""
