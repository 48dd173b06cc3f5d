"""Snapshots from a service: whatever the archive holds, nothing is written outside of the new folder."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.serve.fake_service import INFO, Answer, answer, as_json, fake_service, problem

import hashstream as hs
from hashstream.serve.client import sending, snapshots
from hashstream.table import TableError


def member(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"x", **more: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content) if kind == tarfile.REGTYPE else 0
    for key, value in more.items():
        setattr(info, key, value)
    return info


def archive(*members: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for one in members:
            tar.addfile(one, io.BytesIO(b"x" * one.size))
    return file.getvalue()


def tar_answer(raw: bytes) -> bytes:
    return answer(200, raw, "application/x-tar", connection="close")


def download(target: Path, *answers: Answer, retries: int = 0) -> None:
    start = as_json(INFO, connection="close")
    with fake_service(start, *answers) as service, hs.Client(service.url, retries=retries) as client:
        client.table("t").snapshot(target)


GOOD = archive(
    member("t", tarfile.DIRTYPE), member("t/a.seg"), member("t/deep/" + "b" * 150), form=tarfile.PAX_FORMAT
)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_files_are_unpacked(tmp_path: Path, form: int) -> None:
    download(tmp_path / "new" / "copy", tar_answer(archive(member("t/a"), member("t/deep/b"), form=form)))
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"new/copy/a", "new/copy/deep/b"}


def test_long_names(tmp_path: Path) -> None:
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        download(tmp_path / f"copy{form}", tar_answer(archive(member(f"t/{'b' * 150}"), form=form)))
        assert (tmp_path / f"copy{form}" / ("b" * 150)).read_bytes() == b"x"


ODD = {
    "above": archive(member("t/../../evil")),
    "above at once": archive(member("../evil")),
    "absolute": archive(member("/evil")),
    "at the top": archive(member("evil")),
    "backslash": archive(member("t/..\\evil")),
    "drive": archive(member("t/C:/evil")),
    "symbolic link": archive(member("t/evil", tarfile.SYMTYPE, linkname="/etc")),
    "hard link": archive(member("t/evil", tarfile.LNKTYPE, linkname="t/a")),
    "device": archive(member("t/evil", tarfile.CHRTYPE)),
    "pipe": archive(member("t/evil", tarfile.FIFOTYPE)),
    "twice": archive(member("t/evil"), member("t/evil")),
    "file and folder": archive(member("t/evil"), member("t/evil/inner")),
    "through a link": archive(member("t/evil", tarfile.SYMTYPE, linkname=".."), member("t/evil/inner")),
    "global header": archive(member("t/evil", tarfile.XGLTYPE)),
    "truncated": GOOD[:1200],
    "cut in a header": GOOD[:700],
    "no archive": b"hello" * 1000,
    "zip": b"PK\x03\x04" * 500,
    "more after its end": GOOD + b"x" * (1 << 22),
}


@pytest.mark.parametrize("raw", ODD.values(), ids=list(ODD))
def test_archives_that_are_refused(tmp_path: Path, raw: bytes) -> None:
    target = tmp_path / "outer" / "copy"
    target.parent.mkdir()
    with pytest.raises(TableError):
        download(target, tar_answer(raw))
    assert list(tmp_path.rglob("*")) == [target.parent], "nothing is left, inside or outside"


def test_a_long_name_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_NAMES", 1000)
    with pytest.raises(TableError, match="something else than files"):
        download(tmp_path / "copy", tar_answer(archive(member(f"t/{'b' * 2000}"))))


def test_the_number_of_files_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_MEMBERS", 2)
    with pytest.raises(TableError, match="more than 2 files"):
        download(tmp_path / "copy", tar_answer(archive(*(member(f"t/{i}") for i in range(3)))))


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_is_there_stays(tmp_path: Path, what: str) -> None:
    target = tmp_path / "copy"
    kept = target if what == "file" else target / "kept"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("mine")
    with pytest.raises(TableError, match="a snapshot needs a new folder"):
        download(target, tar_answer(GOOD))
    assert kept.read_text() == "mine"


def test_an_answer_that_breaks_off_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending.time, "sleep", lambda seconds: None)
    whole = tar_answer(GOOD)
    busy = problem("busy", 429, "being sent", retry_after="5", connection="close")
    download(tmp_path / "copy", busy, lambda to: to.sendall(whole[:-3000]), whole, retries=2)
    assert (tmp_path / "copy" / "a.seg").read_bytes() == b"x"
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="a sentence"):
        download(tmp_path / "copy", problem("scope", 403))
    with pytest.raises(TableError, match="text/html"):
        download(tmp_path / "copy", answer(200, b"", "text/html"))
    assert not list(tmp_path.iterdir())
