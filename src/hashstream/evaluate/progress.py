"""Progress of measurements: what `run` says about its jobs, and a progress bar that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hashstream._extras import require
from hashstream.evaluate.job import Job
from hashstream.evaluate.protocols import Checkpoint

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["JobProgress", "Progress", "Watch", "watch_jobs", "watched"]


@dataclass(frozen=True)
class JobProgress:
    """A message of `run` about a job: rows learned since the last message, a checkpoint, an error, or its end.

    rows: at the end of a job also those that were not learned, so that the rows of all messages add up to its stream.
    """

    job: Job
    rows: int = 0
    checkpoint: Checkpoint | None = None
    error: str = ""
    done: bool = False


Watch = Callable[[JobProgress], None]
Progress = Watch | Literal["bar"] | None
"""A function that is called with each message, "bar" for a progress bar in the terminal, or None for silence."""


@contextmanager
def watched(progress: Progress, jobs: int, rows: int) -> Iterator[Watch]:
    """The function that messages of `jobs` jobs, which learn `rows` rows in total, are passed to."""
    if progress is None or (progress == "bar" and not rows):
        yield lambda news: None
    elif progress == "bar":
        console = require("rich.console", "cli").Console(stderr=True, emoji=False)
        with watch_jobs(console, "", jobs, rows) as watch:
            yield watch
    elif callable(progress):
        yield progress
    else:
        raise ValueError(f'progress is {progress!r}: it has to be "bar", a function or None')


@contextmanager
def watch_jobs(
    console: Console, what: str, jobs: int, rows: int, *, errors: bool = True
) -> Iterator[Callable[[JobProgress], None]]:
    """Show a progress bar for `jobs` jobs that learn `rows` rows in total; yields the `progress` of `run`.

    errors : whether to print a line for each job that diverges.
    """
    from rich.markup import escape
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    # Methods differ in speed by a factor of ten: estimate the remaining time from the last ten minutes.
    with Bars(*columns, console=console, speed_estimate_period=600) as bar:
        task = bar.add_task(what, total=rows)
        done, seen = 0, ""

        def watch(news: JobProgress) -> None:
            nonlocal done, seen
            done += news.done
            bar.advance(task, news.rows)
            if news.checkpoint is not None:
                metric, value = next(iter(news.checkpoint.scores.items()))
                seen = f": {news.job}, {metric} {value:.3f}"
            if news.checkpoint is not None or news.done:
                bar.update(task, description=f"{what}{done} of {jobs}{seen}")
            if news.error and errors:
                bar.console.print(f"[yellow]{escape(f'{news.job}: {news.error}')}[/]", emoji=False)

        yield watch
