"""`State`: everything that a table is after one commit. A writer, recovery and readers go from one to the next by
`State.after`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from hashstream.hashers import Encoder, OnlineHasher
from hashstream.table.state.change import Change
from hashstream.table.state.sample import Sample
from hashstream.table.state.view import View

__all__ = ["Model", "State"]


@dataclass(frozen=True, eq=False)
class Model:
    """A hasher that is never told to learn again (`learned` returns another), and its hash functions.

    encoder : None where the hasher has learned nothing yet.
    """

    hasher: OnlineHasher
    encoder: Encoder | None

    @classmethod
    def of(cls, hasher: OnlineHasher) -> Model:
        return cls(hasher, hasher.encoder() if hasattr(hasher, "n_seen_") else None)

    def learned(self, hasher: OnlineHasher) -> Model:
        """The model of a hasher that was derived from this one; the encoder stays where its version is the same."""
        encoder = self.encoder
        if encoder is not None and encoder.version == hasher.version_:
            return Model(hasher, encoder)
        return Model.of(hasher)

    @property
    def version(self) -> int:
        """-1 before anything was learned."""
        return -1 if self.encoder is None else self.encoder.version

    @property
    def n_seen(self) -> int:
        """Rows learned from."""
        return int(getattr(self.hasher, "n_seen_", 0))


@dataclass(frozen=True, eq=False)
class State:
    """A table after commit number `seq`.

    view : ids, codes and encoders of the items alive. sample : some of them with features and labels.
    model : the current hash functions, and what they are learned on with.
    memory : what the policy remembers from one ingest to the next, as JSON.
    generation : the commit that numbered the slots; it grows when the table is compacted.
    """

    view: View
    sample: Sample
    model: Model
    memory: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seq: int = 0
    generation: int = 0

    @classmethod
    def empty(cls, hasher: OnlineHasher, sample_size: int) -> State:
        """A table without items, whose hasher may have learned before."""
        view = View(-(-int(hasher.n_bits) // 8))
        return cls(view, Sample(sample_size), Model(hasher, None)).with_model(Model.of(hasher), {})

    def after(
        self, change: Change, model: Model | None = None, memory: Mapping[str, Any] | None = None
    ) -> State:
        """The state after one more commit. model, memory : as they are then, where they are others."""
        after = replace(
            self,
            view=self.view.after(change),
            sample=self.sample.after(change.sample),
            memory=self.memory if memory is None else memory,
            seq=self.seq + 1,
        )
        return after.with_model(model or self.model, self.view.encoders)

    def with_model(self, model: Model, known: Mapping[int, Encoder]) -> State:
        """The state with a model, and with those of the encoders, `known` and current, whose versions are alive."""
        encoders = dict(known)
        if model.encoder is not None:
            encoders.setdefault(model.version, model.encoder)
        return replace(self, model=model, view=self.view.with_encoders(encoders, model.version))

    def renumbered(self) -> tuple[State, np.ndarray]:
        """The state after a commit that numbers the slots again, 0, 1, 2, ..., and the slots that stay, ascending."""
        live = self.view.live().astype(np.int64)
        after = replace(
            self,
            view=self.view.renumbered(),
            sample=self.sample.renumbered(live),
            seq=self.seq + 1,
            generation=self.seq + 1,
        )
        return after, live
