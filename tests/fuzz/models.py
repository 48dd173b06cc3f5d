"""Fuzzes model files: whatever a file holds, `load` raises FormatError or returns a model that works.

    counts = run(count=10_000, seed=0)          # or run(seconds=60)
    counts.cases, counts.refused, counts.worked, counts.problems

Case i of a seed is a mutation of a saved model (model_mutations.py), most often with a digest that fits. A child
process loads it; a model that loads must then encode and learn twice. DivergenceError is allowed there: it says that
the numbers are too large, and leaves the model as it was. Every other exception is a problem, and so is a child that
dies, is silent for `TIMEOUT` seconds, or asks for more than `MEMORY` bytes.

    python tests/fuzz/models.py --count 10000 --seed 0      many cases
    python tests/fuzz/models.py --case 17 --seed 0          one of them again, in this process
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.model_files import corpus
from tests.fuzz.model_mutations import mutated

import hashstream as hs

TIMEOUT = 30.0
"""Seconds for one case; a case takes milliseconds."""
STARTUP = 120.0
"""Seconds for a child to import what it needs."""
MEMORY = 1 << 30
"""Bytes that a case may ask for, beyond what the process had mapped before."""
ROWS = 40


@dataclass
class Counts:
    """What came of some cases."""

    seed: int = 0
    cases: int = 0
    refused: int = 0
    """Files that `load` refused with FormatError."""
    worked: int = 0
    """Files that loaded, and whose model encoded and learned, or said that it diverges."""
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        problems = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        return f"{self.cases} model files: {self.refused} refused, {self.worked} worked, {problems}"


def run(seconds: float | None = None, count: int | None = None, seed: int = 0) -> Counts:
    """Try `count` cases, or as many as `seconds` allow (both: whichever ends first; neither: 1,000 cases)."""
    if seconds is None and count is None:
        count = 1000
    stop = time.monotonic() + seconds if seconds is not None else float("inf")
    counts = Counts(seed)
    with tempfile.TemporaryDirectory() as folder:
        for i, raw in enumerate(corpus()):
            (Path(folder) / f"{i:03}").write_bytes(raw)
        while time.monotonic() < stop and (count is None or counts.cases < count):
            _run_child(folder, counts, count, stop)
    return counts


def _run_child(folder: str, counts: Counts, count: int | None, stop: float) -> None:
    """Have one child try cases from `counts.cases` on, until it is done, out of time, or lost."""
    arguments = ["--corpus", folder, "--seed", str(counts.seed), "--first", str(counts.cases)]
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONFAULTHANDLER": "1",
    }
    child = subprocess.Popen(
        [sys.executable, __file__, *arguments, *(["--count", str(count)] if count is not None else [])],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # `select` does not see what a buffer holds
    )
    assert child.stdout is not None
    assert child.stderr is not None
    ready = False
    try:
        while count is None or counts.cases < count:
            if time.monotonic() > stop:
                return
            told, _, _ = select([child.stdout], [], [], TIMEOUT if ready else STARTUP)
            line = child.stdout.readline().decode().strip() if told else "silent"
            if line == "ready":
                ready = True
                continue
            case = f"seed {counts.seed}, case {counts.cases}"
            counts.cases += 1
            if line in ("refused", "worked"):
                setattr(counts, line, getattr(counts, line) + 1)
            elif line.startswith("problem"):
                counts.problems.append(f"{case}: {line.partition(' ')[2]}")
            else:
                child.kill()
                last_words = child.stderr.read().decode(errors="replace").strip()
                why = f"hung for {TIMEOUT:g} s" if line == "silent" else f"died: {last_words[:800]}"
                counts.problems.append(f"{case}: the process {why}")
                return
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()


# ---- the child


def try_case(models: list[bytes], seed: int, case: int, path: Path) -> str:
    """ "refused", "worked", or "problem" and a description, of one case."""
    rng = np.random.default_rng([seed, case])
    raw, what = mutated(models[rng.integers(len(models))], rng)
    path.write_bytes(raw)
    try:
        model = hs.load(path)
    except hs.FormatError as error:
        return "refused" if str(path) in str(error) else f"problem {what}: {error} does not name the file"
    except BaseException as error:
        return f"problem {what}: load raised {error!r}: {traceback.format_exc()[-700:]!r}"
    try:
        use(model, rng)
    except hs.DivergenceError:
        return "worked"
    except BaseException as error:
        return f"problem {what}: raised {error!r}: {traceback.format_exc()[-700:]!r}"
    return "worked"


def use(model: hs.OnlineHasher, rng: np.random.Generator) -> None:
    """Encode rows and learn from them, twice; AssertionError where the codes are not codes."""
    fitted = hasattr(model, "n_seen_")
    f = int(model.n_features_in_) if fitted else 12
    if f > 1 << 14:
        return  # no caller has rows of this many features to give
    X = rng.standard_normal((ROWS, f)).astype(model.dtype_ if fitted else np.float64)
    y = _labels(model, rng) if fitted else rng.integers(3, size=ROWS)
    if fitted:
        _encode(model, X)
    for _ in range(2):
        try:
            model.partial_fit(X, y)
        except ValueError as error:
            if not fitted and any(
                name in str(error) for name in ("init must", "sample must", "contains NaN")
            ):
                return  # a parameter that is meant for other features than these
            raise
        _encode(model, X)


def _encode(model: hs.OnlineHasher, X: np.ndarray) -> None:
    assert model.transform(X).shape == (ROWS, -(-model.n_bits_ // 8))
    assert model.decision_function(X[:3]).shape == (3, model.n_bits_)


def _labels(model: hs.OnlineHasher, rng: np.random.Generator) -> Any:
    book = model.label_book_
    if book.multilabel:
        return rng.integers(2, size=(ROWS, len(book)))
    labels = np.empty(ROWS, object)
    classes = [*book.classes[:50], "a class of its own"]
    for row, at in enumerate(rng.integers(len(classes), size=ROWS)):
        labels[row] = classes[at]
    return labels


def _child(folder: str, seed: int, first: int, count: int | None) -> None:
    models = [path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.name.isdigit()]
    if (statm := Path("/proc/self/statm")).exists():  # Linux
        mapped = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY,) * 2)
    path = Path(folder) / f"mutated-{os.getpid()}"
    print("ready", flush=True)
    case = first
    while count is None or case < count:
        print(try_case(models, seed, case, path).replace("\n", " "), flush=True)
        case += 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="one case, in this process")
    parser.add_argument("--corpus", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.corpus:
        _child(given.corpus, given.seed, given.first, given.count)
    elif given.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(try_case(corpus(), given.seed, given.case, Path(folder) / "mutated"))
    else:
        counts = run(given.seconds, given.count, given.seed)
        print(counts, *counts.problems, sep="\n")
        sys.exit(bool(counts.problems))


if __name__ == "__main__":
    main()
