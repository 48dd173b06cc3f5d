"""The seams of a table: `Storage` keeps its states, `CodeIndex` finds neighbours in one.

Another engine is another `Storage` or `CodeIndex`. Every `Storage` is held to `tests/table/storage_contract.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from hashstream.table.errors import TableError
from hashstream.table.settings import Settings
from hashstream.table.state.change import Batch, Change, Done, Feedback
from hashstream.table.state.matching import Matching
from hashstream.table.state.search import Compare, ExactScan, IndexedSearch
from hashstream.table.state.state import State
from hashstream.table.state.view import View, locate

__all__ = [
    "MOST_KEYS",
    "CodeIndex",
    "Source",
    "Storage",
    "StoredBatch",
    "Surviving",
    "check_codes",
    "check_payloads",
    "read_payloads",
    "surviving",
]

MOST_KEYS = 100_000  # of calls that a storage remembers: the last ones
ROUNDING = 1e-4  # of a row's largest value: a bit whose value is nearer to 0 may come out either way


class CodeIndex(Protocol):
    """Finds the items of one view whose codes are nearest to those of queries.

    Q is (q, d) features that were checked, for the encoders of the view. Slots are places in the order of insertion;
    equal distances are in the order of slots.

    matching : the items of the same view that may be found; None for all. compare : "like", and every item is compared
    with the query's code of its own version; "current", and all are compared with its code of the newest.
    """

    def topk(
        self,
        Q: np.ndarray,
        k: int,
        n_threads: int | None = None,
        *,
        matching: Matching | None = None,
        compare: Compare = "like",
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest items: distances (q, m) uint16, slots (q, m) int64, m = min(k, items that may be found)."""

    def radius(
        self,
        Q: np.ndarray,
        radius: int,
        n_threads: int | None = None,
        *,
        matching: Matching | None = None,
        compare: Compare = "like",
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All items within `radius` bits: offsets (q + 1,) int64, distances uint16, slots int64."""

    def topk_asymmetric(
        self,
        Q: np.ndarray,
        k: int,
        n_threads: int | None = None,
        *,
        matching: Matching | None = None,
        compare: Compare = "like",
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `topk`, by the query's real values: distances (q, m) float64, slots (q, m) int64."""


class StoredBatch(NamedTuple):
    """Rows that came in one call, in the slots from `first_slot` on."""

    seq: int
    first_slot: int
    n_rows: int
    version: int


class Surviving(NamedTuple):
    """The rows of a batch that are alive: the slots (n,) that they had, and the first that they get."""

    seq: int
    first_slot: int
    slots: np.ndarray
    version: int


class Source(Protocol):
    """The part of a storage that another one can be filled from. Slots are those of the state that goes with it."""

    keep_features: bool
    settings: Settings

    def all_done(self) -> Iterator[Done]:
        """The calls that it remembers, in order."""

    def batches(self) -> Iterator[StoredBatch]:
        """All batches, in order."""

    def features(self, slots: np.ndarray) -> np.ndarray:
        """The features of slots in any order, copied: (n, d)."""

    def payloads(self, slots: np.ndarray, generation: int) -> list[str | None]:
        """The payloads of slots as JSON, None for a missing one."""


class Storage(ABC):
    """Keeps the states of one table. The table calls it from one thread at a time, except `read`, `features`,
    `payloads`, `history` and `index`, which any thread may call at any time.

    A state is immutable, and `commit` is the only way to the next one. A commit has happened or it has not, whatever
    interrupts it; where that cannot be known, the storage is in doubt, and only opening it again tells.

    path, uuid : of the folder, where it is one. survives : whether what is committed outlives the process; a forked
    process may then only search. keep_features : whether features are stored.
    """

    path: Path | None = None
    uuid: str | None = None
    survives: bool
    keep_features: bool
    settings: Settings

    @abstractmethod
    def load(self) -> State:
        """The state of the last commit. Called once, first."""

    @abstractmethod
    def commit(
        self,
        change: Change,
        after: State,
        batch: Batch | None = None,
        feedback: Feedback | None = None,
        done: Sequence[Done] = (),
    ) -> None:
        """Make a change durable, whole or not at all; a TableError where it is not.

        after : the state that the change leads to. batch : the rows of `change.added`. feedback : what was learned
        from `change.relabelled`. done : the calls with a key that the change does, remembered with it.
        From here until `settled`, the storage is in doubt.
        """

    @abstractmethod
    def settled(self) -> None:
        """The table shows the state that was committed last."""

    @property
    @abstractmethod
    def in_doubt(self) -> bool:
        """Whether a commit was interrupted, so that what is stored may not be what the table shows."""

    @abstractmethod
    def done(self, key: str) -> Done | None:
        """The call that was committed under a key; None where there is none among the last `MOST_KEYS`."""

    @abstractmethod
    def all_done(self) -> Iterator[Done]:
        """All of these calls, in order."""

    @abstractmethod
    def features(self, slots: np.ndarray) -> np.ndarray:
        """The features of slots in any order, copied: (n, d)."""

    @abstractmethod
    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        """The features of slots first to last in blocks: (first slot, (n, d)) of each, until the next is asked for."""

    @abstractmethod
    def payloads(self, slots: np.ndarray, generation: int) -> list[str | None]:
        """The payloads of slots as JSON, None for a missing one; `Overtaken` where slots were renumbered since
        `generation`."""

    @abstractmethod
    def read(self, slots: np.ndarray, generation: int) -> np.ndarray:
        """The features (n, d) of slots; `Overtaken` where slots were renumbered since `generation`."""

    @abstractmethod
    def batches(self) -> Iterator[StoredBatch]:
        """All batches, in order: what another storage needs, with `features`, to hold the same items."""

    @abstractmethod
    def compact(self, state: State) -> tuple[State, Callable[[], None]]:
        """Commit a state with slots 0, 1, 2, ... and without the rows of removed items.

        Returns it, and a function that goes over to it, to be called in the moment when the table shows it.
        """

    @abstractmethod
    def snapshot(self, path: Path, state: State, history: dict[str, Any] | None) -> None:
        """Write a copy of the table, as of one commit, to a new folder."""

    # ---- what only a durable storage has to do

    def checkpoint_due(self) -> bool:
        """Whether enough was committed since the last checkpoint."""
        return False

    def checkpoint(  # noqa: B027
        self, state: State, history: dict[str, Any] | None, *, closing: bool = False
    ) -> None:
        """Save what makes the next `load` fast: the model, the items, and the history where it is given."""

    def history(self) -> dict[str, Any] | None:
        """The history that `checkpoint` was given last."""
        return None

    def harden(self) -> None:  # noqa: B027
        """Make all commits so far durable, where the durability is "fast"."""

    def reload(self, state: State) -> State | None:
        """For a reader of `state`: the last commit of the process that writes; None where there is no newer one."""
        return None

    def verify(self, state: State) -> tuple[int, int]:
        """Compare everything with its checksums: how many batches and rows. `Overtaken` unless `state` is the last."""
        return 0, 0

    def refuse_in_fork(self, process: int) -> None:  # noqa: B027
        """TableError where a process that was forked from `process`, which opened this, must not use it."""

    # ---- what every storage may leave as it is

    @property
    def where(self) -> str:
        """The place of what is stored about items, for errors."""
        return "the table in memory"

    def index(self, view: View) -> CodeIndex:
        """The index that searches the codes of a view."""
        return ExactScan(view) if self.settings.index == "scan" else IndexedSearch(view)

    @property
    def feature_bytes(self) -> int:
        """Of stored features."""
        return 0

    @property
    def disk_bytes(self) -> int:
        """Of all files."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Release everything. May be called again."""


def surviving(batches: Iterable[StoredBatch], live: np.ndarray) -> Iterator[Surviving]:
    """The rest of batches where only the slots `live`, ascending, stay and are counted from 0."""
    first = 0
    for batch in batches:
        start = batch.first_slot
        slots = live[np.searchsorted(live, start) : np.searchsorted(live, start + batch.n_rows)]
        if len(slots):
            yield Surviving(batch.seq, first, slots, batch.version)
            first += len(slots)


def read_payloads(storage: Storage, slots: np.ndarray, state: State) -> list[str]:
    """The payloads of slots that have one; a TableError where one is lost, `Overtaken` where slots were renumbered."""
    found = []
    for slot, text in zip(slots.tolist(), storage.payloads(slots, state.generation), strict=True):
        if text is None:
            one = state.view.ids(np.array([slot])).tolist()[0]
            raise TableError(
                f"{storage.where} is damaged: the payload of item {one!r} is lost. Restore it from a copy"
            )
        found.append(text)
    return found


def check_payloads(state: State, storage: Storage, step: int = 10_000) -> int:
    """Read every payload; a TableError names an item whose payload is lost. Returns how many there are."""
    live = state.view.live().astype(np.int64)
    slots = live[state.view.has_payload(live)]
    for start in range(0, len(slots), step):
        read_payloads(storage, slots[start : start + step], state)
    return len(slots)


def check_codes(state: State, storage: Storage, n: int) -> int:
    """Encode a sample of n items again, from their features; a TableError names the first whose code is another.

    Returns how many items there were; `Overtaken` where slots were renumbered since the state.
    """
    checked = 0
    slots = np.sort(np.random.default_rng(0).permutation(state.view.live())[:n]).astype(np.int64)
    for part, at, rows in locate(state.view.parts, slots):
        encoder = state.view.encoders[part.version]
        values = encoder.decision_function(storage.read(slots[at], state.generation))
        wrong = np.unpackbits(part.codes[rows], axis=1, count=encoder.n_bits) != (values > 0)
        sure = np.abs(values) > ROUNDING * np.abs(values).max(axis=1, keepdims=True)
        if (wrong & sure).any():
            slot = slots[at][np.flatnonzero((wrong & sure).any(axis=1))[0]]
            raise TableError(
                f"the code of slot {slot} is not what version {part.version} makes of its features: refresh the "
                "table, or restore it from a copy"
            )
        checked += len(at)
    return checked
