"""Checks the built site: every link leads to a file and an anchor that are there, and nothing is loaded from elsewhere.

`python docs/_site/check.py site`
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
}
QUIET_LINKS = {"canonical", "prev", "next", "edit"}  # names of pages, which no browser loads


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := given.get(name)))
        if tag == "a" and (target := given.get("href")):
            self.links.append(target)
        for name in ("src", "href"):
            if (tag, name) in LOADS and (target := given.get(name)) and given.get("rel") not in QUIET_LINKS:
                self.loads.append(target)


def problems(site: Path) -> list[str]:
    """Sentences about everything that is wrong with a built site."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name}: loads {target}" for target in page.loads if urlsplit(target).netloc]
        for target in [*page.links, *page.loads]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            folder = site if parts.path.startswith("/") else path.parent
            file = (folder / unquote(parts.path).lstrip("/")).resolve() if parts.path else path.resolve()
            file = file / "index.html" if file.is_dir() else file
            if name.name == "404.html" and parts.path.startswith("/"):
                continue  # its links are absolute, below the address of the site
            if not file.is_file():
                found.append(f"{name}: {target} leads nowhere")
            elif parts.fragment and file.suffix == ".html":
                other = pages.get(site / file.relative_to(site.resolve()))
                if other and unquote(parts.fragment) not in other.anchors:
                    found.append(f"{name}: {target}: no such anchor")
    for path in sorted([*site.rglob("*.css"), *site.rglob("*.js")]):
        for host in set(
            re.findall(r"""(?:url\(|import\(|@import )["']?(https?://[^"')]+)""", path.read_text("utf-8"))
        ):
            found.append(f"{path.relative_to(site)}: loads {host}")
    return found


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(
        f"{len(wrong)} problems"
        if wrong
        else "all links lead somewhere, and nothing is loaded from elsewhere"
    )
    sys.exit(bool(wrong))
