"""Functions of `scipy.linalg` and `scipy.sparse` that learning needs, imported when the first is called.

Opening and searching a table calls none of them, and importing SciPy takes longer than that. `linalg.qr` is
`scipy.linalg.qr`, and so on.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = {"csc_array": "scipy.sparse", "csr_array": "scipy.sparse"} | dict.fromkeys(
    ("dtpttr", "dtrttp", "stpttr", "strttp"), "scipy.linalg.lapack"
)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES.get(name, "scipy.linalg")), name)
