"""The compiled inner loops, as a plain shared library.

`lib` is the library, loaded with ctypes (which releases the GIL for every call), or None where the package
was installed without a C compiler or `HASHSTREAM_NATIVE=0` is set. `HASHSTREAM_NATIVE` may also be the path
of another build of the same sources, one with a sanitizer for instance. Each room that calls a kernel
declares its arguments itself, next to the NumPy twin, and uses the twin where `lib` is None.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
from pathlib import Path

__all__ = ["lib", "status"]


def _load() -> tuple[ctypes.CDLL | None, str]:
    wanted = os.environ.get("HASHSTREAM_NATIVE", "1")
    if wanted == "0":
        return None, "NumPy (HASHSTREAM_NATIVE=0)"
    if wanted != "1":
        return ctypes.CDLL(wanted), f"C ({wanted})"
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = Path(__file__).with_name("_kernels" + suffix)
        if path.exists():
            try:
                return ctypes.CDLL(str(path)), "C"
            except OSError as error:
                return None, f"NumPy (the compiled library does not load: {error})"
    return None, "NumPy (installed without a C compiler)"


lib, _status = _load()


def status() -> str:
    """The kernels in use: "C", or "NumPy" with the reason."""
    return _status
