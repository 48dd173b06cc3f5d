"""`cluster.json`: the settings of a cluster, which are fixed when it is created."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as dataclass_fields
from datetime import datetime
from pathlib import Path
from typing import Any

from hashstream.hashers.validation import check_count
from hashstream.scale.errors import ClusterError
from hashstream.scale.models import write_durably
from hashstream.scale.partition import RULE
from hashstream.table.state.column_base import shown
from hashstream.table.state.columns import field_kinds

__all__ = ["SETTINGS", "Config", "check_seconds"]

FORMAT = 2
"""Format 1 had neither `snapshot` nor `source`. It was never released, and is refused."""
FILE = "cluster.json"
MOST_SHARDS = 10_000
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
SETTINGS = {"policy": ("lazy", "never"), "durability": ("full", "fast"), "index": ("auto", "scan")}


def check_seconds(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError(f"{name} must be a number of seconds, not {value!r}")


@dataclass(frozen=True)
class Config:
    """Settings of a cluster.

    id : drawn when it is created; detached actors are named by it. shards : how many. rule : of the partition.
    fields : those that were declared at first. nodes : custom resources of Ray, one per machine with a disk of its own.
    publish_every : as for `Cluster.open`. settings : of the tables of all shards.
    created : whether all folders are there, so that a missing one is a loss. snapshot : of a snapshot, a name of its
    own. source : the same of the snapshot that a cluster was restored from.
    """

    id: str
    shards: int
    fields: dict[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    publish_every: int = 100
    settings: dict[str, Any] = field(default_factory=dict)
    rule: str = RULE
    created: bool = False
    snapshot: str = ""
    source: str = ""
    format: int = FORMAT

    def __post_init__(self) -> None:
        for name in ("id", "snapshot", "source"):
            value = getattr(self, name)
            known = isinstance(value, str) and (ID.fullmatch(value) or (name != "id" and not value))
            if not known:
                raise ValueError(f"{name} must be up to 64 letters, digits, - and _, not {shown(value)}")
        check_count("shards", self.shards, 1, MOST_SHARDS)
        check_count("publish_every", self.publish_every, 1)
        if not isinstance(self.nodes, tuple) or not all(isinstance(one, str) and one for one in self.nodes):
            raise ValueError(f"nodes must be a list of custom resources of Ray, not {shown(self.nodes)}")
        field_kinds(self.fields)
        if not isinstance(self.settings, dict):
            raise ValueError(f"settings must be names with values, not {shown(self.settings)}")
        for name, value in self.settings.items():
            if value not in SETTINGS.get(name, ()):
                can = (
                    f"one of {', '.join(SETTINGS[name])}" if name in SETTINGS else "left out: it is not known"
                )
                raise ValueError(f"the setting {name} must be {can}, not {shown(value)}")
        if not isinstance(self.created, bool):
            raise ValueError(f"created must be true or false, not {shown(self.created)}")

    @staticmethod
    def written(folder: Path) -> datetime:
        """When it was written, in local time."""
        return datetime.fromtimestamp((folder / FILE).stat().st_mtime)

    @staticmethod
    def exists(folder: Path) -> bool:
        return (folder / FILE).is_file()

    @staticmethod
    def is_part(path: Path) -> bool:
        """Whether a file is left of a process that was killed while it wrote settings."""
        return path.name.startswith(f"{FILE}.") and path.suffix == ".part"

    @classmethod
    def read(cls, folder: Path) -> Config:
        """The settings of an existing cluster; ClusterError where the file is not one of this version."""
        path = folder / FILE
        try:
            stored = json.loads(path.read_bytes())
            if not isinstance(stored, dict):
                raise ValueError(f"it must be an object of JSON, not {shown(stored)}")
            if stored.get("format") != FORMAT or stored.get("rule") != RULE:
                raise ClusterError(
                    f"{path} has format {shown(stored.get('format'))} and rule {shown(stored.get('rule'))}; this "
                    f"version of hashstream reads {FORMAT} and {RULE!r}"
                )
            names = {one.name for one in dataclass_fields(cls)}
            for name in names ^ stored.keys():
                raise ValueError(f"{name!r} is {'missing' if name in names else 'not known here'}")
            nodes = stored["nodes"]
            return cls(**{**stored, "nodes": tuple(nodes) if isinstance(nodes, list) else nodes})
        except (ValueError, TypeError, RecursionError) as error:
            raise ClusterError(
                f"{path} does not describe a cluster: {error}. Bring it back as it was, or from a snapshot"
            ) from error

    def write(self, folder: Path) -> None:
        write_durably(folder / FILE, json.dumps(asdict(self), indent=1).encode())

    def node_of(self, shard: int) -> str | None:
        """The custom resource that a shard demands."""
        return self.nodes[shard % len(self.nodes)] if self.nodes else None

    def complete(self) -> Config:
        return replace(self, created=True)
