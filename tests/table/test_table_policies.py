"""Each policy refreshes when it says it does, and the number of versions stays bounded."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows, same_answers, same_items

import hashstream as hs
from hashstream.hashers.mutual_information import sample_mutual_information
from hashstream.hashers.serialization import encoder_digest
from hashstream.table import Eager, Every, Facts, Gated, Grown, HashTable, Lazy, Never, Partial, Projected
from hashstream.table.policies import fit_projection, parse, project_codes, signed
from hashstream.table.state.reencode import with_bits

HASHER = hs.FCOH(n_bits=16, random_state=3, batch_size=10)


def stream(n: int, seed: int = 4) -> list[tuple[list[int], np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [(list(range(10 * i, 10 * i + 10)), *rows(rng, 10)) for i in range(n)]


def test_eager_keeps_one_version() -> None:
    with HashTable.open(None, HASHER, policy=Eager()) as table:
        model = SlowTable(HASHER)
        for ids, X, y in stream(6):
            table.ingest(ids, X, y)
            model.ingest(ids, X, y)
            model.refresh()
            assert list(table.stats().versions) == [model.version]
            same_answers(table, model, X[:2])
        same_items(table, model)


def test_every_k_counts_ingests_that_moved_the_functions() -> None:
    with HashTable.open(None, HASHER, policy=Every(3)) as table:
        model = SlowTable(HASHER)
        for i, (ids, X, y) in enumerate(stream(8), start=1):
            table.ingest(ids, X, y)
            model.ingest(ids, X, y)
            table.add([1000 + i], X[:1])
            model.add([1000 + i], X[:1])
            if i % 3 == 0:
                model.refresh()
            same_answers(table, model, X[:2])
    with HashTable.open(None, hs.LSH(n_bits=16, random_state=0), policy=Every(1)) as table:
        for ids, X, y in stream(3):
            table.ingest(ids, X, y)
        assert table.stats().versions == {0: 30}  # nothing ever moved


def test_every_k_goes_on_counting_after_a_restart(tmp_path: Path) -> None:
    counts = []
    table = HashTable.open(tmp_path / "t", HASHER, policy=Every(4))
    for ids, X, y in stream(9):
        table.ingest(ids, X, y)
        counts.append(len(table.stats().versions))
        table.close()
        table = HashTable.open(tmp_path / "t", policy=Every(4))
    table.close()
    assert counts == [1, 2, 3, 1, 2, 3, 4, 1, 2]


def test_grown_bounds_the_encodings_per_row() -> None:
    with HashTable.open(None, HASHER, policy=Grown(0.5)) as table:
        model, since = SlowTable(HASHER), 0
        refreshed = []
        for i, (ids, X, y) in enumerate(stream(12)):
            before, since = 10 * i, since + 10
            table.ingest(ids, X, y)
            model.ingest(ids, X, y)
            if since >= 0.5 * before:
                model.refresh()
                refreshed.append(before)
                since = 0
            same_answers(table, model, X[:2])
        assert refreshed == [0, 10, 20, 40, 80]
        assert sum(refreshed) <= 2 * 120


def test_grown_waits_until_the_functions_have_moved() -> None:
    """Rows that move nothing count, and a move counts until it is followed."""
    facts = dict.fromkeys(("newest", "bulk", "sample"))
    still = Facts(moved=False, rows=60, items=100, memory={}, **facts)
    answer, memory = Grown(0.5).decide(still)
    assert not answer
    answer, _ = Grown(0.5).decide(replace(still, moved=True, rows=1, memory=memory))
    assert answer
    answer, memory = Grown(0.5).decide(replace(still, moved=True, rows=1))
    assert not answer
    assert Grown(0.5).decide(replace(still, memory=memory)) == (True, {})


def test_the_default_is_the_methods() -> None:
    for hasher, policy in ((HASHER, Every(100)), (hs.PosteriorHash(16), Grown(0.2))):
        with HashTable.open(None, hasher) as table:
            assert table.settings.policy == policy


def test_gated_does_what_the_rule_says() -> None:
    """The rule written out: rebuild iff mutual information on the sample has grown since the bulk was encoded."""
    policy = Gated(every=20, least=20)
    with HashTable.open(None, HASHER, policy=policy, sample_size=1000, max_versions=1000) as table:
        model = SlowTable(HASHER)
        refreshed = 0
        for i, (ids, X, y) in enumerate(stream(24), start=1):
            sample = list(model.items.values())  # the whole table is in the sample
            counts = model.counts()
            table.ingest(ids, X, y)
            model.ingest(ids, X, y)
            if i % 2 == 0 and len(sample) >= 20:
                bulk = max(counts, key=lambda version: counts[version])
                R, labels = np.array([e.x for e in sample]), [e.label for e in sample]
                gain = [
                    sample_mutual_information(hasher.transform(R), labels, n_bits=16)
                    for hasher in (model.hasher, model.of_version[bulk])
                ]
                if bulk != model.version and gain[0] > gain[1]:
                    model.refresh()
                    refreshed += 1
            assert table.stats().versions == model.counts()
        assert 0 < refreshed < 12


def test_gated_waits_for_labels() -> None:
    with HashTable.open(None, hs.LSH(n_bits=16), policy=Gated(every=1)) as table:
        X = np.random.default_rng(0).standard_normal((50, 5))
        table.ingest(np.arange(50), X)
        assert len(table) == 50


def test_lazy_refreshes_in_the_background_and_stops(tmp_path: Path) -> None:
    table = HashTable.open(tmp_path / "t", HASHER, policy=Lazy(share=1.0, piece=7))
    refresher = table._refresher
    assert refresher is not None
    thread = refresher._thread
    assert thread is not None
    batches = stream(10)
    for ids, X, y in batches:
        table.ingest(ids, X, y)
    for _ in range(500):
        if table.stats().stale == 0:
            break
        thread.join(0.02)
    assert table.stats().versions == {table.hasher.version_: 100}
    codes = table.hasher.transform(np.concatenate([X for _, X, _ in batches]))
    assert table.get(np.arange(100)).codes.tobytes() == codes.tobytes()
    assert thread.is_alive()
    table.close()
    assert not thread.is_alive()
    with HashTable.open(tmp_path / "t") as again:
        assert again.get(np.arange(100)).codes.tobytes() == codes.tobytes()


def test_lazy_tells_of_failure_and_tries_again() -> None:
    with HashTable.open(None, HASHER, policy=Lazy(share=1.0)) as table:
        batches = stream(3)
        table.ingest(*batches[0])
        refresh, failing = table.refresh, True

        def refresh_or_fail(budget: int | None = None) -> int:
            if failing:
                raise OSError("the disk is gone")
            return refresh(budget)

        table.refresh = refresh_or_fail  # type: ignore[method-assign]
        table.ingest(*batches[1])
        assert settled(lambda: table.stats().background_error == "the disk is gone")
        table.ingest(*batches[2])  # which is another matter
        assert table.stats().stale > 0
        failing = False
        assert settled(lambda: table.stats().stale == 0)
        assert settled(lambda: table.stats().background_error is None)


def settled(holds: Callable[[], bool]) -> bool:
    """Whether something comes true within ten seconds."""
    for _ in range(500):
        if holds():
            return True
        time.sleep(0.02)
    return False


def test_versions_that_labels_bring_stay_bounded() -> None:
    """They have no items until some are re-encoded, piece by piece, as `Lazy` does it."""
    with HashTable.open(None, HASHER, policy=Never(), max_versions=3) as table:
        ids, X, y = stream(1)[0]
        table.ingest(ids, X, y)
        for i in range(8):
            table.label(ids[i : i + 2], y[i : i + 2] + 1)
            assert table.refresh(1) >= 1
            assert len(table.stats().versions) <= 3
        assert table.check(50)["codes"] == 10


@pytest.mark.parametrize(
    "policy", [Never(), Every(1000), Projected(k=1000), Partial(5, k=1000), Partial(5, k=2)]
)
def test_versions_alive_stay_bounded(policy: Any) -> None:
    with HashTable.open(None, HASHER, policy=policy, max_versions=3) as table:
        for ids, X, y in stream(9):
            table.ingest(ids, X, y)
            counts = table.stats().versions
            assert len(counts) <= 3
            assert table.hasher.version_ in counts
        assert sum(counts.values()) == 90
        if policy.keeps_features:  # every code is what its version makes of the features
            got = table.get(np.arange(90))
            for version in counts:
                mine = got.versions == version
                encoder = table._state.view.encoders[version]
                assert encoder.encode(got.features[mine]).tobytes() == got.codes[mine].tobytes()


# ---- Projected


def test_the_projection_is_the_ridge_solution() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(256, size=(50, 2)).astype(np.uint8)
    B = signed(codes, 13)
    assert B.shape == (50, 14)
    assert set(np.unique(B)) == {-1.0, 1.0}
    P = rng.standard_normal((50, 13))
    M = fit_projection(B, P, 0.01)
    # at the minimum the gradient vanishes
    np.testing.assert_allclose(B.T @ (B @ M - P) + 50 * 0.01 * M, 0, atol=1e-9)
    projected = project_codes(13, M, codes)
    assert projected.tolist() == np.packbits(B @ M.astype(np.float32) > 0, axis=1).tolist()


def test_projected_keeps_no_features_and_comes_back(tmp_path: Path) -> None:
    policy = Projected(k=3)
    table = HashTable.open(tmp_path / "t", HASHER, policy=policy, sample_size=50)
    for ids, X, y in stream(7):
        table.ingest(ids, X, y)
    table.remove([3])
    assert not list((tmp_path / "t").glob("*.seg"))
    assert len(table.stats().versions) == 2
    assert table.get([5]).features is None
    held, answers = table.get(np.arange(10, 70)), table.search(X, 9)
    W = table.hasher.projection_.tobytes()
    table.close()
    with HashTable.open(tmp_path / "t", policy=Projected(k=3)) as again:
        assert again.hasher.projection_.tobytes() == W
        assert again.get(np.arange(10, 70)).codes.tobytes() == held.codes.tobytes()
        assert [a.tolist() for a in again.search(X, 9)] == [a.tolist() for a in answers]
        again.check()
        assert again.refresh() > 0
        assert again.stats().stale == 0
        assert again.compact() == 1
        assert again.get(np.arange(10, 70)).labels == held.labels


def test_projected_codes_are_nearer_to_the_new_functions_than_old_ones_are() -> None:
    """On data with classes: what the projection predicts beats leaving the codes as they were."""
    hasher = hs.HCOH(n_bits=16, random_state=0)
    batches = stream(30)
    with HashTable.open(None, hasher, policy=Projected(k=1000), max_versions=1000) as table:
        for ids, X, y in batches:
            table.ingest(ids, X, y)
        everything = np.concatenate([X for _, X, _ in batches])
        fresh = np.unpackbits(table.hasher.transform(everything), axis=1)
        stale = np.unpackbits(table.get(np.arange(300)).codes, axis=1)
        table.refresh()
        projected = np.unpackbits(table.get(np.arange(300)).codes, axis=1)
    assert (projected != fresh).mean() < (stale != fresh).mean()


# ---- Partial


def test_partial_re_encodes_the_bits_that_differ_most() -> None:
    """The rule written out: columns of the current functions for the bits that the sample says, of the old functions
    for the others. New items get the current functions, and every number names one set of functions."""
    hasher, learner = hs.HCOH(n_bits=16, random_state=3), hs.HCOH(n_bits=16, random_state=3)
    with HashTable.open(None, hasher, policy=Partial(5, k=3), max_versions=100) as table:
        items, named, W, refreshed = stream(1)[0][1][:0], {}, None, 0
        for i, (ids, X, y) in enumerate(stream(12), start=1):
            table.ingest(ids, X, y)
            learner.partial_fit(X, y)
            newest = learner.projection_
            if i % 3 == 0:
                assert W is not None
                differ = ((items @ W > 0) != (items @ newest > 0)).sum(axis=0)
                chosen = np.argsort(-differ, kind="stable")[:5]
                W = W.copy()
                W[:, chosen] = newest[:, chosen]
                refreshed += 1
                got = table.get(np.arange(len(items)))
                assert len(set(got.versions.tolist())) == 1
                assert got.codes.tobytes() == np.packbits(items @ W > 0, axis=1).tobytes()
            W = newest if W is None else W  # most items are of the first version, then of the mixed ones
            got = table.get(ids)
            assert got.codes.tobytes() == np.packbits(X @ newest > 0, axis=1).tobytes()
            assert set(got.versions.tolist()) == {table.version} == {table.hasher.version_}
            for version, encoder in table._state.view.encoders.items():
                assert named.setdefault(version, encoder_digest(encoder)) == encoder_digest(encoder)
            items = np.concatenate([items, X])
        assert refreshed == 4
        assert table.version == learner.version_ + 2 * refreshed
        assert table.check(200)["codes"] == 120
        assert table.refresh() > 0  # all bits
        assert table.get(np.arange(120)).codes.tobytes() == learner.transform(items).tobytes()


@pytest.mark.parametrize("feedback", [False, True])
def test_mixed_functions_come_back(tmp_path: Path, feedback: bool) -> None:
    """After a crash, in readers, copies and exports, and in the writer that learns on."""
    twin = HashTable.open(None, HASHER, policy=Partial(6, k=2), sample_size=50)
    table = HashTable.open(tmp_path / "t", HASHER, policy=Partial(6, k=2), sample_size=50)
    reader = HashTable.open(tmp_path / "t", mode="read")
    Q = stream(1, seed=9)[0][1]
    for i, (ids, X, y) in enumerate(stream(6)):
        for one in (table, twin):
            if feedback and i % 2:
                one.add(ids, X)
                one.label(ids, y)
            else:
                one.ingest(ids, X, y)
        reader.reload()
        with HashTable.open(copied(tmp_path / "t", tmp_path / f"killed {i}")) as killed:
            for one in (table, reader, killed):
                assert one.digest() == twin.digest()
                assert [a.tolist() for a in one.search(Q, 9)] == [a.tolist() for a in twin.search(Q, 9)]
            assert encoder_digest(killed.hasher.encoder()) == encoder_digest(twin.hasher.encoder())
            assert killed.check(100)["codes"] == 10 * i + 10
    versions, digest = table.stats().versions, table.digest()
    assert max(versions.values()) >= 50  # of mixed functions
    table.export(tmp_path / "e", features=True)
    table.snapshot(tmp_path / "copy")
    for one in (reader, table):
        one.close()
    HashTable.restore(tmp_path / "e", tmp_path / "restored").close()
    for path in ("t", "copy", "restored"):
        with HashTable.open(tmp_path / path) as again:
            assert again.settings.policy == Partial(6, k=2)
            assert (again.stats().versions, again.digest()) == (versions, digest)
            again.remove([3])
            assert again.compact() == 1
            assert again.check(100)["codes"] == 59
    twin.close()


def copied(path: Path, target: Path) -> Path:
    """What a process that is killed now would leave."""
    shutil.copytree(path, target, ignore=shutil.ignore_patterns("*-shm", "lock"))
    return target


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (Partial(4, k=2), {"max_versions": 1}),
        (Partial(4, k=2), {"sample_size": 0}),
        (Partial(16, k=2), {}),
    ],
)
def test_partial_is_every_where_it_saves_nothing(policy: Partial, settings: dict[str, Any]) -> None:
    made = []
    for one in (policy, Every(2)):
        with HashTable.open(None, HASHER, policy=one, **settings) as table:
            for ids, X, y in stream(5):
                table.ingest(ids, X, y)
            made.append((table.digest(), table.version))
    assert made[0] == made[1]


def test_numbers_after_a_name_are_its_parameters_in_order() -> None:
    assert parse("partial:16:50") == Partial(16, 50)
    assert parse("gated:0.01:200:30") == Gated(0.01, 200, 30)
    assert parse(" Lazy:0.5:1024 ") == Lazy(0.5, 1024)
    for text, says in (
        ("partial:16:x", "policy 'partial:16:x': k, after the colon, must be a whole number"),
        ("partial:16:", "policy 'partial:16:': k, after the colon, must be a whole number"),
        ("partial:16:0", "policy 'partial:16:0': k must be at least 1"),
        ("partial:16:5:3", r"policy 'partial:16:5:3': partial takes at most 2 numbers \(bits, k\)"),
        ("every:1:2", r"policy 'every:1:2': every takes at most 1 number \(k\)"),
        ("never:1:2", "policy 'never:1:2': never takes no number"),
    ):
        with pytest.raises(ValueError, match=says):
            parse(text)


def test_partial_needs_a_projection(tmp_path: Path) -> None:
    assert parse("partial:8") == Partial(8, k=100)
    for hasher, what in (
        (hs.PosteriorHash(16), "which PosteriorHash is not"),
        (hs.FCOH(16, feature_map="rbf"), "which FCOH with a feature map is not"),
    ):
        with pytest.raises(ValueError, match=what):
            HashTable.open(tmp_path / "t", hasher, policy="partial:8")
        assert not HashTable.exists(tmp_path / "t")
    HashTable.open(tmp_path / "t", hs.PosteriorHash(16)).close()
    with pytest.raises(ValueError, match="needs a method that is a projection"):
        HashTable.open(tmp_path / "t", policy=Partial())
    HashTable.open(tmp_path / "t").close()


def test_codes_of_another_kind_are_re_encoded_whole(tmp_path: Path) -> None:
    """A projection was adopted in the place of functions that are none, and then the policy was changed."""
    learned = HASHER.copy()
    batches = list(stream(3))
    for _, X, y in batches:
        learned.partial_fit(X, y)
    learned.version_ += 100
    with HashTable.open(
        tmp_path, hs.PosteriorHash(n_bits=16, width=8, random_state=0), policy="never"
    ) as table:
        for ids, X, y in batches:
            table.ingest(ids, X, y)
        table.adopt(learned, budget=0)
        assert table.version is not None
        assert table.version not in table.stats().versions
    with HashTable.open(tmp_path, policy=Partial(4, k=1)) as table:
        table.ingest(ids, X, y)
        assert list(table.stats().versions) == [table.version]
        assert table.check(100)["codes"] == len(table)
        table.ingest(ids, X, y)
        assert len(table.stats().versions) == 2  # now there is a projection to mix with


def test_bits_are_put_into_codes() -> None:
    rng = np.random.default_rng(0)
    for n_bits, b in ((1, 1), (13, 4), (16, 16), (40, 9), (70, 33)):
        bits = np.sort(rng.permutation(n_bits)[:b])
        before, found = rng.random((50, n_bits)) < 0.5, rng.random((50, b)) < 0.5
        after = before.copy()
        after[:, bits] = found
        got = with_bits(np.packbits(before, axis=1), np.packbits(found, axis=1), bits, n_bits)
        assert got.tobytes() == np.packbits(after, axis=1).tobytes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Partial(0), "bits must be at least 1"),
        (lambda: Partial(k=0), "k must be at least 1"),
        (lambda: Every(0), "k must be at least 1"),
        (lambda: Gated(theta=-1), "theta must be"),
        (lambda: Grown(0), "share must be"),
        (lambda: Lazy(share=0), "share must be"),
        (lambda: Lazy(piece=0), "piece must be"),
        (lambda: Projected(ridge=0), "ridge must be"),
    ],
)
def test_parameters_are_checked(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
