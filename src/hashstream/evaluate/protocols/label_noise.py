"""Label noise: what if a part of the labels is wrong?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hashstream.evaluate.protocols.course import Course, PreparedDataset
from hashstream.evaluate.protocols.paper import Paper

__all__ = ["LabelNoise"]


@dataclass(frozen=True)
class LabelNoise(Paper):
    """The paper's protocol, but a share `rate` of the stream's labels, drawn by the seed, is another class's.

    Which class is left to chance. Judged with true labels.

    >>> LabelNoise(0.4).name
    'label-noise:0.4'
    """

    kind = "label-noise"
    question = "How much worse do the codes get if some of the stream's labels are wrong?"
    number = "the share of wrong labels"

    rate: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"{self.kind}: the share of wrong labels is 0 to 1, not {self.rate:g}")

    def course(self, field: PreparedDataset, seed: int, *, ties: str = "paper") -> Course:
        course = super().course(field, seed, ties=ties)
        classes = np.unique(field.y)
        if len(classes) < 2:
            raise ValueError(f"{self.kind}: {field.dataset} has one class, so no label can be wrong")
        rng = np.random.default_rng([seed, 1])  # not the split's numbers over again
        number = np.searchsorted(classes, course.y)
        wrong = rng.permutation(len(number))[: round(self.rate * len(number))]
        number[wrong] = (number[wrong] + rng.integers(1, len(classes), len(wrong))) % len(classes)
        return replace(course, y=classes[number])
