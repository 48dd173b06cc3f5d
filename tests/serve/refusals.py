"""Requests that are to be refused, and how: with a status, a sentence for a stranger, and as problem details."""

from __future__ import annotations

from tests.serve.forms import JSON
from tests.serve.running import Answer, Running

A = "/v1/tables/a"
MB = 1 << 20
BODY = 24 * MB
"""Bytes of a body that the services of these tests take."""


def refused(answer: Answer, *statuses: int) -> str:
    """The sentence of a refusal."""
    assert 400 <= answer.status < 500, (answer.status, answer.raw[:500])
    assert answer.headers["content-type"] == "application/problem+json"
    assert not statuses or answer.status in statuses, answer.raw[:500]
    detail: str = answer.body["detail"]
    assert " " in detail, f"not a sentence: {detail!r}"
    for foreign in ("unsized", "zip()", "Traceback", "object at 0x", "NoneType", "codec"):
        assert foreign not in detail, f"not for a stranger: {detail!r}"
    assert len(answer.raw) < 10_000
    return detail


def send(service: Running, path: str, body: str | bytes, kind: str = JSON) -> Answer:
    raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    return service.ask("POST", path, raw, headers={"Content-Type": kind})
