"""A first search: store labelled vectors in a table, and find the nearest ones to new vectors.

python examples/first_search.py --out first-search
"""

# %% [markdown]
# The vectors are scikit-learn's digits: 1,797 images of 8 x 8 pixels in ten classes. The first 1,500 go into the
# table, which learns from them and stores 64 bits per image; the others are the queries.

# %%
import argparse
from pathlib import Path

from sklearn.datasets import load_digits

import hashstream as hs
from hashstream import pictures

# %% [script]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the picture")
out = parser.parse_args().out

# %% [notebook]
# out = Path("example-output")

# %%
X, y = load_digits(return_X_y=True)
table = hs.HashTable.open(None, hasher=hs.PosteriorHash(n_bits=64, random_state=0))  # a path makes it durable
table.ingest(range(1500), X[:1500], y[:1500])  # learn and store: ids, vectors, labels; in batches of any size
distances, ids = table.search(X[1500:], k=10)
right = (y[ids] == y[1500:, None]).mean()
print(f"{len(table):,} images, {table.stats().n_bits} bits each")
print(f"{right:.0%} of the ten nearest neighbours of {len(ids)} new images have the class of the image")

# %% [markdown]
# Most queries get neighbours of their class only. Those with the most wrong ones are more interesting:

# %%
wrong = (y[ids] != y[1500:, None]).sum(axis=1)
shown = [*(-wrong).argsort(kind="stable")[:3], *wrong.argsort(kind="stable")[:3]]
figure = pictures.neighbour_grid(
    X[1500:][shown].reshape(-1, 8, 8),
    y[1500:][shown],
    X[ids[shown]].reshape(len(shown), -1, 8, 8),
    y[ids[shown]],
    distances[shown],
    title="Nearest by Hamming distance of 64 bits",
    subtitle="The three queries with the most wrong neighbours, and three with none. Dashed: another class.",
)
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "first-search.png", dpi=80, bbox_inches="tight")
print(f"picture: {out / 'first-search.png'}")

# %% [notebook]
# from IPython.display import Image
# Image(out / "first-search.png")
