"""What MkDocs calls while it builds the site: pages that are generated, and links that code hosts understand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mermaidx
import sections  # noqa: F401  docstrings.py imports it when this folder is no longer on the path
from command_help import command_page
from links import ROOT_PAGES, is_output, slug, with_site_links
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference import reference, reference_index, reference_page
from results import commands, output_page, with_links

ROOT = Path(__file__).parents[2]
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SOURCES: dict[str, str] = {}
"""Page, relative to docs/ -> the file of the repository that its links are relative to."""


def on_config(config: MkDocsConfig) -> None:
    """Give headings the anchors that they have on a code host."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root, the outputs of benchmarks, the reference and the command line."""

    def add(place: str, text: str, source: str | None = None) -> None:
        SOURCES[place] = source or f"docs/{place}"
        files.append(File.generated(config, place, content=text))

    for name, place in ROOT_PAGES.items():
        add(place, (ROOT / name).read_text("utf-8"), name)
    found = commands((ROOT / "docs/results/README.md").read_text("utf-8"))
    for file in sorted((ROOT / "docs/results").glob("perf-*.txt")):
        place = file.relative_to(ROOT / "docs")
        assert is_output(place)
        add(str(place.with_suffix(".md")), output_page(file, found, ROOT / "benchmarks"))
    pages = reference()
    for name, page in pages.items():
        add(f"reference/{name}", reference_page(page))
    add("reference/index.md", reference_index(pages))
    add("reference/commands.md", command_page())
    for page in sorted((ROOT / "docs").glob("*.md")):
        for number, diagram in enumerate(MERMAID.findall(page.read_text("utf-8"))):
            drawn = mermaidx.render(diagram.replace("flowchart LR", "flowchart TD")).svg()  # a page is narrow
            files.append(File.generated(config, picture(page.stem, number), content=drawn))
    return files


def picture(page: str, number: int) -> str:
    """The file of a diagram of a page, relative to docs/."""
    return f"diagrams/{page}-{number}.svg"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Turn links into the repository into links of the site, and diagrams into pictures."""
    source = SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    markdown = re.sub(
        r"(?<=\w)(\[\w+\]\[)", r"\\\1", markdown
    )  # RidgeHash[rbf][paper] is no reference to a heading
    for number, diagram in enumerate(MERMAID.finditer(markdown)):
        markdown = markdown.replace(diagram[0], f"![Diagram]({picture(Path(source).stem, number)})")
    markdown = markdown.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
    if source == "docs/results/README.md":
        markdown = with_links(markdown, ROOT / "docs/results")
    if source == "docs/index.md":
        page.meta["hide"] = ["navigation", "toc"]
    return with_site_links(markdown, source, config.extra["repository"], lambda path: (ROOT / path).is_dir())
