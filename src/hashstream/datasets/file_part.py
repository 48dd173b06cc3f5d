"""A file as a part of a stream: sent to another process as its path, opened where it is read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hashstream.datasets.errors import DatasetError
from hashstream.datasets.row_files import open_rows
from hashstream.datasets.rows import RowSource

__all__ = ["FilePart"]


@dataclass(frozen=True)
class FilePart:
    """A file with the columns to read from it, as `open_rows` takes them; a call opens it. For `hashstream.fit_parts`.

    path : made absolute, as another process may have another current folder.

    >>> FilePart.of("rows/one.npz", label="kind").name
    'rows/one.npz'
    """

    path: str
    name: str
    id: str | None = None
    label: str | None = None
    features: str | None = None
    header: bool = True
    text: bool = False
    dtype: str = "float32"

    @classmethod
    def of(
        cls,
        path: str | Path,
        *,
        id: str | None = None,
        label: str | None = None,
        features: str | None = None,
        header: bool = True,
        text: bool = False,
        dtype: str = "float32",
    ) -> FilePart:
        """The part of a file, named by the path as it is given."""
        if label is not None and label.lower().endswith(".npy"):
            label = str(Path(label).expanduser().absolute())
        where = str(Path(path).expanduser().absolute())
        return cls(where, str(path), id, label, features, header, text, dtype)

    def __call__(self) -> RowSource:
        return open_rows(
            self.path,
            id=self.id,
            label=self.label,
            features=self.features,
            header=self.header,
            text=self.text,
            dtype=self.dtype,
        )

    def fingerprint(self) -> str:
        """Changes with the path, the columns, and the size and time of the file and of its labels."""
        path = Path(self.path)
        labels = self.label if self.label is not None and self.label.lower().endswith(".npy") else None
        seen = []
        for one in (path, path.with_suffix(".labels.npy") if labels is None else Path(labels)):
            try:
                found = one.stat()
            except OSError as error:
                if one == path:
                    raise DatasetError(f"there is no file {path}") from error
                continue
            seen.append([str(one), found.st_size, found.st_mtime_ns])
        return json.dumps([asdict(self) | {"name": ""}, seen])
