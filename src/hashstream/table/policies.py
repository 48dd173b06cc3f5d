"""Policies: when a table's codes are re-encoded. One small class for each answer.

After every `ingest` and `label` the table asks its policy whether to re-encode now. The answer, and what the policy
wants to remember, are committed together with the batch, so a table that was killed and opened again decides the same.
A policy itself never changes: it is a setting, stored with the table.

A policy of your own is a frozen dataclass with a method `decide`, under `@register`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from hashstream.hashers import Encoder, OnlineHasher
from hashstream.hashers.mutual_information import gate, has_moved, sample_mutual_information
from hashstream.hashers.validation import check_count, is_positive
from hashstream.table.background import Refresher
from hashstream.table.errors import TableError
from hashstream.table.state.sample import Sample

__all__ = [
    "Eager",
    "Every",
    "Facts",
    "Gated",
    "Grown",
    "Lazy",
    "Never",
    "Partial",
    "Policy",
    "Projected",
    "parse",
    "register",
]


@dataclass(frozen=True)
class Facts:
    """Facts that a policy decides by, after an ingest and before it is committed.

    moved : whether the hash functions changed. rows : ingested or labelled. items : items that were stored before.
    newest, bulk : the current functions, and those that encoded most of the items.
    sample : the table's sample, without the rows of this batch.
    memory : what `decide` returned the last time; empty at first, or something else's after a change of policy.
    """

    moved: bool
    rows: int
    newest: Encoder
    bulk: Encoder | None
    sample: Sample
    memory: Mapping[str, Any]
    items: int

    def count(self, name: str) -> int:
        """A number that was remembered, 0 where there is none."""
        return int(self.memory.get(name, 0))


class Policy:
    """The contract of every policy. This one never re-encodes: see `Never`."""

    keeps_features: ClassVar[bool] = True
    """Whether features are stored, and codes re-encoded from them."""

    def decide(self, facts: Facts) -> tuple[bool, dict[str, Any]]:
        """Whether to re-encode all stale items now, and what to remember until the next ingest, as JSON."""
        return False, {}

    def check_hasher(self, hasher: OnlineHasher) -> None:
        """Raise ValueError where this policy cannot keep the codes of a hasher up to date."""

    def refresher(self) -> Refresher | None:
        """The background thread that refreshes an open table; None for most policies."""
        return None


_POLICIES: dict[str, type[Policy]] = {}

P = TypeVar("P", bound=type[Policy])


def register(policy: P) -> P:
    """Make a policy known by the name of its class, for stored tables, `parse` and the command line; a decorator."""
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise TypeError(f"a policy is a subclass of Policy, not {policy!r}")
    name = policy.__name__.lower()
    if _POLICIES.get(name, policy) is not policy:
        raise ValueError(f"a policy named {name} is registered already")
    _POLICIES[name] = policy
    return policy


@register
@dataclass(frozen=True)
class Never(Policy):
    """Codes stay as they are until `refresh` is called. Versions beyond `max_versions` are still re-encoded."""


@register
@dataclass(frozen=True)
class Eager(Policy):
    """After every ingest that moved the functions, as the paper's cost model assumes: one version is ever alive."""

    def decide(self, facts: Facts) -> tuple[bool, dict[str, Any]]:
        return facts.moved, {}


@register
@dataclass(frozen=True)
class Every(Policy):
    """After every k-th ingest that moved the functions."""

    k: int = 100

    def __post_init__(self) -> None:
        check_count("k", self.k, 1)

    def decide(self, facts: Facts) -> tuple[bool, dict[str, Any]]:
        moves = facts.count("moves") + facts.moved
        return (True, {"moves": 0}) if moves >= self.k else (False, {"moves": moves})


@register
@dataclass(frozen=True)
class Grown(Policy):
    """When the functions have moved and as many rows have been ingested as `share` of the items.

    So an ingested row causes at most 1 / share encodings, however often the functions move.
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        if not is_positive(self.share):
            raise ValueError(f"share must be a positive number, not {self.share!r}")

    def decide(self, facts: Facts) -> tuple[bool, dict[str, Any]]:
        rows, moved = facts.count("rows") + facts.rows, facts.count("moved") or int(facts.moved)
        if moved and rows >= self.share * facts.items:
            return True, {}
        return False, {"rows": rows, "moved": moved}


@register
@dataclass(frozen=True)
class Gated(Policy):
    """When the current functions tell more about the labels than those that encoded the table: the gate of MIHash.

    After every `every` ingested rows, mutual information between distance and shared label is measured on the labelled
    items of the table's sample, under both functions; the table is re-encoded where it grew by more than theta
    (`hashers.mutual_information`). Nothing is re-encoded while fewer than `least` labelled items, or one class only,
    are in the sample.
    """

    theta: float = 0.0
    every: int = 100
    least: int = 20

    def __post_init__(self) -> None:
        check_count("every", self.every, 1)
        check_count("least", self.least, 2)
        if not is_positive(self.theta, zero=True):
            raise ValueError(f"theta must be a number of at least 0, not {self.theta!r}")

    def decide(self, facts: Facts) -> tuple[bool, dict[str, Any]]:
        rows = facts.count("rows") + facts.rows
        if rows < self.every:
            return False, {"rows": rows}
        return self._tells_more(facts), {"rows": 0}

    def _tells_more(self, facts: Facts) -> bool:
        old, new = facts.bulk, facts.newest
        if old is None or old.version == new.version:
            return False
        W, W_old = new.projection, old.projection
        if W is not None and W_old is not None and W.shape == W_old.shape and not has_moved(W, W_old):
            return False
        _, X, labels = facts.sample.labelled()
        if len(X) < self.least:
            return False
        informed = [
            sample_mutual_information(encoder.encode(X), labels, n_bits=encoder.n_bits)
            for encoder in (new, old)
        ]
        return gate(informed[0], informed[1], self.theta)


@register
@dataclass(frozen=True)
class Partial(Policy):
    """After every k-th ingest that moved the functions, only some bits are re-encoded: those that changed most.

    After Ma et al., "Partial hash update via Hamming subspace learning", IEEE TIP 2017, but only after the idea of its
    title: of the r bits, a chosen subset is updated. The article itself was not at hand, so nothing else here claims to
    be theirs. We choose the `bits` bits for which the old and the new functions disagree most often on the table's
    sample; override `choose` for another choice. What follows is ours, too.

    A code with some new bits and some old ones is the code of *mixed* functions: the new f_k for the chosen bits, the
    old f_k for the others. For a projection they are a projection with columns of both, so they are stored and searched
    like any version: a query is encoded by them, too, and every code can be verified. They are mixed of the current
    functions and those of most items, whose codes need the chosen columns only; the few other stale items, which came
    since the last refresh, need all columns that differ. New items get the current functions, as under any policy.

    Mixed functions have a version of their own: the next number. The current functions get the one after it, so that
    every number still names one set of functions. Mixed functions cannot be learned again from what is stored, so
    they are committed together with the codes, as adopted functions are. `refresh()` re-encodes all bits, and so does
    this policy where nothing would be saved: with `max_versions=1`, an empty sample, or no more than `bits` bits.

    bits : that are re-encoded at a time. k : ingests that move the functions between two refreshes.
    """

    bits: int = 16
    k: int = 100

    def __post_init__(self) -> None:
        check_count("bits", self.bits, 1)
        check_count("k", self.k, 1)

    def decide(self, facts: Facts) -> tuple[bool, dict[str, Any]]:
        return Every(self.k).decide(facts)

    def check_hasher(self, hasher: OnlineHasher) -> None:
        if not hasher.is_projection() or hasher.feature_map is not None:
            what = "is not" if not hasher.is_projection() else "with a feature map is not"
            raise ValueError(
                "Partial re-encodes single bits by columns of a projection, so it needs a method that is a projection "
                f"of the features themselves, which {type(hasher).__name__} {what}: choose another policy"
            )

    def choose(self, old: Encoder, new: Encoder, sample: Sample) -> np.ndarray:
        """The bits (b,), ascending, for which old and new functions disagree most often on a sample, not empty."""
        _, X, _ = sample.items()
        differ = np.unpackbits(old.encode(X) ^ new.encode(X), axis=1, count=new.n_bits)
        return np.sort(np.argsort(-differ.sum(axis=0, dtype=np.int64), kind="stable")[: self.bits])


@register
@dataclass(frozen=True)
class Projected(Every):
    """Features are not stored: after every k-th ingest that moved the functions, codes are re-encoded from codes.

    Our reading of Weng and Zhu, "Online hashing with efficient updating of binary codes", AAAI 2020: they hold the
    hash functions fixed and learn a projection of the *codes* from the stream, so that updating the table needs no
    features. Here any method learns the functions, and the projection is learned from the table's sample, whose few
    items are the only ones with features: for each old version a ridge regression from its codes (in -1 and +1, with a
    constant) to the real values of the new functions. The sign of what it predicts is the new code. That is an
    approximation, and its errors add up when it is repeated; the codes count as of the new version.

    k : ingests that move the functions between two refreshes. ridge : weight of |M|^2 per item of the sample.
    """

    ridge: float = 1e-3

    keeps_features: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_positive(self.ridge):
            raise ValueError(f"ridge must be a positive number, not {self.ridge!r}")

    def fit(self, old: Encoder, new: Encoder, X: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The map from codes of `old` (n, width) to codes of `new`, learned on features X (n, d)."""
        M = fit_projection(signed(old.encode(X), old.n_bits), new.decision_function(X), self.ridge)
        return partial(project_codes, old.n_bits, M)


def signed(codes: np.ndarray, n_bits: int) -> np.ndarray:
    """Packed codes (n, width) as -1 and +1 followed by a column of ones, (n, r + 1) float32."""
    bits = np.unpackbits(codes, axis=1, count=n_bits)
    B = np.ones((len(codes), n_bits + 1), np.float32)
    B[:, :-1] = 2.0 * bits - 1
    return B


def fit_projection(B: np.ndarray, P: np.ndarray, ridge: float) -> np.ndarray:
    """M that minimises |B M - P|^2 + n ridge |M|^2; B (n, r + 1), P (n, r) -> (r + 1, r) float64."""
    B, P = B.astype(np.float64), P.astype(np.float64)
    gram = B.T @ B + ridge * max(1, len(B)) * np.eye(B.shape[1])
    M: np.ndarray = np.linalg.solve(gram, B.T @ P)
    return M


def project_codes(n_bits: int, M: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Codes of the old version (n, width), of n_bits bits, as codes of the new one."""
    return np.packbits(signed(codes, n_bits) @ M.astype(np.float32) > 0, axis=1)


@register
@dataclass(frozen=True)
class Lazy(Policy):
    """In the background: the oldest versions first, piece by piece, with a bounded share of one core.

    A piece holds the writer's lock for as long as it takes to encode `piece` rows; a query never waits. A piece that
    fails is tried again after longer and longer pauses; until it succeeds, `stats` says why in `background_error`.

    share : of one core, between 0 and 1. piece : rows that are re-encoded at a time.
    """

    share: float = 0.25
    piece: int = 4096

    def __post_init__(self) -> None:
        check_count("piece", self.piece, 1)
        if not is_positive(self.share) or self.share > 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share!r}")

    def refresher(self) -> Refresher:
        return Refresher(self.share, self.piece)


@dataclass(frozen=True)
class Unregistered(Policy):
    """A reader's word for a stored policy that is not registered here."""

    name: str


# ---- policies as text and as JSON


def parse(text: str) -> Policy:
    """A policy from its name, and numbers for its parameters in their order: "eager", "every:100", "gated:0.01",
    "partial:16:50". Those that are left out have their defaults.

    >>> parse("every:50"), parse("partial:8"), parse("partial:8:50")
    (Every(k=50), Partial(bits=8, k=100), Partial(bits=8, k=50))
    """
    name, *numbers = text.strip().lower().split(":")
    policy = _POLICIES.get(name)
    if policy is None:
        raise ValueError(f"there is no policy {text!r}: choose from {', '.join(sorted(_POLICIES))}")
    parameters = _parameters(policy)
    if len(numbers) > len(parameters):
        most = f"at most {len(parameters)} number{'s' * (len(parameters) > 1)}" if parameters else "no number"
        names = f" ({', '.join(one.name for one in parameters)})" if parameters else ""
        raise ValueError(f"policy {text!r}: {name} takes {most}{names}")
    given: dict[str, int | float] = {}
    for one, number in zip(parameters, numbers, strict=False):
        whole = one.type in (int, "int")
        try:
            given[one.name] = int(number) if whole else float(number)
        except ValueError:
            what = "a whole number" if whole else "a number"
            raise ValueError(f"policy {text!r}: {one.name}, after the colon, must be {what}") from None
    try:
        return policy(**given)
    except ValueError as error:
        raise ValueError(f"policy {text!r}: {error}") from None


def to_fields(policy: Policy) -> dict[str, Any]:
    """A policy as JSON."""
    settings = {one.name: plain(getattr(policy, one.name)) for one in _parameters(type(policy))}
    return {"name": type(policy).__name__.lower(), "settings": settings}


def plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which JSON takes; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _parameters(policy: Any) -> tuple[Field[Any], ...]:
    return fields(policy) if is_dataclass(policy) else ()


def from_fields(stored: Mapping[str, Any]) -> Policy:
    """The policy that `to_fields` was given; TableError where it is not registered, ValueError where it was altered."""
    name, settings = stored["name"], stored["settings"]
    if not isinstance(name, str) or not isinstance(settings, dict):
        raise ValueError("its policy is not one")
    policy = _POLICIES.get(name)
    if policy is None:
        raise TableError(
            f"the table's policy {name[:80]!r} is not registered here: import its module first, or open with policy="
        )
    return policy(**settings)
