"""`Catalogue`: the tables of some folders by name. It opens, creates, deletes and closes them."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hashstream.hashers import methods
from hashstream.serve.images import Images
from hashstream.serve.kinds import TABLES, TableKind, kind_of
from hashstream.serve.limits import Limits
from hashstream.serve.problems import Problem
from hashstream.serve.schemas import NAME, CreateRequest
from hashstream.serve.served import Served
from hashstream.table import HashTable, TableError, policies

__all__ = ["HIDDEN", "Catalogue"]

log = logging.getLogger("hashstream.serve")

MOST_KEYS = 1000
HIDDEN = ".hashstream-"  # names of folders that are being made or deleted
Tell = Callable[[str, dict[str, Any]], None]


class Catalogue:
    """Tables by name: those in the given folders, and those that are created later.

    A folder is a table, or holds tables. New ones are created in the first folder that is not a table itself. Names
    are compared with those that are known, or checked against a pattern: nothing else of a request becomes a path.
    """

    def __init__(
        self,
        folders: list[Path],
        *,
        limits: Limits,
        read_only: bool,
        tell: Tell,
        images: Mapping[str | None, Images],
        kinds: Sequence[TableKind] = (),
    ) -> None:
        """kinds : of folders that are served, beside tables."""
        self._kinds = (TABLES, *kinds)
        self._limits, self._read_only, self._tell, self._images = limits, read_only, tell, images
        self._keys: OrderedDict[str, str] = OrderedDict()  # of tables that were created or deleted
        self._changing = threading.Lock()
        self.closing = False
        self._home = next((one for one in folders if kind_of(one, self._kinds) is None), None)
        self._served: dict[str, Served] = {}
        if self._home is not None and not read_only:
            self._home.mkdir(parents=True, exist_ok=True)
            _remove_remains(self._home)
        for folder in folders:
            if not folder.is_dir():
                raise ValueError(f"there is no folder {folder}")
        for path in _tables_in(folders, self._kinds):
            name = path.name
            if not re.fullmatch(NAME, name):
                raise ValueError(
                    f"{path} cannot be served: a table's name has letters, digits and . _ -, at most 64"
                )
            if name in self._served:
                raise ValueError(f"two tables are named {name}: {self._served[name].path} and {path}")
            self._served[name] = self._new(name, path)

    def _new(self, name: str, path: Path) -> Served:
        images = self._images.get(name, self._images.get(None))
        return Served(
            name,
            path,
            limits=self._limits,
            read_only=self._read_only,
            tell=self._tell,
            images=images,
            kind=kind_of(path, self._kinds) or TABLES,
        )

    def open_all(self) -> None:
        """Open the tables one after the other. One that fails is listed with its error, and the others are served."""
        for served in list(self._served.values()):
            if not self.closing:
                served.open()

    def look_again(self) -> None:
        """For a read-only service: open tables that another process has created since."""
        if self._read_only and self._home is not None:
            for path in _tables_in([self._home], self._kinds):
                if path.name not in self._served and re.fullmatch(NAME, path.name):
                    served = self._served[path.name] = self._new(path.name, path)
                    served.open()

    @property
    def ready(self) -> bool:
        return all(served.state != "opening" for served in list(self._served.values()))

    def __iter__(self) -> Any:
        return iter(sorted(self._served.values(), key=lambda served: served.name))

    def __getitem__(self, name: str) -> Served:
        """`Problem` where there is no such table."""
        served = self._served.get(name)
        if served is None:
            raise Problem("no-table", f"there is no table {name!r}")
        return served

    def _done(self, key: str | None, what: str) -> bool:
        """Whether a request with this key was done by this process; `Problem` where it was another. what : it asks."""
        before = None if key is None else self._keys.get(key)
        if before not in (None, what):
            raise Problem("key-reused", f"the Idempotency-Key {key!r} was used for another request")
        return before is not None

    def _remember(self, key: str | None, what: str) -> None:
        if key is not None:
            self._keys[key] = what
            while len(self._keys) > MOST_KEYS:
                self._keys.popitem(last=False)

    def create(self, ask: CreateRequest, key: str | None = None) -> Served:
        """Create a table, and open it; it is there, whole, or not at all. key : of a request that may be repeated."""
        if self._read_only:
            raise Problem(
                "read-only", "this service is read-only: start it without --read-only to create tables"
            )
        if self._home is None:
            raise Problem(
                "table", "this service serves single tables: start it with a folder to create tables in"
            )
        hasher = _hasher(ask)
        given = ask.model_dump(
            include={"durability", "keep_features", "max_versions", "sample_size", "checkpoint_rows", "index"}
        )
        given["policy"] = _policy(ask.policy)
        what = f"create {ask.model_dump_json()}"
        with self._changing:
            if self._done(key, what) and ask.name in self._served:
                return self._served[ask.name]
            path = self._home / ask.name
            taken = {name.casefold() for name in self._served}
            if ask.name.casefold() in taken or path.exists():
                raise Problem("exists", f"there is a table {ask.name!r} already")
            if len(self._served) >= self._limits.tables:
                raise Problem("busy", f"this service has {self._limits.tables} tables, as many as it may")
            draft = self._home / f"{HIDDEN}new-{secrets.token_hex(8)}"
            try:
                HashTable.open(draft, hasher, fields=ask.fields, **given).close()
                draft.rename(path)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            served = self._served[ask.name] = self._new(ask.name, path)
            self._remember(key, what)
        served.open()
        self._tell("table", {"table": ask.name, "what": "created"})
        return served

    def delete(self, name: str, key: str | None = None) -> None:
        """Close a table and remove its folder, whole: it is renamed first."""
        with self._changing:
            if self._done(key, f"delete {name}"):
                return
            served = self[name]
            if self._read_only:
                raise Problem(
                    "read-only", "this service is read-only: start it without --read-only to delete tables"
                )
            if not served.kind.removable:
                raise Problem(
                    "not-supported", f"{name!r} is {served.kind.name}, which cannot be deleted over HTTP"
                )
            if served.state == "opening":
                raise Problem("starting", f"the table {name!r} is being opened: try again", retry_after=1)
            if served.state == "failed":
                served.open()  # a damaged table may be deleted, but not that of another process
                if served.locked:
                    raise TableError(f"{name} cannot be deleted: {served.error}")
            served.close()
            grave = served.path.with_name(f"{HIDDEN}deleted-{secrets.token_hex(8)}")
            try:
                served.path.rename(grave)
            except OSError as error:
                self._served[name] = self._new(name, served.path)
                self._served[name].open()
                raise TableError(f"{name} could not be deleted: {error.strerror or error}") from error
            del self._served[name]
            self._remember(key, f"delete {name}")
        shutil.rmtree(grave, ignore_errors=True)
        self._tell("table", {"table": name, "what": "deleted"})

    def close(self) -> None:
        """Finish all writes that wait, and close all tables; open no more."""
        self.closing = True
        for served in list(self._served.values()):
            try:
                served.close()
            except Exception:
                log.exception("%s could not be closed", served.path)


def _tables_in(folders: list[Path], kinds: Sequence[TableKind]) -> list[Path]:
    """The folders that are tables, and the tables in the others."""
    found: list[Path] = []
    for folder in folders:
        if kind_of(folder, kinds) is not None:
            found.append(folder.resolve())
            continue
        for path in sorted(folder.iterdir()):
            if not path.name.startswith(".") and kind_of(path, kinds) is not None:
                found.append(path.absolute())
    return found


def _remove_remains(folder: Path) -> None:
    """Remove drafts, copies and deleted tables that a service left behind when it was killed."""
    for path in folder.glob(f"{HIDDEN}*"):
        shutil.rmtree(path, ignore_errors=True)


def _policy(given: str | dict[str, Any] | None) -> Any:
    if not isinstance(given, dict):
        return given
    try:
        return policies.from_fields(given)
    except (KeyError, TypeError, AttributeError):
        raise ValueError(
            'policy must be as "every:100", or {"name": "every", "settings": {"k": 100}}'
        ) from None


def _hasher(ask: CreateRequest) -> Any:
    known = {name.casefold(): method for name, method in methods(variants=True).items()}
    method = known.get(ask.method.casefold())
    if method is None:
        raise ValueError(f"there is no method {ask.method!r}: choose from {', '.join(methods())}")
    try:
        hasher = method(n_bits=ask.n_bits, **ask.parameters)
    except TypeError as error:
        raise ValueError(f"{ask.method}: {error}") from None
    hasher.check_parameters()
    return hasher
