"""Collections of codes in Milvus: one for each version of the hash functions, and the functions that they need.

The name of a collection has the version of its codes, and its description the digest of the functions that encoded
them. Codes of two versions have equal length, so Milvus itself could not tell them apart.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hashstream._extras import require
from hashstream.hashers import FormatError, OnlineHasher
from hashstream.hashers.serialization import encoder_digest, from_bytes, save

__all__ = ["Collection", "Functions", "MilvusError", "ModelsLike", "Server"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
FORMAT = 1  # of the description

ModelsLike = str | os.PathLike[str] | OnlineHasher | Sequence[OnlineHasher]


class MilvusError(RuntimeError):
    """Milvus cannot be reached, refuses a request, or does not hold what it should."""


class Collection(NamedTuple):
    """A collection of this project. encoder : digest of the functions that its codes are of."""

    name: str
    version: int
    encoder: str
    n_bits: int


class Server:
    """A connection to Milvus, as this project uses it. name : the alias under which a table's codes are found."""

    def __init__(self, uri: str, name: str, *, token: str = "", timeout: float = 60.0) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name) or "__v" in name:
            raise ValueError(
                f"name must be letters, digits and underscores, without '__v', as Milvus takes them, not {name!r}"
            )
        self.uri, self.name = uri, name
        self.pymilvus = require("pymilvus", "milvus")
        with self.asking():
            self.client: Any = self.pymilvus.MilvusClient(uri=uri, token=token, timeout=timeout)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """A MilvusError in the place of errors of the client."""
        try:
            yield
        except self.pymilvus.MilvusException as error:
            why = str(getattr(error, "message", "") or error)
            lost = "connect" in why.lower()
            hint = (
                f"{self.uri} does not answer; is Milvus running there?" if lost else f"Milvus at {self.uri}:"
            )
            raise MilvusError(f"{hint} {why}") from error

    def collection_name(self, version: int) -> str:
        return f"{self.name}__v{version:012d}"

    def find(self, name: str) -> Collection | None:
        """The collection of a name or alias; None where there is none. MilvusError where it is not of this project."""
        with self.asking():
            if not self.client.has_collection(name):
                return None
            try:
                found = self.client.describe_collection(name)
            except self.pymilvus.MilvusException:
                if self.client.has_collection(name):
                    raise
                return None  # it was dropped meanwhile
        try:
            told = json.loads(found["description"])
            one = Collection(found["collection_name"], told["version"], told["encoder"], told["n_bits"])
            if told["hashstream"] != FORMAT or self.collection_name(one.version) != one.name:
                raise ValueError
        except (ValueError, TypeError, KeyError):
            raise MilvusError(
                f"{name} at {self.uri} is another collection than this project makes: choose another name"
            ) from None
        return one

    def current(self) -> Collection | None:
        """The collection that the alias leads to."""
        return self.find(self.name)

    def collections(self) -> list[Collection]:
        """All versions that there are, the oldest first."""
        with self.asking():
            names = [name for name in self.client.list_collections() if name.startswith(f"{self.name}__v")]
        return sorted(
            (one for name in names if (one := self.find(name)) is not None), key=lambda one: one.version
        )

    def create(self, version: int, encoder: str, n_bits: int, ids: str) -> Collection:
        """The collection of a version, ready for use; it is created unless it is there. ids : "int" or "str".

        MilvusError where it has codes of other functions.
        """
        wanted = Collection(self.collection_name(version), version, encoder, n_bits)
        found = self.find(wanted.name)
        if found is not None and found != wanted:
            raise MilvusError(
                f"{wanted.name} has codes of other functions (digest {found.encoder}, not {encoder}): drop it, or "
                "choose another name"
            )
        client, kind = self.client, self.pymilvus.DataType
        with self.asking():
            if found is None:
                told = {"hashstream": FORMAT, "version": version, "encoder": encoder, "n_bits": n_bits}
                schema = client.create_schema(
                    auto_id=False, enable_dynamic_field=False, description=json.dumps(told)
                )
                if ids == "str":
                    schema.add_field("id", kind.VARCHAR, is_primary=True, max_length=65_535)
                else:
                    schema.add_field("id", kind.INT64, is_primary=True)
                schema.add_field("code", kind.BINARY_VECTOR, dim=8 * -(-n_bits // 8))
                client.create_collection(wanted.name, schema=schema, consistency_level="Bounded")
            if not client.list_indexes(wanted.name):
                index = client.prepare_index_params()
                index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
                client.create_index(wanted.name, index)
            client.load_collection(wanted.name)
        return wanted

    def close(self) -> None:
        self.client.close()


class Functions:
    """Hash functions by version and digest: of hashers that are given, or in the files of a folder."""

    def __init__(self, models: ModelsLike) -> None:
        self._folder: Path | None = None
        self._known: dict[str, OnlineHasher] = {}
        if isinstance(models, (str, os.PathLike)):
            self._folder = Path(models)
            return
        for hasher in [models] if isinstance(models, OnlineHasher) else models:
            self._known[encoder_digest(hasher.encoder())] = hasher

    def of(self, collection: Collection) -> OnlineHasher:
        """The hasher whose functions have encoded a collection; MilvusError where it is not here."""
        found = self._known.get(collection.encoder)
        if found is None:
            found = self._known[collection.encoder] = self._read(collection)
        return found

    def _read(self, collection: Collection) -> OnlineHasher:
        version, digest = collection.version, collection.encoder
        paths = (
            [] if self._folder is None else sorted(self._folder.glob(f"*model-v{version:012d}*.safetensors"))
        )
        for path in paths:
            try:
                hasher = from_bytes(path.read_bytes(), path)
                if hasattr(hasher, "n_seen_") and encoder_digest(hasher.encoder()) == digest:
                    return hasher
            except FormatError as error:
                raise MilvusError(str(error)) from error
        where = f"in {self._folder}" if self._folder is not None else "among the given hashers"
        raise MilvusError(
            f"the hash functions of {collection.name} (version {version}, digest {digest}) are not {where}: copy their "
            "file there, or give them"
        )

    def save(self, hasher: OnlineHasher) -> None:
        """Make the functions of a hasher known, and save them in the folder if there is one."""
        encoder = hasher.encoder()
        digest = encoder_digest(encoder)
        self._known[digest] = hasher
        if self._folder is not None:
            path = self._folder / f"model-v{encoder.version:012d}-{digest}.safetensors"
            if not path.exists():
                self._folder.mkdir(parents=True, exist_ok=True)
                save(hasher, path)
