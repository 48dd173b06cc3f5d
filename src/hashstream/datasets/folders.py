"""Where data sets live on this machine, and what is raised when one cannot be had."""

from __future__ import annotations

import csv
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["DatasetError", "cache_folder", "data_folder", "reading", "search_path"]


class DatasetError(RuntimeError):
    """A data set is not here, cannot be downloaded, or its file is damaged. The message says what to do."""


def data_folder() -> Path | None:
    """The folder that HASHSTREAM_DATA names, None where it is unset or empty."""
    named = os.environ.get("HASHSTREAM_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"HASHSTREAM_DATA is {named!r}, which is not a folder")
    return folder


def cache_folder() -> Path:
    """Where downloads are kept: HASHSTREAM_CACHE, else $XDG_CACHE_HOME/hashstream, else ~/.cache/hashstream.

    It need not exist yet.
    """
    if named := os.environ.get("HASHSTREAM_CACHE"):
        return Path(named).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # unset, or relative, which the XDG specification tells us to ignore
        base = Path.home() / ".cache"
    return base / "hashstream"


def search_path() -> list[tuple[str, Path]]:
    """The folders in which files are looked for, first come first, each with how to call it in a sentence."""
    own = data_folder()
    return ([("HASHSTREAM_DATA", own)] if own is not None else []) + [("the cache", cache_folder())]


UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    AssertionError,
    AttributeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    csv.Error,
)
"""What readers of files raise on one that is cut short, altered, hostile, or something else."""


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Within the block, whatever a reader of files raises becomes a DatasetError that names the file.

    what : such as "an .npy file".
    """
    if path.exists() and not path.is_file():  # a pipe would never end
        raise DatasetError(f"{path} is not a file")
    try:
        yield
    except DatasetError:
        raise
    except UNREADABLE as error:
        why = str(error) or type(error).__name__
        raise DatasetError(f"{path} cannot be read as {what} ({why[:500]})") from error
