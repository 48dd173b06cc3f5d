"""Arrays between client and service: files that NumPy reads, and answers that cannot be trusted."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from tests.serve.fake_service import INFO, answer, arrays, as_json, fake_service

import hashstream as hs
from hashstream.serve import npz
from hashstream.serve.npz import npy_bytes, npz_bytes, read_npz_bytes
from hashstream.table import RadiusResult, SearchResult, TableError

KINDS = st.sampled_from(["<f4", ">f8", "<i8", "|u1", "<u2", "|b1", "<U5", "|S3"])
ARRAYS = KINDS.flatmap(
    lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0))
)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@given(st.dictionaries(st.sampled_from("abcd"), ARRAYS), st.booleans())
@settings(max_examples=200, deadline=None)
def test_numpy_reads_what_is_written(named: dict[str, np.ndarray], fortran: bool) -> None:
    if fortran:
        named = {name: np.asfortranarray(array) for name, array in named.items()}
    with np.load(io.BytesIO(npz_bytes(named))) as file:
        assert set(file.files) == set(named)
        assert all(same(file[name], array) for name, array in named.items())


@given(st.dictionaries(st.sampled_from("abcd"), ARRAYS))
@settings(max_examples=200, deadline=None)
def test_what_numpy_writes_is_read(named: dict[str, np.ndarray]) -> None:
    file = io.BytesIO()
    np.savez(file, **named)  # type: ignore[arg-type]
    for raw in (file.getvalue(), npz_bytes(named)):
        found = read_npz_bytes(bytearray(raw))
        assert set(found) == set(named)
        for name, array in named.items():
            assert same(found[name], array)
            assert found[name].flags.writeable
            assert found[name].flags.aligned


def test_one_array() -> None:
    for array in (np.arange(12.0).reshape(3, 4)[:, ::2], np.asfortranarray(np.eye(3)), np.float32(3)[None]):
        assert same(np.load(io.BytesIO(npy_bytes(array))), array)


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_damaged_files_are_errors(data: st.DataObject) -> None:
    raw = bytearray(npz_bytes({"ids": np.arange(6), "json": np.array('{"a": 1}')}))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for damaged in (raw, raw[:cut], raw[cut:]):
        try:
            found = read_npz_bytes(damaged)
        except ValueError:
            continue
        assert sum(array.nbytes for array in found.values()) <= 2 * len(damaged)


@pytest.mark.parametrize("compressed", [np.savez_compressed])
def test_a_compressed_file_is_refused(compressed: Callable[..., None]) -> None:
    file = io.BytesIO()
    compressed(file, ids=np.zeros(10**6))
    with pytest.raises(ValueError, match="compressed"):
        read_npz_bytes(file.getvalue())


def test_objects_are_not_unpickled() -> None:
    file = io.BytesIO()
    np.savez(file, ids=np.array([{}], object))
    with pytest.raises(ValueError, match="Python objects"):
        read_npz_bytes(file.getvalue())


def test_a_file_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="vectors takes 8,000 bytes, too many for one request"):
        npz_bytes({"vectors": np.zeros(1000)})


# ---- answers


Q = np.zeros((2, 4), np.float32)
FAR, IDS = np.zeros((2, 3), np.uint16), np.arange(6).reshape(2, 3)


def ask(raw: bytes, call: Callable[[Any], Any]) -> Any:
    with (
        fake_service(as_json(INFO), raw, as_json(INFO)) as service,
        hs.Client(service.url, retries=0) as client,
    ):
        return call(client.table("t"))


def search(table: Any) -> Any:
    return table.search(Q, 3)


def radius(table: Any) -> Any:
    return table.search_radius(Q, 3)


def get(table: Any) -> Any:
    return table.get([4, 5])


def test_a_good_answer() -> None:
    found = ask(arrays({"labels": [[1, "a", None]] * 2}, distances=FAR, ids=IDS), search)
    assert isinstance(found, SearchResult)
    assert found.labels is not None
    assert found.labels.tolist() == [[1, "a", None]] * 2
    assert ask(arrays({"ids": [["a", "b", ""]] * 2}, distances=FAR), search).ids.dtype == object
    assert ask(arrays({"ids": [[], []]}, distances=FAR[:, :0]), search).ids.shape == (2, 0)
    near = ask(arrays({}, offsets=np.array([0, 1, 3]), distances=FAR[0], ids=IDS[0]), radius)
    assert isinstance(near, RadiusResult)


ITEMS = {"labels": [1, None], "fields": {"price": [3, None]}, "payloads": [{}, None]}
CODES: dict[str, np.ndarray] = {"codes": np.zeros((2, 8), np.uint8), "versions": np.zeros(2, np.int64)}


def test_good_items() -> None:
    found = ask(arrays(ITEMS, **CODES), get)
    assert (found.labels, found.fields, found.payloads) == ([1, None], {"price": [3, None]}, [{}, None])
    assert found.features is None


@pytest.mark.parametrize(
    ("call", "rest", "named"),
    [
        (search, {}, {"ids": IDS}),
        (search, {}, {"distances": FAR}),
        (search, {}, {"distances": FAR.astype(np.int64), "ids": IDS}),
        (search, {}, {"distances": FAR, "ids": IDS.astype(np.int32)}),
        (search, {}, {"distances": FAR[:1], "ids": IDS[:1]}),
        (search, {}, {"distances": FAR, "ids": IDS[:, :2]}),
        (search, {}, {"distances": FAR[0], "ids": IDS[0]}),
        (search, {"ids": [["a", "b"], ["c"]]}, {"distances": FAR}),
        (search, {"ids": [["a", "b", 3]] * 2}, {"distances": FAR}),
        (search, {"ids": [["a", "b", None]] * 2}, {"distances": FAR}),
        (search, {"ids": "abc"}, {"distances": FAR}),
        (search, {"labels": [[1, 2]] * 2}, {"distances": FAR, "ids": IDS}),
        (search, {"labels": [[1, {}, 2]] * 2}, {"distances": FAR, "ids": IDS}),
        (search, {"labels": [[1, [2], 2]] * 2}, {"distances": FAR, "ids": IDS}),
        (search, {"payloads": [[1, None, None]] * 2}, {"distances": FAR, "ids": IDS}),
        (search, {"fields": []}, {"distances": FAR, "ids": IDS}),
        (search, {"fields": {"price": [["x", 1, 1]] * 2}}, {"distances": FAR, "ids": IDS}),
        (search, {"fields": {"price": [[True, 1, 1]] * 2}}, {"distances": FAR, "ids": IDS}),
        (search, {"fields": {"new": [[None] * 3] * 2}}, {"distances": FAR, "ids": IDS}),
        (radius, {}, {"offsets": np.array([0, 3]), "distances": FAR[0], "ids": IDS[0]}),
        (radius, {}, {"offsets": np.array([0, 2, 1]), "distances": FAR[0], "ids": IDS[0]}),
        (radius, {}, {"offsets": np.array([-1, 2, 3]), "distances": FAR[0], "ids": IDS[0]}),
        (radius, {}, {"offsets": np.array([0, 2, 2**62]), "distances": FAR[0], "ids": IDS[0]}),
        (radius, {}, {"offsets": np.array([0, 1, 3]), "distances": FAR[0].astype(float), "ids": IDS[0]}),
        (get, ITEMS, {"codes": CODES["codes"]}),
        (get, ITEMS, {**CODES, "codes": CODES["codes"][:1]}),
        (get, {**ITEMS, "labels": [1]}, CODES),
        (get, {**ITEMS, "payloads": ["x", None]}, CODES),
        (get, {**ITEMS, "fields": None}, CODES),
        (get, ITEMS, {**CODES, "features": np.zeros((2, 4), np.int8)}),
        (lambda table: table.ids(), {}, {}),
        (lambda table: table.ids(), {"ids": 3}, {}),
        (lambda table: table.ids(), {}, {"ids": np.array(3)}),
        (lambda table: table.ids(), {"ids": [1, 2]}, {}),
    ],
)
def test_wrong_answers(call: Callable[[Any], Any], rest: Any, named: dict[str, np.ndarray]) -> None:
    with pytest.raises(TableError, match=r"^the service answered with "):
        ask(arrays(rest, **named), call)


@pytest.mark.parametrize(
    "raw",
    [
        answer(200, b"", "application/x-npz"),
        answer(200, b"PK", "application/x-npz"),
        answer(200, npy_bytes(FAR), "application/x-npz"),
        answer(200, npz_bytes({"json": np.array(["{}"])}), "application/x-npz"),
        answer(200, npz_bytes({"json": np.array("[]")}), "application/x-npz"),
        answer(200, npz_bytes({"json": np.array("{")}), "application/x-npz"),
        answer(200, npz_bytes({"json": np.array(3)}), "application/x-npz"),
        as_json({"distances": [[1]], "ids": [[1]]}),
        answer(204, b""),
    ],
)
def test_answers_without_arrays(raw: bytes) -> None:
    with pytest.raises(TableError, match=r"^the service answered with "):
        ask(raw, search)


STATS = {
    "n_items": 3, "n_slots": 3, "n_bits": 64, "versions": {"0": 3}, "newest_version": 0, "updates_behind": 0.0,
    "most_updates_behind": 0, "stale": 0.0, "n_stale": 0, "n_seen": 3, "commits": 1, "memory_bytes": 1, "n_indexed": 0,
    "index_bytes": 0,
    "feature_bytes": 1, "disk_bytes": 1, "map_history": [[3, 0.5]], "background_error": None,
    "drift": {
        "bit_flips": None, "centre_shift": None, "mean_average_precision": 0.5, "n_items": 3, "n_labelled": 3,
        "fresh_mean_average_precision": 0.5, "reasons": {"bit_flips": "too little data"},
    },
    "comparison": {"choice": "like", "like": None, "current": None, "rows": 0},
}  # fmt: skip


def test_stats() -> None:
    found = ask(as_json({**STATS, "something new": 3}), lambda table: table.stats())
    assert (found.versions, found.map_history, found.drift.n_items) == ({0: 3}, ((3, 0.5),), 3)


@pytest.mark.parametrize(
    "odd",
    [
        {"n_items": "3"}, {"n_items": True}, {"versions": {"x": 3}}, {"versions": []}, {"map_history": [3]},
        {"drift": None}, {"drift": {}}, {"comparison": {**STATS["comparison"], "choice": "other"}},  # type: ignore[dict-item]
        {"background_error": 3},
    ],
)  # fmt: skip
def test_wrong_stats(odd: dict[str, Any]) -> None:
    with pytest.raises(TableError, match=r"^the service answered with no "):
        ask(as_json({**STATS, **odd}), lambda table: table.stats())


@pytest.mark.parametrize(
    ("call", "raw"),
    [
        (lambda table: table.count(), as_json({"count": -1})),
        (lambda table: table.count(), as_json({"count": "3"})),
        (lambda table: table.label([1], [2]), as_json({"changed": None})),
        (lambda table: table.remove([1]), as_json({})),
        (lambda table: table.refresh(), answer(204, b"")),
        (lambda table: table.check(), as_json({"batches": 1, "rows": 2})),
        (lambda table: table.settings, as_json(INFO)),
        (lambda table: table.settings, as_json({**INFO, "settings": {"policy": 3}})),
        (lambda table: table.fields, as_json({**INFO, "fields": {"a": "colour"}})),
        (lambda table: table.fields, as_json({**INFO, "fields": {"a": []}})),
        (lambda table: table.info(), as_json({})),
        (lambda table: table.hasher, answer(200, b"x", "application/octet-stream")),
        (lambda table: table.hasher, answer(200, b"x", "text/plain")),
    ],
)
def test_other_wrong_answers(call: Callable[[Any], Any], raw: bytes) -> None:
    with pytest.raises(TableError, match=r"^the service answered with "):
        ask(raw, call)


def test_a_field_that_is_new_is_asked_about() -> None:
    """Another program may have declared it since."""
    found = arrays({"fields": {"new": [["2024-05-31T00:00:00"] * 3] * 2}}, distances=FAR, ids=IDS)
    now = as_json({**INFO, "fields": {"price": "int", "new": "datetime"}})
    with fake_service(as_json(INFO), found, now, found) as service, hs.Client(service.url) as client:
        table = client.table("t")
        for _ in range(2):
            assert table.search(Q, 3).fields["new"][0, 0].year == 2024  # type: ignore[index]
        assert [one.method for one in service.asked] == ["GET", "POST", "GET", "POST"]


def test_a_filter_on_a_field_that_is_new() -> None:
    now = as_json({**INFO, "fields": {"price": "int", "new": "datetime"}})
    with fake_service(as_json(INFO), now, as_json({"count": 3})) as service, hs.Client(service.url) as client:
        assert client.table("t").count({"new": {"$lt": date(2024, 5, 31)}}) == 3
        assert json.loads(service.asked[-1].body) == {"where": {"new": {"$lt": "2024-05-31"}}}


def test_a_search_is_one_request() -> None:
    with (
        fake_service(as_json(INFO), arrays({}, distances=FAR, ids=IDS)) as service,
        hs.Client(service.url) as client,
    ):
        table = client.table("t")
        table.search(Q, 3)
        table.search(Q, 3, where={"price": {"$in": list(range(10_000))}})
        (_, short, long) = service.asked
    assert short.target == "/v1/tables/t/search?k=3"
    assert short.headers["content-type"] == "application/x-npy"
    assert same(np.load(io.BytesIO(short.body)), Q)
    assert long.target == "/v1/tables/t/search"
    assert long.headers["content-type"] == "application/x-npz"
    rest = json.loads(read_npz_bytes(long.body)["json"].item())
    assert rest["where"] == {"price": {"$in": list(range(10_000))}}
    assert {one.headers["accept"] for one in (short, long)} == {"application/x-npz"}
