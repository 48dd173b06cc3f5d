"""Builds the C kernels, and makes the README's links absolute. Everything else is in pyproject.toml.

The kernels are a plain shared library that is loaded with ctypes: they know nothing of Python, so one wheel per
platform serves every version (`py3-none-<platform>`).

The extension is `optional`: without a compiler the install still succeeds, and the NumPy twin of each kernel is used
(the text that `hashstream.show_versions()` returns says which).
"""

import re
import sys
import tomllib
from glob import glob
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
WINDOWS = sys.platform == "win32"


class SharedLibrary(build_ext):
    """A library with one name everywhere, and without the function that an extension module begins with."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + (".dll" if WINDOWS else ".so")

    def get_export_symbols(self, ext: Extension) -> Any:
        return ext.export_symbols


class AnyPython(bdist_wheel):
    """A wheel for one platform and every version of Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


def readme() -> str:
    """The README as a package index shows it: a link into the repository works there, too."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({source}/{kind}/main/{link[3]})"

    text = (ROOT / "README.md").read_text("utf-8")
    return re.sub(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)]+)\)", absolute, text)


kernels = Extension(
    "hashstream._native._kernels",
    sources=sorted(glob("src/hashstream/_native/*.c")),
    depends=sorted(glob("src/hashstream/_native/*.h")),
    extra_compile_args=[] if WINDOWS else ["-O3", "-std=c11", "-Wall", "-Wextra"],
    optional=True,
)

setup(
    ext_modules=[kernels],
    cmdclass={"build_ext": SharedLibrary, "bdist_wheel": AnyPython},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
