"""Ids as text, from a command line, a URL or a file, and the ids of a table that they stand for."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.datasets.errors import DatasetError, reading
from hashstream.datasets.npy import read_npy
from hashstream.table.state.ids import as_ids

__all__ = ["find_ids", "read_ids"]

WHOLE = re.compile(r"-?[0-9]{1,19}")
SHOWN = 10  # texts in a message


def find_ids(table: Container[Any], texts: Iterable[str], *, missing_ok: bool = False) -> np.ndarray:
    """The stored ids that texts stand for, each once, in order: (n,) int64, or object holding str.

    "17" is the string if that is stored, and the number otherwise; a table has ids of one kind. KeyError if a text
    stands for no stored id; with `missing_ok`, such texts are left out.

    >>> find_ids({17, 18}, ["18", "17", "18"])
    array([18, 17])
    >>> find_ids({"17", "a b"}, ["17"])
    array(['17'], dtype=object)
    """
    found: dict[int | str, None] = {}  # ordered
    missing = []
    for text in dict.fromkeys(texts):
        if text in table:
            found[text] = None
        elif WHOLE.fullmatch(text) and int(text) in table:
            found[int(text)] = None
        else:
            missing.append(text)
    if missing and not missing_ok:
        more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
        raise KeyError(f"not in the table: {', '.join(missing[:SHOWN])}{more}")
    return as_ids(list(found))


def read_ids(path: Path) -> list[str]:
    """The ids in a file, as text: an .npy file of whole numbers or strings, or a text file with one id per line."""
    suffix = path.suffix.lower()
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    if suffix in (".npz", ".parquet", ".pq"):
        raise DatasetError(
            f"{path} ends in {path.suffix}: ids are read from an .npy file, or from text with one id per line"
        )
    if suffix == ".npy":
        ids = read_npy(path)
        if ids.ndim != 1 or ids.dtype.kind not in "iuU":
            raise DatasetError(
                f"{path} has shape {ids.shape} and holds {ids.dtype}: ids must be 1-D, whole numbers or strings"
            )
        return [str(one) for one in ids.tolist()]
    with reading(path, "text file in UTF-8"):
        lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip()]
