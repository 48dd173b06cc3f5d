"""The actors of a cluster, and calls of all or some of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hashstream.scale.config import Config
from hashstream.scale.engine import GROUPS, Actor, Engine, Outcome, values
from hashstream.scale.errors import ClusterError, ShardLost
from hashstream.scale.learner import Learner
from hashstream.scale.models import Publication
from hashstream.scale.shard import Shard
from hashstream.table.storage.folder.lock import WriterLock

__all__ = ["Members"]

LOOK = 5.0  # seconds after which an actor that works for long is asked whether it is there
STOPPING = 20.0  # seconds in which tables are closed; one that is not, recovers when it is opened again


class Members:
    """Shards and learner. timeout, write_timeout : seconds that a read, or a write, waits for them.

    held : the lock of a cluster that is this program's alone.
    """

    def __init__(
        self,
        engine: Engine,
        path: Path,
        config: Config,
        *,
        detached: bool,
        timeout: float,
        write_timeout: float,
        held: WriterLock | None = None,
    ) -> None:
        self.engine, self.timeout, self.detached = engine, timeout, detached
        self.write_timeout, self._held = write_timeout, held
        machines = engine.n_nodes() and (len(config.nodes) or engine.n_nodes())
        per_node = -(-config.shards // machines) if machines else None
        self.shards: list[Actor] = [
            engine.actor(
                Shard,
                (str(path), number, config.shards, per_node),
                name=f"{config.id}-shard-{number:04d}" if detached else f"shard {number}",
                node=config.node_of(number),
                detached=detached,
            )
            for number in range(config.shards)
        ]
        self.learner = engine.actor(
            Learner,
            (str(path), config.publish_every),
            name=f"{config.id}-learner" if detached else "the learner",
            node=config.node_of(0),
            detached=detached,
        )
        self._pushed: Publication | None = None
        self._process = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a fork of the one that opened the cluster."""
        return os.getpid() != self._process

    def refuse_in_fork(self) -> None:
        """ClusterError in a fork of the process that opened the cluster: Ray's connection does not work there."""
        if self.is_inherited:
            raise ClusterError(
                f"this cluster was opened by process {self._process}, of which this one is a fork, and has no "
                'connection to Ray. Fork before it is opened, or start processes afresh (multiprocessing\'s "spawn"), '
                "and open it there with address="
            )

    def _begin(self, actor: Actor, method: str, *args: Any) -> Any:
        self.refuse_in_fork()
        return actor.submit(method, *args)

    def read(self, method: str, *args: Any) -> list[Any]:
        """The values of a method that reads, of all shards."""
        return self._values(
            [self._begin(shard, method, *args) for shard in self.shards], self.shards, self.timeout
        )

    def read_each(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], timeout: float | None = None
    ) -> list[Any]:
        """The same of some shards, each with its own arguments, in their order. timeout : instead of that of all."""
        return self._some(method, arguments, self.timeout if timeout is None else timeout)

    def stream(self, at: int, method: str, *args: Any) -> Iterator[Any]:
        """The values of a method of a shard that yields. It may take any time, as long as the shard answers another
        call meanwhile; `ShardLost` otherwise, and where it does not begin in time."""
        shard = self.shards[at]
        self.read_each("pid", {at: ()})  # waits for one that is being restarted

        def late(n: int, waited: float) -> None:
            self.read_each("pid", {at: ()})
            if not n and waited >= self.timeout:
                raise ShardLost(
                    f"{shard.name} answers, but has not begun to send {method} within {round(waited, 1):g} s: as many "
                    f"programs or threads as it serves at a time ({GROUPS['stream']}) may be reading them, or have "
                    "stopped halfway. Read again when one of them has ended, or has closed its iterator",
                    [at],
                )

        yield from shard.stream(method, *args, every=min(self.timeout, LOOK), late=late)

    def outcomes(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], timeout: float
    ) -> list[Outcome]:
        """How calls of some shards ended, each with its own arguments, in their order."""
        return self.engine.gather([call for call, _ in self.submit_each(method, arguments)], timeout)

    def write(self, method: str, *args: Any, long: bool = False) -> list[Any]:
        """The values of a method that writes, of all shards. long : whether it may take any time."""
        calls = [self._begin(shard, method, *args) for shard in self.shards]
        return (
            self._ended(calls, self.shards) if long else self._values(calls, self.shards, self.write_timeout)
        )

    def write_and_tell(self, method: str, *args: Any, tell: Callable[[], None]) -> list[Any]:
        """As `write`, for a method that may take any time. tell : called after each shard, in their order."""
        calls = [self._begin(shard, method, *args) for shard in self.shards]
        found = []
        for call, shard in zip(calls, self.shards, strict=True):
            found += self._ended([call], [shard])
            tell()
        return found

    def write_each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """The same of some shards, each with its own arguments."""
        return self._some(method, arguments, self.write_timeout)

    def submit_each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[tuple[Any, Actor]]:
        """Begin calls of some shards; `finish` waits for them."""
        return [
            (self._begin(self.shards[at], method, *args), self.shards[at]) for at, args in arguments.items()
        ]

    def finish(self, calls: Sequence[tuple[Any, Actor]]) -> list[Any]:
        """The values of calls that were begun."""
        return self._values([call for call, _ in calls], [actor for _, actor in calls], self.write_timeout)

    def learn(self, method: str, *args: Any, long: bool = False) -> Any:
        """The value of a method of the learner. long : whether it may take any time."""
        calls = [self._begin(self.learner, method, *args)]
        if long:
            return self._ended(calls, [self.learner])[0]
        return self._values(calls, [self.learner], self.write_timeout)[0]

    def push(self, publication: Publication | None, *, again: bool = False) -> None:
        """Have all shards take over published functions, unless this program has done that; they re-encode later.

        again : also if it has.
        """
        known = None if again else self._pushed
        if publication is None or publication == known or (known and publication.version < known.version):
            return
        publication, raw = self.learn("model", publication)  # or a newer one
        shared = self.engine.share(raw, len(raw))
        self.write("adopt", shared, publication, 0)
        self._pushed = publication

    def stop(self) -> None:
        """Close all tables, and end all actors."""
        everyone = [*self.shards, self.learner]
        try:
            self.engine.gather([one.submit("close") for one in everyone], min(self.timeout, STOPPING))
            for one in everyone:
                self.engine.stop(one)
        finally:  # also where Ray is gone already
            if self._held is not None:
                self._held.release()

    def _some(self, method: str, arguments: Mapping[int, tuple[Any, ...]], timeout: float) -> list[Any]:
        calls = self.submit_each(method, arguments)
        return self._values([call for call, _ in calls], [actor for _, actor in calls], timeout)

    def _ended(self, calls: Sequence[Any], actors: Sequence[Actor]) -> list[Any]:
        """The values of calls that may take any time, as long as their actors answer another call meanwhile."""
        while True:
            outcomes = self.engine.gather(calls, min(self.timeout, LOOK))
            busy = [
                actor
                for actor, outcome in zip(actors, outcomes, strict=True)
                if outcome.lost and outcome.error is None
            ]
            if not busy:
                return values(outcomes, actors, None, self.shards)
            self._values([self._begin(actor, "pid") for actor in busy], busy, self.timeout)

    def _values(self, calls: Sequence[Any], actors: Sequence[Actor], timeout: float) -> list[Any]:
        return values(self.engine.gather(calls, timeout), actors, timeout, self.shards)
