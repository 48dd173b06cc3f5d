"""Settings with a name: a method that is also compared in a second form, such as `RidgeHash[rbf]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.features import RBFAnchors
from hashstream.hashers.ridge import RidgeHash

__all__ = ["NAMED_SETTINGS", "NamedSettings"]


@dataclass(frozen=True)
class NamedSettings:
    """A method with settings. title: its name in reports. colour, marker: its line in plots."""

    method: type[OnlineHasher]
    settings: Mapping[str, Any]
    title: str
    colour: str
    marker: str

    @property
    def hasher(self) -> Callable[..., OnlineHasher]:
        """Returns the hasher when called with n_bits and further settings."""
        return partial(self.method, **self.settings)


NAMED_SETTINGS: dict[str, NamedSettings] = {
    "RidgeHash[rbf]": NamedSettings(
        RidgeHash, {"feature_map": RBFAnchors(1000)}, "RidgeHash (RBF)", colour="#8e6bd6", marker=">"
    ),
}
"""By the name in results, which `hashstream bench --methods` takes as well."""
