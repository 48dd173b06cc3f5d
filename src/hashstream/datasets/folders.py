"""Where data sets live on this machine, and what is raised when one cannot be had."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

__all__ = ["DatasetError", "cache_folder", "data_folder", "names_in_npz", "read_npz", "search_path"]


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


def names_in_npz(path: Path) -> list[str]:
    """The names of the arrays in an .npz file."""
    with _reading_npz(path), np.load(path, allow_pickle=False) as stored:
        return list(stored.files)


def read_npz(path: Path, *keys: str) -> dict[str, np.ndarray]:
    """The named arrays of an .npz file. A file that is cut short, altered or without them raises."""
    with _reading_npz(path), np.load(path, allow_pickle=False) as stored:
        if missing := [key for key in keys if key not in stored.files]:
            raise DatasetError(f"{path} has no array {missing[0]!r}: it needs {', '.join(keys)}")
        return {key: stored[key] for key in keys}


@contextmanager
def _reading_npz(path: Path) -> Iterator[None]:
    try:
        yield
    except (AttributeError, TypeError) as error:  # one bare array, which np.load does not wrap
        raise DatasetError(
            f"{path} cannot be read as an .npz file (it holds one array without a name)"
        ) from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read as an .npz file ({reason(error)})") from error


def reason(error: Exception) -> str:
    """Why NumPy could not read a file, without its advice to unpickle what nobody knows."""
    text = str(error)
    if "contains pickled" in text or "magic string" in text:
        return "it is none"
    if "Object arrays" in text or "Python objects" in text:
        return "it holds Python objects, not numbers or text"
    return text
