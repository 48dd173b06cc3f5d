"""Cells and sentences of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hashstream.paper.study import Study, Value

__all__ = ["cell", "measured", "over", "seconds", "signed", "survivors", "words"]


def cell(value: Value | float | None, digits: int = 3) -> str:
    """A figure, or a dash where nothing was measured.

    >>> cell(None), cell(0.5), cell(Value((0.5, 0.7)))
    ('-', '0.500', '0.600 ± 0.141')
    """
    if value is None:
        return "-"
    return str(value) if isinstance(value, Value) else f"{value:.{digits}f}"


def measured(value: Value | None, ends: Mapping[int, int]) -> str:
    """A figure, with a second line that says how many runs diverged before it could be measured.

    ends: run -> rows after which it diverged, from `Study.divergences`.

    >>> measured(None, {0: 300, 1: 200}), measured(Value((0.5,), diverged=1), {1: 200}), measured(None, {})
    ('diverged\\nafter 200 rows', '0.500\\n1 of 2 runs', '-')
    """
    if value is None and ends:
        rows = min(ends.values())
        return f"diverged\nafter {rows:,} rows" if rows else "diverged\nat once"
    return "\n".join(filter(None, (cell(value), value.counted if value else "")))


def signed(difference: float | None, digits: int = 3) -> str:
    """A difference with its sign.

    >>> signed(0.01), signed(-0.2), signed(None)
    ('+0.010', '-0.200', '-')
    """
    return "-" if difference is None else f"{difference:+.{digits}f}"


def seconds(value: float | None) -> str:
    """Seconds to three digits, without the unit.

    >>> seconds(0.01234), seconds(97.59), seconds(25000), seconds(None)
    ('0.0123', '97.6', '25,000', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def over(study: Study) -> str:
    """Number of runs that the figures of a study are averaged over, as words for captions."""
    runs = study.scale.runs
    return f"mean ± standard deviation over {runs} runs" if runs > 1 else "one run"


def words(names: Sequence[str]) -> str:
    """A list as it is written in a sentence.

    >>> words(["a"]), words(["a", "b"]), words(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def survivors(found: Iterable[tuple[str, Value | None]]) -> str:
    """A sentence that names the figures from which diverged runs are missing, "" where there are none.

    >>> survivors([("OKH, 8 bits", Value((0.5,), diverged=2)), ("LSH, 8 bits", Value((0.4,)))])
    'Without the runs that diverged: OKH, 8 bits (1 of 3 runs).'
    """
    some = [f"{what} ({value.counted})" for what, value in found if value is not None and value.counted]
    return f"Without the runs that diverged: {'; '.join(some)}." if some else ""
