"""A Milvus server of a test's own: with its own data folder and free ports, ended by its process id.

`conftest.py` imports the fixture `milvus_uri` from here. `HASHSTREAM_MILVUS_URI` names a server that is used instead.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "HASHSTREAM_MILVUS_URI"
PORTS = ("etcd", "root_coord", "proxy", "proxy_internal", "query_coord", "query_node", "index_coord", "index_node",
         "data_coord", "data_node")  # fmt: skip
ETCD = """data-dir: {folder}/etcd
listen-client-urls: http://127.0.0.1:{client}
advertise-client-urls: http://127.0.0.1:{client}
listen-peer-urls: http://127.0.0.1:{peer}
initial-advertise-peer-urls: http://127.0.0.1:{peer}
initial-cluster: default=http://127.0.0.1:{peer}
log-outputs: [{folder}/etcd.log]
"""


def free_ports(n: int) -> list[int]:
    taken = [socket.socket() for _ in range(n)]
    try:
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]
    finally:
        for one in taken:
            one.close()


@contextmanager
def started(folder: Path) -> Iterator[str]:
    """A server with its data in a folder; its address."""
    from milvus import MilvusServer, MilvusServerConfig, __version__

    peer, metrics, *ports = free_ports(2 + len(PORTS))
    config = MilvusServerConfig(
        data_dir=str(folder), **{f"{name}_port": port for name, port in zip(PORTS, ports, strict=True)}
    )
    (folder / "etcd.yaml").write_text(ETCD.format(folder=folder, client=ports[0], peer=peer))
    # The embedded etcd takes its ports from a file of its own, or else always the same ones.
    embedded = f"etcd:\n  config:\n    path: {folder / 'etcd.yaml'}\n"
    config.template_text = config.template_text.replace("\netcd:\n", f"\n{embedded}", 1)
    for part in ("proxy", "rootCoord", "queryCoord", "queryNode", "indexNode", "dataCoord", "dataNode"):
        config.set(f"{part}.ip", "127.0.0.1")
    server = MilvusServer(config)
    server.webservice_port = metrics
    programs = Path(tempfile.gettempdir(), f"hashstream-milvus-{__version__}-{os.getuid()}")
    programs.mkdir(exist_ok=True)
    (folder / "bin").symlink_to(programs)
    try:
        with (programs / "lock").open("w") as lock:  # the programs are unpacked by one process at a time
            fcntl.flock(lock, fcntl.LOCK_EX)
            server.start()
        yield f"http://127.0.0.1:{server.listen_port}"
    finally:
        if server.server_proc is not None:
            server.server_proc.kill()
            server.server_proc.wait()
        server.stop()


@pytest.fixture(scope="session")
def milvus_uri(tmp_path_factory: Any) -> Iterator[str]:
    pymilvus = pytest.importorskip(
        "pymilvus", reason="pymilvus is not installed: pip install 'hashstream[milvus]'"
    )
    if given := os.environ.get(VARIABLE):
        try:
            pymilvus.MilvusClient(given, timeout=5).close()
        except pymilvus.MilvusException as error:
            pytest.skip(f"{VARIABLE}={given} cannot be reached: {error}")
        yield given
        return
    pytest.importorskip("milvus", reason=f"no Milvus server: pip install milvus==2.3.5, or set {VARIABLE}")
    with (
        tempfile.TemporaryDirectory(prefix="hs-milvus-", ignore_cleanup_errors=True) as folder,
        started(Path(folder)) as uri,
    ):
        yield uri
