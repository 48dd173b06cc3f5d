"""Builds the kernels for 64-bit ARM with a cross-compiler and runs the tests of `hamming` on them in an emulator.

`make arm64` runs this file; arguments are handed on to pytest. On Debian, as root and once:

    dpkg --add-architecture arm64 && apt-get update
    apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross

The Python that is emulated, and its libraries, are unpacked into a folder (`--into`, by default a temporary one) and
installed nowhere.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "hashstream" / "_native"
TOOLS = ("qemu-aarch64", "aarch64-linux-gnu-gcc", "apt-get", "dpkg")
PYTHON = "3.11"
DEBIAN = [
    f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib",
    "libc6", "libexpat1", "zlib1g", "libssl3", "libffi8", "libbz2-1.0", "liblzma5", "libsqlite3-0", "libstdc++6",
    "libgcc-s1", "libuuid1",
]  # fmt: skip
WHEELS = [
    "numpy", "scipy", "scikit-learn", "joblib", "narwhals", "threadpoolctl", "safetensors", "pytest", "pluggy",
    "iniconfig", "packaging", "pygments", "hypothesis", "sortedcontainers",
]  # fmt: skip
PLATFORMS = [f"manylinux{version}_aarch64" for version in ("2014", "_2_17", "_2_27", "_2_28")]
TESTS = [str(ROOT / "tests" / "hamming"), "-k", "not asan"]


def run(*command: object, cwd: Path = ROOT, **variables: str) -> int:
    shown = [str(part) for part in command]
    return subprocess.run(shown, cwd=cwd, env={**os.environ, **variables}, check=False).returncode


def prepare(folder: Path) -> None:
    """Python and its libraries in `folder`, unless they are there."""
    if (folder / "done").exists():
        return
    debs, wheels = folder / "debs", folder / "wheels"
    for part in (debs, wheels, folder / "root", folder / "site"):
        part.mkdir(parents=True, exist_ok=True)
    if run("apt-get", "download", "-qq", *(f"{name}:arm64" for name in DEBIAN), cwd=debs):
        sys.exit("Debian's packages for arm64 cannot be had: see the docstring of this file")
    for deb in sorted(debs.iterdir()):
        run("dpkg", "-x", deb, folder / "root")
    platforms = [argument for name in PLATFORMS for argument in ("--platform", name)]
    limits = ("--constraint", ROOT / "constraints.txt", "--only-binary=:all:", "--no-deps")
    pip = (sys.executable, "-m", "pip", "download", "-q", "-d", wheels, "--python-version", PYTHON)
    if run(*pip, *platforms, *limits, *WHEELS):
        sys.exit("not all wheels for aarch64 can be had")
    for wheel in sorted(wheels.iterdir()):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "site")
    (folder / "done").touch()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", type=Path, help="keep what was unpacked here, for the next time")
    options, tests = parser.parse_known_args()
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        print(f"{', '.join(missing)} not found: see the docstring of {Path(__file__).name}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.into or Path(temporary)).resolve()
        prepare(folder)
        library = folder / "kernels.so"
        optimised = ("-O3", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
        if run("aarch64-linux-gnu-gcc", *optimised, *sorted(SOURCES.glob("*.c")), "-o", library, "-lm"):
            return 1
        python = ("qemu-aarch64", "-L", folder / "root", folder / "root" / "usr" / "bin" / f"python{PYTHON}")
        found = {"HASHSTREAM_NATIVE": str(library), "PYTHONPATH": f"{folder / 'site'}:{ROOT / 'src'}"}
        said = "import hashstream as hs, platform as p; print(hs.show_versions()); assert p.machine() == 'aarch64'"
        if run(*python, "-c", said, **found):
            return 1
        # Products of OpenBLAS set flags in the emulator that they do not set on a processor.
        flags = ("-o", "filterwarnings=ignore:.* encountered in matmul:RuntimeWarning")
        return run(
            *python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags, *(tests or TESTS), **found
        )


if __name__ == "__main__":
    sys.exit(main())
