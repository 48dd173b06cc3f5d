"""Ray's actors, and calls of them.

`Engine` and `Actor` are what a cluster needs of an engine, so that tests can do without Ray.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from hashstream.scale.connection import NAMESPACE, connect, import_ray
from hashstream.scale.errors import ShardLost

__all__ = ["Actor", "Engine", "Outcome", "RayEngine", "Remote", "values"]

INLINE_BYTES = (
    50_000  # an argument below this is sent with each call; a larger one is stored once for all shards
)
AHEAD = 2  # values of a stream that wait in Ray's memory to be read
GROUPS = {"read": 8, "write": 1, "long": 4, "stream": 8}
"""Threads of an actor. Writes are done one by one. No search waits for a write, for a call that may take long, or for a
program that reads a stream slowly; nor does a long call wait for such a program."""


@dataclass(frozen=True)
class Outcome:
    """How a call ended: its value, or its error; `lost` where it has not ended in time, or its actor is gone."""

    value: Any = None
    error: BaseException | None = None
    lost: bool = False


class Remote:
    """An object that lives in an actor.

    Ray serialises each argument of a call alone, which takes a fifth of the time of a search. So small and frequent
    calls are sent as one string of bytes, and return one. Like Ray, this trusts whoever may reach Ray's ports.
    """

    reads: ClassVar[frozenset[str]] = frozenset()
    """Methods that do not write, and may run beside others."""
    long: ClassVar[frozenset[str]] = frozenset()
    """The same, where they may take any time."""
    small: ClassVar[frozenset[str]] = frozenset()
    """Methods whose arguments and values are sent as one string of bytes, unless an argument is large."""

    def packed(self, call: bytes) -> bytes:
        """Do a call of a small method."""
        method, args = pickle.loads(call)
        return pickle.dumps(getattr(self, method)(*args), pickle.HIGHEST_PROTOCOL)


class Actor(Protocol):
    """An object in another process."""

    name: str

    def submit(self, method: str, *args: Any) -> Any:
        """Begin a call; returns a reference for `Engine.gather`."""

    def stream(
        self, method: str, *args: Any, every: float, late: Callable[[int, float], None]
    ) -> Iterator[Any]:
        """The values of a method that yields; `ShardLost` where the actor dies before the last one.

        late : is called after every so many seconds without the next value, with the number of values so far and the
        seconds that the next one was waited for. What it raises ends the stream.
        """


class Engine(Protocol):
    """Whatever holds the actors of a cluster."""

    def actor(
        self, kind: type[Remote], args: tuple[Any, ...], *, name: str, node: str | None, detached: bool
    ) -> Actor:
        """Start an actor, or find the detached one of this name. node : the custom resource that it demands."""

    def share(self, value: Any, n_bytes: int) -> Any:
        """An argument for several calls, stored once where it is large."""

    def gather(self, calls: Sequence[Any], timeout: float | None) -> list[Outcome]:
        """The outcome of each call, as soon as all have one, or the time is over."""

    def stop(self, actor: Actor) -> None:
        """End an actor for good."""

    def n_nodes(self) -> int:
        """Machines that take actors; 0 where actors are objects of this process."""


def values(
    outcomes: Sequence[Outcome],
    actors: Sequence[Actor],
    timeout: float | None,
    shards: Sequence[Actor] | None = None,
) -> list[Any]:
    """The values of calls to actors; raises the first error, or `ShardLost` where one did not answer.

    shards : all of them, by which lost ones are numbered; the actors by default.
    """
    for outcome in outcomes:
        if outcome.error is not None and not outcome.lost:
            raise outcome.error
    lost = [at for at, outcome in enumerate(outcomes) if outcome.lost]
    if lost:
        gone = [actors[at] for at in lost]
        names = ", ".join(one.name for one in gone)
        within = "" if timeout is None else f" within {round(timeout, 1):g} s"
        why = next((f" ({outcomes[at].error})" for at in lost if outcomes[at].error is not None), "")
        raise ShardLost(
            f"{names} did not answer{within}{why}. It answers again once its machine and its folder are back; restore "
            "it from a snapshot where its disk is lost",
            [at for at, one in enumerate(actors if shards is None else shards) if one in gone],
        )
    return [outcome.value for outcome in outcomes]


class RayCall(NamedTuple):
    """A call that was begun. packed : whether its value comes as bytes."""

    ref: Any
    packed: bool

    def value(self, got: Any) -> Any:
        return pickle.loads(got) if self.packed else got


class RayActor:
    """An actor of Ray. kind : what lives in it."""

    def __init__(self, handle: Any, name: str, kind: type[Remote]) -> None:
        self.handle, self.name, self._kind = handle, name, kind
        self._methods: dict[tuple[str, str], Any] = {}
        self._ref = import_ray().ObjectRef

    def submit(self, method: str, *args: Any) -> RayCall:
        group = self._group(method)
        if method in self._kind.small and not any(isinstance(one, self._ref) for one in args):
            call = pickle.dumps((method, args), pickle.HIGHEST_PROTOCOL)
            return RayCall(self._bound("packed", group).remote(call), packed=True)
        return RayCall(self._bound(method, group).remote(*args), packed=False)

    def _bound(self, method: str, group: str) -> Any:
        bound = self._methods.get((method, group))
        if bound is None:
            bound = getattr(self.handle, method).options(concurrency_group=group)
            self._methods[method, group] = bound
        return bound

    def stream(
        self, method: str, *args: Any, every: float, late: Callable[[int, float], None]
    ) -> Iterator[Any]:
        ray = import_ray()
        bound = getattr(self.handle, method).options(
            concurrency_group="stream",
            num_returns="streaming",
            max_task_retries=0,  # the rest of the values would be those of a later commit
            _generator_backpressure_num_objects=AHEAD,
        )
        refs, n = bound.remote(*args), 0
        try:
            while True:
                waited = 0.0
                while not ray.wait([refs], timeout=every)[0]:
                    waited += every
                    late(n, waited)
                ref = next(refs, None)
                if ref is None:
                    return
                while not ray.wait([ref], timeout=every)[0]:  # a large one of another machine is on its way
                    waited += every
                    late(n + 1, waited)
                value = ray.get(ref)
                n += 1
                yield value
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise ShardLost(f"{self.name} was lost while it was read: read again from the start") from error
        finally:
            if not n:
                ray.cancel(refs)  # it may still wait for a thread, and would then be done for nobody
            del refs  # which a traceback may keep otherwise, and with it a thread of the actor

    def _group(self, method: str) -> str:
        if method in self._kind.long:
            return "long"
        return "read" if method in self._kind.reads else "write"


class RayEngine:
    """Ray, connected to this process.

    address : of a running Ray, as `ray.init` takes it; None starts one on this machine, which ends with this process.
    Where this process is connected already, that connection is used.
    """

    def __init__(self, address: str | None = None) -> None:
        self._ray = connect(address)

    def actor(
        self, kind: type[Remote], args: tuple[Any, ...], *, name: str, node: str | None, detached: bool
    ) -> RayActor:
        ray = self._ray
        options: dict[str, Any] = {
            "max_restarts": -1, "max_task_retries": -1, "num_cpus": 0, "concurrency_groups": GROUPS,
        }  # fmt: skip
        if node is not None:
            options["resources"] = {node: 0.001}
        else:
            options["scheduling_strategy"] = "SPREAD"
        placed = {"name": name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
        remote = ray.remote(**options)(kind).options(**(placed if detached else {}))
        return RayActor(remote.remote(*args), name, kind)

    def share(self, value: Any, n_bytes: int) -> Any:
        return self._ray.put(value) if n_bytes > INLINE_BYTES else value

    def gather(self, calls: Sequence[RayCall], timeout: float | None) -> list[Outcome]:
        ray = self._ray
        end = None if timeout is None else time.monotonic() + timeout
        refs = [call.ref for call in calls]
        try:  # at once, as nearly always
            got = ray.get(refs, timeout=timeout)
        except ray.exceptions.RayError:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=left)
            done = set(ready)
            return [self._outcome(call) if call.ref in done else Outcome(lost=True) for call in calls]
        return [Outcome(call.value(one)) for call, one in zip(calls, got, strict=True)]

    def _outcome(self, call: RayCall) -> Outcome:
        errors = self._ray.exceptions
        try:
            return Outcome(call.value(self._ray.get(call.ref)))
        except errors.RayTaskError as error:
            cause = error.cause
            return Outcome(error=cause, lost=isinstance(cause, ShardLost))
        except errors.RayError as error:  # the actor is gone, or cannot be reached
            return Outcome(error=error, lost=True)

    def stop(self, actor: Actor) -> None:
        assert isinstance(actor, RayActor)
        self._ray.kill(actor.handle, no_restart=True)

    def n_nodes(self) -> int:
        return sum(bool(node["Alive"]) for node in self._ray.nodes())
