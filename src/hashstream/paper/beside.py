"""Which of the paper's figures may stand beside a data set's, and how cells of a sheet are written."""

from __future__ import annotations

from hashstream.paper.lineup import COMPARABLE, SETTINGS_OF
from hashstream.paper.study import Study, Value

__all__ = ["cell", "counterpart", "divergences", "on_the_data", "outcome", "over", "signed"]

NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "places205": "Places205"}


def counterpart(dataset: str) -> tuple[str, bool]:
    """The paper's data set that stands beside one ("" for none), and whether their figures may be compared.

    >>> counterpart("mnist"), counterpart("digits"), counterpart("my data")
    (('mnist', True), ('mnist', False), ('', False))
    """
    name = SETTINGS_OF.get(dataset, dataset)
    return (name if name in NAMES else "", dataset in COMPARABLE)


def on_the_data(dataset: str) -> tuple[str, ...]:
    """A note where the paper's figures are of other data than ours; none where they may be compared.

    >>> on_the_data("mnist")
    ()
    """
    name, comparable = counterpart(dataset)
    if comparable:
        return ()
    if not name:
        return (f"The paper has no figures for {dataset}.",)
    return (
        f"The paper's figures are of its {NAMES[name]} features, ours of {dataset}: they stand here as a landmark, "
        "and no difference is taken.",
    )


def cell(value: Value | float | None, digits: int = 3) -> str:
    """A figure as a sheet shows it, with a dash for what was not measured.

    >>> cell(None), cell(0.5), cell(Value((0.5, 0.7)))
    ('-', '0.500', '0.600 ± 0.141')
    """
    if value is None:
        return "-"
    return str(value) if isinstance(value, Value) else f"{value:.{digits}f}"


def signed(difference: float | None, digits: int = 3) -> str:
    """A difference with its sign.

    >>> signed(0.01), signed(-0.2), signed(None)
    ('+0.010', '-0.200', '-')
    """
    return "-" if difference is None else f"{difference:+.{digits}f}"


def divergences(study: Study, label: str, bits: int, protocol: str = "paper") -> list[int]:
    """After how many rows a method could not go on, for each of the scale's runs in which this happened."""
    ends = (
        study.results.diverged(dataset=study.dataset, protocol=protocol, method=label, bits=bits, run=run)
        for run in range(study.scale.runs)
    )
    return [end for end in ends if end is not None]


def outcome(study: Study, label: str, metric: str, bits: int, n_train: int | None = None) -> str:
    """A cell for a metric under the paper's protocol that says so where runs diverged before it could be measured."""
    value = study.values(label, metric, bits=bits, n_train=n_train)
    until = study.field.setting.stream if n_train is None else n_train
    lost = [end for end in divergences(study, label, bits) if end < until]
    if not lost:
        return cell(value)
    if value is None:
        return f"diverged after {min(lost):,} rows"
    return f"{value} ({len(lost)} of {study.scale.runs} runs diverged)"


def over(study: Study) -> str:
    """What figures of a study are, for captions."""
    runs = study.scale.runs
    return f"mean ± standard deviation over {runs} runs" if runs > 1 else "one run"
