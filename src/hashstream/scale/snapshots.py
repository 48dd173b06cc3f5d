"""Copies of a cluster, and shards that are restored from them."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hashstream.hashers.validation import check_count
from hashstream.scale.config import Config
from hashstream.scale.database import FEED_LOG
from hashstream.scale.errors import ClusterError
from hashstream.scale.holding import is_held
from hashstream.scale.members import Members
from hashstream.scale.shard import shard_folder
from hashstream.table import HashTable

__all__ = [
    "Steps", "counter", "restore_cluster", "restore_shard", "snapshot_time", "was_restored", "write_snapshot",
]  # fmt: skip

UNFINISHED = "unfinished"
"""A file in the folder of a snapshot that is being written."""

NAMES = (UNFINISHED, FEED_LOG, "shards", "learner", "models", "current", "cluster.json")
"""Of a snapshot that is not complete: a folder with anything else in it is never removed."""

Steps = Callable[[int, int], None]
"""Called with what is done, and the total."""


def counter(total: int, progress: Steps | None) -> Callable[[], None]:
    """A function that tells how often it was called, out of `total`."""
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return tell


def write_snapshot(members: Members, config: Config, target: Path, tell: Callable[[], None]) -> None:
    """Write a copy to a new folder; its `cluster.json` last, so that what was interrupted is no snapshot.

    The feed log comes first: whatever it notes as fed, the shards have. The learner comes after the shards: their
    functions are never newer than its own. It writes the feed log again, with all numbers that were given out
    meanwhile. A snapshot that was interrupted is begun from the start, since the copies of its shards are older than
    the feed log; one that a kill has left without its last step stays as it is. tell : called after each shard, and
    after the learner.
    """
    mark = target / UNFINISHED
    if mark.is_file() and snapshot_time(target, config) is not None:
        return
    if mark.is_file() and not Config.exists(target) and all(map(_is_ours, target.iterdir())):
        for path in target.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != mark:  # which stays, since this may be interrupted, too
                path.unlink()
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ClusterError(f"{target} exists already: a snapshot needs a new folder")
    target.mkdir(parents=True, exist_ok=True)
    mark.touch()
    members.learn("copy_feed_log", str(target))
    members.write_and_tell("snapshot", str(target), tell=tell)
    members.learn("snapshot", str(target), long=True)
    tell()
    replace(config, snapshot=_drawn(), source="").write(target)
    mark.unlink()


def snapshot_time(folder: Path, config: Config) -> datetime | None:
    """When the complete snapshot of a cluster that a folder holds was written; None where it holds none. A mark that a
    kill has left after all was written is then removed."""
    if not Config.exists(folder):
        return None
    found = Config.read(folder)
    tables = [folder / "learner", *(shard_folder(folder, number) for number in range(found.shards))]
    if not found.snapshot or found.id != config.id or not all(map(HashTable.exists, tables)):
        return None
    (folder / UNFINISHED).unlink(missing_ok=True)
    return Config.written(folder)


def was_restored(snapshot: Path, folder: Path) -> bool:
    """Whether a folder holds a cluster that was restored from a snapshot, whatever it has stored since."""
    if not Config.exists(snapshot) or not Config.exists(folder):
        return False
    name = Config.read(snapshot).snapshot
    return name != "" and Config.read(folder).source == name


def _drawn() -> str:
    return uuid.uuid4().hex[:12]


def _is_ours(path: Path) -> bool:
    whole = path.name in NAMES
    return whole or (path.suffix == ".part" and any(path.name.startswith(f"{name}.") for name in NAMES))


def restore_cluster(snapshot: Path, target: Path, progress: Steps | None = None) -> None:
    """Copy a snapshot to a new folder. It gets an id of its own, so that both can run on one Ray."""
    config = _snapshot(snapshot)
    if any(map(is_held, (snapshot, snapshot / "learner", *(snapshot / "shards").glob("*")))):
        raise ClusterError(
            f"{snapshot} is in use, and cannot be copied as it is: stop the cluster, or take a snapshot of it"
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ClusterError(f"{target} exists already: a restored cluster needs a new folder")
    for folder in target.parents:
        if Config.exists(folder):
            raise ClusterError(
                f"{target} is inside {folder}, which is a cluster or a snapshot: choose another folder. One lost shard "
                "of a cluster is restored by Cluster.restore_shard, or `hashstream cluster restore --shard`"
            )
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f"{target.name}.", suffix=".part", dir=target.parent) as room:
        part = Path(room) / "cluster"
        _copy_and_tell(snapshot, part, progress or (lambda done, total: None))
        replace(config, id=_drawn(), snapshot="", source=config.snapshot).write(part)
        if target.exists():
            target.rmdir()
        part.rename(target)


def _copy_and_tell(source: Path, target: Path, progress: Steps) -> None:
    """Copy a folder, but not the mark that it is unfinished: it is complete. progress : called with the bytes that are
    copied, and all."""
    total = sum(file.stat().st_size for file in source.rglob("*") if file.is_file())
    done = 0

    def copy(file: str, to: str) -> None:
        nonlocal done
        shutil.copy2(file, to)
        done += Path(file).stat().st_size
        progress(done, total)

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [UNFINISHED] if Path(folder) == source and UNFINISHED in names else []

    shutil.copytree(source, target, copy_function=copy, ignore=left_out)


def restore_shard(members: Members, config: Config, path: Path, shard: int, snapshot: Path) -> int:
    """Copy the folder of a shard, and note the parts that the snapshot does not have as not fed; returns how many."""
    check_count("shard", shard, 0, config.shards - 1)
    found = _snapshot(snapshot)
    if found.shards != config.shards or found.id != config.id:
        raise ClusterError(f"{snapshot} is not a snapshot of this cluster")
    if not members.read_each("may_be_restored", {shard: (str(snapshot),)})[0]:
        raise ClusterError(
            f"shard {shard} is there: only one whose folder is lost can be restored. If {shard_folder(path, shard)} is "
            "damaged, move it away"
        )
    forgotten: int = members.learn(
        "forget", str(snapshot)
    )  # first: interrupted, a part is fed once too often
    members.write_each("restore", {shard: (str(snapshot),)})
    members.push(members.learn("published"), again=True)
    return forgotten


def _snapshot(folder: Path) -> Config:
    if not Config.exists(folder):
        raise ClusterError(f"{folder} is not a snapshot of a cluster, or not a complete one")
    return Config.read(folder)
