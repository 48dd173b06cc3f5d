"""Pictures of the page for the docs: `python -m tests.serve.screenshots --out docs/results/serve`.

A service with MNIST, where the folder of data sets has it, otherwise with scikit-learn's digits; a person who teaches
some items by clicks, and the four views after that.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits
from tests.page.digits_service import chromium, state, until
from tests.serve.running import Running, running

import hashstream as hs
from hashstream.serve.images import image_sources

N_ITEMS = 3000
MOST_BYTES = 300_000


@dataclass
class Data:
    """A data set of images. pixels : as `hashstream serve --pixels` takes it."""

    name: str
    X: np.ndarray
    y: list[int]
    pixels: str


def load() -> Data:
    """MNIST from the folder in HASHSTREAM_DATA, or the digits."""
    file = Path(os.environ.get("HASHSTREAM_DATA", "nowhere")) / "mnist.npz"
    if not file.is_file():
        digits = load_digits()
        return Data("digits", np.asarray(digits.data, np.float32), digits.target.tolist(), "8x8:16")
    with np.load(file) as found:
        rows = np.random.default_rng(0).permutation(len(found["x"]))[:N_ITEMS]
        return Data("mnist", found["x"][rows].astype(np.float32), found["y"][rows].tolist(), "28x28")


def store(data: Data, folder: Path) -> None:
    """Create the table, without labels."""
    ink = data.X.mean(axis=1).round(1).tolist()
    with hs.HashTable.open(
        folder / data.name, hasher=hs.PosteriorHash(n_bits=64, random_state=0), fields={"ink": float}
    ) as table:
        table.ingest(range(len(data.y)), data.X, fields={"ink": ink})


class Person:
    """Somebody who knows the true classes, in front of the page."""

    def __init__(self, page: Any, data: Data) -> None:
        self.page, self.data = page, data

    def ready(self) -> int:
        """Wait for a query and its answers; the query's id."""
        asked = "new URLSearchParams(location.hash.split('?')[1]).get('q')"
        shown = "document.querySelector('.about strong')?.textContent"
        until(self.page, f"!document.querySelector('[aria-busy]') && {shown} === `Item ${{{asked}}}`")
        return int(state(self.page.url)["q"])

    def boards(self, times: int) -> None:
        """Teach so many boards, and correct one more that is not sent."""
        for sent in range(times + 1):
            self.page.wait_for_selector(".choice.open" if sent == 0 else ".choice.guess")
            until(self.page, "!document.querySelector('[aria-busy]')")
            for card in self.page.query_selector_all(".choice"):
                digit = str(self.data.y[json.loads(card.get_attribute("data-id"))])
                pressed = card.query_selector(".pick[aria-pressed=true]")
                if pressed is None or pressed.get_attribute("data-label") != digit:
                    card.query_selector(".face").focus()
                    self.page.keyboard.press(digit)
            if sent < times:
                self.page.keyboard.press("Enter")
        self.page.wait_for_selector(".toast", state="detached")

    def mark(self, most: int = 99) -> int:
        """Name the class and click what is wrong; the query's id."""
        query = self.ready()
        truth = self.data.y
        self.page.keyboard.press(str(truth[query]))
        for card in self.page.query_selector_all(".teachable"):
            other = "other" in (card.get_attribute("class") or "").split()
            if (truth[json.loads(card.get_attribute("data-id"))] != truth[query]) != other and most > 0:
                card.query_selector(".face").click()
                most -= 1
        return query

    def teach(self, times: int) -> None:
        """Teach so many suggestions, one after the other."""
        for _ in range(times):
            query = self.mark()
            self.page.keyboard.press("Enter")
            self.page.wait_for_selector("button:has-text('Next item')")
            self.page.keyboard.press("Enter")
            until(self.page, f"!location.hash.includes('q={query}&') && !location.hash.endsWith('q={query}')")
        self.ready()


def take(page: Any, path: Path) -> None:
    """Write what the window shows, at most 300 KB."""
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    page.wait_for_timeout(1500)  # cards glide to their places
    page.screenshot(path=path)
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{path} has {size:,} bytes, more than {MOST_BYTES:,}")
    print(f"{path}: {size:,} bytes")


def pictures(browser: Any, service: Running, data: Data, out: Path) -> None:
    """Teach, and write all pictures."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(60_000)
    start = f"{service.url}/#/{data.name}"
    person = Person(page, data)
    page.goto(f"{start}/teach")
    person.boards(4)
    take(page, out / "board.png")
    page.goto(f"{start}/teach?mode=answers")
    person.teach(9)
    for _ in range(8):  # until there is something to correct
        query = person.mark()
        if page.locator(".teachable.other").count() >= 4:
            break
        person.teach(1)
    until(page, "document.querySelectorAll('.progress .line').length > 1")
    page.wait_for_selector(".toast", state="detached")
    take(page, out / "teach.png")
    page.emulate_media(color_scheme="dark")
    take(page, out / "teach-dark.png")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 400, "height": 860})
    take(page, out / "teach-phone.png")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{start}/search?q={query}")
    page.wait_for_selector(".card .distance")
    take(page, out / "search.png")
    page.goto(f"{start}/map")
    page.wait_for_selector(".legend button")
    take(page, out / "map.png")
    page.set_viewport_size({"width": 1280, "height": 1000})
    page.goto(f"{start}/health")
    page.wait_for_selector(".tile")
    take(page, out / "health.png")
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/serve"), help="folder of the pictures")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    browser_path = chromium()
    if browser_path is None:
        raise SystemExit("there is no Chromium on PATH: install chromium, or put google-chrome on PATH")
    data = load()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        store(data, Path(folder) / "tables")
        images = image_sources(pixels=data.pixels)
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        with running(Path(folder) / "tables", images=images) as service:
            browser = playwright.chromium.launch(executable_path=browser_path, args=arguments)
            pictures(browser, service, data, out)
            browser.close()


if __name__ == "__main__":
    main()
