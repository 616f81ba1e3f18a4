"""The paper's synthetic data: a softmax model of known distributions, simulated annotators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from credalset._typing import FloatArray, IntArray, RandomState
from credalset._validation import as_generator, as_positive_int


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
        return (
            f"SyntheticData: {n_items} items, {self.X.shape[1]} features, {n_classes} "
            f"classes, {votes} votes each"
        )


def make_synthetic(
    n_items: int = 1500,
    n_classes: int = 3,
    *,
    n_features: int = 10,
    n_votes: int = 100,
    random_state: RandomState = None,
) -> SyntheticData:
    r"""Generate the synthetic data of the paper [1]_.

    $x \sim N(0, I_d)$, $\beta \sim N(0, 1)^{d \times K}$, $\lambda = \mathrm{softmax}(x^T \beta)$,
    and ``n_votes`` multinomial annotations per item.

    Parameters
    ----------
    n_items : int
        Number of items; the paper uses 1500.
    n_classes : int
        Number of classes K; the paper uses 3 to 10.
    n_features : int
        Number of features d; the paper uses 10.
    n_votes : int
        Number of simulated annotators per item.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    SyntheticData

    References
    ----------
    .. [1] Javanmardi, Stutz and Hüllermeier, "Conformalized Credal Set Predictors", NeurIPS 2024.

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


#: numbers of votes in the files that the authors published, in the order in which they were drawn
PUBLISHED_VOTES = (1, 5, 10, 50, 100, 200, 1000)
PUBLISHED_SEED = 200


def load_synthetic(n_classes: int = 3, n_votes: int = 10) -> SyntheticData:
    """Return the synthetic data that the authors of the paper published, of 1500 items.

    The files of their repository (``data/synthetic/1500_points_K_classes.pkl``) were drawn with a
    seed from NumPy's old generator, whose numbers never change, and are drawn again here: nothing
    has to be downloaded or unpickled. Features and votes are those of the files, distributions up
    to rounding. The paper splits the items at random into three parts of 500 for training,
    calibration and test.

    Parameters
    ----------
    n_classes : int
        Number of classes K; published are 3 to 10.
    n_votes : int
        Number of simulated annotators per item: 1, 5, 10, 50, 100, 200 or 1000.

    Returns
    -------
    SyntheticData

    See Also
    --------
    make_synthetic : draws new data of the same kind.

    Examples
    --------
    >>> data = load_synthetic(3, n_votes=5)
    >>> data, data.counts[0].tolist()
    (SyntheticData: 1500 items, 10 features, 3 classes, 5 votes each, [0, 5, 0])
    """
    if not 3 <= as_positive_int(n_classes, "n_classes") <= 10:
        raise ValueError(f"n_classes must be from 3 to 10, but is {n_classes}.")
    if n_votes not in PUBLISHED_VOTES:
        raise ValueError(
            f"n_votes must be one of {', '.join(map(str, PUBLISHED_VOTES))}, but is {n_votes!r}. "
            "Use make_synthetic for other numbers."
        )
    generator = np.random.RandomState(PUBLISHED_SEED)
    X = generator.normal(size=(1500, 10))
    weights = np.exp(X @ generator.normal(size=(10, n_classes)))
    distributions = weights / weights.sum(axis=1, keepdims=True)
    for m in PUBLISHED_VOTES[: PUBLISHED_VOTES.index(n_votes) + 1]:
        counts = np.array([generator.multinomial(m, one) for one in distributions])
    return SyntheticData(X, distributions, counts.astype(np.int64))
