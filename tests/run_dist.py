"""Builds an sdist and a wheel into dist/, and tries both as a user gets them. `make dist` runs this file.

1. The sdist is built, and the wheel from the sdist. `twine check` reads their metadata. In a checkout, the sdist must
   have every file of it.
2. The wheel is installed into an empty environment, where its kernels must load.
3. The sdist is unpacked, far from any git, and installed with its tests' requirements; `--tests` says which of its
   tests are run there. Without a compiler (`CC=false`), the install works as well, and the first use warns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICK = ["tests/hamming", "tests/hashers/test_fcoh.py", "tests/test_docs.py", "-k", "not asan"]
TRY = """
import warnings, numpy as np, hashstream as hs
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    codes = hs.LSH(n_bits=32, random_state=0).fit(np.eye(64)).transform(np.eye(64))
    assert (hs.hamming.topk(codes, codes, 2).indices[:, 0] == np.arange(64)).all()
    hs.hamming.topk(codes, codes, 2)
print(hs._native.status(), len(said))
"""


def run(*command: object, cwd: Path = ROOT, **variables: str) -> str:
    """The output of a command, which must succeed."""
    print("$", *command, flush=True)
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed with {done.returncode}")
    return done.stdout


def environment(folder: Path) -> Path:
    """The Python of a new, empty environment."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def checked_out() -> list[str]:
    """The files of the checkout; none where this is not one."""
    return run("git", "ls-files").splitlines() if (ROOT / ".git").exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", nargs=argparse.REMAINDER, default=QUICK, help="arguments of pytest")
    tests = parser.parse_args().tests
    dist, limits = ROOT / "dist", ROOT / "constraints.txt"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = environment(folder / "tools")
        run(tools, "-m", "pip", "install", "--quiet", "build", "twine")
        run(tools, "-m", "build", "--outdir", dist, ROOT)
        (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
        print(run(tools, "-m", "twine", "check", "--strict", sdist, wheel))
        if "-py3-none-" not in wheel.name:
            sys.exit(f"{wheel.name} is not for every version of Python")
        python = environment(folder / "wheel")
        run(python, "-m", "pip", "install", "--quiet", "--constraint", limits, wheel)
        if (said := run(python, "-c", TRY, cwd=folder).strip()) != "C 0":
            sys.exit(f"the wheel's kernels do not serve: {said}")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (sources,) = folder.glob("hashstream-*")
        if missing := [path for path in checked_out() if not (sources / path).exists()]:
            sys.exit(f"the sdist has not all files: {missing}")
        python = environment(folder / "bare")
        run(python, "-m", "pip", "install", "--quiet", "--constraint", limits, sources, CC="false")
        said = run(python, "-c", TRY, cwd=folder).strip()
        if said != "NumPy (installed without a C compiler) 1":
            sys.exit(f"without a compiler: {said}")
        python = environment(folder / "sdist")
        run(python, "-m", "pip", "install", "--quiet", "--constraint", limits, f"{sources}[all,test]")
        print(run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cwd=sources))
    print("dist/:", *sorted(path.name for path in dist.iterdir()))


if __name__ == "__main__":
    main()
