"""The load of `serve_load.py` for ten minutes, while the memory, descriptors and threads of the service are watched.

Every five seconds the kernel is asked for the service's memory. Only anonymous memory is judged, since pages of mapped
files belong to the page cache. The bytes that the table says it holds are taken off. Ingested rows replace a fixed set
of ids, and the table is compacted once a minute, so these hardly grow either. The first half is the warm-up. A line is
fitted to the second half. Its rise may be `LEAK` bytes per search of that half, since a Python object that leaked with
each request would take 50 or more; or `SETTLING` bytes in all, since the allocator's heaps settle slowly under a load
of many threads. Descriptors and threads may not rise by one over the half.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import theilslopes

from benchmarks.harness import Ratio, console
from benchmarks.serve_clients import Clients, Connection
from benchmarks.serve_load import PATH, Figures, figures, start
from benchmarks.serve_running import Memory, Serving, copied, serving
from hashstream._machine import size

EVERY = 5.0  # seconds between two samples
LEAK, SETTLING = 32.0, 8 << 20  # bytes per search, and in all
IDLE = 2.0  # seconds after the load, before descriptors are counted again


@dataclass(frozen=True)
class Sample:
    """Resources of the service, at a time. own : anonymous bytes without those of the table."""

    time: float
    own: int
    memory: Memory


def ratios(table: Path, scratch: Path, n: int, quick: bool) -> list[Ratio]:
    period, periods = (10.0, 3) if quick else (60.0, 10)
    copied(table, scratch / "soak")
    samples: list[Sample] = []
    rounds: list[Figures] = []
    with serving(scratch / "soak") as service, Clients() as clients:
        watching = service.connect()
        start(clients, service, n)
        begun = clients.begin(period, periods)
        for number in range(periods):
            end = begun + (number + 1) * period
            while (left := end - time.monotonic()) > 0:
                samples.append(_sample(service, watching))
                time.sleep(min(EVERY, max(0.0, left)))
            rounds.append(figures(clients.period(end), period))
            watching.ask("POST", f"{PATH}/compact")
            console.print(f"{(number + 1) * period / 60:4.1f} min: {rounds[-1]}; {_said(samples[-1])}")
        time.sleep(IDLE)
        console.print(f"idle: {_said(_sample(service, watching))}")
        watching.close()
    return _judged(samples, rounds, period, quick)


def _sample(service: Serving, connection: Connection) -> Sample:
    held = connection.json(f"{PATH}/stats")["memory_bytes"]
    memory = service.memory()
    return Sample(time.monotonic(), memory.anonymous - held, memory)


def _said(sample: Sample) -> str:
    memory = sample.memory
    return (
        f"resident {size(memory.resident)}, anonymous {size(memory.anonymous)}, without the table's own "
        f"{size(sample.own)}, {memory.descriptors} descriptors, {memory.threads} threads"
    )


def _judged(samples: list[Sample], rounds: list[Figures], period: float, quick: bool) -> list[Ratio]:
    half = samples[len(samples) // 2 :]
    at = np.array([sample.time for sample in half])
    requests = sum(one.queries * period for one in rounds[len(rounds) // 2 :])

    def growth(values: list[int]) -> float:
        """How much the fitted line rises over the half. Its slope is the median of the slopes of all pairs (Theil and
        Sen): a few high samples would tilt a line of least squares."""
        return float(theilslopes(np.array(values, float), at)[0] * (at[-1] - at[0]))

    grown = growth([sample.own for sample in half])
    each = grown / max(1.0, requests)
    console.print(
        f"Second half: {requests:,.0f} searches; the fitted line rises by {each:+.1f} bytes per search"
    )
    found = [
        Ratio(
            "memory over the second half",
            ("growth", max(0.0, grown)),
            ("allowed", max(LEAK * requests, SETTLING)),
            at_most=None if quick else 1,
            said=size,
        )
    ]
    for name in ("descriptors", "threads"):
        value = growth([getattr(sample.memory, name) for sample in half])
        found.append(
            Ratio(
                f"{name} over the second half",
                ("growth", max(0.0, value)),
                ("allowed", 1.0),
                at_most=None if quick else 1,
                said=lambda value: f"{value:.2f}",
            )
        )
    return found
