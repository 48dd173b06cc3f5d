"""Named tuples returned by searches, distances first, as in faiss and scikit-learn; `Items` and `Commit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Codes", "Commit", "Items", "RadiusResult", "SearchResult"]


class _Nearest(NamedTuple):
    distances: np.ndarray
    ids: np.ndarray


class SearchResult(_Nearest):
    """`distances, ids = table.search(Q)`.

    distances : (q, m) uint16; float64 where asymmetric or rescored. ids : (q, m) int64, or object holding str.
    labels, payloads : (q, m) object, None for a missing one; fields : name -> (q, m) object. sequences : (q, m) int64,
        -1 for none. Each where `include` names it, otherwise None. They are attributes: the tuple is always a pair.
    missing : share of the items that could not be searched: above 0 only of a cluster, with `partial=True`.
    """

    labels: np.ndarray | None = None
    fields: dict[str, np.ndarray] | None = None
    payloads: np.ndarray | None = None
    sequences: np.ndarray | None = None
    missing: float = 0.0


class _Within(NamedTuple):
    offsets: np.ndarray
    distances: np.ndarray
    ids: np.ndarray


class RadiusResult(_Within):
    """`offsets, distances, ids = table.search_radius(Q, radius)`: query i found what is at offsets[i]:offsets[i + 1].

    offsets : (q + 1,) int64. distances : (found,) uint16. ids : (found,). labels, fields, payloads, sequences : as in
    `SearchResult`, (found,), where included. missing : as there.
    """

    labels: np.ndarray | None = None
    fields: dict[str, np.ndarray] | None = None
    payloads: np.ndarray | None = None
    sequences: np.ndarray | None = None
    missing: float = 0.0


class Codes(NamedTuple):
    """Items of one version. ids : (n,) int64, or object holding str. codes : (n, width) uint8."""

    ids: np.ndarray
    codes: np.ndarray
    version: int


@dataclass(frozen=True)
class Items:
    """Stored data of some items, in the order in which they were requested.

    ids : (n,) int64, or object holding str. codes : (n, width) uint8. versions : (n,) int64.
    labels : as they were given, None for a missing one. features : (n, d), or None where they are not stored.
    fields : name -> n values, None for a missing one. payloads : n dicts, None for a missing one.
    sequences : (n,) int64, -1 for none; None over HTTP.
    """

    ids: np.ndarray
    codes: np.ndarray
    versions: np.ndarray
    labels: list[Any]
    features: np.ndarray | None
    fields: dict[str, list[Any]]
    payloads: list[dict[str, Any] | None]
    sequences: np.ndarray | None = None


@dataclass(frozen=True)
class Commit:
    """One commit, in figures: its number, and items that were added, removed (replaced ones too), re-encoded and
    labelled.

    recode_seconds : that re-encoding took. learned : rows that the model learned from. All are 0 where the table was
    compacted. version : of the current functions after it; None before anything was stored.
    """

    seq: int
    added: int = 0
    removed: int = 0
    recoded: int = 0
    recode_seconds: float = 0.0
    labelled: int = 0
    learned: int = 0
    version: int | None = None
