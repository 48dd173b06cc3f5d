"""Builds the kernels with AddressSanitizer and UndefinedBehaviorSanitizer and runs their tests on that build.

`make asan` runs this file; arguments are handed on to pytest. The library is built into a temporary folder
and found through `HASHSTREAM_NATIVE`, so the installed one stays as it is. `problem()` says why this cannot
be done here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "hashstream" / "_native"
TESTS = [str(ROOT / "tests" / "hamming"), str(ROOT / "tests" / "hashers"), "-k", "hamming or kernel"]
FLAGS = ["-O1", "-g1", "-std=c11", "-fPIC", "-shared", "-fno-omit-frame-pointer"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compiler() -> str:
    return os.environ.get("CC", "cc")


def runtime() -> str:
    """The path of the sanitizer's library, which has to be loaded first of all; "" where there is none."""
    if shutil.which(compiler()) is None:
        return ""
    asked = subprocess.run(
        [compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    path = asked.stdout.strip()
    return path if os.path.isabs(path) and os.path.exists(path) else ""


def problem() -> str:
    """Why the sanitized build cannot be tested on this machine; "" where it can."""
    if not sys.platform.startswith("linux"):
        return "the sanitized build is preloaded, which is done on Linux only"
    if shutil.which(compiler()) is None:
        return f"no C compiler: {compiler()}"
    return "" if runtime() else "the compiler has no libasan.so"


def run(arguments: list[str]) -> int:
    """Build, and run pytest on the kernels' tests; its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernels.so"
        sources = sorted(str(path) for path in SOURCES.glob("*.c"))
        subprocess.run([compiler(), *FLAGS, *SANITIZERS, *sources, "-o", str(library), "-lm"], check=True)
        environment = os.environ | {
            "HASHSTREAM_NATIVE": str(library),
            "LD_PRELOAD": runtime(),
            "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own would drown ours
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        # capture=sys leaves the file descriptors alone, to which the sanitizer writes its report before it ends us.
        options = ["-q", "--capture=sys", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    if problem():
        sys.exit(problem())
    sys.exit(run(sys.argv[1:] or TESTS))
