"""A score divided by the difficulty of the item: its entropy or a predicted scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from scipy.special import entr

from credalset._batch import read
from credalset._predictions import PredictionBatch
from credalset._typing import ArrayLike, FloatArray, Prediction
from credalset._validation import as_finite, as_numbers
from credalset.scores.base import Score
from credalset.scores.registry import get_score, register_score
from credalset.scores.total_variation import TotalVariation
from credalset.sets.geometry import Geometry


@dataclass(frozen=True, eq=False)
class ScaledPrediction(PredictionBatch):
    """Predictions with a scale for each, for the score `Normalized`.

    Parameters
    ----------
    rows : array or data frame of shape (N, K)
        Predictions for the score that is normalised: distributions, or Dirichlet concentrations.
    scale : array or series of shape (N,)
        Expected error of the model for each item, in any unit; a series is matched by the names of
        the items.
    items, classes : tuple, optional
        Names of the rows and columns; by default those of the data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from credalset.scores import ScaledPrediction
    >>> two = ScaledPrediction(np.array([[0.7, 0.3], [0.5, 0.5]]), np.array([0.1, 2.0]))
    >>> len(two), two.n_classes, two[1:].scale
    (2, 2, array([2.]))
    """

    rows: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        if type(self.rows) is np.ndarray and type(self.scale) is np.ndarray:
            return
        batch = read(self.rows, self.classes, name="rows")
        scale = np.asarray(batch.per_item(self.scale, "scale"))
        found = {"rows": batch.values, "scale": scale}
        names = {"items": batch.items or self.items, "classes": batch.classes}
        for name, value in (found | names).items():
            object.__setattr__(self, name, value)

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
    r"""A score divided by the difficulty of the item: $f / (H_K(g) + c)$, or $f / (\sigma(x) + c)$.

    $H_K$ is the entropy of the prediction in base K, between 0 and 1: sets around confident
    predictions become smaller, sets around ambiguous ones larger. With ``scale="predicted"`` each
    prediction has a difficulty $\sigma(x) \ge 0$ of your choice instead. The region is that of the
    score f with the threshold multiplied by the divisor. If the divisor is 0 (with entropies: for a
    one-hot prediction and ``offset=0``), the normalised score is 0 where f is 0 and ``+inf``
    elsewhere.

    Parameters
    ----------
    score : Score or str
        The score f: any first-order score, or any score with one row per prediction if the scale is
        predicted.
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
                "scale must be None (the entropy of the prediction) or 'predicted', but is "
                f"{self.scale!r}. Pass "
                "numbers with the predictions: ScaledPrediction(predictions, scale)."
            )
        if isinstance(score, type(self)):
            raise ValueError(
                f"score must not be normalised already, but is {score!r}. Pass its inner score."
            )
        if score.order != "first" and self.scale is None:
            raise ValueError(
                f"score must be a first-order score such as tv or kl, but is {score!r}. Use "
                "second-order scores with scale='predicted'."
            )
        object.__setattr__(self, "score", score)
        object.__setattr__(self, "order", score.order)
        object.__setattr__(self, "offset", as_finite(self.offset, "offset", minimum=0.0))
        # Division by a number that depends only on the prediction preserves these.
        object.__setattr__(self, "is_convex", score.is_convex)
        object.__setattr__(self, "is_ordinal", score.is_ordinal)
        object.__setattr__(
            self, "has_enclosing_balls", score.has_enclosing_balls or score.is_metric
        )

    @property
    def positions(self) -> tuple[float, ...] | None:
        """Those of the inner score."""
        return self.score.positions

    @property
    def title(self) -> str:
        """That of the inner score, which is scaled."""
        return f"scaled {self.score.title}" if self.scale else self.name

    def on_scale(self, positions: Sequence[float] | None) -> Normalized:
        """Place the inner score on the scale."""
        return replace(self, score=self.score.on_scale(positions))

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """Those of the inner score; none with a predicted scale, as callers pass predictions."""
        return self.score.prediction_methods if self.scale is None else ()

    def check_prediction(
        self, prediction: ArrayLike, name: str = "prediction", n_classes: int | None = None
    ) -> Prediction:
        """Validate predictions of the inner score, and their scales if these are predicted."""
        if self.scale is None:
            return self.score.check_prediction(prediction, name, n_classes)
        if not isinstance(prediction, ScaledPrediction):
            raise TypeError(
                f"{name} must be a ScaledPrediction(predictions, scale), but is a "
                f"{type(prediction).__name__}."
            )
        rows = np.asarray(self.score.check_prediction(prediction.rows, name, n_classes))
        scale = as_numbers(prediction.scale, f"the scale of {name}")
        if scale.shape != (len(rows),) or not (np.isfinite(scale).all() and (scale >= 0).all()):
            raise ValueError(
                f"{name} must have a finite scale of at least 0 for each of its {len(rows)} "
                "items, but has scales of "
                f"shape {scale.shape}, the smallest {scale.min(initial=np.inf):.4g}."
            )
        return ScaledPrediction(rows, scale)

    def ambiguity(self, prediction: Prediction) -> FloatArray:
        """Return the divisor for predictions (…, K), (…): H_K(g) + c, or the scale + c."""
        if isinstance(prediction, ScaledPrediction):
            return np.asarray(prediction.scale + self.offset)
        # Added one class after the other, as scores are, so that equal predictions have equal
        # scales.
        total = np.zeros(prediction.shape[:-1])
        for k in range(prediction.shape[-1]):
            total += entr(prediction[..., k])
        return np.asarray(total / np.log(prediction.shape[-1]) + self.offset)

    def _check_classes(self, n_classes: int) -> None:
        self.score._check_classes(n_classes)

    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """Return the inner score divided by the ambiguity of the prediction."""
        return self._rescaled(self.score.formula(_rows(prediction), distribution), prediction)

    def geometry(self, prediction: Prediction, threshold: FloatArray) -> Geometry:
        """Return the inner score's regions at the largest thresholds with small quotients.

        Quotients are small if they are at most ``threshold``.
        """
        scale = self.ambiguity(prediction)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            inner = np.where(np.isinf(threshold), threshold, threshold * scale)
            # Rounding: the threshold is at most two doubles away from the product.
            for _ in range(2):
                inner = np.where(
                    self._rescaled(inner, prediction) > threshold,
                    np.nextafter(inner, -np.inf),
                    inner,
                )
            for _ in range(2):
                above = np.nextafter(inner, np.inf)
                inner = np.where(self._rescaled(above, prediction) <= threshold, above, inner)
        return self.score.geometry(_rows(prediction), inner)

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """Return the best fit of the inner score."""
        return self.score.best_fit(_rows(prediction))

    def largest_above(self, prediction: Prediction, lower: FloatArray) -> FloatArray:
        """Return the largest inner score over {λ : λ ≥ lower}, divided by the scale."""
        return self._rescaled(self.score.largest_above(_rows(prediction), lower), prediction)

    def estimate_from_votes(self, prediction: Prediction, counts: FloatArray) -> FloatArray | None:
        """Return the estimate of the inner score, divided by the scale."""
        raw = self.score.estimate_from_votes(_rows(prediction), counts)
        return None if raw is None else self._rescaled(raw, prediction)

    def stand_in(self, n_classes: int) -> Prediction:
        """Return that of the inner score, with a scale if scales are predicted."""
        inner = self.score.stand_in(n_classes)
        return inner if self.scale is None else ScaledPrediction(_rows(inner), np.ones(1))

    def common_center(self, models: Sequence[Prediction]) -> Prediction:
        """Return the common centre of the inner score, with the mean of the scales."""
        center = self.score.common_center([_rows(model) for model in models])
        return (
            center
            if self.scale is None
            else ScaledPrediction(center, np.mean([m.scale for m in models], axis=0))
        )

    def enclosing_threshold(
        self, model: Prediction, center: Prediction, threshold: FloatArray
    ) -> FloatArray:
        """Return the enclosing threshold of the inner score, as one on the centre's scale."""
        with np.errstate(invalid="ignore"):
            raw = self.score.enclosing_threshold(
                _rows(model), _rows(center), threshold * self.ambiguity(model)
            )
        return self._rescaled(np.where(np.isnan(raw), np.inf, raw), center)

    def _rescaled(self, raw: FloatArray, prediction: Prediction) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(raw != 0, raw / self.ambiguity(prediction), 0.0)


def _rows(prediction: Prediction) -> FloatArray:
    """Return the predictions of the inner score."""
    return np.asarray(prediction.rows if isinstance(prediction, ScaledPrediction) else prediction)
