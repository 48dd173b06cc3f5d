"""The figures that the paper prints in its tables and in its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

__all__ = [
    "BITS",
    "CLAIMED",
    "EARLY",
    "METHODS",
    "SECONDS",
    "TABLES",
    "VARIANTS",
    "best_baseline",
    "improvement",
    "margin",
    "printed",
]

BITS = (8, 16, 32, 48, 64, 128)
"""The code lengths of the tables, in the order of their columns."""

METHODS = ("OKH", "SketchHash", "AdaptHash", "OSH", "MIHash", "HCOH", "BSODH", "FCOH")
"""The rows of the tables, in the paper's order."""

TABLES: Mapping[str, Mapping[str, Mapping[str, tuple[float, ...]]]] = {
    "cifar10": {
        "mAP": {
            "OKH": (0.100, 0.134, 0.223, 0.252, 0.268, 0.350),
            "SketchHash": (0.248, 0.301, 0.302, 0.327),
            "AdaptHash": (0.116, 0.138, 0.216, 0.297, 0.305, 0.293),
            "OSH": (0.123, 0.126, 0.129, 0.131, 0.127, 0.125),
            "MIHash": (0.512, 0.640, 0.675, 0.668, 0.667, 0.664),
            "HCOH": (0.536, 0.698, 0.688, 0.707, 0.724, 0.734),
            "BSODH": (0.564, 0.604, 0.689, 0.656, 0.709, 0.711),
            "FCOH": (0.602, 0.674, 0.702, 0.711, 0.739, 0.742),
        },
        "precision@H2": {
            "OKH": (0.100, 0.175, 0.100, 0.452, 0.175, 0.372),
            "SketchHash": (0.256, 0.431, 0.385, 0.059),
            "AdaptHash": (0.114, 0.254, 0.185, 0.093, 0.166, 0.164),
            "OSH": (0.120, 0.123, 0.137, 0.117, 0.083, 0.038),
            "MIHash": (0.170, 0.673, 0.657, 0.604, 0.500, 0.413),
            "HCOH": (0.333, 0.723, 0.731, 0.694, 0.633, 0.471),
            "BSODH": (0.305, 0.582, 0.691, 0.697, 0.690, 0.602),
            "FCOH": (0.484, 0.738, 0.743, 0.711, 0.648, 0.618),
        },
    },
    "places205": {
        "mAP@1000": {
            "OKH": (0.018, 0.033, 0.122, 0.048, 0.114, 0.258),
            "SketchHash": (0.052, 0.120, 0.202, 0.242),
            "AdaptHash": (0.028, 0.097, 0.195, 0.223, 0.222, 0.229),
            "OSH": (0.018, 0.021, 0.022, 0.032, 0.043, 0.164),
            "MIHash": (0.094, 0.191, 0.244, 0.288, 0.308, 0.332),
            "HCOH": (0.049, 0.173, 0.259, 0.280, 0.321, 0.347),
            "BSODH": (0.035, 0.174, 0.250, 0.273, 0.308, 0.337),
            "FCOH": (0.099, 0.198, 0.267, 0.302, 0.335, 0.353),
        },
        "precision@H2": {
            "OKH": (0.007, 0.010, 0.026, 0.017, 0.217, 0.075),
            "SketchHash": (0.017, 0.066, 0.220, 0.176),
            "AdaptHash": (0.009, 0.051, 0.012, 0.185, 0.021, 0.022),
            "OSH": (0.007, 0.009, 0.012, 0.023, 0.030, 0.059),
            "MIHash": (0.022, 0.112, 0.204, 0.242, 0.202, 0.069),
            "HCOH": (0.012, 0.082, 0.252, 0.179, 0.114, 0.036),
            "BSODH": (0.009, 0.101, 0.241, 0.246, 0.212, 0.101),
            "FCOH": (0.024, 0.124, 0.261, 0.263, 0.223, 0.141),
        },
    },
    "mnist": {
        "mAP": {
            "OKH": (0.100, 0.155, 0.224, 0.273, 0.301, 0.404),
            "SketchHash": (0.257, 0.312, 0.348, 0.369),
            "AdaptHash": (0.138, 0.207, 0.319, 0.318, 0.292, 0.208),
            "OSH": (0.130, 0.144, 0.130, 0.148, 0.146, 0.143),
            "MIHash": (0.664, 0.741, 0.744, 0.780, 0.713, 0.681),
            "HCOH": (0.536, 0.708, 0.756, 0.772, 0.759, 0.771),
            "BSODH": (0.593, 0.700, 0.747, 0.743, 0.766, 0.760),
            "FCOH": (0.673, 0.725, 0.786, 0.789, 0.784, 0.801),
        },
        "precision@H2": {
            "OKH": (0.100, 0.220, 0.457, 0.724, 0.522, 0.124),
            "SketchHash": (0.261, 0.596, 0.691, 0.251),
            "AdaptHash": (0.153, 0.442, 0.535, 0.335, 0.163, 0.168),
            "OSH": (0.131, 0.146, 0.192, 0.134, 0.109, 0.019),
            "MIHash": (0.487, 0.803, 0.814, 0.739, 0.720, 0.471),
            "HCOH": (0.350, 0.800, 0.826, 0.766, 0.643, 0.370),
            "BSODH": (0.308, 0.709, 0.826, 0.804, 0.814, 0.643),
            "FCOH": (0.506, 0.817, 0.849, 0.814, 0.817, 0.620),
        },
    },
}
"""The three tables of accuracy: data set, metric, method, then one value per code length; SketchHash has four."""

EARLY: Mapping[tuple[str, int, int], Mapping[str, float]] = {
    ("mnist", 64, 2_000): {"FCOH": 0.689, "MIHash": 0.323, "HCOH": 0.329, "BSODH": 0.270}
}
"""mAP before the end of the stream, from the text: by data set, bits and training instances."""

VARIANTS: Mapping[str, Mapping[str, float]] = {
    "cifar10": {"FCOH_S": 0.691, "FCOH_C": 0.696, "FCOH lambda1=0": 0.565, "FCOH lambda2=0": 0.554},
    "places205": {"FCOH_S": 0.255, "FCOH_C": 0.262, "FCOH lambda1=0": 0.099, "FCOH lambda2=0": 0.188},
    "mnist": {"FCOH_S": 0.760, "FCOH_C": 0.777, "FCOH lambda1=0": 0.605, "FCOH lambda2=0": 0.637},
}
"""mAP (mAP@1000 on Places205) at 32 bits of the variants, from their table (BSODH and FCOH are in TABLES), and with one
of the two terms left out, from the text."""

SECONDS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "cifar10": {
        "OKH": (4.53, 1600),
        "SketchHash": (4.98, 64),
        "AdaptHash": (20.73, 1600),
        "OSH": (93.45, 3200),
        "MIHash": (120.10, 103.20),
        "HCOH": (12.34, 3200),
        "BSODH": (36.12, 1.60),
        "FCOH": (7.81, 32),
    },
    "places205": {
        "OKH": (15.66, 12500),
        "SketchHash": (3.52, 500),
        "AdaptHash": (14.49, 12500),
        "OSH": (56.68, 25000),
        "MIHash": (468.77, 437.25),
        "HCOH": (10.54, 25000),
        "BSODH": (69.73, 5),
        "FCOH": (15.27, 25),
    },
    "mnist": {
        "OKH": (4.58, 400),
        "SketchHash": (1.27, 16),
        "AdaptHash": (6.26, 400),
        "OSH": (24.07, 800),
        "MIHash": (97.59, 24.52),
        "HCOH": (4.01, 800),
        "BSODH": (4.83, 0.40),
        "FCOH": (1.64, 8),
    },
}
"""Seconds at 32 bits for the whole stream: to update the hash functions, and to update the hash table."""

CLAIMED: Mapping[tuple[str, str], tuple[float, str]] = {
    ("cifar10", "mAP"): (1.49, "the best baseline"),
    ("cifar10", "precision@H2"): (7.94, "the best baseline"),
    ("cifar10", "AUC of mAP"): (8.63, "HCOH"),
    ("cifar10", "AUC of precision@K"): (6.11, "MIHash"),
    ("places205", "mAP@1000"): (3.84, "the best baseline"),
    ("places205", "precision@H2"): (12.51, "the best baseline"),
    ("places205", "AUC of mAP@1000"): (18.14, "HCOH"),
    ("places205", "AUC of precision@K"): (3.78, "MIHash"),
    ("mnist", "mAP"): (1.76, "the best baseline"),
    ("mnist", "precision@H2"): (1.08, "the best baseline"),
    ("mnist", "AUC of mAP"): (9.83, "HCOH"),
    ("mnist", "AUC of precision@K"): (1.48, "MIHash"),
}
"""By how many per cent FCOH is claimed to be above whom, an `improvement` over the code lengths."""


def printed(dataset: str, method: str, metric: str, bits: int, n_train: int | None = None) -> float | None:
    """A figure of the paper, None where it prints none.

    dataset: "mnist", "cifar10" or "places205". method: one of METHODS, "FCOH_S", "FCOH_C", "FCOH lambda1=0",
    "FCOH lambda2=0". metric: "mAP", "mAP@1000" (Places205), "precision@H2", "hash function seconds", "hash table
    seconds". n_train: None for the whole stream.

    >>> printed("mnist", "FCOH", "mAP", 64), printed("mnist", "HCOH", "mAP", 64, n_train=2_000)
    (0.784, 0.329)
    >>> printed("places205", "FCOH_C", "mAP@1000", 32), printed("mnist", "OSH", "hash table seconds", 32)
    (0.262, 800)
    >>> printed("mnist", "SketchHash", "mAP", 64) is None
    True
    """
    table = TABLES.get(dataset, {})
    if n_train is not None:
        return EARLY.get((dataset, bits, n_train), {}).get(method) if metric == "mAP" else None
    if metric in ("hash function seconds", "hash table seconds"):
        found = SECONDS.get(dataset, {}).get(method)
        return found[metric == "hash table seconds"] if found and bits == 32 else None
    if metric not in table or bits not in BITS:
        return None
    if metric != "precision@H2" and bits == 32 and method in VARIANTS[dataset]:
        return VARIANTS[dataset][method]
    row, column = table[metric].get(method, ()), BITS.index(bits)
    return row[column] if column < len(row) else None


def best_baseline(dataset: str, metric: str, bits: int) -> float:
    """The best figure of a method other than FCOH in the paper's table."""
    figures = (printed(dataset, method, metric, bits) for method in METHODS if method != "FCOH")
    return max(figure for figure in figures if figure is not None)


def margin(dataset: str, metric: str, bits: Sequence[int]) -> float:
    """FCOH's average improvement over the best baseline in the paper's table, over some code lengths.

    >>> round(margin("mnist", "mAP", BITS), 2)
    1.76
    """
    ours = [TABLES[dataset][metric]["FCOH"][BITS.index(length)] for length in bits]
    return improvement(ours, [best_baseline(dataset, metric, length) for length in bits])


def improvement(ours: Sequence[float], baseline: Sequence[float]) -> float:
    """The paper's "average improvement", in per cent: the mean over code lengths of ours / baseline - 1.

    Where the baseline is better, the term is negative and counts.
    """
    return 100 * mean(a / b - 1 for a, b in zip(ours, baseline, strict=True))
