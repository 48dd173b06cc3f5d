"""Which stream a method is given, when it is looked at, and what is asked: one file for each question.

course = Paper().course(Field.of(datasets.load("mnist")), seed=0)
for look in follow(FCOH(32), course, [2_000, 20_000]):
    print(look.n_train, look.scores["mAP"])
"""

from __future__ import annotations

from typing import Protocol as Interface

from hashstream.evaluate.protocols.course import Course, Field, Look, Streamed, follow, metric_row
from hashstream.evaluate.protocols.paper import Paper
from hashstream.evaluate.protocols.settings import SETTINGS, Setting, setting_of

__all__ = [
    "PROTOCOLS",
    "SETTINGS",
    "Course",
    "Field",
    "Look",
    "Paper",
    "Protocol",
    "Setting",
    "Streamed",
    "follow",
    "metric_row",
    "setting_of",
]


class Protocol(Interface):
    """What a protocol is. `name` goes into results files, `question` into `--help`."""

    @property
    def name(self) -> str: ...

    @property
    def question(self) -> str: ...

    def metrics(self) -> tuple[str, ...]:
        """Plain names of what each look has."""

    def points(self, setting: Setting) -> tuple[int, ...]:
        """After how many rows to look, where nobody says otherwise."""

    def course(self, field: Field, seed: int, *, ties: str = "paper") -> Course:
        """Stream and judge for one run."""


PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (Paper(),)}
"""Every protocol by name."""
