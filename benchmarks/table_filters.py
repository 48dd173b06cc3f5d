"""Filters, compared with the same search without one: one query at a time, top 10.

"again": the filter was used since the last commit. "after a commit": it was used before that, so the table knows which
items it keeps, but not where their codes are now. "first": it was never used, so every item is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

import hashstream as hs
from benchmarks.harness import Ratio, in_turn
from benchmarks.table_stream import clustered
from hashstream.table import HashTable, Never
from hashstream.table.state.filters import Filters

D, BITS = 128, 64
SHARES = {"50 %": 0.5, "1 %": 0.01, "0.1 %": 0.001}
OTHERS = 200  # strings of the items that none of the shares has
PIECE = 100_000


def ratios(n: int, quick: bool) -> list[Ratio]:
    """A string that such a share of the items have, and a range that as many lie in."""
    found = []
    with _filled(n) as table:
        queries = cycle(np.split(clustered(np.random.default_rng(2), 100, D)[0], 100))

        def search(where: dict[str, Any] | None, when: str = "again") -> None:
            if when == "after a commit":
                table._filters._held = None, {}
            elif when == "first":
                table._filters = Filters()
            table.search(next(queries), 10, where=where)

        for title, share in SHARES.items():
            wheres: dict[str, dict[str, Any]] = {
                "a string": {"tenant": title},
                "a range": {"price": {"$lt": share}},
            }
            sides: dict[str, Callable[[], object]] = {"search": lambda: search(None)}
            for name, where in wheres.items():
                kept = table.count(where) / n
                if not 0.7 * share < kept < 1.4 * share:
                    raise AssertionError(f"{where} keeps {kept:.2%}")
                for when in ("again", "after a commit", "first"):
                    sides[f"{name}, {when}"] = partial(search, where, when)
            times = in_turn(sides, seconds=0.5 if quick else 2.0)
            for name, taken in times.items():
                if name != "search":
                    aim = None if quick else 1.0 if share < 0.01 else 1.5
                    bottom = "search", times["search"]
                    found.append(Ratio(f"keeps {title}: {name}", ("filtered", taken), bottom, at_most=aim))
    return found


def _filled(n: int) -> HashTable:
    rng = np.random.default_rng(5)
    names = np.array([*SHARES, *(f"other {i}" for i in range(OTHERS))], object)
    shares = [*SHARES.values(), *[(1 - sum(SHARES.values())) / OTHERS] * OTHERS]
    hasher, fields = hs.FCOH(BITS, random_state=0), {"tenant": str, "price": float}
    table = HashTable.open(None, hasher, policy=Never(), fields=fields)
    table.ingest(np.arange(n, n + 1000), *clustered(rng, 1000, D))
    table.remove(np.arange(n, n + 1000))  # they have no fields
    for start in range(0, n, PIECE):
        some = min(PIECE, n - start)
        values = {"tenant": rng.choice(names, some, p=shares), "price": rng.random(some)}
        table.add(np.arange(start, start + some), clustered(rng, some, D)[0], fields=values)
    table.compact()
    return table
