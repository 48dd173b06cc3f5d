"""Running means of classes. Rows are replaced, never written into, so that a failed call can be undone."""

from __future__ import annotations

import numpy as np


def update_means(
    means: list[np.ndarray],
    counts: np.ndarray,
    known: int,
    classes: np.ndarray,
    n_c: np.ndarray,
    sums: np.ndarray,
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """xbar_c <- (N_c xbar_c + sum of the new samples) / (N_c + n_c), for the classes of a batch.

    means : (d,) for each class so far. counts : (len(means),) N_c. known : how many classes there are now; a class that
    was never seen has N_c = 0, at whatever batch it comes. classes : the batch's. n_c : samples of each.
    sums : (classes, d). Returns the new means and counts of all classes, and the means of `classes`, (classes, d).
    Apart from copying references and counts, the cost does not grow with the classes that the batch lacks.
    """
    new = known - len(means)
    means = means + [np.zeros(sums.shape[1], sums.dtype)] * new
    counts = np.concatenate([counts, np.zeros(new, np.int64)])
    counts[classes] += n_c
    old = np.array([means[c] for c in classes], sums.dtype).reshape(sums.shape)
    share = (1 / counts[classes]).astype(sums.dtype)[:, None]
    current: np.ndarray = sums - n_c.astype(sums.dtype)[:, None] * old
    current *= share
    current += old
    for c, mean in zip(classes, current, strict=True):
        means[c] = mean.copy()  # a view would keep the whole batch's means alive
    return means, counts, current
