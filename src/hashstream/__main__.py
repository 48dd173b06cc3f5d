"""The `hashstream` command, also as `python -m hashstream`."""

from __future__ import annotations

import logging
import sys

from hashstream._extras import MissingExtraError, require

__all__ = ["main"]


def main() -> None:
    """Run the command line; without its extra, or that of the command, say in one line what to install."""
    try:
        require("rich", "cli")
        require("typer", "cli")
        from hashstream.cli import app

        if (
            logging.lastResort is not None
        ):  # the package itself is quiet; whoever runs a command sees warnings
            logging.getLogger("hashstream").addHandler(logging.lastResort)
        app(prog_name="hashstream")
    except MissingExtraError as error:
        print(f"hashstream: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
