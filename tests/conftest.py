"""Settings of all tests."""

from __future__ import annotations

import os

import pytest
from tests.thinning import thinned

os.environ.pop("COLUMNS", None)  # set in the workers of pytest-xdist; a console made with it keeps that width

# Run in a process of its own: imported here, it would register its method for all tests.
collect_ignore = ["typing/user_program.py"]

# Tests that take longest: a worker should not begin one when the others have ended. Those that share a Ray are every
# third, which gives them to one of three workers.
LONGEST = (
    "scale/test_faults.py",
    "scale/test_cli_cluster.py::test_a_cluster_from_its_creation_to_its_end",
    "hamming/test_hamming_asan.py",
    "table/test_table_crash.py",
    "scale/test_export_cluster.py::test_the_way_of_the_docs_to_more_shards",
    "test_demo.py::test_the_whole_story",
    "table/test_export_interrupted.py::test_killed_at_every_sync",
    "scale/test_cluster_demo.py::test_the_story",
    "test_cli_train.py::test_on_ray",
    "test_cli_paper.py::test_everything_at_once",
    "test_examples.py::test_notebooks_print_what_a_run_prints",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-cases", action="store_true", help="also run the cases that @pytest.mark.thinned leaves out"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'thinned("values" | "pairs" | n): of a product of parameters, run the cases that show each value, or each '
        "pair of values, or the first n; with --all-cases, all of them",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is thinned, and spread the longest tests over the fronts of the workers' shares, which
    `--dist worksteal` cuts from the list."""
    if not config.getoption("--all-cases"):
        kept = thinned(items)
        config.hook.pytest_deselected(items=[*{*items} - {*kept}])  # so that the summary counts them
        items[:] = kept
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    names = [item.nodeid.removeprefix("tests/") for item in items]
    first: list[list[pytest.Item]] = [[] for _ in range(workers)]
    chosen: set[int] = set()
    for number, long in enumerate(LONGEST):
        at = [i for i, name in enumerate(names) if name.startswith(long)]
        first[number % workers] += [items[i] for i in at]
        chosen.update(at)
    rest = [item for i, item in enumerate(items) if i not in chosen]
    ordered: list[pytest.Item] = []
    for worker, own in enumerate(first):
        share = (len(items) - len(ordered)) // (workers - worker)
        taken = max(0, share - len(own))
        ordered += own + rest[:taken]
        rest = rest[taken:]
    items[:] = ordered + rest
