"""Terminal output that several commands share: downloads, durations, sparklines."""

from __future__ import annotations

from itertools import pairwise

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from hashstream import datasets

__all__ = ["load_with_bar", "seconds", "sparkline"]


def load_with_bar(name: str, console: Console) -> datasets.Dataset:
    """Load a data set, with a progress bar for each file that is downloaded."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def arrived(file: str, come: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=come, total=total)

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


def sparkline(values: list[float], width: int = 40, least: float = 0.0) -> str:
    """Draw numbers as a line of bars, lowest to highest; more than `width` numbers are averaged in groups.

    least : smallest range that the full height may stand for, so that small differences look small.

    >>> sparkline([0.2, 0.4, 0.7, 0.7, 0.9])
    '▁▃▆▆█'
    >>> sparkline([0.5, 0.5]), len(sparkline(list(range(1000))))
    ('▁▁', 40)
    >>> sparkline([0.50, 0.51], least=0.1)
    '▁▂'
    """
    bars = "▁▂▃▄▅▆▇█"
    if len(values) > width:
        cuts = [len(values) * i // width for i in range(width + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)]
    low = min(values)
    high = max(*values, low + least)
    if high == low:
        return bars[0] * len(values)
    return "".join(bars[round((value - low) / (high - low) * (len(bars) - 1))] for value in values)
