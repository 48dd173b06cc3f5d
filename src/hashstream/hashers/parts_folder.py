"""The learners of finished parts, kept in a folder: what `fit_parts` need not learn again after an interruption."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hashstream._files import write_file
from hashstream.hashers.errors import FormatError
from hashstream.hashers.labels import as_labels
from hashstream.hashers.serialization import from_bytes

__all__ = ["LearnerFolder", "is_kept", "keep", "remove_learners"]

FILES = "learner-*.safetensors*"
"""Names of files that are ours, those that were being written when a process was killed among them."""

_logger = logging.getLogger("hashstream")


class LearnerFolder:
    """A folder with one file per finished part, named by the part and a fingerprint of all that its learner follows
    from: the hasher to start with, the rows that are learned at once, and the part itself."""

    def __init__(self, path: Path, start: bytes, rows: int) -> None:
        self._path = path
        self._start = hashlib.sha256(start).hexdigest() + f"/{rows}"

    def file(self, name: str, part: Any) -> Path | None:
        """The file for the learner of a part as it is now, to be asked for before it is read; None where the part has
        no fingerprint."""
        found = fingerprint(part)
        if found is None:
            return None
        digest = hashlib.sha256(f"{self._start}/{found}".encode()).hexdigest()[:32]
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(name).name)[:60]
        return self._path / f"learner-{plain}-{digest}.safetensors"


def is_kept(file: Path, name: str) -> bool:
    """Whether a file has the learner of a part, undamaged. name : of the part, for the log."""
    if not file.exists():
        return False
    try:
        from_bytes(file.read_bytes(), file)
    except (FormatError, OSError) as error:
        _logger.warning("%s is learned again: %s", name, error)
        return False
    return True


def keep(file: Path, raw: bytes) -> None:
    """Write a learner, completely or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, raw)


def fingerprint(part: Any) -> str | None:
    """A text that differs for other rows: the part's own `fingerprint()`, or a checksum of a pair of arrays; None for
    parts of which nothing is known before they are read."""
    own = getattr(part, "fingerprint", None)
    if callable(own):
        return str(own())
    if not isinstance(part, tuple):
        return None
    X, y = np.ascontiguousarray(part[0]), part[1]
    sha = hashlib.sha256(f"{X.dtype.str} {X.shape}".encode())
    sha.update(X.data if X.dtype != object else repr(X.tolist()).encode())
    if y is not None:
        labels = as_labels(y)
        plain = labels.dtype.kind in "iubf"
        sha.update(f"{labels.dtype.str} {labels.shape}".encode())
        sha.update(labels.tobytes() if plain else json.dumps(labels.tolist(), default=repr).encode())
    return sha.hexdigest()


def remove_learners(work: str | os.PathLike[str]) -> None:
    """Remove the learners that `fit_parts` has kept in a folder, and the folder where nothing else is in it."""
    for path in Path(work).glob(FILES):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # somebody else's files are in it
        Path(work).rmdir()
