"""Cores and memory that this process may use, and bytes as text."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource

__all__ = ["available_memory", "check_memory", "cores", "share_cores", "size"]

GROUP = "/sys/fs/cgroup"
_processes = 1  # that share the cores


def cores() -> int:
    """The number of cores that this process may use: all, or its share of them (`share_cores`)."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, there // _processes)


def share_cores(processes: int) -> None:
    """Use one of so many equal shares of the cores from now on, since other processes use the others."""
    global _processes
    _processes = max(1, processes)


def available_memory() -> int:
    """Bytes that this process can still allocate: limited by the machine, its control group and its own limit."""
    if sys.platform == "win32":
        return 1 << 62  # unknown
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            limits.append(1024 * int(line.split()[1]))
    limit, used = (_lines(f"{GROUP}/{name}") for name in ("memory.max", "memory.current"))
    if limit and used and limit[0].isdigit() and used[0].isdigit():
        # The page cache counts as used, but is given back when memory is needed.
        pages = dict(line.split() for line in _lines(f"{GROUP}/memory.stat"))
        cached = sum(int(pages.get(name, 0)) for name in ("inactive_file", "active_file"))
        limits.append(max(0, int(limit[0]) - int(used[0]) + cached))
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    if own != resource.RLIM_INFINITY:
        held = _lines("/proc/self/statm")
        limits.append(max(0, own - os.sysconf("SC_PAGE_SIZE") * int(held[0].split()[0] if held else 0)))
    return min(limits)


def check_memory(n_bytes: int) -> None:
    """Raise MemoryError, before anything is allocated, if `n_bytes` are not available."""
    if n_bytes > 1 << 24 and n_bytes > (left := available_memory()):
        raise MemoryError(f"it needs {_shown(n_bytes)} of memory, and {_shown(left)} are available")


def _shown(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:,.0f} MB"


def size(n_bytes: float) -> str:
    """Bytes with a decimal unit.

    >>> size(4), size(276_000), size(216_384_000)
    ('4 bytes', '276 kB', '216 MB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
