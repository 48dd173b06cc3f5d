"""Downloads, from a server on this machine: only what has the pinned content gets its name."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from hashstream.datasets import DatasetError, download
from hashstream.datasets.download import Pinned

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
PINNED = Pinned("thing.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


class Server:
    """Answers every GET with `body`, announced as `length` bytes long where that is given."""

    def __init__(self) -> None:
        self.body, self.length, self.status, self.asked = gzip.compress(CONTENT), None, 200, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                self.send_response(outer.status)
                length = len(outer.body) if outer.length is None else outer.length
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/files"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


def test_a_good_file_is_kept_under_its_name_and_progress_is_told(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    content = download.fetch(server.url, PINNED, tmp_path / "new", progress=lambda *at: told.append(at))
    assert content == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["thing.gz"]
    assert download.read(tmp_path / "new" / "thing.gz", PINNED) == CONTENT
    assert server.asked == ["/files/thing.gz"]
    assert told[-1] == ("thing.gz", len(server.body), len(server.body))
    assert [at[1] for at in told] == sorted(at[1] for at in told)


def damaged(name: str) -> bytes:
    whole = gzip.compress(CONTENT)
    if name == "truncated":
        return whole[: len(whole) // 2]
    if name == "altered content":
        return gzip.compress(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]))
    if name == "altered byte":
        return whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:]
    if name == "longer":
        return gzip.compress(CONTENT + b"more")
    if name == "a bomb":
        return gzip.compress(bytes(50_000_000))
    if name == "endless":
        return bytes(PINNED.size + (2 << 20))
    return {"empty": b"", "a web page": b"<html>sign in to the hotel network</html>"}[name]


DAMAGES = [
    "truncated",
    "altered content",
    "altered byte",
    "longer",
    "a bomb",
    "endless",
    "empty",
    "a web page",
]


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused_and_removed(server: Server, tmp_path: Path, name: str) -> None:
    server.body = damaged(name)
    with pytest.raises(DatasetError, match=r"thing\.gz was refused"):
        download.fetch(server.url, PINNED, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in DAMAGES if name != "endless"])
def test_a_damaged_file_on_disk_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "thing.gz"
    path.write_bytes(damaged(name))
    with pytest.raises(DatasetError, match=r"not a complete gzip file|checksum differs"):
        download.read(path, PINNED)


def test_a_connection_that_ends_early_is_refused_even_if_what_came_is_valid(
    server: Server, tmp_path: Path
) -> None:
    server.length = len(server.body) + 1000
    with pytest.raises(DatasetError, match=r"ended after|could not be downloaded"):
        download.fetch(server.url, PINNED, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_leaves_the_good_file_that_was_there(server: Server, tmp_path: Path) -> None:
    download.fetch(server.url, PINNED, tmp_path)
    server.body = damaged("truncated")
    with pytest.raises(DatasetError):
        download.fetch(server.url, PINNED, tmp_path)
    assert download.read(tmp_path / "thing.gz", PINNED) == CONTENT


def test_an_error_of_the_server_is_told(server: Server, tmp_path: Path) -> None:
    server.status = 503
    with pytest.raises(DatasetError, match=r"could not be downloaded .*503"):
        download.fetch(server.url, PINNED, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nobody_listening_fails_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DatasetError, match=r"127\.0\.0\.1:9/thing\.gz could not be downloaded"):
        download.fetch("http://127.0.0.1:9", PINNED, tmp_path, timeout=2)
    with pytest.raises(DatasetError, match="has to begin with http"):
        download.fetch("file:///etc", PINNED, tmp_path)


def test_a_folder_that_cannot_be_made_is_told(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DatasetError, match="cannot be written to"):
        download.fetch(server.url, PINNED, tmp_path / "file" / "folder")
    assert server.asked == []


def test_two_downloads_at_once_do_not_meet(server: Server, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: download.fetch(server.url, PINNED, tmp_path), range(16)))
    assert set(results) == {CONTENT}
    assert [path.name for path in tmp_path.iterdir()] == ["thing.gz"]
    assert download.read(tmp_path / "thing.gz", PINNED) == CONTENT


def test_content_from_elsewhere_is_kept_only_if_it_is_the_pinned_one(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="thing from a friend is not thing as published"):
        download.keep(CONTENT[:-1], PINNED, tmp_path / "new", origin="a friend")
    assert not (tmp_path / "new").exists()
    assert download.keep(CONTENT, PINNED, tmp_path / "new", origin="a friend") == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["thing.gz"]
    assert download.read(tmp_path / "new" / "thing.gz", PINNED) == CONTENT
