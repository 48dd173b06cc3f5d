"""Input is validated once per call."""

from __future__ import annotations

from collections import Counter
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
