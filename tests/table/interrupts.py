"""Interrupts tables: a timer raises KeyboardInterrupt at any moment of a call, as Ctrl-C does; what is left is judged.

Every seed is one table in a process of its own. After each interrupt the table either works, or asks to be closed and
opened again, which is interrupted in turn. It is then held against the same operations in a folder where nobody is
interrupted: the operation is there whole or not at all. A process that hangs is a failure.
"""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.table.crash_child import World
from tests.table.crash_parent import Unequal
from tests.table.fingerprints import differences, fingerprint, wrong_answers

from hashstream.table import HashTable, OutcomeUnknown

HANG = 60  # seconds
TRIES = 4  # interrupts of one operation, before it is left alone


@dataclass
class Interrupts:
    """What came of some seeds. interrupts : that were raised. whole, undone : operations that were there, or not.
    reopened : tables that asked for it."""

    seeds: int = 0
    interrupts: int = 0
    closes: int = 0
    opens: int = 0
    whole: int = 0
    undone: int = 0
    reopened: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Interrupts) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def try_interrupts(seed: int, folder: Path | None = None) -> Interrupts:
    """One table, in a forked process. A failure is a sentence in what is returned."""
    base = Path(tempfile.mkdtemp(prefix=f"interrupts-{seed}-", dir=folder))
    child = os.fork()
    if not child:
        try:
            told = open(base / "stacks", "w")  # noqa: SIM115 : until the process ends
            faulthandler.enable(told)
            faulthandler.dump_traceback_later(HANG, exit=True, file=told)
            story = Story(seed, base)
            try:
                story.tell()
            except BaseException as error:
                why = str(error) if isinstance(error, Unequal) else traceback.format_exc()
                story.found.failures.append(f"seed {seed} ({story.world}): {why}")
            (base / "found").write_text(json.dumps(asdict(story.found)))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    try:
        if (base / "found").exists():
            return Interrupts(**json.loads((base / "found").read_text()))
        stacks = (base / "stacks").read_text() if (base / "stacks").exists() else ""
        return Interrupts(1, failures=[f"seed {seed}: it hung, or died with status {status}\n{stacks}"])
    finally:
        shutil.rmtree(base, ignore_errors=True)


class Story:
    """One table by a seed, and the one that is never interrupted."""

    def __init__(self, seed: int, base: Path) -> None:
        self.world, self.base, self.path = World(seed), base, base / "interrupted"
        self.rng = np.random.default_rng([seed, 6])
        self.found = Interrupts(seeds=1)
        self.snapshots = base / "snapshots"
        self.snapshots.mkdir()

    def tell(self) -> None:
        self.world.set_limits()
        signal.signal(signal.SIGALRM, self.interrupt)
        warnings.simplefilter("error", UserWarning)  # such as: learning again gave other bits
        settings = {"durability": "fast", "checkpoint_rows": 1 << 30, "segment_bytes": 1 << 30}
        reference = self.world.open(self.base / "never", **settings)
        self.wanted = fingerprint(reference, self.world.queries)
        table = self.world.open(self.path)
        for number, operation in enumerate(self.world.operations):
            before = self.wanted
            self.world.apply(reference, operation, None)
            self.wanted = fingerprint(reference, self.world.queries)
            for attempt in range(TRIES + 1):
                if operation.name == "reopen":
                    table = self.reopened(table)
                    break
                name = f"{number}-{attempt}"
                if operation.name == "snapshot":
                    call: Callable[[], Any] = lambda name=name, table=table: table.snapshot(  # noqa: E731
                        self.snapshots / name
                    )
                else:
                    call = lambda table=table, operation=operation: self.world.apply(table, operation, None)  # noqa: E731
                if self.passed(call, attempt == TRIES):
                    table = self.judged(table, [self.wanted])
                    break
                table = self.judged(table, [before, self.wanted])
                if not differences(self.seen, self.wanted, self.world.lazy) and before != self.wanted:
                    self.found.whole += 1
                    break
                self.found.undone += 1
        self.reopened(table).close()
        reference.close()

    def interrupt(self, *_: Any) -> None:
        self.fired = True
        raise KeyboardInterrupt

    def passed(self, call: Callable[[], Any], alone: bool) -> bool:
        """Make a call that a timer may interrupt, unless it is left `alone`; whether it came to its end."""
        seconds = 0.0 if alone else 10 ** float(self.rng.uniform(-4.5, -1.8))
        self.fired = False
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                call()
                return True
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException:  # NumPy sometimes raises an error of its own in the place of an interrupt
            if not self.fired:
                raise
            self.found.interrupts += 1
            return False

    def judged(self, table: HashTable, wanted: list[dict[str, Any]]) -> HashTable:
        """The table, opened again where it asks for it, which is one of those."""
        try:
            self.inspect(table)
        except OutcomeUnknown:
            self.found.reopened += 1
            table = self.reopened(table)
            self.inspect(table)
        wrong = [differences(self.seen, one, self.world.lazy) for one in wanted]
        if all(wrong):
            raise Unequal(f"it is none of the tables that it may be: {wrong}")
        return table

    def inspect(self, table: HashTable) -> None:
        table._refuse_if_torn()
        with table._lock:  # or a thread in the background would change it meanwhile
            self.seen = fingerprint(table, self.world.queries)
            wrong = wrong_answers(table, self.world.queries)
        if wrong:
            raise Unequal(f"wrong in itself: {wrong}")

    def reopened(self, table: HashTable) -> HashTable:
        """Closed and opened again, both of which may be interrupted."""
        held: list[HashTable] = []
        for attempt in range(TRIES + 1):
            if self.passed(table.close, attempt == TRIES):
                break
            self.found.closes += 1
        for attempt in range(TRIES + 1):
            # An interrupt may come when the table is open already, but nobody has it: then it is collected.
            if self.passed(lambda: held.append(self.world.open(self.path)), attempt == TRIES):
                break
            self.found.opens += 1
            while held:
                held.pop().close()
        return held[-1]
