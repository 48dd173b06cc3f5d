"""A network in an ONNX file that turns images into vectors, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hashstream.datasets.folders import DatasetError

__all__ = ["Network"]


class Network:
    """One image input, and the tensor that is taken for the features.

    model: the ONNX file. Its input is (n, 3, height, width) or (n, height, width, 3), float32 or float16; free
    dimensions may have names instead of numbers.
    layer: the tensor that is taken: an output, or any tensor inside. The first output where it is None.
    size: the side of the square that images are scaled to. Where it is None, what the network asks for, else 224.
    threads: how many onnxruntime may use; its own choice where it is None.
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
        """Which input, in which order of dimensions, of which size and type."""
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

        A map is averaged over its places. Where the network takes batches of one size only, they are filled up
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
                f"{self.layer} of {self.path} is {answer.dtype} {answer.shape} for {n} images: one vector an image "
                "is needed"
            )
        answer = answer.astype(np.float32, copy=False)
        if answer.ndim == 4:
            _, second, third, fourth = answer.shape
            # The two equal sides are the places; where that does not decide, as the images are.
            last = second == third if (second == third) != (third == fourth) else self.channels_last
            answer = answer.mean(axis=(1, 2) if last else (2, 3))
        return answer.reshape(n, -1)


def _session(model: Path, content: bytes, threads: int | None) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise DatasetError(
            "onnxruntime runs the network, and is not installed: pip install 'hashstream[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors, which are raised as well
    # Large networks keep their weights in files beside the model, which is read from memory here.
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
    """Bytes that, put behind an ONNX model, make `tensor` one more output of it.

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
