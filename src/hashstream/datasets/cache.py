"""The folders that are searched for data sets."""

from __future__ import annotations

import os
from pathlib import Path

from hashstream.datasets.errors import DatasetError

__all__ = ["cache_folder", "data_folder", "search_path"]


def data_folder() -> Path | None:
    """The folder that HASHSTREAM_DATA names, or None if it is unset or empty."""
    named = os.environ.get("HASHSTREAM_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"HASHSTREAM_DATA is {named!r}, which is not a folder")
    return folder


def cache_folder() -> Path:
    """The folder for downloads: HASHSTREAM_CACHE, else $XDG_CACHE_HOME/hashstream, else ~/.cache/hashstream.

    It need not exist yet.
    """
    if named := os.environ.get("HASHSTREAM_CACHE"):
        return Path(named).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # unset, or relative, which the XDG specification tells us to ignore
        base = Path.home() / ".cache"
    return base / "hashstream"


def search_path() -> list[tuple[str, Path]]:
    """The folders to search, in order, each with its name for messages."""
    own = data_folder()
    return ([("HASHSTREAM_DATA", own)] if own is not None else []) + [("the cache", cache_folder())]
