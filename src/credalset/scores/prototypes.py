"""The cheapest explanation by one of several predicted prototypes, and the union of balls it induces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from credalset._predictions import PredictionBatch
from credalset._typing import ArrayLike, BoolArray, FloatArray, Prediction
from credalset._validation import as_numbers
from credalset.scores.base import Score
from credalset.scores.kullback_leibler import KullbackLeibler
from credalset.scores.registry import get_score
from credalset.sets.credal_set import CredalSet
from credalset.sets.union import UnionSet, largest_radius


@dataclass(frozen=True, eq=False)
class PrototypePrediction(PredictionBatch):
    """C prototypes for each of N items over K classes: distributions (N, C, K), precisions and offsets (N, C).

    ``np.asarray(prediction)`` is the array (N, C, K + 2) that `PrototypeNetwork.predict_prototypes` returns: the
    distribution, then the precision, then the offset.

    Examples
    --------
    >>> one = PrototypePrediction(np.array([[[0.7, 0.3]]]), np.array([[20.0]]), np.array([[0.0]]))
    >>> len(one), one.n_components, one.n_classes, np.asarray(one)
    (1, 1, 2, array([[[ 0.7,  0.3, 20. ,  0. ]]]))
    """

    distributions: FloatArray
    precisions: FloatArray
    offsets: FloatArray

    @property
    def n_components(self) -> int:
        """Number of prototypes C."""
        return int(self.precisions.shape[-1])

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.distributions.shape[-1])

    def mean(self) -> FloatArray:
        """Return the mean of the prototypes, (N, K), each weighted by exp(−offset)."""
        weights = np.exp(self.offsets.min(axis=-1, keepdims=True) - self.offsets)
        means = (weights[..., None] * self.distributions).sum(axis=-2)
        return np.asarray(means / means.sum(axis=-1, keepdims=True))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        columns = [self.distributions, self.precisions[..., None], self.offsets[..., None]]
        whole = np.concatenate(columns, axis=-1)
        return whole if dtype is None else whole.astype(dtype)


@dataclass(frozen=True)
class Prototypes(Score):
    r"""The cheapest explanation, $f = \min_c \, [\, b_c + s_c \, d(\lambda, g_c) \,]$, by one of C prototypes.

    A prototype is a distribution $g_c$, a precision $s_c > 0$ and an offset $b_c$, all predicted for each item. The
    sets are unions of the balls $\{d(\lambda, g_c) \le (t - b_c) / s_c\}$, which are exact wherever the balls are
    (`UnionSet`); prototypes with $b_c > t$ contribute nothing, and an item with no other has an empty set. With one
    prototype the set is a single ball whose size is learned: small where the model knows that it is close.

    Predictions are a `PrototypePrediction` or an array (N, C, K + 2): the K probabilities, the precision, the offset.
    Plain distributions (N, K) count as one prototype each, of precision 1. `PrototypeNetwork` predicts prototypes, and
    `PrecisionHead` gives those of a classifier that is already trained.

    Parameters
    ----------
    base : Score or str
        d, any score with convex regions. ``"kl"``, the default, is the Kullback–Leibler divergence in nats here.
    offsets : bool
        Whether offsets count. Without them every prototype's ball holds its centre, and no set is ever empty.

    Examples
    --------
    >>> two = np.array([[[0.8, 0.1, 0.1, 20.0, 0.0], [0.1, 0.8, 0.1, 20.0, 0.5]]])
    >>> score = Prototypes()
    >>> score(two, np.array([[0.1, 0.8, 0.1]]))
    array([0.5])
    >>> sets = score.region(two, threshold=1.0)
    >>> sets, sets.decide()
    (CredalSet: 1 union over 3 classes, threshold 1 (score prototypes), array([[ True,  True, False]]))
    """

    base: Score | str = "kl"
    offsets: bool = True
    name: ClassVar[str] = "prototypes"
    order: ClassVar[Literal["first", "second"]] = "first"
    has_plain_predictions: ClassVar[bool] = False

    def __post_init__(self) -> None:
        base = KullbackLeibler(math.e) if isinstance(self.base, str) and self.base == "kl" else get_score(self.base)
        if not (base.has_convex_regions and base.has_plain_predictions):
            raise ValueError(
                f"base must be a score with convex regions and plain predictions, such as 'kl' or 'tv', not {base!r}."
            )
        if not isinstance(self.offsets, bool):
            raise TypeError(f"offsets must be True or False, but is {self.offsets!r}.")
        object.__setattr__(self, "base", base)

    @property
    def distance(self) -> Score:
        """The base score as an object."""
        assert isinstance(self.base, Score)
        return self.base

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """Prototypes where the estimator has them; otherwise one of precision 1 for each prediction."""
        return ("predict_prototypes", *self.distance.prediction_methods)

    def check_prediction(
        self, prediction: ArrayLike, name: str = "prediction", n_classes: int | None = None
    ) -> PrototypePrediction:
        """Validate prototypes, or plain predictions of the base score, which count as one prototype each."""
        if not isinstance(prediction, PrototypePrediction):
            if np.ndim(prediction) != 3:
                centers = np.asarray(self.distance.check_prediction(prediction, name, n_classes))
                return PrototypePrediction(centers[:, None], np.ones((len(centers), 1)), np.zeros((len(centers), 1)))
            array = as_numbers(prediction, name)
            if array.shape[1] < 1 or array.shape[2] < 4:
                raise ValueError(
                    f"{name} must hold prototypes of shape (N, prototypes, classes + 2) with at least 1 prototype and "
                    f"2 classes, but has shape {array.shape}."
                )
            prediction = PrototypePrediction(array[..., :-2], array[..., -2], array[..., -1])
        precisions, offsets = prediction.precisions, prediction.offsets
        if not (np.isfinite(precisions).all() and (precisions > 0).all() and np.isfinite(offsets).all()):
            raise ValueError(
                f"{name} must have finite precisions above 0 (its entries [:, :, -2]) and finite offsets (its entries "
                "[:, :, -1]), but some are not."
            )
        shape = prediction.distributions.shape
        flat = self.distance.check_prediction(prediction.distributions.reshape(-1, shape[2]), name, n_classes)
        return PrototypePrediction(np.asarray(flat).reshape(shape), precisions, offsets)

    def _check_classes(self, n_classes: int) -> None:
        self.distance._check_classes(n_classes)

    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """min_c b_c + s_c d(λ, g_c), a prototype at a time."""
        result: Any = np.inf
        for c in range(prediction.n_components):
            raw = self.distance.formula(prediction.distributions[..., c, :], distribution)
            result = np.minimum(result, self._cost(prediction, c, raw))
        return np.asarray(result)

    def _cost(self, prediction: PrototypePrediction, c: int, raw: FloatArray) -> FloatArray:
        cost = prediction.precisions[..., c] * raw
        return prediction.offsets[..., c] + cost if self.offsets else cost

    @property
    def is_convex(self) -> bool:  # type: ignore[override]
        """As far as the score can tell without predictions; `is_convex_at` tells one prototype from several."""
        return self.distance.is_convex

    @property
    def has_convex_regions(self) -> bool:
        """Unions are not; `largest_above` and `largest_within` know what to do with several prototypes."""
        return False

    def is_convex_at(self, prediction: Prediction) -> bool:
        """One prototype of a convex base is; the smallest of several convex functions need not be."""
        is_one = not isinstance(prediction, PrototypePrediction) or prediction.n_components == 1
        return is_one and self.distance.is_convex

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """The best fit of the cheapest prototype."""
        fits, _, costs = self._fits(prediction)
        return np.asarray(fits[np.arange(len(fits)), costs.argmin(axis=1)])

    def _fits(self, prediction: PrototypePrediction) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What fits each prototype best, (N, C, K), its distance, and what it costs, (N, C)."""
        centers = [_part(prediction, c) for c in range(prediction.n_components)]
        fits = [self.distance.best_fit(center) for center in centers]
        raw = [self.distance.evaluate_rows(center, fit) for center, fit in zip(centers, fits, strict=True)]
        costs = [self._cost(prediction, c, values) for c, values in enumerate(raw)]
        return np.stack(fits, axis=1), np.stack(raw, axis=1), np.stack(costs, axis=1)

    def _region(self, prediction: Prediction, threshold: FloatArray) -> CredalSet:
        fits, raw, costs = self._fits(prediction)
        parts = []
        for c in range(prediction.n_components):
            offset = prediction.offsets[:, c] if self.offsets else 0.0
            within = (threshold - offset) / prediction.precisions[:, c]
            # A ball is there if and only if its best fit is a member, whatever the rounding.
            there = costs[:, c] <= threshold
            within = np.where(there, np.maximum(within, raw[:, c]), np.minimum(within, np.nextafter(raw[:, c], -1e308)))
            parts.append(self.distance._region(_part(prediction, c), within))
        if len(parts) == 1:
            return parts[0].rescored(self, threshold, prediction)
        center = fits[np.arange(len(fits)), costs.argmin(axis=1)]
        radius = largest_radius(parts)[0]
        return PrototypeSet(self, prediction, threshold, center=center, radius=radius, parts=tuple(parts))

    def largest_above(self, prediction: Prediction, lower: FloatArray) -> FloatArray:
        """Bound the largest score over {λ : λ ≥ lower} by the smallest of the prototypes' own; exact for one."""
        bounds = [
            self._cost(prediction, c, self.distance.largest_above(_part(prediction, c), lower))
            for c in range(prediction.n_components)
        ]
        return np.min(bounds, axis=0)

    def largest_within(self, prediction: Prediction, ball: CredalSet, radius: FloatArray) -> FloatArray:
        """Bound the largest score over each set of the batch by the smallest of the prototypes' own; exact for one."""
        bounds = [
            self._cost(prediction, c, self.distance.largest_within(_part(prediction, c), ball, radius))
            for c in range(prediction.n_components)
        ]
        return np.min(bounds, axis=0)


@dataclass(frozen=True, eq=False, repr=False)
class PrototypeSet(UnionSet):
    """The union of the balls around an item's prototypes; membership is decided by the score, to the last bit."""

    prediction: PrototypePrediction

    def _contains_rows(self, candidates: FloatArray) -> BoolArray:
        return CredalSet._contains_rows(self, candidates)

    def _membership(self, rows: slice, candidates: FloatArray) -> BoolArray:
        return CredalSet._membership(self, rows, candidates)


def _part(prediction: PrototypePrediction, c: int) -> FloatArray:
    """The distributions of prototype c, (N, K)."""
    return np.ascontiguousarray(prediction.distributions[:, c])
