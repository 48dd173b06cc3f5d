"""`Limits`: how much one request may ask for, and how many may wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Bounds of a service. Where a request asks for more, it is refused with a sentence that names the bound."""

    body_bytes: int = 64 << 20
    """Bytes of a request's body, and of what it unpacks to."""
    values: int = 4_000_000
    """Values in a JSON body: each may take a hundred bytes of memory. Arrays may have more."""
    bodies_bytes: int = 512 << 20
    """Bytes of all bodies that are held at once."""
    body_seconds: float = 30.0
    """Seconds within which a body has to arrive."""
    seconds: float = 60.0
    """Seconds within which a request is answered. A write that takes longer may still be done."""
    rows: int = 100_000
    """Items of a request: to ingest, label, get or remove."""
    width: int = 65_536
    """Features of a vector."""
    queries: int = 10_000
    """Queries of a search."""
    k: int = 10_000
    """Neighbours per query, and how far `offset` and `rescore` reach."""
    answers: int = 1_000_000
    """Items in one answer: of all queries together."""
    payloads: int = 10_000
    """Items in one answer that has payloads."""
    payload_bytes: int = 65_536
    """Characters of one payload as JSON, of a text id or label, and of the texts of a field."""
    text: int = 1000
    """Characters of an id, a label or a field; longer texts belong in payloads."""
    concurrent: int = 64
    """Requests that are worked on at once, over all tables."""
    connections: int = 1024
    """Open connections."""
    queue: int = 256
    """Writes that wait, per table."""
    queue_bytes: int = 256 << 20
    """Bytes of the writes that wait, per table."""
    listeners: int = 100
    """Open streams of events."""
    tables: int = 1000
    """Tables that the service creates."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"the limit {one.name} must be a positive number, not {value!r}")

    def with_given(self, texts: Iterable[str]) -> Self:
        """These limits, except those given as `name=number`.

        >>> Limits().with_given(["k=100"]).k
        100
        """
        kinds: dict[str, Any] = {one.name: type(one.default) for one in fields(self)}
        given = {}
        for text in texts:
            name, equals, number = text.partition("=")
            if not equals or name not in kinds:
                raise ValueError(f"limit {text!r}: write name=number, with a name among {', '.join(kinds)}")
            try:
                given[name] = kinds[name](number)
            except ValueError:
                raise ValueError(f"limit {text!r}: {number!r} is not a number") from None
        return replace(self, **given)
