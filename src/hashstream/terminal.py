"""What the commands share at the terminal: loading with a bar, seconds and bytes as people read them."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from hashstream import datasets

__all__ = ["load_with_bar", "seconds", "size"]


def load_with_bar(name: str, console: Console) -> datasets.Dataset:
    """`datasets.load`, with a bar for each file if something has to be downloaded, and none otherwise."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def arrived(file: str, come: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=come)

        return datasets.load(name, progress=arrived)


def seconds(value: float) -> str:
    """
    >>> seconds(0.0000123), seconds(0.25), seconds(71)
    ('12.3 µs', '250 ms', '71 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def size(n_bytes: float) -> str:
    """
    >>> size(4), size(276_000), size(216_384_000)
    ('4 bytes', '276 kB', '216 MB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"
