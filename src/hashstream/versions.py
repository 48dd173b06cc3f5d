"""Versions of the package and its libraries, for bug reports and provenance."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from hashstream import _native

__all__ = ["__version__", "library_versions", "show_versions"]

__version__ = "0.1.0"


def library_versions() -> dict[str, str]:
    """Versions of hashstream, Python and the libraries that results depend on, by name."""
    names = ("numpy", "scipy", "scikit-learn", "safetensors", "faiss-cpu")
    found = {"hashstream": __version__, "python": platform.python_version()}
    return found | {name: _installed(name) for name in names}


@cache  # reads files
def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def show_versions() -> str:
    """Versions, machine, and whether the C kernels or NumPy do the work, as text for a bug report.

    It is returned, and not printed as by the functions of this name in pandas and scikit-learn: the library prints
    nothing by itself.

    >>> print(show_versions())
    hashstream ...
    kernels ...
    """
    lines = [f"{name:<13}{value}" for name, value in library_versions().items()]
    lines.append(f"{'machine':<13}{platform.machine()} {platform.system()}")
    lines.append(f"{'kernels':<13}{_native.status()}")
    return "\n".join(lines)
