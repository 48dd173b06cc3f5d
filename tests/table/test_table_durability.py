"""What a folder promises: it comes back bit for bit, refuses what is damaged, and a failed write changes nothing."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path

import numpy as np
import pytest
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows, same_answers, same_items, same_model

import hashstream as hs
from hashstream.table import (
    Every,
    HashTable,
    Never,
    Projected,
    TableError,
    TableLocked,
    failpoints,
    folder,
    segments,
)

HASHER = hs.FCOH(n_bits=20, random_state=3, batch_size=8)


def filled(path: Path, batches: int = 5, **settings: object) -> tuple[HashTable, SlowTable]:
    """A table with some batches, removals and a partial refresh, and the model of it."""
    settings = {"policy": Never(), "reservoir_size": 8, **settings}
    table, model = HashTable.open(path, HASHER, **settings), SlowTable(HASHER)  # type: ignore[arg-type]
    rng = np.random.default_rng(5)
    for i in range(batches):
        ids = list(range(10 * i, 10 * i + 12))
        X, y = rows(rng, 12)
        table.ingest(ids, X, y)
        model.ingest(ids, X, y)
    table.remove([4, 17])
    model.remove([4, 17])
    assert table.refresh(9) == model.refresh(9)
    return table, model


def queries() -> np.ndarray:
    return rows(np.random.default_rng(9), 3)[0]


def as_if_killed(table: HashTable, path: Path, copied: Path) -> Path:
    """The files as a process that is killed now leaves them; the table itself is closed."""
    shutil.copytree(path, copied)
    table.close()
    return copied


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("durability", ["full", "fast"])
def test_opened_again_it_is_the_same_to_the_last_bit(tmp_path: Path, durability: str, closed: bool) -> None:
    table, model = filled(tmp_path / "t", durability=durability)
    path = tmp_path / "t"
    if closed:
        table.close()
    else:
        path = as_if_killed(table, path, tmp_path / "killed")
    with HashTable.open(path, durability=durability) as again:
        same_answers(again, model, queries())
        same_items(again, model)
        same_model(again, model)
        X, y = rows(np.random.default_rng(1), 9)  # and it goes on learning the same
        again.ingest(list(range(100, 109)), X, y)
        model.ingest(list(range(100, 109)), X, y)
        same_model(again, model)
        same_answers(again, model, queries())


@pytest.mark.parametrize("method", sorted(hs.methods()))
def test_every_method_comes_back(tmp_path: Path, method: str) -> None:
    """Without a seed of its own, from a crash before the first checkpoint beyond the first batch."""
    hasher = hs.methods()[method](n_bits=8)
    rng = np.random.default_rng(2)
    table = HashTable.open(tmp_path / "t", hasher, policy=Every(3))
    for i in range(5):
        X, y = rows(rng, 30)
        table.ingest(np.arange(30) + 30 * i, X, y)
    Q = queries()
    wanted, functions = table.search(Q, 20), table.hasher.decision_function(Q)
    held = table.get(np.arange(150))
    again = HashTable.open(as_if_killed(table, tmp_path / "t", tmp_path / "killed"), policy=Every(3))
    found = again.search(Q, 20)
    assert found[0].tolist() == wanted[0].tolist()
    assert found[1].tolist() == wanted[1].tolist()
    assert again.hasher.decision_function(Q).tobytes() == functions.tobytes()
    assert again.get(np.arange(150)).codes.tobytes() == held.codes.tobytes()
    assert again.get(np.arange(150)).versions.tolist() == held.versions.tolist()
    assert again.check()["rows"] == 150
    again.close()


def test_bytes_that_were_never_committed_are_cut_off(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    table.close()
    last = sorted((tmp_path / "t").glob("features-*.seg"))[-1]
    size = last.stat().st_size
    with last.open("ab") as file:
        file.write(b"half a batch")
    (tmp_path / "t" / "features-000009.seg").write_bytes(b"a segment that was begun")
    with HashTable.open(tmp_path / "t") as again:
        assert last.stat().st_size == size
        assert not (tmp_path / "t" / "features-000009.seg").exists()
        same_answers(again, model, queries())


# ---- damage


def corrupt(path: Path, at: int, bit: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1 << bit
    path.write_bytes(raw)


def opened_or_refused(path: Path, model: SlowTable, damaged: str) -> bool:
    """Whether the folder was refused, with a sentence that names the file; if it was not, nothing may be wrong."""
    try:
        with HashTable.open(path, policy=Never()) as table:
            same_answers(table, model, queries())
            same_model(table, model)
            table.get(list(model.items))
            table.check()
            same_items(table, model)
    except TableError as error:
        sentence = str(error)
    else:
        return False
    assert damaged in sentence, f"{damaged} is damaged, but the error says: {sentence}"
    return True


@pytest.mark.parametrize("name", ["manifest.sqlite", "features-000000.seg", "witness"])
def test_flipped_bits_are_refused_by_name(tmp_path: Path, name: str) -> None:
    table, model = filled(tmp_path / "t")
    table.close()
    size = (tmp_path / "t" / name).stat().st_size
    rng = np.random.default_rng(0)
    refused = 0
    tries = 20
    for i in range(tries):
        copied = tmp_path / str(i)
        shutil.copytree(tmp_path / "t", copied)
        corrupt(copied / name, int(rng.integers(size)), int(rng.integers(8)))
        refused += opened_or_refused(copied, model, name)
        shutil.rmtree(copied)
    # Much of a small manifest is free space; what is not is the next test's.
    assert refused == tries if name != "manifest.sqlite" else refused > 0


@pytest.mark.parametrize(
    ("table_name", "column"),
    [
        ("meta", "value"),
        ("batches", "y"),
        ("log", "change"),
        ("models", "hasher"),
        ("reservoir", "features"),
        ("reservoir", "label"),
        ("image", "bytes"),
    ],
)
def test_whatever_the_manifest_holds_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_name: str, column: str
) -> None:
    if table_name == "image":
        monkeypatch.setattr(folder, "LOG_ROWS", 1)
    table, model = filled(tmp_path / "t")
    table.close()
    path = tmp_path / "t" / "manifest.sqlite"
    db = sqlite3.connect(path)
    held = [value for (value,) in db.execute(f"SELECT {column} FROM {table_name}")]
    held = [value.encode() if isinstance(value, str) else value for value in held if value is not None]
    db.close()
    assert held
    raw = path.read_bytes()
    whole = max(held, key=len)
    start = whole[:48]
    at = raw.find(start)
    while at >= 0:  # rows that were deleted lie there too
        corrupt(path, at + len(start) // 2, 2)
        at = raw.find(start, at + 1)
    assert opened_or_refused(tmp_path / "t", model, "manifest.sqlite")


def test_flipped_features_are_refused_by_whoever_reads_them(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    table.close()
    corrupt(tmp_path / "t" / "features-000000.seg", segments.START + 48 * 14, 3)
    with HashTable.open(tmp_path / "t", policy=Never()) as again:
        assert again.search(queries(), 3)[0].shape == (3, 3)  # which reads no features
        for read in (again.check, again.refresh, lambda: again.get([12])):
            with pytest.raises(TableError, match=r"features-000000\.seg .*damaged"):
                read()
        assert again.get([45]).features is not None


def test_flipped_features_of_the_log_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model would be learned from them again, and batches that are not small stand in a segment only."""
    monkeypatch.setattr(folder, "SMALL_BATCH", 0)
    table, _ = filled(tmp_path / "t")
    path = as_if_killed(table, tmp_path / "t", tmp_path / "killed")
    corrupt(path / "features-000000.seg", segments.START + 48 * 40, 3)
    with pytest.raises(TableError, match=r"features-000000\.seg .*damaged"):
        HashTable.open(path)


@pytest.mark.parametrize("name", ["manifest.sqlite", "features-000000.seg", "witness"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_truncated_files_are_refused_by_name(tmp_path: Path, name: str, share: float) -> None:
    table, model = filled(tmp_path / "t")
    table.close()
    os.truncate(tmp_path / "t" / name, int(share * (tmp_path / "t" / name).stat().st_size))
    assert opened_or_refused(tmp_path / "t", model, name)


@pytest.mark.parametrize("name", ["features-000000.seg", "manifest.sqlite"])
def test_missing_files_are_refused_by_name(tmp_path: Path, name: str) -> None:
    table, _ = filled(tmp_path / "t")
    table.close()
    (tmp_path / "t" / name).unlink()
    with pytest.raises(TableError, match="is not a table yet" if name == "manifest.sqlite" else name):
        HashTable.open(tmp_path / "t")


@pytest.mark.parametrize("cut", [0.2, 0.6, 0.9])
def test_a_log_that_lost_acknowledged_commits_is_refused(tmp_path: Path, cut: float) -> None:
    """SQLite itself takes a log that ends early, or has a damaged frame, for a shorter one."""
    table, _ = filled(tmp_path / "t")
    path = as_if_killed(table, tmp_path / "t", tmp_path / "killed")
    log = path / "manifest.sqlite-wal"
    os.truncate(log, int(cut * log.stat().st_size))
    with pytest.raises(TableError, match=r"manifest\.sqlite .*damaged|is not the manifest|does not say"):
        HashTable.open(path)


def test_a_newer_format_is_refused_with_a_sentence(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    table.close()
    shutil.copytree(tmp_path / "t", tmp_path / "u")
    with sqlite3.connect(tmp_path / "t" / "manifest.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(TableError, match=r"manifest\.sqlite has format 99.*update hashstream"):
        HashTable.open(tmp_path / "t")
    segment = tmp_path / "u" / "features-000000.seg"
    raw = bytearray(segment.read_bytes())
    raw[8:12] = (7).to_bytes(4, "little")
    segment.write_bytes(raw)
    with pytest.raises(TableError, match=r"features-000000\.seg has format 7.*update hashstream"):
        HashTable.open(tmp_path / "u")


def test_files_of_another_table_are_refused(tmp_path: Path) -> None:
    for name in ("t", "u"):
        filled(tmp_path / name)[0].close()
    for name in ("features-000000.seg", "witness"):
        shutil.copytree(tmp_path / "t", tmp_path / name)
        shutil.copy(tmp_path / "u" / name, tmp_path / name / name)
        with pytest.raises(TableError, match=name):
            HashTable.open(tmp_path / name)


# ---- failing writes


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_space_in_sqlite() -> None:
    raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("segment.create", no_space),
        ("segment.write", no_space),
        ("segment.written", no_space),
        ("segment.synced", no_space),
        ("commit.before", no_space_in_sqlite),
    ],
)
def test_a_full_disk_refuses_the_batch_whole(tmp_path: Path, name: str, fails: Callable[[], None]) -> None:
    table, model = filled(tmp_path / "t", policy=Every(2), segment_bytes=1)
    model = SlowTable(HASHER)  # refreshed by the policy: only compared with itself below
    before = table.search(queries(), 60), table.stats().versions, table.hasher.projection_.tobytes()
    X, y = rows(np.random.default_rng(1), 9)
    for write in (
        lambda: table.ingest(range(20, 29), X, y),
        lambda: table.add(range(20, 29), X),
        *([lambda: table.remove([1]), table.refresh] if name == "commit.before" else []),
    ):
        with failpoints.on(name, fails), pytest.raises(TableError, match="full"):
            write()
        after = table.search(queries(), 60), table.stats().versions, table.hasher.projection_.tobytes()
        assert [part.tolist() for part in before[0]] == [part.tolist() for part in after[0]]
        assert before[1:] == after[1:]
    table.ingest(range(20, 29), X, y)  # there is room again
    assert len(table) == len(before[0][0][0])
    table.close()
    with HashTable.open(tmp_path / "t") as again:
        assert again.check()["rows"] == 5 * 12 + 9
    assert model.items == {}


def test_a_failed_call_leaves_the_policy_where_it_was(tmp_path: Path) -> None:
    X, y = rows(np.random.default_rng(1), 9)
    table = HashTable.open(tmp_path / "t", HASHER, policy=Every(2))
    table.ingest(range(9), X, y)
    with failpoints.on("segment.write", no_space), pytest.raises(TableError, match="full"):
        table.ingest(range(9, 18), X, y)
    table.add(range(20, 29), X)
    assert len(table.stats().versions) == 1
    table.ingest(range(9, 18), X, y)  # the second that moved the functions
    assert list(table.stats().versions) == [table.hasher.version_]
    table.close()


def test_labels_that_a_folder_cannot_hold_are_refused_whole(tmp_path: Path) -> None:
    X, _ = rows(np.random.default_rng(1), 3)
    with HashTable.open(tmp_path / "t", HASHER) as table:
        with pytest.raises(TypeError, match=r"y\[0\] is a tuple"):
            table.ingest([1, 2, 3], X, [(1, 2), (1, 3), (1, 2)])
        assert len(table) == 0
        assert not hasattr(table.hasher, "n_seen_")
        table.ingest([1, 2, 3], X, ["a", 2, "a"])
        assert table.get([3, 2]).labels == ["a", 2]
    with HashTable.open(tmp_path / "t") as table:
        assert table.get([3, 2]).labels == ["a", 2]


# ---- killed at a fail-point


def operations(table: HashTable) -> Iterator[Callable[[], object]]:
    """What a child does by turns."""
    rng = np.random.default_rng(5)
    for i in range(8):
        X, y = rows(rng, 12)
        yield partial(table.ingest, range(10 * i, 10 * i + 12), X, y)
        yield partial(table.remove, [10 * i + 1])
        if i % 2:
            yield table.refresh
        if i == 5:
            yield table.compact
            yield table.flush


def child(path: Path, acknowledged: Path, name: str, count: int) -> None:
    failpoints.kill_at(f"{name}:{count}")
    table = HashTable.open(path, HASHER, policy=Every(2), checkpoint_rows=20, segment_bytes=1000)
    with acknowledged.open("ab", buffering=0) as file:
        for operation in operations(table):
            operation()
            file.write(b".")


def replayed(n: int, path: Path) -> HashTable:
    """A table in which the first n operations of the child have happened, and that was never killed."""
    table = HashTable.open(path, HASHER, policy=Every(2))
    for operation in islice(operations(table), n):
        operation()
    return table


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 1) for name in failpoints.NAMES if name != "snapshot.copied"),
        *((name, 3) for name in failpoints.NAMES if name.split(".")[0] in ("segment", "commit", "refresh")),
    ],
)
@pytest.mark.skipif("fork" not in get_all_start_methods(), reason="processes cannot be forked here")
def test_killed_at_a_fail_point_nothing_acknowledged_is_lost(tmp_path: Path, name: str, count: int) -> None:
    notes = tmp_path / "acknowledged"
    notes.touch()
    process = get_context("fork").Process(target=child, args=(tmp_path / "t", notes, name, count))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL, f"the child never passed {name} {count} times"
    done = notes.stat().st_size
    Q = queries()
    with HashTable.open(tmp_path / "t", HASHER, policy=Every(2)) as again:
        again.check()
        candidates = []
        for n in (done, done + 1):  # the last one may have happened, whole
            wanted = replayed(n, tmp_path / f"never killed {n}")
            same = len(wanted) == len(again)
            same = same and wanted.stats().versions == again.stats().versions
            same = same and [a.tolist() for a in wanted.search(Q, 99)] == [
                a.tolist() for a in again.search(Q, 99)
            ]
            if same and len(wanted):
                ids = wanted.search(Q[:1], 99)[0][0]
                same = wanted.get(ids).codes.tobytes() == again.get(ids).codes.tobytes()
                same = same and wanted.hasher.projection_.tobytes() == again.hasher.projection_.tobytes()
            candidates.append(same)
            wanted.close()
        assert any(candidates)


# ---- who may open it


def test_one_writer_and_it_is_named(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    with pytest.raises(TableLocked, match=rf"process {os.getpid()} on .*, since .*mode=\"read\""):
        HashTable.open(tmp_path / "t")
    with HashTable.open(tmp_path / "t", mode="read") as reader:
        same_answers(reader, model, queries())
        with pytest.raises(TableError, match='mode="read"'):
            reader.remove([1])
    table.close()
    HashTable.open(tmp_path / "t").close()


@pytest.mark.parametrize("policy", [Never, Projected])
def test_a_reader_sees_what_was_committed_when_it_reloads(tmp_path: Path, policy: type) -> None:
    rng = np.random.default_rng(8)
    X, y = rows(rng, 20)
    table = HashTable.open(tmp_path / "t", HASHER, policy=policy())
    with HashTable.open(tmp_path / "t", mode="read") as reader:
        assert not reader.reload()
        for i in range(6):
            table.ingest(range(20 * i, 20 * i + 20), X + i, y)
            assert len(reader) == 20 * i
            if i == 2:
                table.remove([3])
                table.ingest([3], X[:1], y[:1])
                table.flush()
            if i == 4:
                table.refresh()
                table.compact()
            assert reader.reload()
            assert [a.tolist() for a in reader.search(X, 9)] == [a.tolist() for a in table.search(X, 9)]
            assert reader.get([3, 5]).codes.tolist() == table.get([3, 5]).codes.tolist()
            assert reader.stats().versions == table.stats().versions
        assert not reader.reload()
    table.close()


def test_a_snapshot_is_a_table_of_its_own(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t", segment_bytes=1000)
    table.snapshot(tmp_path / "copy")
    with pytest.raises(TableError, match="there already"):
        table.snapshot(tmp_path / "copy")
    X, y = rows(np.random.default_rng(1), 9)
    table.ingest(range(200, 209), X, y)
    with HashTable.open(tmp_path / "copy", policy=Never()) as copied:
        same_answers(copied, model, queries())
        same_items(copied, model)
        copied.check()
        copied.ingest(range(200, 209), X, y)
        assert [a.tolist() for a in copied.search(X, 9)] == [a.tolist() for a in table.search(X, 9)]
    table.close()


def test_a_table_in_memory_can_be_kept_by_a_snapshot(tmp_path: Path) -> None:
    table, model = filled(None)  # type: ignore[arg-type]
    table.snapshot(tmp_path / "t")
    with HashTable.open(tmp_path / "t", policy=Never()) as kept:
        for order, entry in enumerate(sorted(model.items.values(), key=lambda entry: entry.order)):
            entry.order = order
        same_answers(kept, model, queries())
        same_items(kept, model)
        same_model(kept, model)
        kept.check()


def test_a_folder_that_exists_needs_no_hasher_and_takes_no_other(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="needs a hasher="):
        HashTable.open(tmp_path / "t")
    with pytest.raises(TableError, match="not a table"):
        HashTable.open(tmp_path / "t", mode="read")
    filled(tmp_path / "t")[0].close()
    HashTable.open(tmp_path / "t", HASHER).close()
    with pytest.raises(TableError, match="n_bits=20, not with n_bits=21"):
        HashTable.open(tmp_path / "t", hs.FCOH(n_bits=21, random_state=3, batch_size=8))
    with pytest.raises(TableError, match="made with FCOH, not with LSH"):
        HashTable.open(tmp_path / "t", hs.LSH(n_bits=20))
    with pytest.raises(TableError, match="features are kept"):
        HashTable.open(tmp_path / "t", policy=Projected())
    with pytest.raises(TableError, match="keep_features=True"):
        HashTable.open(tmp_path / "t", keep_features=False)
    HashTable.open(tmp_path / "t").close()
