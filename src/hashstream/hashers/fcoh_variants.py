"""The two ablations of the FCOH paper, each without one of its ideas: FCOH_S and FCOH_C.

They exist to be compared with FCOH (`hashstream paper table-variants`). The paper defines them in words only, so both
are readings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.fcoh import FCOH, MAX_PASSES, PAPER
from hashstream.hashers.fcoh_steps import ClassStep, Move, Rate, Rows, class_steps, quadratics, walk
from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.registry import register
from hashstream.hashers.validation import check_count, check_number, settings_for

__all__ = ["FCOH_C", "FCOH_S"]


@register
class FCOH_S(FCOH):
    """FCOH without class-wise updating: one step per batch, along the sum of the classes' gradients.

    Parameters and attributes are those of `FCOH`, from which it differs in the second order of the step size.
    """

    variant_of = "FCOH"
    class_wise = False


@register
class FCOH_C(FCOH):
    """FCOH without semi-relaxation: the codes of a class are found bit by bit, then W is fitted to them.

    Each class takes its turn as in FCOH. Its step minimises the same objective over the codes themselves, by discrete
    cyclic coordinate descent, and then moves W by a ridge regression that starts from the current W. There is no
    gradient, so no step size, no scaling of it and no averaging.

    Parameters
    ----------
    n_bits, lambda1, lambda2, batch_size, init, feature_map, random_state
        As in `FCOH`.
    sweeps : int
        Number of sweeps over the bits, at most 100.
    fit_weight : float
        nu, weight of the fit of W to the codes.
    ridge : float
        Weight of the change of W, in units of the mean squared length of a row.
    """

    variant_of = "FCOH"
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        name: values for name, values in FCOH.tuning_grid.items() if name != "learning_rate"
    }
    # Parameters of FCOH that are constants here: a step of 1, so that W moves as far as the regression says.
    learning_rate = 1.0
    gradient_scale = "none"
    passes = 1
    horizon = 1

    def __init__(
        self,
        n_bits: int = 32,
        *,
        lambda1: float = 0.1,
        lambda2: float | Literal["balanced"] = "balanced",
        batch_size: int = 100,
        sweeps: int = 3,
        fit_weight: float = 1.0,
        ridge: float = 10.0,
        init: ArrayLike | None = None,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.batch_size = batch_size
        self.sweeps = sweeps
        self.fit_weight = fit_weight
        self.ridge = ridge
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    @classmethod
    def from_paper(cls, dataset: str, n_bits: int, **changes: Any) -> Self:
        """Batch size and lambdas of `FCOH.from_paper`; the paper has no settings for this variant."""
        return cls(n_bits, **{**settings_for(dataset, PAPER), **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("sweeps", self.sweeps, 1, MAX_PASSES)
        check_number("fit_weight", self.fit_weight)
        check_number("ridge", self.ridge)

    def _remedy(self) -> str:
        return f"ridge={self.ridge!r} is too small for this data; take a larger one"

    def _steps(self, rows: Rows, K: np.ndarray, P: np.ndarray) -> np.ndarray:
        if rows.indicator is None:
            steps = list(class_steps(self._batch(rows, K, P)))
        else:
            steps = self._label_steps(rows)
        energy = float(K.diagonal()[: rows.n].sum()) / rows.n or 1.0  # mean squared length of a sample
        move = discrete(K, self.fit_weight, self.ridge * energy, self.sweeps)
        return walk(K, P, steps, move, Rate(False, self.learning_rate))


def discrete(K: np.ndarray, fit_weight: float, ridge: float, sweeps: int) -> Move:
    """The step of FCOH_C in batch space.

    b_k <- sgn(q_k + nu p_k - sum over l != k of M_kl b_l), bit after bit, `sweeps` times over, with
    M = l1 B_c B_c^T + l2 B_n B_n^T and q = r (l1 B_c 1 - l2 B_n 1). Then W moves by
    X_c^T (K_cc + (ridge / nu) I)^-1 (B - P_c), which balances the size of the change against the error.
    """

    def move(P: np.ndarray, B: np.ndarray, step: ClassStep) -> tuple[np.ndarray, np.ndarray, float]:
        codes = B[step.rows].copy()
        for rows, H, g in quadratics(B, step):
            at = np.searchsorted(step.rows, rows)
            M, q, b = H / 2, g / 2, codes[at]
            wish = q + fit_weight * P[rows]
            for _ in range(sweeps):
                for k in range(len(M)):
                    b[:, k] = np.where(wish[:, k] - b @ M[:, k] + b[:, k] * M[k, k] > 0, 1, -1)
            codes[at] = b
        Kcc = K[np.ix_(step.rows, step.rows)]
        damped = Kcc + (ridge / fit_weight) * np.eye(len(Kcc), dtype=K.dtype)
        wanted = np.linalg.solve(damped, codes - P[step.rows])
        return -wanted.astype(P.dtype), np.zeros(P.shape[1], P.dtype), 0.0

    return move
