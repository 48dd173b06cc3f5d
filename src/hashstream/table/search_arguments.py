"""Arguments of a search, checked with the same sentences wherever it is called: in the process, or over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from hashstream.hashers.validation import check_count
from hashstream.table.rescoring import METRICS
from hashstream.table.state.search import Compare

__all__ = ["INCLUDED", "Include", "check_candidates", "check_compare", "check_include"]

Include = Sequence[Literal["labels", "fields", "payloads", "sequences"]]
INCLUDED = ("labels", "fields", "payloads", "sequences")


def check_candidates(k: Any, offset: Any, rescore: Any, metric: Any) -> int:
    """How many items a search looks for; ValueError where an argument is not as it has to be.

    >>> check_candidates(10, 5, None, "cosine"), check_candidates(10, 0, 100, "dot")
    (15, 100)
    """
    most = check_count("k", k, 1) + check_count("offset", offset, 0)
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(map(repr, METRICS))}, not {metric!r}")
    if rescore is None:
        return most
    if most > check_count("rescore", rescore, 1):
        raise ValueError(
            f"rescore must be at least k + offset, {most} here, not {rescore}: so many are ranked again"
        )
    return int(rescore)


def check_compare(compare: Any) -> Compare | Literal["auto"]:
    """`compare` itself, or a ValueError."""
    if compare not in ("auto", "like", "current"):
        raise ValueError(f'compare must be "auto", "like" or "current", not {compare!r}')
    found: Compare | Literal["auto"] = compare
    return found


def check_include(include: Any) -> None:
    """ValueError where `include` is not a collection of what a search can return as well."""
    if not isinstance(include, (list, tuple, set, frozenset)) or any(one not in INCLUDED for one in include):
        raise ValueError(f"include takes a tuple of {', '.join(map(repr, INCLUDED))}, not {include!r}")
