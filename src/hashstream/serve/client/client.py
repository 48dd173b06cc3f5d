"""`Client`: tables of a service, used from another process or machine. It needs the library only."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any, NoReturn, Self
from urllib.parse import quote

from hashstream.hashers.validation import check_count
from hashstream.serve.client.errors import bad_answer
from hashstream.serve.client.event_stream import EventStream
from hashstream.serve.client.remote_access import Access
from hashstream.serve.client.remote_answers import read_object
from hashstream.serve.client.remote_table import RemoteTable
from hashstream.serve.client.request_bodies import json_bytes
from hashstream.serve.client.sending import JSON, Request, Sender, as_key, check_kind
from hashstream.table.policies import Policy, to_fields
from hashstream.table.settings import Durability, Indexing
from hashstream.table.state.columns import field_kinds

__all__ = ["Client"]

TABLES = "/v1/tables"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Client:
    """Tables of a service (`hashstream serve`); see `RemoteTable` for what can be done with one.

    Any number of threads may use one client. A forked process may use it as well: it opens connections of its own.

    Examples
    --------
    A session, with a service at this address:

        import hashstream as hs

        with hs.Client("https://search.example.com", token=os.environ["HASHSTREAM_TOKEN"]) as client:
            photos = client.create("photos", method="FCOH", n_bits=64, fields={"tenant": str})
            photos.ingest(ids, X, y, fields={"tenant": tenants})
            distances, ids = photos.search(Q, k=10, where={"tenant": "a"})

    >>> Client("http://localhost:8000", token="secret")
    <Client of http://localhost:8000>
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 5,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Nothing is sent before the first call.

        url : of the service, http or https, such as "http://localhost:8000".
        token : that the service asks for. It is sent to this address only: redirects are not followed.
        timeout : seconds for one attempt of a request, from its connection to the last byte of the answer.
        retries : further attempts where the service cannot be reached, takes too long, or answers that it may do it
            later (408, 429, 503). The pauses between them grow, and are at least as long as the service asks for.
            Writes are safe to repeat: each has a key, and the service does it once.
        tls : for https, such as with a certificate authority of your own; by default, that of the system.
        """
        self._retries = check_count("retries", retries, 0)
        self._sender = Sender(url, token, timeout=timeout, retries=retries, context=tls)

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._sender.url

    def tables(self) -> list[str]:
        """The names of the service's tables; `table(name).info()` describes one."""
        found = self._ask(Request("GET", TABLES)).get("tables")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise bad_answer(self.url, "no list of tables")
        names = [one.get("name") for one in found]
        if not all(isinstance(name, str) for name in names):
            raise bad_answer(self.url, "a table without a name")
        return names

    def table(self, name: str) -> RemoteTable:
        """A table of the service; KeyError where there is none of this name."""
        return RemoteTable(Access(self._sender, _checked(name)))

    def create(
        self,
        /,
        name: str,
        method: str = "PosteriorHash",
        n_bits: int = 64,
        *,
        fields: Mapping[str, Any] | None = None,
        policy: Policy | str | None = None,
        durability: Durability | None = None,
        keep_features: bool | None = None,
        max_versions: int | None = None,
        sample_size: int | None = None,
        checkpoint_rows: int | None = None,
        index: Indexing | None = None,
        key: str | None = None,
        **parameters: Any,
    ) -> RemoteTable:
        """Create an empty table; TableError where there is one of this name.

        method, n_bits, parameters : of the hasher, such as `method="FCOH", n_bits=64, random_state=0`.
        fields, policy, durability, keep_features, max_versions, sample_size, checkpoint_rows, index : as for
            `HashTable.open`.
        key : that makes the call safe to repeat; a new one by default.
        """
        ask = {
            "name": _checked(name),
            "method": method,
            "n_bits": n_bits,
            "parameters": parameters,
            "fields": field_kinds(fields or {}),
            "policy": to_fields(policy) if isinstance(policy, Policy) else policy,
            "durability": durability,
            "keep_features": keep_features,
            "max_versions": max_versions,
            "sample_size": sample_size,
            "checkpoint_rows": checkpoint_rows,
            "index": index,
        }
        info = self._ask(Request("POST", TABLES, json_bytes(ask), JSON, key=as_key(key)))
        return RemoteTable(Access(self._sender, name, info))

    def delete(self, name: str, *, key: str | None = None) -> None:
        """Delete a table and everything in it; KeyError where there is none of this name."""
        self._sender.send(Request("DELETE", f"{TABLES}/{_checked(name)}", key=as_key(key)))

    def events(self, table: str | None = None) -> EventStream:
        """Events of the service as they happen, as dicts: commits, and tables that are created or deleted.

        table : only those of one table.

        The iteration has no end of its own: `close` it, or leave its `with` block:

            with client.events("photos") as events:
                for event in events:
                    if event["event"] == "commit":
                        print(event["n_items"])
        """
        path = "/v1/events" + ("" if table is None else f"?table={quote(_checked(table))}")
        return EventStream(self._sender, path, most_failures=self._retries)

    def close(self) -> None:
        """Close the connections. A closed client cannot be used."""
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"  # without the token

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be copied or sent to another process: create one there")

    def _ask(self, request: Request) -> dict[str, Any]:
        head, raw = self._sender.send(request)
        check_kind(head, JSON, self.url)
        try:
            return read_object(raw)
        except ValueError as error:
            raise bad_answer(self.url, str(error)) from error


def _checked(name: str) -> str:
    """A name that a table can have, so that it can be part of an address."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(
            f"the name of a table has letters, digits and . _ -, at most 64, and begins with a letter or a digit, not "
            f"{name!r:.200}"
        )
    return name
