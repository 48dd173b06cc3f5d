"""COMPARE: packed binary codes and the exact ways to compare them.

A set of codes is an (n, width) uint8 array: one code per row, eight bits per byte in the order of
`np.packbits(bits, axis=1)`, 1 to 128 bytes (1 to 1,024 bits). Padding bits in the last byte are zero, so they never
count.

`distances`, `topk`, `weighted_topk`, `radius` and `Parts` read every code; `MultiIndex` looks codes up. `histogram`,
`rank` and `stable_scores` describe whole rankings. All are exact, ties are broken by row, and no result depends on the
number of threads. A compiled kernel does the work, or its NumPy twin where the package was installed without a compiler
(the text that `hashstream.show_versions()` returns says which).
"""

from hashstream.hamming._labels import pack_labels
from hashstream.hamming._multi import MultiIndex
from hashstream.hamming._parts import Parts, marked
from hashstream.hamming._rank import Histogram, StableScores, histogram, rank, stable_scores
from hashstream.hamming._search import distances, pack, pack_signs, radius, topk, unpack
from hashstream.hamming._types import Among, TopK, WithinRadius
from hashstream.hamming._weighted import weighted_topk

__all__ = [
    "Among",
    "Histogram",
    "MultiIndex",
    "Parts",
    "StableScores",
    "TopK",
    "WithinRadius",
    "distances",
    "histogram",
    "marked",
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
