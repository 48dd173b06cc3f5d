"""Ray in this process, on loopback; children, and the processes that they have started, which can all be killed."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.scale.fault_world import Wrong

CHILD = Path(__file__).with_name("fault_child.py")
LOOPBACK = "127.0.0.2"  # Ray replaces 127.0.0.1 by an address that other machines can reach
PATIENCE = 240.0  # seconds until a child has to say something

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def start_ray(folder: str) -> str:
    """Start a Ray that ends with this process; returns its address. folder : of short path, for its files."""
    import ray

    ray.init(
        address="local", num_cpus=2, include_dashboard=False, object_store_memory=80 << 20,
        _node_ip_address=LOOPBACK, _temp_dir=folder, log_to_driver=False, logging_level="error",
        namespace="hashstream",
    )  # fmt: skip
    address: str = ray.get_runtime_context().gcs_address
    return address


class Child:
    """A program in a process group of its own."""

    def __init__(self, folder: Path, seed: int, command: str, *more: str) -> None:
        self.command = command
        handle, name = tempfile.mkstemp(dir=folder, suffix=".log")
        self._errors = Path(name)
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), str(folder), str(seed), command, *more],
            stdout=subprocess.PIPE, stderr=handle, text=True, start_new_session=True,
        )  # fmt: skip
        os.close(handle)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def next_line(self) -> str | None:
        """The next line that it says; None where it has ended."""
        try:
            return self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise Wrong(f"{self.command} says nothing for {PATIENCE:.0f} s: {self.errors()}") from None

    def wait_for(self, word: str) -> str:
        """The first line that begins with a word; Wrong where the child ends before."""
        while (line := self.next_line()) is not None:
            if line.startswith(word):
                return line
        raise Wrong(f"{self.command} ended before it said {word!r}: {self.errors()}")

    def has_ended(self) -> bool:
        """Whether it has said its last word by now."""
        while not self._lines.empty():
            if self._lines.get() in (None, "right"):
                return True
        return False

    def errors(self) -> str:
        """The end of what it has written to stderr."""
        lines = [
            line for line in self._errors.read_text().splitlines() if line.strip() and "(raylet)" not in line
        ]
        return " / ".join(lines[-6:]) or "no message"

    def kill(self) -> int:
        """Kill it and everything that it has started, at once; how many processes these were."""
        processes = [self.process.pid, *descendants([self.process.pid])]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()
        end = time.monotonic() + 20
        while any(map(is_alive, processes)) and time.monotonic() < end:
            time.sleep(0.05)
        return len(processes)


def descendants(processes: Iterable[int]) -> list[int]:
    """Children of processes, theirs, and so on."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(path.name))
    found: list[int] = []
    left = [*processes]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(process: Any) -> None:
    """Kill one process, which may have ended."""
    with suppress(ProcessLookupError):
        os.kill(int(process), signal.SIGKILL)
