"""Checkers are not test modules: pytest leaves them to the runner, which loads what a fixture needs."""

from __future__ import annotations

from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    is_test = collection_path.name.startswith(("test_", "conftest"))
    is_checker = collection_path.parent == Path(__file__).parent and collection_path.suffix == ".py"
    return True if is_checker and not is_test else None
