"""Ray: connected to, or started on this machine."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hashstream._extras import require
from hashstream._files import lock, write_holder
from hashstream._machine import cores
from hashstream.scale.errors import ClusterError

__all__ = ["NAMESPACE", "check_reachable", "connect", "connected", "import_ray"]

log = logging.getLogger("hashstream.scale")

NAMESPACE = "hashstream"
CONNECT = 10.0  # seconds
PREFIX = "hs-ray-"  # of temporary folders; short, as the paths of sockets have a limit
OWNER = "owner"  # a file in such a folder
STORE_BYTES = 256 << 20  # of shared memory for arguments and results, where Ray is started here


def import_ray() -> Any:
    """Ray, without its habit of printing to the caller's terminal that a process has died; its log has that."""
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # lines that are not printed; read by the import
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return require("ray", "ray")


def check_reachable(address: str) -> None:
    """ConnectionError where nobody listens at HOST:PORT: Ray would try for many minutes. Other forms are for Ray."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in address or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()
    except OSError as error:
        raise _no_connection(address, f"nobody listens there ({error.strerror or error})") from error


def _no_connection(address: str, reason: object) -> ConnectionError:
    lines = str(reason).strip().splitlines() or [type(reason).__name__]
    return ConnectionError(
        f"no connection to a Ray at {address}: {lines[0]}. Is it running, and are RAY_AUTH_MODE and the token set "
        "here, too?"
    )


def connect(
    address: str | None = None, cpus: int | None = None, resources: Mapping[str, float] | None = None
) -> Any:
    """Connect this process to Ray until it ends, and return the module.

    address : of a running Ray, as `ray.init` takes it; None starts one on this machine with `cpus` workers (one per
        core by default) and with custom `resources`; it ends with this process.
    Where this process is connected already, that connection is used.
    """
    ray = import_ray()
    if _inherited:
        raise ClusterError(
            "this process was forked from one that is connected to Ray, and such a connection works in one process "
            'only: fork before Ray is used, or start processes afresh (multiprocessing\'s "spawn")'
        )
    if ray.is_initialized():
        return ray
    quiet = {"log_to_driver": False, "logging_level": "error", "namespace": NAMESPACE}
    if address is not None:
        check_reachable(address)
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError) as error:
            raise _no_connection(address, error) from error
        return ray
    log.info("starting Ray on this machine")
    remove_left_folders()
    folder = new_folder()
    atexit.register(_end, ray, folder, os.getpid())
    ray.init(
        address="local",  # a Ray that was killed leaves a file that would be looked for
        num_cpus=cpus or cores(),
        resources=None if resources is None else dict(resources),
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        _node_ip_address="127.0.0.1",
        _temp_dir=folder,
        **quiet,
    )
    return ray


@contextmanager
def connected(
    address: str | None = None, cpus: int | None = None, resources: Mapping[str, float] | None = None
) -> Iterator[Any]:
    """Connect as `connect` does for the block only, unless this process is connected already."""
    before = import_ray().is_initialized()
    ray = connect(address, cpus, resources)
    try:
        yield ray
    finally:
        if not before:
            ray.shutdown()


def _end(ray: Any, folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def new_folder() -> str:
    """A temporary folder for Ray, with a file that this process keeps locked as long as it lives."""
    folder = tempfile.mkdtemp(prefix=PREFIX)
    with suppress(OSError):  # without it, the folder stays where this process is killed
        part = os.path.join(folder, f"{OWNER}.part")
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        lock(handle)
        write_holder(handle)
        os.rename(part, os.path.join(folder, OWNER))  # locked before anybody knows it
    return folder


def remove_left_folders() -> None:
    """Remove such folders of this user whose process was killed. Where none is known to have it, a folder stays."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            handle = os.open(path / OWNER, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                mine = not path.is_symlink() and path.stat().st_uid == os.fstat(handle).st_uid == _user()
                if mine:
                    lock(handle)  # OSError while the process lives
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


_inherited = False  # whether this process was forked from one that was connected


def _after_fork() -> None:
    global _inherited
    ray = sys.modules.get("ray")
    _inherited = _inherited or (ray is not None and ray.is_initialized())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
