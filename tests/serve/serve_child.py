"""`hashstream serve` as a child process that is killed and started again, on one folder and one port."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from hashstream.table.storage.folder import failpoints

STARTING = 120.0  # seconds until a service has to be ready, on a machine that is busy
STOPPING = 60.0
PORTS = (20_000, 30_000)  # below those that systems give to outgoing connections


class Dead(Exception):
    """The service has ended, by a signal or by itself."""


def free_port(rng: random.Random) -> int:
    """A port of loopback that nobody listens on."""
    for _ in range(100):
        port = rng.randrange(*PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port was found")


class Service:
    """The lives of one service. log : what all of them have written to stderr."""

    def __init__(self, folder: Path, base: Path, rng: random.Random) -> None:
        self.folder, self.port = folder, free_port(rng)
        self.log = base / "service.log"
        self._temporary = base / "tmp"
        self._temporary.mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, failpoint: str = "") -> None:
        """Begin a life. failpoint : where it kills itself, as `HASHSTREAM_FAILPOINT` has it."""
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "TMPDIR": str(self._temporary),
            failpoints.VARIABLE: failpoint,
        }
        command = [sys.executable, "-m", "hashstream", "serve", str(self.folder), "--port", str(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def wait_until_ready(self) -> None:
        """`Dead` where it ends before."""
        end = time.monotonic() + STARTING
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Dead
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                try:
                    connection.request("GET", "/readyz")
                    if connection.getresponse().status == 200:
                        return
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.02)
        raise AssertionError(f"the service was not ready within {STARTING:g} seconds")

    def wait_until_dead(self, seconds: float) -> bool:
        """Whether it has ended within some seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it as `kill -9` does, unless it has ended already."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def was_killed(self) -> bool:
        """Whether it was ended by SIGKILL, its own or another's."""
        return self.process.returncode == -signal.SIGKILL

    def stop(self) -> bool:
        """Ask it to stop, as systemd does; whether it did, with exit code 0 or by the same signal at the end."""
        self.process.terminate()
        return self.process.wait(STOPPING) in (0, -signal.SIGTERM)

    def errors(self) -> list[str]:
        """Lines that it has logged as errors."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line for line in lines if " ERROR " in line or line.startswith("Traceback")]
