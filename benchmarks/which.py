"""The tables of docs/which-method.md and docs/results/which.md, from the rows that `hashstream bench` and `hashstream
paper` measured: `python -m benchmarks.which` writes both again."""

from __future__ import annotations

import csv
import gzip
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from hashstream.evaluate.protocols import Drift

DOCS = Path(__file__).parents[1] / "docs"
NAMES = {
    "RidgeHash[rbf]": "RidgeHash (RBF)",
    "RidgeHash[rbf][paper]": "RidgeHash (RBF)",
    "RidgeHash[paper]": "RidgeHash",
    "HMOH[paper]": "HMOH",
    "FCOH": "FCOH (auto)",
    "FCOH[paper]": "FCOH (paper)",
}
MAIN = ("PosteriorHash", "RidgeHash[rbf]", "RidgeHash", "FCOH", "HCOH", "LSH")
ALL = (
    "PosteriorHash", "RidgeHash[rbf]", "RidgeHash", "FCOH", "HCOH", "HMOH", "ClassifierHash", "MIHash", "BSODH", "OSH",
    "AdaptHash", "OKH", "SketchHash", "FROSH", "LSH",
)  # fmt: skip
PAPER = (
    "PosteriorHash", "RidgeHash[rbf][paper]", "HMOH[paper]", "RidgeHash[paper]", "ClassifierHash", "FCOH",
    "FCOH[paper]", "LSH",
)  # fmt: skip
HELD = ("PosteriorHash", "RidgeHash[rbf]", "RidgeHash", "HMOH", "FCOH", "HCOH", "ClassifierHash", "LSH")
TINY = ("PosteriorHash", "ClassifierHash", "HMOH", "FCOH", "RidgeHash", "LSH")
FORGETTING = ("PosteriorHash", "RidgeHash", *(f"RidgeHash(forgetting={f})" for f in (0.9999, 0.9997, 0.999)))

RUNS = 3
RECOVERY = "recovery_rows"
STREAMS = {
    "classes never taught: queries of taught ones": ("unseen-classes", "seen mAP[paper]"),
    "queries of the others": ("unseen-classes", "unseen mAP[paper]"),
    "classes one after another": ("class-incremental", "mAP[paper]"),
    "features change at once, at the end": ("drift", "mAP[paper]"),
    "the same, rows until 95 % are back": ("drift", RECOVERY),
    "features turn slowly": ("slow-drift", "mAP[paper]"),
    "20 % of labels wrong": ("label-noise", "mAP[paper]"),
    "40 % of labels wrong": ("label-noise:0.4", "mAP[paper]"),
    "long tail, shuffled": ("bursts:1", "mAP[paper]"),
    "long tail, topic after topic": ("bursts", "mAP[paper]"),
    "the same, precision@10": ("bursts", "precision@10[paper]"),
}

Rows = dict[tuple[str, str, int, str], dict[int, dict[int, float]]]
"""(protocol, method, bits, metric) -> run -> rows learned -> value."""


@cache
def rows(folder: str) -> Rows:
    found: Rows = defaultdict(lambda: defaultdict(dict))
    for path in sorted((DOCS / "results" / folder).glob("results*.csv.gz")):
        with gzip.open(path, "rt") as file:
            for row in csv.DictReader(file):
                key = row["protocol"], row["method"], int(row["bits"]), row["metric"]
                found[key][int(row["run"])][int(row["n_train"])] = float(row["value"])
    return found


def values(
    folder: str, protocol: str, method: str, bits: int, metric: str, after: int | None = None
) -> list[float]:
    """The value of each run, after so many rows or at the end of the stream. Runs that were interrupted have none."""
    found = rows(folder)
    if metric == RECOVERY:
        runs, moved = (
            found.get((protocol, method, bits, f"{name}mAP[paper]"), {}) for name in ("", "moved ")
        )
        end = end_of(folder, protocol)
        whole = {run: curve for run, curve in runs.items() if end in curve}
        return [
            Drift().run_metrics({"mAP": curve, "moved mAP": moved[run]}, sorted(curve))[metric]
            for run, curve in whole.items()
        ]
    after = end_of(folder, protocol) if after is None else after
    return [run[after] for run in found.get((protocol, method, bits, metric), {}).values() if after in run]


@cache
def end_of(folder: str, protocol: str) -> int:
    """The last checkpoint of a protocol."""
    curves = (runs.values() for key, runs in rows(folder).items() if key[0] == protocol)
    return max(max(curve) for runs in curves for curve in runs)


def cell(found: Sequence[float], metric: str) -> str:
    if not found:
        return ""
    of = {RUNS: "", 1: " (1 run)"}.get(len(found), f" ({len(found)} runs)")
    if metric == RECOVERY:
        reached = [value for value in found if not np.isnan(value)]
        if not reached:
            return "never" + of
        return f"{np.mean(reached):,.0f}" + (f" ({len(reached)} of {len(found)})" if reached != found else of)
    return f"{np.mean(found):.3f}" + (f" ± {np.std(found, ddof=1):.3f}" if len(found) > 1 else "") + of


def table(
    head: str, columns: Sequence[str], lines: Iterable[tuple[str, list[str]]], *, by_column: bool = False
) -> str:
    """A Markdown table, in which the largest share of each line, or of each column, is bold."""
    named = list(lines)
    cells = np.array([line for _, line in named], object)
    shares = np.array(
        [[float(c.split()[0]) if re.match(r"[01]\.", c) else -1 for c in line] for line in cells]
    )
    best = (shares == shares.max(axis=0 if by_column else 1, keepdims=True)) & (shares >= 0)
    text = [
        f"| {head} | " + " | ".join(NAMES.get(c, c) for c in columns) + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for i, (name, line) in enumerate(named):
        text.append(
            f"| {name} | " + " | ".join(f"**{c}**" if best[i, j] else c for j, c in enumerate(line)) + " |"
        )
    return "\n".join(text) + "\n"


def by_bits(
    folder: str, methods: Sequence[str], bits: Sequence[int], after: int, metric: str = "mAP[paper]"
) -> str:
    """mAP on a stream that does not change: code lengths by methods."""
    cells = (
        (str(r), [cell(values(folder, "paper", m, r, metric, after), metric) for m in methods]) for r in bits
    )
    return table("bits", methods, cells)


def by_stream(folder: str, methods: Sequence[str], bits: int) -> str:
    """Streams by methods, at one code length."""
    return table(
        "stream",
        methods,
        (
            (name, [cell(values(folder, p, m, bits, k), k) for m in methods])
            for name, (p, k) in STREAMS.items()
        ),
    )


def slow_drift(folders: Sequence[str]) -> str:
    """Data sets by settings of RidgeHash, where features turn slowly."""
    cells = (
        (
            folder.removeprefix("which-"),
            [cell(values(folder, "slow-drift", m, 32, "mAP[paper]"), "mAP[paper]") for m in FORGETTING],
        )
        for folder in folders
    )
    return table("data", FORGETTING, cells)


LENGTHS = (8, 16, 32, 48, 64, 128)
TABLES: dict[str, Callable[[], str]] = {
    "mnist": lambda: by_bits("paper-mnist", PAPER, LENGTHS, 20_000),
    "mnist-2000": lambda: by_bits("paper-mnist", PAPER, (8, 32, 128), 2_000),
    "cifar10": lambda: by_bits("paper-cifar10", PAPER, LENGTHS, 20_000),
    "tinyimagenet200": lambda: by_bits(
        "which-tinyimagenet200", TINY, (8, 32, 128), 20_000, "mAP@1000[paper]"
    ),
    "mnist-streams": lambda: by_stream("which-mnist", MAIN, 32),
    "cifar10-streams": lambda: by_stream("which-cifar10", MAIN, 32),
    "slow-drift": lambda: slow_drift(("which-mnist", "which-cifar10")),
    "mnist1d": lambda: by_bits("held-mnist1d", HELD, (8, 32, 128), 19_000),
    "segment": lambda: by_bits("held-segment", HELD, (8, 32, 128), 2_070),
}
"""Tables of docs/which-method.md, by the name in its comments."""


def which_method(page: str) -> str:
    """The page with its tables, each between two comments, written again."""

    def written(match: re.Match[str]) -> str:
        return f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}"

    return re.sub(r"(<!-- table (\S+) -->)\n.*?(<!-- end -->)", written, page, flags=re.DOTALL)


def which() -> str:
    """docs/results/which.md: every stream, method and length that has been measured."""
    text = [
        "# All methods on all streams\n",
        "Written by `python -m benchmarks.which` from the rows beside this page. Each method has its defaults: FCOH is",
        "FCOH (auto). Mean and standard deviation of the runs; mAP unless it says otherwise. How it was measured:",
        "[results](README.md); what it means: [which method](../which-method.md).\n",
    ]
    for folder, name in (
        ("which-mnist", "MNIST"),
        ("which-cifar10", "CIFAR-10"),
        ("which-tinyimagenet200", "Tiny ImageNet"),
    ):
        for r in sorted({bits for protocol, _, bits, _ in rows(folder) if protocol != "paper"}):
            methods = [
                m for m in ALL if any(key[1:3] == (m, r) and key[0] != "paper" for key in rows(folder))
            ]
            lines = (
                (NAMES.get(m, m), [cell(values(folder, p, m, r, k), k) for p, k in STREAMS.values()])
                for m in methods
            )
            text += [f"## {name}, {r} bits\n", table("method", list(STREAMS), lines, by_column=True)]
    return "\n".join(text)


def main() -> None:
    page = DOCS / "which-method.md"
    page.write_text(which_method(page.read_text()))
    (DOCS / "results/which.md").write_text(which())


if __name__ == "__main__":
    main()
