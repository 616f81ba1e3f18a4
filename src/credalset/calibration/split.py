"""Split-conformal calibration: from predictions and labels to thresholds and credal sets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import ArrayLike, FloatArray
from credalset._validation import as_label_distributions, check_classes, check_same_length, column_names
from credalset.calibration.quantile import (
    CoverageDistribution,
    conformal_rank,
    pac_rank,
    score_at_rank,
    smallest_alpha,
)
from credalset.credal_set import CredalSet
from credalset.exceptions import CredalSetWarning
from credalset.scores import Score, get_score


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """A score and its calibration scores: everything needed to predict credal sets at any level.

    Made by `conformalize`. For a new item exchangeable with the calibration items, the set at level α contains its
    label distribution with probability at least 1 − α, whatever the model and whatever the data.

    Attributes
    ----------
    score : Score
        The nonconformity score.
    scores : ndarray of shape (n,)
        Calibration scores in increasing order.
    n_classes : int
        Number of classes K.
    classes : tuple or None
        Names of the classes in column order, when they are known.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, score="tv")
    >>> calibration
    Calibration: score tv, 200 items, 3 classes
    """

    score: Score
    scores: FloatArray
    n_classes: int
    classes: tuple[Any, ...] | None = field(default=None)

    def __len__(self) -> int:
        """Number of calibration items."""
        return len(self.scores)

    def threshold(self, alpha: float) -> float:
        """Return the ⌈(n + 1)(1 − α)⌉-th smallest calibration score.

        It is ``+inf``, with a warning, when n is too small for the level: the only set with the guarantee is then the
        whole simplex.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1).
        """
        value = score_at_rank(self.scores, conformal_rank(len(self), alpha))
        if math.isinf(value):
            self._warn_infinite(alpha)
        return value

    def predict_set(self, prediction: ArrayLike, alpha: float, *, classes: Sequence[Any] | None = None) -> CredalSet:
        """Predict the credal sets {λ : score(prediction, λ) ≤ threshold(α)}.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predicted distributions, or Dirichlet concentrations for a second-order score.
        alpha : float
            Miscoverage rate in (0, 1); any level may be asked of the same calibration.
        classes : sequence, optional
            Names of the columns, checked against those seen in calibration. Read from the columns of a data frame.

        Returns
        -------
        CredalSet
            A batch of N sets.
        """
        checked = self._check(prediction, classes)
        sets = replace(self.score.region(checked, self.threshold(alpha)), classes=self.classes)
        _warn_empty(sets)
        return sets

    def p_values(self, prediction: ArrayLike, distribution: ArrayLike) -> FloatArray:
        """Return the conformal p-value of each candidate distribution.

        p = (1 + #{calibration scores ≥ score}) / (n + 1). A distribution belongs to the set at level α exactly when
        its p-value exceeds α.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predictions, as in `predict_set`.
        distribution : array of shape (N, K)
            One candidate label distribution per prediction.
        """
        scores = self.score(self._check(prediction, None), distribution)
        at_least = len(self) - np.searchsorted(self.scores, scores, side="left")
        return (1 + at_least) / (len(self) + 1)

    def coverage_distribution(self, alpha: float) -> CoverageDistribution:
        """Return the distribution of the coverage over calibration sets of this size, Beta(k, n + 1 − k).

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(500, n_classes=3, random_state=0)
        >>> calibration = cs.conformalize(data.distributions, data.counts, score="tv")
        >>> [round(x, 3) for x in calibration.coverage_distribution(0.1).interval(0.95)]
        [0.873, 0.925]
        """
        return CoverageDistribution(min(conformal_rank(len(self), alpha), len(self) + 1), len(self))

    def pac_threshold(self, alpha: float, delta: float) -> float:
        """Return a threshold whose coverage is at least 1 − α for all but a share δ of calibration sets.

        The ordinary threshold covers 1 − α on average over calibration sets; about half of them fall short by a
        little. This one is larger and falls short with probability at most δ. Use it with
        ``calibration.score.region(prediction, threshold)``.
        """
        value = score_at_rank(self.scores, pac_rank(len(self), alpha, delta))
        if math.isinf(value):
            self._warn_infinite(alpha)
        return value

    def save(self, path: str | Path) -> None:
        """Write the calibration to a directory (JSON and ``.npz``, no pickle); read it with `credalset.load`."""
        from credalset.persistence import save_calibration

        save_calibration(self, path)

    def _check(self, prediction: ArrayLike, classes: Sequence[Any] | None) -> FloatArray:
        named = classes if classes is not None else column_names(prediction)
        check_classes(named, self.classes, "prediction", "the calibration data")
        return self.score.check_prediction(prediction, n_classes=self.n_classes)

    def _warn_infinite(self, alpha: float) -> None:
        n_infinite = int(np.isinf(self.scores).sum())
        if n_infinite and conformal_rank(len(self), alpha) <= len(self):
            reason = (
                f"{n_infinite} of {len(self)} calibration scores are infinite (labels on classes that the "
                "prediction gives probability zero). Smooth the predictions, or use another score"
            )
        else:
            reason = (
                f"{len(self)} calibration items are too few for alpha={alpha}; "
                f"the smallest level they support is {smallest_alpha(len(self)):.4g}. Add calibration data"
            )
        warnings.warn(
            f"The threshold is infinite and every set is the whole simplex: {reason}.", CredalSetWarning, stacklevel=3
        )

    def __repr__(self) -> str:
        return f"Calibration: score {self.score.name}, {len(self)} items, {self.n_classes} classes"


def conformalize(
    prediction: ArrayLike, labels: Any, score: str | Score = "tv", *, classes: Sequence[Any] | None = None
) -> Calibration:
    """Calibrate a score on predictions and labels that the model has not been trained on.

    Parameters
    ----------
    prediction : array of shape (n, K)
        Predicted distributions, or Dirichlet concentrations (≥ 1) for a second-order score.
    labels : array of shape (n, K) or Annotations
        Label distributions (rows sum to one) or annotation counts (whole numbers).
    score : str or Score
        ``"tv"``, ``"ws"``, ``"kl"``, ``"inner"``, ``"so"``, ``"density"``, or an object from `credalset.scores`.
    classes : sequence, optional
        Names of the classes in column order. Taken from `Annotations` or from data frame columns when not given, and
        checked again at prediction time.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=20, random_state=0)
    >>> calibration = cs.conformalize(data.distributions[:200], data.counts[:200], score="tv")
    >>> sets = calibration.predict_set(data.distributions[200:], alpha=0.1)
    >>> sets.contains(data.counts[200:] / 20).mean() >= 0.8
    np.True_
    """
    chosen = get_score(score)
    named = _agreed_classes(classes, prediction, labels)
    checked = chosen.check_prediction(prediction)
    distributions = as_label_distributions(labels, "labels")
    check_same_length(checked, "prediction", distributions, "labels")
    if len(checked) == 0:
        raise ValueError("prediction and labels are empty: calibration needs at least one item.")
    if named is not None and len(named) != checked.shape[1]:
        raise ValueError(f"classes names {len(named)} classes, but prediction has {checked.shape[1]} columns.")
    scores = np.sort(chosen(checked, distributions))
    return Calibration(chosen, scores, n_classes=checked.shape[1], classes=named)


def _agreed_classes(classes: Sequence[Any] | None, prediction: Any, labels: Any) -> tuple[Any, ...] | None:
    """Return the class names, from whichever argument knows them, refusing any two that differ."""
    of_labels = getattr(labels, "classes", None)
    sources = [
        ("classes", classes),
        ("prediction", column_names(prediction)),
        ("labels", of_labels if of_labels is not None else column_names(labels)),
    ]
    known = [(name, tuple(names)) for name, names in sources if names is not None]
    for name, names in known[1:]:
        check_classes(names, known[0][1], name, known[0][0])
    return known[0][1] if known else None


def _warn_empty(sets: CredalSet) -> None:
    n_empty = int(sets.is_empty().sum())
    if n_empty:
        warnings.warn(
            f"{n_empty} of {len(sets)} credal sets are empty: no distribution scores below the threshold for these "
            "predictions. The coverage guarantee still holds on average; sets.is_empty() tells which they are.",
            CredalSetWarning,
            stacklevel=3,
        )
