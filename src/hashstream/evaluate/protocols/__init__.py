"""Which stream a method is given, when it is looked at, and what is asked: one file for each question.

course = Paper().course(PreparedDataset.of(datasets.load("mnist")), seed=0)
for look in run_stream(FCOH(32), course, [2_000, 20_000]):
    print(look.n_train, look.scores["mAP"])
"""

from __future__ import annotations

from dataclasses import fields, replace

from hashstream.evaluate.protocols.class_incremental import ClassIncremental
from hashstream.evaluate.protocols.course import (
    Checkpoint,
    Course,
    PreparedDataset,
    Streamed,
    metric_row,
    run_stream,
)
from hashstream.evaluate.protocols.drift import Drift
from hashstream.evaluate.protocols.label_noise import LabelNoise
from hashstream.evaluate.protocols.paper import Paper
from hashstream.evaluate.protocols.protocol import Curves, Protocol
from hashstream.evaluate.protocols.settings import SETTINGS, Setting, setting_of
from hashstream.evaluate.protocols.unseen_classes import UnseenClasses
from hashstream.evaluate.protocols.validation import Validation

__all__ = [
    "PROTOCOLS",
    "SETTINGS",
    "Checkpoint",
    "ClassIncremental",
    "Course",
    "Curves",
    "Drift",
    "LabelNoise",
    "Paper",
    "PreparedDataset",
    "Protocol",
    "Setting",
    "Streamed",
    "UnseenClasses",
    "Validation",
    "metric_row",
    "named",
    "run_stream",
    "setting_of",
]

PROTOCOLS: dict[str, Protocol] = {
    protocol.kind: protocol
    for protocol in (Paper(), UnseenClasses(), ClassIncremental(), Drift(), LabelNoise())
}
"""Every protocol to compare methods by, with its default number. (`Validation` is for choosing settings.)"""


def named(text: str) -> Protocol:
    """A protocol by name, with another number than its default after a colon.

    >>> named("label-noise:0.4")
    LabelNoise(rate=0.4)
    >>> named("label-noise:0.4").name, named("label-noise:0.2").name
    ('label-noise:0.4', 'label-noise')
    """
    kind, colon, number = text.partition(":")
    if kind not in PROTOCOLS:
        raise ValueError(f"there is no protocol {kind!r}: choose from {', '.join(PROTOCOLS)}")
    protocol = PROTOCOLS[kind]
    if not colon:
        return protocol
    if not fields(protocol):
        raise ValueError(f"protocol {kind} takes no number, so {text!r} is none")
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"protocol {text!r}: {number!r} is no number; give one as in {kind}:0.5") from None
    return replace(protocol, **{fields(protocol)[0].name: value})
