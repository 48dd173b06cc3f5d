"""Which of the paper's figures may stand beside a data set's, and how cells and sentences of a section are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hashstream.datasets import CATALOGUE
from hashstream.paper.lineup import COMPARABLE, PAPER, SETTINGS_OF, STANDS_FOR
from hashstream.paper.study import Study, Value

__all__ = [
    "NAMES",
    "cell",
    "column",
    "counterpart",
    "figures_of",
    "measured",
    "on_the_data",
    "over",
    "seconds",
    "signed",
    "survivors",
    "words",
]

NAMES = {name: CATALOGUE[name].title for name in PAPER}
FEATURES = {"cifar10": "VGG-16 features", "tinyimagenet200": "Places205"}
"""Of what the paper's figures are beside a data set that stands for one of the paper's."""


def counterpart(dataset: str) -> tuple[str, bool]:
    """The paper's data set whose settings one is given ("" for none), and whether their figures may be compared.

    >>> counterpart("mnist"), counterpart("digits"), counterpart("my data")
    (('mnist', True), ('mnist', False), ('', False))
    """
    name = SETTINGS_OF.get(dataset, dataset)
    return (name if name in NAMES else "", dataset in COMPARABLE)


def figures_of(dataset: str) -> str:
    """The paper's data set whose figures may be shown beside one: its own, or the one that it stands for; else "".

    >>> figures_of("mnist"), figures_of("tinyimagenet200"), figures_of("digits"), figures_of("fashion-mnist")
    ('mnist', 'places205', '', '')
    """
    return COMPARABLE.get(dataset) or STANDS_FOR.get(dataset, "")


def column(dataset: str) -> str:
    """What the paper's figures are called beside a data set: with the data, where these are others.

    >>> column("mnist"), column("tinyimagenet200"), column("cifar10")
    ('paper', 'paper, Places205', 'paper, VGG-16 features')
    """
    return f"paper, {FEATURES[dataset]}" if dataset in STANDS_FOR else "paper"


def on_the_data(dataset: str) -> tuple[str, ...]:
    """A note where the paper's figures are of other data than ours; none where they may be compared.

    >>> on_the_data("mnist")
    ()
    >>> on_the_data("digits")
    ('The paper has no figures for digits. Methods have its settings for MNIST.',)
    """
    name, comparable = counterpart(dataset)
    if comparable:
        return ()
    if not figures_of(dataset):
        settings = f" Methods have its settings for {NAMES[name]}." if name else ""
        return (f"The paper has no figures for {dataset}.{settings}",)
    return (
        f"The paper's figures are of its {NAMES[name]} features, ours of {dataset}: they stand here as a landmark, "
        "and no difference is taken.",
    )


# ---- cells


def cell(value: Value | float | None, digits: int = 3) -> str:
    """A figure as a sheet shows it, with a dash for what was not measured.

    >>> cell(None), cell(0.5), cell(Value((0.5, 0.7)))
    ('-', '0.500', '0.600 ± 0.141')
    """
    if value is None:
        return "-"
    return str(value) if isinstance(value, Value) else f"{value:.{digits}f}"


def measured(value: Value | None, ends: Mapping[int, int]) -> str:
    """A cell for a figure that runs may not have lived to see: what was lost stands in a line below.

    ends: run -> after how many rows it diverged, as `Study.divergences` has it.

    >>> measured(None, {0: 300, 1: 200}), measured(Value((0.5,), diverged=1), {1: 200}), measured(None, {})
    ('diverged\\nafter 200 rows', '0.500\\n1 of 2 runs', '-')
    """
    if value is None and ends:
        rows = min(ends.values())
        return f"diverged\nafter {rows:,} rows" if rows else "diverged\nat once"
    if value is None:
        return "-"
    return f"{value}\n{value.counted}" if value.counted else str(value)


def signed(difference: float | None, digits: int = 3) -> str:
    """A difference with its sign.

    >>> signed(0.01), signed(-0.2), signed(None)
    ('+0.010', '-0.200', '-')
    """
    return "-" if difference is None else f"{difference:+.{digits}f}"


def seconds(value: float | None) -> str:
    """
    >>> seconds(0.01234), seconds(97.59), seconds(25000), seconds(None)
    ('0.0123', '97.6', '25,000', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# ---- sentences


def over(study: Study) -> str:
    """What figures of a study are, for captions."""
    runs = study.scale.runs
    return f"mean ± standard deviation over {runs} runs" if runs > 1 else "one run"


def words(names: Sequence[str]) -> str:
    """
    >>> words(["a"]), words(["a", "b"]), words(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def survivors(found: Iterable[tuple[str, Value | None]]) -> str:
    """Which of these figures, by what they are of, leave out runs that diverged; "" where none does.

    >>> survivors([("OKH, 8 bits", Value((0.5,), diverged=2)), ("LSH, 8 bits", Value((0.4,)))])
    'Without the runs that diverged: OKH, 8 bits (1 of 3 runs).'
    """
    some = [f"{what} ({value.counted})" for what, value in found if value is not None and value.counted]
    return f"Without the runs that diverged: {'; '.join(some)}." if some else ""
