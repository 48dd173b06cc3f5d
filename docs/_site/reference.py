"""The pages of the reference, from the public names of the package."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

MODULE = "hashstream"


@dataclass(frozen=True)
class Page:
    """One page.

    about : the text below its title, or the dotted name of a module whose docstring that is.
    names : dotted names that it describes. options : of mkdocstrings, for all of them.
    """

    title: str
    about: str
    names: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


def public(module: str) -> list[str]:
    """Dotted names of everything in `__all__` of a module, modules left out, where their definitions can be read."""
    found = import_module(module)
    places = getattr(found, "PLACES", {})  # of names that are imported when they are first used
    files = {file.stem for file in Path(str(found.__file__)).parent.glob("*.py")}
    return [
        ".".join(filter(None, [module, places.get(name, name if name in files else None), name]))
        for name in found.__all__
        if type(getattr(found, name)).__name__ != "module" and name != "__version__"
    ]


def room(title: str, module: str, options: dict[str, Any] | None = None) -> Page:
    """The page of a module: its docstring, and everything in it."""
    return Page(title, f"{MODULE}.{module}", tuple(public(f"{MODULE}.{module}")), options or {})


def reference() -> dict[str, Page]:
    """File, relative to docs/reference -> its page. Every public name is on one of them."""
    import hashstream as hs
    from hashstream.table import policies

    methods = [f"{MODULE}.{name}" for name in sorted(hs.methods(), key=lambda name: name != "PosteriorHash")]
    contract = [f"{MODULE}.{name}" for name in ("OnlineHasher", "register", "methods")]
    client = [f"{MODULE}.{name}" for name in ("Client", "AsyncClient")]
    table = [f"{MODULE}.{name}" for name in ("HashTable",)]
    rest = [
        name
        for name in public(MODULE)
        if name not in {*methods, *contract, *client, *table, f"{MODULE}.TableError"}
    ]
    decide = [f"{MODULE}.table.{name}" for name in policies.__all__ if name in hs.table.__all__]
    parts = [name for name in public(f"{MODULE}.table") if name not in {*decide, f"{MODULE}.table.HashTable"}]
    inherited = {"inherited_members": True}
    opened = {**inherited, "merge_init_into_class": False}  # by `open`, not by the constructor
    return {
        "hashers.md": Page(
            "Hashers",
            "Every method is a scikit-learn estimator with `partial_fit` and `transform`; what all of them share is the"
            " [contract](contract.md). [Which method?](../which-method.md) helps to choose.",
            (*methods, *rest),
        ),
        "contract.md": Page(
            "The contract of a method",
            "What every hasher does, and what a new method has to write:"
            " [contributing](../project/contributing.md) has a complete example.",
            tuple(contract),
        ),
        "features.md": Page(
            "Feature maps: `hs.features`",
            "Maps from rows to the features that a method learns from, for its parameter `feature_map`.",
            tuple(public(f"{MODULE}.hashers.features")),
        ),
        "table.md": Page(
            "`HashTable`",
            "Everything that a table does. The [guide](../table.md) shows it at work, and the"
            " [guarantees](../guarantees.md) say what survives which failure.",
            tuple(table),
            opened,
        ),
        "policies.md": Page(
            "Refresh policies",
            "When a table re-encodes its items: [the guide](../table.md#versions-and-policies) compares them.",
            tuple(decide),
        ),
        "table-parts.md": Page(
            "Results, errors and parts of a table: `hs.table`",
            "What the methods of a table return and raise, and the seams for another engine.",
            tuple(parts),
        ),
        "hamming.md": room("Comparing codes: `hs.hamming`", "hamming"),
        "evaluate.md": room("Evaluation: `hs.evaluate`", "evaluate"),
        "protocols.md": room("Protocols: `hs.evaluate.protocols`", "evaluate.protocols"),
        "datasets.md": room("Data sets: `hs.datasets`", "datasets"),
        "client.md": Page(
            "The client of a service",
            "Tables of a [service](../serve.md), with the methods of `HashTable`.",
            (*client, f"{MODULE}.serve.client.RemoteTable"),
            inherited,
        ),
        "scale.md": room("Clusters: `hashstream.scale`", "scale", opened),
        "milvus.md": room("Codes in Milvus: `hashstream.scale.milvus`", "scale.milvus"),
        "checks.md": room("Checks: `hs.checks`", "checks"),
    }


def directive(name: str, options: dict[str, Any]) -> list[str]:
    """The lines by which mkdocstrings describes a name."""
    lines = [f"::: {name}"]
    if options:
        lines += ["    options:", *(f"      {key}: {json.dumps(value)}" for key, value in options.items())]
    return [*lines, ""]


def reference_page(page: Page) -> str:
    """The Markdown of a page of the reference."""
    lines = [f"# {page.title}", ""]
    if page.about.startswith(MODULE):
        lines += directive(
            page.about, {"members": False, "show_root_heading": False, "show_root_toc_entry": False}
        )
    else:
        lines += [page.about, ""]
    for name in page.names:
        lines += directive(name, page.options)
    return "\n".join(lines)


def reference_index(pages: dict[str, Page]) -> str:
    """The first page of the reference: every public name, as a link to where it is described."""
    lines = [
        "# Reference",
        "",
        "Every public name, described by its docstring, and [every command](commands.md); `hs` is `hashstream`.",
        "",
        "| page | names |",
        "| --- | --- |",
    ]
    for file, page in pages.items():
        names = ", ".join(f"[`{name.rpartition('.')[2]}`][{name}]" for name in page.names)
        lines.append(f"| [{page.title}]({file}) | {names} |")
    return "\n".join([*lines, ""])
