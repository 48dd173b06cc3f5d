"""A stream that drifts, and what a table shows of it: outdated codes, moving classes, and how it compares codes.

python examples/drift.py --out drift
"""

# %% [markdown]
# Six classes of vectors with 16 features arrive in batches of 250. Each class wanders, and ends at a right angle to
# where it began. The table learns from every batch, but is told to re-encode nothing (`policy="never"`), so that codes
# of many versions are in it. After each batch it is asked how it is doing, and it is searched with new vectors of that
# moment: which share of the thirty nearest items is of the query's class?

# %%
import argparse
from pathlib import Path

import numpy as np

import hashstream as hs
from hashstream import datasets, pictures

# %% [script]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--rows", type=int, default=2000, help="length of the stream")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the picture")
options = parser.parse_args()
rows, out = options.rows, options.out

# %% [notebook]
# rows, out = 2000, Path("example-output")

# %%
stream = datasets.Stream(rows, 16, classes=6, drift=1.0, seed=0)
classes = stream.rows(0, rows)[1]  # of each row; the ids are the numbers of the rows
table = hs.HashTable.open(None, hasher=hs.PosteriorHash(n_bits=32, random_state=0), policy="never")


def right(compare: str = "auto") -> float:
    """The share of right classes among the thirty nearest items of new vectors."""
    queries, wanted = stream.queries(300, at=len(table))  # never in the stream
    ids = table.search(queries, k=30, compare=compare).ids
    return float(np.mean(classes[ids] == wanted[:, None]))


history = []
print(" rows  versions  outdated codes  bit flips  centre shift   like with like  as searched")
for X, y in stream.batches(250):
    table.ingest(range(len(table), len(table) + len(X)), X, y)
    stats = table.stats()
    flips, shift, like, searched = stats.drift.bit_flips, stats.drift.centre_shift, right("like"), right()
    history.append((len(table), flips, shift, like, searched))
    print(
        f"{len(table):5}  {len(stats.versions):8}  {stats.stale:14.0%}  {flips:9.1%}  {shift:12.2f}"
        f"  {like:15.1%}  {searched:11.1%}"
    )
print(f"the table compares by: {stats.comparison.choice} ({stats.comparison.reason})")

# %% [markdown]
# - **Centre shift** says that the data move: the distance between the newer and the older half of a class, in units of
#   its spread.
# - **Bit flips** says that codes are outdated: the share of their bits that the current functions would set otherwise.
# - **Like with like** compares each old code with the query as the functions of that time encode it. They have never
#   seen the classes where they are now.
# - **As searched** is the default, `compare="auto"`: the table has measured on its sample that the current functions
#   find more, also among old codes. PosteriorHash keeps the code of a class while the class moves, so a code that was
#   made by the functions of its time is still right.
#
# Is a refresh worth it? Ask, and see:

# %%
before, encoded = right(), table.refresh()
print(
    f"{encoded:,} items re-encoded: {before:.1%} of the thirty nearest were right before, {right():.1%} are now"
)

# %% [markdown]
# Outdated codes alone are no reason to re-encode. New classes are, and methods whose codes move as they learn
# ([measured](../docs/table-measurements.md#comparing-codes-of-different-versions)).

# %%
at, flips, shift, like, searched = zip(*history, strict=True)
figure = pictures.new_figure(7.0, 5.2, h_pad=0.08)
upper, lower = figure.subplots(2, 1, sharex=True)
colour, pale, other = (pictures.COLOURS[name] for name in ("PosteriorHash", "LSH", "FCOH"))
upper.plot(at, searched, color=colour, marker="o", label="as searched")
upper.plot(at, like, color=pale, marker="s", label="like with like")
upper.set_ylim(0, 1.05)
upper.set_ylabel("right, of the 30 nearest")
upper.legend(loc="lower left", frameon=False)
lower.plot(at, shift, color=other, marker="o", label="centre shift")
lower.plot(at, [10 * share for share in flips], color=colour, marker="s", label="bit flips x 10")
lower.set_ylabel("signs of drift")
lower.set_xlabel("rows learned from and stored")
lower.legend(loc="upper left", frameon=False)
for axes in (upper, lower):
    pictures.tidy(axes)
pictures.heading(figure, "What a table shows of a stream that drifts")
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "drift.png", dpi=90)
print(f"picture: {out / 'drift.png'}")

# %% [notebook]
# from IPython.display import Image
# Image(out / "drift.png")
