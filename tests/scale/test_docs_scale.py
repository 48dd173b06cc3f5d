"""docs/scale.md is true: its example runs, its table is that of the calculator, its files can be parsed."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from benchmarks import scale_sizes
from typer.main import get_command

from hashstream import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text()


@pytest.mark.usefixtures("engine")
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "docs/scale.md", "exec"), {})
    count, share = said.getvalue().split()
    assert count == "1500"
    assert float(share) > 0.8


def test_every_command_of_the_page_exists() -> None:
    """With the options that it is given."""
    commands = get_command(cli.app).commands  # type: ignore[attr-defined]
    lines = re.findall(r"^hashstream (.+?)(?:\s+#.*)?$", PAGE, flags=re.MULTILINE)
    assert len(lines) >= 8
    for line in lines:
        name, *rest = shlex.split(line)
        command = commands[name]
        if name == "cluster":
            command = command.commands[rest.pop(0)]
        known = {option for one in command.params for option in one.opts}
        assert {word for word in rest if word.startswith("-")} <= known, line


def test_the_table_is_that_of_the_calculator() -> None:
    """Otherwise run `python -m benchmarks.scale_sizes --table`."""
    table = scale_sizes.run(["--table"])
    assert f"<!-- table -->\n{table}\n<!-- end -->" in PAGE
    assert table.count("\n") == 6


def test_what_the_calculator_says() -> None:
    said = scale_sizes.run(["--items", "1e10", "--bits", "64", "--features", "512", "--qps", "100"])
    assert "10,000,000,000 items, 64 bits, 512 features, 100 queries per second" in said
    constants = json.loads(scale_sizes.FILE.read_text())
    given = {"items": 1e9, "features": 512, "qps": 100.0, "cores": 16, "memory": 64e9}
    one = scale_sizes.needs(constants, bits=64, **given)
    assert one.memory == pytest.approx(1e9 * (8 + constants["memory_bytes_beside_code"]))
    assert one.features == 1e9 * 4 * 512
    assert one.cores == pytest.approx(100 / one.qps_per_core)
    assert scale_sizes.needs(constants, bits=512, **given).cores > one.cores
    assert scale_sizes.needs(constants, bits=64, **{**given, "qps": 10_000.0}).machines > one.machines


def test_the_pods_have_the_names_that_shards_demand() -> None:
    cluster, *claims = yaml.safe_load_all((ROOT / "deploy" / "kuberay.yaml").read_text())
    spec = cluster["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    names = [next(iter(json.loads(json.loads(one["rayStartParams"]["resources"])))) for one in groups]
    assert f"--nodes {','.join(names)}" in PAGE
    used = [one["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] for one in groups]
    assert used == [claim["metadata"]["name"] for claim in claims]
    assert spec["authOptions"] == {"mode": "token"}
