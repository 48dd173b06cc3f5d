"""Codes of old versions re-encoded by the current functions: from features, whole or bit by bit, or from the codes
themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Protocol

import numpy as np

from hashstream.hashers import LSH, Encoder
from hashstream.table.state.change import Recoded
from hashstream.table.state.sample import Sample
from hashstream.table.state.view import Part, View, in_order, merged

__all__ = [
    "Features",
    "encode_slots",
    "first_items",
    "mixed",
    "recode_bits",
    "recode_features",
    "recode_projected",
    "smallest_versions",
    "stale_parts",
]

PIECE = 1 << 16  # slots that are encoded at once
DENSE = 4  # a stretch is read whole where at least one slot in this many is wanted


class Features(Protocol):
    """Stored features by slot."""

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        """The features of slots first to last in blocks: (first slot, (n, d)) of each, until the next is asked for."""

    def features(self, slots: np.ndarray) -> np.ndarray:
        """The features of slots in any order, copied: (n, d)."""


def stale_parts(parts: Iterable[Part], newest: int) -> list[Part]:
    """Parts of other versions than the newest, the oldest first."""
    return sorted((part for part in parts if part.version != newest), key=lambda part: part.version)


def first_items(parts: list[Part], budget: int | None) -> list[Part]:
    """The first `budget` items of the parts (None: all), by version, then by slot, one part for each version."""
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
    """The parts of the versions with the fewest items that have to go so that at most `most` versions are alive.

    With them go versions that have no more items than those: an item is then re-encoded only as often as the table
    doubles, not with every batch.
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
    stored: Features, encoder: Encoder, parts: list[Part], budget: int | None
) -> list[Recoded]:
    """New codes of the first `budget` items of the parts (None: of all), from their stored features."""
    if budget is not None:
        parts = first_items(parts, budget)
    slots = in_order([part.rows()[1] for part in parts])
    if not len(slots):
        return []
    return [Recoded(encoder.version, slots, encode_slots(stored, encoder, slots))]


def encode_slots(stored: Features, encoder: Encoder, slots: np.ndarray) -> np.ndarray:
    """The codes (n, width) of slots (ascending), in whole blocks where they are close together."""
    codes = np.empty((len(slots), encoder.width), np.uint8)
    done = 0
    while done < len(slots):
        first = int(slots[done])
        stop = int(np.searchsorted(slots, np.uint32(min(first + PIECE, 1 << 32) - 1), side="right"))
        last = int(slots[stop - 1]) + 1
        if last - first <= DENSE * (stop - done):
            for start, X in stored.blocks(first, last):
                ends = np.array(
                    [start, start + len(X) - 1], np.uint32
                )  # with another dtype, slots are copied
                low = np.searchsorted(slots, ends[0])
                high = np.searchsorted(slots, ends[1], side="right")
                if low == high:
                    continue
                block = encoder.encode(X)
                whole = high - low == len(X)
                codes[low:high] = block if whole else block[slots[low:high].astype(np.int64) - start]
        else:
            codes[done:stop] = encoder.encode(stored.features(slots[done:stop].astype(np.int64)))
        done = stop
    return codes


def mixed(old: Encoder, new: Encoder, bits: np.ndarray, version: int) -> Encoder:
    """The functions of `new` for some bits (b,) and those of `old` for the others, where both are products."""
    assert old.product is not None
    assert new.product is not None
    W = old.product.matrix.copy()
    W[:, bits] = new.product.matrix[:, bits]
    return _product(replace(new, version=version, projection=W))


def recode_bits(
    stored: Features, known: Mapping[int, Encoder], encoder: Encoder, parts: list[Part]
) -> list[Recoded]:
    """New codes of all items of the parts, of which only those bits are encoded whose functions differ. known : the
    functions of the parts' versions."""
    assert encoder.product is not None
    W = encoder.product.matrix
    recoded = []
    for part in first_items(parts, None):
        codes, slots = part.rows()
        old, bits = known[part.version].product, np.arange(encoder.n_bits)
        if old is not None:
            bits = np.flatnonzero((old.matrix != W).any(axis=0))
        if len(bits):
            columns = replace(encoder, n_bits=len(bits), projection=np.ascontiguousarray(W[:, bits]))
            found = encode_slots(stored, _product(columns), slots)
            codes = with_bits(codes, found, bits, encoder.n_bits)
        recoded.append(Recoded(encoder.version, slots, codes))
    return recoded


def with_bits(codes: np.ndarray, found: np.ndarray, bits: np.ndarray, n_bits: int) -> np.ndarray:
    """Codes (n, width) of n_bits bits, in which the bits at `bits` (b,) are those of the packed `found`,
    (n, ceil(b / 8))."""
    kept = np.ones(n_bits, np.uint8)
    kept[bits] = 0
    after: np.ndarray = codes & np.packbits(kept)
    for i, byte in enumerate(found.T):  # by tables, which is much faster than to unpack the bits
        places = bits[8 * i : 8 * i + 8]
        spread = np.zeros((256, n_bits), np.uint8)
        spread[:, places] = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, : len(places)]
        after |= np.take(np.packbits(spread, axis=1), byte, axis=0)
    return after


def _product(encoder: Encoder) -> Encoder:
    """An encoder whose values are X @ projection, from one with another projection."""
    return LSH.of(encoder).encoder()


def recode_projected(
    fit: Callable[[Encoder, Encoder, np.ndarray], Callable[[np.ndarray], np.ndarray]],
    view: View,
    encoder: Encoder,
    parts: list[Part],
    sample: Sample,
    budget: int | None,
    batch: np.ndarray | None = None,
) -> list[Recoded]:
    """The same from their codes, by a map that `fit` learns between two encoders on the features of the sample.

    batch : rows to learn it on where all items of the sample have been removed.
    """
    _, X, _ = sample.items()
    if not len(X) and batch is not None:
        X = batch
    if not len(X):
        return []
    recoded = []
    for part in first_items(parts, budget):
        codes, slots = part.rows()
        project = fit(view.encoders[part.version], encoder, X)
        new = np.empty_like(codes)
        for start in range(0, len(codes), PIECE):
            new[start : start + PIECE] = project(codes[start : start + PIECE])
        recoded.append(Recoded(encoder.version, slots, new))
    return recoded
