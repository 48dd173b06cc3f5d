"""SCALE OUT: tables on several machines, on engines that exist.

`Cluster` has the methods of `HashTable` and keeps the items in shards on Ray. Nothing here is imported before it is
used: neither Ray nor any other engine is needed to import this package.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["Cluster", "ClusterError", "ClusterStats", "Fed", "ShardLost"]

PLACES = {
    "Cluster": "cluster",
    "ClusterError": "errors",
    "ClusterStats": "merging",
    "Fed": "feeding",
    "ShardLost": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
