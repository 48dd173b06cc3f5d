"""Codes of old versions made anew by the functions of now: from features, or from the codes themselves."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.table.change import Recoded
from hashstream.table.codes import Part, View, in_order, merged
from hashstream.table.encoders import encode, let_others_run
from hashstream.table.failpoints import reach
from hashstream.table.policies import Projected, project_codes
from hashstream.table.reservoir import Reservoir
from hashstream.table.store import Store

__all__ = [
    "encode_slots",
    "first_items",
    "recode_features",
    "recode_projected",
    "smallest_versions",
    "stale_parts",
]

PIECE = 1 << 16  # slots that are encoded at once
DENSE = 4  # a stretch is encoded whole where at least one slot in so many is wanted


def stale_parts(parts: Iterable[Part], newest: int) -> list[Part]:
    """Those of other versions, the oldest first."""
    return sorted((part for part in parts if part.version != newest), key=lambda part: part.version)


def first_items(parts: list[Part], budget: int | None) -> list[Part]:
    """The first `budget` items of the parts (all, for None): by version, then by slot, one part for each version."""
    chosen: list[Part] = []
    for version, same in groupby(parts, key=lambda part: part.version):
        part = merged(version, list(same))
        if budget is not None:
            codes, slots = part.rows()
            part = Part(version, codes[:budget], slots[:budget], 0, len(slots[:budget]))
            budget -= len(part)
        if len(part):
            chosen.append(part)
    return chosen


def smallest_versions(parts: Iterable[Part], newest: int, most: int) -> list[Part]:
    """The parts of the versions with the fewest items, as many as have to go so that at most `most` are alive.

    With them go versions that have no more items than those that go already: an item is then re-encoded again and again
    only as often as the table doubles, not with every batch.
    """
    counts: dict[int, int] = {}
    held = list(parts)
    for part in held:
        counts[part.version] = counts.get(part.version, 0) + len(part)
    old = sorted((n, version) for version, n in counts.items() if version != newest)
    stop = max(0, len(old) + 1 - most)
    total = sum(n for n, _ in old[:stop])
    while 0 < stop < len(old) and old[stop][0] <= total:
        total += old[stop][0]
        stop += 1
    going = {version for _, version in old[:stop]}
    return stale_parts([part for part in held if part.version in going], newest)


def recode_features(
    store: Store, encoder: OnlineHasher, parts: list[Part], budget: int | None
) -> list[Recoded]:
    """New codes of the first `budget` items of the parts (of all, for None), from their stored features."""
    if budget is not None:
        parts = first_items(parts, budget)
    slots = in_order([part.rows()[1] for part in parts])
    if not len(slots):
        return []
    return [Recoded(int(encoder.version_), slots, encode_slots(store, encoder, slots))]


def encode_slots(store: Store, encoder: OnlineHasher, slots: np.ndarray) -> np.ndarray:
    """The codes (n, width) of slots (ascending), block by block where they stand close together."""
    codes = np.empty((len(slots), -(-encoder.n_bits_ // 8)), np.uint8)
    done = 0
    while done < len(slots):
        first = int(slots[done])
        stop = int(np.searchsorted(slots, np.uint32(min(first + PIECE, 1 << 32) - 1), side="right"))
        last = int(slots[stop - 1]) + 1
        if last - first <= DENSE * (stop - done):
            for start, X in store.blocks(first, last):
                ends = np.array(
                    [start, start + len(X) - 1], np.uint32
                )  # of another dtype, all slots would be copied
                low = np.searchsorted(slots, ends[0])
                high = np.searchsorted(slots, ends[1], side="right")
                if low == high:
                    continue
                made = encode(encoder, X)
                let_others_run()
                codes[low:high] = (
                    made if high - low == len(X) else made[slots[low:high].astype(np.int64) - start]
                )
        else:
            codes[done:stop] = encode(encoder, store.features(slots[done:stop].astype(np.int64)))
        done = stop
        reach("refresh.piece")
    return codes


def recode_projected(
    policy: Projected,
    view: View,
    encoder: OnlineHasher,
    parts: list[Part],
    reservoir: Reservoir,
    budget: int | None,
    batch: np.ndarray | None = None,
) -> list[Recoded]:
    """The same from their codes, by the projections that `policy` learns on the reservoir; on the rows of `batch`
    where all items of the reservoir have been removed."""
    _, X, _ = reservoir.sample()
    if not len(X) and batch is not None:
        X = batch
    if not len(X):
        return []
    recoded = []
    for part in first_items(parts, budget):
        codes, slots = part.rows()
        old = view.encoders[part.version]
        M = policy.projection(old, encoder, X)
        made = np.empty_like(codes)
        for start in range(0, len(codes), PIECE):
            piece = codes[start : start + PIECE]
            made[start : start + PIECE] = project_codes(piece, old.n_bits_, M)
            reach("refresh.piece")
        recoded.append(Recoded(int(encoder.version_), slots, made))
    return recoded
