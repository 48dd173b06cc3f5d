"""A service in a process of its own, for the parts of `hashstream perf serve`."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.serve_clients import Connection
from benchmarks.table_stream import filled

D, BITS, K = 64, 64, 10
NAME = "items"
STARTING, STOPPING = 120.0, 60.0  # seconds
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Memory:
    """Resources of a process, as the kernel counts them. anonymous : bytes that are not pages of files."""

    resident: int
    anonymous: int
    descriptors: int
    threads: int


@dataclass(frozen=True)
class Serving:
    """A service that runs."""

    port: int
    pid: int

    def connect(self) -> Connection:
        return Connection(self.port)

    def memory(self) -> Memory:
        """From /proc."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        kilobytes = (int(status[name].split()[0]) for name in ("VmRSS", "RssAnon"))
        descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))
        resident, anonymous = (1024 * count for count in kilobytes)
        return Memory(resident, anonymous, descriptors, int(status["Threads"]))


@contextmanager
def serving(folder: Path) -> Iterator[Serving]:
    """`hashstream serve` on a folder of tables, on a free port of loopback, until the block ends."""
    command = [sys.executable, "-m", "hashstream", "serve", str(folder), "--port", "0"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, **ONE_THREAD}
        )
        try:
            port = _port(process)
            _wait(process, port)
            yield Serving(port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(STOPPING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()
            log.seek(0)
            if errors := [line for line in log.read().decode().splitlines() if " ERROR " in line]:
                raise RuntimeError(f"the service has logged {len(errors)} errors; the first: {errors[0]}")


def _port(process: subprocess.Popen[bytes]) -> int:
    """The port that a service says it listens on."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(rb"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError(f"the service ended with exit code {process.wait()} before it listened")


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    """Until all tables are open."""
    end = time.monotonic() + STARTING
    while time.monotonic() < end:
        try:
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            asked.request("GET", "/readyz")
            status = asked.getresponse().status
            asked.close()
            if status == 200:
                return
        except OSError:
            pass
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with exit code {process.returncode}")
        time.sleep(0.05)
    raise RuntimeError(f"the service was not ready within {STARTING:g} seconds")


def fill(folder: Path, n: int) -> Path:
    """A folder of one table with n items; the path of the table."""
    folder.mkdir()
    filled(folder / NAME, n, D, BITS, 1).close()
    return folder / NAME


def copied(table: Path, folder: Path) -> Path:
    """A copy of a table's folder, to write to."""
    folder.mkdir()
    return Path(shutil.copytree(table, folder / table.name))


def query(vector: Any) -> dict[str, Any]:
    """The body of a search for one vector."""
    return {"vectors": [vector], "k": K}
