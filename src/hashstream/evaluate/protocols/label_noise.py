"""Label noise: how much does it matter if some labels are wrong?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hashstream.evaluate.protocols.paper import Paper
from hashstream.evaluate.protocols.task import PreparedDataset, Task
from hashstream.evaluate.scores import Ties


@dataclass(frozen=True)
class LabelNoise(Paper):
    """The paper's protocol, with a share `rate` of the stream's labels replaced by another class, drawn at random.

    Scores use the true labels.

    >>> LabelNoise(0.4).name
    'label-noise:0.4'
    """

    kind = "label-noise"
    question = "How much worse do the codes get if some of the stream's labels are wrong?"
    number = "the share of wrong labels"

    rate: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"{self.kind}: the share of wrong labels has to be 0 to 1, not {self.rate:g}")

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        task = super().task(data, seed, ties=ties)
        classes = np.unique(data.y)
        if len(classes) < 2:
            raise ValueError(f"{self.kind}: {data.dataset} has one class, so no label can be wrong")
        rng = np.random.default_rng([seed, 1])  # independent of the split's
        number = np.searchsorted(classes, task.y)
        wrong = rng.permutation(len(number))[: round(self.rate * len(number))]
        number[wrong] = (number[wrong] + rng.integers(1, len(classes), len(wrong))) % len(classes)
        return replace(task, y=classes[number])
