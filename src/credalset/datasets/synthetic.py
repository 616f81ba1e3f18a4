"""The paper's synthetic data: a softmax model with known label distributions and simulated annotators."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import softmax

from credalset._typing import FloatArray, IntArray, RandomState
from credalset._validation import as_generator, as_positive_int, check_choice
from credalset.datasets.download import ENVIRONMENT, DataNotFoundError, data_folder, reading

#: files of the authors' own points, by number of classes
AUTHORS_FILES = {k: f"synthetic_1500_points_{k}_classes.npz" for k in (3, 4, 6, 8, 10)}


@dataclass(frozen=True, repr=False)
class SyntheticData:
    """Features, true label distributions and simulated votes.

    Attributes
    ----------
    X : ndarray of shape (N, d)
        Standard normal features.
    distributions : ndarray of shape (N, K)
        The true label distributions.
    counts : ndarray of shape (N, K)
        Votes of simulated annotators.
    """

    X: FloatArray
    distributions: FloatArray
    counts: IntArray

    def __repr__(self) -> str:
        n_items, n_classes = self.distributions.shape
        votes = int(self.counts[0].sum()) if n_items else 0
        return f"SyntheticData: {n_items} items, {self.X.shape[1]} features, {n_classes} classes, {votes} votes each"


def make_synthetic(
    n_items: int = 1500,
    n_classes: int = 3,
    *,
    n_features: int = 10,
    n_votes: int = 100,
    random_state: RandomState = None,
) -> SyntheticData:
    r"""Generate the paper's synthetic data.

    $x \sim N(0, I_d)$, $\beta \sim N(0, 1)^{d \times K}$, $\lambda = \mathrm{softmax}(x^T \beta)$, and
    ``n_votes`` multinomial annotations per item.

    Parameters
    ----------
    n_items, n_classes, n_features : int
        Size of the problem; the paper uses 1500 items, 3 to 10 classes and 10 features.
    n_votes : int
        Simulated annotators per item.
    random_state : int, Generator or None
        Source of randomness.

    Examples
    --------
    >>> make_synthetic(100, n_classes=4, n_votes=5, random_state=0)
    SyntheticData: 100 items, 10 features, 4 classes, 5 votes each
    """
    for name, value in [("n_items", n_items), ("n_features", n_features), ("n_votes", n_votes)]:
        as_positive_int(value, name)
    if as_positive_int(n_classes, "n_classes") < 2:
        raise ValueError(f"n_classes must be at least 2, but is {n_classes}.")
    generator = as_generator(random_state)
    X = generator.standard_normal((n_items, n_features))
    logits = X @ generator.standard_normal((n_features, n_classes))
    distributions = softmax(logits, axis=1)
    counts = generator.multinomial(n_votes, distributions).astype(np.int64)
    return SyntheticData(X, distributions, counts)


def load_synthetic(n_classes: int = 3, n_votes: int = 100, data_dir: str | Path | None = None) -> SyntheticData:
    """Load the points that the paper's authors drew, from files in the data folder.

    Parameters
    ----------
    n_classes : {3, 4, 6, 8, 10}
        Which file, ``synthetic_1500_points_{n_classes}_classes.npz``.
    n_votes : {1, 5, 10, 50, 100, 200, 1000}
        Which of its simulated annotations.
    data_dir : path, optional
        Folder with the files; by default ``CREDALSET_DATA``, or a cache in the home folder.

    Examples
    --------
    >>> load_synthetic(4, n_votes=5)  # doctest: +SKIP
    SyntheticData: 1500 items, 10 features, 4 classes, 5 votes each
    """
    check_choice(n_classes, "n_classes", AUTHORS_FILES)
    path = data_folder(data_dir) / AUTHORS_FILES[n_classes]
    if not path.is_file():
        raise DataNotFoundError(
            f"there is no {path}, and the authors' points have no public source in this format. Put the file there, "
            f"name its folder with data_dir or {ENVIRONMENT}, or draw points with make_synthetic."
        )
    with reading(path, f"X, W and W_m{n_votes}") as arrays:
        known = sorted(int(name[3:]) for name in arrays if name.startswith("W_m"))
        parts = [arrays[name] for name in ("X", "W", f"W_m{n_votes}")] if n_votes in known else []
    check_choice(n_votes, "n_votes", known)
    X, truth, shares = parts
    counts = np.rint(shares.astype(np.float64) * n_votes).astype(np.int64)
    return SyntheticData(X.astype(np.float64), truth.astype(np.float64), counts)
