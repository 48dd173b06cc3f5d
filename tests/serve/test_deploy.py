"""The Dockerfile and the systemd unit: neither is run here, but both are parsed, and name what exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import typer.main

from hashstream.cli import app

ROOT = Path(__file__).parents[2]
DOCKERFILE, UNIT = ROOT / "Dockerfile", ROOT / "deploy" / "hashstream.service"
TIMEOUT = 60  # seconds


def instructions() -> list[tuple[str, str]]:
    """Name and arguments of each instruction, lines that are continued joined."""
    text = "\n".join(line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", text)
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line]  # type: ignore[misc]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, its FROM first."""
    found: list[list[tuple[str, str]]] = []
    for name, given in instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, given))
    return found


def last(name: str) -> str:
    """The arguments of an instruction of the image itself; the last one counts."""
    return [given for one, given in stages()[-1] if one == name][-1]


def unit() -> dict[str, list[str]]:
    """Settings of the unit, each with all of its values."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def check_arguments(words: list[str]) -> None:
    """Fails where `hashstream` would not take these arguments."""
    name, *given = words
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    command.make_context(name, given)


# ---- Dockerfile


def test_base_images_have_a_version() -> None:
    bases = [stage[0][1].split()[0] for stage in stages()]
    assert len(bases) == 2
    for base in bases:
        assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", base), base
    assert len(set(bases)) == 1  # the virtual environment of one stage runs in the other


def test_base_images_are_of_a_python_that_the_package_takes() -> None:
    minor = re.search(r"python:3\.(\d+)", DOCKERFILE.read_text())
    least = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert minor
    assert least
    assert int(minor[1]) >= int(least[1])


def test_files_are_copied_from_what_exists() -> None:
    names = [name for name, _ in instructions()]
    assert "ADD" not in names
    kept = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name, given in instructions():
        if name == "COPY" and not given.startswith("--from="):
            *sources, _ = given.split()
            for source in sources:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in kept, f"{source} is ignored"
    (copied,) = (given for name, given in stages()[-1] if name == "COPY")
    assert copied.startswith("--from=build ")


def test_nothing_that_was_compiled_here_is_sent() -> None:
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("**/")]
    assert any(fnmatch("src/hashstream/_native/_kernels.so", line) for line in ignored)


def test_the_kernels_are_compiled() -> None:
    build = " ".join(given for name, given in stages()[0] if name == "RUN")
    assert "gcc" in build
    assert "assert _native.lib" in build  # or the build fails
    assert "--no-cache-dir" in build
    assert "--constraint constraints.txt" in build
    assert "rm -rf /var/lib/apt/lists/*" in build


def test_the_image_is_not_run_by_root() -> None:
    user = last("USER").split(":")[0]
    assert user.isdigit()
    assert int(user)
    order = [name for name, _ in stages()[-1]]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert "RUN" not in order[order.index("USER") :]


def test_the_image_serves_with_tokens() -> None:
    entry, command = json.loads(last("ENTRYPOINT")), json.loads(last("CMD"))
    assert entry == ["hashstream"]
    check_arguments(command)
    assert command[1] == last("VOLUME")
    assert command[command.index("--tokens") + 1].startswith("/run/secrets/")
    assert last("EXPOSE") == command[command.index("--port") + 1]


def test_the_health_check_is_a_program() -> None:
    health = last("HEALTHCHECK")
    program, flag, code = json.loads(health[health.index("[") :])
    assert (program, flag) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    assert f"http://127.0.0.1:{last('EXPOSE')}/readyz" in code


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_hadolint() -> None:
    found = subprocess.run(["hadolint", DOCKERFILE], capture_output=True, text=True, timeout=TIMEOUT)
    assert found.returncode == 0, found.stdout


# ---- systemd


def test_the_unit_serves_with_tokens() -> None:
    (start,) = unit()["ExecStart"]
    program, *words = start.split()
    assert program.endswith("/bin/hashstream")
    check_arguments(words)
    assert words[1] == "${STATE_DIRECTORY}"
    assert words[words.index("--tokens") + 1] == "${CREDENTIALS_DIRECTORY}/tokens"
    assert unit()["LoadCredential"][0].startswith("tokens:")


@pytest.mark.parametrize(
    "setting",
    [
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "StateDirectory=hashstream",
        "KillSignal=SIGTERM",
        "CapabilityBoundingSet=",
    ],
)
def test_the_unit_is_hardened(setting: str) -> None:
    name, _, value = setting.partition("=")
    assert unit()[name] == [value]


def test_a_stop_has_time_to_finish_requests() -> None:
    from hashstream.serve.server import LONGEST_DRAIN

    assert int(unit()["TimeoutStopSec"][0]) > LONGEST_DRAIN


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    text = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text())  # one that is here
    copy.write_text(text)
    found = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert found.returncode == 0, found.stderr
    assert UNIT.name not in found.stderr, found.stderr
