"""Arrow streams that no client of good will sends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.serve.forms import ARROW, arrow, vectors
from tests.serve.raw_sockets import memory_below
from tests.serve.refusals import BODY, MB, A, refused, send
from tests.serve.running import Running

pytestmark = pytest.mark.usefixtures("nothing_changes")

# ---- Arrow

PA_VECTOR = vectors(np.ones((1, 4), np.float32))
COLUMN = {"id": [700], "vector": PA_VECTOR}
STREAM = arrow(COLUMN)


def twice(name: str) -> bytes:
    table = pa.Table.from_arrays([pa.array([700]), pa.array([701]), PA_VECTOR], names=[name, name, "vector"])
    return arrow(table)


STREAMS = {
    "nothing": b"",
    "garbage": b"abc" * 100,
    "cut in the middle": STREAM[: len(STREAM) // 2],
    "cut in its head": STREAM[:20],
    "no rows": arrow({"id": pa.array([], pa.int64()), "vector": vectors(np.ones((0, 4)))}),
    "no id": arrow({"vector": PA_VECTOR}),
    "two ids": twice("id"),
    "two fields": twice("n"),
    "a missing id": arrow({**COLUMN, "id": pa.array([None], pa.int64())}),
    "a float as id": arrow({**COLUMN, "id": [1.5]}),
    "a time as id": arrow({**COLUMN, "id": pa.array([0], pa.timestamp("s"))}),
    "a missing vector": arrow({**COLUMN, "vector": pa.array([None], pa.list_(pa.float32()))}),
    "a missing number": arrow({**COLUMN, "vector": pa.array([[1, 2, 3, None]], pa.list_(pa.float32()))}),
    "texts as vectors": arrow({**COLUMN, "vector": [["a", "b", "c", "d"]]}),
    "numbers as vectors": arrow({**COLUMN, "vector": [1.0]}),
    "deep vectors": arrow({**COLUMN, "vector": [[[1.0, 2.0, 3.0, 4.0]]]}),
    "ragged": arrow({"id": [1, 2], "vector": [[1.0], [1.0, 2.0]]}),
    "bools as vectors": arrow({**COLUMN, "vector": [[True, False, True, True]]}),
    "bytes as label": arrow({**COLUMN, "label": [b"a"]}),
    "a time as label": arrow({**COLUMN, "label": pa.array([0], pa.timestamp("s"))}),
    "a decimal as label": arrow({**COLUMN, "label": pa.array([1], pa.decimal128(5))}),
    "an object as label": arrow({**COLUMN, "label": [{"a": 1}]}),
    "a list of texts as label": arrow({**COLUMN, "label": [["a"]]}),
    "a payload that is no text": arrow({**COLUMN, "payload": [1]}),
    "a payload that is no JSON": arrow({**COLUMN, "payload": ["{"]}),
    "a payload that is a list": arrow({**COLUMN, "payload": ["[]"]}),
    "half a character in a payload": arrow({**COLUMN, "payload": ['{"a": "\\ud800"}']}),
    "an unknown field": arrow({**COLUMN, "zz": [1]}),
    "bytes as field": arrow({**COLUMN, "tenant": [b"a"]}),
    "a number as text": arrow({**COLUMN, "tenant": [1]}),
    "a decimal as field": arrow({**COLUMN, "price": pa.array([1], pa.decimal128(5))}),
    "a duration as field": arrow({**COLUMN, "n": pa.array([1], pa.duration("s"))}),
    "an object as field": arrow({**COLUMN, "tenant": [{"a": 1}]}),
}


@pytest.mark.parametrize("body", STREAMS.values(), ids=STREAMS)
def test_streams(target: Running, body: bytes) -> None:
    refused(send(target, f"{A}/items", body, ARROW), 400, 422)


def test_every_cut_of_a_stream(target: Running) -> None:
    for length in range(0, len(STREAM) - 8, 24):  # the last 8 bytes only say that it ends
        refused(send(target, f"{A}/items", STREAM[:length], ARROW), 400, 422)


def test_altered_streams(target: Running) -> None:
    """A byte is another one: refused, or taken for other items, which are taken out again."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        body = bytearray(STREAM)
        body[rng.integers(len(body))] = rng.integers(256)
        answer = send(target, f"{A}/search?k=1", bytes(body), ARROW)
        assert answer.status in (200, 400, 413, 422), answer.raw


LONG = pa.array(["x" * MB])
STREAM_BOMBS = {
    "zeros, packed": lambda: arrow(
        {"vector": vectors(np.zeros((1, 64 * MB), np.float32))}, compression="zstd"
    ),
    "zeros, packed by lz4": lambda: arrow(
        {"vector": vectors(np.zeros((1, 64 * MB), np.float32))}, compression="lz4"
    ),
    "rows of nothing": lambda: arrow({"n": pa.nulls(200 * MB)}),
    "vectors of nothing": lambda: arrow(
        {
            "vector": pa.FixedSizeListArray.from_buffers(
                pa.list_(pa.float32(), 0), (1 << 31) - 1, [None], children=[pa.array([], pa.float32())]
            )
        }
    ),
    "one text, often": lambda: arrow(
        {"id": np.arange(90_000), "tenant": pa.DictionaryArray.from_arrays(np.zeros(90_000, np.int32), LONG)}
    ),
    "one value, often": lambda: arrow({"tenant": pa.RunEndEncodedArray.from_arrays([1 << 30], ["x"])}),
    "a view": lambda: arrow({"tenant": pa.array(["x"], pa.string_view())}),
}


@pytest.mark.parametrize("make", STREAM_BOMBS.values(), ids=STREAM_BOMBS)
@pytest.mark.parametrize("path", ["items", "search"])
def test_bombs_of_arrow(target: Running, path: str, make: Any) -> None:
    body = make()
    if len(body) > BODY:
        pytest.skip("it is large by itself")
    with memory_below(200 * MB):
        refused(send(target, f"{A}/{path}", body, ARROW), 400, 413, 422)
