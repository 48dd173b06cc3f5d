"""Builds the C kernels. Everything else about the package is in pyproject.toml.

The extension is `optional`: without a compiler the install still succeeds, and the NumPy twin of each kernel is used
(`hashstream.show_versions()` says which).
"""

import sys
from glob import glob

from setuptools import Extension, setup

kernels = Extension(
    "hashstream._native._kernels",
    sources=sorted(glob("src/hashstream/_native/*.c")),
    depends=sorted(glob("src/hashstream/_native/*.h")),
    extra_compile_args=[] if sys.platform == "win32" else ["-O3", "-std=c11", "-Wall", "-Wextra"],
    optional=True,
)

setup(ext_modules=[kernels])
