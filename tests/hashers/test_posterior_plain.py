"""`PosteriorHash(plain_bits=...)`: bits that learning does not change."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.model_files import opened, sealed
from tests.hashers.posterior_cases import X, Y, digits, small
from tests.hashers.test_untrusted_posterior import Change, array, without

import hashstream as hs
from hashstream.checks import check_hasher, class_stream, state_of
from hashstream.hashers.serialization import encoder_to_bytes, from_bytes, to_bytes


def bits(hasher: hs.OnlineHasher, rows: np.ndarray) -> np.ndarray:
    return np.unpackbits(hasher.transform(rows), axis=1, count=hasher.n_bits_)


@pytest.mark.parametrize(("n_bits", "plain_bits"), [(16, 12), (13, 5), (2, 1)])
def test_contract(n_bits: int, plain_bits: int) -> None:
    check_hasher(small(n_bits=n_bits, plain_bits=plain_bits))


def test_none_is_the_default() -> None:
    hasher, same = (small(**some).partial_fit(X[:1200], Y[:1200]) for some in ({}, {"plain_bits": 0}))
    assert state_of(hasher) == state_of(same)
    assert not hasattr(hasher, "plain_")


@pytest.mark.thinned("values")
@pytest.mark.parametrize("settings", [{}, {"sample": X[:300]}, {"feature_map": "center"}], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plain_bits_stay_and_the_others_are_those_of_a_shorter_code(dtype, settings: dict) -> None:
    """In both stages, and when the stream changes all at once; saved or not."""
    rows = X.astype(dtype)
    hasher = small(n_bits=21, plain_bits=8, **settings).started(rows[:100])
    shorter = small(n_bits=13, **settings).started(rows[:100])
    some = rows[::8]
    untrained = bits(hasher, some)
    for start in range(0, 3000, 300):
        part = slice(start, start + 300)
        moved = rows[part] if start < 2000 else np.roll(rows[part], 3, axis=1)
        for one in (hasher, shorter):
            one.partial_fit(moved, Y[part])
        assert np.array_equal(bits(hasher, some)[:, 13:], untrained[:, 13:])
        assert np.array_equal(
            hasher.decision_function(some)[:, :13], shorter.decision_function(some), equal_nan=True
        )
        loaded = from_bytes(to_bytes(hasher), "bytes")
        assert state_of(loaded) == state_of(hasher)
        frozen = from_bytes(encoder_to_bytes(hasher.encoder()), "bytes")
        assert np.array_equal(frozen.transform(some), hasher.transform(some))
        hasher = loaded
    assert hasher.codewords_.shape == (4, 13)
    assert hasher.changes_ == 1


def test_the_projection_is_centred_by_the_first_rows() -> None:
    """So that codes tell rows apart that are far from 0, before and after learning."""
    far = X[:500] + 50
    hasher = small(plain_bits=8).started(far[:100])
    np.testing.assert_allclose(hasher.plain_origin_, far[:100].mean(axis=0))
    assert 0.2 < bits(hasher, far).mean(axis=0).min() <= bits(hasher, far).mean(axis=0).max() < 0.8
    assert not small(plain_bits=8).started(far[:19]).plain_origin_.any()
    sampled = small(plain_bits=8, sample=far[100:200]).started(far[:1])
    np.testing.assert_allclose(sampled.plain_origin_, far[100:200].mean(axis=0))


def test_values_are_as_large_as_those_of_unsure_rows() -> None:
    """Asymmetric search weighs bits by |f|: no part of the code drowns the other."""
    rows, y = digits()
    hasher = small(n_bits=32, plain_bits=16, width=128).partial_fit(rows[:1500] * 1000, y[:1500])
    sizes = np.abs(hasher.decision_function(rows[1500:] * 1000))
    assert sizes[:, 16:].max() <= 1
    assert 0.35 < sizes[:, 16:].mean() < 0.65
    assert 0.3 < sizes[:, 16:].mean() / sizes[:, :16].mean() < 1


def test_few_labels() -> None:
    """The first labels make no search worse, as they do without plain bits."""
    rows, y = digits()

    def precision(hasher: hs.OnlineHasher) -> float:
        codes, asked = hasher.transform(rows[:1200]), hasher.transform(rows[1200:])
        return hs.evaluate.retrieval(asked, y[1200:], codes, y[:1200])["precision@10"]

    full, mixed = (small(n_bits=64, plain_bits=p).started(rows[:1200]) for p in (0, 48))
    untrained = precision(mixed)
    for start in range(0, 20, 10):
        for hasher in (full, mixed):
            hasher.partial_fit(rows[start : start + 10], y[start : start + 10])
        assert precision(mixed) > untrained - 0.05 > precision(full) + 0.1
    mixed.partial_fit(rows[20:500], y[20:500])
    assert precision(mixed) > untrained + 0.03


def test_merged() -> None:
    one, other = (small(n_bits=16, plain_bits=9, random_state=seed) for seed in (0, 1))
    one.partial_fit(X[:300], Y[:300])
    other.partial_fit(X[300:600], Y[300:600])
    plain = bits(one, X)[:, 7:]
    assert np.array_equal(bits(one.merge(other), X)[:, 7:], plain)
    with pytest.raises(ValueError, match="plain_bits is 9 here and 0 in the other"):
        one.merge(small(n_bits=16).partial_fit(X[:300], Y[:300]))


def test_labels_taken_back() -> None:
    hasher = small(n_bits=16, plain_bits=9).started(X[:200])
    learned = hasher.learned(X[:50], Y[:50])
    back = learned.relabelled(X[:50], Y[:50], np.full(50, np.nan))
    assert np.array_equal(back.transform(X), hasher.transform(X))


def test_in_a_table() -> None:
    rows, y = digits()
    hasher = hs.PosteriorHash(30, plain_bits=11, width=32, random_state=0)
    with hs.HashTable.open(None, hasher=hasher) as table:
        table.ingest(range(300), rows[:300])
        before = np.unpackbits(table.get(range(300)).codes, axis=1, count=30)
        table.label(range(100), y[:100])
        table.refresh()
        after = np.unpackbits(table.get(range(300)).codes, axis=1, count=30)
        assert np.array_equal(before[:, 19:], after[:, 19:])
        assert not np.array_equal(before[:, :19], after[:, :19])
        for asymmetric in (False, True):
            assert table.search(rows[:5], 3, asymmetric=asymmetric).ids.shape == (5, 3)


@pytest.mark.parametrize("value", [-1, 8, 9, 1.5, None, True, "all"])
def test_parameter(value) -> None:
    with pytest.raises(ValueError, match="plain_bits must be"):
        hs.PosteriorHash(8, plain_bits=value).partial_fit(X[:10], Y[:10])


def test_it_cannot_change_later() -> None:
    hasher = small(plain_bits=4).partial_fit(X[:30], Y[:30])
    before = state_of(hasher)
    hasher.plain_bits = 5
    with pytest.raises(ValueError, match="plain_bits is 5 now, but this model was fitted with 4"):
        hasher.partial_fit(X[:30], Y[:30])
    assert state_of(hasher) == before


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("plain_ must have 7 columns", array(plain_=lambda W: W[:, :6])),
        ("plain_ has numbers above", array(plain_=lambda W: W * 1e9)),
        ("plain_ contains NaN", array(plain_=lambda W: W * np.nan)),
        ("plain_", array(plain_=lambda W: W[:-1])),
        ("plain_origin_", array(plain_origin_=lambda o: o[:-1])),
        ("must be there with plain_bits", without("plain_")),
        ("must be there with plain_bits", without("plain_origin_")),
        ("function_codewords_ must have 9 columns",
         array(function_codewords_=lambda T: T[:, :8], dither_=lambda D: D[:, :8], dither_offsets_=lambda o: o[:8])),
        ("dither_", array(function_codewords_=lambda T: T[:, :8])),
    ],
)  # fmt: skip
def test_untrusted(words: str, change: Change) -> None:
    """Of hash functions alone, as a table stores them."""
    rows, y = class_stream(60)
    hasher = small(n_bits=16, plain_bits=7).partial_fit(rows, y)
    parts = opened(encoder_to_bytes(hasher.encoder()))
    change(parts)
    with pytest.raises(hs.FormatError, match=words):
        from_bytes(sealed(parts), "forged")


def test_untrusted_codewords() -> None:
    parts = opened(to_bytes(small(n_bits=16, plain_bits=7).partial_fit(X[:60], Y[:60])))
    array(codewords_=lambda T: T[:, :8])(parts)
    with pytest.raises(hs.FormatError, match="codewords_ must have shape"):
        from_bytes(sealed(parts), "forged")


def test_plain_bits_that_nobody_asked_for_are_refused() -> None:
    parts = opened(to_bytes(small(n_bits=16).partial_fit(X[:60], Y[:60])))
    parts.card["hasher"]["parameters"]["plain_bits"] = 4
    with pytest.raises(hs.FormatError, match="must be there with plain_bits"):
        from_bytes(sealed(parts), "forged")
