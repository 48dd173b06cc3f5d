"""fig-precision-k: precision of the first K answers at the end of the stream, at each code length."""

from __future__ import annotations

from hashstream.paper.accuracy import (
    at_the_end,
    measure,
    no_finding,
    no_verdict,
    notes_on,
    paper_methods,
    unmeasured,
    value_sheet,
)
from hashstream.paper.accuracy_plots import along_the_ranking, panels
from hashstream.paper.format import words
from hashstream.paper.section import Experiment, Section, Verdict
from hashstream.paper.study import Study, Value

NAME = "fig-precision-k"


def show(study: Study) -> Section:
    drawn = panels(
        study,
        NAME,
        along_the_ranking(study),
        x="K",
        y="precision@K",
        title="Precision of the first K answers",
    )
    sheets = tuple(
        value_sheet(
            study,
            f"precision@{k}, after {study.stream:,} training instances",
            study.contestants,
            at_the_end(study, f"precision@{k}"),
        )
        for k in (10, 100)
    )
    return Section(
        NAME,
        "Precision@K",
        "FCOH has the best precision@K on CIFAR-10 and Places205, most visibly from 48 bits on; on MNIST, where "
        "from 32 bits on all good methods are near 90 %, it is competitive.",
        _finding(study),
        sheets,
        drawn.figures,
        drawn.captions,
        notes_on(study, "precision@K"),
        *_verdict(study),
        points=drawn.points,
    )


def _finding(study: Study) -> str:
    sentences, who = [], {}
    for bits, found in _at_100(study).items():
        who.update(found)
        best = max(found, key=lambda title: found[title].mean)
        sentences.append(f"{bits} bits {best} {found[best].told}")
    if not sentences:
        return no_finding(study)
    return f"The best precision@100 among {words(list(who))}: {', '.join(sentences)}."


def _at_100(study: Study) -> dict[int, dict[str, Value]]:
    """Bits -> title -> precision@100, of the paper's methods."""
    value = at_the_end(study, "precision@100")
    every = {
        bits: {one.title: at for one in paper_methods(study) if (at := value(one, bits))}
        for bits in study.scale.bits
    }
    return {bits: found for bits, found in every.items() if found}


def _verdict(study: Study) -> tuple[Verdict, str]:
    """The claim is to be best on two data sets and competitive on MNIST: first, or within 0.01, at most lengths."""
    near, lengths = 0, _at_100(study)
    if not any(title.startswith("FCOH") for found in lengths.values() for title in found):
        return "undecided", no_verdict(study)
    for found in lengths.values():
        ours = next((v.mean for title, v in found.items() if title in ("FCOH (paper)", "FCOH")), 0.0)
        rivals = [v.mean for title, v in found.items() if not title.startswith("FCOH")]
        near += ours >= max(rivals, default=0.0) - 0.01
    brief = f"FCOH (paper) is best, or within 0.01 of the best other method, at {near} of {len(lengths)} code lengths"
    if missing := unmeasured(study, at_the_end(study, "precision@100")):
        return "undecided", f"{brief} (no figures of {words(missing)})."
    return ("holds" if 2 * near > len(lengths) else "holds in part" if near else "does not hold"), f"{brief}."


EXPERIMENT = Experiment(NAME, "precision@K for K = 1 to 100, at each code length", measure, show)
