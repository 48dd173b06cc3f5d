"""Measuring and printing, for all benchmarks.

These machines are shared and noisy, so nothing is compared with a figure from another run: the sides of a ratio are
called in turn, round after round, and the ratio is that of their medians.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from rich.console import Console
from rich.table import Table

console = Console(width=max(120, Console().width))


def in_turn(
    sides: dict[str, Callable[[], object]], *, seconds: float = 2.0, least: int = 5, long: float = 2.0
) -> dict[str, float]:
    """Median seconds of one call of each side, the sides called in turn until `seconds` have passed for each.

    The first round warms up and is not counted, unless a call of it takes longer than `long` seconds: to such a side a
    warm-up means nothing, and it is not called again. Of the others at least `least` rounds are counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    short = {}
    for name, side in sides.items():
        first = _seconds(side, 0.0)
        if first > long:
            taken[name].append(first)
        else:
            short[name] = side
    end = time.perf_counter() + seconds * len(short)
    while short and (time.perf_counter() < end or min(len(taken[name]) for name in short) < least):
        for name, side in short.items():
            taken[name].append(_seconds(side))
    return {name: median(times) for name, times in taken.items()}


def _seconds(side: Callable[[], object], turn: float = 0.01) -> float:
    """Mean seconds of a call, in one turn of at least `turn` seconds: what takes less is called in a row, as a stream's
    batches and a server's queries are, so that it is not the other sides' emptying of the caches that is timed."""
    start = time.perf_counter()
    calls = 0
    while not calls or time.perf_counter() - start < turn:
        side()
        calls += 1
    return (time.perf_counter() - start) / calls


@dataclass
class Ratio:
    """One line of a benchmark: what was done, the two times, and what their ratio is meant to be."""

    work: str
    top: tuple[str, float]
    """Name and seconds of the numerator."""
    bottom: tuple[str, float]
    """Name and seconds of the denominator."""
    at_least: float | None = None
    at_most: float | None = None
    said: Callable[[float], str] = field(default_factory=lambda: duration)
    """How the two are printed, where they are not seconds."""

    @property
    def value(self) -> float:
        return self.top[1] / self.bottom[1]

    @property
    def met(self) -> bool:
        above = self.at_least is None or self.value >= self.at_least
        below = self.at_most is None or self.value <= self.at_most
        return above and below


def show(title: str, ratios: list[Ratio]) -> bool:
    """Print the ratios as a table; True where every target was met."""
    table = Table(title=title, title_justify="left")
    for name in ("work", "ratio", "times", "measured", "target", ""):
        table.add_column(name, justify="right" if name == "measured" else "left")
    for ratio in ratios:
        if ratio.at_least is not None:
            target, mark = f"at least {ratio.at_least:g}", "met" if ratio.met else "MISSED"
        elif ratio.at_most is not None:
            target, mark = f"at most {ratio.at_most:g}", "met" if ratio.met else "MISSED"
        else:
            target, mark = "", ""
        table.add_row(
            ratio.work,
            f"{ratio.top[0]} / {ratio.bottom[0]}",
            f"{ratio.said(ratio.top[1])} / {ratio.said(ratio.bottom[1])}",
            f"{ratio.value:.2f}",
            target,
            mark,
        )
    console.print(table)
    return all(ratio.met for ratio in ratios)


def duration(seconds: float) -> str:
    """Seconds with a unit that leaves three digits to read."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def machine() -> str:
    """The processor, the number of cores and the system, for the head of a report."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            processor = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    system = f"{platform.system()} {platform.machine()}"
    return f"{processor}, {os.cpu_count()} cores, {system}, Python {platform.python_version()}"
