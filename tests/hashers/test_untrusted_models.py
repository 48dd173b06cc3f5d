"""Model files from anybody: a digest fits any content, so what a file holds is checked when it is loaded.

`tests/fuzz/models.py` mutates files at random; here are the mutations that somebody would think of.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.fuzz.model_files import NEST, opened, sealed

import hashstream as hs
from hashstream.checks import check_hasher, class_stream, state_of
from hashstream.hashers.features import FeatureMap
from hashstream.hashers.gaussian_map import GaussianMap
from hashstream.hashers.generators import pack_generator, unpack_generator
from hashstream.hashers.serialization import encoder_from_bytes, encoder_to_bytes, from_bytes, to_bytes
from hashstream.hashers.sketch import orthogonal_rows
from hashstream.hashers.state_fields import Array, Sizes, Whole

X, Y = class_stream(n=120, d=12)
MATRIX = np.eye(4, dtype=int)[Y]


def learned(method: str, **parameters) -> hs.OnlineHasher:
    return hs.methods()[method](n_bits=6, random_state=0, **parameters).partial_fit(X[:61], Y[:61])


@pytest.fixture
def refuses(tmp_path):
    """A function that saves a model, lets `change` at its card's hasher and its tensors, and expects FormatError."""

    def check(hasher: hs.OnlineHasher, change, entry: str) -> None:
        parts = opened(to_bytes(hasher))
        change(parts.card["hasher"], parts.tensors)
        path = tmp_path / "crafted.safetensors"
        path.write_bytes(sealed(parts))
        with pytest.raises(hs.FormatError, match=r"crafted\.safetensors") as error:
            hs.load(path)
        assert entry in str(error.value)

    return check


def put(name: str, value):
    """A change that replaces an entry of the state that is no array."""
    return lambda card, tensors: card["state"].update({name: value})


def fill(name: str, value, at=...):
    """A change that writes a number into a tensor."""

    def change(card, tensors) -> None:
        tensors[f"{card['object']}.{name}"][at] = value

    return change


def replace(name: str, make):
    """A change that puts another array in place of a tensor; the card says its shape."""

    def change(card, tensors) -> None:
        full = f"{card['object']}.{name}"
        tensors[full] = np.ascontiguousarray(make(tensors[full]))
        *objects, last = name.split(".")
        holder = card["state"]
        for part in objects:
            holder = holder[part]["state"]
        holder[last]["shape"] = list(tensors[full].shape)

    return change


# ---- numbers that index memory


@pytest.mark.parametrize(
    ("method", "entry", "value"),
    [
        ("HCOH", "class_rows_", 2**40),
        ("HMOH", "class_rows_", -2),
        ("OSH", "class_rows_", 16),
        ("RidgeHash", "class_rows_", np.iinfo(np.int64).max),
        ("BSODH", "last_classes_", np.iinfo(np.int64).max),
        ("BSODH", "last_classes_", 4),
        ("BSODH", "last_classes_", -1),
        ("MIHash", "reservoir_labels_", 4),
        ("ClassifierHash", "numbers_", 4),
        ("FCOH", "class_counts_", -1),
        ("HMOH", "held_", -1),
        ("HMOH", "mistakes_", np.iinfo(np.int64).min),
        ("BSODH", "class_codes_", 5),
        ("HCOH", "codebook_", 0),
    ],
)
def test_numbers_out_of_range(refuses, method: str, entry: str, value: int) -> None:
    hasher = learned(method).partial_fit(X[61:], Y[61:])
    refuses(hasher, fill(entry, value, at=0), f"{method}.{entry}")


@pytest.mark.parametrize("filled", [-2, 3, 66, 10**6])
def test_the_fill_of_adapthash(refuses, filled: int) -> None:
    refuses(learned("AdaptHash"), put("filled_", filled), "filled_")


@pytest.mark.parametrize("waiting", [-2, 4, 2**70])
@pytest.mark.parametrize("method", ["OKH", "AdaptHash"])
def test_the_class_of_a_waiting_row(refuses, method: str, waiting: int) -> None:
    refuses(learned(method), put("waiting_class_", waiting), f"{method}.waiting_class_")


# ---- arrays that are not what the method declares


@pytest.mark.parametrize("method", sorted(hs.methods()))
def test_every_array_of_every_method(refuses, method: str) -> None:
    """Another dtype, another shape, NaN: refused for whatever array, with its name."""
    hasher = learned(method, feature_map=hs.features.RBFAnchors(9))
    arrays = [name for name, value in vars(hasher).items() if isinstance(value, np.ndarray) and value.size]
    names = [*arrays, "feature_map_.anchors_", "feature_map_.origin_", "feature_map_.mean_"]
    for name in names:
        changes = [
            replace(name, lambda array: array.astype(np.float16)),
            replace(name, lambda array: array[None]),
        ]
        if name.startswith("feature_map_") or vars(hasher)[name].dtype.kind == "f":
            changes += [fill(name, np.nan), fill(name, -np.inf, at=0)]
            changes += [replace(name, lambda array: array.astype(np.float32))]
        for change in changes:
            refuses(hasher, change, f"{method}.{name}")
        if name != "codebook_":  # which may have any number of rows
            # The number of rows may be set by the very array: then it is the next one that does not fit.
            refuses(hasher, replace(name, lambda array: np.concatenate([array, array])), method)


@pytest.mark.parametrize("method", sorted(hs.methods()))
def test_every_entry_is_needed_and_no_other(refuses, method: str) -> None:
    hasher = learned(method)
    for name in opened(to_bytes(hasher)).card["hasher"]["state"]:

        def drop(card, tensors, name=name) -> None:
            entry = card["state"].pop(name)
            if isinstance(entry, dict) and "array" in entry:
                tensors.pop(entry["array"])

        if name != "mean_rows_":  # its tensors would be left over, which is another mistake
            refuses(hasher, drop, name if name not in hasher.state_fields else "")
    refuses(hasher, put("more_", 1), f"{method}.more_")


@pytest.mark.parametrize("method", sorted(hs.methods()))
def test_hash_functions_of_one_version_encode_and_do_not_learn(method: str) -> None:
    """A table stores them without the generator."""
    hasher = learned(method)
    again = encoder_from_bytes(encoder_to_bytes(hasher.encoder()), "an encoder")
    assert np.array_equal(again.encode(X), hasher.transform(X))
    assert (again.version, again.n_bits, again.n_features) == (hasher.version_, 6, 12)
    stored = from_bytes(encoder_to_bytes(hasher.encoder()), "an encoder")
    with pytest.raises(ValueError, match="cannot learn"):
        stored.partial_fit(X, Y)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("n_bits_", 5),
        ("n_bits_", 0),
        ("n_bits_", 2**40),
        ("n_features_in_", 11),
        ("n_features_in_", -1),
        ("n_seen_", -1),
        ("n_seen_", 2**64),
        ("version_", {"float": "0x1p0"}),
        ("version_", -1),
        ("dtype_", "float16"),
        ("dtype_", "O"),
        ("dtype_", 3),
        ("rng_", None),
        ("rng_", 3),
        ("label_book_", None),
        ("feature_map_", "center"),
        ("feature_map_", {"object": "CenterUnit", "parameters": {}, "state": {}}),
        ("feature_names_in_", {"names": ["a"]}),
        ("feature_names_in_", None),
        ("projection_", {"list": []}),
        ("projection_", None),
    ],
)
def test_what_every_hasher_has(refuses, entry: str, value) -> None:
    refuses(learned("LSH"), put(entry, value), "" if entry == "n_features_in_" else entry)


def test_n_bits_of_the_parameters_is_that_of_the_state(refuses) -> None:
    refuses(learned("LSH"), lambda card, tensors: card["parameters"].update(n_bits=7), "n_bits")


@pytest.mark.parametrize(
    ("labels", "multilabel"),
    [
        ([0, 1, 2, 2], False),
        ([0, 1, 2, True], False),
        ([0, 1, 2, {"float": "nan"}], False),
        ([0, 1, 2, {"float": "inf"}], False),
        ([0, 1, 2, None], False),
        ([0, 1, 2, {"list": []}], False),
        ([0, 1, 2, {"tuple": [{"list": []}]}], False),
        ([0, 1, 2], False),
        ([0, 1, 2, 4], True),
        ([0, 1, 2, 3], None),
        ([0, 1, 2, 3], 7),
        ("abcd", False),
    ],
)
def test_label_books(refuses, labels, multilabel) -> None:
    book = {"labels": {"list": labels}, "multilabel": multilabel}
    refuses(learned("HCOH"), put("label_book_", book), "")
    refuses(hs.FCOH(6, random_state=0).partial_fit(X, Y), put("label_book_", book), "")


def test_labels_that_all_have_one_hash(refuses) -> None:
    """A dictionary of a hundred thousand of these would take minutes to fill."""
    labels = [number * (2**61 - 1) for number in range(100_000)]
    refuses(learned("LSH"), put("label_book_", {"labels": {"list": labels}, "multilabel": False}), "hash")


def test_labels_of_another_kind_than_the_reservoir(refuses) -> None:
    hasher = hs.MIHash(6, random_state=0).partial_fit(X, MATRIX)
    refuses(
        hasher,
        put("label_book_", {"labels": {"list": [0, 1, 2, 3]}, "multilabel": False}),
        "reservoir_labels_",
    )


def test_states_that_only_their_method_can_judge(refuses) -> None:
    sketch = hs.SketchHash(6, random_state=0).partial_fit(X)
    refuses(sketch, put("sketch_taken_", 1), "sketch_taken_")
    low_rank = hs.RidgeHash(6, rank=4, random_state=0).partial_fit(X, Y)
    refuses(low_rank, lambda card, tensors: card["parameters"].update(rank=None), "gram_")
    refuses(learned("RidgeHash"), lambda card, tensors: card["parameters"].update(rank=4), "gram_")
    refuses(learned("ClassifierHash"), fill("numbers_", 0), "numbers_")
    empty = replace("codebook_", lambda array: array[:0])
    refuses(hs.HCOH(6, random_state=0).partial_fit(X, Y), empty, "HCOH")

    def unplaced(card, tensors) -> None:
        fill("class_rows_", -1)(card, tensors)
        empty(card, tensors)

    refuses(hs.HCOH(6, random_state=0).partial_fit(X, Y), unplaced, "codebook_")


def test_sketches_whose_eigenvalues_overflow() -> None:
    """Finite numbers with finite products: an SVD of the infinite rows that they make would never end."""
    largest = np.sqrt(0.9 * np.finfo(float).max)
    with pytest.raises(hs.DivergenceError):
        orthogonal_rows(np.array([[largest, 0.0], [largest, 0.0]]))


@pytest.mark.parametrize(
    ("feature_map", "entry", "value"),
    [
        (hs.features.RBFAnchors(9), "width_", {"float": "0x0p+0"}),
        (hs.features.RBFAnchors(9), "width_", {"float": "nan"}),
        (GaussianMap(9), "width_", {"float": "-0x1p0"}),
        (GaussianMap(9), "mean_squared_", {"float": "inf"}),
        (GaussianMap(9), "more_", 3),
        (hs.features.CenterUnit(), "mean_", None),
    ],
)
def test_feature_maps(refuses, feature_map, entry: str, value) -> None:
    def change(card, tensors) -> None:
        inner = card["state"]["feature_map_"]["state"]
        if isinstance(old := inner.get(entry), dict) and "array" in old:
            tensors.pop(old["array"])
        inner[entry] = value

    refuses(learned("LSH", feature_map=feature_map), change, f"feature_map_.{entry}")


# ---- cards


@pytest.mark.parametrize("depth", [900, 5000, 200_000])
def test_nested_cards(refuses, depth: int) -> None:
    refuses(learned("LSH"), put("projection_", f"{NEST}{depth}"), "")


@pytest.mark.parametrize("number", ["0x1p99999", "-0x1p99999", "twelve", "", 3, None])
def test_numbers_that_no_float_holds(refuses, number) -> None:
    change = put("curvature_", {"float": number})
    refuses(learned("FCOH"), change, "")


@pytest.mark.parametrize(
    "shape", [[6, 12], [-1, 6], [2**62, 6], [12, 6, 10**30], [12.0, 6.0], "126", [72], [1] * 70 + [12, 6]]
)
def test_declared_shapes(refuses, shape) -> None:
    def change(card, tensors) -> None:
        card["state"]["projection_"]["shape"] = shape

    refuses(learned("LSH"), change, "projection_")


def test_a_tensor_is_used_once(refuses) -> None:
    """A small file whose entries all point at one tensor must not need the memory of all of them."""

    def change(card, tensors) -> None:
        card["parameters"]["init"] = {"list": [card["state"]["projection_"]] * 1000}

    refuses(learned("LSH"), change, "projection_")
    refuses(learned("LSH"), lambda card, tensors: tensors.update(more=np.zeros(3)), "more")


GENERATORS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]


@pytest.mark.parametrize("kind", GENERATORS)
def test_generators_go_on_where_they_stopped(kind) -> None:
    generator = np.random.Generator(kind(3))
    generator.integers(2**31, size=5, dtype=np.int32)
    again = unpack_generator(pack_generator(generator))
    assert np.array_equal(generator.integers(2**31, size=50), again.integers(2**31, size=50))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("PCG64", {"state": {"state": -1, "inc": 1}}),
        ("PCG64", {"state": {"state": 2**128, "inc": 1}}),
        ("PCG64", {"state": {"state": 0, "inc": 0}}),
        ("PCG64", {"state": {"state": 1}}),
        ("PCG64", {"state": 3}),
        ("PCG64", {"has_uint32": 2}),
        ("PCG64", {"uinteger": -1}),
        ("PCG64", {"uinteger": 1.5}),
        ("PCG64", {"more": 1}),
        ("PCG64DXSM", {"state": {"state": True, "inc": 1}}),
        ("MT19937", {"state": {"key": [1] * 624, "pos": 10**6}}),
        ("MT19937", {"state": {"key": [1] * 624, "pos": -1}}),
        ("MT19937", {"state": {"key": [1] * 623, "pos": 3}}),
        ("MT19937", {"state": {"key": [2**32] * 624, "pos": 3}}),
        ("MT19937", {"state": {"key": [0] * 624, "pos": 3}}),
        ("Philox", {"buffer_pos": 5}),
        ("Philox", {"buffer": [1, 2, 3]}),
        ("Philox", {"buffer": [[1], 2, 3, 4]}),
        ("SFC64", {"state": {"state": [1, 2, 3]}}),
        ("SFC64", {"bit_generator": "os"}),
        ("MT19937", {"state.pos": 0}),  # would be checked in place of the one that is used
    ],
)
def test_states_of_generators(refuses, kind: str, change) -> None:
    state = json.loads(pack_generator(np.random.Generator(getattr(np.random, kind)(3))))
    refuses(learned("LSH"), put("rng_", {"generator": json.dumps({**state, **change})}), "LSH.rng_")


# ---- parameters


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("MIHash", {"n_bins": 10**30}),
        ("MIHash", {"n_bins": 5000}),
        ("MIHash", {"reservoir_size": 2**63}),
        ("SketchHash", {"sketch_size": 10**12}),
        ("FROSH", {"sketch_size": 2**64}),
        ("RidgeHash", {"rank": 10**12}),
        ("RidgeHash", {"classes": list(range(5000))}),
        ("RidgeHash", {"classes": [[1], [2]]}),
        ("RidgeHash", {"ridge": 10**400}),
        ("FCOH_C", {"sweeps": 10**9}),
        ("FCOH", {"passes": 10**9}),
        ("FCOH", {"horizon": 10**30}),
        ("HCOH", {"batch_size": 2**64}),
        ("HCOH", {"unit_length": 3}),
        ("OSH", {"boost": "yes"}),
        ("LSH", {"init": "matrix"}),
        ("LSH", {"feature_map": hs.features.RBFAnchors(-1)}),
        ("LSH", {"feature_map": hs.features.RBFAnchors(width=0.0)}),
        ("LSH", {"feature_map": GaussianMap(width="wide")}),
        ("LSH", {"feature_map": hs.features.CenterUnit(sample="rows")}),
    ],
)
def test_parameters_are_checked_before_anything_is_allocated(tmp_path, method: str, parameters) -> None:
    name = next(iter(parameters))
    with pytest.raises(ValueError):
        hs.methods(variants=True)[method](n_bits=6, **parameters).partial_fit(X, Y)
    with pytest.raises(ValueError, match="n_anchors|width|sample" if name == "feature_map" else name):
        hs.save(hs.methods(variants=True)[method](n_bits=6, **parameters), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_parameters_of_a_file_are_checked(refuses) -> None:
    refuses(hs.MIHash(6), lambda card, tensors: card["parameters"].update(n_bins=10**30), "n_bins")
    refuses(learned("HCOH"), lambda card, tensors: card["parameters"].update(batch_size=0), "batch_size")


def test_what_was_learned_decides_after_set_params() -> None:
    """Sizes set after learning leave the codes alone, and learning goes on or says why not."""
    for method in hs.methods():
        hasher = learned(method)
        codes = hasher.transform(X)
        hasher.set_params(n_bits=11)
        assert np.array_equal(hasher.transform(X), codes)
        assert hasher.decision_function(X).shape == (len(X), 6)
        with pytest.raises(ValueError, match="call fit to start over"):
            hasher.partial_fit(X, Y)
        with pytest.raises(ValueError, match="n_bits"):
            to_bytes(hasher)
    full = hs.MIHash(6, reservoir_size=50, random_state=0).partial_fit(X, Y)
    assert len(full.set_params(reservoir_size=20).partial_fit(X, Y).reservoir_) == 50
    sketch = hs.SketchHash(6, sketch_size=60, random_state=0).partial_fit(X)
    assert np.isfinite(sketch.set_params(sketch_size=8).partial_fit(X).projection_).all()
    ridge = learned("RidgeHash")
    codes = ridge.transform(X)
    assert np.array_equal(ridge.set_params(rank=4).transform(X), codes)
    with pytest.raises(ValueError, match="rank"):
        ridge.partial_fit(X, Y)


# ---- methods and maps of other people


class Drift(hs.OnlineHasher):
    """Declares nothing: what is true of any method is checked."""

    needs_labels = False
    multilabel = True

    def __init__(self, n_bits=8, *, batch_size=50, feature_map=None, random_state=None) -> None:
        self.n_bits = n_bits
        self.batch_size = batch_size
        self.feature_map = feature_map
        self.random_state = random_state

    def _start(self, X) -> None:
        self.projection_ = self.rng_.standard_normal((X.shape[1], self.n_bits)).astype(X.dtype)
        self.pulls_ = [np.zeros(X.shape[1]), np.zeros(3, np.int16)]
        self.last_ = -1
        self.best_ = float("inf")

    def _learn(self, X, labels) -> int:
        self.projection_ = self.projection_ + X.dtype.type(0.01) * X.mean(axis=0)[:, None]
        return 1


class Declared(Drift):
    """Declares its state, and a relation of it."""

    state_fields = {"projection_": Array("d r"), "counts_": Array("C", "int32", low=0), "last_": Whole(-1)}  # noqa: RUF012

    def _start(self, X) -> None:
        super()._start(X)
        del self.pulls_, self.best_
        self.counts_ = np.zeros(0, np.int32)

    def _learn(self, X, labels) -> int:
        self.counts_ = np.zeros(len(self.label_book_), np.int32)
        return super()._learn(X, labels)

    def check_state(self) -> None:
        if self.last_ > self.n_seen_:
            raise ValueError("last_ is a row that was never seen")


class Doubled(FeatureMap):
    """Every feature twice; nothing is declared."""

    def __init__(self, sample=None) -> None:
        self.sample = sample

    def _fit(self, X, rng) -> None:
        self.scale_ = np.float32(2.0) * np.ones(2, np.float32)

    def transform(self, X):
        return np.hstack([X * self.scale_[0].astype(X.dtype), X])


@pytest.fixture
def others(monkeypatch):
    known = {**hs.methods(variants=True), "Drift": Drift, "Declared": Declared}
    monkeypatch.setattr("hashstream.hashers.registry._METHODS", known)


@pytest.mark.usefixtures("others")
def test_a_method_that_declares_nothing(refuses, tmp_path) -> None:
    check_hasher(Drift())
    hasher = Drift(random_state=0, feature_map=hs.features.RBFAnchors(5)).partial_fit(X)
    hs.save(hasher, tmp_path / "model")
    assert state_of(hs.load(tmp_path / "model")) == state_of(hasher)
    refuses(hasher, fill("projection_", np.nan, at=0), "Drift.projection_")
    refuses(hasher, replace("projection_", lambda W: W[:, :-1]), "Drift.projection_")
    refuses(hasher, replace("projection_", lambda W: W.astype(np.float16)), "Drift.projection_")
    refuses(hasher, fill("pulls_.0", np.inf, at=0), "pulls_")
    refuses(
        hasher, lambda card, tensors: tensors.pop(card["state"].pop("projection_")["array"]), "projection_"
    )


@pytest.mark.usefixtures("others")
def test_a_method_that_declares(refuses) -> None:
    hasher = Declared(random_state=0, feature_map=Doubled()).partial_fit(X.astype(np.float32), Y)
    refuses(hasher, fill("counts_", -1, at=0), "Declared.counts_")
    refuses(hasher, put("last_", 10**9), "last_")
    refuses(hasher, put("best_", 1), "Declared.best_")
    refuses(hasher, replace("projection_", lambda W: W[:12]), "(d, r) = (24, 8)")


def test_sizes_of_symbols() -> None:
    sizes = Sizes({"d": 3, "r": 2}, "float64")
    Array("d+1 K").check("weights_", np.zeros((4, 5)), sizes)
    assert sizes.known["K"] == 5
    with pytest.raises(ValueError, match=r"iterate_ must have shape \(d\+1, K\) = \(4, 5\), not \(4, 4\)"):
        Array("d+1 K").check("iterate_", np.zeros((4, 4)), sizes)
