"""Links that work on a code host, as links of the site."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from posixpath import normpath, relpath

ROOT_PAGES = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "examples/README.md": "project/examples.md",
}
"""Pages of the repository outside docs/ -> where the site has them, relative to docs/."""

CODE = re.compile(r"^( *)(`{3,}).*?^\1\2|(`+)(?!`).*?(?<!`)\3(?!`)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
ELSEWHERE = re.compile(r"[a-z]+:|//|#")


def place_of(path: str) -> str | None:
    """The page or file of the site that shows a file of the repository, relative to docs/; None where none does."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if not path.startswith("docs/"):
        return None
    place = PurePosixPath(path).relative_to("docs")
    return str(place.with_suffix(".md") if is_output(place) else place)


def is_output(place: PurePosixPath) -> bool:
    """Whether a file of docs/ is the output of a benchmark, which the site shows as a page."""
    return place.parent.name == "results" and place.match("perf-*.txt")


def site_link(target: str, source: str, repository: str, is_folder: Callable[[str], bool]) -> str:
    """The target of a link, as the site has it.

    target : as it is written in the file `source`, a path from the root of the repository.
    repository : address of the repository; files that the site does not show lead there.
    """
    if ELSEWHERE.match(target):
        return target
    path, _, anchor = target.partition("#")
    path = normpath(PurePosixPath(source).parent / path)
    anchor = f"#{anchor}" if anchor else ""
    place, here = place_of(path), place_of(source)
    if place is None or here is None or is_folder(path):
        return f"{repository}/{'tree' if is_folder(path) else 'blob'}/main/{path}{anchor}"
    return relpath(place, PurePosixPath(here).parent) + anchor


def with_site_links(text: str, source: str, repository: str, is_folder: Callable[[str], bool]) -> str:
    """A page of the repository with its links as the site has them; code is left as it is."""

    def changed(prose: str) -> str:
        return LINK.sub(lambda m: m[1] + site_link(m[2], source, repository, is_folder) + m[3], prose)

    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [changed(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, changed(text[end:])])


def slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower().strip()).replace(" ", separator)
