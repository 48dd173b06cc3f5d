"""docs/serve.md is true: its examples run against a service, and its table of limits is that of the code."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from tests.serve.running import Running, running

from hashstream.serve import limits
from hashstream.serve.limits import Limits

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("tables")) as found:
        yield found


def here(text: str, service: Running) -> str:
    """An example, with the address of the service in the place of the usual one."""
    return re.sub(r"(?:localhost|127\.0\.0\.1):8000", f"{service.host}:{service.port}", text)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_examples_for_curl(service: Running, tmp_path: Path) -> None:
    answers = []
    for block in blocks("sh"):
        commands = [
            line for line in re.split(r"\n(?!\s)", block.strip()) if line.startswith(("curl", "python"))
        ]
        for command in commands:
            command = here(command, service).replace("python -c", f"{sys.executable} -c")
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            if command.startswith("curl"):
                answers.append(json.loads(done.stdout))
    created, stored, found, changed, stats, by_npy = answers
    assert (created["name"], stored, changed, stats["n_items"]) == (
        "photos",
        {"stored": 3},
        {"changed": 1},
        3,
    )
    assert sorted(found["ids"][0]) == [1, 2]
    assert found["payloads"][0][found["ids"][0].index(1)] == {"title": "first"}
    assert len(by_npy["ids"][0]) == 2


def test_example_for_python_and_then_for_javascript(service: Running) -> None:
    (code,) = blocks("python")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(here(code, service), "docs/serve.md", "exec"), {})
    count, share = said.getvalue().split()
    assert count == "1500"
    assert float(share) > 0.8
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    (script,) = blocks("js")
    done = subprocess.run(
        [node, "--input-type=module", "-e", here(script, service)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"\[ 17,", done.stdout) or "17" in done.stdout


def test_limits_are_those_of_the_code() -> None:
    assert limits_table() in PAGE


def limits_table() -> str:
    """The table of limits, from the docstrings of `Limits`."""
    (tree,) = (
        node
        for node in ast.walk(ast.parse(inspect.getsource(limits)))
        if isinstance(node, ast.ClassDef) and node.name == "Limits"
    )
    texts = {}
    for one, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            assert isinstance(after, ast.Expr)
            assert isinstance(after.value, ast.Constant)
            texts[one.target.id] = str(after.value.value).rstrip(".")
    rows = [f"| `{one.name}` | {one.default:,} | {texts[one.name]} |" for one in fields(Limits)]
    return "\n".join(["| limit | default | |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    print(limits_table())
