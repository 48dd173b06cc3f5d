"""Write the notebooks of this folder from the scripts that they are made of, and run them for their outputs.

    python examples/notebooks.py

The script is the source. `# %%` begins a cell of code, `# %% [markdown]` one of text, which is commented out. A cell
`# %% [script]` is in the script only, and `# %% [notebook]`, commented out as well, in the notebook only. The script's
docstring is the first cell. It needs `pip install nbclient ipykernel`, and a database for codes_in_pgvector: see there.
Outputs are compared in the tests: what differs from run to run is printed by the script only.
"""

from __future__ import annotations

import ast
import os
import re
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SCRIPTS = ("first_search", "photos", "text_search", "drift", "own_method", "codes_in_pgvector", "serving")
"""Names of the scripts that have a notebook."""

_MARKER = re.compile(r"^# %%(?: \[(\w+)\])?$", re.MULTILINE)


def cells(script: str) -> list[dict[str, Any]]:
    """The cells of a script's notebook, as nbformat takes them, without outputs."""
    docstring = ast.get_docstring(ast.parse(script)) or ""
    title, _, rest = docstring.partition("\n")
    usage = re.sub(r"(^ *(?:pip|python) .+\n?)+", _commands, rest.strip("\n"), flags=re.MULTILINE)
    found = [_cell("markdown", f"# {title}\n\n{usage}".strip())]
    _, *parts = _MARKER.split(script)
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        if kind == "script":
            continue
        if kind is not None:
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        found.append(_cell("markdown" if kind == "markdown" else "code", text.strip()))
    for number, cell in enumerate(found):
        cell["id"] = f"cell-{number}"
    return found


def _commands(lines: re.Match[str]) -> str:
    return f"As a script:\n\n```\n{textwrap.dedent(lines[0]).strip()}\n```\n"


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook(script: str) -> Any:
    """The notebook of a script, not run yet."""
    import nbformat

    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "cells": cells(script),
    }
    return nbformat.from_dict(content)


def run(notebooks: Iterable[Any], folder: Path) -> None:
    """Run notebooks one after the other in one kernel, with `folder` as the current one; cells get their outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebooks = list(notebooks)
    joined = nbformat.v4.new_notebook(metadata=notebooks[0].metadata)
    for one in notebooks:
        joined.cells += [*one.cells, nbformat.v4.new_code_cell("%reset -f")]
    place = {"metadata": {"path": str(folder)}}
    how = {"timeout": 120, "record_timing": False, "coalesce_streams": True}
    # As when a notebook is opened in its folder, it can import the modules there.
    paths = [str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    NotebookClient(joined, resources=place, **how).execute(env=environment)
    for one in notebooks:
        for number, cell in enumerate((cell for cell in one.cells if cell.cell_type == "code"), 1):
            cell.execution_count = number
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = number


def main() -> None:
    import nbformat

    made = {name: notebook((FOLDER / f"{name}.py").read_text()) for name in SCRIPTS}
    with tempfile.TemporaryDirectory() as folder:
        run(made.values(), Path(folder))
    for name, one in made.items():
        nbformat.validate(one)
        path = FOLDER / f"{name}.ipynb"
        nbformat.write(one, path)
        print(f"{path}: {len(one.cells)} cells, {path.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
