"""Settings of all tests."""

from __future__ import annotations

import os

os.environ.pop("COLUMNS", None)  # set in the workers of pytest-xdist; a console made with it keeps that width

# Run in a process of its own: imported here, it would register its method for all tests.
collect_ignore = ["typing/user_program.py"]
