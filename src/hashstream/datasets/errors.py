"""The error of this package, and readers of files that raise nothing else."""

from __future__ import annotations

import csv
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["DatasetError", "reading"]


class DatasetError(RuntimeError):
    """A data set is missing, cannot be downloaded, or its file is damaged. The message says what to do."""


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
"""Exceptions that parsers raise on a file that is truncated, altered, hostile, or of another format."""


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a parser raises within the block into a DatasetError that names the file.

    what : the expected format, such as ".npy file".
    """
    if path.exists() and not path.is_file():  # a pipe would never end
        raise DatasetError(f"{path} is not a file")
    try:
        yield
    except DatasetError:
        raise
    except UNREADABLE as error:
        why = (str(error) or type(error).__name__)[:500]
        problem = "cannot be read" if isinstance(error, OSError | MemoryError) else f"is not a valid {what}"
        raise DatasetError(f"{path} {problem} ({why})") from error
