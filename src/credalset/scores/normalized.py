"""A score divided by how hard the item is: by the entropy of the prediction, or by a scale that comes with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from scipy.special import entr

from credalset._predictions import PredictionBatch
from credalset._typing import ArrayLike, FloatArray, Prediction
from credalset._validation import as_finite, as_numbers
from credalset.scores.base import Score
from credalset.scores.registry import get_score, register_score
from credalset.scores.total_variation import TotalVariation
from credalset.sets.geometry import Geometry


@dataclass(frozen=True, eq=False)
class ScaledPrediction(PredictionBatch):
    """Predictions (N, K) and a scale for each, (N,): how far off the model expects to be, in any unit.

    Examples
    --------
    >>> two = ScaledPrediction(np.array([[0.7, 0.3], [0.5, 0.5]]), np.array([0.1, 2.0]))
    >>> len(two), two.n_classes, two[1:].scale
    (2, 2, array([2.]))
    """

    rows: FloatArray
    scale: FloatArray

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(np.shape(self.rows)[-1])

    def mean(self) -> FloatArray:
        """Return the predicted distribution, or the mean of the predicted Dirichlet, (N, K)."""
        return np.asarray(self.rows / self.rows.sum(axis=-1, keepdims=True))


@register_score
@dataclass(frozen=True)
class Normalized(Score):
    r"""A score relative to how hard the item is: $f / (H_K(g) + c)$, or $f / (\sigma(x) + c)$.

    $H_K$ is the entropy of the prediction in base K, between 0 and 1: sets around confident predictions get smaller,
    sets around ambiguous ones larger. With ``scale="predicted"`` a difficulty $\sigma(x) \ge 0$ comes with each
    prediction instead, from wherever you have it. The region is that of the inner score with its threshold multiplied
    by the scale. An item of scale 0 with ``offset=0`` (with entropies: a one-hot prediction) accepts only what the
    inner score gives 0, and scores ``+inf`` everywhere else.

    Parameters
    ----------
    score : Score or str
        Any first-order score; any score with one row per prediction if the scale is predicted.
    offset : float
        c ≥ 0; the published experiments use 0 on ChaosNLI and 0.1 on CIFAR-10H.
    scale : {None, "predicted"}
        None divides by the entropy. With ``"predicted"``, predictions are a `ScaledPrediction`.

    Examples
    --------
    >>> import numpy as np
    >>> score = Normalized(TotalVariation(), offset=0.1)
    >>> score(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])).round(4)
    array([0.4545])
    >>> easy_and_hard = ScaledPrediction(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0.1, 1.0]))
    >>> Normalized("tv", scale="predicted").region(easy_and_hard, 0.25).upper()
    array([[0.525, 0.525],
           [0.75 , 0.75 ]])
    """

    score: Score = field(default_factory=TotalVariation)
    offset: float = 0.0
    scale: str | None = None
    name: ClassVar[str] = "normalized"
    order: ClassVar[Literal["first", "second"]] = "first"

    def __post_init__(self) -> None:
        score = get_score(self.score)
        if self.scale not in (None, "predicted"):
            raise ValueError(
                f"scale must be None, for the entropy of the prediction, or 'predicted', but is {self.scale!r}. "
                "Numbers of your own go with the predictions: ScaledPrediction(predictions, scale)."
            )
        if isinstance(score, type(self)):
            raise ValueError("score must not be normalised already.")
        if score.order != "first" and self.scale is None:
            raise ValueError(
                f"score must be a first-order score such as tv or kl, but is {score!r}. Second-order scores adapt to "
                "the item by themselves; scale='predicted' takes them."
            )
        object.__setattr__(self, "score", score)
        object.__setattr__(self, "order", score.order)
        object.__setattr__(self, "offset", as_finite(self.offset, "offset", minimum=0.0))
        # Dividing by a number that depends only on the prediction keeps these.
        object.__setattr__(self, "is_convex", score.is_convex)
        object.__setattr__(self, "is_ordinal", score.is_ordinal)
        object.__setattr__(self, "has_enclosing_balls", score.has_enclosing_balls or score.is_metric)

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """Those of the inner score; with a scale, predictions come from the caller."""
        return self.score.prediction_methods if self.scale is None else ()

    def check_prediction(
        self, prediction: ArrayLike, name: str = "prediction", n_classes: int | None = None
    ) -> Prediction:
        """Validate predictions of the inner score, with a scale each if that is predicted."""
        if self.scale is None:
            return self.score.check_prediction(prediction, name, n_classes)
        if not isinstance(prediction, ScaledPrediction):
            raise TypeError(f"{name} must come with a scale for each item: ScaledPrediction(predictions, scale).")
        rows = np.asarray(self.score.check_prediction(prediction.rows, name, n_classes))
        scale = as_numbers(prediction.scale, f"the scale of {name}")
        if scale.shape != (len(rows),) or not (np.isfinite(scale).all() and (scale >= 0).all()):
            raise ValueError(
                f"{name} must have a finite scale of at least 0 for each of its {len(rows)} items, but has scales of "
                f"shape {scale.shape}, the smallest {scale.min(initial=np.inf):.4g}."
            )
        return ScaledPrediction(rows, scale)

    def ambiguity(self, prediction: Prediction) -> FloatArray:
        """What the score of predictions (…, K) is divided by, (…): H_K(g) + c, or the predicted scale + c."""
        if isinstance(prediction, ScaledPrediction):
            return np.asarray(prediction.scale + self.offset)
        # One class after the other, as scores are added up, so that equal predictions have equal scales.
        total = np.zeros(prediction.shape[:-1])
        for k in range(prediction.shape[-1]):
            total += entr(prediction[..., k])
        return np.asarray(total / np.log(prediction.shape[-1]) + self.offset)

    def _check_classes(self, n_classes: int) -> None:
        self.score._check_classes(n_classes)

    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """The inner score over the ambiguity of the prediction."""
        return self._rescaled(self.score.formula(_rows(prediction), distribution), prediction)

    def geometry(self, prediction: Prediction, threshold: FloatArray) -> Geometry:
        """That of the inner score at the largest threshold whose quotient is at most the threshold asked for."""
        scale = self.ambiguity(prediction)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            inner = np.where(np.isinf(threshold), threshold, threshold * scale)
            # Rounding: at most two neighbours away from the product.
            for _ in range(2):
                inner = np.where(self._rescaled(inner, prediction) > threshold, np.nextafter(inner, -np.inf), inner)
            for _ in range(2):
                above = np.nextafter(inner, np.inf)
                inner = np.where(self._rescaled(above, prediction) <= threshold, above, inner)
        return self.score.geometry(_rows(prediction), inner)

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """Where the inner score is smallest."""
        return self.score.best_fit(_rows(prediction))

    def largest_above(self, prediction: Prediction, lower: FloatArray) -> FloatArray:
        """That of the inner score, on this scale."""
        return self._rescaled(self.score.largest_above(_rows(prediction), lower), prediction)

    def estimate_from_votes(self, prediction: Prediction, counts: FloatArray) -> FloatArray | None:
        """That of the inner score, on this scale."""
        raw = self.score.estimate_from_votes(_rows(prediction), counts)
        return None if raw is None else self._rescaled(raw, prediction)

    def common_center(self, models: Sequence[Prediction]) -> Prediction:
        """That of the inner score, with the mean of the scales."""
        center = self.score.common_center([_rows(model) for model in models])
        return center if self.scale is None else ScaledPrediction(center, np.mean([m.scale for m in models], axis=0))

    def enclosing_threshold(self, model: Prediction, center: Prediction, threshold: FloatArray) -> FloatArray:
        """That of the inner score, from the scale of the model to that of the centre."""
        with np.errstate(invalid="ignore"):
            raw = self.score.enclosing_threshold(_rows(model), _rows(center), threshold * self.ambiguity(model))
        return self._rescaled(np.where(np.isnan(raw), np.inf, raw), center)

    def _rescaled(self, raw: FloatArray, prediction: Prediction) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(raw != 0, raw / self.ambiguity(prediction), 0.0)


def _rows(prediction: Prediction) -> FloatArray:
    """Predictions as the inner score takes them."""
    return np.asarray(prediction.rows if isinstance(prediction, ScaledPrediction) else prediction)
