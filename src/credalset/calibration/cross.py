"""Cross-conformal calibration (CV+): each item both trains and calibrates, when data are scarce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from credalset._batch import Batch, match_names
from credalset._blocks import row_blocks
from credalset._typing import ArrayLike, FloatArray, IntArray, Prediction
from credalset._validation import unmasked
from credalset.calibration.base import (
    CalibrationItems,
    Inputs,
    ScoreCalibration,
    Support,
    as_level,
    read_items,
)
from credalset.calibration.levels import conformal_rank
from credalset.calibration.noise import (
    ROUNDING,
    BoundedNoise,
    Guarantee,
    Noise,
    Quantile,
    check_supported,
)
from credalset.calibration.split import fit_thresholds
from credalset.scores import Score, get_score
from credalset.sets.credal_set import CredalSet

ELEMENTS = 1 << 20  # radii held at once


@dataclass(frozen=True, eq=False)
class CrossInputs(Inputs):
    """Inputs for N items with the predictions of each fold's model.

    Attributes
    ----------
    models : tuple of predictions (N, K)
        Valid predictions of the models, in the order of the folds.
    """

    models: tuple[Prediction, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class CrossCalibration(ScoreCalibration):
    r"""Score calibrated on out-of-fold predictions (CV+), as returned by `cross_conformalize`.

    For a new item that is exchangeable with these items, the predicted set contains the *recorded*
    label distribution (the shares of the votes that would be recorded for the item) with
    probability at least about $1 - 2\alpha$. With a noise model, the same holds for the *true*
    label distribution under the assumptions of that model. `guaranteed_coverage` returns the proven
    bound. In practice the coverage is close to $1 - \alpha$.

    With folds k(i), models $g_k$ trained without fold k and $s_i = f(g_{k(i)}(x_i), \lambda_i)$,
    the cross-conformal (CV+) set of a new item consists of all λ for which

    $$1 + \#\{ i : s_i \ge f(g_{k(i)}(x), \lambda) \} > \alpha (n + 1) .$$

    This set has as many centres as there are folds. `predict_set` returns a set $\{\lambda : f(c,
    \lambda) \le r\}$ around a single centre c that contains it: each $\{\lambda : f(g_k(x),
    \lambda) \le s_i\}$ lies in such a set around c, and r is the ⌈(n + 1)(1 − α)⌉-th smallest of
    these n radii. If the returned set is empty, so is the cross-conformal set.

    With weights, folds are not pooled: λ belongs to the set if the average over the folds of its
    weighted p-values, $(w_{new} + \sum_{i \in k, s_i \ge f_k} w_i) / (w_{new} + \sum_{i \in k}
    w_i)$, exceeds α.

    Attributes
    ----------
    score, n_classes, classes, items, guarantee
        As in `SplitCalibration`.
    scores : ndarray of shape (n,)
        Out-of-fold scores, in the order of the items.
    folds : ndarray of shape (n,)
        Fold of each item, 0, …, F − 1.
    n_folds : int
        Number of folds F.
    """

    folds: IntArray = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "folds", as_folds(self.folds, len(self.scores)))
        check_supported(self.noise, cross=True)
        if self.fitted.predicted or not all(isinstance(fit, Quantile) for fit in self.fitted.fits):
            raise ValueError(
                "fitted must hold quantiles of one key per item for cross-conformal sets."
            )

    @property
    def n_folds(self) -> int:
        """Number of folds F."""
        return int(self.folds.max()) + 1

    @property
    def _n_models(self) -> int:
        """Number of models whose predictions one set takes: one per fold."""
        return self.n_folds

    @property
    def guarantee(self) -> Guarantee:
        """What predicted sets contain, for which items, and under which assumptions."""
        return replace(self.fitted.guarantee, rate="about 1 - 2 alpha (guaranteed_coverage)")

    def guaranteed_coverage(self, alpha: float = 0.1) -> float:
        r"""Return the proven lower bound of the coverage, about 1 − 2α.

        With groups, that of the worst group.

        For n items in F folds of any sizes the bound is $1 - 2 (\alpha (n+1) + F - 1) / (n + F)$,
        because twice an average of p-values is a p-value (Vovk and Wang, 2020). For folds of equal
        size, without groups, and a learner that does not depend on the order of its items, $1 -
        2\alpha - (1 - F/n) / (F + 1)$ is also a lower bound (Barber, Candès, Ramdas, Tibshirani:
        *Predictive inference with the jackknife+*, 2021), and the larger of the two is returned.
        With weights the bound is $1 - 2\alpha$. With `BoundedNoise`, the first bound is taken at
        level α − δ and reduced by 2δ. With `AnnotatorSampling`, the bound on the miscoverage at
        level α (1 − δ) is divided by 1 − δ. The guide *Proofs* has the derivations.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1) at which the sets are predicted.

        Returns
        -------
        float
            The lower bound, at least 0.

        Examples
        --------
        >>> import numpy as np, credalset as cs
        >>> g = np.full((200, 3), 1 / 3)
        >>> votes = np.eye(3)[np.arange(200) % 3]
        >>> calibration = cs.cross_conformalize(g, votes, np.arange(200) % 10)
        >>> round(calibration.guaranteed_coverage(0.05), 3)
        0.819
        """
        level = float(self.noise.level(as_level(alpha)))
        bounded = isinstance(self.noise, BoundedNoise)
        misses = []
        for code in range(len(self.fitted.fits)):
            folds = self.folds[self.fitted.codes == code]
            n = len(folds)
            f = len(np.unique(folds))
            # Vovk and Wang: twice an average of p-values is a p-value.
            averaged = 2.0 * (level * (n + 1) + f - 1) / (n + f)
            misses.append(2.0 * level if self.fitted.weighted else averaged)
        sizes = np.bincount(self.folds)
        if len(misses) == 1 and (sizes == sizes[0]).all() and not bounded:
            # Barber et al., for folds of equal size.
            jackknife = 2.0 * level + (1 - self.n_folds / len(self)) / (self.n_folds + 1)
            misses[0] = min(misses[0], jackknife)
        missed = max(misses) / min(float(self.noise.factor), 1.0)
        return max(1.0 - missed - 2.0 * float(self.noise._spent), 0.0)

    @property
    def supports(self) -> frozenset[Support]:
        """What the calibration takes or computes beyond predictions and a level."""
        return frozenset({"constant", "groups", "weights"})

    def _guaranteed(self, alpha: float) -> float:
        return self.guaranteed_coverage(alpha)

    def predict_set(
        self,
        predictions: Any,
        alpha: float = 0.1,
        *,
        votes: Any = None,
        groups: Any = None,
        weights: Any = None,
    ) -> CredalSet:
        """Predict one credal set per new item.

        Parameters
        ----------
        predictions : array of shape (F, N, K), or sequence of F arrays or data frames
            Predictions of each fold's model for the N new items, in the order of the folds.
        alpha : float
            Level in (0, 1); `guaranteed_coverage` returns the proven coverage.
        votes : None
            Not used by this calibration.
        groups : sequence of N keys, optional
            Group of each item if the calibration has groups.
        weights : array of shape (N,), optional
            Likelihood ratio of each item if the calibration is weighted.

        Returns
        -------
        CredalSet
            A batch of N sets, some of which may be empty.
        """
        sets: CredalSet = super().predict_set(
            predictions, alpha, votes=votes, groups=groups, weights=weights
        )
        return sets

    def _read_inputs(self, predictions: Any, votes: Any, groups: Any, weights: Any) -> Inputs:
        blocks = list(predictions) if hasattr(predictions, "__len__") else []
        batches = []
        if len(blocks) == self.n_folds:
            batches = [self._read_predictions(block) for block in blocks]
        if len({len(batch) for batch in batches}) != 1:
            raise ValueError(
                f"predictions must have shape ({self.n_folds}, n_items, {self.n_classes}), one "
                f"block per fold's model, but has {len(blocks)} blocks, or blocks of different "
                "lengths."
            )
        return self._inputs(batches, groups, weights)

    def _inputs(self, batches: Sequence[Batch], groups: Any, weights: Any) -> CrossInputs:
        """Return the inputs of items whose predictions are valid: one batch for each fold."""
        first = batches[0]
        models = [first.values]
        for batch in batches[1:]:
            if (batch.items is None) != (first.items is None):
                raise ValueError(
                    "predictions of some folds have names of items, and those of others have "
                    "none. Name the rows of all, or of none."
                )
            rows = match_names(batch.items, first.items, "items", "predictions", "the first fold")
            models.append(batch.values if rows is None else batch.values[rows])
        center = self.score.common_center(models)
        plain = self._with_groups(first, center, groups, weights)
        return CrossInputs(
            plain.batch,
            plain.prediction,
            plain.codes,
            plain.keys,
            plain.columns,
            models=tuple(models),
        )

    def _sets(self, inputs: Inputs, thresholds: FloatArray) -> CredalSet:
        sets = self.score._region(inputs.prediction, thresholds)
        return replace(sets, classes=self.classes, items=inputs.batch.items)

    def _thresholds(self, inputs: Inputs, level: Fraction) -> FloatArray:
        """Return the threshold of a ball that contains each item's cross-conformal set."""
        assert isinstance(inputs, CrossInputs)
        found = np.full(len(inputs), np.inf)
        for code in np.unique(inputs.codes[inputs.codes >= 0]):
            self._thresholds_of_group(inputs, int(code), level, found)
        self.fitted.warn_infinite(found, inputs.codes, level, self.score)
        return found

    def _thresholds_of_group(
        self, inputs: CrossInputs, code: int, level: Fraction, found: FloatArray
    ) -> None:
        """Fill in the thresholds of the items of one group."""
        fit = self.fitted.fits[code]
        assert isinstance(fit, Quantile)
        center = inputs.prediction
        weights = inputs.columns.weights
        folds = self.folds[self.fitted.codes == code]
        order = np.argsort(folds, kind="stable")
        scores = (fit.scores + fit.noise.margin)[order]
        sizes = np.bincount(folds, minlength=self.n_folds)
        parts = np.split(scores[:, None], np.cumsum(sizes)[:-1])
        share = self.noise.level(level)
        own = np.flatnonzero(inputs.codes == code)
        for block in row_blocks(len(own), len(scores), ELEMENTS):
            rows = own[block]
            radii = []
            for model, part, size in zip(inputs.models, parts, sizes, strict=True):
                radius = self.score.enclosing_threshold(model[rows], center[rows], part)
                radii.append(np.broadcast_to(radius, (size, len(rows))))
            together = np.concatenate(radii)
            if fit.weights is None or weights is None:
                found[rows] = _ranked(together, share)
            else:
                found[rows] = _weighted(
                    together, fit.weights[order], folds[order], weights[rows], share
                )

    def __repr__(self) -> str:
        return super().__repr__().replace(" items,", f" items in {self.n_folds} folds,", 1)


def _ranked(radii: FloatArray, level: Fraction) -> FloatArray:
    """Return the conformal quantile of the radii (n, N) of each new item, (N,)."""
    rank = conformal_rank(len(radii), level)
    if rank > len(radii):
        return np.full(radii.shape[1], np.inf)
    return np.asarray(np.partition(radii, rank - 1, axis=0)[rank - 1])


def _weighted(
    radii: FloatArray, weights: FloatArray, folds: IntArray, new: FloatArray, level: Fraction
) -> FloatArray:
    """Return the radius beyond which weighted p-values, averaged over folds, are at most the level.

    It is the smallest such radius, (N,).

    The items of a fold are weighted relative to their sum and the new item's weight; folds count
    equally. A fold whose weights are all zero excludes nothing.
    """
    present, place = np.unique(folds, return_inverse=True)
    totals = np.bincount(place, weights)[:, None] + new
    share = np.where(totals > 0, 1.0 / np.where(totals > 0, totals, 1.0), 0.0) / len(present)
    # The new item counts in every p-value; a fold without weight has the p-value one.
    own = (share * new + (totals <= 0) / len(present)).sum(axis=0)
    needed = float(level) * (1.0 - ROUNDING) - own
    # Weights are added from the largest radius down, until the p-value exceeds the level.
    order = np.argsort(-radii, axis=0, kind="stable")
    added = np.take_along_axis(weights[:, None] * share[place], order, axis=0).cumsum(axis=0)
    reached = added > needed
    first = np.take_along_axis(order, reached.argmax(axis=0)[None], axis=0)
    at_first = np.take_along_axis(radii, first, axis=0)[0]
    found = np.where(reached.any(axis=0), at_first, radii.min(axis=0))
    return np.where(needed < 0, np.inf, found)


def cross_conformalize(
    predictions: Any,
    votes: Any,
    folds: Sequence[int] | IntArray,
    score: str | Score = "kl",
    *,
    classes: Sequence[Any] | None = None,
    noise: Noise | str | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
) -> CrossCalibration:
    """Calibrate a score on out-of-fold predictions: every item trains and calibrates.

    The predicted sets contain the recorded label distribution of a new item, or with a noise model
    the true one, with probability at least about 1 − 2α; see `CrossCalibration`.

    Parameters
    ----------
    predictions : array or data frame of shape (n, K)
        Prediction for each item by a model that was trained without the fold of the item.
    votes : array or data frame of shape (n, K), or Annotations
        Annotation counts or label distributions, as in `conformalize`.
    folds : sequence of n whole numbers
        Fold of each item, 0, …, F − 1. There must be at least two folds, of equal size as far as
        possible, and they must be chosen without looking at the items. A series is matched by the
        names of the items.
    score : str or Score
        As in `conformalize`, except ``"intervals"``, which does not support cross-conformal
        calibration.
    classes : sequence, optional
        As in `conformalize`.
    noise : BoundedNoise or AnnotatorSampling, optional
        Noise model, to cover the true label distribution. `AnnotatorSampling` needs a value of
        ``delta``, and `BoundedNoise` needs the rule ``"union"``.
    groups : sequence of n keys, optional
        Groups within which coverage is guaranteed. ``"predicted"`` is not supported, because the
        models of the folds may predict different classes for the same item.
    weights : array of shape (n,), optional
        As in `conformalize`.

    Returns
    -------
    CrossCalibration
        The calibrated score, which predicts credal sets.

    Examples
    --------
    >>> import credalset as cs, numpy as np
    >>> from sklearn.model_selection import KFold
    >>> data = cs.datasets.make_synthetic(150, n_votes=20, random_state=0)
    >>> X, Y, X_new, Y_new = data.X[:100], data.counts[:100], data.X[100:], data.counts[100:]
    >>> folds, out_of_fold, new = np.empty(100, int), np.empty((100, 3)), []
    >>> for k, (train, held_out) in enumerate(KFold(5).split(X)):
    ...     model = cs.SoftLabelClassifier().fit(X[train], Y[train])
    ...     folds[held_out], out_of_fold[held_out] = k, model.predict_proba(X[held_out])
    ...     new.append(model.predict_proba(X_new))
    >>> calibration = cs.cross_conformalize(out_of_fold, Y, folds)
    >>> calibration
    CrossCalibration: score kl, 100 items in 5 folds, 3 classes
    >>> bool(calibration.predict_set(new, alpha=0.1).contains(Y_new).mean() > 0.8)
    True
    """
    found = read_items(
        get_score(score),
        predictions,
        votes,
        classes,
        noise=noise,
        groups=groups,
        weights=weights,
        cross=True,
    )
    return cross_calibrate(found, as_folds(found.batch.per_item(folds, "folds"), len(found.batch)))


def cross_calibrate(found: CalibrationItems, folds: IntArray) -> CrossCalibration:
    """Calibrate on items that are read and valid."""
    score = found.score
    if not (score.is_metric or score.has_enclosing_balls):
        raise ValueError(
            f"score {score.name!r} does not support cross-conformal calibration. Use another "
            "score, or split the data and conformalize."
        )
    scores = score.evaluate_rows(found.prediction, found.labels.distributions)
    fitted = fit_thresholds(found, scores)
    names = (found.batch.classes, found.batch.items)
    return CrossCalibration(score, scores, found.n_classes, fitted, *names, folds=folds)


def as_folds(folds: Any, n: int) -> IntArray:
    """Check one fold number per item."""
    unmasked(folds, "folds")
    try:
        codes = np.asarray(folds)
    except ValueError:  # rows of different lengths
        codes = np.empty((0, 0))
    if codes.shape != (n,) or codes.dtype.kind not in "iu":
        raise ValueError(
            f"folds must hold one whole number per item ({n}), but is an array of shape "
            f"{codes.shape} and dtype {codes.dtype}."
        )
    found = np.unique(codes).tolist()
    if len(found) < 2 or found[0] != 0 or found[-1] != len(found) - 1:
        first = ", ".join(map(str, found[:10]))
        raise ValueError(
            f"folds must be numbered 0, 1, … without gaps, at least two of them, but holds {first}."
        )
    return codes.astype(np.int64)
