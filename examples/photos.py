"""Search photos: from a folder of images and a network as an ONNX file to a table, and a picture of what it finds.

    pip install 'hashstream[onnx,plots]'
    python examples/photos.py photos --model resnet50.onnx --layer pool --out photos-search

The images are in sub-folders, one per class, as for `image_features.py`, which computes their features. One image of
each class is left out as a query, or name queries of your own by `--query`. The table stays in OUT/table: a second call
computes the features of all images again, and stores those of new ones only. A photo that was deleted stays in the
table, and is grey in the picture.
"""

# %%
import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from image_features import IMAGENET_MEAN, IMAGENET_STD, Network, image_features
from PIL import Image, ImageOps

import hashstream as hs
from hashstream import pictures
from hashstream.datasets import DatasetError

# %% [script]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", type=Path, help="images, one sub-folder per class")
parser.add_argument("--model", type=Path, required=True, help="the network, an ONNX file")
parser.add_argument("--layer", help="the tensor to take; by default the first output")
parser.add_argument("--size", type=int, help="side of the images; by default the network's, else 224")
parser.add_argument("--mean", type=float, nargs=3, default=IMAGENET_MEAN, help="of red, green and blue")
parser.add_argument("--std", type=float, nargs=3, default=IMAGENET_STD, help="of red, green and blue")
parser.add_argument("--query", type=Path, nargs="+", default=[], help="images to search for")
parser.add_argument("--bits", type=int, help="bits per image of a new table; by default 64")
parser.add_argument("--neighbours", type=int, default=8, help="images to show per query")
parser.add_argument("--out", type=Path, default=Path("example-output"), help="folder for table and picture")
options = parser.parse_args()
folder, model, out, query = options.folder, options.model, options.out, options.query
layer, size, mean, std = options.layer, options.size, options.mean, options.std
bits, neighbours = 64 if options.bits is None else options.bits, options.neighbours

if options.bits is not None and hs.HashTable.exists(out / "table"):
    with hs.HashTable.open(out / "table", mode="read") as table:
        n_bits = table.hasher.n_bits
    if bits != n_bits:
        parser.exit(
            2,
            f"{out / 'table'} has {n_bits} bits per image, not {bits}: leave --bits out, or give another --out\n",
        )

# %% [markdown]
# ## Photos and a network
#
# The script takes yours. The notebook makes its own, so that it runs anywhere: 40 images of each of five digits as PNG
# files, in a folder per digit, and an ONNX network that averages squares of 4 x 4 pixels. For photos and a network of
# your own, set `folder`, `model` and, to take a tensor other than the first output, `layer`; and skip the cell that
# writes the files.

# %% [notebook]
# out = Path("example-output")
# folder, model = out / "digits", out / "squares.onnx"
# layer, size, mean, std = None, None, IMAGENET_MEAN, IMAGENET_STD  # None: the first output, the network's own size
# query = []  # paths of images to search for; if there are none, one of each class
# bits, neighbours = 64, 8  # bits of a new table: one that is there already keeps its own

# %% [notebook]
# import onnx
# from onnx import TensorProto, helper
# from sklearn.datasets import load_digits
#
# X, y = load_digits(return_X_y=True)
# for digit in (1, 4, 7, 8, 9):
#     (folder / str(digit)).mkdir(parents=True, exist_ok=True)
#     for number, pixels in enumerate(X[y == digit][:40]):
#         grey = Image.fromarray((255 - pixels.reshape(8, 8) * 15).astype(np.uint8))
#         grey.resize((96, 96), Image.Resampling.NEAREST).save(folder / str(digit) / f"{number:02}.png")
# graph = helper.make_graph(
#     [
#         helper.make_node("AveragePool", ["image"], ["squares"], kernel_shape=[4, 4], strides=[4, 4]),
#         helper.make_node("Flatten", ["squares"], ["features"]),
#     ],
#     "squares",
#     [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("n", 3, 32, 32))],
#     [helper.make_tensor_value_info("features", TensorProto.FLOAT, ("n", 192))],
# )
# onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), model)

# %% [markdown]
# ## Features
#
# `image_features` runs all images through the network. Unless you name queries, the last image of each class is one,
# and is not stored.


# %%
def held_out(labels: np.ndarray) -> np.ndarray:
    """The number of the last row of each class that has at least three."""
    rows = (np.flatnonzero(labels == label) for label in np.unique(labels))
    return np.array([of_class[-1] for of_class in rows if len(of_class) >= 3], np.intp)


def upright(path: Path) -> Image.Image:
    """An image as its camera was held, in RGB."""
    with Image.open(path) as stored:
        return ImageOps.exif_transpose(stored).convert("RGB")


def features_of(
    paths: Sequence[Path], network: Network, mean: Sequence[float], std: Sequence[float]
) -> np.ndarray:
    """The features of single images, made as `image_features` makes them: (n, d) float32."""
    pixels = []
    for path in paths:
        if not path.is_file():
            raise DatasetError(f"--query: there is no file {path}")
        try:
            image = upright(path)
        except Exception as error:  # a decoder may raise anything on a damaged file
            raise DatasetError(f"--query: {path} cannot be read as an image") from error
        square = image.resize((network.size, network.size), Image.Resampling.BILINEAR)
        pixels.append((np.asarray(square, np.float32) / 255 - np.float32(mean)) / np.float32(std))
    return network(np.stack(pixels))


def read() -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Features, paths and labels, of the images to store and of the queries."""
    out.mkdir(parents=True, exist_ok=True)
    if query:  # first, as they are few: a mistake is told before the network runs for minutes
        Q = features_of(query, Network(model, layer=layer, size=size), mean, std)
    how = {"layer": layer, "size": size, "mean": mean, "std": std}
    made = image_features(folder, model, out / "features.npz", **how)
    for file, why in made.skipped:
        print(f"skipped {file}: {why}", file=sys.stderr)
    with np.load(made.path) as stored:
        X, y, files, classes = (stored[name] for name in ("x", "y", "files", "classes"))
    labels = classes[y]
    if query:
        return (X, files, labels), (Q, np.array(query), np.array([path.parent.name for path in query]))
    last = held_out(y)
    if not len(last):
        raise DatasetError("no class has three images: name queries by --query")
    kept = np.setdiff1d(np.arange(len(X)), last)
    asked = np.array([folder / file for file in files[last]])
    return (X[kept], files[kept], labels[kept]), (X[last], asked, labels[last])


# %% [script]
try:
    (X, files, labels), (Q, asked, wanted) = read()
except DatasetError as error:
    parser.exit(2, f"{error}\n")

# %% [notebook]
# (X, files, labels), (Q, asked, wanted) = read()

# %% [markdown]
# ## A table of them
#
# The id of an image is its path below the folder, its label the name of its sub-folder. Images that are in the table
# already, from an earlier run, are not stored again.

# %%
place = out / "table"
hasher = None if hs.HashTable.exists(place) else hs.PosteriorHash(n_bits=bits, random_state=0)
with hs.HashTable.open(place, hasher=hasher) as table:
    new = np.array([row for row, file in enumerate(files) if file not in table], np.intp)
    new = np.random.default_rng(0).permutation(new)  # as a stream has them: not class after class
    for start in range(0, len(new), 100):
        batch = new[start : start + 100]
        table.ingest(files[batch].tolist(), X[batch], labels[batch].tolist())
    table.refresh()
    n_bits = table.hasher.n_bits
    hits = table.search(Q, k=min(neighbours, len(table)), include=("labels",))
    print(f"{len(table):,} images in {place}, {len(new):,} of them new; {X.shape[1]} features each")
found = np.array(hits.labels, dtype=object)

# %% [script]
for path, ids, names in zip(asked, hits.ids, found, strict=True):
    print(f"{path}: {', '.join(f'{one} ({name})' for one, name in zip(ids[:3], names, strict=False))}")


# %%
@cache
def thumbnail(path: Path, side: int = 96) -> np.ndarray:
    """An image as (side, side, 3) uint8, cut to a square; grey, and named, where it was deleted or damaged."""
    try:
        return np.asarray(ImageOps.fit(upright(path), (side, side)))
    except Exception:  # as above
        why = "cannot be read" if path.exists() else "is not in the folder any more"
        print(f"grey in the picture: {path} {why}")
        return np.full((side, side, 3), 160, np.uint8)


figure = pictures.neighbour_grid(
    np.stack([thumbnail(path) for path in asked]),
    wanted,
    np.stack([[thumbnail(folder / one) for one in ids] for ids in hits.ids]),
    found,
    hits.distances,
    title="Photos that are nearest to photos",
    subtitle=f"{n_bits} bits per image, learned from the names of the folders. Dashed: another class.",
)
figure.savefig(out / "photos.png", dpi=110, bbox_inches="tight")
print(f"picture: {out / 'photos.png'}")

# %% [notebook]
# import IPython
# IPython.display.Image(out / "photos.png")
