"""`State`: everything that a table is after one commit. A writer, recovery and readers go from one to the next by
`State.after`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from hashstream.hashers import Encoder, OnlineHasher
from hashstream.hashers.labels import missing_rows
from hashstream.table.state.change import Change, Feedback
from hashstream.table.state.columns import field_column
from hashstream.table.state.comparison import Comparison
from hashstream.table.state.sample import Sample
from hashstream.table.state.view import View

__all__ = ["Model", "State", "taught"]


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

    def renumbered(self, version: int) -> Model:
        """The same hasher and functions under a later version."""
        hasher = self.hasher.copy()
        hasher.version_ = version
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
    relabelled : the last commit that changed labels of items that were there.
    comparison : how codes of different versions compare, as measured last.
    adopted : the last commit whose functions cannot be learned again from what is stored: they were learned elsewhere,
        or mixed.
    created : a hasher that has learned nothing, with the parameters that the table was created with, as `to_bytes`
        writes it; None where they are those of the model.
    """

    view: View
    sample: Sample
    model: Model
    memory: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seq: int = 0
    generation: int = 0
    relabelled: int = 0
    comparison: Comparison = field(default_factory=Comparison)
    adopted: int = 0
    created: bytes | None = None

    @classmethod
    def empty(
        cls, hasher: OnlineHasher, sample_size: int, fields: Mapping[str, str] = MappingProxyType({})
    ) -> State:
        """A table without items, whose hasher may have learned before. fields : name -> kind."""
        columns = {name: field_column(kind) for name, kind in fields.items()}
        view = View(-(-int(hasher.n_bits) // 8), fields=MappingProxyType(columns))
        return cls(view, Sample(sample_size), Model(hasher, None)).with_model(Model.of(hasher), {})

    def after(
        self,
        change: Change,
        model: Model | None = None,
        memory: Mapping[str, Any] | None = None,
        mixed: Encoder | None = None,
    ) -> State:
        """The state after one more commit. model, memory : as they are then, where they are others. mixed : functions
        that items are re-encoded by and that are not the model's."""
        after = replace(
            self,
            view=self.view.after(change),
            sample=self.sample.after(change.sample),
            memory=self.memory if memory is None else memory,
            seq=self.seq + 1,
            relabelled=self.relabelled if change.relabelled is None else self.seq + 1,
        )
        known = self.view.encoders if mixed is None else {**self.view.encoders, mixed.version: mixed}
        return after.with_model(model or self.model, known)

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


def taught(hasher: OnlineHasher, feedback: Feedback) -> OnlineHasher:
    """A hasher that has also learned from feedback; this one stays as it is.

    Rows that it has not learned before come first, then those whose labels are corrected.
    """
    X, y, old = feedback.X, feedback.y, feedback.old
    if old is None:
        return hasher.learned(X, y)
    missing = missing_rows(old)
    if missing is None:
        return hasher.relabelled(X, old, y)
    after = hasher.learned(X[missing], y[missing])
    return after.relabelled(X[~missing], old[~missing], y[~missing])
