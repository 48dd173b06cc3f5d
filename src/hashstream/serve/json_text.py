"""JSON from anybody, in bodies, parameters and columns: one reader, so that all forms take the same values."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from hashstream.serve.problems import Problem

__all__ = ["read_json"]


def read_json(raw: bytes | str, what: str, name: str = "body") -> Any:
    """A value in JSON. Depth is limited, half a character is refused, and of two equal names the last one counts.

    what : it is, for the sentence of a `Problem`. name : of the problem.
    """
    try:
        return from_json(raw)
    except UnicodeError:
        raise Problem(name, f"{what} is not valid JSON: it holds half a character") from None
    except ValueError as error:
        raise Problem(name, f"{what} is not valid JSON: {error}") from None
