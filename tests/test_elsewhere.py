"""Codes in PostgreSQL, as docs/elsewhere.md says: a server of the tests' own, where PostgreSQL is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hashstream import hamming

PAGE = Path(__file__).parents[1] / "docs" / "elsewhere.md"
INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []


def binaries() -> Path:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    if not INSTALLED:
        pytest.skip("PostgreSQL is not installed")
    return INSTALLED[-1]


@pytest.fixture(scope="module")
def psql() -> Iterator[Any]:
    """A function that gives SQL to a server, and returns the lines of its answer."""
    bin_ = binaries()
    user: dict[str, Any] = {}
    if os.getuid() == 0:  # the server refuses to run as root
        pwd = pytest.importorskip("pwd")
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path has a limit
    folder.chmod(0o777)

    def run(*command: object, **more: Any) -> str:
        shown = [str(part) for part in command]
        return subprocess.run(
            shown, check=True, capture_output=True, text=True, cwd=folder, **user, **more
        ).stdout

    data = folder / "data"
    run(bin_ / "initdb", "-D", data, "-A", "trust", "-U", "tests", "--no-sync")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    run(bin_ / "pg_ctl", "-D", data, "-o", options, "-l", folder / "log", "-w", "start")
    try:
        client = (bin_ / "psql", "-h", folder, "-U", "tests", "-d", "postgres", "-qAt", "-F", " ")
        yield lambda sql: run(*client, "-v", "ON_ERROR_STOP=1", "-f", "-", input=sql).splitlines()
    finally:
        run(bin_ / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def as_bits(code: np.ndarray) -> str:
    return "".join(map(str, np.unpackbits(code)))


def test_postgresql_finds_what_hamming_finds(psql: Any) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (500, 8), np.uint8)
    codes[100:200] = codes[:100]  # ties
    create, select = PAGE.read_text().split("```sql\n")[1].split("```")[0].strip().split("\n")
    items = ", ".join(f"({id_}, 1, B'{as_bits(code)}')" for id_, code in enumerate(codes))
    old = f"(1000, 0, B'{as_bits(codes[0])}')"  # of another version
    psql(f"{create}\nINSERT INTO items VALUES {items}, {old};")
    for query in codes[:5]:
        asked = select.replace(":query", f"B'{as_bits(query)}'").replace(":version", "1")
        found = np.array([line.split() for line in psql(asked)], int)
        wanted = hamming.topk(query[None], codes, 5)
        np.testing.assert_array_equal(found[:, 0], wanted.indices[0])
        np.testing.assert_array_equal(found[:, 1], wanted.distances[0])
