"""Input is validated once per call."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.hashers import base, encoder
from hashstream.table import HashTable, incoming, reading


@pytest.mark.parametrize("call", ["ingest", "add", "search"])
def test_rows_are_checked_once(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    X, y = rows(np.random.default_rng(0), 40)
    calls: Counter[str] = Counter()
    with HashTable.open(None, hs.FCOH(n_bits=16, random_state=0)) as opened:
        opened.ingest(range(20), X[:20], y[:20])
        for module in (base, encoder, incoming, reading):
            for name in ("check_rows", "check_finite", "as_labels"):
                if hasattr(module, name):
                    check = getattr(module, name)

                    def counted(*args: Any, name: str = name, check: Any = check, **more: Any) -> Any:
                        calls[name] += 1
                        return check(*args, **more)

                    monkeypatch.setattr(module, name, counted)
        if call == "search":
            opened.search(X[20:].tolist())  # a list: an array of the table's dtype is not even checked
            assert calls == {"check_rows": 1}
        else:
            getattr(opened, call)(range(20, 40), X[20:], y[20:])
            assert calls["check_rows"] == calls["check_finite"] == 1
            assert calls["as_labels"] <= 2  # of an array that is one already, which is a look at its dtype


@pytest.mark.parametrize(("dtype", "in_memory"), [("float16", False), ("bfloat16", False), ("int16", True)])
def test_narrow_numbers_are_taken_as_float32(tmp_path: Path, dtype: str, in_memory: bool) -> None:
    """A table of float16, bfloat16 or integers is that of the same numbers as float32."""
    X, y = rows(np.random.default_rng(0), 60)
    of_package = dtype == "bfloat16" and pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    narrow = (8 * X).astype(of_package.bfloat16 if of_package else dtype)
    wide = narrow.astype(np.float32)
    found = []
    for name, given in (("narrow", narrow), ("wide", wide)):
        where = None if in_memory else tmp_path / name
        with HashTable.open(where, hs.FCOH(n_bits=16, random_state=0)) as opened:
            assert opened.search(given[:2]).ids.shape == (2, 0)
            opened.ingest(range(20), given[:20], y[:20])
            opened.add(range(20, 40), given[20:40])
            hits = opened.search(given, k=5)
            near = opened.search(given, k=5, rescore=10)
            found.append([opened.digest(), hits.distances, hits.ids, near.distances, near.ids])
            assert opened.hasher.dtype_ == "float32"
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
