"""When a table's codes are made anew: one small class for each answer.

After every `ingest` the table asks its policy whether to refresh now. What a policy decides is committed together
with the batch, so a table that was killed and opened again has decided the same.
"""

from __future__ import annotations

import copy
import os
import queue
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.hashers.mutual_information import gate, has_moved, reservoir_mutual_information
from hashstream.hashers.validation import check_count, is_positive
from hashstream.table.reservoir import Reservoir

if TYPE_CHECKING:
    from hashstream.table.writing import TableWriter

__all__ = ["Eager", "Every", "Facts", "Gated", "Lazy", "Never", "Policy", "Projected"]

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds after a refresh in the background has failed


@dataclass(frozen=True)
class Facts:
    """What a policy may look at after an ingest, before it is committed.

    moved : whether the hash functions changed. rows : rows that were ingested.
    newest, bulk : the functions of now, and those that made most of the codes in the table.
    reservoir : the table's sample, without the rows of this batch.
    """

    moved: bool
    rows: int
    newest: OnlineHasher
    bulk: OnlineHasher | None
    reservoir: Reservoir


class Policy:
    """What every policy answers. This one never refreshes: see `Never`."""

    keeps_features: ClassVar[bool] = True
    """Whether codes are made anew from stored features."""

    def for_one_table(self) -> Policy:
        """A copy: every table remembers in one of its own, so that a policy may be given to many."""
        return copy.deepcopy(self)

    def wants_refresh(self, facts: Facts) -> bool:
        """Asked after every ingest."""
        return False

    def state(self) -> dict[str, Any]:
        """What the policy remembers from one ingest to the next, as JSON; stored with every commit."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Remember that again; unknown entries, of another policy, are passed over."""

    def opened(self, table: TableWriter) -> None:
        """The table is open for writing."""

    def ingested(self) -> None:
        """An ingest was committed."""

    def closing(self) -> None:
        """The table is about to close."""


class Never(Policy):
    """Codes stay as they were made until `refresh` is called. Versions beyond `max_versions` are still re-encoded."""


class Eager(Policy):
    """After every ingest that moved the functions, as the paper's cost model assumes: one version is ever alive."""

    def wants_refresh(self, facts: Facts) -> bool:
        return facts.moved


@dataclass
class Every(Policy):
    """After every k-th ingest that moved the functions."""

    k: int = 100
    _moves: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        check_count("k", self.k, 1)

    def wants_refresh(self, facts: Facts) -> bool:
        self._moves += facts.moved
        if self._moves < self.k:
            return False
        self._moves = 0
        return True

    def state(self) -> dict[str, Any]:
        return {"moves": self._moves}

    def restore(self, state: dict[str, Any]) -> None:
        self._moves = int(state.get("moves", 0))


@dataclass
class Gated(Policy):
    """When the functions of now tell more about the labels than those that made the table: the gate of MIHash.

    After every `every` ingested rows, mutual information between distance and shared label is measured on the labelled
    items of the table's reservoir, under both functions; the table is refreshed where it grew by more than theta
    (`hashers.mutual_information`). Nothing is refreshed while fewer than `least` labelled items, or one class only, are
    in the reservoir.
    """

    theta: float = 0.0
    every: int = 100
    least: int = 20
    _rows: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        check_count("every", self.every, 1)
        check_count("least", self.least, 2)
        if not is_positive(self.theta, zero=True):
            raise ValueError(f"theta must be a number of at least 0, not {self.theta!r}")

    def wants_refresh(self, facts: Facts) -> bool:
        self._rows += facts.rows
        if self._rows < self.every:
            return False
        self._rows = 0
        old, new = facts.bulk, facts.newest
        if old is None or old.version_ == new.version_:
            return False
        W, W_old = getattr(new, "projection_", None), getattr(old, "projection_", None)
        if W is not None and W_old is not None and W.shape == W_old.shape and not has_moved(W, W_old):
            return False
        _, X, labels = facts.reservoir.labelled()
        if len(X) < self.least:
            return False
        informed = [
            reservoir_mutual_information(hasher.transform(X), labels, n_bits=hasher.n_bits_)
            for hasher in (new, old)
        ]
        return gate(informed[0], informed[1], self.theta)

    def state(self) -> dict[str, Any]:
        return {"rows": self._rows}

    def restore(self, state: dict[str, Any]) -> None:
        self._rows = int(state.get("rows", 0))


@dataclass
class Projected(Every):
    """Features are not kept at all: after every k-th ingest that moved the functions, codes are made from codes.

    Our reading of Weng and Zhu, "Online hashing with efficient updating of binary codes", AAAI 2020: they hold the
    hash functions fixed and learn a projection of the *codes* from the stream, so that updating the table needs no
    features. Here any method learns the functions, and the projection is learned from the table's reservoir, whose few
    items are the only ones with features: for each old version a ridge regression from its codes (in -1 and +1, with a
    constant) to the real values of the new functions. The sign of what it predicts is the new code. That is an
    approximation, and repeating it adds up; the codes count as of the new version.

    k : ingests that move the functions between two refreshes. ridge : weight of |M|^2, for each item of the reservoir.
    """

    ridge: float = 1e-3

    keeps_features: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_positive(self.ridge):
            raise ValueError(f"ridge must be a positive number, not {self.ridge!r}")

    def projection(self, old: OnlineHasher, new: OnlineHasher, X: np.ndarray) -> np.ndarray:
        """M, (r + 1, r) float64: from the codes of `old` to the values of `new`, on features X (n, d)."""
        return fit_projection(signed(old.transform(X), old.n_bits_), new.decision_function(X), self.ridge)


def signed(codes: np.ndarray, n_bits: int) -> np.ndarray:
    """Packed codes (n, width) as -1 and +1 with a column of ones behind, (n, r + 1) float32."""
    bits = np.unpackbits(codes, axis=1, count=n_bits)
    B = np.ones((len(codes), n_bits + 1), np.float32)
    B[:, :-1] = 2.0 * bits - 1
    return B


def fit_projection(B: np.ndarray, P: np.ndarray, ridge: float) -> np.ndarray:
    """M that minimises |B M - P|^2 + n ridge |M|^2; B (n, r + 1), P (n, r) -> (r + 1, r) float64."""
    B, P = B.astype(np.float64), P.astype(np.float64)
    gram = B.T @ B + ridge * max(1, len(B)) * np.eye(B.shape[1])
    M: np.ndarray = np.linalg.solve(gram, B.T @ P)
    return M


def project_codes(codes: np.ndarray, n_bits: int, M: np.ndarray) -> np.ndarray:
    """Codes of the old version (n, width) as codes of the new one."""
    return np.packbits(signed(codes, n_bits) @ M.astype(np.float32) > 0, axis=1)


@dataclass
class Lazy(Policy):
    """In the background: the oldest versions first, in pieces, with a bounded share of one core.

    A piece holds the writer's lock for as long as it takes to encode `piece` rows; a query never waits. Where it fails,
    it is tried again, after longer and longer pauses; until it has succeeded, `stats` says why in `background_error`.

    share : of one core, between 0 and 1. piece : rows that are re-encoded at a time.
    """

    share: float = 0.25
    piece: int = 4096
    # Plain locks and queues, which an interrupt (Ctrl-C) cannot leave half-way, as it can an `Event`.
    _calls: queue.SimpleQueue[None] = field(default_factory=queue.SimpleQueue, init=False, repr=False)
    _running: Any = field(
        default_factory=threading.RLock, init=False, repr=False
    )  # the thread's while it runs
    _thread: threading.Thread | None = field(default=None, init=False, repr=False)
    _stopped: bool = field(default=True, init=False, repr=False)
    _process: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        check_count("piece", self.piece, 1)
        if not is_positive(self.share) or self.share > 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share!r}")

    def for_one_table(self) -> Lazy:
        return replace(self)  # threads and their locks cannot be copied

    def opened(self, table: TableWriter) -> None:
        self._stopped, self._process = False, os.getpid()
        self._calls.put(None)
        self._thread = threading.Thread(
            target=_run, args=(weakref.ref(table), self), name="hashstream-refresh", daemon=True
        )
        self._thread.start()

    def ingested(self) -> None:
        self._calls.put(None)

    def closing(self) -> None:
        self._stopped = True
        self._calls.put(None)
        if self._process == os.getpid():  # not in a fork, which has no such thread
            with self._running:
                pass

    def pause(self, seconds: float) -> None:
        """In the thread: wait, but not when it has to stop."""
        end = time.monotonic() + seconds
        while not self._stopped and (left := end - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self._calls.get(timeout=left)

    def wait(self) -> bool:
        """In the thread: wait for an ingest, not for long; whether there was one."""
        try:
            self._calls.get(timeout=1.0)
        except queue.Empty:
            return False
        return True


def _run(reference: weakref.ref[TableWriter], policy: Lazy) -> None:
    """Refresh piece by piece while there is something stale; then wait for the next ingest."""
    pause = FIRST_PAUSE
    with policy._running:
        while not policy._stopped:
            called = policy.wait()
            table = reference()
            if table is None or policy._stopped:
                return
            if not called:
                del table  # or it would be held while this thread waits, and never be collected
                continue
            start = time.perf_counter()
            try:
                done = table.refresh(budget=policy.piece)
            except Exception as error:  # told by `stats`, since nobody waits for this thread
                table._background_error = error.with_traceback(None)  # which would hold the table
                del table
                policy.pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                policy.ingested()
                continue
            pause = FIRST_PAUSE
            spent = time.perf_counter() - start
            del table
            if done:
                policy.pause(spent * (1 / policy.share - 1))
                policy.ingested()
