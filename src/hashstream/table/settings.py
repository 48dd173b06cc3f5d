"""Settings stored with a table and restored on open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from hashstream.hashers.validation import check_count
from hashstream.table.policies import Policy, Projected, from_fields, parse, plain, to_fields

__all__ = ["Durability", "Indexing", "Settings"]

Durability = Literal["full", "fast"]
Indexing = Literal["auto", "scan"]


@dataclass(frozen=True)
class Settings:
    """The settings of a table that may change from one opening to the next; `HashTable.open` says what they mean."""

    policy: Policy
    durability: Durability = "full"
    max_versions: int = 16
    checkpoint_rows: int = 20_000
    segment_bytes: int = 1 << 30
    index: Indexing = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Policy):
            raise TypeError(f"policy must be a policy such as Every(100), not {self.policy!r}")
        if not self.policy.keeps_features and not isinstance(self.policy, Projected):
            raise TypeError(f"{self.policy!r} keeps no features, so it must derive from Projected")
        if self.durability not in ("full", "fast"):
            raise ValueError(f'durability must be "full" or "fast", not {self.durability!r}')
        if self.index not in ("auto", "scan"):
            raise ValueError(f'index must be "auto" or "scan", not {self.index!r}')
        check_count("max_versions", self.max_versions, 1)
        check_count("checkpoint_rows", self.checkpoint_rows, 1)
        check_count("segment_bytes", self.segment_bytes, 1)

    @classmethod
    def default(cls, refresh_policy: str, keep_features: bool) -> Settings:
        """The settings of a new table. refresh_policy : of its method."""
        return cls(parse(refresh_policy) if keep_features else Projected())

    def with_given(self, given: Mapping[str, Any]) -> Settings:
        """These settings, except those that are given and not None."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def to_fields(self) -> dict[str, Any]:
        """As JSON. `index` is left out where it is the default, as in tables of before there was one."""
        fields = {name: plain(value) for name, value in vars(self).items()}
        fields["policy"] = to_fields(self.policy)
        if self.index == "auto":
            del fields["index"]
        return fields

    @classmethod
    def from_fields(cls, stored: Mapping[str, Any], policy: Policy | None = None) -> Settings:
        """The inverse of `to_fields`; a ValueError or TypeError says what is wrong with `stored`.

        policy : instead of the stored one, which then need not be registered.
        """
        return cls(**{**stored, "policy": from_fields(stored["policy"]) if policy is None else policy})
