"""Every fixture in the folder that HASHSTREAM_GOLDEN names, compared number by number.

A fixture is `<prefix>_<anything>.npz`, or `<prefix>.npz`. It is compared by `<prefix>.py` next to this file,
by a function that asserts:

    def check(fixture: dict[str, np.ndarray], name: str) -> None

`name` is the file's name without the ending; all settings come from the arrays. A new method adds its file
here and nothing else. A fixture without a checker is skipped, by name: it never counts as passed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
FOLDER = os.environ.get("HASHSTREAM_GOLDEN")


def fixtures() -> list:
    if not FOLDER:
        skip = pytest.mark.skip(reason="HASHSTREAM_GOLDEN is not set: it names the folder of fixtures")
        return [pytest.param(None, id="no-fixtures", marks=skip)]
    paths = sorted(Path(FOLDER).glob("*.npz"))
    return [pytest.param(path, id=path.name) for path in paths] or [
        pytest.param(Path(FOLDER), id="empty-folder")
    ]


def checker(prefix: str) -> Callable[[dict[str, np.ndarray], str], None]:
    path = HERE / f"{prefix}.py"
    if not path.exists():
        pytest.skip(f"no checker for fixtures of {prefix!r} yet")
    # Under a name of its own: `evaluate` or `trigger` may be a module of somebody else's.
    spec = importlib.util.spec_from_file_location(f"golden_{prefix}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check


@pytest.mark.parametrize("path", fixtures())
def test_golden(path: Path) -> None:
    assert path.suffix == ".npz", f"HASHSTREAM_GOLDEN names {path}, where there is no .npz file"
    check = checker(path.stem.split("_")[0])
    with np.load(path, allow_pickle=False) as file:
        fixture = {key: file[key] for key in file.files}
    check(fixture, path.stem)
