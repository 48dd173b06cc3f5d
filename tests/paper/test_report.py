"""The report: one page that needs nothing else, in which every text is escaped; its Markdown form; drawings."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from PIL import Image
from small_studies import small_study

from hashstream import pictures
from hashstream.hashers import FCOH
from hashstream.paper import Section, Sheet, Study, provenance, report

EVIL = "<script>alert('x')</script> & \"quotes\""


class Reader(HTMLParser):
    """Tags that are opened and closed in order, ids, links, and texts by the tag they stand in."""

    VOID = ("meta", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self._note(attributes)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._note(attributes)

    def _note(self, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "xlink:href", "src"):
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if text.strip():
            self.texts.append((self.open[-1], text))

    def inside(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]


def drawing() -> Figure:
    lines = {"FCOH (auto)": [(2_000, 0.5), (20_000, 0.7)], "HCOH": [(2_000, 0.55), (20_000, 0.7)]}
    return pictures.line_panels(
        {"16 bits": lines, "64 bits": lines}, x="rows", y="mAP", title="A < B", subtitle="FCOH 32 & 1.02512"
    )


def section(name: str = "table-map", text: str = "plain") -> Section:
    rows = (("FCOH", "0.500 ± 0.001\npaper 0.6"), (text, "-"))
    sheet = Sheet(text, ("method", "16 bits"), rows, frozenset({(0, 1)}))
    figures, captions = {f"fig-{name}": drawing()}, {f"fig-{name}": text}
    return Section(name, text, text, f"see `{name}`", (sheet,), figures, captions, (text,))


def about(study: Study) -> report.About:
    study = replace(study, source="made by hand. A note.")
    return report.about(study, "hashstream paper table-map --dataset 'a b' --out x")


def made(study: Study, *sections: Section) -> str:
    drawings = {name: pictures.svg(figure, name) for one in sections for name, figure in one.figures.items()}
    return report.page(report.markdown(sections, about(study)), drawings)


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    page = made(small_study(tmp_path), section("table-map"), section("fig-map-auc", "other"))
    reader = Reader(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(reader.tags)
    assert all(link.startswith("#") for link in reader.links)
    assert {link[1:] for link in reader.links} <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))
    outside = re.sub(r'xmlns(:xlink)?="http://www\.w3\.org/[^"]*"', "", page)
    assert not re.search(r"https?:|@import|url\((?!#)", outside)
    assert reader.tags.count("svg") == 2
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_every_text_is_escaped(tmp_path: Path) -> None:
    page = made(small_study(tmp_path), section("table-map", EVIL))
    assert "<script" not in page
    reader = Reader(page)
    for tag in ("h2", "p", "caption", "td", "li", "figcaption"):
        assert EVIL in "".join(reader.inside(tag)), tag
    assert "table-map" in reader.inside("code")


def test_a_note_is_given_once(tmp_path: Path) -> None:
    first, second = section("table-map", "first"), section("fig-map-auc", "second")
    second = replace(second, notes=("own note", *first.notes))
    study = small_study(tmp_path)
    reader = Reader(made(study, first, second))
    assert reader.inside("li").count(first.notes[0]) == 1
    assert "own note" in reader.inside("li")
    assert reader.links.count("#first") == 2  # in the summary, and from the section that shares the note
    text = report.markdown([first, second], about(study))
    assert text.count(f"- {first.notes[0]}") == 1
    assert "- 1 note on “[first](#first)” applies here, too." in text


def test_cells_are_bold_where_best_and_small_below(tmp_path: Path) -> None:
    reader = Reader(made(small_study(tmp_path), section()))
    assert [text for text in reader.inside("strong") if text[0] == "0"] == ["0.500 ± 0.001"]
    assert reader.inside("small") == ["paper 0.6"]


def test_the_report_says_how_it_was_made(tmp_path: Path) -> None:
    class Mine(FCOH):
        """A method of one's own."""

    study = replace(small_study(tmp_path), methods=("all", Mine))
    facts = dict(about(study).facts)
    assert facts["command"] == "`hashstream paper table-map --dataset 'a b' --out x`"
    assert facts["data"] == "digits, made by hand. A note."
    assert "10 queries per class" in facts["protocol"]
    assert "checkpoints after 200, 600" in facts["protocol"]
    assert facts["scale"] == "small: 8 bits, one run (seed 0)"
    for name in ("numpy", "matplotlib", "python", "hashstream"):
        assert re.search(rf"{name} \d", facts["report generated"])
    assert re.search(r"\d+ cores?", facts["report generated"])
    assert "measured" not in facts  # there is no row yet
    rows = {row[0]: row for row in about(study).settings.rows}
    assert rows["HCOH"][1] == "HCOH[paper]"
    assert "learning_rate=0.2" in rows["HCOH"][2]
    assert "paper_compat=True" in rows["OSH (state lost)"][2]
    assert "Mine" in rows


def test_no_commit_where_there_is_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "a" / "b" / "c" / "provenance.py"))
    assert provenance.commit() == ""
    assert "commit" not in dict(about(small_study(tmp_path)).facts)["report generated"]


def test_every_measuring_run_is_named_with_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small_study(tmp_path)
    study.add("paper", "LSH", 8, 0, 200, before=1.0)  # of before there were records
    for i, where in enumerate(("Fast, 8 cores", "Slow, 1 cores")):
        monkeypatch.setattr(provenance, "machine", lambda where=where: where)
        with provenance.recorded(tmp_path, study.results, f"hashstream paper {i}"):
            assert len(provenance.records(tmp_path)) == i + 1  # should the machine go down now, it is known
            study.add("paper", "LSH", 8, 0, 200, **{f"one{i}": 1.0, f"two{i}": 2.0})
    with provenance.recorded(tmp_path, study.results, "hashstream paper nothing"):
        pass
    entries = provenance.records(tmp_path)
    assert [(one["command"], one["machine"], one["first_row"], one["rows"]) for one in entries] == [
        ("hashstream paper 0", "Fast, 8 cores", 1, 2),
        ("hashstream paper 1", "Slow, 1 cores", 3, 2),
    ]
    monkeypatch.setattr(provenance, "machine", lambda: "Here, 2 cores")
    measured = [text for name, text in about(study).facts if name == "measured"]
    assert measured[0] == "1 rows without a record of when and where"
    assert "2 rows: `hashstream paper 0`; Fast, 8 cores" in measured[1]
    assert "2 rows: `hashstream paper 1`; Slow, 1 cores" in measured[2]
    assert len(measured) == 3
    assert "Here, 2 cores" in dict(about(study).facts)["report generated"]
    (tmp_path / "measured.json").write_text("{not json")
    assert provenance.records(tmp_path) == []


def test_no_folder_of_the_machine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HASHSTREAM_DATA", str(tmp_path / "my data"))
    monkeypatch.setenv("HASHSTREAM_CACHE", str(tmp_path / "cache"))
    for text, wanted in (
        (f"read from {tmp_path}/my data/a.npz (here)", "read from HASHSTREAM_DATA/a.npz (here)"),
        (f"read from {tmp_path}/cache/mnist (the cache)", "read from HASHSTREAM_CACHE/mnist (the cache)"),
        ("read from /home/me/a.npz", "read from a.npz"),
        ("part of scikit-learn", "part of scikit-learn"),
        ("from https://example.org/mnist/a.gz", "from https://example.org/mnist/a.gz"),
        ("mean of a/b and 1/2", "mean of a/b and 1/2"),
    ):  # fmt: skip
        assert provenance.without_folders(text) == wanted


def test_the_first_screen_tells_what_holds(tmp_path: Path) -> None:
    good = replace(section("table-map"), verdict="holds", brief="First at 6 of 6.")
    bad = replace(section("fig-map-auc"), verdict="does not hold", brief="", finding="Not <so>. And more.")
    page = made(small_study(tmp_path), good, bad)
    begin = page.index("What holds, what does not")
    summary = page[begin : page.index("<h2", begin)]
    assert ">table-map</a>: <strong>holds</strong>. First at 6 of 6.</li>" in summary
    assert "<strong>does not hold</strong>. Not &lt;so&gt;</li>" in summary
    text = report.markdown([good, bad], about(small_study(tmp_path)))
    assert "- [table-map](#plain): **holds**. First at 6 of 6." in text


def test_markdown_has_the_same_tables(tmp_path: Path) -> None:
    text = report.markdown([section(text="a | b <i>")], about(small_study(tmp_path)))
    assert "| FCOH | **0.500 ± 0.001**<br>paper 0.6 |" in text
    assert "| a \\| b &lt;i> | - |" in text
    assert "(figures/fig-table-map.png)" in text
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_drawings_are_whole_svg_with_text_as_text(tmp_path: Path) -> None:
    element = pictures.svg(drawing(), "fig-a")
    root = ElementTree.fromstring(element)
    texts = [text for node in root.iter() if node.tag.endswith("text") and (text := "".join(node.itertext()))]
    for wanted in ("A < B", "FCOH 32 & 1.02512", "FCOH (auto)", "HCOH", "16 bits", "mAP"):
        assert wanted in [text.strip() for text in texts], wanted
    ids = [node.attrib["id"] for node in root.iter() if "id" in node.attrib]
    assert ids
    assert all(one.startswith("fig-a-") for one in ids)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', element))
    assert used <= set(ids)
    assert pictures.svg(drawing(), "fig-a") == element
    other = pictures.svg(drawing(), "fig-b")
    assert not set(re.findall(r' id="([^"]+)"', other)) & set(ids)
    assert len(element) < 30_000


def test_files_of_a_drawing(tmp_path: Path) -> None:
    element = pictures.save(drawing(), tmp_path, "one")
    assert (tmp_path / "one.svg").read_text() == element
    document = (tmp_path / "one.pdf").read_bytes()
    assert document.startswith(b"%PDF")
    assert b"/CreationDate" not in document
    assert b"/Type3" not in document
    with Image.open(tmp_path / "one.png") as image:
        assert image.width > 600
        colours = {colour for _, colour in image.convert("RGB").getcolors(maxcolors=10_000)}
    for method in ("FCOH", "HCOH"):
        wanted = tuple(int(pictures.COLOURS[method][i : i + 2], 16) for i in (1, 3, 5))
        nearest = min(max(abs(a - b) for a, b in zip(wanted, colour, strict=True)) for colour in colours)
        assert nearest <= 12
    assert (tmp_path / "one.png").stat().st_size < 150_000


def test_names_at_the_ends_of_lines_do_not_overlap() -> None:
    panel = {f"M{i}": [(0, 0.1), (1, 0.5 + 0.001 * i)] for i in range(12)} | {"low": [(0, 0.0), (1, 0.0)]}
    figure = pictures.line_panels({"one": panel}, x="x", y="y", title="t", subtitle="s")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == 13
    for below, above in itertools.pairwise(boxes):
        assert above.y0 >= below.y0 + 0.6 * below.height
    names = [text.get_text() for text in sorted(axes.texts, key=lambda text: text.get_window_extent().y0)]
    assert names == ["low", *(f"M{i}" for i in range(12))]


@pytest.mark.parametrize(
    ("high", "wanted"), [(0.3, ["0.02", "0.05", "0.1", "0.2"]), (3_000, ["0.1", "1", "10", "100", "1,000"])]
)
def test_numbers_of_a_logarithmic_axis_are_plain_and_apart(high: float, wanted: list[str]) -> None:
    figure = Figure(figsize=(5, 3))
    axes = figure.subplots()
    axes.plot([0.012, high], [0, 1], "o")
    pictures.logarithmic(axes, "x")
    figure.draw_without_rendering()
    low, top = axes.get_xlim()
    ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
    labels = [t.label1 for t in ticks if low <= t.get_loc() <= top and t.label1.get_text()]
    assert set(wanted) <= {label.get_text() for label in labels}
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_every_method_has_a_style_of_its_own() -> None:
    from hashstream.hashers import NAMED_SETTINGS, methods

    ours = [name for name in methods() if methods()[name].__module__.startswith("hashstream.")]
    assert set(ours) <= set(pictures.COLOURS)
    assert len({pictures.COLOURS[name] for name in ours}) == len(ours)
    styles = {(pictures.style(name).colour, pictures.style(name).marker) for name in ours}
    assert len(styles) == len(ours)
    assert pictures.style("FCOH (paper)").dashes != pictures.style("FCOH (auto)").dashes
    titles = [*ours, *(named.title for named in NAMED_SETTINGS.values())]
    for choose in (lambda style: style.colour, lambda style: style.marker):
        assert len({choose(pictures.style(title)) for title in titles}) == len(titles) > len(ours)
    assert pictures.style("Somebody's").colour.startswith("#")
