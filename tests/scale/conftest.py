"""Ray on this machine, on loopback with two workers, once for all tests of a process; ended by its own shutdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.scale.milvus_server import milvus_uri  # noqa: F401 (a fixture: one server for all tests of a process)

from hashstream.scale.connection import connected
from hashstream.scale.engine import RayEngine


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """The module, connected."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'hashstream[ray]'")
    with connected(cpus=2, resources={"disk a": 1, "disk b": 1}) as module:
        yield module


@pytest.fixture(scope="session")
def engine(ray: Any) -> RayEngine:
    return RayEngine()
