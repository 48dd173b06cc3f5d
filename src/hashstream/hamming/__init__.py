"""COMPARE: packed binary codes and the exact ways to compare them.

A set of codes is an (n, width) uint8 array, one code a row, eight bits a byte as `np.packbits(bits, axis=1)`
packs them: 1 to 128 bytes, that is 1 to 1,024 bits. Bits that fill up the last byte are zero, so they never
count.

`distances`, `topk`, `weighted_topk`, `radius` and `Parts` search; `histogram`, `rank` and `stable_scores` say how whole
rankings look. All are exact, equally distant codes come in the order of their row, and no result depends on the
number of threads. The work is done by a compiled kernel, or by its NumPy twin where the package was installed
without a compiler (`hashstream.show_versions()` says which).
"""

from hashstream.hamming._labels import pack_labels
from hashstream.hamming._parts import Parts
from hashstream.hamming._rank import Histogram, StableScores, histogram, rank, stable_scores
from hashstream.hamming._search import distances, pack, pack_signs, radius, topk, unpack
from hashstream.hamming._weighted import weighted_topk

__all__ = [
    "Histogram",
    "Parts",
    "StableScores",
    "distances",
    "histogram",
    "pack",
    "pack_labels",
    "pack_signs",
    "radius",
    "rank",
    "stable_scores",
    "topk",
    "unpack",
    "weighted_topk",
]
