"""The client has the methods of a table, with the same arguments."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys

import pytest
from tests.serve.fake_service import INFO, as_json, fake_service

import hashstream as hs
from hashstream.serve.client.remote_table import RemoteTable
from hashstream.table import TableError

OF_A_FOLDER = {
    "open", "exists", "ingest_files", "paused", "in_doubt", "sample_ids", "adopt", "codes", "digest", "export",
    "restore", "has", "ids_in_order", "sequences", "created_with", "creation",
}  # fmt: skip
"""Methods of a table that only make sense where its folder is, or that shards of a cluster need."""

OF_SHARDS = {
    "add": {"sequence"}, "ingest": {"sequence"}, "label": {"learn", "sequence"}, "remove": {"sequence"},
}  # fmt: skip
"""Arguments for feeds and shards. Over HTTP, keys make calls repeatable, and one writer puts them in order."""

OF_CLUSTERS = {"search": {"partial"}, "search_radius": {"partial"}}
"""Arguments that a table refuses, and a cluster takes."""

ONLY_REMOTE = {"name", "info"}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_the_methods_of_a_table() -> None:
    assert public(hs.HashTable) - public(RemoteTable) == OF_A_FOLDER
    assert public(RemoteTable) - public(hs.HashTable) == ONLY_REMOTE
    for name in ("__len__", "__iter__", "__contains__", "__enter__", "__exit__"):
        assert hasattr(RemoteTable, name)


@pytest.mark.parametrize("name", sorted(public(RemoteTable) & public(hs.HashTable)))
def test_the_same_arguments(name: str) -> None:
    mine, theirs = getattr(RemoteTable, name), getattr(hs.HashTable, name)
    if isinstance(theirs, property):
        assert isinstance(mine, property)
        return
    wanted = dict(inspect.signature(theirs).parameters)
    for one in OF_SHARDS.get(name, ()):
        del wanted[one]
    found = dict(inspect.signature(mine).parameters)
    for one in OF_CLUSTERS.get(name, ()):
        del found[one]
    assert found == wanted


def test_lazily() -> None:
    """The package does not import the client, nor the client any library of the service."""
    program = (
        "import sys, hashstream\n"
        "assert 'hashstream.serve.client.client' not in sys.modules\n"
        "hashstream.Client, hashstream.AsyncClient\n"
        "assert not {'fastapi', 'starlette', 'pydantic', 'uvicorn', 'requests', 'httpx'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_it_is_not_copied() -> None:
    with fake_service(as_json(INFO)) as service, hs.Client(service.url, "hs_secret") as client:
        for one in (client, client.table("t")):
            for send in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be copied or sent to another process"):
                    send(one)


def test_a_closed_table() -> None:
    with fake_service(as_json(INFO)) as service, hs.Client(service.url) as client:
        with client.table("t") as table:
            assert repr(table) == f"<RemoteTable t at {service.url}>"
            assert table.name == "t"
            assert table.path is None
            assert table.writer() is table
            assert table.reload() is False
        assert repr(table) == f"<RemoteTable t at {service.url}, closed>"
        calls = (table.count, table.ids, table.flush, table.reload, table.info, lambda: 3 in table)
        for call in calls:
            with pytest.raises(TableError, match=r"^the table is closed$"):
                call()
        assert client.table("t").name == "t"


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a?b", "a b", "ü", "x" * 65, "a\n", 3, None])
def test_names_that_are_none(name: str) -> None:
    with fake_service(as_json(INFO)) as service, hs.Client(service.url) as client:
        for call in (client.table, client.delete, client.create, client.events):
            if name is None and call == client.events:
                continue
            with pytest.raises(ValueError, match="the name of a table"):
                call(name)
        assert not service.asked
