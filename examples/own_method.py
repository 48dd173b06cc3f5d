"""A method of your own that learns from labels: checked, and measured against the methods that are here.

python examples/own_method.py --out own-method
"""

# %%
import argparse
from pathlib import Path
from typing import ClassVar

import numpy as np

import hashstream as hs
from hashstream import evaluate, pictures
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.state_fields import Array

# %% [script]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for results and picture")
parser.add_argument("--runs", type=int, default=3, help="runs per method; the run is the seed")
parser.add_argument("--against", default="PosteriorHash,FCOH,LSH", help="methods to compare it with")
options = parser.parse_args()
out, runs, against = options.out, options.runs, options.against.split(",")

# %% [notebook]
# out, runs, against = Path("example-output"), 1, ["PosteriorHash", "FCOH", "LSH"]

# %% [markdown]
# ## The idea
#
# Every class c gets a random codeword t_c of r signs when it first appears, and the mean m_c of its rows is kept up to
# date. The projection W takes each mean, less the mean of all, to its codeword: with the centred means as rows of M and
# the codewords as rows of T, W = M^T (M M^T + ridge I)^-1 T. That is a system with as many unknowns as there are
# classes, solved once per batch.


# %%
@hs.register
class MeanCodes(hs.OnlineHasher):
    """Class means, projected to random codewords: the simplest supervised method that follows a stream.

    ridge : keeps W short where means lie close together, relative to their mean squared length.
    """

    colour, marker = "#cc3311", "D"  # in figures
    state_fields: ClassVar = {  # checked on loading: a file may come from anyone
        "projection_": Array("d r"),
        "means_": Array("C d"),
        "counts_": Array("C", "int64", low=1),
        "codewords_": Array("C r", values=(-1, 1)),
    }

    def __init__(self, n_bits=32, *, ridge=0.01, batch_size=100, feature_map=None, random_state=None):
        self.n_bits = n_bits
        self.ridge = ridge
        self.batch_size = batch_size
        self.feature_map = feature_map
        self.random_state = random_state

    def check_parameters(self):
        super().check_parameters()
        if not 0 < self.ridge < np.inf:
            raise ValueError(f"ridge must be a number above 0, but is {self.ridge!r}")

    def _start(self, X):
        d, r = X.shape[1], self.n_bits
        self.projection_ = initial_projection(None, self.rng_, d, r, X.dtype)
        self.means_, self.codewords_ = np.zeros((0, d), X.dtype), np.zeros((0, r), X.dtype)
        self.counts_ = np.zeros(0, np.int64)

    def _learn(self, X, labels):
        new = len(self.label_book_) - len(self.counts_)  # classes that this batch brings
        signs = self.rng_.choice(np.array([-1, 1], X.dtype), (new, self.n_bits))
        codewords = np.concatenate([self.codewords_, signs])
        means = np.concatenate([self.means_, np.zeros((new, X.shape[1]), X.dtype)])
        counts = np.concatenate([self.counts_, np.zeros(new, np.int64)])
        for position, number in enumerate(labels.ids):
            rows = X[labels.rank == position]
            counts[number] += len(rows)
            means[number] += (rows - means[number]).sum(axis=0) / counts[number]
        self.means_, self.counts_, self.codewords_ = means, counts, codewords  # replaced, never written into
        M = means - means.mean(axis=0)
        length = np.abs(M).max()
        if not length > 0:  # one class, or classes with equal means: nothing to tell apart yet
            return 0
        M = M / length  # the length of W changes no sign, and squares of any features stay finite
        G = M @ M.T
        weight = self.ridge * np.trace(G) / len(G)
        self.projection_ = M.T @ np.linalg.solve(G + weight * np.eye(len(G), dtype=X.dtype), codewords)
        return 1  # one update: equal input may now get another code


# %% [markdown]
# ## Does it keep the contract?
#
# The checks cover the rest of the library: tables, saved models, threads, missing labels, calls that fail.

# %%
hs.checks.check_hasher(MeanCodes(n_bits=16, random_state=0))
print(f"MeanCodes passes all {len(hs.checks.CHECKS)} checks")

# %% [markdown]
# ## How good is it?
#
# The paper's protocol: queries that are never learned from, mAP of the whole database at every checkpoint. LSH learns
# nothing and is the floor. With the class in a file of its own, `mean_codes.py` in the current folder, the command
# `hashstream bench --dataset digits --methods mean_codes:MeanCodes,FCOH,LSH --out results` does the same, in one
# process per core.

# %%
methods = {"MeanCodes": MeanCodes, **{name: getattr(hs, name) for name in against}}
data = evaluate.PreparedDataset.of(hs.datasets.load("digits"))
for old in out.glob("own_method_rows.*"):  # rows of another version of the method would be refused
    old.unlink()
results = evaluate.Results(out / "own_method_rows.csv")
evaluate.run(evaluate.jobs(methods, bits=[32], runs=runs), data, results)
summary = evaluate.summarise(results, "digits", ["mAP"], "paper", runs=runs)
lines = {name: [(point.n_train, point.mean) for point in summary if point.method == name] for name in methods}
for name, points in lines.items():
    print(
        f"{name:14} mAP {points[0][1]:.3f} after {points[0][0]} rows, {points[-1][1]:.3f} after {points[-1][0]:,}"
    )

# %%
figure = pictures.line_panels(
    {"digits, 32 bits": lines},
    x="rows learned from",
    y="mAP",
    title="A method of your own",
    subtitle=f"{'one run' if runs == 1 else f'mean of {runs} runs'}, the paper's protocol",
)
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "own-method.png", dpi=100)
print(f"picture: {out / 'own-method.png'}")

# %% [notebook]
# from IPython.display import Image
# Image(out / "own-method.png")
