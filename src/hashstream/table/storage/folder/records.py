"""The format of a folder: what is stored in the database's rows, as typed records and as bytes with a checksum.

A change of the format is a change of this file, of `FORMAT`, and of `migrate`.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hashstream.hashers.base import MAX_BITS
from hashstream.table.errors import TableError
from hashstream.table.state.change import Added, Change, Recoded, Relabelled
from hashstream.table.state.columns import OWN, FieldColumn, field_column, field_kinds
from hashstream.table.state.comparison import Comparison
from hashstream.table.state.ids import MAX_SLOTS, arrays_of, column_of
from hashstream.table.state.labels import LabelColumn
from hashstream.table.state.sample import MAX_SIZE, Sample, SampleChange
from hashstream.table.state.state import Model
from hashstream.table.state.view import Part, View

__all__ = [
    "FILE_FORMAT",
    "FORMAT",
    "OLDEST",
    "BatchRow",
    "FeedbackRow",
    "Head",
    "Identity",
    "ModelRow",
    "SegmentRow",
    "Shape",
    "change_from_arrays",
    "change_to_arrays",
    "check_format",
    "checked",
    "checksum",
    "items_from_arrays",
    "items_to_arrays",
    "kinds_of",
    "model_checksum",
    "need",
    "pack",
    "pack_labels",
    "same_checksum",
    "unpack",
    "unpack_labels",
]

FORMAT = 4
"""Of the database. Format 3 had no keys of calls; format 2 had no fields, payloads and feedback either, and labels only
in batches; format 1 was never released. What is only added, with a default, needs no other format."""
OLDEST = 2
"""The oldest format that is read: a writer takes such a database over, see `Database.migrate`."""
FILE_FORMAT = 2
"""Of files of features and of the commit marker."""

MOST = 1 << 53  # of a count
ALIGN = 8


def check_format(where: str, found: int, newest: int = FILE_FORMAT) -> None:
    """Called with the format of a file before anything in it is read; a TableError where it cannot be read."""
    if found > newest:
        raise TableError(
            f"{where} has format {found}; this version of hashstream reads format {newest}: update hashstream"
        )
    if found == 1:
        raise TableError(
            f"{where} has format 1, of a version that was never released; this version reads format {newest}: "
            "create the table again"
        )
    if found < 1:
        raise TableError(f"{where} is damaged: its format is {found}")


# ---- rows


class BatchRow(NamedTuple):
    """Rows that were ingested or added in one call, in the slots from `first_slot` on.

    learned : 1 where the model learned from them. y : `pack_labels`, from which it is learned again.
    """

    seq: int
    first_slot: int
    n_rows: int
    learned: int
    version: int
    features_crc: int
    model_crc: int
    y: bytes | None

    @property
    def end(self) -> int:
        return self.first_slot + self.n_rows


class FeedbackRow(NamedTuple):
    """Labels that stored items were given in one call, from which the model learned.

    slots : uint32, ascending. y, old : `pack_labels` of `Feedback`. features_crc : of the features of the slots.
    """

    seq: int
    version: int
    features_crc: int
    model_crc: int
    slots: bytes
    y: bytes
    old: bytes | None


class SegmentRow(NamedTuple):
    """A file of features that begins with the row of slot `first_slot`."""

    number: int
    first_slot: int


class ModelRow(NamedTuple):
    """Hash functions as of commit `seq`."""

    version: int
    seq: int
    raw: bytes


def need(true: bool, what: str) -> None:
    """ValueError, for content that nobody could have stored, unless it is true."""
    if not true:
        raise ValueError(what)


def is_count(value: Any, most: int = MOST) -> bool:
    return type(value) is int and 0 <= value <= most


@dataclass(frozen=True)
class Identity:
    """Properties that a table is created with and that never change."""

    uuid: str
    method: str
    n_bits: int
    keep_features: bool
    sample_size: int

    def __post_init__(self) -> None:
        need(is_count(self.n_bits, MAX_BITS) and self.n_bits > 0, f"n_bits is {self.n_bits!r}")
        need(type(self.keep_features) is bool, f"keep_features is {self.keep_features!r}")
        need(is_count(self.sample_size, MAX_SIZE), f"sample_size is {self.sample_size!r}")
        need(len(bytes.fromhex(self.uuid)) == 16, "its uuid is not one")

    @property
    def table(self) -> bytes:
        """16 bytes that tell its files from those of other tables."""
        return bytes.fromhex(self.uuid)

    @property
    def width(self) -> int:
        """Bytes per code."""
        return -(-self.n_bits // 8)

    to_fields = asdict

    @classmethod
    def from_fields(cls, stored: Any) -> Identity:
        need(isinstance(stored, dict), "its identity is not there")
        return cls(**stored)


@dataclass(frozen=True)
class Shape:
    """Features (n, d) of a dtype, as `np.dtype.str` has it, and the kind of ids: "int" or "str"."""

    d: int
    dtype: str
    ids: str

    def __post_init__(self) -> None:
        need(is_count(self.d, 1 << 31) and self.d > 0, f"d is {self.d!r}")
        need(self.dtype in ("<f4", "<f8", ">f4", ">f8"), f"features are of {self.dtype!r}")
        need(self.ids in ("int", "str"), f"ids are {self.ids!r}")

    @property
    def stride(self) -> int:
        """Bytes per row of features."""
        return self.d * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Head:
    """The last commit, in figures. It is written with every commit.

    seq : its number. n_slots, live : slots, and items in them. sampled : items in the sample.
    items_seq, items_bytes : the commit of which all items are saved whole, and the bytes of that checkpoint.
    log_bytes : of the changes since. renumbered : the commit that numbered the slots. next_segment : the number of the
    next file of features. memory : the policy's. shape : None before the first batch.
    relabelled : the last commit that changed labels. fields : name -> kind. comparison : of versions, as measured.
    first_key, last_key : numbers of the keys of calls that are there. adopted : the last commit whose functions were
    learned elsewhere.
    """

    seq: int = 0
    n_slots: int = 0
    live: int = 0
    sampled: int = 0
    items_seq: int = 0
    items_bytes: int = 0
    log_bytes: int = 0
    renumbered: int = 0
    next_segment: int = 0
    memory: dict[str, Any] = field(default_factory=dict)
    shape: Shape | None = None
    relabelled: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    comparison: Comparison = field(default_factory=Comparison)
    first_key: int = 1
    last_key: int = 0
    adopted: int = 0

    def to_fields(self) -> dict[str, Any]:
        shape = None if self.shape is None else vars(self.shape)
        fields = list(self.fields.items())  # in their order, which an object does not keep here
        return {**vars(self), "shape": shape, "fields": fields, "comparison": self.comparison.to_fields()}

    @classmethod
    def from_fields(cls, stored: Any) -> Head:
        need(isinstance(stored, dict), "its head is not there")
        shape = stored["shape"]
        comparison = Comparison.from_fields(stored.get("comparison", {}))
        head = cls(**{**stored, "comparison": comparison, "fields": dict(stored.get("fields", ()))})
        head = replace(head, shape=None if shape is None else Shape(**shape))
        for name, value in vars(head).items():
            others = ("memory", "shape", "fields", "comparison")
            need(name in others or is_count(value), f"{name} is {value!r}")
        users = {name: kind for name, kind in head.fields.items() if name not in OWN}
        need(field_kinds(users) == users, "its fields are not declared")
        for name, kind in OWN.items():
            need(head.fields.get(name, kind) == kind, f"its field {name} is not declared as {kind}")
        need(is_count(comparison.rows), "the comparison of versions is not one")
        need(head.live <= head.n_slots <= MAX_SLOTS, "it has more items than slots")
        need(head.first_key <= head.last_key + 1, "its keys are out of order")
        need(isinstance(head.memory, dict), "the policy's memory is not there")
        need(shape is not None or not head.n_slots, "it has items without features")
        return head


# ---- changes and items as named arrays


def change_to_arrays(change: Change, *, keep_features: bool) -> dict[str, np.ndarray]:
    """A change, for the log. keep_features : whether the features of the sample can be found elsewhere."""
    out = {"removed": change.removed}
    for i, piece in enumerate(change.recoded):
        out[f"recoded.{i}.version"] = np.array(piece.version, np.int64)
        out[f"recoded.{i}.codes"] = piece.codes
        low, high = (int(piece.slots[0]), int(piece.slots[-1]) + 1) if len(piece.slots) else (0, 0)
        if high - low == len(piece.slots):  # all of a range, as in a table where nothing was removed
            out[f"recoded.{i}.range"] = np.array([low, high], np.int64)
        else:
            out[f"recoded.{i}.slots"] = piece.slots
    if change.added is not None:
        added = change.added
        out["added"] = np.array([added.first_slot, added.version], np.int64)
        out["added.codes"] = added.codes
        for name, array in arrays_of(added.ids).items():
            out[f"added.{name}"] = array
        if added.labels.shape is not None:  # there is a label
            out |= _named("label", added.labels)
        for name, values in added.fields.items():
            out |= _named(f"field.{name}", values)
    if change.relabelled is not None:
        out["relabelled.slots"] = change.relabelled.slots
        out |= _named("relabelled", change.relabelled.labels)
    if change.declared:
        out["declared"] = np.frombuffer(json.dumps(dict(change.declared)).encode(), np.uint8)
    return {**out, **_sample_to_arrays(change.sample, keep_features)}


def _named(name: str, column: FieldColumn) -> dict[str, np.ndarray]:
    return {f"{name}.{array}": values for array, values in column.arrays().items()}


def _of(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that `_named` has named so."""
    found = {}
    for full, array in arrays.items():
        head, _, tail = full.rpartition(".")
        if head == name:
            found[tail] = array
    return found


def change_from_arrays(arrays: dict[str, np.ndarray], fields: Mapping[str, str]) -> Change:
    """The change that `change_to_arrays` was given; ValueError or KeyError where there is none. fields : name -> kind,
    of all that are declared by now."""
    recoded: list[Recoded] = []
    while (version := arrays.get(f"recoded.{len(recoded)}.version")) is not None:
        at = f"recoded.{len(recoded)}"
        if f"{at}.range" in arrays:
            low, high = arrays[f"{at}.range"].tolist()
            need(high - low == len(arrays[f"{at}.codes"]), "codes of a range are missing")
            slots = np.arange(low, high, dtype=np.uint32)
        else:
            slots = arrays[f"{at}.slots"]
        recoded.append(Recoded(int(version), slots, arrays[f"{at}.codes"]))
    added = None
    if "added" in arrays:
        kind = "int" if "added.ids" in arrays else "str"
        column = column_of(kind, {name[6:]: array for name, array in arrays.items() if name[:6] == "added."})
        first, version = arrays["added"].tolist()
        need(len(column) == len(arrays["added.codes"]), "codes of added items are missing")
        labels = LabelColumn.of(None, len(column), learned=False)
        if "label.codes" in arrays:
            labels = LabelColumn.from_arrays(_of("label", arrays))
        given = {name: held for name in fields if (held := _of(f"field.{name}", arrays))}
        values = {name: field_column(fields[name], held) for name, held in given.items()}
        for one in (labels, *values.values()):
            need(len(one) == len(column), "values of added items are missing")
        ids = column.take(np.arange(len(column)))
        added = Added(first, ids, version, arrays["added.codes"], labels, values)
    relabelled = None
    if "relabelled.slots" in arrays:
        labels = LabelColumn.from_arrays(_of("relabelled", arrays))
        need(len(labels) == len(arrays["relabelled.slots"]), "labels are missing")
        relabelled = Relabelled(arrays["relabelled.slots"], labels)
    declared: dict[str, str] = {}
    if "declared" in arrays:
        declared = json.loads(arrays["declared"].tobytes())
        need(all(fields.get(name) == kind for name, kind in declared.items()), "its fields are not declared")
    sample = _sample_from_arrays(arrays)
    return Change(sample, arrays["removed"], tuple(recoded), added, relabelled, declared)


def kinds_of(view: View) -> dict[str, str]:
    """The fields of a view, name -> kind."""
    return {name: values.kind for name, values in view.fields.items()}


def items_to_arrays(view: View, sample: Sample, *, keep_features: bool) -> dict[str, np.ndarray]:
    """All items and the sample, for a checkpoint. keep_features : as for `change_to_arrays`."""
    arrays = {} if view.column is None else {f"ids.{k}": v for k, v in view.column.arrays().items()}
    for i, part in enumerate(view.parts):
        arrays[f"part.{i}.codes"], arrays[f"part.{i}.slots"] = part.rows()
    arrays["versions"] = np.array([part.version for part in view.parts], np.int64)
    arrays |= _named("label", view.labels)
    for name, values in view.fields.items():
        arrays |= _named(f"field.{name}", values)
    return {**arrays, **_sample_to_arrays(sample.as_change(), keep_features)}


def items_from_arrays(
    arrays: dict[str, np.ndarray], identity: Identity, ids: str, fields: Mapping[str, str]
) -> tuple[View, Sample]:
    """The view, without encoders, and the sample that `items_to_arrays` was given; a KeyError names what is missing.

    ids : their kind. fields : name -> kind, of all that are declared by now. Format 2 has no labels here: they are all
    missing then.
    """
    column = {name[4:]: array for name, array in arrays.items() if name.startswith("ids.")}
    parts = []
    for i, version in enumerate(arrays["versions"].tolist()):
        codes, slots = arrays[f"part.{i}.codes"], arrays[f"part.{i}.slots"]
        parts.append(Part(version, codes, slots, 0, len(slots)))
    view = View(identity.width, tuple(parts), column_of(ids, column) if column else None)
    n = view.n_slots
    labels = (
        LabelColumn.from_arrays(_of("label", arrays)) if "label.codes" in arrays else LabelColumn().padded(n)
    )
    columns = {
        name: field_column(kind, _of(f"field.{name}", arrays) or None) for name, kind in fields.items()
    }
    need(len(labels) == n and all(len(values) in (0, n) for values in columns.values()), "values are missing")
    columns = {name: values.padded(n) for name, values in columns.items()}
    view = replace(view, labels=labels, fields=MappingProxyType(columns))
    return view, Sample(identity.sample_size).after(_sample_from_arrays(arrays))


def _sample_to_arrays(change: SampleChange, keep_features: bool) -> dict[str, np.ndarray]:
    """Without labels, which the items have, and, where features are stored, with checksums in the place of rows."""
    out = {"sample.limit": np.array([change.limit])}
    if len(change.freed):
        out["sample.freed"] = change.freed
    if len(change.places):
        out["sample.places"], out["sample.slots"], out["sample.keys"] = (
            change.places,
            change.slots,
            change.keys,
        )
        if keep_features:
            out["sample.crcs"] = np.array(
                [zlib.crc32(row) for row in np.ascontiguousarray(change.rows)], np.uint32
            )
        else:
            out["sample.rows"] = change.rows
    return out


def _sample_from_arrays(arrays: dict[str, np.ndarray]) -> SampleChange:
    """Labels are left out, and a row for which there is a checksum only is that number, uint32: `Loader` fills them
    in."""
    nothing = np.empty(0, np.int64)
    freed, limits = arrays.get("sample.freed", nothing), arrays["sample.limit"]
    need(
        limits.dtype == np.uint64 and limits.shape == (1,) and freed.dtype == np.int64 and freed.ndim == 1,
        "the sample's limit is not a number",
    )
    if "sample.places" not in arrays:
        return SampleChange(freed, nothing, nothing, np.empty(0, np.uint64), np.empty((0, 0)), [], limits[0])
    places, slots, keys = (arrays[f"sample.{name}"] for name in ("places", "slots", "keys"))
    rows = arrays["sample.crcs"][:, None] if "sample.crcs" in arrays else arrays["sample.rows"]
    need(
        places.dtype == slots.dtype == np.int64 and keys.dtype == np.uint64 and not (places < 0).any(),
        "the sample's places are not numbers",
    )
    return SampleChange(freed, places, slots, keys, rows, [None] * len(places), limits[0])


# ---- bytes


def checksum(*fields: Any) -> int:
    """CRC-32 over the fields in turn: bytes and arrays as they are, all else as it is printed."""
    crc, small = 0, ""  # what is printed is gathered, since a call takes longer than a few bytes
    for value in fields:
        if isinstance(value, np.ndarray):
            value = np.ascontiguousarray(value).data.cast("B") if value.size else b""
        elif not isinstance(value, (bytes, memoryview)):
            small += f"\0{value!r}"
            continue
        crc = zlib.crc32(value, zlib.crc32(small.encode(), crc) if small else crc)
        small = ""
    return zlib.crc32(small.encode(), crc) if small else crc


def model_checksum(model: Model) -> int:
    """Of the version and the arrays of the hash functions: equal where a model was learned again to the last bit."""
    return 0 if model.encoder is None else checksum(model.version, *model.encoder.arrays())


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as one blob: a JSON line of names, dtypes and shapes, then the bytes of each."""
    head = json.dumps([[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]).encode()
    parts: list[bytes | memoryview] = [len(head).to_bytes(4, "little"), head]
    parts.append(b"\0" * (-(4 + len(head)) % ALIGN))
    for array in arrays.values():
        raw = np.ascontiguousarray(array).data.cast("B") if array.size else b""
        parts += [raw, b"\0" * (-len(raw) % ALIGN)]
    return b"".join(parts)


def unpack(raw: bytes) -> dict[str, np.ndarray]:
    """The inverse of `pack`: named arrays, as read-only views of `raw`."""
    size = int.from_bytes(raw[:4], "little")
    at = 4 + size + -(4 + size) % ALIGN
    arrays = {}
    for name, dtype, shape in json.loads(raw[4 : 4 + size]):
        count = math.prod(shape)
        if count < 0:
            raise ValueError(f"an array has the shape {shape}")
        arrays[name] = np.frombuffer(raw, dtype, count, at).reshape(shape)
        n_bytes = count * np.dtype(dtype).itemsize
        at += n_bytes + -n_bytes % ALIGN
    return arrays


def pack_labels(y: np.ndarray | None) -> bytes | None:
    """The labels of a batch as `plain_labels` has them."""
    if y is None:
        return None
    if y.dtype.kind != "O":
        return pack({"y": y})
    text = json.dumps(y.tolist())
    return pack({"json": np.frombuffer(text.encode(), np.uint8)})


def unpack_labels(raw: bytes | None) -> np.ndarray | None:
    if raw is None:
        return None
    arrays = unpack(raw)
    if "y" in arrays:
        return arrays["y"]
    values = json.loads(arrays["json"].tobytes())
    y = np.empty(len(values), object)
    y[:] = values
    return y


def checked(where: str, found: int, *fields: Any) -> None:
    """TableError that names `where`, unless the checksum of the fields is the one that was stored with them."""
    same_checksum(where, found, checksum(*fields))


def same_checksum(where: str, found: int, crc: int) -> None:
    """The same for a checksum that is known already."""
    if crc != found:
        raise TableError(
            f"{where} is damaged: its checksum does not match its content. Restore it from a copy; nothing was changed."
        )
