"""The Parquet export of a whole cluster: each shard writes its own parts, and one manifest names them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hashstream.scale.config import Config
from hashstream.scale.errors import ClusterError
from hashstream.scale.members import Members
from hashstream.scale.shard_export import prefix_of
from hashstream.table.export.manifest import MANIFEST, Manifest, join_manifests, read_manifest

__all__ = ["export_cluster"]


def export_cluster(
    members: Members,
    config: Config,
    target: Path,
    *,
    features: bool,
    part_rows: int | None,
    tell: Callable[[], None],
) -> Manifest:
    """Have all shards export to one folder, and join their manifests. tell : called after each shard."""
    prefixes = tuple(map(prefix_of, range(config.shards)))
    if target.exists():
        if not target.is_dir():
            raise ClusterError(f"{target} is a file: export to a new folder")
        for path in target.iterdir():  # a reader that takes all Parquet files must not find others
            if not path.name.startswith((*prefixes, MANIFEST)):
                raise ClusterError(f"{target} has other files, such as {path.name}: export to a new folder")
    target.mkdir(parents=True, exist_ok=True)
    members.write_and_tell("export", str(target), features, part_rows, tell=tell)
    if (target / MANIFEST).exists():  # of the same commits, or a shard would have refused
        return read_manifest(target)
    missing = [prefix for prefix in prefixes if not (target / f"{prefix}{MANIFEST}").exists()]
    if missing:
        raise ClusterError(
            f"{target} is not a folder that all machines see: it lacks the parts of {len(missing)} shards, which they "
            "wrote on their own machines"
        )
    return join_manifests(target, [f"{prefix}{MANIFEST}" for prefix in prefixes])
