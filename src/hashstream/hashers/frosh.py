"""FROSH: FasteR Online Sketching Hashing (Chen, King and Lyu, UAI 2017; Chen, Yang, Zhao, King and Lyu, 2020,
"Making Online Sketching Hashing Even Faster", arXiv 2010.04948).

`SketchHash` decomposes its sketch B (l x d) again for every l/2 rows. FROSH first compresses a whole chunk A of q rows
to m = l/2, by a subsampled randomised Hadamard transform that is drawn again for each chunk, and decomposes once:

    Phi = sqrt(q / m) S H D      S: m of q rows drawn, H: Hadamard matrix of order q over sqrt(q), D: random signs
    B  <- [B; Phi A],  S V^T <- B,  all squared singular values lowered by the (l/2)-th
    V = first r right singular vectors of B,   W = V Q,   as in `SketchHash`, and so is the running mean m

E[Phi^T Phi] = I, so Phi A stands for A without bias; transforms that are independent between chunks let their errors
cancel along the stream (with one transform for all they would add up).

Read from the publications' abstracts and from the method's description elsewhere; where a detail was open:

- Rows are drawn without replacement.
- A chunk that is no power of two is taken as followed by rows of zeros.
- The row that carries the movement of the mean, c (mu - m) with c^2 = N b / (N + b), is not appended to the chunk,
  where it would make q + 1 rows of q: the centred rows sum to zero, so adding (c / sqrt(b)) (mu - m) to each
  of the b rows gives the same A^T A.
- A chunk of at most l/2 rows is inserted as it is: nothing is gained by compressing it.
- V is taken before the lowering, which leaves its first l/2 - 1 columns and would erase the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import linalg
from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.labels import Labels
from hashstream.hashers.registry import register
from hashstream.hashers.sketch import PAPER_SIZES, Sketch, SketchingHasher, centred
from hashstream.hashers.state_fields import Field
from hashstream.hashers.validation import settings_for

__all__ = ["FROSH", "compress", "walsh_hadamard"]

RADIX = 32
"""Order of the Hadamard matrices that a transform is made of: small enough to cost little, large enough for BLAS."""


@register
class FROSH(SketchingHasher):
    """Faster online sketching hashing: `SketchHash` with every chunk compressed by a random Hadamard transform first.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    sketch_size : int
        l, rows of the sketch; even. Chunks are compressed to l/2 rows.
    batch_size : int
        q, rows of a chunk; a power of two wastes nothing. The longer, the less time per row, and the more of the
        stream goes into one compression. A call of `partial_fit` with fewer rows is a chunk of its own.
    init : (d, n_bits) array, optional
        W before the first chunk, which the first chunk replaces: only its shape is checked.
    feature_map, random_state
        As in every method.

    Attributes
    ----------
    projection_, mean_
        W and m, as in `SketchHash`.
    sketch_, sketch_squares_, sketch_taken_, sketch_lost_
        B after the lowering. `sketch_lost_` bounds what the lowering took, not the error of the compression.

    Notes
    -----
    **Error.** |A^T A - B^T B| is at most the 2 / l of |A|_F^2 that frequent directions lose, plus the error of the
    compression, which falls with the square root of the number of chunks. On short streams `SketchHash` is more exact.

    **Corner cases** are those of `SketchHash`: fewer directions than bits are completed by random ones, chunks of one
    row and single or late classes are nothing special, any number of bits is possible.

    **Cost** per chunk of q rows: O(q d log q + d l^2 + l^3); `SketchHash` needs O(q d l) for the same rows.

    Examples
    --------
    >>> import hashstream as hs
    >>> from sklearn.datasets import load_digits
    >>> from hashstream.hashers.frosh import FROSH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = FROSH(n_bits=24, sketch_size=60, batch_size=256, random_state=0).fit(X[:1500])
    >>> codes = hasher.transform(X)
    >>> codes.shape, hasher.version_
    ((1797, 3), 6)
    >>> scores = hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500])
    >>> scores["mAP"] > 0.4
    True
    """

    reference = "Chen et al., UAI 2017"
    state_size = "d r + l d / 2"
    colour = "#a06a3b"
    marker = "<"
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "sketch_size": (100, 200, 400),
        "batch_size": (256, 1024, 4096),
    }
    state_fields: ClassVar[dict[str, Field]] = {}  # nothing beyond what `SketchingHasher` declares

    def __init__(
        self,
        n_bits: int = 32,
        *,
        sketch_size: int = 200,
        batch_size: int = 1024,
        init: ArrayLike | None = None,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.sketch_size = sketch_size
        self.batch_size = batch_size
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    @classmethod
    def from_paper(cls, dataset: str, n_bits: int, **changes: Any) -> Self:
        """The sketch sizes that the FCOH paper gives `SketchHash` on "mnist", "cifar10" or "places205".

        The paper names FROSH among the methods it compares with, but no table has it and no settings are printed. The
        chunk of 1,024 rows is our choice.
        """
        return cls(
            n_bits, **{"sketch_size": settings_for(dataset, PAPER_SIZES), "batch_size": 1024, **changes}
        )

    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        half = self.sketch_size // 2
        A, between, mean = centred(X, self.mean_, self.n_seen_)
        A += between / X.dtype.type(np.sqrt(len(X)))
        if len(A) > half:
            A = compress(A, half, self.rng_)
        sketch = Sketch.of(self, self.sketch_size).insert(A).ordered()
        self._aim(sketch)
        self.mean_ = mean
        sketch.shrunk(half - 1).keep(self)
        return 1


def compress(A: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Phi A (m, d): a fresh subsampled randomised Hadamard transform of the rows of A (n, d), n >= m."""
    n, d = A.shape
    q = 1 << (n - 1).bit_length()
    signs = (2 * rng.integers(2, size=n, dtype=np.int8) - 1).astype(A.dtype)
    padded = np.zeros((q, d), A.dtype)
    np.multiply(signs[:, None], A, out=padded[:n])
    rows = np.sort(rng.choice(q, m, replace=False))
    # sqrt(q / m) / sqrt(q): the Hadamard matrix below has entries of -1 and +1.
    sampled: np.ndarray = walsh_hadamard(padded)[rows] * A.dtype.type(1 / np.sqrt(m))
    return sampled


def walsh_hadamard(A: np.ndarray) -> np.ndarray:
    """H A for the Hadamard matrix H of -1 and +1 whose order is the number of rows of A (q, d), a power of two.

    H of order q is the Kronecker product of H of small orders, so it is applied as one small matrix along each axis
    of A seen as a stack: O(q d log q), in products that BLAS does at full speed.
    """
    q, d = A.shape
    order, stride = q, 1
    while order > 1:
        radix = min(RADIX, order)
        H = linalg.hadamard(radix, A.dtype)
        A = H @ A.reshape(q // (radix * stride), radix, stride * d)
        order, stride = order // radix, stride * radix
    return A.reshape(q, d)
