"""Serve a table over HTTP, search it from a client, teach it by labels, and search again.

    pip install 'hashstream[serve,cli,plots]'
    python examples/serving.py --out serving

The service is `hashstream serve` in a process of its own, on a free port of loopback, and is stopped in the end.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import hashstream as hs
from hashstream import pictures


@contextmanager
def service(folder: str) -> Iterator[str]:
    """The address of `hashstream serve FOLDER`, which runs as long as the block."""
    command = [sys.executable, "-m", "hashstream", "serve", folder, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = next(
            (found[0] for line in process.stdout if (found := re.search(r"http://[\d.]+:\d+", line))), None
        )
        if address is None:
            raise SystemExit(f"the service ended with status {process.wait()} before it listened")
        print(f"{address}: process {process.pid}")
        yield address
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)  # it finishes what is under way, and closes its tables
        print(f"the service ended with status {process.wait(timeout=60)}")
        process.stdout.close()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the picture")
    options = parser.parse_args(arguments)
    X, y = load_digits(return_X_y=True)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, service(folder) as address, hs.Client(address) as client:
        # Half of the bits stay those of a random projection, which is better while there are few labels.
        table = client.create("digits", n_bits=64, plain_bits=32, random_state=0)
        table.ingest(range(1500), X[:1500])  # nobody has labelled them yet
        shown, taught = None, 0
        for labels in (0, 50, 100, 200, 400):
            if labels:
                table.label(range(taught, labels), y[taught:labels])
                table.refresh()
                taught = labels
            distances, ids = table.search(X[1500:], k=10)
            right = y[ids] == y[1500:, None]
            print(f"{labels:4} labels: {right.mean():.1%} of the ten nearest have the query's class")
            if shown is None:
                shown = np.flatnonzero(~right.all(axis=1))[:5]  # the same queries before and after
            if labels in (0, 400):
                figure = pictures.neighbour_grid(
                    X[1500:][shown].reshape(-1, 8, 8),
                    y[1500:][shown],
                    X[ids[shown]].reshape(len(shown), -1, 8, 8),
                    y[ids[shown]],
                    distances[shown],
                    title=f"Answers of the service with {labels} labels",
                    subtitle="The first five queries with a wrong answer before any label. Dashed: another class.",
                )
                figure.savefig(options.out / f"serving-{labels}-labels.png", dpi=80, bbox_inches="tight")
        stats = table.stats()
        print(f"{stats.n_items:,} items, {stats.n_seen} of them learned from, version {stats.newest_version}")
    print(f"pictures: {options.out / 'serving-0-labels.png'} and {options.out / 'serving-400-labels.png'}")


if __name__ == "__main__":
    main()
