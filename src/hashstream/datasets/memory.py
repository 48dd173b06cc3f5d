"""How much memory a file may ask for: no more than there is, and no more than its bytes can stand for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource

__all__ = ["MAX_RATIO", "available_memory", "check_memory"]

GROUP = "/sys/fs/cgroup"
MAX_RATIO = 1100
"""Bytes that one byte of a compressed file can stand for: DEFLATE, which NumPy, MATLAB and HDF5 use, gives 1,032."""


def available_memory() -> int:
    """Bytes that this process may still take: of the machine, of its control group, and of its own limit."""
    if sys.platform == "win32":
        return 1 << 62  # unknown
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            limits.append(1024 * int(line.split()[1]))
    most, used = (_lines(f"{GROUP}/{name}") for name in ("memory.max", "memory.current"))
    if most and used and most[0].isdigit() and used[0].isdigit():
        # Pages of files that were read count as used, and are given back when they are needed.
        pages = dict(line.split() for line in _lines(f"{GROUP}/memory.stat"))
        cached = sum(int(pages.get(name, 0)) for name in ("inactive_file", "active_file"))
        limits.append(max(0, int(most[0]) - int(used[0]) + cached))
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    if own != resource.RLIM_INFINITY:
        held = _lines("/proc/self/statm")
        limits.append(max(0, own - os.sysconf("SC_PAGE_SIZE") * int(held[0].split()[0] if held else 0)))
    return min(limits)


def check_memory(n_bytes: int) -> None:
    """MemoryError, before anything is allocated, where so many bytes are more than there are."""
    if n_bytes > 1 << 24 and n_bytes > (left := available_memory()):
        raise MemoryError(f"it needs {_shown(n_bytes)} of memory, and {_shown(left)} are available")


def _shown(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:,.0f} MB"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
