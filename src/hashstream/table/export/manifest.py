"""The manifest of an export: `manifest.json`, which is written last and names every other file with its checksum.

An export is complete where its manifest is there. Whoever reads one trusts nothing in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from hashstream._files import atomic_path
from hashstream.hashers.base import MAX_BITS
from hashstream.table.errors import TableError
from hashstream.table.state.columns import field_kinds
from hashstream.table.state.ids import MAX_SLOTS
from hashstream.table.storage.folder.checks import refuse_unless_file, refusing
from hashstream.table.storage.folder.records import is_count, need
from hashstream.table.storage.folder.segments import sync_folder

__all__ = [
    "MANIFEST",
    "File",
    "Functions",
    "Manifest",
    "Part",
    "as_text",
    "durable_path",
    "join_manifests",
    "read_manifest",
    "verify_file",
    "write_manifest",
]

MANIFEST = "manifest.json"
FORMAT, FORMAT_VERSION = "hashstream-export", 1
MAX_BYTES = 1 << 26  # of a manifest
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
HEX = re.compile(r"[0-9a-f]+")
LABELS = ("str", "int", "float", "bool", "matrix", "json")
OPTIONAL = ("payload", "sequence")  # columns that a part may have
MODULUS = 1 << 64


@dataclass(frozen=True)
class File:
    """A file of an export: its name, and what its content was when it was written."""

    file: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        need(isinstance(self.file, str) and bool(NAME.fullmatch(self.file)), f"{self.file!r} is not a name")
        need(is_count(self.bytes), f"bytes of {self.file} are {self.bytes!r}")
        _check_hex(self.sha256, 64, f"sha256 of {self.file}")


@dataclass(frozen=True)
class Part(File):
    """Items of one version. digest : of their ids, version and codes, as `HashTable.digest` has it, as 16 hex digits.

    labels : how the column `label` holds them: a type, "matrix", or "json" where they are of several types.
    has : as in the manifest, where it is of several exports, of which not all have the same columns.
    """

    rows: int
    version: int
    digest: str
    labels: str
    has: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        need(is_count(self.rows, MAX_SLOTS) and self.rows > 0, f"rows of {self.file} are {self.rows!r}")
        need(is_count(self.version), f"the version of {self.file} is {self.version!r}")
        need(self.labels in LABELS, f"labels of {self.file} are {self.labels!r}")
        need(self.has is None or set(self.has) <= {*OPTIONAL}, f"columns of {self.file} are {self.has!r}")
        _check_hex(self.digest, 16, f"digest of {self.file}")


@dataclass(frozen=True)
class Functions(File):
    """The hash functions of one version. encoder : their digest, None where nothing was learned yet."""

    version: int
    encoder: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        need(is_count(self.version) or self.version == -1, f"the version of {self.file} is {self.version!r}")
        if self.encoder is not None:
            _check_hex(self.encoder, 16, f"digest of {self.file}")


@dataclass(frozen=True)
class Manifest:
    """Everything about an export but its rows.

    table, commit : of which table and commit it is; None where it is of several. ids : "int" or "str"; None where there
    are no items. fields : name -> type. columns : name of a field -> name of its column. features : whether they are
    among the columns. has : which columns there are beside those that every part has: "payload", "sequence".
    settings, comparison (of versions), sample_size : of the table. version : of the current functions, -1 before
    anything was learned. models : the functions of every version alive and the current ones. sample : features of the
    table's sample, where
    `features` is False. count, digest : of all items. created : the hasher that the table was created with, where the
    current one has other parameters.
    """

    table: str | None
    commit: int | None
    method: str
    n_bits: int
    ids: str | None
    n_features: int | None
    dtype: str | None
    fields: Mapping[str, str]
    columns: Mapping[str, str]
    has: tuple[str, ...]
    features: bool
    settings: Mapping[str, Any]
    comparison: Mapping[str, Any]
    sample_size: int
    version: int
    models: tuple[Functions, ...]
    parts: tuple[Part, ...]
    sample: tuple[File, ...]
    count: int
    digest: str
    created: File | None = None

    def __post_init__(self) -> None:
        need(self.table is None or isinstance(self.table, str), f"table is {self.table!r}")
        need(self.commit is None or is_count(self.commit), f"commit is {self.commit!r}")
        need(is_count(self.n_bits, MAX_BITS) and self.n_bits > 0, f"n_bits is {self.n_bits!r}")
        need(self.ids in ("int", "str", None), f"ids are {self.ids!r}")
        need(self.ids is not None or not self.parts, "it has items without ids")
        need(self.n_features is None or (is_count(self.n_features) and self.n_features > 0), "n_features")
        need(self.dtype in ("float32", "float64", None), f"dtype is {self.dtype!r}")
        need(field_kinds(self.fields) == dict(self.fields), "its fields are not declared")
        need(set(self.columns) == set(self.fields), "its fields have no columns")
        need(len(set(self.columns.values())) == len(self.columns), "two fields have one column")
        need(all(isinstance(name, str) for name in self.columns.values()), "columns are not names")
        need(set(self.has) <= {*OPTIONAL}, f"columns are {self.has!r}")
        need(type(self.features) is bool, f"features is {self.features!r}")
        need(isinstance(self.settings, Mapping), "its settings are not there")
        need(is_count(self.version) or (self.version == -1 and not self.parts), "its version is not one")
        versions = [one.version for one in self.models]
        need(len(set(versions)) == len(versions) and self.version in versions, "functions are missing")
        need({part.version for part in self.parts} <= set(versions), "functions are missing")
        need(all(one.encoder is not None for one in self.models if one.version >= 0), "functions are missing")
        names = [one.file for one in self.files]
        need(len(set(names)) == len(names), "a file is named twice")
        need(
            self.count == sum(part.rows for part in self.parts), "its parts have not as many rows as it says"
        )
        need(self.count <= MAX_SLOTS, "it has more items than a table takes")
        need(self.digest == total(self.parts), "its digest is not that of its parts")

    @property
    def files(self) -> tuple[File, ...]:
        """All files but the manifest."""
        return (*self.parts, *self.models, *self.sample, *filter(None, [self.created]))

    @property
    def is_joined(self) -> bool:
        """Whether it is of several tables."""
        return self.commit is None

    @property
    def width(self) -> int:
        """Bytes per code."""
        return -(-self.n_bits // 8)

    def to_json(self) -> str:
        out = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}
        return json.dumps({**out, "fields": list(self.fields.items())}, indent=1)

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """ValueError, KeyError or TypeError where it is not one."""
        found = json.loads(text)
        need(isinstance(found, dict) and found.pop("format", None) == FORMAT, "it is not of an export")
        version = found.pop("format_version", None)
        need(version == FORMAT_VERSION, f"it has format {version!r}, and {FORMAT_VERSION} is read here")
        parts = tuple(map(_part, found.pop("parts")))
        models = tuple(Functions(**one) for one in found.pop("models"))
        sample = tuple(File(**one) for one in found.pop("sample"))
        declared, has = dict(found.pop("fields")), tuple(found.pop("has"))
        created = found.pop("created", None)  # not there in exports of before there was one
        return cls(
            **found, fields=declared, has=has, parts=parts, models=models, sample=sample,
            created=None if created is None else File(**created),
        )  # fmt: skip


def _part(found: Any) -> Part:
    part = Part(**found)
    return part if part.has is None else replace(part, has=tuple(part.has))


def _check_hex(text: Any, digits: int, what: str) -> None:
    need(isinstance(text, str) and len(text) == digits and bool(HEX.fullmatch(text)), f"{what} is {text!r}")


def as_text(digest: int) -> str:
    """A digest as a manifest has it."""
    return f"{digest:016x}"


def total(parts: Iterable[Part]) -> str:
    """The digest of all items of some parts."""
    return as_text(sum(int(part.digest, 16) for part in parts) % MODULUS)


def read_manifest(folder: Path, name: str = MANIFEST) -> Manifest:
    """The manifest of an export; TableError where there is none, or it is damaged."""
    path = folder / name
    refuse_unless_file(path)
    if not path.exists():
        raise TableError(f"{folder} is not an export, or is not complete: it has no {name}")
    with refusing(path), path.open("rb") as file:
        text = file.read(MAX_BYTES + 1)
        need(len(text) <= MAX_BYTES, f"it is larger than {MAX_BYTES} bytes")
        return Manifest.from_json(text)


def write_manifest(folder: Path, manifest: Manifest, name: str = MANIFEST) -> None:
    """Complete an export."""
    with durable_path(folder / name) as part:
        part.write_text(manifest.to_json())


def join_manifests(folder: Path, names: Iterable[str]) -> Manifest:
    """Write the manifest of several exports into one folder, as shards of one table make them: of all their parts.

    Where items have sequence numbers, a table that is restored from it has them in this order.

    names : of their manifests. ValueError where they are not of one table: other fields, bits, or functions.
    """
    found = [read_manifest(folder, name) for name in names]
    need(bool(found), "there are no exports to be joined")
    filled = [each for each in found if each.parts] or found
    newest, base = max(found, key=lambda one: one.version), filled[0]
    for each in filled:
        for name in ("n_bits", "ids", "fields", "columns", "features", "n_features", "dtype"):
            mine, other = getattr(base, name), getattr(each, name)
            if mine != other:
                raise ValueError(f"exports of one table have the same {name}, not {mine!r} and {other!r}")
    models: dict[int, Functions] = {}
    for one in (one for each in (newest, *found) for one in each.models):
        if models.setdefault(one.version, one).encoder != one.encoder:
            raise ValueError(f"two exports have different functions under version {one.version}")
    parts = tuple(replace(part, has=each.has) for each in found for part in each.parts)
    alive = {part.version for part in parts} | {newest.version}
    joined = replace(
        base,
        table=None,
        commit=None,
        version=newest.version,
        has=tuple(sorted({name for each in found for name in each.has})),
        models=tuple(models[version] for version in sorted(alive)),
        parts=parts,
        sample=tuple(one for each in found for one in each.sample),
        count=sum(part.rows for part in parts),
        digest=total(parts),
        created=next((one.created for one in found if one.created is not None), None),
    )
    write_manifest(folder, joined)
    return joined


# ---- files


@contextmanager
def durable_path(path: Path) -> Iterator[Path]:
    """A temporary path; the file written there is synced and gets its name at the end of the block."""
    with atomic_path(path) as part:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(path.parent)


def described(path: Path) -> dict[str, Any]:
    """The fields of `File` for a file that was just written."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256}


def verify_file(folder: Path, expected: File) -> None:
    """TableError where a file of an export is missing, or is not as it was written."""
    path = folder / expected.file
    refuse_unless_file(path)
    if not path.exists():
        raise TableError(f"{path} is missing: copy the whole export again")
    found = described(path)
    if found != {one.name: getattr(expected, one.name) for one in fields(File)}:
        raise TableError(
            f"{path} is damaged, or is not the file that was exported: its checksum is not that of the manifest"
        )
