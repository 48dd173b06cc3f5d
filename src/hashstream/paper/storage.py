"""table-storage: what the class-wise update keeps in memory, against the full similarity matrix of a batch.

The paper's argument: pairs of a batch of n_t samples need an n_t x n_t matrix; class by class, n_c x n_n is enough
(n_n = n_t - n_c), which is never more than a quarter. That counts one of the two blocks of a class. The other, the
class against itself, has n_c x n_c entries. Here both are counted, over real batches and over made-up mixes of
classes, and measured on the equations as they stand.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream import _native
from hashstream.paper.lineup import with_paper_settings
from hashstream.paper.study import Experiment, Section, Sheet, Study
from hashstream.terminal import size

__all__ = [
    "EXPERIMENT",
    "Count",
    "class_wise_gradient",
    "count",
    "full_gradient",
    "lean_gradient",
    "peak_bytes",
]

NAME, BITS = "table-storage", 32
LAMBDA1, LAMBDA2 = 0.1, 0.01  # any: memory does not depend on them
BATCHES = (100, 1000, 2000)
"""n_t: the paper's on MNIST and CIFAR-10, on Places205, and the largest of its sweep."""
MIXES: dict[str, tuple[int, ...]] = {
    "100 equal classes": (1,) * 100,
    "10 equal classes": (1,) * 10,
    "2 equal classes": (1, 1),
    "2 classes, 60 : 40": (3, 2),
    "2 classes, 90 : 10": (9, 1),
    "1 class": (1,),
}
STREAM = "batches of the stream"


@dataclass(frozen=True)
class Count:
    """Entries of the largest block of pairs that must be there at once, as shares of the full n_t x n_t.

    across: n_c x n_n alone, the paper's count. one: the larger of n_c x n_n and n_c x n_c, one after the other.
    both: the two side by side, n_c x n_t.
    """

    across: float
    one: float
    both: float


def count(sizes: Sequence[int]) -> Count:
    """For a batch whose classes have these sizes.

    >>> count([50, 50])
    Count(across=0.25, one=0.25, both=0.5)
    >>> count([90, 10])
    Count(across=0.09, one=0.81, both=0.9)
    """
    n = sum(sizes)
    across, within = max(c * (n - c) for c in sizes), max(c * c for c in sizes)
    return Count(across / n**2, max(across, within) / n**2, max(sizes) / n)


# ---- the equations as they stand


def full_gradient(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The inner-product terms' gradient (d, r) for all pairs at once, with S and the products of all codes."""
    r = W.shape[1]
    P = X @ W
    B = np.where(P > 0, 1.0, -1.0)
    same = y[:, None] == y
    S = np.where(same, float(r), -float(r))  # r S
    error = P @ B.T
    error -= S
    S.fill(2 * LAMBDA2)  # its room serves for the pairs' weights
    np.copyto(S, 2 * LAMBDA1, where=same)
    error *= S
    gradient: np.ndarray = X.T @ (error @ B)
    return gradient


def lean_gradient(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The same (d, r) with as little as all pairs at once can do with: the products, and no S beside them.

    With the rows in the order of their classes S is a number on square blocks along the diagonal and another elsewhere.
    """
    r, order = W.shape[1], np.argsort(y, kind="stable")
    X = X[order]
    P = X @ W
    B = np.where(P > 0, 1.0, -1.0)
    ends = np.cumsum(np.unique(y, return_counts=True)[1]).tolist()
    error = P @ B.T
    error += r
    error *= 2 * LAMBDA2
    for begin, end in zip([0, *ends], ends, strict=False):
        own = error[begin:end, begin:end]
        own /= 2 * LAMBDA2
        own -= 2 * r
        own *= 2 * LAMBDA1
    gradient: np.ndarray = X.T @ (error @ B)
    return gradient


def class_wise_gradient(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The same (d, r), class by class: one block of pairs at a time, within the class, then across."""
    r = W.shape[1]
    gradient = np.zeros_like(W)
    for c in np.unique(y):
        P = X @ W  # anew for every class: in the algorithm W has moved
        B = np.where(P > 0, 1.0, -1.0)
        own = y == c
        for codes, wanted, weight in ((B[own], r, 2 * LAMBDA1), (B[~own], -r, 2 * LAMBDA2)):
            error = P[own] @ codes.T
            error -= wanted
            gradient += X[own].T @ (weight * (error @ codes))
            del error
    return gradient


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most bytes that were allocated at once during a call, beyond those of before it, as Python sees them."""
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not already:
            tracemalloc.stop()


# ---- the experiment


def measure(study: Study) -> None:
    """Count and measure for every mix and batch size; what is there is left alone."""
    for n_t in _batches(study):
        for mix, shares in MIXES.items():
            if len(shares) <= n_t and not _has(study, mix, n_t, 0):
                y = np.repeat(np.arange(len(shares)), [n_t * s // sum(shares) for s in shares])
                _add(study, mix, n_t, 0, [y])
        for run in range(study.scale.runs):
            if not _has(study, STREAM, n_t, run):
                split = study.field.split(run)
                X, y = study.field.X[split.stream], study.field.y[split.stream]
                batches = [y[i : i + n_t] for i in range(0, len(y) - n_t + 1, n_t)]
                _add(study, STREAM, n_t, run, batches, **_steps(study, X[:n_t], y[:n_t], run))


def _batches(study: Study) -> list[int]:
    return [n_t for n_t in BATCHES if n_t <= study.field.setting.stream]


def _has(study: Study, label: str, n_t: int, run: int) -> bool:
    columns = {"dataset": study.dataset, "protocol": NAME, "method": label, "bits": BITS, "run": run}
    wanted = ["across", "one", "both", "full_bytes", "lean_bytes", "class_bytes"]
    wanted += ["lean_step_bytes", "fcoh_kernel_bytes"] if label == STREAM else []
    return study.results.has(wanted, **columns, n_train=n_t)


def _add(study: Study, label: str, n_t: int, run: int, batches: Sequence[np.ndarray], **more: float) -> None:
    """Shares of the full matrix: the mean over batches, and the largest. Bytes: of the first, with 2 features, so that
    next to nothing but pairs is counted."""
    counts = [count(np.unique(y, return_counts=True)[1].tolist()) for y in batches]
    rng = np.random.default_rng(run)
    X, W = rng.standard_normal((n_t, 2)), rng.standard_normal((2, BITS))
    shares = {
        name: value
        for kind in ("across", "one", "both")
        for name, value in (
            (kind, float(np.mean([getattr(c, kind) for c in counts]))),
            (f"{kind}_most", max(getattr(c, kind) for c in counts)),
        )
    }
    measured = {
        "full_bytes": float(peak_bytes(lambda: full_gradient(X, batches[0], W))),
        "lean_bytes": float(peak_bytes(lambda: lean_gradient(X, batches[0], W))),
        "class_bytes": float(peak_bytes(lambda: class_wise_gradient(X, batches[0], W))),
    }
    study.add(NAME, label, BITS, run, n_t, **shares, **measured, **more)


def _steps(study: Study, X: np.ndarray, y: np.ndarray, run: int) -> dict[str, float]:
    """Bytes that whole updates need, the samples' own copies and all: both equations, and `FCOH` in batch space.

    What a compiled kernel allocates for itself cannot be seen from here: it is estimated from its sources, and part
    of fcoh_step_bytes.
    """
    X = X.astype(np.float64)
    d, n_t = X.shape[1], len(X)
    W = np.random.default_rng(run).standard_normal((d, BITS)) / np.sqrt(d)
    hasher = with_paper_settings("FCOH", study.dataset)(n_bits=BITS, random_state=run)
    hasher.set_params(batch_size=n_t, learning_rate=1e-5)
    hasher.partial_fit(X[:1], y[:1])
    classes = len(np.unique(y))
    m = n_t + classes
    numbers = 2 * m * BITS + (n_t + classes) * BITS + 2 * BITS**2 + 4 * max(n_t, BITS)
    kernel = 0.0 if _native.lib is None else 8.0 * numbers
    return {
        "full_step_bytes": float(peak_bytes(lambda: full_gradient(X, y, W))),
        "lean_step_bytes": float(peak_bytes(lambda: lean_gradient(X, y, W))),
        "class_step_bytes": float(peak_bytes(lambda: class_wise_gradient(X, y, W))),
        "fcoh_step_bytes": float(peak_bytes(lambda: hasher.partial_fit(X, y)) + kernel),
        "fcoh_kernel_bytes": kernel,
        "fcoh_gram_bytes": 8.0 * m**2,
        "projection_bytes": float(W.nbytes),
    }


def show(study: Study) -> Section:
    labels = [*MIXES, STREAM]
    n_t = _shown(study)
    return Section(
        NAME,
        "Storage: class-wise blocks against the full similarity matrix",
        "Class by class, pairs need n_c x n_n entries instead of n_t x n_t: at least 75 % less, and more than that "
        "unless a class has exactly half of the batch.",
        finding(study, n_t),
        tuple(
            sheet for sheet in (_counted(study, labels, n_t), _streamed(study), _whole(study)) if sheet.rows
        ),
        notes=NOTES,
        **_verdict(study, n_t),
    )


def _verdict(study: Study, n_t: int) -> dict[str, Any]:
    """The claim is of one block; it holds in part if the class's own block takes it away from real batches."""
    shares = [_value(study, STREAM, n_t, f"{kind}_most") for kind in ("across", "one", "both")]
    if None in shares:
        return {"brief": "Not measured yet."}
    saved = [f"{100 * (1 - (share or 0)):.0f} %" for share in shares]
    return {
        "verdict": "holds in part",
        "brief": f"In batches of {n_t:,} of {study.dataset} at least {saved[0]} less as the paper counts, {saved[1]} "
        f"with the class's own block, {saved[2]} with both at once; a batch of one class saves nothing.",
    }


def _shown(study: Study) -> int:
    """The batch size whose mixes are shown: the largest, in which pairs outweigh everything else."""
    return max(_batches(study), default=BATCHES[0])


def _value(study: Study, label: str, n_t: int, metric: str) -> float | None:
    value = study.values(label, metric, bits=BITS, n_train=n_t, protocol=NAME)
    return value.mean if value else None


def _saving(study: Study, label: str, n_t: int, metric: str) -> str:
    share = _value(study, label, n_t, metric)
    return "-" if share is None else f"{100 * (1 - share):.1f} %"


def _measured_saving(study: Study, label: str, n_t: int, against: str) -> str:
    full, own = (_value(study, label, n_t, f"{what}_bytes") for what in (against, "class"))
    return "-" if full is None or own is None else f"{100 * (1 - own / full):.1f} %"


def _counted(study: Study, labels: Sequence[str], n_t: int) -> Sheet:
    rows = [
        (
            label,
            *(_saving(study, label, n_t, kind) for kind in ("across", "one", "both")),
            *(_measured_saving(study, label, n_t, against) for against in ("lean", "full")),
        )
        for label in labels
        if _value(study, label, n_t, "across") is not None
    ]
    return Sheet(
        f"Saving against the full matrix, by the classes of a batch of {n_t:,}",
        (
            "classes",
            "n_c x n_n alone (the paper's count)",
            "with n_c x n_c, one at a time",
            "both at once",
            "measured, against the products alone",
            "measured, against S, products and mask",
        ),
        tuple(rows),
    )


def _streamed(study: Study) -> Sheet:
    rows = [
        (
            f"{n_t:,}",
            *(
                f"{_saving(study, STREAM, n_t, kind)} / {_saving(study, STREAM, n_t, f'{kind}_most')}"
                for kind in ("across", "one", "both")
            ),
        )
        for n_t in _batches(study)
        if _value(study, STREAM, n_t, "across") is not None
    ]
    return Sheet(
        f"Batches of the stream of {study.dataset}: saving in the mean / in the worst batch",
        ("n_t", "n_c x n_n alone", "with n_c x n_c, one at a time", "both at once"),
        tuple(rows),
    )


def _whole(study: Study) -> Sheet:
    metrics = (
        "full_step_bytes",
        "lean_step_bytes",
        "class_step_bytes",
        "fcoh_step_bytes",
        "fcoh_kernel_bytes",
        "fcoh_gram_bytes",
        "projection_bytes",
    )
    rows = [
        (f"{n_t:,}", *("-" if value is None else size(value) for value in values))
        for n_t in _batches(study)
        if any(values := [_value(study, STREAM, n_t, metric) for metric in metrics])
    ]
    return Sheet(
        f"Memory of a whole update on {study.dataset} ({_features(study)}{BITS} bits, 8 bytes a number)",
        (
            "n_t",
            "all pairs at once, with S",
            "all pairs, products alone",
            "class by class, literally",
            "FCOH here, in batch space",
            "of which the kernel (estimated)",
            "of which the Gram matrix",
            "W, for comparison",
        ),
        tuple(rows),
    )


def _features(study: Study) -> str:
    """d, as the rows tell it: the data need not be there to show what was measured."""
    found = [_value(study, STREAM, n_t, "projection_bytes") for n_t in _batches(study)]
    return next((f"d = {value / (8 * BITS):,.0f}, " for value in found if value), "")


def finding(study: Study, n_t: int) -> str:
    """For which mixes the claim holds, and what a whole update needs."""
    known = [label for label in (*MIXES, STREAM) if _value(study, label, n_t, "one") is not None]
    if not known:
        return "Nothing is measured yet."

    def fails(kind: str) -> str:
        names = [label for label in known if (_value(study, label, n_t, f"{kind}_most") or 0) > 0.25 + 1e-9]
        return ", ".join(names) or "none of them"

    text = (
        "Counted as the paper does, n_c x n_n alone, the saving is at least 75 % for every mix. With the class's own "
        f"block it is less for: {fails('one')} (any batch of which one class has more than half). With both blocks at "
        f"once it is less for: {fails('both')} (any class with more than a quarter)."
    )
    for rows in sorted({min(_batches(study)), n_t}):
        full, lean, own, ours = (
            _value(study, STREAM, rows, f"{what}_step_bytes") for what in ("full", "lean", "class", "fcoh")
        )
        if full and own:
            alone = f" ({size(lean)} without S)" if lean else ""
            text += f" A whole update of {rows:,} rows, class by class: {size(own)} instead of {size(full)}{alone}."
        least = lean or full
        if ours and least:
            than = "more" if ours > least else "less"
            text += f" FCOH here needs {size(ours)} for it, {than} than all pairs at once."
    return text


NOTES = (
    "The paper's rate is 1 - n_c n_n / n_t^2. It leaves out the class's own block, n_c x n_c, which is the larger of "
    "the two as soon as a class has more than half of the batch; a batch of one class saves nothing at all.",
    "Measured with `tracemalloc`, in NumPy, in double precision, with blocks one at a time. All pairs at once is "
    "measured twice: as the equations stand, with S beside the products of the codes and a mask of which pairs are of "
    "one class, and with the products alone, which is the fair comparison: class by class has no S either. With two "
    "features, so that hardly anything but pairs is in the figure; “a whole update” has the data's own features.",
    "FCOH here takes neither road. It forms the Gram matrix of the batch and its class means, (n_t + C) x (n_t + C), "
    "and of the codes only r x r products: as much as the full matrix, in exchange for touching W twice a batch "
    "instead of twice a class. The part of a compiled kernel is estimated from its sources, not measured, and counted "
    "only where compiled kernels serve. Beyond some thousand rows a batch should be given in pieces.",
    "At the paper's batch sizes none of this is much: 100 x 100 numbers are 80 kB, less than half of W on MNIST.",
)

EXPERIMENT = Experiment(
    NAME,
    "memory of the class-wise update against the full similarity matrix: counted and measured",
    measure,
    show,
)
