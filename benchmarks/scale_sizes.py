"""How many machines a cluster needs: `python -m benchmarks.scale_sizes --items 1e10 --bits 64 --features 512`.

Bytes per item, searches per second and core, and the time of a re-encoding follow from a few constants, which
`--measure` measures on this machine in under a minute and stores in docs/results/scale.json. `--table` writes the table
of docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import machine
from hashstream import HashTable, PosteriorHash, hamming

FILE = Path(__file__).parents[1] / "docs" / "results" / "scale.json"
HOURS = 3600
CODES, BITS, FEATURES, ITEMS = 1_000_000, (64, 128, 256), 128, 50_000  # that are measured
AT_ONCE = 100  # queries of a batch
USED = 0.7  # share of a machine's memory that codes may take


def measure(say: Callable[[str], None]) -> dict[str, Any]:
    """The constants of this machine."""
    found: dict[str, Any] = {"machine": machine(), "codes": CODES, "items": ITEMS}
    rng = np.random.default_rng(0)
    say("searching")
    for bits in BITS:
        codes = rng.integers(0, 256, (CODES, bits // 8), np.uint8)
        many, one = codes[:AT_ONCE].copy(), codes[:1].copy()
        batch = _seconds(lambda q=many, c=codes: hamming.topk(q, c, 10, n_threads=1)) / AT_ONCE  # type: ignore[misc]
        single = _seconds(lambda q=one, c=codes: hamming.topk(q, c, 10, n_threads=1))  # type: ignore[misc]
        found[f"ns_per_code_{bits}"] = {"batch": 1e9 * batch / CODES, "single": 1e9 * single / CODES}
    say("storing")
    X = rng.normal(size=(ITEMS, FEATURES)).astype(np.float32)
    hasher = PosteriorHash(64, random_state=0).partial_fit(X[:2000], rng.integers(0, 10, 2000))
    with tempfile.TemporaryDirectory() as folder, HashTable.open(folder, hasher, policy="never") as table:
        memory, disk = [], []
        for rows in np.split(np.arange(ITEMS), 2):  # the difference is without what every table has
            table.add(rows, X[rows], rng.integers(0, 10, len(rows)))
            table.flush()
            stats = table.stats()
            memory.append(stats.memory_bytes)
            disk.append(stats.disk_bytes - stats.feature_bytes)
        found["memory_bytes_beside_code"] = (memory[1] - memory[0]) / (ITEMS // 2) - 8
        found["disk_bytes_beside_features"] = (disk[1] - disk[0]) / (ITEMS // 2)
    say("encoding")
    with threadpool_limits(1):
        encoder = hasher.encoder()
        seconds = _seconds(lambda: encoder.encode(X[:20_000]))
    found["encoded_rows_per_second"] = {str(FEATURES): 20_000 / seconds}
    say("starting Ray")
    found |= _on_ray(hasher, X)
    return found


def _on_ray(hasher: PosteriorHash, X: np.ndarray) -> dict[str, Any]:
    """The time that a search takes beside the comparisons, and the memory of a shard without items."""
    from hashstream.scale import Cluster

    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster.open(Path(folder) / "c", hasher, shards=2) as cluster,
    ):
        cluster.add(np.arange(1000), X[:1000])
        scatter = _seconds(lambda: cluster.search(X[:1], 10), least=50, clock=time.perf_counter)
        resident = max(_resident(pid) for pid in cluster.shard_pids())
    return {"scatter_seconds": scatter, "process_bytes": resident}


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _seconds(
    call: Callable[[], object], least: int = 5, clock: Callable[[], float] = time.process_time
) -> float:
    """The median duration of a call, after one that warms up. clock : of the processor, where others use it, too."""
    call()
    taken: list[float] = []
    end = time.perf_counter() + 0.5
    while len(taken) < least or time.perf_counter() < end:
        start = clock()
        call()
        taken.append(clock() - start)
    return median(taken)


@dataclass(frozen=True)
class Needs:
    """What a cluster needs, all machines together.

    memory, disk : bytes. machines : that have the memory. cores : that are busy at this rate of searches in batches.
    single : seconds of one query alone, on all cores of these machines. encode_hours : of re-encoding all items there.
    """

    memory: float
    features: float
    disk: float
    machines: int
    cores: float
    qps_per_core: float
    single: float
    encode_hours: float


def needs(
    constants: dict[str, Any],
    *,
    items: float,
    bits: int,
    features: int,
    qps: float,
    cores: int,
    memory: float,
) -> Needs:
    """The arithmetic. cores, memory : of one machine."""
    code = -(-bits // 8)
    in_memory = items * (code + constants["memory_bytes_beside_code"])
    speed = _per_code(constants, bits)
    per_query = items * speed["batch"] / 1e9
    busy = qps * per_query
    machines = max(1, int(-(-in_memory // (USED * memory))), int(-(-busy // cores)))
    known, rate = next(iter(constants["encoded_rows_per_second"].items()))
    encoded = rate * int(known) / features * machines * cores
    return Needs(
        memory=in_memory,
        features=items * 4 * features,
        disk=items * (4 * features + constants["disk_bytes_beside_features"]),
        machines=machines,
        cores=busy,
        qps_per_core=1 / per_query,
        single=constants["scatter_seconds"] + items * speed["single"] / 1e9 / (machines * cores),
        encode_hours=items / encoded / HOURS,
    )


def _per_code(constants: dict[str, Any], bits: int) -> dict[str, float]:
    """Nanoseconds per comparison: as of the next length that was measured, and in proportion beyond the longest."""
    length = next((one for one in BITS if one >= bits), BITS[-1])
    return {
        name: value * max(1.0, bits / length) for name, value in constants[f"ns_per_code_{length}"].items()
    }


def size(n_bytes: float) -> str:
    """
    >>> size(5.1e11), size(2e6)
    ('510 GB', '2 MB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"


def figure(value: float) -> str:
    """
    >>> figure(7785.6), figure(0.7786)
    ('7,790', '0.779')
    """
    return f"{float(f'{value:.3g}'):,g}"


def lasting(seconds: float) -> str:
    """
    >>> lasting(0.0042), lasting(90), lasting(7200)
    ('4.2 ms', '1.5 min', '2 h')
    """
    for unit, scale in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= scale:
            return f"{seconds / scale:.2g} {unit}"
    return f"{1e3 * seconds:.2g} ms"


def table(constants: dict[str, Any], **given: Any) -> str:
    """The table of docs/scale.md: from 10^6 to 10^10 codes."""
    lines = [
        "| items | codes, ids, index in memory | features on disk | queries per second and core, in batches | "
        "machines | one query alone | re-encoding everything |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for power in range(6, 11):
        one = needs(constants, items=10.0**power, **given)
        lines.append(
            f"| 10^{power} | {size(one.memory)} | {size(one.features)} | {figure(one.qps_per_core)} | {one.machines} | "
            f"{lasting(one.single)} | {lasting(HOURS * one.encode_hours)} |"
        )
    return "\n".join(lines)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_sizes", description=__doc__)
    parser.add_argument("--items", type=float, default=1e9, help="items of the cluster")
    parser.add_argument("--bits", type=int, default=64, help="bits of a code")
    parser.add_argument("--features", type=int, default=512, help="features of an item, float32")
    parser.add_argument("--qps", type=float, default=100, help="queries per second, in batches")
    parser.add_argument("--cores", type=int, default=16, help="cores of a machine")
    parser.add_argument("--memory", type=float, default=64e9, help="bytes of memory of a machine")
    parser.add_argument("--measure", action="store_true", help="measure the constants here, and store them")
    parser.add_argument("--table", action="store_true", help="print the table of docs/scale.md")
    return parser


def run(arguments: list[str] | None = None) -> str:
    """The answer to the arguments of a command line."""
    asked = vars(_arguments().parse_args(arguments))
    measured, tabled = asked.pop("measure"), asked.pop("table")
    if measured:
        FILE.write_text(json.dumps(measure(lambda what: print(f"{what} ...", flush=True)), indent=1) + "\n")
    constants = json.loads(FILE.read_text())
    if tabled:
        asked.pop("items")
        return table(constants, **asked)
    one = needs(constants, **asked)
    per_item = one.memory / asked["items"]
    machines = f"machines of {asked['cores']} cores and {size(asked['memory'])}"
    process = size(constants["process_bytes"])
    lines = {
        "": f"{asked['items']:,.0f} items, {asked['bits']} bits, {asked['features']} features, "
        f"{asked['qps']:g} queries per second, {machines}:",
        "memory": f"{size(one.memory)}, {per_item:.0f} bytes per item; {process} more per shard",
        "disk": f"{size(one.disk)}, of which {size(one.features)} features; labelled rows once more, in the learner",
        "machines": f"{one.machines}",
        "searching": f"{one.cores:.3g} cores busy, {one.qps_per_core:.3g} queries per second and core in batches of "
        f"{AT_ONCE}; one query alone {lasting(one.single)} on all cores",
        "re-encode": f"{lasting(HOURS * one.encode_hours)} for all items, on all cores, with the default PosteriorHash",
        "constants": f"{constants['machine']}; docs/results/scale.json",
    }
    return "\n".join(f"  {name:<10} {line}" if name else line for name, line in lines.items())


if __name__ == "__main__":
    print(run())
