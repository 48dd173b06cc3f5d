"""`Access`: requests about one table of a service, and what the client knows about that table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import numpy as np

from hashstream.hashers import LSH, FormatError, OnlineHasher, methods
from hashstream.hashers.serialization import from_bytes
from hashstream.hashers.validation import as_array, check_rows, without_names
from hashstream.serve.client.errors import NoSuchTable, bad_answer
from hashstream.serve.client.remote_answers import ArrayAnswer, count_in, read_object
from hashstream.serve.client.request_bodies import (
    Body,
    as_matrix,
    is_plain,
    json_bytes,
    parameters,
    plain_filter,
)
from hashstream.serve.client.sending import JSON, MAX_ARRAYS, NPY, NPZ, Request, Sender, as_key, check_kind
from hashstream.serve.npz import npy_bytes
from hashstream.table.errors import Closed
from hashstream.table.state.columns import KINDS

__all__ = ["Access"]

LONGEST_ADDRESS = 4000  # characters of parameters; longer ones go into the body
BYTES = "application/octet-stream"

T = TypeVar("T")


class Access:
    """Requests about one table. A description of the table is kept: of its fields, types never change, and names are
    only ever added. So it is asked for again only where something does not fit."""

    def __init__(self, sender: Sender, name: str, info: Mapping[str, Any] | None = None) -> None:
        """info : the service's description of the table, where it is known."""
        self.sender, self.name, self.closed = sender, name, False
        self._base = f"/v1/tables/{quote(name, safe='')}"
        self._info: Mapping[str, Any] = {}
        self._kinds: dict[str, str] = {}
        if info is None:
            self.info()
        else:
            self._learn(info)

    # ---- the description

    def info(self) -> Mapping[str, Any]:
        """The service's current description of the table; `NoSuchTable` where there is none."""
        self._learn(self.ask(""))
        return self._info

    def _learn(self, info: Mapping[str, Any]) -> None:
        fields = info.get("fields")
        if not isinstance(fields, dict) or not all(kind in list(KINDS) for kind in fields.values()):
            raise bad_answer(self.sender.url, "fields of a table that are none")
        self._info, self._kinds = info, dict(fields)

    def kinds(self, names: list[str]) -> Mapping[str, str]:
        """Types of the table's fields: all that are known, these among them if the table has them."""
        if any(name not in self._kinds for name in names):
            self.info()
        return self._kinds

    def id_kind(self) -> Literal["int", "str"] | None:
        match self.info().get("ids"):
            case None:
                return None
            case "int":
                return "int"
            case "str":
                return "str"
        raise bad_answer(self.sender.url, "ids of an unknown kind")

    # ---- arguments

    def rows(self, X: Any) -> np.ndarray:
        """Features to be stored, (n, d), as they travel; what the library's own check refuses is refused here."""
        rows = as_matrix(X)
        return check_rows(self._stand_in(), without_names(X), first=True) if rows is None else rows

    def queries(self, Q: Any) -> np.ndarray:
        """Queries, likewise."""
        rows = as_matrix(Q)
        if (
            rows is None and self.info().get("n_features") is None
        ):  # as long as there are no functions, any do
            given = as_array(Q)
            if given.ndim != 2:
                raise ValueError(f"Q must be 2-D, one query per row, not of shape {given.shape}")
            rows = np.zeros((len(given), 1), np.float32)
        return check_rows(self._stand_in(), without_names(Q), first=True) if rows is None else rows

    def _stand_in(self) -> OnlineHasher:
        """A hasher of the table's method, whose name is in errors."""
        method = self._info.get("method")
        return methods(variants=True).get(method if isinstance(method, str) else "", LSH)()

    def filter(self, where: Any) -> Any:
        """A filter as JSON has it."""
        if type(where) is dict and is_plain(where):
            return where
        try:
            return self._filter(where)
        except (TypeError, ValueError):  # it may fit what the table has become meanwhile
            self.info()
            return self._filter(where)

    def _filter(self, where: Any) -> Any:
        ids = self._info.get("ids")
        return plain_filter(where, self._kinds, ids if ids in ("int", "str") else None)

    def put_fields(self, body: Body, fields: Any, n: int) -> None:
        """Fields of n rows."""
        try:
            body.put_fields(fields, self._kinds, n)
        except (TypeError, ValueError):
            self.info()
            body.put_fields(fields, self._kinds, n)

    # ---- requests

    def path(self, route: str) -> str:
        return f"{self._base}/{route}" if route else self._base

    def ask(self, route: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A request that changes nothing, answered in JSON; without a body it is a GET."""
        self.refuse_if_closed()
        if body is None:
            return self._object(Request("GET", self.path(route)))
        return self._object(Request("POST", self.path(route), json_bytes(body), JSON))

    def write(self, route: str, body: Body | Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """A request that changes the table."""
        self.refuse_if_closed()
        raw, kind = (body.to_bytes(), NPZ) if isinstance(body, Body) else (json_bytes(body), JSON)
        return self._object(Request("POST", self.path(route), raw, kind, key=as_key(key)))

    def write_and_count(
        self, route: str, body: Body | Mapping[str, Any], name: str, key: str | None = None
    ) -> int:
        """A request that changes the table, whose answer is a number."""
        found = self.write(route, body, key)
        return self.understood(lambda: count_in(found, name))

    def arrays(self, route: str, body: Body | Mapping[str, Any]) -> ArrayAnswer:
        """A request that changes nothing, answered in arrays."""
        raw, kind = (body.to_bytes(), NPZ) if isinstance(body, Body) else (json_bytes(body), JSON)
        return self._arrays(Request("POST", self.path(route), raw, kind, NPZ))

    def arrays_of_queries(self, route: str, rows: np.ndarray, settings: Mapping[str, Any]) -> ArrayAnswer:
        """A search. One matrix is the least to pack, with the settings in the address, as long as they fit there."""
        address = parameters(settings)
        if len(address) <= LONGEST_ADDRESS:
            return self._arrays(Request("POST", self.path(route) + address, npy_bytes(rows), NPY, NPZ))
        body = Body(**settings)
        body.put_vectors(rows)
        return self.arrays(route, body)

    def knows(self, body: Body) -> bool:
        """Whether all ids of a body are stored."""
        try:
            self.arrays("items/get", body)
        except NoSuchTable:
            raise
        except KeyError:
            return False
        return True

    def hasher(self) -> OnlineHasher:
        self.refuse_if_closed()
        url = self.sender.url
        head, raw = self.sender.send(Request("GET", self.path("hasher"), accept=BYTES), limit=MAX_ARRAYS)
        check_kind(head, BYTES, url)
        try:
            return from_bytes(bytes(raw), f"{url}{self.path('hasher')}")
        except FormatError as error:
            raise bad_answer(url, f"a hasher that cannot be read ({error})") from error

    def _object(self, request: Request) -> dict[str, Any]:
        head, raw = self.sender.send(request)
        if head.status == 204:
            return {}
        check_kind(head, JSON, self.sender.url)
        return self.understood(lambda: read_object(raw))

    def _arrays(self, request: Request) -> ArrayAnswer:
        self.refuse_if_closed()
        head, raw = self.sender.send(request, limit=MAX_ARRAYS)
        check_kind(head, NPZ, self.sender.url)
        return self.understood(lambda: ArrayAnswer(raw))

    def understood(self, read: Callable[[], T]) -> T:
        """Read an answer; TableError where it is not what was asked for."""
        try:
            return read()
        except NoSuchTable:  # which was deleted while a part of the answer was asked for
            raise
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise bad_answer(self.sender.url, str(error)) from error

    # ---- the end

    def refuse_if_closed(self) -> None:
        if self.closed:
            raise Closed("the table is closed")

    def close(self) -> None:
        self.closed = True
