"""Settings of all tests."""

from __future__ import annotations

import os

os.environ.pop("COLUMNS", None)  # set in the workers of pytest-xdist; a console made with it keeps that width
