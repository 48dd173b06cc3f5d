"""Turn a folder of images, one sub-folder per class, into features, with a network that you have as an ONNX file.

    pip install onnxruntime pillow
    python examples/image_features.py photos --model resnet50.onnx --layer pool --out photos.npz
    hashstream bench --dataset photos.npz --methods PosteriorHash,LSH --out results

`--layer` names any tensor of the network; a feature map is averaged over its positions. Images are turned upright, made
RGB, scaled to the square that the network expects, and normalised with ImageNet's mean and standard deviation. An image
that cannot be read is skipped and named, or refused with --strict. Repeat an interrupted command to continue.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.datasets import DatasetError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue between 0 and 1, for networks trained on ImageNet."""

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")

_PIECE = 1024  # images after which the features so far are saved


@dataclass(frozen=True)
class Features:
    """The result of `image_features`.

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

    A sub-folder is a class, its images may be nested deeper. Classes, and the images of a class, are sorted by code
    point: the same on every machine. Names that begin with a dot and sub-folders without images are ignored.
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
        raise DatasetError(f"{folder} has no images in sub-folders: one sub-folder per class is needed")
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
    """Run the images of `folder` (see `list_images`) through an ONNX network; write an .npz that `datasets.load` reads.

    model, layer, size: see `Network`. An image is turned upright as its camera says, made RGB, scaled to size x size
    (antialiased, not cropped), divided by 255; then `mean` is subtracted and divided by `std`, channel by channel.
    batch: images in one run of the network. threads: of the network and of the decoding.
    strict: refuse an image that cannot be read. Otherwise it is skipped and named in the result.
    progress: called with the number of images done, and of all.

    The .npz holds x (n, d) float32, y (n,) int64, classes, files (the paths of the rows), skipped (their paths)
    and about (JSON: the settings and the SHA-256 of the model). It gets its name when it is complete. Until
    then, the features so far are in OUT.partial, and the same call continues; another model, setting or folder starts
    from the beginning.
    """
    folder, model, out = Path(folder), Path(model), Path(out)
    if out.suffix != ".npz":
        raise DatasetError(f"{out} has to end in .npz")
    if batch < 1:
        raise DatasetError(f"batch is {batch}: it has to be 1 or more")
    centre, width = _channels(mean, std)
    network = Network(model, layer=layer, size=size, threads=threads)
    files, y, classes = list_images(folder)
    about = {
        "model": hashlib.sha256(model.read_bytes()).hexdigest(),
        "layer": network.layer,
        "size": network.size,
        "mean": centre.tolist(),
        "std": width.tolist(),
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
                    x, why = _features(folder, part[at : at + batch], network, (centre, width), strict, pool)
                    vectors.append(x)
                    reasons += why
                    tell(begin + len(reasons), len(files))
                _write(pieces[-1], x=_stacked(vectors), reasons=np.array(reasons))
            tell(begin + len(part), len(files))
    done = [dict(np.load(piece, allow_pickle=False)) for piece in pieces]
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


def _channels(mean: Sequence[float], std: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the three channels, checked."""
    centre, width = np.asarray(mean, np.float32), np.asarray(std, np.float32)
    if centre.shape != (3,) or width.shape != (3,) or not (np.isfinite(centre).all() and (width > 0).all()):
        raise DatasetError(f"mean is {mean} and std is {std}: each is three numbers, those of std above 0")
    return centre, width


def _features(
    folder: Path,
    files: list[str],
    network: Network,
    channels: tuple[np.ndarray, np.ndarray],
    strict: bool,
    pool: ThreadPoolExecutor,
) -> tuple[np.ndarray, list[str]]:
    """The features of the images that can be read, and for each image why it cannot, "" where it can."""
    read = list(pool.map(lambda file: _pixels(folder / file, network.size), files))
    reasons = [pixels if isinstance(pixels, str) else "" for pixels in read]
    if strict and any(reasons):
        file, why = next(pair for pair in zip(files, reasons, strict=True) if pair[1])
        raise DatasetError(f"{folder / file} cannot be read as an image: {why}")
    mean, std = channels
    good = [(pixels / np.float32(255) - mean) / std for pixels in read if not isinstance(pixels, str)]
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
    """Rows stacked; a part in which no image could be read has no width."""
    return np.concatenate([part for part in parts if len(part)] or [np.empty((0, 0), np.float32)])


def _fingerprint(folder: Path, files: list[str]) -> str:
    """Changes when an image is added, removed or written to."""
    digest = hashlib.sha256()
    for file in files:
        stat = (folder / file).stat()
        digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _partial_folder(out: Path, settings: dict[str, object]) -> Path:
    """The folder for the features so far, empty unless it was left by the same call."""
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
    """Write an .npz completely or not at all."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, **arrays)
        part.replace(path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be written ({error})") from error
    finally:
        part.unlink(missing_ok=True)


class Network:
    """A network in an ONNX file, run by onnxruntime: one image input, and the tensor taken as features.

    model: the ONNX file. Its input is (n, 3, height, width) or (n, height, width, 3), float32 or float16; free
    dimensions may have names instead of numbers.
    layer: the tensor to take: an output, or any tensor inside; by default the first output.
    size: the side of the square that images are scaled to; by default what the network expects, else 224.
    threads: for onnxruntime; by default its own choice.
    """

    def __init__(
        self, model: Path, *, layer: str | None = None, size: int | None = None, threads: int | None = None
    ) -> None:
        self.path = model
        try:
            content = model.read_bytes()
        except OSError as error:
            raise DatasetError(f"{model} cannot be read ({error})") from error
        self._session = _session(model, content, threads)
        outputs = [output.name for output in self._session.get_outputs()]
        if layer is not None and layer not in outputs:
            try:
                self._session = _session(model, content + _as_output(layer), threads)
            except DatasetError as error:
                raise DatasetError(
                    f"{model} has no tensor {layer!r} that can be taken: its outputs are {', '.join(outputs)}; a "
                    f"viewer of ONNX files shows the names of the tensors inside ({error})"
                ) from error
        self.layer = layer or outputs[0]
        self._read_input(size)

    def _read_input(self, size: int | None) -> None:
        """Find the name, type, order of dimensions and size of the input."""
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            shown = ", ".join(f"{each.name} {each.shape}" for each in inputs)
            raise DatasetError(
                f"{self.path} takes {shown or 'nothing'}: a network of images has one input of 4 dims"
            )
        taken = inputs[0]
        self._input = taken.name
        try:
            self._dtype = {"tensor(float)": np.float32, "tensor(float16)": np.float16}[taken.type]
        except KeyError:
            raise DatasetError(
                f"{self.path} takes {taken.type}: it has to be tensor(float) or tensor(float16)"
            ) from None
        shape = [side if isinstance(side, int) and side > 0 else None for side in taken.shape]
        self.channels_last = shape[3] == 3 and shape[1] != 3
        sides = shape[1:3] if self.channels_last else shape[2:]
        if (shape[3] if self.channels_last else shape[1]) not in (3, None):
            raise DatasetError(
                f"{self.path} takes images of shape {taken.shape}: they have to have 3 channels"
            )
        fixed = next((side for side in sides if side is not None), None)
        if any(side not in (None, fixed) for side in sides):
            raise DatasetError(f"{self.path} takes images of shape {taken.shape}: they have to be square")
        if size is not None and fixed not in (None, size):
            raise DatasetError(f"{self.path} takes images of {fixed} x {fixed} pixels, and size is {size}")
        self.size = fixed or size or 224
        self._batch = shape[0]

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Features (n, d) float32 of images (n, height, width, 3) float32.

        A feature map is averaged over its positions. If the network takes batches of one size only, they are padded
        with the last image.
        """
        if not self.channels_last:
            images = images.transpose(0, 3, 1, 2)
        images = np.ascontiguousarray(images, self._dtype)
        step = self._batch or len(images)
        parts = []
        for begin in range(0, len(images), step):
            batch = images[begin : begin + step]
            n = len(batch)
            if n < step:
                batch = np.concatenate([batch, np.repeat(batch[-1:], step - n, axis=0)])
            try:
                (answer,) = self._session.run([self.layer], {self._input: batch})
            except Exception as error:  # onnxruntime's own classes come from C++ and share no base but this
                raise DatasetError(f"{self.path} fails on images of shape {batch.shape}: {error}") from error
            parts.append(self._flat(np.asarray(answer), step)[:n])
        return np.concatenate(parts)

    def _flat(self, answer: np.ndarray, n: int) -> np.ndarray:
        if answer.ndim < 2 or len(answer) != n or answer.dtype.kind not in "fiu":
            raise DatasetError(
                f"{self.layer} of {self.path} is {answer.dtype} {answer.shape} for {n} images: one vector per "
                "image is needed"
            )
        answer = answer.astype(np.float32, copy=False)
        if answer.ndim == 4:
            _, second, third, fourth = answer.shape
            # The two equal sides are the positions; if that does not decide, the same order as the images.
            last = second == third if (second == third) != (third == fourth) else self.channels_last
            answer = answer.mean(axis=(1, 2) if last else (2, 3))
        return answer.reshape(n, -1)


def _session(model: Path, content: bytes, threads: int | None) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise DatasetError(
            "onnxruntime is needed to run the network: pip install 'hashstream[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors, which are raised as well
    # Large networks keep their weights in files next to the model, which is read from memory here.
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(model.resolve().parent)
    )
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as above
        raise DatasetError(f"{model} cannot be run as an ONNX network ({error})") from error


def _as_output(tensor: str) -> bytes:
    """Bytes that, appended to an ONNX model, make `tensor` another output.

    A protobuf message may repeat a part, and readers merge the repetitions: this is a model whose graph (field 7) has
    nothing but an output (field 12) with a name (field 1).
    """
    message = tensor.encode()
    for field in (1, 12, 7):
        length, size = len(message), b""
        while length >= 0x80:
            size += bytes([length & 0x7F | 0x80])
            length >>= 7
        message = bytes([field << 3 | 2]) + size + bytes([length]) + message
    return message


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="images, one sub-folder per class")
    parser.add_argument("--model", type=Path, required=True, help="the network, an ONNX file")
    parser.add_argument("--out", type=Path, required=True, help="the file to write, which ends in .npz")
    parser.add_argument("--layer", help="the tensor to take; by default the first output")
    parser.add_argument("--size", type=int, help="side of the images; by default the network's, else 224")
    parser.add_argument("--batch", type=int, default=64, help="images per call of the network")
    parser.add_argument("--mean", type=float, nargs=3, default=IMAGENET_MEAN, help="of red, green and blue")
    parser.add_argument("--std", type=float, nargs=3, default=IMAGENET_STD, help="of red, green and blue")
    parser.add_argument("--strict", action="store_true", help="stop at an image that cannot be read")
    options = vars(parser.parse_args(arguments))

    def progress(done: int, total: int) -> None:
        print(f"\r{done:,} of {total:,} images", end="", file=sys.stderr, flush=True)

    try:
        made = image_features(**options, progress=progress)
    except DatasetError as error:
        parser.exit(2, f"\n{error}\n")
    except KeyboardInterrupt:
        parser.exit(130, "\ninterrupted: repeat the command to continue\n")
    print(file=sys.stderr)
    for file, why in made.skipped:
        print(f"skipped {file}: {why}")
    before = f" ({made.resumed:,} of them from before)" if made.resumed else ""
    print(
        f"{made.path}: {made.rows:,} x {made.features:,}{before}, {len(made.classes)} classes, "
        f"{len(made.skipped)} images skipped"
    )


if __name__ == "__main__":
    main()
