"""The other process of the demo: it fills the table, and is killed without warning."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from hashstream import datasets
from hashstream.demo.world import World
from hashstream.table import TableError

__all__ = ["Feeder"]

PATIENCE = 120.0  # seconds in which it has to say something


class Feeder:
    """Another process that ingests the stream into a table, and is killed without warning.

    kill_at : rows acknowledged, after which it lives for some milliseconds more. acknowledged : rows of which it has
    said that they are stored. pause : seconds that it waits after each batch.
    """

    def __init__(self, folder: Path, world: World, *, kill_at: int, pause: float) -> None:
        self.kill_at, self.acknowledged = kill_at, 0
        command = [
            sys.executable,
            "-m",
            "hashstream.demo.feeder",
            folder,
            world.data.name,
            world.n_bits,
            world.seed,
            pause,
        ]
        self._process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._news = threading.Condition()
        self._over = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        dying = False
        for line in self._process.stdout:
            with self._news:
                self.acknowledged = int(line)
                self._news.notify_all()
            if self.acknowledged >= self.kill_at and not dying:
                dying = True
                time.sleep(random.uniform(0, 0.05))  # anywhere in a batch
                self._process.kill()
        with self._news:
            self._over = True
            self._news.notify_all()

    def wait_for(self, rows: int) -> bool:
        """Until so many are acknowledged, or the process has ended; which of both. TableError where it ended early."""
        with self._news:
            self._news.wait_for(lambda: self._over or self.acknowledged >= rows, PATIENCE)
            if self._over and self.acknowledged < self.kill_at:
                raise TableError(f"the process that fills the table ended early: {self._last_words()}")
            return self.acknowledged >= rows and not self._over

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        lines = self._process.stderr.read().strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.wait()}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def feed_forever(folder: Path, dataset: str, n_bits: int, seed: int, *, pause: float) -> None:
    """What the other process does: ingest, say so, and at the end wait to be killed."""
    world = World.of(datasets.load(dataset), n_bits, seed)
    with world.open(folder) as table:
        for stored in world.feed(table):
            print(stored, flush=True)
            time.sleep(pause)
        time.sleep(PATIENCE)


if __name__ == "__main__":
    feed_forever(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:5]), pause=float(sys.argv[5]))
