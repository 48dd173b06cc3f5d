"""The record of a data set: all that is known about it in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

__all__ = ["Found", "Progress", "Record", "Setting", "Source"]

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes received so far, and the total (None if it was not announced)."""

Found = tuple[str, Path | None]
"""The name of a place on this machine, for messages, and the path there."""


@dataclass(frozen=True)
class Setting:
    """The size of an experiment: queries per class, rows to learn from, and rows between two checkpoints.

    min_class: classes with fewer rows are not asked for: no query has such a class, but its rows are learned and
    searched like all others. 0: every class is asked for.

    >>> Setting(per_class=100, stream=20_000, every=6_000).checkpoints
    (6000, 12000, 18000, 20000)
    """

    per_class: int
    stream: int
    every: int
    min_class: int = 0

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Numbers of learned rows; the last is the whole stream."""
        return (*range(self.every, self.stream, self.every), self.stream)


class Source(Protocol):
    """A place that a data set is loaded from.

    file : name of the file in HASHSTREAM_DATA or the cache, "" if there is none.
    origin : for a file that cannot be downloaded, a sentence that says where it comes from; otherwise "".
    downloadable : whether `load` downloads it if it is not on this machine.
    """

    @property
    def file(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def downloadable(self) -> bool: ...

    def find(self) -> Found | None:
        """The place on this machine, or None. Nothing is read."""

    def load(self, record: Record, progress: Progress | None) -> tuple[np.ndarray, np.ndarray, str]:
        """Features (n, d), labels (n,), and a description of the place that can follow "MNIST, "."""


@dataclass(frozen=True)
class Record:
    """A data set by name.

    name, title : for commands and for readers. about : its content in a few words.
    rows, features, classes : its size. exact : False if the number of rows is not known exactly.
    note : a sentence that says what figures measured on it can be compared with.
    source : where it is loaded from. image_shape : (height, width) if its rows are images.
    setting : the size of experiments on it; the paper's, if the paper has the data set.
    paper_settings : the data set of the paper whose settings of methods are used here.
    paper_role : "same" if it is the paper's data set with the paper's features, "stand-in" if it takes the place of one
        with other features, "none" otherwise.
    headline : the metric that the paper reports for such data.
    """

    name: str
    title: str
    about: str
    rows: int
    features: int
    classes: int
    note: str
    source: Source
    setting: Setting
    paper_settings: str
    paper_role: Literal["same", "stand-in", "none"] = "none"
    headline: Literal["mAP", "mAP@1000"] = "mAP"
    image_shape: tuple[int, int] | None = None
    exact: bool = True
