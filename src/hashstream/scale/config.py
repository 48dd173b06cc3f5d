"""`cluster.json`: the settings of a cluster, which are fixed when it is created."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hashstream.hashers.validation import check_count
from hashstream.scale.errors import ClusterError
from hashstream.scale.models import write_durably
from hashstream.scale.partition import RULE

__all__ = ["Config", "check_seconds"]

FORMAT = 1
FILE = "cluster.json"
MOST_SHARDS = 10_000


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
    created : whether all folders are there, so that a missing one is a loss.
    """

    id: str
    shards: int
    fields: dict[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    publish_every: int = 100
    settings: dict[str, Any] = field(default_factory=dict)
    rule: str = RULE
    created: bool = False
    format: int = FORMAT

    def __post_init__(self) -> None:
        check_count("shards", self.shards, 1, MOST_SHARDS)
        check_count("publish_every", self.publish_every, 1)
        if not all(isinstance(node, str) and node for node in self.nodes):
            raise ValueError(f"nodes must be names of custom resources of Ray, not {list(self.nodes)}")

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
            if stored.get("format") != FORMAT or stored.get("rule") != RULE:
                raise ClusterError(
                    f"{path} has format {stored.get('format')!r} and rule {stored.get('rule')!r}; this version of "
                    f"hashstream reads {FORMAT} and {RULE!r}"
                )
            return cls(**{**stored, "nodes": tuple(stored["nodes"])})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ClusterError(f"{path} does not describe a cluster: {error}") from error

    def write(self, folder: Path) -> None:
        write_durably(folder / FILE, json.dumps(asdict(self), indent=1).encode())

    def node_of(self, shard: int) -> str | None:
        """The custom resource that a shard demands."""
        return self.nodes[shard % len(self.nodes)] if self.nodes else None

    def complete(self) -> Config:
        return replace(self, created=True)
