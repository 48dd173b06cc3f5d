"""`hashstream table export` and `import`: sentences and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from tests.cli_table.commands import X, in_an_empty_folder, items, table, table_of_digits  # noqa: F401 (fixtures)

from hashstream.table import HashTable


def test_there_and_back(digits: Path) -> None:
    said = table("export", "t", "e", "--features")
    assert "1,000 items in" in said
    with HashTable.open("t", mode="read") as opened:
        digest, versions = f"{opened.digest():016x}", len(opened.stats().versions)
    assert f"digest {digest}." in said
    assert "Nothing to do: e holds this export" in table("export", "t", "e", "--features")
    said = table("import", "e", "r")
    assert f"r: 1,000 items of {versions} versions, with features" in said
    assert f"digest {digest}, as exported" in said
    assert items("r") == items("t")
    assert "identical" in table("check", "r")


def test_without_features(digits: Path) -> None:
    table("export", "t", "e", "--part-rows", 400)
    assert len(list(Path("e").glob("part-*.parquet"))) >= 4
    assert "without features" in table("import", "e", "r")
    np.save("q.npy", X[:3])
    for name in ("t", "r"):
        assert "0" in table("search", name, "q.npy", "-k", 5, "--out", f"{name}.csv")
    assert Path("t.csv").read_text() == Path("r.csv").read_text()


def test_mistakes(digits: Path) -> None:
    assert "no is not an export" in table("import", "no", "r", code=2)
    table("export", "t", "e")
    assert "t exists already" in table("import", "e", "t", code=2)
    table("remove", "t", 3)
    assert "holds a complete export already" in table("export", "t", "e", code=2)
    assert "no does not exist" in table("export", "no", "e", code=2)
    Path("e", "part-000000.parquet").write_bytes(b"x")
    assert "part-000000.parquet is damaged" in table("import", "e", "r", code=2)
    assert not Path("r").exists()


def test_an_import_is_given_again(digits: Path) -> None:
    table("export", "t", "e")
    table("import", "e", "r")
    assert "Nothing to do: r was restored from e already" in table("import", "e", "r")
    table("remove", "r", 3)  # what it has stored since changes nothing
    table("compact", "r")
    assert "Nothing to do" in table("import", "e", "r")
    table("remove", "t", 3)
    table("export", "t", "later")
    for source, target in (("later", "r"), ("e", "t")):
        assert f"{target} exists already" in table("import", source, target, code=2)


def test_stopped_and_given_again(digits: Path) -> None:
    program = (
        "import os, signal, sys; from hashstream.table import HashTable; from hashstream.cli import app\n"
        "export = HashTable.export\n"
        "def stopped(self, *args, progress, **more):\n"
        "    def tell(step):\n"
        "        if step.rows >= 300: os.kill(os.getpid(), signal.SIGTERM)\n"
        "        progress(step)\n"
        "    return export(self, *args, progress=tell, **more)\n"
        "HashTable.export = stopped\n"
        "app(['table', 'export', 't', 'e', '--part-rows', '200'])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
    assert "The same command continues." in ended.stderr
    said = table("export", "t", "e", "--part-rows", 200)
    assert "of the items had been exported before" in said
    Path("e", "manifest.json").unlink()
    table("remove", "t", 3)
    assert "999 items" in table("export", "t", "e", "--part-rows", 200)
