"""A server that speaks as much of Elasticsearch's HTTP API as docs/elsewhere/elasticsearch.md uses.

It follows Elasticsearch's documentation of `dense_vector` with `element_type: "bit"`, and shows what the official
client sends. It says nothing about the engine itself.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from hashstream import hamming


class Requests(list[tuple[str, str, Any]]):
    """(method, path, body) of each request, and the address of the server."""

    address: str


class Handler(BaseHTTPRequestHandler):
    """Answers of one index at a time; `indices` and `requests` belong to the server."""

    protocol_version = "HTTP/1.1"
    indices: dict[str, dict[str, Any]]
    requests: Requests

    def do_PUT(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path, _, options = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        lines = [json.loads(line) for line in body.splitlines() if line]
        content = lines if path == "/_bulk" else lines[0]
        self.requests.append((self.command, self.path, content))
        parts = path.strip("/").split("/")
        if path == "/_bulk":
            assert "refresh=true" in options
            answer = self._bulk(lines)
        elif self.command == "PUT" and len(parts) == 1:
            answer = self._create(parts[0], content)
        elif parts[1:] == ["_search"]:
            answer = self._search(parts[0], content)
        else:
            raise AssertionError(f"no answer to {self.command} {self.path}")
        self._send(answer)

    def _create(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        ((field, mapping),) = body["mappings"]["properties"].items()
        assert mapping["type"] == "dense_vector"
        assert mapping["element_type"] == "bit"
        assert mapping["dims"] % 8 == 0
        assert mapping["index_options"]["type"] in ("flat", "hnsw")
        self.indices[name] = {"field": field, "dims": mapping["dims"], "items": {}}
        return {"acknowledged": True, "shards_acknowledged": True, "index": name}

    def _bulk(self, lines: list[dict[str, Any]]) -> dict[str, Any]:
        done = []
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            told = action["index"]
            index = self.indices[told["_index"]]
            index["items"][str(told["_id"])] = as_code(document[index["field"]], index["dims"])
            done.append({"index": {"_index": told["_index"], "_id": str(told["_id"]), "status": 201}})
        return {"took": 1, "errors": False, "items": done}

    def _search(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        index, knn = self.indices[name], body["knn"]
        assert knn["field"] == index["field"]
        assert knn["k"] <= knn["num_candidates"] <= 10_000
        query = as_code(knn["query_vector"], index["dims"])
        ids, codes = list(index["items"]), np.stack(list(index["items"].values()))
        far, rows = hamming.topk(query[None], codes, k=knn["k"])
        hits = [
            {"_index": name, "_id": ids[row], "_score": (index["dims"] - int(d)) / index["dims"]}
            for d, row in zip(far[0], rows[0], strict=True)
        ]
        return {"took": 1, "timed_out": False, "hits": {"max_score": hits[0]["_score"], "hits": hits}}

    def _send(self, answer: dict[str, Any]) -> None:
        raw = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("X-Elastic-Product", "Elasticsearch")  # without it the client refuses the server
        self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        pass


def as_code(text: Any, dims: int) -> np.ndarray:
    """A vector as it was sent, hexadecimal digits of two per byte: (dims / 8,) uint8."""
    assert isinstance(text, str)
    assert len(text) == dims // 4
    return np.frombuffer(bytes.fromhex(text), np.uint8)


@contextmanager
def fake_elasticsearch() -> Iterator[Requests]:
    """Requests that come in while the block runs; `.address` is where the server listens, on loopback."""
    requests = Requests()
    handler = type("Own", (Handler,), {"indices": {}, "requests": requests})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        requests.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield requests
        finally:
            server.shutdown()
            thread.join()
