"""`fit_parts`: learn the parts of a stream apart from each other, anywhere and in any order, and merge the learners.

Every part is learned by a copy of one hasher that was started on the first rows (`OnlineHasher.shared_start`), and the
learners are merged in the order of the parts. So the result is a function of the hasher and the parts alone: it does
not depend on where a part was learned, nor on which was finished first. Only `map` knows about processes or machines:
it may be the built-in one, that of `in_processes`, `hashstream.scale.training.ray_map`, or any other.

Learners travel, and are kept, as the bytes that `save` writes; never as pickles.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from hashstream.hashers import parts_folder
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.labels import LabelsLike, as_labels, labelled
from hashstream.hashers.registry import methods, register
from hashstream.hashers.serialization import from_bytes, to_bytes
from hashstream.hashers.validation import as_array, check_count

__all__ = ["Learned", "Map", "Part", "PartError", "PartProgress", "Task", "can_merge", "fit_parts"]

FIRST_ROWS = 1000
"""Labelled rows to start from, where the parts have as many."""
AT_ONCE = 10_000
"""Rows that are read at once, about."""

NO_LABEL = "no row of any part has a label, so there is nothing to learn from"

H = TypeVar("H", bound=OnlineHasher)


class Rows(Protocol):
    """Some rows of a source; `hashstream.datasets.Rows` is one."""

    @property
    def X(self) -> np.ndarray: ...
    @property
    def y(self) -> Any: ...
    @property
    def read(self) -> int: ...


class Source(Protocol):
    """Rows in pieces; what `hashstream.datasets.open_rows` returns is one."""

    total: int

    def pieces(self, size: int) -> Iterator[Any]: ...


Part = Source | tuple[Any, Any] | Callable[[], "Source | tuple[Any, Any]"]
"""A row source, a pair (X, y), or a function that returns one of these, called where the part is learned."""


class PartError(ValueError):
    """A part cannot be learned; the message names the part and says why."""


@dataclass(frozen=True)
class PartProgress:
    """News of a part: its position and name, the share of it that was read (0 to 1), whether its learner is finished,
    and whether that was `kept` by an earlier call."""

    part: int
    name: str
    share: float
    done: bool = False
    kept: bool = False


@dataclass(frozen=True)
class Task:
    """A part to learn."""

    number: int
    name: str
    part: Any


@dataclass(frozen=True)
class Learned:
    """The learner of a part, as bytes."""

    number: int
    raw: bytes


Map = Callable[[Callable[[Task], Learned], Iterable[Task]], Iterable[Learned]]
"""A function like the built-in `map`; it may yield results in any order. Tasks have a `name`, for messages."""


def fit_parts(
    hasher: H,
    parts: Iterable[Part],
    *,
    map: Map = builtins.map,
    work: str | os.PathLike[str] | None = None,
    keep: bool = True,
    rows: int | None = None,
    names: Sequence[str] | None = None,
    progress: Callable[[PartProgress], None] | None = None,
) -> H:
    """A hasher that has learned all parts, with the parameters of `hasher`, which is not changed.

    hasher : of a method with `merge` (RidgeHash, PosteriorHash) that has learned nothing. If it was `started`, learners
        begin as copies of it; otherwise they start on the first labelled rows of the parts.
    parts : row sources (`hashstream.datasets.open_rows`), pairs (X, y), or functions that return one of these, such as
        `hashstream.datasets.FilePart`, of which only the path is sent to another process.
    map : where the parts are learned; like the built-in, in any order.
    work : folder in which the learner of each finished part is kept, so that the same call after an interruption learns
        only what is missing. A part is known by its content (arrays), or by path, size and time (`FilePart`); other
        functions and sources are learned again. Files that are damaged are replaced.
    keep : whether that folder is left in place at the end; `remove_learners` removes it later.
    rows : rows that are read and learned at once, by default about 10,000 in whole batches of the method.
    names : of the parts, for messages and in the names of files.
    progress : called with `PartProgress`; for rows within a part only where `map` is the built-in one.

    The result has the same bits for every `map`, every order of completion, and with or without `work`, on processors
    of one kind. Compared with `partial_fit` of the same rows in pieces of `rows`:

    - RidgeHash, without `rank`: equal up to the rounding of float64 sums. For float32 features it has the same bits,
      where every part but the last has a multiple of `batch_size` labelled rows: sums of float32 numbers in float64
      round only where one is smaller than the sum by a factor of some 2^29.
    - PosteriorHash: the same sums up to rounding, but codewords and sample by other random numbers. With `drift` every
      part is watched by itself.

    ValueError where no row has a label; `PartError` names the part that cannot be read or learned.

    >>> import hashstream as hs
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> parts = [(X[:1000], y[:1000]), (X[1000:], y[1000:])]
    >>> merged = hs.fit_parts(hs.RidgeHash(n_bits=32, random_state=0), parts)
    >>> whole = hs.RidgeHash(n_bits=32, random_state=0).partial_fit(X, y)
    >>> bool((merged.transform(X) == whole.transform(X)).all())
    True
    """
    check_can_merge(type(hasher))
    if getattr(hasher, "n_seen_", 0):
        raise ValueError(
            f"the hasher has learned {hasher.n_seen_:,} rows already, which every part would count again: "
            "give one that has learned nothing, and merge the result into this one"
        )
    if work is not None and hasher.random_state is None and not hasattr(hasher, "n_seen_"):
        raise ValueError(
            "with work the hasher needs a random_state, so that the same call starts in the same way"
        )
    every = _tasks(_listed(parts), names)
    size = _rows_at_once(hasher) if rows is None else check_count("rows", rows, 1)
    start = _start(hasher, every, size)
    raw = to_bytes(start)
    folder = None if work is None else parts_folder.LearnerFolder(Path(work), raw, size)
    tell = progress or (lambda news: None)
    merging = _Merging(start, every)
    todo, kept_in = [], {}
    for task in every:
        with _named(task.name):
            file = None if folder is None else folder.file(task.name, task.part)
        kept_in[task.number] = file
        if file is not None and parts_folder.is_kept(file, task.name):
            tell(PartProgress(task.number, task.name, 1.0, done=True, kept=True))
            merging.take(task.number, file)
        else:
            todo.append(task)
    if todo:
        learn = Learn(raw, type(hasher), size, tell if map is builtins.map else None)
        for learned in map(learn, todo):
            task = every[learned.number]
            file = kept_in[task.number]
            if file is not None:
                parts_folder.keep(file, learned.raw)
            merging.take(task.number, learned.raw if file is None else file)
            tell(PartProgress(task.number, task.name, 1.0, done=True))
    merged: H = merging.result()
    if work is not None and not keep:
        parts_folder.remove_learners(work)
    return merged.set_params(**hasher.get_params(deep=False))


def can_merge(method: type[OnlineHasher]) -> bool:
    """Whether learners of a method can be merged."""
    return callable(getattr(method, "merge", None))


def check_can_merge(method: type[OnlineHasher]) -> None:
    """ValueError, naming the methods that can, where learners of a method cannot be merged."""
    if not can_merge(method):
        able = " or ".join(name for name, one in methods().items() if can_merge(one))
        raise ValueError(
            f"{method.__name__} learns one row after the other: its learners cannot be merged. Use {able}, or learn "
            "the parts in turn by partial_fit"
        )


def _listed(parts: Any) -> list[Any]:
    """The parts; TypeError, before anything is learned, where one is none."""
    can = "a part is a row source, a pair (X, y), or a function that returns one, as FilePart.of(path)"
    if isinstance(parts, (str, bytes, os.PathLike)) or not isinstance(parts, Iterable):
        raise TypeError(f"parts must be a list of parts, not {parts!r}: {can}")
    every = list(parts)
    for number, part in enumerate(every):
        pair = isinstance(part, (tuple, list)) and len(part) == 2
        if not (pair or callable(part) or hasattr(part, "pieces")):
            what = repr(part) if isinstance(part, (str, os.PathLike)) else type(part).__name__
            raise TypeError(f"part {number} is {what}: {can}")
    return every


def _tasks(parts: list[Any], names: Sequence[str] | None) -> list[Task]:
    if not parts:
        raise ValueError("there is no part to learn")
    if names is not None and len(names) != len(parts):
        raise ValueError(f"{len(parts)} parts have {len(names)} names: one name per part")
    given = names or [getattr(part, "name", None) or f"part {i}" for i, part in enumerate(parts)]
    return [Task(i, str(name), part) for i, (name, part) in enumerate(zip(given, parts, strict=True))]


def _rows_at_once(hasher: OnlineHasher) -> int:
    batch = check_count("batch_size", hasher.batch_size, 1)
    return batch * max(1, AT_ONCE // batch)


def _start(hasher: H, tasks: list[Task], size: int) -> H:
    """The hasher that all learners are copies of."""
    if hasattr(hasher, "n_seen_"):
        return hasher.copy()
    fresh = hasher.copy()  # which learns the number of features
    found: list[np.ndarray] = []
    for task in tasks:
        for name, rows in _pieces(task, size):
            with _named(name):
                X, _ = labelled(*fresh.check_batch(rows.X, rows.y))
                found.append(X)
            if sum(map(len, found)) >= FIRST_ROWS:
                return fresh.shared_start(np.concatenate(found))
    if not any(map(len, found)):
        raise ValueError(NO_LABEL)
    return fresh.shared_start(np.concatenate(found))


class _Merging:
    """Merges learners in the order of the parts, as they come in any order."""

    def __init__(self, start: OnlineHasher, tasks: list[Task]) -> None:
        self._merged: Any = start.copy()
        self._tasks, self._next = tasks, 0
        self._waiting: dict[int, bytes | Path] = {}

    def take(self, number: int, learner: bytes | Path) -> None:
        """Take the learner of a part, as bytes or a file of them."""
        self._waiting[number] = learner
        while self._next in self._waiting:
            found, name = self._waiting.pop(self._next), self._tasks[self._next].name
            raw, where = (found, name) if isinstance(found, bytes) else (found.read_bytes(), str(found))
            with _named(name):
                self._merged.merge(from_bytes(raw, where))
            self._next += 1

    def result(self) -> Any:
        if self._next < len(self._tasks):
            raise ValueError(f"map has returned no learner of {self._tasks[self._next].name}")
        if not self._merged.n_seen_:
            raise ValueError(NO_LABEL)
        return self._merged


@dataclass(frozen=True)
class Learn:
    """Learns one part: the function that `map` is given.

    start : the hasher to begin with, as bytes. method : its class, which another process may not have registered.
    """

    start: bytes
    method: type[OnlineHasher]
    rows: int
    tell: Callable[[PartProgress], None] | None = None

    def __call__(self, task: Task) -> Learned:
        register(self.method)
        learner = from_bytes(self.start, "the hasher to start with")
        for name, rows in _pieces(task, self.rows, self.tell):
            with _named(name):
                learner.partial_fit(rows.X, rows.y)
        return Learned(task.number, to_bytes(learner.to_merge()))


def _pieces(
    task: Task, size: int, tell: Callable[[PartProgress], None] | None = None
) -> Iterator[tuple[str, Rows]]:
    """The rows of a part, each piece with a name for messages."""
    with _named(task.name):
        part = task.part
        if callable(part):
            part = part()
        source = _Arrays(*part) if isinstance(part, tuple) else part
        pieces, first = source.pieces(size), 0
    while True:
        with _named(task.name):
            rows = next(pieces, None)
        if rows is None:
            return
        yield f"{task.name}, rows {first} to {first + len(rows.X) - 1}", rows
        first += len(rows.X)
        if tell is not None:
            tell(PartProgress(task.number, task.name, rows.read / max(1, source.total)))


class _Arrays:
    """A pair (X, y) as a source."""

    def __init__(self, X: Any, y: LabelsLike | None) -> None:
        self._X, self._y = as_array(X), None if y is None else as_labels(y)
        self.total = len(self._X)
        if self._y is not None and len(self._y) != self.total:
            raise ValueError(f"X has {self.total} rows, but y has {len(self._y)}")

    def pieces(self, size: int) -> Iterator[_ArrayPiece]:
        for first in range(0, self.total, size):
            rows = slice(first, first + size)
            yield _ArrayPiece(self._X[rows], None if self._y is None else self._y[rows], rows.stop)


@dataclass(frozen=True)
class _ArrayPiece:
    X: np.ndarray
    y: np.ndarray | None
    read: int


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Errors of the block name the part."""
    try:
        yield
    except PartError:
        raise
    except Exception as error:  # a file may be wrong in many ways, and the part is not known elsewhere
        raise PartError(str(error) if name in str(error) else f"{name}: {error}") from error
