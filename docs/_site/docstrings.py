"""The docstrings of the package, as the parser of the reference reads them."""

from __future__ import annotations

from typing import Any

import griffe
from sections import spelled_out


class Spelled(griffe.Extension):
    """Spells out the docstrings of functions, classes and modules."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Go through a package, once all of it is loaded, so that inherited names are known."""
        change(pkg)


def change(described: griffe.Object) -> None:
    """Spell out the docstring of an object, and of everything in it."""
    if described.docstring is not None:
        text = described.docstring.value
        made_by = described if described.is_function else described.members.get("__init__")
        if made_by is not None and made_by.is_function:
            text = spelled_out(text, {parameter.name for parameter in made_by.parameters}, "Parameters")
        described.docstring.value = spelled_out(text, set(described.all_members), "Attributes")
    for member in described.members.values():
        if not member.is_alias and not member.is_attribute:
            change(member)
