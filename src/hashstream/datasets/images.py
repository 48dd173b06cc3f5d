"""A folder of images, one sub-folder a class, turned into features with a network of the user's."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashstream.datasets.folders import DatasetError
from hashstream.datasets.network import Network
from hashstream.datasets.npy import read_npz

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "Features", "image_features", "list_images"]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue between 0 and 1, as most networks trained on ImageNet expect them."""

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")

_PIECE = 1024  # images after which what was done is safe


@dataclass(frozen=True)
class Features:
    """What `image_features` did.

    path: the .npz. rows, features: its size. classes: their names.
    skipped: images that could not be read, with the reason. resumed: images that an earlier, interrupted call had done.
    """

    path: Path
    rows: int
    features: int
    classes: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    resumed: int


def list_images(folder: Path) -> tuple[list[str], np.ndarray, tuple[str, ...]]:
    """The images below `folder`: paths relative to it, (n,) int64 classes, and the classes' names.

    A sub-folder is a class, its images may lie deeper. Classes are in the order of their names, and so are the images
    of a class, by the Unicode of their characters: the same on every machine. What begins with a dot is passed over,
    and so is a sub-folder without images.
    """
    if not folder.is_dir():
        raise DatasetError(f"there is no folder {folder}")
    files: list[str] = []
    labels: list[int] = []
    classes: list[str] = []
    for sub in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        inside = sorted(
            path.relative_to(folder).as_posix()
            for path in sub.rglob("*")
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
        )
        if inside:
            files += inside
            labels += [len(classes)] * len(inside)
            classes.append(sub.name)
    if not files:
        raise DatasetError(f"{folder} has no images in sub-folders: one sub-folder a class is needed")
    return files, np.array(labels, np.int64), tuple(classes)


def image_features(
    folder: str | Path,
    model: str | Path,
    out: str | Path,
    *,
    layer: str | None = None,
    size: int | None = None,
    batch: int = 64,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    strict: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Features:
    """Run the images of `folder` (see `list_images`) through an ONNX network; write an .npz that `load` reads.

    model, layer, size: see `Network`. An image is turned upright as its camera says, made RGB, scaled to size x size
    (antialiased, not cropped), divided by 255; then `mean` is subtracted and divided by `std`, channel by channel.
    batch: images in one run of the network. threads: of the network and of the decoding.
    strict: refuse an image that cannot be read. Otherwise it is left out and named in the result.
    progress: called with the number of images that are done, and of all.

    The .npz holds x (n, d) float32, y (n,) int64, classes, files (the paths of the rows), skipped (the paths left out)
    and about (JSON: the settings and the SHA-256 of the model). It gets its name when it is complete. Until then, what
    is done lies in OUT.partial, and the same call goes on from there; another model, setting or folder starts anew.
    """
    folder, model, out = Path(folder), Path(model), Path(out)
    if out.suffix != ".npz":
        raise DatasetError(f"{out} has to end in .npz")
    if batch < 1:
        raise DatasetError(f"batch is {batch}: it has to be 1 or more")
    scale = _Scale.of(mean, std)
    network = Network(model, layer=layer, size=size, threads=threads)
    files, y, classes = list_images(folder)
    about = {
        "model": hashlib.sha256(model.read_bytes()).hexdigest(),
        "layer": network.layer,
        "size": network.size,
        "mean": scale.mean.tolist(),
        "std": scale.std.tolist(),
    }
    partial = _partial_folder(out, {**about, "strict": strict, "files": _fingerprint(folder, files)})
    tell = progress or (lambda done, total: None)
    pieces, resumed = [], 0
    with ThreadPoolExecutor(threads or min(8, os.cpu_count() or 1)) as pool:
        for begin in range(0, len(files), _PIECE):
            part = files[begin : begin + _PIECE]
            pieces.append(partial / f"{begin:09d}.npz")
            if pieces[-1].is_file():
                resumed += len(part)
            else:
                vectors, reasons = [], []
                for at in range(0, len(part), batch):
                    x, why = _features(folder, part[at : at + batch], network, scale, strict, pool)
                    vectors.append(x)
                    reasons += why
                    tell(begin + len(reasons), len(files))
                _write(pieces[-1], x=_stacked(vectors), reasons=np.array(reasons))
            tell(begin + len(part), len(files))
    done = [read_npz(piece, "x", "reasons") for piece in pieces]
    x, reasons = (
        _stacked([piece["x"] for piece in done]),
        [why for piece in done for why in piece["reasons"].tolist()],
    )
    if not len(x):
        raise DatasetError(
            f"none of the {len(files)} images in {folder} can be read; {files[0]}: {reasons[0]}"
        )
    good = [not why for why in reasons]
    skipped = tuple((file, why) for file, why in zip(files, reasons, strict=True) if why)
    _write(
        out,
        x=x,
        y=y[good],
        classes=np.array(classes),
        files=np.array([file for file, why in zip(files, reasons, strict=True) if not why]),
        skipped=np.array([file for file, _ in skipped], dtype=np.str_),
        about=np.array(json.dumps(about)),
    )
    shutil.rmtree(partial)
    return Features(out, len(x), x.shape[1], classes, skipped, resumed)


@dataclass(frozen=True)
class _Scale:
    """What is done to a channel between 0 and 1 before the network sees it."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, mean: Sequence[float], std: Sequence[float]) -> _Scale:
        centre, width = np.asarray(mean, np.float32), np.asarray(std, np.float32)
        if (
            centre.shape != (3,)
            or width.shape != (3,)
            or not (np.isfinite(centre).all() and (width > 0).all())
        ):
            raise DatasetError(
                f"mean is {mean} and std is {std}: each is three numbers, those of std above 0"
            )
        return cls(centre, width)

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        scaled: np.ndarray = (pixels / np.float32(255) - self.mean) / self.std
        return scaled


def _features(
    folder: Path, files: list[str], network: Network, scale: _Scale, strict: bool, pool: ThreadPoolExecutor
) -> tuple[np.ndarray, list[str]]:
    """The features of the images that can be read, and for each image why it cannot, "" where it can."""
    read = list(pool.map(lambda file: _pixels(folder / file, network.size), files))
    reasons = [pixels if isinstance(pixels, str) else "" for pixels in read]
    if strict and any(reasons):
        file, why = next(pair for pair in zip(files, reasons, strict=True) if pair[1])
        raise DatasetError(f"{folder / file} cannot be read as an image: {why}")
    good = [scale(pixels) for pixels in read if not isinstance(pixels, str)]
    if not good:
        return np.empty((0, 0), np.float32), reasons
    x = network(np.stack(good))
    if not (finite := np.isfinite(x).all(axis=1)).all():
        file = [file for file, why in zip(files, reasons, strict=True) if not why][int(finite.argmin())]
        raise DatasetError(f"{network.path} gives numbers for {folder / file} that are not finite")
    return x, reasons


def _pixels(path: Path, size: int) -> np.ndarray | str:
    """(size, size, 3) float32 between 0 and 255, or why there is none."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as stored:
            image: Image.Image = ImageOps.exif_transpose(stored)
            if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip to 8
                grey = np.clip(np.asarray(image, np.float32) / 257, 0, 255)
                image = Image.fromarray(grey.astype(np.uint8))
            image = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(image, np.float32)
    except (
        Exception
    ) as error:  # a decoder may raise anything on a damaged file, and one file must not end the run
        return str(error) or type(error).__name__


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    """Rows on top of each other; parts in which no image could be read do not know their width."""
    return np.concatenate([part for part in parts if len(part)] or [np.empty((0, 0), np.float32)])


def _fingerprint(folder: Path, files: list[str]) -> str:
    """Changes when an image is added, removed or written to."""
    digest = hashlib.sha256()
    for file in files:
        stat = (folder / file).stat()
        digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _partial_folder(out: Path, settings: dict[str, object]) -> Path:
    """The folder for what is done so far, empty unless it was left by the same call."""
    partial, wanted = out.with_name(f"{out.name}.partial"), json.dumps(settings, sort_keys=True)
    note = partial / "settings.json"
    try:
        if partial.exists() and not (note.is_file() and note.read_text() == wanted):
            if not note.is_file():
                raise DatasetError(f"{partial} is in the way: it was not left by an earlier run")
            shutil.rmtree(partial)
        partial.mkdir(parents=True, exist_ok=True)
        note.write_text(wanted)
    except OSError as error:
        raise DatasetError(f"{partial} cannot be written to ({error})") from error
    return partial


def _write(path: Path, **arrays: np.ndarray) -> None:
    """An .npz that is there completely or not at all."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        part.replace(path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be written ({error})") from error
    finally:
        part.unlink(missing_ok=True)
