"""Learn every method in several threads of this process, with as many BLAS threads as the first argument says.

Prints a digest of each model as JSON: {where: {method: digest}}. Run by `test_threads.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

import hashstream as hs
from hashstream.hashers.serialization import to_bytes


def learned(name: str) -> str:
    """The digest of a model of the method: of what would be saved, and of W where it is computed later.

    The shapes are such that products, factorizations and decompositions round differently on several threads.
    """
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 900)), rng.integers(0, 6, 400)
    sketch = {"sketch_size": 200} if name in ("SketchHash", "FROSH") else {}
    hasher = hs.methods()[name](n_bits=100, random_state=0, **sketch)
    for start in range(0, len(X), 200):
        hasher.partial_fit(X[start : start + 200], y[start : start + 200])
    raw = to_bytes(hasher)  # whose header is in no fixed order, but holds a digest of all the rest
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    W = getattr(hasher, "projection_", np.empty(0))
    return f"{header['__metadata__']['sha256']} {hashlib.sha256(W.tobytes()).hexdigest()}"


def every_method() -> dict[str, str]:
    return {name: learned(name) for name in hs.methods()}


def in_thread() -> dict[str, str]:
    results: list[dict[str, str]] = []
    thread = threading.Thread(target=lambda: results.append(every_method()))
    thread.start()
    thread.join()
    return results[0]


def in_executor() -> dict[str, str]:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(every_method).result()


def in_forked() -> dict[str, str]:
    """In a child that is forked while another thread of the parent is in the middle of learning."""
    begun, go_on = threading.Event(), threading.Event()

    class Waiting(hs.LSH):
        def _learn(self, X: np.ndarray, labels: object) -> int:
            begun.set()
            go_on.wait()
            return 0

    other = threading.Thread(target=lambda: Waiting(8).partial_fit(np.zeros((30, 4))))
    other.start()
    begun.wait()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, json.dumps(every_method()).encode())
        os._exit(0)
    os.close(write)
    go_on.set()
    other.join()
    os.waitpid(child, 0)
    with os.fdopen(read) as file:
        digests: dict[str, str] = json.load(file)
    return digests


def main(n_threads: int) -> None:
    warnings.simplefilter("ignore")
    threadpool_limits(n_threads, user_api="blas")  # from here on threadpoolctl ignores what other threads set
    places = {"main": every_method, "thread": in_thread, "executor": in_executor}
    if hasattr(os, "fork"):
        places["forked"] = in_forked
    print(json.dumps({where: place() for where, place in places.items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
