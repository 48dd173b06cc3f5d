"""Files that are read in pieces, whatever their size: .npy, .npz, .csv, .tsv and Parquet.

`open_rows` reads the head of a file; `RowSource.pieces` then reads the rows from the beginning, some at a time. An .npz
file is unpacked as it is read, text is parsed line by line, and Parquet by row groups: memory is bounded by the piece
(and, for .npy and .npz files, by ids and labels). Files are not trusted: whatever is wrong with one is a DatasetError
that names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from hashstream.datasets.columns import Columns
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.rows import RowSource
from hashstream.datasets.rows_npy import NpyRows, NpzRows
from hashstream.datasets.rows_tables import ParquetRows, TextRows

__all__ = ["SUFFIXES", "open_rows"]

SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".parquet", ".pq")


def open_rows(
    path: str | Path,
    *,
    id: str | None = None,
    label: str | None = None,
    features: str | None = None,
    fields: Iterable[str] = (),
    payload: Iterable[str] = (),
    header: bool = True,
    text: bool = False,
    dtype: DTypeLike = np.float32,
) -> RowSource:
    """Open a file by its suffix; DatasetError says what is wrong with it, or what is missing.

    .csv, .tsv, .parquet: columns by name. .npz: arrays by name. .npy: the features alone.

    id, label, features : names of columns or arrays. By default: `id` or `ids`; `label`, `labels` or `y`; for the
        features `features`, `x`, `X`, `embedding` or `vector` if such an array (or Parquet column of lists) exists, and
        otherwise all other columns of a table. Features may be several names separated by commas, and patterns such as
        `pixel*`; so may labels, which are then a matrix of 0 and 1.
        id and label may also be .npy files with one entry per row. NAME.ids.npy and NAME.labels.npy next to NAME.npy
        are found automatically.
    fields : columns or arrays that are no features, and neither id nor label unless named as such. Those that the file
        has are in `Rows.fields`. In an .npy file there are none.
    payload : names and patterns of more of these, which the file must have, for `Rows.payload`. "*" is all that is
        nothing else; where the features are all other columns by default, they have to be named then.
    header : whether the first line of a .csv file has the names; without, they are 0, 1, 2, ...
    text : take ids and labels as text. Otherwise they are integers if the first piece has nothing else.
    dtype : of the features.

    An empty cell, an empty string, a null or a NaN among the labels is a row without a label. Every row needs features,
    and an id if there are ids. In fields and payload, an empty cell, an empty string in an array, a null or a NaN is a
    missing value.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "pets.csv"
    >>> _ = path.write_text("id,weight,height,label\\nrex,30.5,60,dog\\ntom,4,25,cat\\n")
    >>> (piece,) = open_rows(path).pieces(1000)
    >>> piece.ids.tolist(), piece.X.tolist(), piece.y.tolist()
    (['rex', 'tom'], [[30.5, 60.0], [4.0, 25.0]], ['dog', 'cat'])
    >>> folder.cleanup()
    """
    path = Path(path).expanduser()
    suffix = path.suffix.lower()
    if path.is_dir():
        raise DatasetError(f"{path} is a folder, not a file")
    if suffix not in SUFFIXES:
        raise DatasetError(f"{path} ends in {suffix or 'nothing'}: it has to be one of {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    columns = Columns(id, label, features, tuple(fields), tuple(payload))
    if suffix == ".npy":
        return NpyRows(path, columns, dtype=dtype, text=text)
    if suffix == ".npz":
        return NpzRows(path, columns, dtype=dtype, text=text)
    if suffix in (".csv", ".tsv"):
        return TextRows(path, columns, header=header, dtype=dtype, text=text)
    return ParquetRows(path, columns, dtype=dtype, text=text)
