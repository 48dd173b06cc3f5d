"""Tokens: who may read, write and administer. A file holds their hashes; the tokens themselves are shown once.

A line of the file is `NAME SCOPE HASH`. Tokens are 256 random bits, so a plain SHA-256 of them cannot be inverted.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SCOPES", "Token", "TokenFile", "add_token", "read_tokens", "token_hash"]

SCOPES = ("read", "write", "admin")
"""Each holds those before it: who may write may read."""
PREFIX = "hs_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
HASH = re.compile(r"[0-9a-f]{64}")
RECHECK = 1.0  # seconds after which the file is looked at again


@dataclass(frozen=True)
class Token:
    """A line of the file. digest : the hexadecimal SHA-256 of the token."""

    name: str
    scope: str
    digest: str


def token_hash(token: str) -> str:
    """
    >>> token_hash("hs_x")[:8]
    '20d8ff83'
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(path: Path) -> list[Token]:
    """The lines of a file; a ValueError names the line that is wrong. Empty lines and comments (#) are skipped."""
    found: list[Token] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        right = (
            len(words) == 3 and NAME.fullmatch(words[0]) and words[1] in SCOPES and HASH.fullmatch(words[2])
        )
        if not right:
            raise ValueError(
                f"{path}, line {number}: expected NAME SCOPE HASH, with a scope among {', '.join(SCOPES)} and the "
                "SHA-256 of a token; `hashstream token` writes such lines"
            )
        if any(one.name == words[0] for one in found):
            raise ValueError(f"{path}, line {number}: there are two tokens named {words[0]}")
        found.append(Token(*words))
    return found


def add_token(path: Path, name: str, scope: str) -> str:
    """Append a new token's hash to a file, which only its owner may read, and return the token."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a token: use letters, digits and . _ @ -, at most 64")
    if scope not in SCOPES:
        raise ValueError(f"there is no scope {scope!r}: choose from {', '.join(SCOPES)}")
    if path.exists() and any(one.name == name for one in read_tokens(path)):
        raise ValueError(f"{path} has a token named {name}: remove its line first, or choose another name")
    token = PREFIX + secrets.token_urlsafe(32)
    with os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+", encoding="utf-8"
    ) as file:
        file.seek(0)
        text = file.read()
        file.write(
            f"{'' if text.endswith(chr(10)) or not text else chr(10)}{name} {scope} {token_hash(token)}\n"
        )
    return token


class TokenFile:
    """The tokens of a file as they are now: a line that is removed is refused about a second later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._tokens = read_tokens(path)
        if not self._tokens:
            raise ValueError(
                f"{path} holds no tokens; `hashstream token {path} --name me --scope admin` adds one"
            )
        self._stamp = self._look()
        self._checked = time.monotonic()

    def _look(self) -> tuple[int, int]:
        stat = self.path.stat()
        return stat.st_mtime_ns, stat.st_size

    def scope_of(self, token: str) -> str | None:
        """The scope of a token; None for one that is unknown. Every stored hash is compared, in constant time."""
        self._renew()
        digest = token_hash(token)
        scope = None
        for one in self._tokens:
            if hmac.compare_digest(one.digest, digest):
                scope = one.scope
        return scope

    def _renew(self) -> None:
        """Read the file again where it has changed. One that is missing or damaged leaves no token valid."""
        now = time.monotonic()
        if now - self._checked < RECHECK:
            return
        with self._lock:
            self._checked = now
            try:
                stamp = self._look()
                if stamp != self._stamp:
                    self._tokens, self._stamp = read_tokens(self.path), stamp
            except (OSError, ValueError):
                self._tokens, self._stamp = [], (0, 0)
