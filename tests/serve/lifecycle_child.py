"""A service in a process of its own, whose commits can be held.

    python -m tests.serve.lifecycle_child FOLDER

It prints its address. While FOLDER/hold exists, the writer waits before its commit, and FOLDER/held says so.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from hashstream.serve.limits import Limits
from hashstream.serve.server import run
from hashstream.serve.service import Service
from hashstream.table.storage.folder import failpoints


def main(folder: Path) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)

    def hold() -> None:
        while (folder / "hold").exists():
            (folder / "held").touch()
            time.sleep(0.01)

    with failpoints.on("commit.before", hold):
        service = Service([folder / "tables"], limits=Limits(listeners=3))
        run(service, port=0, started=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
