"""Ray is imported when a cluster is opened, and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hashstream.scale

PROGRAM = """
import sys
import hashstream.scale
import hashstream.scale.shard, hashstream.scale.learner
assert "hashstream.scale.cluster" not in sys.modules
from hashstream.scale import Cluster, ShardLost
assert not Cluster.exists(".")
assert "ray" not in sys.modules and "pymilvus" not in sys.modules
sys.modules["ray"] = None
try:
    hashstream.scale.engine.RayEngine()
except ImportError as error:
    print(error)
"""


def test_ray_is_imported_late() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert "ray" in said.stdout


def test_names_are_found() -> None:
    for name in hashstream.scale.__all__:
        assert getattr(hashstream.scale, name).__name__ == name
        assert name in dir(hashstream.scale)
    with pytest.raises(AttributeError, match="nothing"):
        _ = hashstream.scale.nothing
