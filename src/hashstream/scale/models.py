"""Published models: immutable files named by version and digest, and the name of the one that holds now. Older ones are
removed: shards load the current one only, and a snapshot has its own."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from hashstream._files import atomic_path
from hashstream.hashers import OnlineHasher
from hashstream.hashers.serialization import encoder_digest, to_bytes
from hashstream.scale.errors import ClusterError

__all__ = ["Models", "Publication", "write_durably"]


class Publication(NamedTuple):
    """A model that all shards shall have.

    name : of its file. compare : what `compare="auto"` means with it, "like" or "current".
    """

    version: int
    name: str
    compare: str


class Models:
    """The files `models/*.safetensors` and `current` of a cluster's folder."""

    def __init__(self, folder: Path) -> None:
        self._models, self._current = folder / "models", folder / "current"

    def publish(self, hasher: OnlineHasher, compare: str) -> Publication:
        """Write a model's file unless it is there, name it in `current`, then remove all others."""
        encoder = hasher.encoder()
        name = f"v{encoder.version:012d}-{encoder_digest(encoder)}.safetensors"
        self._models.mkdir(exist_ok=True)
        path = self._models / name
        if not path.exists():
            write_durably(path, to_bytes(hasher))
        publication = Publication(encoder.version, name, compare)
        write_durably(self._current, json.dumps(publication._asdict()).encode())
        for old in self._models.glob("v*.safetensors*"):  # and what killed processes have left of some
            if old.name != name:
                with suppress(OSError):  # the next publication tries again
                    old.unlink()
        return publication

    def current(self) -> Publication | None:
        """The model that was published last; None before the first, and where the folder cannot be seen from here."""
        try:
            found = json.loads(self._current.read_bytes())
            publication = Publication(int(found["version"]), str(found["name"]), str(found["compare"]))
            if Path(publication.name).name != publication.name:
                raise ValueError(f"{publication.name!r} is not the name of a model")
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise ClusterError(f"{self._current} is damaged: restore it from a snapshot ({error})") from error
        return publication

    def newest(self, publication: Publication) -> tuple[Publication, bytes]:
        """A model as `to_bytes` writes it; where it was replaced, and so removed, the one that holds now."""
        while True:
            try:
                return publication, self._read(publication)
            except ClusterError:
                current = self.current()
                if current is None or current == publication:
                    raise
                publication = current

    def _read(self, publication: Publication) -> bytes:
        path = self._models / publication.name
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise ClusterError(f"{path} is missing: bring it back, or copy it from a snapshot") from error


def write_durably(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; it survives a power loss when this returns."""
    with atomic_path(path) as part, part.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle: Any = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
