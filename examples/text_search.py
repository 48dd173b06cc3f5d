"""Search texts of which few have labels: embeddings by TF-IDF and SVD, and what each further label is worth.

    python examples/text_search.py --out text-search
    python examples/text_search.py --ask "fit a smooth curve through points"

The texts are on every machine that has the library: the docstrings of SciPy's functions. A label is the part of SciPy
that a function is in. The embedding needs no download; with vectors of a language model the rest stays the same.
"""

# %%
import argparse
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer

import hashstream as hs
from hashstream import pictures

PARTS = (
    "cluster.hierarchy",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "spatial",
    "stats",
)
QUESTIONS = (
    "fit a smooth curve through points",
    "find the minimum of a function",
    "correlation between two variables",
)

# %% [script]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--ask", nargs="+", default=QUESTIONS, metavar="TEXT", help="questions in plain words")
parser.add_argument("--bits", type=int, default=128, help="bits per text")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for the picture")
options = parser.parse_args()
ask, bits, out = options.ask, options.bits, options.out

# %% [notebook]
# ask, bits, out = QUESTIONS, 128, Path("example-output")

# %% [markdown]
# ## From texts to vectors
#
# A docstring usually contains the name of its function, which could give the answer away: it is removed. One text in
# five is a query. The embedding is fitted to the others only.


# %%
def texts() -> tuple[list[str], list[str], list[str]]:
    """Names, docstrings and labels of the functions and classes of SciPy, each once."""
    names, docs, labels, known = [], [], [], set()
    for part in PARTS:
        module = importlib.import_module(f"scipy.{part}")
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            doc = inspect.getdoc(thing) if callable(thing) else None
            if doc and len(doc) > 200 and doc not in known:
                known.add(doc)
                names.append(f"scipy.{part}.{name}")
                docs.append(re.sub(rf"\b{re.escape(name)}\b", " ", doc)[:2000])  # the name would give it away
                labels.append(part)
    return names, docs, labels


def embedding(dimensions: int) -> Pipeline:
    """Texts to unit vectors of so many numbers."""
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=3, token_pattern=r"[a-zA-Z]{3,}")
    return make_pipeline(words, TruncatedSVD(dimensions, random_state=0), Normalizer(copy=False))


names, docs, labels = texts()
order = np.random.default_rng(0).permutation(len(docs))
queries, rows = order[: len(order) // 5], order[len(order) // 5 :]
embed = embedding(100)
X = np.zeros((len(docs), 100), np.float32)
X[rows] = embed.fit_transform([docs[row] for row in rows])
X[queries] = embed.transform([docs[row] for row in queries])
y = np.array(labels)
print(
    f"{len(docs):,} texts of {len(PARTS)} parts of SciPy, {len(queries)} of them queries; {X.shape[1]} numbers each"
)

# %% [markdown]
# ## What are labels worth?
#
# All texts go into the table without labels. Labels follow for 25 of them, then for more, up to all. `label` learns
# from texts that are in the table, and `refresh` encodes all of them with what has been learned. After each step, the
# table is searched with the same queries.

# %%
# Half of the bits stay those of a random projection: with few labels per class, learned bits alone would lose much.
hasher = hs.PosteriorHash(n_bits=bits, plain_bits=bits // 2, random_state=0)
table = hs.HashTable.open(None, hasher=hasher)
table.ingest(rows, X[rows])  # no labels yet
curve, taught = [], 0
for upto in (0, 25, 50, 100, 200, 400, len(rows)):
    if upto > taught:
        table.label(rows[taught:upto], y[rows[taught:upto]])
        table.refresh()
        taught = upto
    found = table.search(X[queries], k=10).ids
    curve.append((taught, float((y[found] == y[queries, None]).mean())))
    print(f"{taught:5} labels: {curve[-1][1]:.0%} of the ten nearest texts are of the query's part")

# %%
figure = pictures.new_figure(6.5, 3.8)
axes = figure.add_subplot()
axes.plot(*zip(*curve, strict=True), color=pictures.COLOURS["PosteriorHash"], marker="o", linewidth=2.5)
for labelled, share in (curve[0], curve[-1]):
    place, side = ((2, 10), "left") if labelled == 0 else ((0, 10), "right")
    axes.annotate(
        f"{share:.0%}", (labelled, share), place, textcoords="offset points", ha=side, color=pictures.INK
    )
axes.set_ylim(0.5, 1.05)
axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
axes.set_xlabel(f"texts with a label, of {len(rows):,} in the table")
axes.set_ylabel("right, of the ten nearest")
pictures.tidy(axes)
pictures.heading(figure, "Right parts of SciPy among the answers")
pictures.under(
    figure,
    f"{len(queries)} docstrings that are not in the table as queries; {bits} bits per text.",
)
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "text-search.png", dpi=110)

# %% [notebook]
# from IPython.display import Image
# Image(out / "text-search.png")

# %% [markdown]
# A few labels do not help yet: with 25, fewer answers are right than with none. With 200, less than a third of the
# texts, most of the gain is there.
#
# ## Questions in plain words
#
# A question is embedded like the texts, and searched for in the same way. TF-IDF and SVD match words, not meanings: a
# question in other words than the texts have, such as "remove noise from an image", may get poor answers. These are the
# three nearest functions:

# %%
asked = embed.transform(ask).astype(np.float32)
answers = {
    question: [names[one].removeprefix("scipy.") for one in found]
    for question, found in zip(ask, table.search(asked, k=3).ids, strict=True)
}

# %% [script]
for question, nearest in answers.items():
    print(f"{question!r}: {', '.join(nearest)}")
print(f"picture: {out / 'text-search.png'}")

# %% [notebook]
# answers
