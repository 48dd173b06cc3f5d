"""`hashstream table stats`, `refresh`, `remove`, `compact`, `check`, `snapshot`: pages, sentences, exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from tests.cli_table.commands import SMALL, X, Y, in_an_empty_folder, items, table, table_of_digits  # noqa: F401 (fixtures)
from typer.testing import CliRunner

from hashstream import _machine, cli
from hashstream.table import HashTable


def test_stats_page_and_json(digits: Path) -> None:
    table("remove", "t", 3, 4)
    with HashTable.open("t", mode="read") as opened:
        found = opened.stats()
    page = table("stats", "t")
    assert "method PosteriorHash, 32 bits, has learned from 1,000 rows" in page
    assert "items 998; 2 removed or replaced ones still use space: hashstream table compact" in page
    assert (
        f"versions in use {len(found.versions)} version {found.newest_version}: 100 items (current)" in page
    )
    assert f"stale {found.stale:.1%} of the codes are of older versions" in page
    assert f"mAP as stored {found.drift.mean_average_precision:.3f}" in page
    assert f"mAP if refreshed {found.drift.fresh_mean_average_precision:.3f}" in page
    assert "settings policy Grown(share=0.2), durability full" in page
    assert "features-000000.seg" in page
    facts = json.loads(CliRunner().invoke(cli.app, ["table", "stats", "t", "--json"]).stdout)
    assert facts["n_items"] == 998
    assert facts["method"] == "PosteriorHash"
    assert facts["versions"] == {str(version): n for version, n in found.versions.items()}
    assert facts["drift"]["bit_flips"] == found.drift.bit_flips
    assert facts["files"]["table.sqlite"] > 0


def test_map_over_time() -> None:
    np.savez("rows.npz", x=X[:900], y=Y[:900])
    table("create", "t", "--bits", 32, "--method", "FCOH")
    assert "mAP over time too little data" in table("stats", "t")
    with HashTable.open("t", checkpoint_rows=200) as opened:
        said = []
        for i in range(9):
            some = slice(100 * i, 100 * i + 100)
            opened.ingest(np.arange(900)[some], X[some], Y[some])
            said.append(opened.stats().drift.mean_average_precision)
    page = table("stats", "t")
    checkpoints = [said[i] for i in (2, 4, 6, 8)]  # after the first batch, after every 200 rows
    line = page.split("mAP over time ")[1].split(" measured on")[0]
    assert line.startswith(f"{checkpoints[0]:.3f} ")
    assert f" {checkpoints[-1]:.3f} 4 checkpoints, after 300 to 900 rows" in line
    bars = line.split()[1]
    assert len(bars) == 4
    least, most = min(checkpoints), max(checkpoints)
    high = [round((one - least) / max(0.05, most - least) * 7) for one in checkpoints]
    assert bars == "".join("▁▂▃▄▅▆▇█"[i] for i in high)
    assert max(high) > 0
    facts = json.loads(CliRunner().invoke(cli.app, ["table", "stats", "t", "--json"]).stdout)
    assert facts["map_history"] == [[100 * (i + 1), said[i]] for i in (2, 4, 6, 8)]


def test_stats_say_what_cannot_be_said() -> None:
    table("create", "t")
    page = table("stats", "t")
    assert "versions in use none: the table is empty" in page
    assert "bit flips too little data: the table is empty" in page
    assert "mAP as stored too little data: 0 labelled items in the sample, 20 are needed" in page
    np.savez("few.npz", x=X[:15], y=Y[:15])
    table("ingest", "t", "few.npz")
    assert "bit flips too little data: 15 items in the sample, 20 are needed" in table("stats", "t")
    facts = json.loads(CliRunner().invoke(cli.app, ["table", "stats", "t", "--json"]).stdout)
    assert facts["drift"]["bit_flips"] is None
    assert "too little data" in facts["drift"]["reasons"]["bit_flips"]


def test_refresh(digits: Path) -> None:
    said = table("refresh", "t", "--budget", 250)
    assert "250 items re-encoded; 65.0% are still stale. Versions in use: 2 before," in said
    assert "650 items re-encoded; none is stale." in table("refresh", "t")
    assert "0 items re-encoded; none is stale" in table("refresh", "t")
    assert "stale none: every code is current" in table("stats", "t")


def test_remove_and_compact(digits: Path) -> None:
    size = sum(path.stat().st_size for path in digits.glob("features*"))
    assert "not in the table: 5000. Nothing was removed" in table("remove", "t", 1, 5000, code=2)
    assert "give what to remove" in table("remove", "t", code=2)
    assert "1 item removed, 999 left." in table("remove", "t", 1, 5000, "--missing-ok")
    np.save("gone.npy", np.arange(100, 400))
    Path("gone.txt").write_text("400\n401\n\n")
    assert "300 items removed, 699 left." in table("remove", "t", "--ids", "gone.npy")
    assert "2 items removed, 697 left." in table("remove", "t", "--ids", "gone.txt")
    before = items()
    assert set(before) == set(range(1000)) - {1} - set(range(100, 402))
    said = table("compact", "t")
    assert "303 rows dropped in" in said
    on_disk = sum(path.stat().st_size for path in digits.iterdir())
    assert f"{_machine.size(on_disk)} on disk, before" in said
    assert items() == before
    assert sum(path.stat().st_size for path in digits.glob("features*")) < 0.75 * size
    assert "Nothing to do" in table("compact", "t")
    table("create", "w")
    np.savez("words.npz", x=X[:30], y=Y[:30], ids=[str(i) for i in range(29)] + ["a b"])
    table("ingest", "w", "words.npz", "--text")
    assert "2 items removed, 28 left." in table("remove", "w", 7, "a b")


def test_check_names_what_is_damaged(digits: Path) -> None:
    said = table("check", "t", "--sample", 500)
    assert said == "OK: checksums of 4 batches (1,000 rows) match; 500 codes re-encoded and identical"
    segment = digits / "features-000000.seg"
    raw = bytearray(segment.read_bytes())
    raw[-5000] ^= 1
    segment.write_bytes(raw)
    assert "features-000000.seg" in (said := table("check", "t", code=1))
    assert "damaged" in said
    segment.write_bytes(raw[:-5000])
    assert "features-000000.seg" in table("check", "t", code=1)
    assert "nowhere does not exist" in table("check", "nowhere", code=2)


def test_snapshot(digits: Path) -> None:
    assert "Copied to copy" in table("snapshot", "t", "copy")
    assert items("copy") == items()
    said = table("snapshot", "t", "copy")
    assert "Nothing to do: copy holds a copy of t as of its last commit, 4." in said
    table("remove", "t", 3)
    said = table("snapshot", "t", "copy")
    assert "Nothing to do: copy holds a copy of t as of commit 4; t has 1 commit more." in said
    assert "For a newer one, give another folder" in said
    table("remove", "t", 4)
    assert "t has 2 commits more." in table("snapshot", "t", "copy")
    assert len(items("copy")) == 1000
    table("create", "other", *SMALL)
    assert "other exists already" in table("snapshot", "t", "other", code=2)
    assert "t exists already" in table("snapshot", "t", "t", code=2)
    with HashTable.open("copy") as copy:
        copy.remove([1, 2, 3])
        copy.remove([4])
    assert "copy exists already" in table("snapshot", "t", "copy", code=2)  # it has gone another way


def test_a_copy_that_was_written_to_is_none(digits: Path) -> None:
    """However many commits the table has had since."""
    table("snapshot", "t", "copy")
    table("snapshot", "t", "other")
    table("remove", "copy", 3)
    for one in (5, 6, 7):
        table("remove", "t", one)
    assert "copy exists already" in table("snapshot", "t", "copy", code=2)
    table("snapshot", "copy", "copy of copy")
    assert "Nothing to do" in table("snapshot", "copy", "copy of copy")
    assert "copy of copy exists already" in table("snapshot", "t", "copy of copy", code=2)
    assert "copy of copy exists already" in table("snapshot", "other", "copy of copy", code=2)
    assert "t has 3 commits more" in table("snapshot", "t", "other")
    table("compact", "t")
    assert "Nothing to do" in table("snapshot", "t", "other")
    table("check", "other")


def test_a_second_writer_is_told_who_writes(digits: Path) -> None:
    with HashTable.open("t"):
        assert f"open for writing by process {os.getpid()}" in table("ingest", "t", "first.npz", code=2)
        assert "1,000 items" in table("search", "t", "first.npz", "--first", 2)  # readers are welcome
        assert "OK: checksums of" in table("check", "t")
