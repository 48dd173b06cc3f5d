"""The other process of the demo, which fills the table and is killed without warning."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from hashstream import datasets
from hashstream.demo.setup import Setup
from hashstream.table import TableError

PATIENCE = 120.0  # seconds without an acknowledgement


class Feeder:
    """Another process that ingests the stream into a table, and is killed without warning.

    kill_at : the number of acknowledged rows after which it is killed, some milliseconds later.
    acknowledged : rows that it has reported as stored. pause : seconds that it waits after each batch.
    """

    def __init__(self, folder: Path, setup: Setup, *, kill_at: int, pause: float) -> None:
        self.kill_at, self.acknowledged = kill_at, 0
        arguments = (folder, setup.data.name, setup.n_bits, setup.seed, pause)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hashstream.demo.feeder", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        killed = False
        for line in self._process.stdout:
            with self._changed:
                self.acknowledged = int(line)
                self._changed.notify_all()
            if self.acknowledged >= self.kill_at and not killed:
                killed = True
                time.sleep(random.uniform(0, 0.05))  # anywhere in a batch
                self._process.kill()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, rows: int) -> bool:
        """Wait until `rows` rows are acknowledged (True) or the process has ended (False).

        TableError if it ended before it was killed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self.acknowledged >= rows, PATIENCE)
            if self._ended and self.acknowledged < self.kill_at:
                raise TableError(f"the process that fills the table ended early: {self._reason()}")
            return self.acknowledged >= rows and not self._ended

    def _reason(self) -> str:
        assert self._process.stderr is not None
        lines = self._process.stderr.read().strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.wait()}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def _main(folder: str, dataset: str, n_bits: str, seed: str, pause: str) -> None:
    """Ingest, acknowledge each batch on stdout, and at the end wait to be killed."""
    setup = Setup.of(datasets.load(dataset), int(n_bits), int(seed))
    with setup.open(Path(folder)) as table:
        for stored in setup.feed(table):
            sys.stdout.write(f"{stored}\n")
            sys.stdout.flush()
            time.sleep(float(pause))
        time.sleep(PATIENCE)


if __name__ == "__main__":
    _main(*sys.argv[1:])
