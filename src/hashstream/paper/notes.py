"""Known reasons why figures here differ from the paper's, each with its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Note:
    """A text, and patterns of what it applies to: as of file names, alternatives separated by "|".

    datasets: names of data sets. methods: names of methods, without settings. metrics: "mAP", "mAP@1000",
    "precision@H2", "precision@K", "AUC of mAP", "AUC of precision@K", and "early mAP" at the first checkpoint.
    """

    datasets: str
    methods: str
    metrics: str
    text: str


def matching(dataset: str, methods: Iterable[str], metrics: Iterable[str]) -> tuple[str, ...]:
    """The texts that apply to a data set, any of these methods and any of these metrics.

    >>> [text[:3] for text in matching("digits", ["OSH"], ["mAP"])]
    ['OSH', 'Tie']
    """
    methods, metrics = list(methods), list(metrics)

    def fits(pattern: str, names: Iterable[str]) -> bool:
        return any(fnmatchcase(name, part) for part in pattern.split("|") for name in names)

    return tuple(
        note.text
        for note in NOTES
        if fits(note.datasets, [dataset]) and fits(note.methods, methods) and fits(note.metrics, metrics)
    )


NOTES = (
    Note(
        "mnist|fashion-mnist|digits",
        "FCOH",
        "mAP|early mAP|AUC of mAP",
        "FCOH (paper): the paper contradicts itself on the learning rate. Its table of settings prints 0.01 for MNIST, "
        "its text 0.1. Taken literally (plain sums over the batch), on MNIST 0.1 diverges at every code length, and "
        "0.01 gives an mAP of 0.54 to 0.62 that falls with the length, and diverges at 128 bits. FCOH (paper) "
        "therefore divides the two inner-product terms by the number of bits, with 0.1: of the readings that stay "
        "finite, the closest to the printed mAP. It was chosen by the scores on one split. FCOH (auto), our default, "
        "chooses its own step size.",
    ),
    Note(
        "cifar10*",
        "FCOH",
        "mAP|early mAP|AUC of mAP",
        "FCOH (paper): the paper contradicts itself on the learning rate. Its table of settings prints 0.1 for "
        "CIFAR-10, its text 0.01. FCOH (paper) takes the printed equations with the text's 0.01, which stay finite at "
        "every code length. FCOH (auto), our default, chooses its own step size.",
    ),
    Note(
        "places205|tinyimagenet200",
        "FCOH",
        "mAP@1000|early mAP@1000|AUC of mAP@1000",
        "FCOH (paper) uses the printed equations and the printed learning rate, 0.0001, on which table and text agree "
        "for Places205. The batch size is the 1,000 of the table of settings; the text on efficiency says 2,000, but "
        "the printed time of 100 table updates implies 1,000. FCOH (auto), our default, chooses its own step size.",
    ),
    Note(
        "*",
        "OSH",
        "*",
        "OSH: the paper's row is near chance, and so is OSH (state lost). The published test bench forgets between "
        "one step and the next which class has which codeword, so that every sample of every class is drawn towards "
        "the same one: on MNIST at 32 bits that code gave 0.143 and 0.132 in two runs, and the paper prints 0.130. "
        "OSH without that loss is the method that its authors describe.",
    ),
    Note(
        "*",
        "SketchHash",
        "*",
        "SketchHash: the published test bench loses its sketch after each batch, too (state lost). Its mAP does not "
        "tell the two forms apart, so it is unknown which of them the paper shows. The paper has no figures for 64 "
        "and 128 bits because the test bench requires batches of at least as many rows as bits, and batches had 50; "
        "the method itself has no such limit.",
    ),
    Note(
        "mnist",
        "HCOH|MIHash",
        "early mAP|AUC of mAP",
        "HCOH and MIHash after 2,000 instances: the paper's text gives 0.329 and 0.323 at 64 bits. An untrained "
        "projection has 0.326 and 0.322 (two draws); the HCOH authors' own program has 0.692 after 2,000 instances, "
        "and a port of MIHash that was checked against its authors' code 0.630. The public test bench evaluates its "
        "first checkpoint before any training, so a first point with a wrong label is a likely cause, but not a "
        "proven one. The large early lead over HCOH and MIHash is not found here, and the AUC, which counts the first "
        "point like any other, shrinks with it.",
    ),
    Note(
        "mnist|fashion-mnist|cifar10*|places205|tinyimagenet200",
        "BSODH",
        "early mAP*|AUC of mAP*",
        "BSODH learns nothing from its first batch of 2,000 rows (5,000 with the settings of Places205): it only "
        "stores codes. Its first point is an untrained projection by construction.",
    ),
    Note(
        "mnist|places205|tinyimagenet200",
        "BSODH",
        "mAP|mAP@1000|precision@H2",
        "BSODH: the paper prints (lambda, sigma) = (0.9, 0.8) for MNIST and (0.3, 0.5) for Places205; the program of "
        "BSODH's authors has the two swapped, and its settings are used here. On MNIST at 32 bits both give the same "
        "mAP (0.710 and 0.708 with the authors' program), 0.03 to 0.04 below the paper's.",
    ),
    Note(
        "digits",
        "BSODH",
        "*",
        "BSODH: its batch of 2,000 rows is longer than the whole stream of digits, so it learns at each checkpoint "
        "from the rows since the last one.",
    ),
    Note(
        "digits|*.npz|*.npy|*.mat",
        "HMOH|OKH|RidgeHash",
        "*",
        "Methods with kernels choose their anchors among the rows before the first checkpoint. Where these are few "
        "(digits has 100), HMOH has as many anchors, and OKH half as many, instead of 300, and RidgeHash (RBF) as many "
        "instead of 1,000.",
    ),
    Note(
        "*",
        "RidgeHash",
        "*",
        "RidgeHash (RBF) has features of 1,000 Gaussian kernels: its input is not that of RidgeHash and the other "
        "linear methods.",
    ),
    Note(
        "mnist",
        "MIHash",
        "mAP|AUC of mAP",
        "MIHash is evaluated with its current hash functions, in the paper with those of the last table that its gate "
        "accepted. The authors' program, with its gate, has 0.771 on MNIST at 32 bits, a port without the gate 0.777; "
        "the paper prints 0.744.",
    ),
    Note(
        "*",
        "OKH",
        "mAP|mAP@1000|precision@H2",
        "OKH: the learner of the public code is obfuscated, so ours follows the publication, and the meaning of its "
        "tolerance alpha is our reading.",
    ),
    Note(
        "*",
        "HMOH",
        "*",
        "HMOH has the settings of its authors' script, which for data like MNIST and Places205 are features of 300 or "
        "800 Gaussian kernels: its input is not that of the linear methods.",
    ),
    Note(
        "*",
        "ClassifierHash",
        "*",
        "ClassifierHash uses the number of the predicted class as a code: not a way to search, but a reminder that "
        "retrieval by label, for classes that were learned, is classification.",
    ),
    Note(
        "*",
        "*",
        "precision@H2",
        "Precision@H2 is reproduced less well than mAP, also by the authors' own programs: on MNIST AdaptHash has "
        "0.67 at 32 bits where the paper prints 0.535, HCOH 0.778 at 64 bits (0.643), BSODH 0.718 at 64 bits (0.814). "
        "With long codes few items are within distance 2, and a query that finds none counts as 0.",
    ),
    Note(
        "*",
        "*",
        "mAP|mAP@1000",
        "Ties keep the order of the database, as in the reference code, because the paper's figures follow that rule. "
        "Short codes have many ties: for an 8-bit random projection on MNIST mAP is 0.189 as the mean over all "
        "orders, 0.205 in a shuffled order and 0.217 in the order of the labels.",
    ),
    Note(
        "*",
        "*",
        "AUC of *",
        "The paper does not say how it computes an area under a curve. Here, as in the public test bench, it is the "
        "mean of the curve's points.",
    ),
    Note(
        "cifar10*",
        "*",
        "mAP",
        "The paper's text says that BSODH is better than FCOH at 16 bits on CIFAR-10; in its table HCOH is (0.698), "
        "BSODH has 0.604.",
    ),
    Note(
        "places205|tinyimagenet200",
        "*",
        "precision@H2",
        "The paper's 12.51 % for precision@H2 takes BSODH's 0.212 as second best at 64 bits, though OKH has 0.217 in "
        "the same table; with that it is about 12.1 %.",
    ),
)
"""In the order in which a report shows them."""
