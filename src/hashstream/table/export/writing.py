"""Writing an export: parts, hash functions, and at last the manifest; interrupted, it goes on where it stopped.

Each part is written under a temporary name, synced, renamed, and then noted in a file of progress, which also says of
which table and commit the parts are.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hashstream._extras import require
from hashstream._files import lock
from hashstream.hashers.serialization import encoder_digest, encoder_to_bytes, to_bytes
from hashstream.table.digests import digest_of
from hashstream.table.errors import TableError, failed
from hashstream.table.export.columns import Columns, digest_of_view
from hashstream.table.export.manifest import (
    MANIFEST,
    MODULUS,
    NAME,
    File,
    Functions,
    Manifest,
    Part,
    as_text,
    described,
    durable_path,
    read_manifest,
    total,
    verify_file,
    write_manifest,
)
from hashstream.table.state.state import State
from hashstream.table.state.view import in_order
from hashstream.table.storage.base import Storage, read_payloads

__all__ = ["ExportProgress", "export_state"]

log = logging.getLogger("hashstream.table")

PART_ROWS, PART_BYTES = 1_000_000, 256 << 20  # of a part, as a rule
GROUP_ROWS, GROUP_BYTES = 1 << 16, 16 << 20  # of a row group: what is in memory at a time
PROGRESS = "progress.jsonl"
OURS = re.compile(
    r"(part-\d{6}\.parquet|model-v\d{12}\.safetensors|sample\.parquet|created\.safetensors|manifest\.json|progress\.jsonl)"
    r"(\.[0-9a-f]{32}\.part)?"
)
"""Names of the files of an export, after its prefix, and of files that were not written whole."""


@dataclass(frozen=True)
class ExportProgress:
    """After a part: items that are exported, of all; how many of them an earlier call had exported, and whether parts
    of an earlier commit, or of other options, were discarded first."""

    rows: int
    total: int
    kept: int = 0
    restarted: bool = False


@dataclass
class Export:
    """An export of one state of a table. key : what parts of an earlier call must have in common with it."""

    state: State
    storage: Storage
    folder: Path
    features: bool
    part_rows: int
    prefix: str

    def __post_init__(self) -> None:
        state, encoder = self.state, self.state.model.encoder
        self._d = None if encoder is None else int(encoder.n_features)
        self._dtype = None if encoder is None else np.dtype(encoder.dtype).name
        self.columns = Columns(state.view, self._d, self._dtype, features=self.features)
        self.key = {
            "table": self.storage.uuid,
            "commit": state.seq,
            "digest": as_text(digest_of_view(state.view)),
            "features": self.features,
            "part_rows": self.part_rows,
            "prefix": self.prefix,
        }

    # ---- parts

    def cuts(self) -> Iterator[tuple[str, int, np.ndarray]]:
        """File, version and slots of each part, the oldest version first."""
        number, view = 0, self.state.view
        for version in view.versions:
            slots = in_order([part.rows()[1] for part in view.parts if part.version == version])
            for start in range(0, len(slots), self.part_rows):
                name = f"{self.prefix}part-{number:06d}.parquet"
                yield name, version, slots[start : start + self.part_rows].astype(np.int64)
                number += 1

    def write_part(self, name: str, version: int, slots: np.ndarray) -> Part:
        """Write a part; `Overtaken` where slots were renumbered meanwhile."""
        parquet, digest = require("pyarrow.parquet", "parquet"), 0
        path = self.folder / name
        with (
            durable_path(path) as temporary,
            parquet.ParquetWriter(temporary, self.columns.schema, compression="zstd") as writer,
        ):
            for some in self._groups(slots):
                ids, codes = self.state.view.ids(some), self.columns.codes(some)
                X = self.storage.read(some, self.state.generation) if self.columns.features else None
                batch = self.columns.batch(some, ids, codes, version, self._payloads(some), X)
                writer.write_batch(batch, row_group_size=len(some))
                digest = (digest + digest_of(ids, codes, version)) % MODULUS
        return Part(
            **described(path),
            rows=len(slots),
            version=version,
            digest=as_text(digest),
            labels=self.columns.labels,
        )

    def _groups(self, slots: np.ndarray) -> Iterator[np.ndarray]:
        """Slots in pieces that are in memory at a time."""
        width = 8 * (self._d or 0) if self.columns.features else 0
        step = max(1, min(GROUP_ROWS, GROUP_BYTES // max(1, width)))
        for start in range(0, len(slots), step):
            yield slots[start : start + step]

    def _payloads(self, slots: np.ndarray) -> list[str | None]:
        payloads: list[str | None] = [None] * len(slots)
        there = np.flatnonzero(self.state.view.has_payload(slots))
        if len(there):
            found = read_payloads(self.storage, slots[there], self.state)
            for row, text in zip(there.tolist(), found, strict=True):
                payloads[row] = text
        return payloads

    # ---- functions, sample, manifest

    def models(self) -> Iterator[Functions]:
        """Write the functions of all versions: of the current one the whole hasher, which learns on."""
        model, encoders = self.state.model, self.state.view.encoders
        versions = sorted({*encoders, model.version})
        for version in versions:
            raw = to_bytes(model.hasher) if version == model.version else encoder_to_bytes(encoders[version])
            encoder = model.encoder if version == model.version else encoders[version]
            name = f"{self.prefix}model-v{max(0, version):012d}.safetensors"
            with durable_path(self.folder / name) as temporary:
                temporary.write_bytes(raw)
            digest = None if encoder is None else encoder_digest(encoder)
            yield Functions(**described(self.folder / name), version=version, encoder=digest)

    def sample(self) -> Iterator[File]:
        """Write the features of the table's sample, where all features are not exported."""
        slots, X, _ = self.state.sample.items()
        if self.columns.features or not len(slots):
            return
        pa, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        path, ids = self.folder / f"{self.prefix}sample.parquet", self.state.view.ids(slots)
        rows = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X).ravel()), X.shape[1])
        with durable_path(path) as temporary:
            parquet.write_table(pa.table({"id": pa.array(ids.tolist()), "features": rows}), temporary)
        yield File(**described(path))

    def created(self) -> File | None:
        """Write the hasher that the table was created with, where the current one has other parameters."""
        created = self.state.created
        if created is None:
            return None
        path = self.folder / f"{self.prefix}created.safetensors"
        with durable_path(path) as temporary:
            temporary.write_bytes(created)
        return File(**described(path))

    def manifest(self, parts: list[Part]) -> Manifest:
        """Write the manifest, after everything that it names."""
        state, column = self.state, self.state.view.column
        manifest = Manifest(
            table=self.storage.uuid,
            commit=state.seq,
            method=type(state.model.hasher).__name__,
            n_bits=int(state.model.hasher.n_bits),
            ids=None if column is None else column.kind,
            n_features=self._d,
            dtype=self._dtype,
            fields={name: values.kind for name, values in state.view.user_fields.items()},
            columns=self.columns.names,
            has=self.columns.has,
            features=self.features,
            settings=self.storage.settings.to_fields(),
            comparison=state.comparison.to_fields(),
            sample_size=state.sample.size,
            version=state.model.version,
            models=tuple(self.models()),
            parts=tuple(parts),
            sample=tuple(self.sample()),
            count=sum(part.rows for part in parts),
            digest=total(parts),
            created=self.created(),
        )
        write_manifest(self.folder, manifest, f"{self.prefix}{MANIFEST}")
        return manifest


class Noted:
    """The file of progress: a line with the key of an export, then one for each part. It is locked while it is open.

    parts : those that are complete, by file. restarted : whether there were parts with another key.
    """

    def __init__(self, folder: Path, prefix: str, key: dict[str, Any]) -> None:
        self._path = folder / f"{prefix}{PROGRESS}"
        self._file = self._path.open("a+b")
        self.parts: dict[str, Part] = {}
        try:
            try:
                lock(self._file.fileno())
            except OSError as error:
                raise TableError(f"{self._path} is in use: another process exports to this folder") from error
            self._file.seek(0)
            lines, whole = _lines(self._file.read())
            self.restarted = bool(lines) and (lines[0] != key or key["table"] is None)
            begins = not lines or self.restarted
            self._file.truncate(0 if begins else whole)
            if begins:
                self._note(key)
            else:
                self._read(folder, lines[1:])
            for path in folder.iterdir():  # what was not noted, or not written whole
                ours = path.name.startswith(prefix) and OURS.fullmatch(path.name.removeprefix(prefix))
                if ours and path != self._path and path.name not in self.parts:
                    path.unlink()
        except BaseException:
            self._file.close()
            raise

    def _read(self, folder: Path, lines: list[Any]) -> None:
        for line in lines:
            try:
                part = Part(**line)
                verify_file(folder, part)
            except (TypeError, ValueError, TableError):
                continue  # it is written again
            self.parts[part.file] = part

    def note(self, part: Part) -> None:
        """A part is complete."""
        self._note(asdict(part))

    def _note(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self, *, complete: bool) -> None:
        if complete:
            self._path.unlink(missing_ok=True)
        self._file.close()


def _lines(raw: bytes) -> tuple[list[Any], int]:
    """Lines of JSON, up to one that was not written whole, and how many bytes they are."""
    lines, end = [], 0
    for line in raw.split(b"\n")[:-1]:
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
        end += len(line) + 1
    return lines, end


def export_state(
    state: State,
    storage: Storage,
    folder: Path,
    *,
    features: bool = False,
    part_rows: int | None = None,
    prefix: str = "",
    progress: Callable[[ExportProgress], None] | None = None,
) -> Manifest:
    """Export a state to a folder; see `HashTable.export`. `Overtaken` where slots were renumbered meanwhile."""
    if features and not storage.keep_features:
        raise TableError("this table keeps no features (keep_features=False), so they cannot be exported")
    if prefix and not NAME.fullmatch(prefix):
        raise ValueError(f"prefix must be letters, digits, '.', '_' and '-', not {prefix!r}")
    if part_rows is None:
        part_rows = PART_ROWS
        if features and state.model.encoder is not None:
            part_rows = max(1, min(PART_ROWS, PART_BYTES // (8 * state.model.encoder.n_features)))
    export = Export(state, storage, folder, features, part_rows, prefix)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        done = _complete(export)
        if done is None:
            done = _run(export, progress or (lambda step: None))
        return done
    except OSError as error:
        raise failed(error)(f"{folder} cannot be written: {error.strerror or error}") from error


def _complete(export: Export) -> Manifest | None:
    """The manifest of an export that is complete; TableError where it is of another table or commit, or where there
    are other files."""
    folder, name = export.folder, f"{export.prefix}{MANIFEST}"
    if (folder / name).exists():
        found, key = read_manifest(folder, name), export.key
        names = ("table", "commit", "digest", "features")
        if any(getattr(found, one) != key[one] for one in names) or found.table is None:
            raise TableError(
                f"{folder} holds a complete export already, of commit {found.commit}: export to a new folder"
            )
        (folder / f"{export.prefix}{PROGRESS}").unlink(missing_ok=True)
        return found
    for path in folder.iterdir():
        if not re.fullmatch(f".*{OURS.pattern}", path.name):
            raise TableError(f"{folder} has other files, such as {path.name}: export to a new folder")
    return None


def _run(export: Export, tell: Callable[[ExportProgress], None]) -> Manifest:
    noted = Noted(export.folder, export.prefix, export.key)
    complete = False
    try:
        if noted.restarted:
            log.warning("%s: the table has changed since this export began: it starts again", export.folder)
        kept = sum(part.rows for part in noted.parts.values())
        step = ExportProgress(0, len(export.state.view), kept, noted.restarted)
        tell(step)
        parts = []
        for name, version, slots in export.cuts():
            part = noted.parts.get(name)
            if part is None:
                part = export.write_part(name, version, slots)
                noted.note(part)
            parts.append(part)
            step = replace(step, rows=step.rows + part.rows)
            tell(step)
        manifest = export.manifest(parts)
        complete = True
        return manifest
    finally:
        noted.close(complete=complete)
