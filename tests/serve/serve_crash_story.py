"""One service that is killed again and again under load, by a seed; after every death, what it serves is judged.

Every acknowledged item is there with its features, label, fields and payload, and nothing else is. A request under way
is there whole or not at all. The model has learned from as many rows as were acknowledged, so that no repeated request
was learned twice. Rows that share a commit are learned as one batch, and which ones do depends on the moment. So the
model's bits are not compared, but every code has to be what its version makes of the features.
"""

from __future__ import annotations

import http.client
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.serve.serve_child import Dead, Service
from tests.serve.serve_crash_calls import Caller, Gate, Wrong
from tests.serve.serve_crash_clients import TABLE, Client, D, Item, Keeper, Searcher, Writer, shown
from tests.table.fingerprints import keys, wrong_answers

from hashstream.table import HashTable
from hashstream.table.storage.folder import failpoints

WRITERS, SEARCHERS = 4, 2
AT_ANY_MOMENT, STARTING, CREATED = "any moment", "while starting", "after the table was created"
POINTS = tuple(name for name in failpoints.NAMES if not name.startswith("create"))
PATIENCE = 6.0  # seconds until a fail-point has to be passed; then the service is killed all the same
LONGEST_LIFE, STARTUP = 1.5, 2.0  # seconds
ENDING = 60.0  # seconds within which the clients have to end

METHODS: list[tuple[str, dict[str, Any], bool]] = [
    ("FCOH", {"batch_size": 8, "random_state": 3}, False),
    ("RidgeHash", {"batch_size": 8, "random_state": 3}, True),
    ("HCOH", {"random_state": 3}, False),
]
"""Name, parameters, and whether it takes back labels that are replaced."""
POLICIES = ("every:2", "eager", "grown:0.5", "never")


@dataclass
class Kills:
    """What came of some seeds."""

    seeds: int = 0
    kills: Counter[str] = field(default_factory=Counter)  # by moment, or by the name of a fail-point
    whole: int = 0  # requests under way that were there after the kill
    undone: int = 0  # ... that were not
    done: Counter[str] = field(default_factory=Counter)  # by the clients
    failures: list[str] = field(default_factory=list)

    def add(self, other: Kills) -> None:
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


def try_kills(seed: int, kills: int) -> Kills:
    """A service that is killed so many times. A failure is a sentence in what is returned."""
    base = Path(tempfile.mkdtemp(prefix=f"serve-crash-{seed}-"))
    story = Story(seed, base)
    try:
        story.tell(kills)
    except Exception as error:
        why = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        story.found.failures.append(f"seed {seed} ({story}): {why}")
    finally:
        story.service.kill()
        shutil.rmtree(base, ignore_errors=True)
    return story.found


class Story:
    """The lives of one service with one table."""

    def __init__(self, seed: int, base: Path) -> None:
        self.seed, self.base = seed, base
        self.rng = random.Random(f"{seed} kills")
        self.found = Kills(seeds=1)
        self.folder = base / "tables"
        self.service = Service(self.folder, base, self.rng)
        self.method, self.parameters, corrects = METHODS[seed % len(METHODS)]
        self.settings: dict[str, Any] = {
            "policy": POLICIES[seed % len(POLICIES)],
            "durability": "fast" if seed % 5 == 4 else "full",
            "checkpoint_rows": self.rng.choice([10, 40, 20_000]),
            "max_versions": self.rng.choice([1, 3, 16]),
            "sample_size": self.rng.choice([0, 8, 100]),
        }
        self.gate = Gate(WRITERS + SEARCHERS + 1)
        given = self.service.port, self.gate, self.found.done, self.found.failures
        self.writers = [Writer(number, seed, corrects, *given) for number in range(WRITERS)]
        searchers = [Searcher(f"{seed} searcher {i}", self.writers, *given) for i in range(SEARCHERS)]
        self.clients: list[Client] = [*self.writers, *searchers, Keeper(f"{seed} keeper", base, *given)]
        self.commits = 0

    def __str__(self) -> str:
        return f"{self.method}, {self.settings}"

    def tell(self, kills: int) -> None:
        self.create()
        for client in self.clients:
            client.start()
        for number in range(self.found.kills.total(), kills):
            self.live(number)
            self.gate.close()
            if self.found.failures:
                raise Wrong("a client failed")
        self.service.start()
        self.service.wait_until_ready()
        self.judge()
        self.finish()

    # ---- lives

    def create(self) -> None:
        """Create the table, in some seeds with a kill on the way."""
        point = ("", "create.before", "", "create.after")[self.seed % 4]
        self.service.start(point)
        ask = {"name": "items", "method": self.method, "n_bits": 20, "parameters": self.parameters}
        ask |= {"fields": {"tenant": "str", "price": "float"}, **self.settings}
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{self.seed}-create"}
        for _ in range(5):
            caller = Caller(self.service.port)
            try:
                self.service.wait_until_ready()
                status, answer = caller.send("/v1/tables", json.dumps(ask).encode(), headers)
            except (Dead, OSError, http.client.HTTPException):
                self.died(point)
                self.service.start()
                continue
            finally:
                caller.close()
            if status == 201 or (status == 409 and self.found.kills):  # it was there, and its answer was lost
                self.service.kill()
                self.died("", CREATED)
                return
            raise Wrong(f"creating the table is answered with {status} {answer!r}")
        raise Wrong("the table could not be created")

    def live(self, number: int) -> None:
        """One life, from the start of the service to its death."""
        kind = (self.seed + number) % 5
        point = ""
        if kind in (1, 3):
            point = f"{POINTS[(7 * self.seed + number) % len(POINTS)]}:{self.rng.randint(1, 4)}"
        self.service.start(point)
        if kind == 4 and number % 2:
            time.sleep(self.rng.random() * STARTUP)
            self.service.kill()
            self.died("", STARTING)
            return
        try:
            self.service.wait_until_ready()
            self.judge()
        except (Dead, OSError, http.client.HTTPException):
            self.died(point)
            return
        self.gate.open()
        if point and self.service.wait_until_dead(PATIENCE):
            self.died(point)
            return
        if not point:
            time.sleep(self.rng.random() ** 2 * LONGEST_LIFE)
        if self.service.wait_until_dead(0):
            raise Wrong(f"the service ended by itself with exit code {self.service.process.returncode}")
        self.service.kill()
        self.died("")

    def died(self, point: str, moment: str = AT_ANY_MOMENT) -> None:
        """Count a death. point : the fail-point of this life."""
        self.service.wait_until_dead(1)
        if not self.service.was_killed():
            raise Wrong(f"the service ended by itself with exit code {self.service.process.poll()}")
        self.found.kills[point.split(":")[0] or moment] += 1

    def finish(self) -> None:
        """Let everything come to its end, and look at the table itself."""
        self.gate.end()
        end = time.monotonic() + ENDING
        for client in self.clients:
            client.join(max(0.0, end - time.monotonic()))
            if client.is_alive():
                raise Wrong(f"a {type(client).__name__} does not come to its end")
        if self.found.failures:
            raise Wrong("a client failed")
        self.judge()
        if not self.service.stop():
            raise Wrong(f"the service stopped with exit code {self.service.process.returncode}")
        if errors := self.service.errors():
            raise Wrong(f"the service has logged {len(errors)} errors, the first: {errors[0]}")
        with HashTable.open(self.folder / "items") as table:
            table.check(sample=1 << 20)
            stored = {key for key, *_ in keys(table)}
            sent = {key for writer in self.writers for key in writer.keys}
            if stored != sent:
                raise Wrong(f"keys differ from those that were acknowledged: {sorted(stored ^ sent)[:10]}")
            queries = np.random.default_rng(self.seed).standard_normal((4, D), np.float32)
            if len(table) and (wrong := wrong_answers(table, queries)):
                raise Wrong(f"the table is wrong in itself: {wrong}")

    # ---- judging

    def judge(self) -> None:
        """Compare everything that the service serves with what was acknowledged, while no client is at work."""
        caller = Caller(self.service.port)
        try:
            ids = caller.ask(f"{TABLE}/ids", {})["ids"]
            found = shown(caller.ask(f"{TABLE}/items/get", {"ids": ids, "features": True}))
            stats = caller.ask(f"{TABLE}/stats", method="GET")
            labelled = caller.ask(f"{TABLE}/count", {"where": {"label": {"$exists": True}}})["count"]
        finally:
            caller.close()
        if len(set(ids)) != len(ids) or len(found) != len(ids):
            raise Wrong("an id is listed twice")
        learned = {0}
        for writer in self.writers:
            mine = {one: found.pop(one) for one in writer.ids if one in found}
            rows = self._judge_writer(writer, mine)
            learned = {before + more for before in learned for more in rows}
        if found:
            raise Wrong(f"items are there that nobody stored: {list(found)[:10]}")
        if stats["n_seen"] not in learned:
            told = " or ".join(map(str, sorted(learned)))
            raise Wrong(f"the model has learned from {stats['n_seen']} rows, and {told} were acknowledged")
        if stats["commits"] < self.commits:
            raise Wrong(f"commit {self.commits} was seen, and {stats['commits']} is the last one now")
        self.commits = stats["commits"]
        if labelled > len(ids):
            raise Wrong(f"{labelled} of {len(ids)} items have a label")
        if remains := [path.name for path in self.folder.iterdir() if path.name.startswith(".")]:
            raise Wrong(f"folders are left over: {remains}")

    def _judge_writer(self, writer: Writer, found: dict[Any, tuple[Any, ...]]) -> set[int]:
        """The numbers of rows that may have been learned from a writer, whose items are `found`.

        Two where a request was under way that leaves all items as they are: `label` with the label that an item was
        added with, without learning from it. Whether it was done is known once it is acknowledged.
        """
        wrong = differences(found, writer.items)
        if not wrong:
            if writer.pending is not None and not differences(found, writer.pending.after):
                return {writer.learned, writer.pending.learned}
            self.found.undone += writer.pending is not None
            return {writer.learned}
        if writer.pending is None:
            raise Wrong(f"not as acknowledged: {wrong[0]}")
        if also := differences(found, writer.pending.after):
            raise Wrong(
                f"{writer.pending.path} with the key {writer.pending.key} was under way: without it {wrong[0]}, and "
                f"with it {also[0]}"
            )
        self.found.whole += 1
        return {writer.pending.learned}


def differences(found: dict[Any, tuple[Any, ...]], wanted: dict[Any, Item]) -> list[str]:
    """Sentences on items that are not as they have to be."""
    wrong = [f"{one!r} is missing" for one in wanted if one not in found]
    wrong += [f"{one!r} is there" for one in found if one not in wanted]
    wrong += [
        f"{one!r} is {found[one]}, not {item.shown()}"
        for one, item in wanted.items()
        if one in found and found[one] != item.shown()
    ]
    return wrong
