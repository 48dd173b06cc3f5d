"""From the arguments of `Cluster.open` to the settings and folders of a cluster."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hashstream.hashers import OnlineHasher
from hashstream.hashers.serialization import from_bytes, to_bytes
from hashstream.hashers.validation import check_count
from hashstream.scale.config import SETTINGS, Config
from hashstream.scale.engine import Engine, RayEngine
from hashstream.scale.errors import ClusterError
from hashstream.scale.holding import hold
from hashstream.scale.members import Members
from hashstream.table import HashTable
from hashstream.table.created import check_same_hasher
from hashstream.table.state.columns import field_kinds

__all__ = ["config_of", "create", "start"]


def config_of(
    folder: Path,
    hasher: OnlineHasher | None,
    *,
    shards: int | None,
    fields: Mapping[str, Any] | None,
    nodes: Sequence[str] | None,
    publish_every: int | None,
    policy: str | None,
    durability: str | None,
    index: str | None,
) -> Config:
    """The settings of a cluster; where there is none, they are written. ClusterError where others are stored."""
    if isinstance(nodes, str):
        raise ValueError(f"nodes must be a list of names, not {nodes!r}")
    chosen: dict[str, Any] = {"policy": policy, "durability": durability, "index": index}
    for name, value in chosen.items():
        if value is not None and value not in SETTINGS[name]:
            first, second = SETTINGS[name]
            raise ValueError(f'{name} must be "{first}" or "{second}", not {value!r}')
    if Config.exists(folder):
        config = Config.read(folder)
        given = {
            "shards": shards,
            "publish_every": publish_every,
            "nodes": None if nodes is None else tuple(nodes),
            **chosen,
        }
        stored = {"durability": "full", "index": "auto", **asdict(config), **config.settings}
        for name, value in given.items():
            if value is not None and value != stored[name]:
                raise ClusterError(
                    f"{folder} was created with {name} {stored[name]}, which cannot be changed to {value}"
                )
        return config
    if HashTable.exists(folder):
        raise ClusterError(f"{folder} is a table, not a cluster: open it with HashTable.open")
    if hasher is None:
        raise ClusterError(f"{folder} is not a cluster yet; a new one needs a hasher=")
    if not isinstance(hasher, OnlineHasher):
        raise TypeError(f"hasher must be an OnlineHasher such as FCOH(n_bits=64), not {hasher!r}")
    hasher.check_parameters()
    if folder.exists() and (not folder.is_dir() or not all(map(Config.is_part, folder.iterdir()))):
        raise ClusterError(f"{folder} holds something else: a new cluster needs a new folder")
    settings = {"policy": "lazy"} | {name: value for name, value in chosen.items() if value is not None}
    config = Config(
        id=uuid.uuid4().hex[:12],
        shards=2 if shards is None else check_count("shards", shards, 1),
        fields=field_kinds(fields or {}),
        nodes=tuple(nodes or ()),
        publish_every=100 if publish_every is None else check_count("publish_every", publish_every, 1),
        settings=settings,
    )
    folder.mkdir(parents=True, exist_ok=True)
    config.write(folder)
    return config


def start(
    folder: Path,
    config: Config,
    address: str | None,
    engine: Engine | None,
    *,
    timeout: float,
    write_timeout: float,
) -> Members:
    """Start the actors of a cluster, or find them; TableLocked where another program has it for itself."""
    held = hold(folder, shared=address is not None)
    try:
        return Members(
            RayEngine(address) if engine is None else engine,
            folder,
            config,
            detached=address is not None,
            timeout=timeout,
            write_timeout=write_timeout,
            held=held,
        )
    except BaseException:
        if held is not None:
            held.release()
        raise


def create(folder: Path, config: Config, hasher: OnlineHasher | None, members: Members) -> Config:
    """Create the tables of a cluster, or those that an interrupted call has not created.

    TableError where it was created with another hasher. The learner comes first: the others get the same as it has.
    """
    if config.created:
        if hasher is not None:
            created, current = members.learn("parameters")
            check_same_hasher(folder, hasher, from_bytes(current, "the learner's hasher"), created)
        return config
    if hasher is None:
        raise ClusterError(f"{folder} was not created completely: open it once more with hasher=")
    raw = to_bytes(hasher)
    shared = members.engine.share(raw, len(raw))
    members.learn("create", shared, config.settings)
    members.write("create", shared, config.fields, config.settings)
    config = config.complete()
    config.write(folder)
    return config
