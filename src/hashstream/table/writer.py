"""`Writer`: calls from many threads, gathered into group commits.

A commit costs its sync, however many rows it has. Calls wait in a queue. One of their threads leads: it does all calls
that are waiting, while others come, and then one of those leads.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from hashstream.hashers import LabelsLike
from hashstream.table.calls import Call
from hashstream.table.errors import OutcomeUnknown, TableError
from hashstream.table.incoming import IdsLike, Incoming, PayloadsLike

__all__ = ["Writer"]

PATIENCE, LONGEST = 0.3, 3e-3  # share of the time of the last commit, and seconds, that others are waited for
NAP = 1e-4  # seconds between two looks


class Writer:
    """Writes to a table from any number of threads: calls that wait for one another share a commit.

    A call returns when its own rows are durable, and what it raises concerns its own rows only. Rows that share a
    commit are learned as one batch, in the order in which the calls came.
    """

    def __init__(self, check: Callable[[Call], Incoming], do: Callable[[list[Call]], None]) -> None:
        """check : checks the arguments of a call. do : does calls, whose errors they keep."""
        self._check, self._do_all = check, do
        self._waiting: deque[Call] = deque()
        self._leading: Any = threading.RLock()  # it knows who leads, whatever was interrupted
        self._led: list[Call] = []  # by the thread that leads
        self._last = (
            0,
            0.0,
        )  # calls that were done, or came meanwhile, the last time, and seconds that it took

    def ingest(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        key: str | None = None,
    ) -> None:
        """As `HashTable.ingest`."""
        self._do(Call("ingest", (ids, X, y), {"fields": fields, "payloads": payloads}, key))

    def add(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        learn: bool = False,
        key: str | None = None,
    ) -> None:
        """As `HashTable.add`."""
        more = {"fields": fields, "payloads": payloads}
        self._do(Call("ingest" if learn else "add", (ids, X, y), more, key))

    def label(self, ids: IdsLike, y: LabelsLike, *, key: str | None = None) -> int:
        """As `HashTable.label`."""
        return self._do(Call("label", (ids, y), {}, key)) or 0

    def do(self, calls: Iterable[Call]) -> None:
        """Do calls in their order, in as few commits as possible, for a thread that has gathered them itself.

        Each keeps its own error and result: nothing is raised that concerns single calls. Calls that are done already
        are left as they are.
        """
        self._finish([call for call in calls if not call.done], gather=False)

    def _do(self, call: Call) -> int | None:
        self._refuse_if_leading()
        try:
            self._check(call)  # here: while another thread syncs, this one has the time
        except Exception:
            if call.key is None:
                raise
            call.rows = None  # checked again when it is done, unless it was done before
        self._finish([call])
        if call.error is not None:
            raise call.error
        return call.result

    def _refuse_if_leading(self) -> None:
        if self._leading._is_owned():
            raise TableError(
                "a call of this writer is under way in this thread: on_commit and handlers of signals cannot write"
            )

    def _finish(self, calls: list[Call], *, gather: bool = True) -> None:
        """Let calls be done, by this thread or another. gather : whether to wait for those of others."""
        self._refuse_if_leading()
        try:
            self._waiting.extend(calls)
            while (first := next((call for call in calls if not call.done), None)) is not None:
                if self._leading.acquire(blocking=False):
                    self._lead(first, gather)
                else:
                    first.wait()
        except BaseException as error:  # an interrupt, at any moment, or an error that concerns all calls
            reason = _reason(error)
            for call in calls:
                if not call.done:
                    call.end(reason)  # nobody waits for it any more
            self._step_down(reason)
            raise

    def _lead(self, mine: Call, gather: bool) -> None:
        """Do the calls that are waiting, and let one of those lead that have come meanwhile."""
        if not mine.done:
            if gather:
                self._gather()
            clock = time.perf_counter()
            while self._waiting:
                self._led.append(self._waiting[0])  # first: a call that was interrupted here is known
                self._waiting.popleft()
            self._led = [call for call in self._led if not call.done]
            self._do_all(self._led)
            if gather:
                self._last = len(self._led) + len(self._waiting), time.perf_counter() - clock
        self._step_down()

    def _gather(self) -> None:
        """Where several threads write, wait a moment for those whose calls have just been done: they are likely to be
        back soon, and a commit more would cost all of them more."""
        expected, seconds = self._last
        end = time.perf_counter() + min(PATIENCE * seconds, LONGEST)
        while len(self._waiting) < expected and expected > 1 and time.perf_counter() < end:
            time.sleep(NAP)

    def _step_down(self, error: Exception | None = None) -> None:
        """Let another thread lead, if this one does. error : of all calls that are not done. Interrupted, it may be
        called again."""
        if self._leading._is_owned():
            for call in self._led:
                if not call.done:
                    call.end(error)
            for call in self._led:
                call.wake()
            self._led = []
            self._leading.release()
        for call in list(self._waiting):
            if not call.done:
                call.wake()
                break


def _reason(error: BaseException) -> Exception:
    """The error of calls that were under way when one came that concerns all of them."""
    if isinstance(error, Exception):
        return error
    return OutcomeUnknown("the thread that wrote these rows was interrupted: they may be stored")
