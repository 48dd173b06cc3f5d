"""Requests that schemathesis makes of the OpenAPI document, sent to a service, and what is wrong with the answers."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode, checks
from tests.serve.running import Running
from tests.serve.worlds import N, X, fill

ENDLESS = "/v1/events"  # an answer that has no end: test_events.py asks for it
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@dataclass
class Tally:
    """Cases and statuses per route, and what was wrong."""

    cases: Counter[str] = field(default_factory=Counter)
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def schema_of(service: Running) -> Any:
    """The document as schemathesis has it."""
    return schemathesis.openapi.from_dict(service.get("/openapi.json").body)


def run(service: Running, cases: int, number: int = 0) -> Tally:
    """So many cases or a few more, over all routes alike, of right and of wrong requests; number : the seed.

    Some routes have few requests that differ: the others are asked again, by another seed.
    """
    schema = schema_of(service)
    schema.validate()
    operations = [found.ok() for found in schema.get_all_operations()]
    operations = [one for one in operations if one.path != ENDLESS]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    tally = Tally()
    rounds = 0
    with requests.Session() as session:
        while (left := cases - tally.cases.total()) > 0:
            each = -(-left // (len(operations) * len(modes)))
            for operation in operations:
                for mode in modes:
                    _run(service, session, operation, mode, each, 1000 * number + rounds, tally)
            rounds += 1
    return tally


def _run(
    service: Running,
    session: requests.Session,
    operation: Any,
    mode: Any,
    each: int,
    number: int,
    tally: Tally,
) -> None:
    rng = random.Random(f"{number} {operation.label} {mode}")
    route = operation.label
    counts = tally.statuses.setdefault(route, Counter())
    left = each

    def ask(case: Any) -> None:
        nonlocal left
        if left <= 0:
            return
        left -= 1
        if "t" in (case.path_parameters or {}) and rng.random() < 0.9:
            case.path_parameters["t"] = "b" if case.method == "DELETE" else "a"
            if case.path_parameters["t"] not in {served.name for served in service.service.tables}:
                fill(service, case.path_parameters["t"])
        if rng.random() < 0.6:
            _fit(case, rng)
        response = case.call(base_url=service.url, session=session, timeout=60)
        tally.cases[route] += 1
        counts[response.status_code] += 1
        kind = response.headers.get("content-type", [""])[0]
        if response.status_code >= 400 and kind != "application/problem+json":
            tally.wrong.append(f"{route}: {response.status_code} as {kind}: {response.text[:200]!r}")
        try:
            case.validate_response(response, checks=CHECKS)
        except Exception as error:  # schemathesis raises groups of its own errors
            said = " ".join(str(one) for one in getattr(error, "exceptions", [error]))
            tally.wrong.append(f"{route}: {said[:1500]}")

    strategy = operation.as_strategy(generation_mode=mode)
    settled = settings(
        max_examples=each,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    try:
        seed(number)(settled(given(case=strategy)(ask)))()
    except BaseException as error:
        if "Unsatisfiable" not in type(error).__name__ and "Unsatisfiable" not in str(error):
            raise  # nothing of this route can be wrong in this mode


def _fit(case: Any, rng: random.Random) -> None:
    """Make what was generated fit the table, here and there, so that the request gets far."""
    if case.query and "id" in case.query:
        case.query["id"] = [str(rng.randrange(N))]
    body = case.body
    if not isinstance(body, dict):
        return
    rows = rng.randrange(1, 4)
    known = [rng.randrange(2 * N) for _ in range(rows)]
    fitting: dict[str, Any] = {
        "ids": list(dict.fromkeys(known)),
        "like": [one % N for one in known],
        "vectors": X[: len(dict.fromkeys(known))].tolist(),
        "labels": [rng.choice(["cat", "dog", "bird"]) for _ in dict.fromkeys(known)],
        "where": rng.choice([None, {"tenant": "a"}, {"n": {"$lt": 30}}]),
        "k": rng.randrange(1, 20),
        "name": rng.choice(["a", "b", "c"]),
        "method": rng.choice(["FCOH", "PosteriorHash", "OKH", "RandomHyperplanes"]),
        "parameters": {},
        "fields": {},
        "payloads": None,
        "rescore": None,
        "offset": 0,
    }
    for name in body:
        if name in fitting and rng.random() < 0.95:
            body[name] = fitting[name]
    if "search" in case.path or "radius" in case.path:
        body.pop("like" if rng.random() < 0.5 else "vectors", None)
        if "like" not in body:
            body["vectors"] = fitting["vectors"]
