"""The compiled inner loops, as a plain shared library.

`lib` is the library, loaded with ctypes (which releases the GIL for every call), or None where the package
was installed without a C compiler or `HASHSTREAM_NATIVE=0` is set. `HASHSTREAM_NATIVE` may also be the path
of another build of the same sources, one with a sanitizer for instance. Each room that calls a kernel
declares its arguments itself, next to the NumPy twin, and uses the twin where `lib` is None.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from pathlib import Path

__all__ = ["lib", "status", "warn_if_slow"]

NAME = "_kernels.dll" if sys.platform == "win32" else "_kernels.so"  # as setup.py calls it


def _load() -> tuple[ctypes.CDLL | None, str]:
    wanted = os.environ.get("HASHSTREAM_NATIVE", "1")
    if wanted == "0":
        return None, "NumPy (HASHSTREAM_NATIVE=0)"
    if wanted != "1":
        return ctypes.CDLL(wanted), f"C ({wanted})"
    path = Path(__file__).with_name(NAME)
    if not path.exists():
        return None, "NumPy (installed without a C compiler)"
    try:
        return ctypes.CDLL(str(path)), "C"
    except OSError as error:
        return None, f"NumPy (the compiled library does not load: {error})"


lib, _status = _load()


def status() -> str:
    """The kernels in use: "C", or "NumPy" with the reason."""
    return _status


_warned = False


def warn_if_slow() -> None:
    """Warn at the first use of a twin, once in a process, unless `HASHSTREAM_NATIVE=0` asks for twins."""
    global _warned
    if _warned or lib is not None or os.environ.get("HASHSTREAM_NATIVE") == "0":
        return
    _warned = True
    warnings.warn(
        f"hashstream works without its compiled kernels: {_status}. Results are the same, but searching for the "
        "nearest codes takes 10 to 100 times as long, and learning up to 13 times (`hashstream perf twins`). "
        "Install a C compiler, and hashstream again.",
        stacklevel=3,
    )
