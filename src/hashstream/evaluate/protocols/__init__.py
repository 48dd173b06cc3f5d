"""Protocols: the stream that a method is given, its checkpoints, and the metrics. One file per question.

A method on one of them, checkpoint by checkpoint:

    task = Paper().task(PreparedDataset.of(datasets.load("mnist")), seed=0)
    for checkpoint in run_stream(FCOH(32), task, [2_000, 20_000]):
        print(checkpoint.n_train, checkpoint.scores["mAP"])
"""

from __future__ import annotations

from dataclasses import fields, replace

from hashstream.evaluate.protocols.bursts import Bursts
from hashstream.evaluate.protocols.class_incremental import ClassIncremental
from hashstream.evaluate.protocols.drift import Drift
from hashstream.evaluate.protocols.label_noise import LabelNoise
from hashstream.evaluate.protocols.paper import Paper
from hashstream.evaluate.protocols.protocol import Curves, Protocol
from hashstream.evaluate.protocols.settings import SETTINGS, Setting, plain_name, setting_named, setting_of
from hashstream.evaluate.protocols.slow_drift import SlowDrift
from hashstream.evaluate.protocols.task import (
    Checkpoint,
    PreparedDataset,
    Streamed,
    Task,
    metric_row,
    run_stream,
)
from hashstream.evaluate.protocols.unseen_classes import UnseenClasses
from hashstream.evaluate.protocols.validation import Validation

__all__ = [
    "PROTOCOLS",
    "SETTINGS",
    "Bursts",
    "Checkpoint",
    "ClassIncremental",
    "Curves",
    "Drift",
    "LabelNoise",
    "Paper",
    "PreparedDataset",
    "Protocol",
    "Setting",
    "SlowDrift",
    "Streamed",
    "Task",
    "UnseenClasses",
    "Validation",
    "metric_row",
    "named",
    "plain_name",
    "run_stream",
    "setting_named",
    "setting_of",
]

PROTOCOLS: dict[str, Protocol] = {
    protocol.kind: protocol
    for protocol in (
        Paper(),
        UnseenClasses(),
        ClassIncremental(),
        Bursts(),
        Drift(),
        SlowDrift(),
        LabelNoise(),
    )
}
"""Every protocol for comparing methods, with its default number. (`Validation` is for choosing settings.)"""


def named(text: str) -> Protocol:
    """A protocol by name, with a number other than the default after a colon.

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
        raise ValueError(f"protocol {kind} takes no number: {text!r} is not valid")
    try:
        value = float(number)
    except ValueError:
        raise ValueError(
            f"protocol {text!r}: {number!r} is not a number; write it as in {kind}:0.5"
        ) from None
    return replace(protocol, **{fields(protocol)[0].name: value})
