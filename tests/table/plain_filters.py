"""Filters by seeds, and what they mean: a plain function over one item's values, which shares no code with the table's.

An item is a dict of field -> value, None or absent for a missing one, with "id" and "label" among them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

FIELDS: dict[str, Any] = {
    "tenant": str,
    "price": float,
    "stock": int,
    "open": bool,
    "taken": "datetime",
    "tags": list,
}
TENANTS = ["a", "b", "ß", "", "a\0", "\N{PILE OF POO}", "\ud800"]
TAGS = ["red", "green", "", "é"]
PRICES = [0.0, -0.0, 1.5, -7.25, 1e300, float("inf")]
STOCKS = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63) + 1]
START = datetime(2024, 1, 1)

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$lt": operator.lt,
    "$lte": operator.le,
    "$gt": operator.gt,
    "$gte": operator.ge,
}


# ---- values


def pick(rng: np.random.Generator, values: list[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def value(rng: np.random.Generator, name: str) -> Any:
    """One value of a field, never missing."""
    if name == "tenant":
        return pick(rng, TENANTS)
    if name == "price":
        return pick(rng, PRICES)
    if name == "stock":
        return pick(rng, STOCKS)
    if name == "open":
        return bool(rng.random() < 0.5)
    if name == "taken":
        moment = START + timedelta(days=int(rng.integers(4)))
        return moment if rng.random() < 0.5 else moment.replace(tzinfo=UTC)
    return [pick(rng, TAGS) for _ in range(rng.integers(3))]


def random_fields(rng: np.random.Generator, n: int) -> dict[str, list[Any]]:
    """Values of some fields for n items, of which some are missing."""
    chosen = [name for name in FIELDS if rng.random() < 0.7]
    return {name: [None if rng.random() < 0.3 else value(rng, name) for _ in range(n)] for name in chosen}


def random_payloads(rng: np.random.Generator, n: int) -> list[dict[str, Any] | None]:
    texts = ["", "\0", "é", "\N{PILE OF POO}", '"\\', "\ud800"]
    return [
        None if rng.random() < 0.4 else {pick(rng, texts): [int(rng.integers(9)), {"deep": pick(rng, texts)}]}
        for _ in range(n)
    ]


# ---- filters


def random_filter(
    rng: np.random.Generator, ids: list[Any], labels: list[Any], depth: int = 0
) -> dict[str, Any]:
    """A filter over all fields, "id" and "label". ids, labels : some to compare with, at least one of each."""
    found: dict[str, Any] = {}
    for _ in range(rng.integers(0 if depth else 1, 3)):
        if depth < 2 and rng.random() < 0.3:
            op = pick(rng, ["$and", "$or", "$not"])
            parts = [random_filter(rng, ids, labels, depth + 1) for _ in range(rng.integers(1, 4))]
            found[op] = parts[0] if op == "$not" else parts
            continue
        name = pick(rng, [*FIELDS, "id", "label"])
        condition = random_condition(rng, name, ids, labels)
        one = condition.get("$eq", condition)
        found[name] = one if len(condition) == 1 and rng.random() < 0.5 else condition
    return found


def operand(rng: np.random.Generator, name: str, ids: list[Any], labels: list[Any]) -> Any:
    if name == "id":
        return pick(rng, ids)
    if name == "label":
        return pick(rng, [*labels, "no label", 1.5])
    if name == "tags":
        return pick(rng, TAGS)
    if name == "stock" and rng.random() < 0.2:
        return pick(rng, [0.5, float("inf"), 2**70, -(2**64)])
    return value(rng, name)


def random_condition(
    rng: np.random.Generator, name: str, ids: list[Any], labels: list[Any], depth: int = 0
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(rng.integers(1, 3)):
        op = pick(rng, ["$eq", "$ne", *ORDERS, "$in", "$nin", "$exists", "$not"])
        if op == "$not" and depth < 2:
            found[op] = random_condition(rng, name, ids, labels, depth + 1)
        elif op == "$exists":
            found[op] = bool(rng.random() < 0.5)
        elif op in ("$in", "$nin"):
            values = [operand(rng, name, ids, labels) for _ in range(rng.integers(0, 4))]
            found[op] = values + [None] * int(rng.random() < 0.3)
        elif op in ("$eq", "$ne") and rng.random() < 0.2:
            found[op] = None
        elif op != "$not":
            found[op] = operand(rng, name, ids, labels)
    return found or {"$exists": True}


def matches(where: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    """Whether an item passes a filter, as the documentation has it."""
    return all(_entry(name, given, item) for name, given in where.items())


def _entry(name: str, given: Any, item: Mapping[str, Any]) -> bool:
    if name == "$and":
        return all(matches(one, item) for one in given)
    if name == "$or":
        return any(matches(one, item) for one in given)
    if name == "$not":
        return not matches(given, item)
    condition = given if isinstance(given, Mapping) else {"$eq": given}
    return _holds(condition, item.get(name))


def _holds(condition: Mapping[str, Any], held: Any) -> bool:
    return all(_compare(op, held, wanted) for op, wanted in condition.items())


def _compare(op: str, held: Any, wanted: Any) -> bool:
    if op == "$not":
        return not _holds(wanted, held)
    if op == "$exists":
        return (held is not None) == wanted
    if op in ("$ne", "$nin"):
        return not _compare("$eq" if op == "$ne" else "$in", held, wanted)
    if op == "$in":
        return any(_compare("$eq", held, one) for one in wanted)
    if wanted is None:
        return held is None
    if held is None:
        return False
    if isinstance(held, list):
        return any(_compare(op, text, wanted) for text in held)
    if isinstance(held, str) != isinstance(wanted, str):
        return False
    if isinstance(held, datetime):
        held, wanted = (one if one.tzinfo else one.replace(tzinfo=UTC) for one in (held, wanted))
    return bool(held == wanted if op == "$eq" else ORDERS[op](held, wanted))
