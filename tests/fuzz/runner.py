"""Runs the cases of a fuzzer in child processes, and counts what comes of them.

A fuzzer is a module with a function `try_case(seed, case, folder) -> str`, which makes the file or folder of a case,
uses it, and returns "refused", "worked", or "problem" and a sentence. A child that dies, is silent for too long or asks
for too much memory is a problem too, named by its seed and case.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from select import select

__all__ = ["Counts", "main", "run"]

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 100.0  # seconds for one case; most take milliseconds
STARTUP = 120.0  # seconds for a child to import what it needs
MEMORY = 3 << 30  # bytes of address space that a case may ask for, beyond what was mapped before

TryCase = Callable[[int, int, Path], str]


@dataclass
class Counts:
    """cases : tried. refused : with the error that is promised. worked : that could be used. problems : a sentence for
    each that did neither."""

    seed: int = 0
    cases: int = 0
    refused: int = 0
    worked: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.cases} cases: {self.refused} refused, {self.worked} worked, {len(self.problems)} problems"
        )


def run(
    module: str,
    seconds: float | None = None,
    count: int | None = None,
    seed: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Counts:
    """Try `count` cases, or as many as `seconds` allow (both: whichever ends first; neither: 1,000 cases).

    module : of the fuzzer, by name. environment : variables that its processes have in addition to this one's.
    """
    if seconds is None and count is None:
        count = 1000
    stop = time.monotonic() + seconds if seconds is not None else float("inf")
    counts = Counts(seed)
    while time.monotonic() < stop and (count is None or counts.cases < count):
        _run_child(module, counts, count, stop, environment or {})
    return counts


def _run_child(
    module: str, counts: Counts, count: int | None, stop: float, environment: Mapping[str, str]
) -> None:
    """Have one child try cases from `counts.cases` on, until it is done, out of time, or lost."""
    last = 1 << 60 if count is None else count
    child = subprocess.Popen(
        [sys.executable, "-m", module, "--worker", str(counts.seed), str(counts.cases), str(last)],
        cwd=ROOT,
        env={
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
            **environment,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)]),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # `select` does not see what a buffer holds
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    ready = False
    try:
        while counts.cases < last and time.monotonic() < stop:
            told, _, _ = select([child.stdout], [], [], TIMEOUT if ready else STARTUP)
            line = child.stdout.readline().decode().strip() if told else "silent"
            if line == "ready":
                ready = True
                continue
            case = f"seed {counts.seed}, case {counts.cases}"
            counts.cases += 1
            if line in ("refused", "worked"):
                setattr(counts, line, getattr(counts, line) + 1)
            elif line.startswith("problem"):
                counts.problems.append(f"{case}: {line.partition(' ')[2]}")
            else:
                child.kill()
                last_words = child.stderr.read().decode(errors="replace").strip()
                why = f"hung for {TIMEOUT:g} s" if line == "silent" else f"died: {last_words[:800]}"
                counts.problems.append(f"{case}: the process {why}")
                return
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()


def limit_memory() -> None:
    """Of this process, where the system can."""
    if not (statm := Path("/proc/self/statm")).exists():
        return
    import resource

    mapped = int(statm.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(module: str, description: str | None, try_case: TryCase, prepare: Callable[[], object]) -> None:
    """The command line of a fuzzer. prepare : called once in a process, before memory is limited."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="one case, in this process")
    parser.add_argument("--worker", type=int, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is None and given.case is None:
        counts = run(module, given.seconds, given.count, given.seed)
        print(counts, *counts.problems, sep="\n")
        sys.exit(bool(counts.problems))
    warnings.simplefilter("ignore")
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        if given.case is not None:
            print(try_case(given.seed, given.case, Path(folder)))
            return
        limit_memory()
        print("ready", flush=True)
        seed, first, last = given.worker
        for case in range(first, last):
            print(" ".join(try_case(seed, case, Path(folder)).split()), flush=True)
