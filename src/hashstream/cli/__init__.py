"""The command line. Commands of more than a few lines have a file each."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hashstream.cli.bench import PROTOCOL_LINES, bench
from hashstream.cli.cluster import cluster_app
from hashstream.cli.common import console, fail, say
from hashstream.cli.data import data_app
from hashstream.cli.demo import demo
from hashstream.cli.milvus import milvus_app
from hashstream.cli.paper import LINES, paper
from hashstream.cli.serve import serve, token
from hashstream.cli.table import table_app
from hashstream.cli.train import train
from hashstream.cli.tune import tune
from hashstream.hashers import methods as registry
from hashstream.versions import __version__, show_versions

__all__ = ["app"]

app = typer.Typer(
    help="Learn compact binary codes from a labelled stream, and search them while they are learned.\n\n"
    "Begin with: `hashstream demo --out demo-output`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        say(f"hashstream {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", is_eager=True, callback=_version, help="Show the version and exit."),
    ] = False,
) -> None:
    # No docstring: it would take the place of the help above.
    pass


app.command(epilog="Example: `hashstream demo --out demo-output --bits 64`")(demo)
app.command(
    epilog=f"{PROTOCOL_LINES}\n\n"
    "Example: `hashstream bench --dataset mnist --methods PosteriorHash,LSH --bits 16,32 --runs 3 --out results`"
    "\n\nOne method with other settings: `hashstream bench --dataset mnist --methods FCOH "
    "--set learning_rate=0.01 --set gradient_scale=class --out results`"
    "\n\nYour own method with ours, in one figure and one LaTeX table: `hashstream bench --dataset digits --methods "
    "mine.py:MyMethod,FCOH,LSH --bits 16,32,64 --out results`"
    "\n\nYour own data, where many classes are rare: `hashstream bench --dataset photos.npz --queries 1000 "
    "--stream 5000 --min-class 20 --out results`"
)(bench)
app.command(
    epilog="Example: `hashstream tune --dataset mnist --method FCOH --bits 32 --out tuning`"
    "\n\nOther values: `hashstream tune --dataset digits --method HCOH --try learning_rate=0.1,0.2,0.5 "
    "--try batch_size=1,10 --runs 3 --out tuning`"
)(tune)
app.command(
    epilog="Example: `hashstream train rows/*.npz --label kind --bits 64 --out model.safetensors`"
    "\n\nOn two cores: `hashstream train rows/*.npz --out model.safetensors --workers 2`"
    "\n\nOn a cluster: `hashstream train /shared/rows/*.parquet --out model.safetensors --on ray --address HOST:6379`"
)(train)
app.command(
    epilog=f"{LINES}\n\nExample: `hashstream paper table-map --dataset digits --out paper-digits`"
    "\n\nYour own method in the paper's figure, as PDF: `hashstream paper fig-map-instances --dataset digits --methods "
    "mine.py:MyMethod,FCOH,HCOH,LSH --out mine`"
)(paper)
app.command(
    epilog="Example: `hashstream serve tables --port 8000`\n\nFrom elsewhere: `hashstream token tokens.txt --name me "
    "--scope admin`, then `hashstream serve tables --host 0.0.0.0 --tokens tokens.txt`"
)(serve)
app.command(epilog="Example: `hashstream token tokens.txt --name shop --scope write`")(token)
app.add_typer(table_app, name="table")
app.add_typer(cluster_app, name="cluster")
app.add_typer(data_app, name="data")
app.add_typer(milvus_app, name="milvus")


def benchmarks() -> list[str]:
    """Names of the benchmarks in the checkout around this file; none in an installed package."""
    folder = Path(__file__).resolve().parents[3] / "benchmarks"
    if not (folder / "harness.py").is_file():
        return []
    return sorted(path.stem for path in folder.glob("*.py") if "\ndef main(" in f"\n{path.read_text()}")


@app.command(epilog="Example: `hashstream perf hamming --quick`")
def perf(
    name: Annotated[
        str,
        typer.Argument(
            help=f"Name of the benchmark: {', '.join(benchmarks()) or 'one of those in benchmarks/'}."
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions: a first impression, not a result.")
    ] = False,
    part: Annotated[
        str | None, typer.Option(help="Only this part of the benchmark, where it has several.")
    ] = None,
) -> None:
    """Measure speed as ratios within one run, against targets; the exit code is 1 if one is missed.

    Needs a checkout of the sources, which has the folder benchmarks.
    """
    if not benchmarks():
        fail("the benchmarks are not part of the installed package: run this in a checkout of the sources.")
    if name not in benchmarks():
        fail(f"there is no benchmark {name!r}: choose from {', '.join(benchmarks())}")
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # before any other package named benchmarks
    module = importlib.import_module(f"benchmarks.{name}")
    parts = getattr(module, "PARTS", ())
    if part is not None and part not in parts:
        choice = f"choose from {', '.join(parts)}" if parts else "it runs as a whole"
        fail(f"{name} has no part {part!r}: {choice}")
    if not (module.main(quick) if part is None else module.main(quick, part)):
        raise typer.Exit(1)


@app.command("methods", epilog="Example: `hashstream methods`")
def list_methods() -> None:
    """List every method: what it learns from, the size of its state, and where it was published.

    d is the number of features, r of bits, C of classes.
    """
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "learns from", "keeps", "published in"):
        table.add_column(column)
    for name, method in registry().items():
        table.add_row(name, method.needs, method.state_size, method.reference)
    console.print(table)


@app.command(epilog="Example: `hashstream version`")
def version() -> None:
    """Show the versions of hashstream and its libraries, and whether the compiled kernels are in use."""
    say(show_versions())
