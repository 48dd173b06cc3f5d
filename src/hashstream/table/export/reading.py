"""Reading an export: its rows in pieces, checked, and the hash functions that encoded them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.datasets.errors import DatasetError
from hashstream.datasets.parquet_groups import Group, read_groups
from hashstream.hashers import Encoder, FormatError, OnlineHasher
from hashstream.hashers.serialization import encoder_digest, encoder_from_bytes, from_bytes
from hashstream.hashers.validation import check_finite
from hashstream.table.created import check_created
from hashstream.table.digests import digest_of
from hashstream.table.errors import TableError
from hashstream.table.export.manifest import (
    MODULUS,
    Functions,
    Manifest,
    Part,
    as_text,
    read_manifest,
    verify_file,
)
from hashstream.table.incoming import payload_texts
from hashstream.table.results import Codes
from hashstream.table.state.columns import SEQUENCE, FieldColumn, read_values
from hashstream.table.state.ids import as_ids, kind_of
from hashstream.table.state.labels import LabelColumn, label_text
from hashstream.table.state.text_columns import Dictionary
from hashstream.table.storage.folder.checks import refusing
from hashstream.table.storage.folder.records import need

__all__ = ["Exported", "Piece"]

FORMS: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "matrix": list}


@dataclass(frozen=True)
class Piece:
    """Items of one version, as an export has them; X is None where it has no features."""

    version: int
    ids: np.ndarray
    codes: np.ndarray
    labels: LabelColumn
    fields: Mapping[str, FieldColumn]
    payloads: list[str | None] | None
    positions: np.ndarray
    X: np.ndarray | None


class Exported:
    """A complete export in a folder. Its content need not be trusted: a TableError says what is wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: Manifest = read_manifest(folder)
        self.encoders: dict[int, Encoder] = {}
        for one in self.manifest.models:
            with refusing(folder / one.file):
                self._read(one)
        self.created = self._created()

    def _read(self, one: Functions) -> None:
        verify_file(self.folder, one)
        path, manifest = self.folder / one.file, self.manifest
        raw = path.read_bytes()
        try:
            if one.version == manifest.version:
                self.hasher: OnlineHasher = from_bytes(raw, path)
                need(type(self.hasher).__name__ == manifest.method, f"it is not {manifest.method}")
                need(int(self.hasher.n_bits) == manifest.n_bits, "it has codes of another length")
            if one.encoder is None:
                need(not hasattr(self.hasher, "n_seen_"), "it has learned something")
                return
            encoder = encoder_from_bytes(raw, path)
        except FormatError as error:
            raise TableError(str(error)) from error
        need(encoder.version == one.version, f"it is of version {encoder.version}, not {one.version}")
        need(encoder_digest(encoder) == one.encoder, "it has other functions than the manifest says")
        need(encoder.n_bits == manifest.n_bits, "it has codes of another length")
        need(encoder.n_features == manifest.n_features, "it takes other features")
        need(np.dtype(encoder.dtype).name == manifest.dtype, "it takes another dtype")
        self.encoders[one.version] = encoder

    def _created(self) -> bytes | None:
        """As `State.created`: whoever needs it has to know the method, which others need not."""
        one = self.manifest.created
        if one is None:
            return None
        verify_file(self.folder, one)
        path = self.folder / one.file
        raw = path.read_bytes()
        check_created(path, raw, self.manifest.n_bits)
        return raw

    def __len__(self) -> int:
        return self.manifest.count

    def digest(self) -> int:
        """As `HashTable.digest` of the table that was exported."""
        return int(self.manifest.digest, 16)

    def verify(self) -> None:
        """Compare every file with its checksum; a TableError names one that is damaged."""
        for one in self.manifest.files:
            verify_file(self.folder, one)

    def codes(self) -> Iterator[Codes]:
        """As `HashTable.codes`."""
        for part in self.manifest.parts:
            for ids, codes, _ in self._groups(part, ()):
                yield Codes(ids, codes, part.version)

    def pieces(self) -> Iterator[Piece]:
        """All items with all of their data."""
        manifest = self.manifest
        more = ["label", "learned", *manifest.columns.values(), "position"]
        more += ["features"] if manifest.features else []
        for part in manifest.parts:
            for ids, codes, group in self._groups(part, [*more, *self._optional(part)]):
                with refusing(self.folder / part.file):
                    piece = self._piece(part, ids, codes, group)
                yield piece

    def _groups(self, part: Part, more: Any) -> Iterator[tuple[np.ndarray, np.ndarray, Group]]:
        """Ids, codes and other columns of each row group of a part. TableError where they are not those that were
        exported."""
        path, rows, digest = self.folder / part.file, 0, 0
        groups = read_groups(path, ["id", "version", "code", *more])
        while True:
            try:
                found = next(groups, None)
            except DatasetError as error:
                raise TableError(str(error)) from error
            if found is None:
                break
            n, group = found
            if not n:
                continue
            with refusing(path):
                ids, codes = self._items(group, n, part.version)
            rows, digest = rows + n, digest + digest_of(ids, codes, part.version)
            yield ids, codes, group
        if rows != part.rows or as_text(digest % MODULUS) != part.digest:
            raise TableError(
                f"{path} is damaged: its {rows:,} rows have not the digest of the {part.rows:,} that were exported"
            )

    def _items(self, group: Group, n: int, version: int) -> tuple[np.ndarray, np.ndarray]:
        manifest = self.manifest
        ids, codes = as_ids(group["id"]), np.asarray(group["code"])
        need(len(ids) == n and kind_of(ids) == manifest.ids, "its ids are of another kind")
        need(codes.dtype == np.uint8 and codes.shape == (n, manifest.width), "its codes are not codes")
        spare = 8 * manifest.width - manifest.n_bits
        need(not (codes[:, -1] & ((1 << spare) - 1)).any(), "its codes have more bits than they should")
        need(bool((np.asarray(group["version"]) == version).all()), "it has codes of another version")
        return ids, codes

    def _optional(self, part: Part) -> tuple[str, ...]:
        return self.manifest.has if part.has is None else part.has

    def _piece(self, part: Part, ids: np.ndarray, codes: np.ndarray, group: Group) -> Piece:
        manifest, n = self.manifest, len(ids)
        fields = {
            name: read_values(manifest.fields[name], name, group[column], n)
            for name, column in manifest.columns.items()
        }
        given = {name: group[name] if name in self._optional(part) else [None] * n for name in manifest.has}
        payloads = None
        if "payload" in given:
            payloads = payload_texts(
                [None if one is None else json.loads(one) for one in given["payload"]], n
            )
        positions = np.asarray(group["position"])
        need(positions.dtype == np.int64 and positions.shape == (n,), "its positions are not numbers")
        if "sequence" in given:
            column = read_values("int", SEQUENCE, given["sequence"], n)
            numbers = column.take(np.arange(n)).tolist()
            need(all(one is None or one >= 0 for one in numbers), "a sequence is negative")
            fields[SEQUENCE] = column
            if manifest.is_joined:  # positions are those of each shard
                positions = np.array([-1 if one is None else one for one in numbers], np.int64)
        X = None
        if manifest.features:
            X = features_of(group["features"], n, manifest)
        labels = labels_of(group["label"], group["learned"], part.labels)
        return Piece(part.version, ids, codes, labels, fields, payloads, positions, X)

    def sample(self) -> dict[Any, np.ndarray]:
        """The features of the table's sample, by id."""
        found: dict[Any, np.ndarray] = {}
        for one in self.manifest.sample:
            verify_file(self.folder, one)
            try:
                for n, group in read_groups(self.folder / one.file, ["id", "features"]):
                    with refusing(self.folder / one.file):
                        X = features_of(group["features"], n, self.manifest)
                        found.update(zip(as_ids(group["id"]).tolist(), X, strict=True))
            except DatasetError as error:
                raise TableError(str(error)) from error
        return found


def features_of(values: Any, n: int, manifest: Manifest) -> np.ndarray:
    """Features (n, d) of the table's dtype; ValueError where they are not."""
    need(
        isinstance(values, np.ndarray) and values.dtype == np.dtype(manifest.dtype or "f4"),
        "features are lost",
    )
    X: np.ndarray = values.reshape(n, -1)
    need(X.shape[1] == manifest.n_features, f"its features are {X.shape[1]} numbers")
    return check_finite(X)


def labels_of(values: Any, learned: Any, form: str) -> LabelColumn:
    """The column of labels that are held in a form; ValueError where one is not a label of it."""
    words, numbers = Dictionary(), []
    known: dict[Any, int] = {}  # few are distinct
    for value, taught in zip(_listed(values), _listed(learned), strict=True):
        key = (type(value), tuple(value) if isinstance(value, list) else value, taught)
        if key not in known:
            known[key] = _label_number(value, taught is True, form, words)
        numbers.append(known[key])
    arrays = {"codes": np.array(numbers, np.uint32), "texts": words.to_array()}
    return LabelColumn.from_arrays(arrays)


def _label_number(value: Any, learned: bool, form: str, words: Dictionary) -> int:
    if value is None:
        return 0
    if form == "json":
        value = json.loads(value)
    need(form == "json" or type(value) is FORMS[form], f"{value!r:.100} is not a label of type {form}")
    if isinstance(value, list):
        value = np.array(value, bool)
    return words.number(("+" if learned else "-") + label_text(value))


def _listed(values: Any) -> list[Any]:
    found: list[Any] = values.tolist() if isinstance(values, np.ndarray) else values
    return found
