"""Tables learn on one thread of BLAS, so what they are compared with does, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    with threadpool_limits(1, user_api="blas"):
        yield
