"""Serve a table over HTTP, search it from a client, teach it by labels, and search again.

    pip install 'hashstream[serve,cli,plots]'
    python examples/serving.py --out serving

The service is `hashstream serve` in a process of its own, on a free port of loopback, and is stopped in the end.
"""

# %%
import argparse
import atexit
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import hashstream as hs
from hashstream import pictures

# %% [script]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the pictures")
out = parser.parse_args().out
log = None  # of the service: to where our errors go

# %% [notebook]
# out = Path("example-output")
# log = subprocess.DEVNULL  # of the service: not shown; None shows it

# %% [markdown]
# ## Start the service
#
# The last cell stops it. If a cell fails before that, it is stopped when Python ends.


# %%
@contextmanager
def service(folder: str) -> Iterator[tuple[str, int]]:
    """Address and process id of `hashstream serve FOLDER`, which runs as long as the block."""
    command = [sys.executable, "-m", "hashstream", "serve", folder, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        address = next(
            (found[0] for line in process.stdout if (found := re.search(r"http://[\d.]+:\d+", line))), None
        )
        if address is None:
            raise SystemExit(f"the service ended with status {process.wait()} before it listened")
        yield address, process.pid
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)  # it finishes what is under way, and closes its tables
        print(f"the service ended with status {process.wait(timeout=60)}")
        process.stdout.close()


running = ExitStack()  # what has to be closed, the last first
folder = running.enter_context(tempfile.TemporaryDirectory())
address, process_id = running.enter_context(service(folder))
atexit.register(running.close)  # does nothing if it is closed by then
client = running.enter_context(hs.Client(address))

# %% [script]
print(f"{address}: process {process_id}")

# %% [markdown]
# ## Search it without labels
#
# The vectors are scikit-learn's digits, images of 8 x 8 pixels in ten classes. The service stores the first 1,500, and
# the others are the queries. The table of the client has the methods of a `HashTable`; each call is a request.

# %%
X, y = load_digits(return_X_y=True)
# Half of the bits stay those of a random projection, which is better while there are few labels.
table = client.create("digits", n_bits=64, plain_bits=32, random_state=0)
table.ingest(range(1500), X[:1500])  # nobody has labelled them yet


def search(labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances and ids of the ten nearest to each query; prints how many have its class."""
    distances, ids = table.search(X[1500:], k=10)
    right = (y[ids] == y[1500:, None]).mean()
    print(f"{labels:4} labels: {right:.1%} of the ten nearest have the query's class")
    return distances, ids


distances, ids = search(0)
shown = np.flatnonzero((y[ids] != y[1500:, None]).any(axis=1))[:5]  # the same queries before and after


def draw(labels: int, distances: np.ndarray, ids: np.ndarray) -> Path:
    """The path of a picture of the answers to the queries that are shown."""
    figure = pictures.neighbour_grid(
        X[1500:][shown].reshape(-1, 8, 8),
        y[1500:][shown],
        X[ids[shown]].reshape(len(shown), -1, 8, 8),
        y[ids[shown]],
        distances[shown],
        title=f"Answers of the service with {labels} labels",
        subtitle="The first five queries with a wrong answer before any label. Dashed: another class.",
    )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / f"serving-{labels}-labels.png", dpi=80, bbox_inches="tight")
    return out / f"serving-{labels}-labels.png"


before = draw(0, distances, ids)

# %% [notebook]
# from IPython.display import Image
# Image(before)

# %% [markdown]
# ## Teach it
#
# A user looks at items and says what they are. `label` sends such answers, here for 50 items, then for more, and the
# service learns from them. `refresh` has it encode all items with what it has learned.

# %%
taught = 0
for labels in (50, 100, 200, 400):
    table.label(range(taught, labels), y[taught:labels])
    table.refresh()
    taught = labels
    distances, ids = search(labels)
after = draw(labels, distances, ids)
stats = table.stats()
print(f"{stats.n_items:,} items, {stats.n_seen} of them learned from, version {stats.newest_version}")

# %% [notebook]
# Image(after)

# %% [markdown]
# The queries are those of the first picture.
#
# ## Stop the service

# %%
running.close()
print(f"pictures: {before} and {after}")
