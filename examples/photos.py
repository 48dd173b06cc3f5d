"""Search photos: from a folder of images and a network as an ONNX file to a table, and a picture of what it finds.

    pip install 'hashstream[onnx,plots]'
    python examples/photos.py photos --model resnet50.onnx --layer pool --out photos-search

The images are in sub-folders, one per class, as for `image_features.py`, which computes their features. One image of
each class is left out as a query, or name queries of your own by `--query`. The table stays in OUT/table: a second call
computes the features of all images again, and stores those of new ones only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from image_features import IMAGENET_MEAN, IMAGENET_STD, Network, image_features
from PIL import Image, ImageOps

import hashstream as hs
from hashstream import pictures
from hashstream.datasets import DatasetError


def thumbnail(path: Path, side: int = 96) -> np.ndarray:
    """An image as (side, side, 3) uint8, cut to a square, as its camera was held."""
    with Image.open(path) as stored:
        upright = ImageOps.exif_transpose(stored).convert("RGB")
    return np.asarray(ImageOps.fit(upright, (side, side)))


def held_out(labels: np.ndarray) -> np.ndarray:
    """The number of the last row of each class that has at least three."""
    rows = (np.flatnonzero(labels == label) for label in np.unique(labels))
    return np.array([of_class[-1] for of_class in rows if len(of_class) >= 3], np.intp)


def features_of(
    paths: Sequence[Path], network: Network, mean: Sequence[float], std: Sequence[float]
) -> np.ndarray:
    """The features of single images, made as `image_features` makes them: (n, d) float32."""
    pixels = []
    for path in paths:
        with Image.open(path) as stored:
            upright = ImageOps.exif_transpose(stored).convert("RGB")
        square = upright.resize((network.size, network.size), Image.Resampling.BILINEAR)
        pixels.append((np.asarray(square, np.float32) / 255 - np.float32(mean)) / np.float32(std))
    return network(np.stack(pixels))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="images, one sub-folder per class")
    parser.add_argument("--model", type=Path, required=True, help="the network, an ONNX file")
    parser.add_argument("--layer", help="the tensor to take; by default the first output")
    parser.add_argument("--size", type=int, help="side of the images; by default the network's, else 224")
    parser.add_argument("--mean", type=float, nargs=3, default=IMAGENET_MEAN, help="of red, green and blue")
    parser.add_argument("--std", type=float, nargs=3, default=IMAGENET_STD, help="of red, green and blue")
    parser.add_argument("--query", type=Path, nargs="+", default=[], help="images to search for")
    parser.add_argument("--bits", type=int, default=64, help="bits per image")
    parser.add_argument("--neighbours", type=int, default=8, help="images to show per query")
    parser.add_argument(
        "--out", type=Path, default=Path("example-output"), help="folder for table and picture"
    )
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    how = {"layer": options.layer, "size": options.size, "mean": options.mean, "std": options.std}
    try:
        made = image_features(options.folder, options.model, options.out / "features.npz", **how)
        with np.load(made.path) as stored:
            X, y, files, classes = (stored[name] for name in ("x", "y", "files", "classes"))
        labels = classes[y]
        if options.query:
            network = Network(options.model, layer=options.layer, size=options.size)
            Q, asked = features_of(options.query, network, options.mean, options.std), options.query
            wanted = np.array([path.parent.name for path in asked])
            rows = np.arange(len(X))
        else:
            queries = held_out(y)
            if not len(queries):
                parser.exit(2, "no class has three images: name queries by --query\n")
            Q, asked, wanted = X[queries], [options.folder / files[row] for row in queries], labels[queries]
            rows = np.setdiff1d(np.arange(len(X)), queries)
    except DatasetError as error:
        parser.exit(2, f"{error}\n")
    for file, why in made.skipped:
        print(f"skipped {file}: {why}", file=sys.stderr)

    folder = options.out / "table"
    hasher = None if hs.HashTable.exists(folder) else hs.PosteriorHash(n_bits=options.bits, random_state=0)
    with hs.HashTable.open(folder, hasher=hasher) as table:
        rows = np.array([row for row in rows if files[row] not in table], np.intp)
        rows = np.random.default_rng(0).permutation(rows)  # as a stream has them: not class after class
        for start in range(0, len(rows), 100):
            batch = rows[start : start + 100]
            table.ingest(files[batch].tolist(), X[batch], labels[batch].tolist())
        table.refresh()
        hits = table.search(Q, k=min(options.neighbours, len(table)), include=("labels",))
        print(f"{len(table):,} images in {folder}, {len(rows):,} of them new; {X.shape[1]} features each")
    found = np.array(hits.labels, dtype=object)
    for path, ids, names in zip(asked, hits.ids, found, strict=True):
        print(f"{path}: {', '.join(f'{one} ({name})' for one, name in zip(ids[:3], names, strict=False))}")
    figure = pictures.neighbour_grid(
        np.stack([thumbnail(path) for path in asked]),
        wanted,
        np.stack([[thumbnail(options.folder / one) for one in ids] for ids in hits.ids]),
        found,
        hits.distances,
        title="Photos that are nearest to photos",
        subtitle=f"{options.bits} bits per image, learned from the names of the folders. Dashed: another class.",
    )
    figure.savefig(options.out / "photos.png", dpi=110, bbox_inches="tight")
    print(f"picture: {options.out / 'photos.png'}")


if __name__ == "__main__":
    main()
