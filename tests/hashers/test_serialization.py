"""Saved hashers: whole, exact, and refused where they are not what was saved."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hashstream as hs
from hashstream.checks import class_stream, state_of
from hashstream.hashers.serialization import _digest, from_bytes, read_card, to_bytes


@pytest.fixture
def saved(tmp_path):
    X, y = class_stream()
    hasher = hs.FCOH(n_bits=10, feature_map=hs.features.RBFAnchors(15, sample=X[:60]), random_state=7)
    hasher.partial_fit(X, np.array(["a", "b", "c", "d"])[y])
    path = tmp_path / "model.safetensors"
    hs.save(hasher, path)
    return hasher, path


def rewrite(path, change) -> None:
    """The file with `change(card)` applied, and a digest that fits."""
    raw = path.read_bytes()
    tensors = read_tensors(raw)
    size = int.from_bytes(raw[:8], "little")
    card = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["card"])
    change(card)
    text = json.dumps(card, sort_keys=True)
    path.write_bytes(write_tensors(tensors, metadata={"card": text, "sha256": _digest(text, tensors)}))


def test_round_trip(saved) -> None:
    hasher, path = saved
    loaded = hs.load(path)
    assert state_of(loaded) == state_of(hasher)
    assert loaded.classes_ == ["a", "b", "c", "d"]
    assert loaded.get_params()["feature_map__n_anchors"] == 15
    X, _ = class_stream(seed=5)
    assert np.array_equal(loaded.transform(X), hasher.transform(X))


def test_card_is_for_people(saved) -> None:
    card = read_card(saved[1])
    assert card["format_version"] == 1
    assert card["hasher"]["object"] == "FCOH"
    assert card["hasher"]["parameters"]["n_bits"] == 10
    assert card["hasher"]["state"]["label_book_"]["labels"] == {"list": ["a", "b", "c", "d"]}
    assert card["libraries"]["numpy"] == np.__version__
    assert "generator" in card["hasher"]["state"]["rng_"]


def test_unfitted_and_odd_parameters(tmp_path) -> None:
    path = tmp_path / "new"
    hs.save(hs.FCOH(8, init=np.arange(24.0).reshape(3, 8), learning_rate=np.float32(0.5)), path)
    loaded = hs.load(path)
    assert not state_of(loaded)
    assert np.array_equal(loaded.init, np.arange(24.0).reshape(3, 8))
    assert loaded.learning_rate == 0.5


def test_every_truncation_is_refused(saved) -> None:
    raw = saved[1].read_bytes()
    for size in [*range(0, 200, 7), *range(200, len(raw), 97), len(raw) - 1]:
        saved[1].write_bytes(raw[:size])
        with pytest.raises(hs.FormatError):
            hs.load(saved[1])


def test_altered_files_are_refused(saved) -> None:
    """One flipped bit anywhere: an error, or, where the bit has no meaning, the very same hasher."""
    hasher, path = saved
    raw = bytearray(path.read_bytes())
    refused = 0
    for position in np.random.default_rng(0).choice(len(raw), 300, replace=False):
        raw[position] ^= 4
        path.write_bytes(raw)
        try:
            assert state_of(hs.load(path)) == state_of(hasher)
        except hs.FormatError:
            refused += 1
        raw[position] ^= 4
    assert refused >= 298


def test_other_files_are_refused(tmp_path) -> None:
    path = tmp_path / "other"
    for content in (b"", b"not a model", b"\x80\x04N.", write_tensors({"x": np.zeros(3)})):
        path.write_bytes(content)
        with pytest.raises(hs.FormatError, match="other"):
            hs.load(path)
    with pytest.raises(FileNotFoundError):
        hs.load(tmp_path / "missing")


def test_unknown_format_version(saved) -> None:
    rewrite(saved[1], lambda card: card.update(format_version=2))
    with pytest.raises(hs.FormatError, match="format version 2"):
        hs.load(saved[1])


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["hasher"].update(object="Path"),
        lambda card: card["hasher"]["state"].update(transform_="x", transform="x"),
        lambda card: card["hasher"]["state"].update(__class__="x"),
        lambda card: card["hasher"]["state"].update(classes_=["x"]),
        lambda card: card["hasher"]["parameters"].update(unknown=1),
        lambda card: card["hasher"]["state"].update(mean_={"array": "nowhere", "shape": [3]}),
        lambda card: card["hasher"]["state"].update(rng_={"generator": '{"bit_generator": "os.system"}'}),
        lambda card: card["hasher"].update(state=3),
        lambda card: card.update(hasher={"float": "0x1p0"}),
        lambda card: card.pop("hasher"),
    ],
)
def test_a_forged_card_makes_nothing_else(saved, change) -> None:
    rewrite(saved[1], change)
    with pytest.raises(hs.FormatError):
        hs.load(saved[1])


def test_what_cannot_be_saved_is_named_and_the_old_file_stays(saved) -> None:
    path = saved[1]
    before = path.read_bytes()
    X, y = class_stream()
    odd = hs.LSH(8, random_state=0).fit(X, np.array([frozenset([label]) for label in y], dtype=object))
    with pytest.raises(TypeError, match=r"label_book_.*frozenset"):
        hs.save(odd, path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_method_must_be_registered(tmp_path) -> None:
    class Mine(hs.LSH):
        pass

    with pytest.raises(TypeError, match="register"):
        hs.save(Mine(), tmp_path / "mine")
    with pytest.raises(TypeError, match="OnlineHasher"):
        hs.register(dict)
    impostor = type("LSH", (hs.LSH,), {})
    with pytest.raises(ValueError, match="already"):
        hs.register(impostor)


def test_data_frames_generators_and_byte_orders(tmp_path) -> None:
    X, y = class_stream()
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(12)])
    generator = np.random.Generator(np.random.MT19937(3))
    hasher = hs.FCOH(8, init=np.ones((12, 8), dtype=">f8"), random_state=generator).fit(frame, y)
    hs.save(hasher, tmp_path / "model")
    loaded = hs.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == hasher.feature_names_in_.tolist()
    assert np.array_equal(loaded.transform(frame), hasher.transform(frame))
    with pytest.raises(TypeError, match=r"longdouble|float128"):
        hs.save(hs.FCOH(8, init=np.ones((12, 8), dtype=np.longdouble)), tmp_path / "long")


def test_the_sample_of_a_map_is_saved_once(saved) -> None:
    hasher, path = saved
    assert hasher.feature_map_.sample is None
    assert hs.load(path).feature_map.sample.shape == (60, 12)


def test_a_saved_file_has_the_mode_of_any_file(tmp_path) -> None:
    (tmp_path / "plain").touch()
    hs.save(hs.LSH(8), tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_equal_hashers_have_equal_bytes() -> None:
    X, y = class_stream(n=200)
    written = {to_bytes(hs.RidgeHash(8, random_state=0).fit(X, y)) for _ in range(12)}
    assert len(written) == 1
    loaded = from_bytes(written.pop(), "a model")
    assert np.array_equal(loaded.transform(X), hs.RidgeHash(8, random_state=0).fit(X, y).transform(X))


@pytest.mark.parametrize("write", [hs.save, hs.export_onnx])
def test_what_is_not_a_hasher_is_refused_in_a_sentence(write, tmp_path) -> None:
    pytest.importorskip("onnx", reason="the extra hashstream[onnx] is not installed")
    pipeline = make_pipeline(StandardScaler(), hs.LSH(8))
    for given, says in (
        (3, r"hasher must be an OnlineHasher such as FCOH\(n_bits=64\), not 3"),
        (hs.FCOH, r"not the class FCOH: give a hasher made by FCOH\(\.\.\.\)"),
        (pipeline, r"not a Pipeline: give its last step, pipeline\[-1\]; the steps before it are not"),
    ):
        with pytest.raises(TypeError, match=says):
            write(given, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [hs.save, hs.export_onnx])
def test_a_path_that_cannot_be_written_is_named(write, tmp_path) -> None:
    pytest.importorskip("onnx", reason="the extra hashstream[onnx] is not installed")
    hasher = hs.LSH(8, random_state=0).fit(class_stream()[0])
    (tmp_path / "full").mkdir()
    (tmp_path / "file").touch()
    long = "n" * 240  # the temporary name is longer than a file's name may be
    for path, kind, says in (
        (tmp_path / "full", IsADirectoryError, f"{tmp_path / 'full'} is a folder: give the path of a file"),
        (tmp_path / "none" / "model", FileNotFoundError, f"there is no folder {tmp_path / 'none'}"),
        (tmp_path / "file" / "model", NotADirectoryError, f"{tmp_path / 'file'} is not a folder"),
        (tmp_path / long, OSError, f"{tmp_path / long}'"),
    ):
        with pytest.raises(kind, match=re.escape(says)) as raised:
            write(hasher, path)
        assert ".part" not in str(raised.value)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "full"]
