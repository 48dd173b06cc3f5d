"""Bodies of requests: JSON for people; .npy, .npz and Arrow for machines. All of them are untrusted.

A matrix that comes as .npy, .npz or Arrow is used as it lies in the body, and not parsed number by number.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import BaseModel

from hashstream.datasets.npy import read_array, read_header
from hashstream.serve.arrow import read_arrow
from hashstream.serve.json_text import read_json
from hashstream.serve.limits import Limits
from hashstream.serve.problems import Problem

__all__ = ["ARROW", "JSON", "MEDIA_TYPES", "NPY", "NPZ", "Parsed", "media_type", "parse", "settings_of"]

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
ARROW = "application/vnd.apache.arrow.stream"
MEDIA_TYPES = (JSON, NPY, NPZ, ARROW)
ARRAYS = ("ids", "vectors", "labels", "like")
LISTS = ("include",)
OBJECTS = ("where",)
MOST_NAMES = 1000

Model = TypeVar("Model", bound=BaseModel)


@dataclass
class Parsed(Generic[Model]):
    """A request: its settings by their schema, and arrays that came as such. nbytes : of its body."""

    ask: Model
    arrays: Mapping[str, Any] = field(default_factory=dict)
    nbytes: int = 0

    def get(self, name: str) -> Any:
        """An array, or the list in its place; None where there is neither."""
        return self.arrays[name] if name in self.arrays else getattr(self.ask, name, None)


def media_type(header: str) -> str:
    """The media type of a Content-Type header, without parameters.

    >>> media_type("Application/JSON; charset=utf-8")
    'application/json'
    """
    return header.partition(";")[0].strip().lower()


def parse(
    model: type[Model], kind: str, body: bytes, query: Mapping[str, list[str]], limits: Limits
) -> Parsed[Model]:
    """Read a body by its media type. query : parameters of the address, which hold the settings where the body cannot.

    Raises `Problem` or pydantic's `ValidationError`.
    """
    if kind == JSON or (not kind and not body):
        if body.count(b",") >= limits.values:
            raise Problem(
                "too-large",
                f"the JSON body holds more than {limits.values:,} values: send fewer rows at once, or arrays as .npz",
            )
        value = read_json(body or b"{}", "the body")
        if isinstance(value, dict):
            _check_names(value)
        return Parsed(model.model_validate(value, strict=True), nbytes=len(body))
    if kind == NPY:
        return _with_arrays(model, settings_of(query), {"vectors": _array(body, "the body")}, len(body))
    if kind == NPZ:
        arrays = _read_npz(body, limits)
        rest = arrays.pop("json", None)
        settings = {} if rest is None else _rest(rest)
        return _with_arrays(model, settings, arrays, len(body), strict=True)
    if kind == ARROW:
        settings, arrays = read_arrow(body, limits)
        return _with_arrays(model, {**settings_of(query), **settings}, arrays, len(body))
    raise Problem(
        "media-type",
        f"Content-Type {kind[:100]!r} is not understood here: send {', '.join(MEDIA_TYPES[:-1])} or {MEDIA_TYPES[-1]}",
    )


def _check_names(settings: Mapping[str, Any]) -> None:
    """Refuse objects with so many names that a list of all that is wrong with them would fill the memory."""
    for value in (settings, *settings.values()):
        if isinstance(value, dict) and len(value) > MOST_NAMES:
            raise Problem(
                "value", f"an object of the request has {len(value):,} names, more than {MOST_NAMES:,}"
            )


def settings_of(query: Mapping[str, list[str]]) -> dict[str, Any]:
    """Settings from the parameters of an address: `k=10&include=labels,fields&where={"tenant":"a"}`."""
    found: dict[str, Any] = {}
    for name, values in query.items():
        if name in LISTS:
            found[name] = [part for value in values for part in value.split(",") if part]
            continue
        if len(values) > 1:
            raise Problem("value", f"the parameter {name} is given {len(values)} times")
        value = values[0]
        found[name] = read_json(value, f"the parameter {name}", "value") if name in OBJECTS else value
    return found


def _with_arrays(
    model: type[Model],
    settings: dict[str, Any],
    arrays: Mapping[str, Any],
    nbytes: int,
    *,
    strict: bool = False,
) -> Parsed[Model]:
    """Settings by the schema of a model, with arrays in the place of some of its lists."""
    names = model.model_fields
    _check_names(settings)
    for name in arrays:
        if name not in names:
            raise Problem("value", f"there is no {name} in this request; it has {', '.join(names)}")
        if name in settings:
            raise Problem("value", f"{name} is given twice: as an array and as a setting")
    # A required list is there: as an array.
    empty: dict[str, Any] = {name: [] for name in arrays if names[name].is_required()}
    return Parsed(model.model_validate({**settings, **empty}, strict=strict or None), arrays, nbytes)


def _array(raw: bytes | memoryview, what: str) -> np.ndarray:
    """An array in the .npy format, as it lies in memory."""
    file = io.BytesIO(raw)
    try:
        header = read_header(file, len(raw))
        if header.dtype.kind in "bU":
            return read_array(file, header)  # which also checks each value: not every bit pattern is one
        flat = np.frombuffer(raw, header.dtype, header.size, file.tell())
        # Bytes in the other order would make the library take float32 for a type that it does not know.
        native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
        return native.reshape(header.shape, order="F" if header.fortran else "C")
    except (ValueError, OverflowError) as error:
        raise Problem("body", f"{what} is not a valid .npy array: {error}") from None


def _read_npz(body: bytes, limits: Limits) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            members = archive.infolist()
            if len(members) > len(ARRAYS) + 1:
                raise Problem(
                    "body",
                    f"the .npz body holds {len(members)} arrays; expected are {', '.join(ARRAYS)} and json",
                )
            total = sum(one.file_size for one in members)
            if total > limits.body_bytes:
                raise Problem(
                    "too-large", f"the .npz body unpacks to {total:,} bytes, more than {limits.body_bytes:,}"
                )
            found: dict[str, Any] = {}
            for one in members:
                name = one.filename.removesuffix(".npy")
                if name in found:
                    raise Problem("body", f"the .npz body holds {name} twice")
                if one.flag_bits & 1 or one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise Problem(
                        "body", f"{name} of the .npz body must be stored or deflated, and not encrypted"
                    )
                with archive.open(one) as file:
                    raw = file.read(one.file_size + 1)
                if len(raw) != one.file_size:
                    raise Problem("body", f"{name} of the .npz body is not as long as it says")
                found[name] = _array(raw, f"{name} of the .npz body")
            return found
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        OSError,
        RuntimeError,
        ValueError,
    ) as error:
        raise Problem("body", f"the body is not a valid .npz file: {error}") from None


def _rest(array: np.ndarray) -> dict[str, Any]:
    """The settings in the array `json`: a text with an object."""
    if array.ndim or array.dtype.kind not in "US":
        raise Problem("body", "json in the .npz body must be a text, as np.array('{}') is")
    value = array.item()
    found = read_json(value, "json in the .npz body")
    if not isinstance(found, dict):
        raise Problem("body", "json in the .npz body must hold an object")
    return found
