"""table-storage: the memory that the class-wise update needs, compared with the full similarity matrix of a batch.

The paper's argument: the pairs of a batch of n_t samples need an n_t x n_t matrix; class by class, n_c x n_n is enough
(n_n = n_t - n_c), which is at most a quarter. That counts one of the two blocks of a class. The other, the class with
itself, has n_c x n_c entries. Here both are counted, over real batches and synthetic mixes of classes, and the memory
of the equations as printed is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from hashstream import _native
from hashstream._machine import size
from hashstream.evaluate import Job
from hashstream.hashers import FCOH
from hashstream.paper.contestants import with_paper_settings
from hashstream.paper.pair_memory import class_wise_gradient, count, full_gradient, lean_gradient, peak_bytes
from hashstream.paper.section import Experiment, Section, Sheet, Verdict
from hashstream.paper.study import Measurement, Study

NAME, BITS = "table-storage", 32
BATCHES = (100, 1000, 2000)
"""n_t: the paper's for MNIST and CIFAR-10, for Places205, and the largest of its sweep."""
MIXES: dict[str, tuple[int, ...]] = {
    "100 equal classes": (1,) * 100,
    "10 equal classes": (1,) * 10,
    "2 equal classes": (1, 1),
    "2 classes, 60 : 40": (3, 2),
    "2 classes, 90 : 10": (9, 1),
    "1 class": (1,),
}
STREAM = "batches of the stream"


def measure(study: Study) -> None:
    """Count and measure every mix and batch size."""
    measurements = []
    shares = (*(f"{kind}{most}" for kind in ("across", "one", "both") for most in ("", "_most")),)
    metrics = (*shares, "full_bytes", "lean_bytes", "class_bytes")
    for n_t in _batches(study):
        for mix, sizes in MIXES.items():
            if len(sizes) <= n_t:
                y = np.repeat(np.arange(len(sizes)), [n_t * size // sum(sizes) for size in sizes])
                measurements.append(
                    Measurement(Job(mix, FCOH, BITS, 0), n_t, metrics, partial(_measure_mix, n_t, y))
                )
        for run in range(study.scale.runs):
            job, wanted = Job(STREAM, FCOH, BITS, run), (*metrics, "lean_step_bytes", "fcoh_kernel_bytes")
            measurements.append(Measurement(job, n_t, wanted, partial(_measure_stream, study, n_t, run)))
    study.measure_all(NAME, "storage: ", measurements)


def _batches(study: Study) -> list[int]:
    return [n_t for n_t in BATCHES if n_t <= study.stream]


def _measure_mix(n_t: int, y: np.ndarray, progress: Callable[[int], None]) -> dict[int, dict[str, float]]:
    return {n_t: _figures(n_t, 0, [y])}


def _measure_stream(
    study: Study, n_t: int, run: int, progress: Callable[[int], None]
) -> dict[int, dict[str, float]]:
    split = study.data.split(run)
    X, y = study.data.X[split.stream], study.data.y[split.stream]
    batches = [y[i : i + n_t] for i in range(0, len(y) - n_t + 1, n_t)]
    return {n_t: {**_figures(n_t, run, batches), **_steps(study, X[:n_t], y[:n_t], run)}}


def _figures(n_t: int, run: int, batches: Sequence[np.ndarray]) -> dict[str, float]:
    """Shares of the full matrix, the mean over batches and the largest; and bytes for the first batch, with 2 features,
    so that almost nothing but pairs is counted."""
    counts = [count(np.unique(y, return_counts=True)[1].tolist()) for y in batches]
    rng = np.random.default_rng(run)
    X, W, y = rng.standard_normal((n_t, 2)), rng.standard_normal((2, BITS)), batches[0]
    found = {}
    for kind in ("across", "one", "both"):
        found[kind] = float(np.mean([shares[kind] for shares in counts]))
        found[f"{kind}_most"] = max(shares[kind] for shares in counts)
    return found | {f"{what}_bytes": n_bytes for what, n_bytes in _peaks(X, y, W).items()}


def _peaks(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> dict[str, float]:
    gradients = {"full": full_gradient, "lean": lean_gradient, "class": class_wise_gradient}
    return {what: float(peak_bytes(partial(call, X, y, W))) for what, call in gradients.items()}


def _steps(study: Study, X: np.ndarray, y: np.ndarray, run: int) -> dict[str, float]:
    """Bytes that a whole update needs, copies of the samples included: of the equations, and of `FCOH` in batch space.

    `tracemalloc` does not see what a compiled kernel allocates: it is estimated from the kernel's source, and included
    in fcoh_step_bytes.
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
        **{f"{what}_step_bytes": n_bytes for what, n_bytes in _peaks(X, y, W).items()},
        "fcoh_step_bytes": float(peak_bytes(lambda: hasher.partial_fit(X, y)) + kernel),
        "fcoh_kernel_bytes": kernel,
        "fcoh_gram_bytes": 8.0 * m**2,
        "projection_bytes": float(W.nbytes),
    }


def show(study: Study) -> Section:
    n_t = max(_batches(study), default=BATCHES[0])  # the largest, where pairs outweigh everything else
    verdict, brief = _verdict(study, n_t)
    return Section(
        NAME,
        "Storage: class-wise blocks compared with the full similarity matrix",
        "Class by class, pairs need n_c x n_n entries instead of n_t x n_t: at least 75 % less, and more than that "
        "unless a class has exactly half of the batch.",
        finding(study, n_t),
        tuple(sheet for sheet in (_counted(study, n_t), _streamed(study), _whole(study)) if sheet.rows),
        notes=NOTES,
        verdict=verdict,
        brief=brief,
    )


def _verdict(study: Study, n_t: int) -> tuple[Verdict, str]:
    """The claim counts one block. It holds in part, since with the class's own block some batches save less."""
    shares = [_value(study, STREAM, n_t, f"{kind}_most") for kind in ("across", "one", "both")]
    if None in shares:
        return "undecided", "Not measured yet."
    saved = [f"{100 * (1 - (share or 0)):.0f} %" for share in shares]
    return (
        "holds in part",
        f"In batches of {n_t:,} of {study.dataset} at least {saved[0]} less as the paper counts, {saved[1]} "
        f"with the class's own block, {saved[2]} with both at once; a batch of one class saves nothing.",
    )


def _value(study: Study, label: str, n_t: int, metric: str) -> float | None:
    value = study.values(label, metric, bits=BITS, n_train=n_t, protocol=NAME)
    return value.mean if value else None


def _saving(study: Study, label: str, n_t: int, metric: str) -> str:
    share = _value(study, label, n_t, metric)
    return "-" if share is None else f"{100 * (1 - share):.1f} %"


def _measured_saving(study: Study, label: str, n_t: int, against: str) -> str:
    full, own = (_value(study, label, n_t, f"{what}_bytes") for what in (against, "class"))
    return "-" if full is None or own is None else f"{100 * (1 - own / full):.1f} %"


def _counted(study: Study, n_t: int) -> Sheet:
    rows = [
        (
            label,
            *(_saving(study, label, n_t, kind) for kind in ("across", "one", "both")),
            *(_measured_saving(study, label, n_t, against) for against in ("lean", "full")),
        )
        for label in (*MIXES, STREAM)
        if _value(study, label, n_t, "across") is not None
    ]
    return Sheet(
        f"Saving compared with the full matrix, by the classes of a batch of {n_t:,}",
        (
            "classes",
            "n_c x n_n alone (the paper's count)",
            "with n_c x n_c, one at a time",
            "both at once",
            "measured, compared with the products alone",
            "measured, compared with S, products and mask",
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
        f"Batches of the stream of {study.dataset}: mean saving / saving of the worst batch",
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
        f"Memory of a whole update on {study.dataset} ({_features(study)}{BITS} bits, 8 bytes per number)",
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
    """d, from the rows: a report does not need the data."""
    found = [_value(study, STREAM, n_t, "projection_bytes") for n_t in _batches(study)]
    return next((f"d = {value / (8 * BITS):,.0f}, " for value in found if value), "")


def finding(study: Study, n_t: int) -> str:
    """The mixes for which the claim holds, and the memory of a whole update."""
    known = [label for label in (*MIXES, STREAM) if _value(study, label, n_t, "one") is not None]
    if not known:
        return "Nothing is measured yet."

    def fails(kind: str) -> str:
        names = [label for label in known if (_value(study, label, n_t, f"{kind}_most") or 0) > 0.25 + 1e-9]
        return ", ".join(names) or "none of them"

    text = (
        "Counted as the paper does, n_c x n_n alone, the saving is at least 75 % for every mix. With the class's own "
        f"block it is less for: {fails('one')} (any batch with more than half of its rows in one class). With both "
        f"blocks at once it is less for: {fails('both')} (any batch with more than a quarter in one class)."
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
    "Measured with `tracemalloc`, in NumPy, in double precision, with one block at a time. All pairs at once is "
    "measured twice: as the equations are printed, with S, the products of the codes and a mask of the pairs of equal "
    "class; and with the products alone, which is the fair comparison, since class by class has no S either. With two "
    "features, so that hardly anything but pairs counts; “a whole update” has the features of the data.",
    "FCOH here does neither. It forms the Gram matrix of the batch and its class means, (n_t + C) x (n_t + C), and of "
    "the codes only r x r products. That takes as much memory as the full matrix, and touches W twice per batch "
    "instead of twice per class. The part of a compiled kernel is estimated from its source, not measured, and counted "
    "only where compiled kernels are used. Beyond some thousand rows a batch should be passed in pieces.",
    "At the paper's batch sizes none of this is much: 100 x 100 numbers are 80 kB, less than half of W on MNIST.",
)

EXPERIMENT = Experiment(
    NAME,
    "memory of the class-wise update compared with the full similarity matrix: counted and measured",
    measure,
    show,
)
