r"""Sets that adapt to the item: the score divided by its own predicted quantile.

A crowd says what a score will be: λ is drawn from the posterior of the item, and f(g, λ) with it.
The scale of an item is the 90 % quantile of this distribution, and the score that is calibrated is
f / (scale + offset). Sets around items whose crowd is easy to predict become smaller, the others
larger, and coverage becomes even. It stays exact whatever the scale is, because the scale is a
fixed function of the prediction and of the votes in hand.

It is a fixed function because all items share the same base variates: draw i of every item uses
the same normal and exponential numbers, one pair per class. They come from the raw bits of a bit
generator, which NumPy promises not to change, so that a saved calibration scales alike everywhere.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from credalset._typing import FloatArray, IntArray, Prediction
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior, blocks
from credalset.scores import Score
from credalset.scores.normalized import Normalized, ScaledPrediction

QUANTILE = 0.9  # of the score under the posterior
N_DRAWS = 200  # distributions drawn per item
FEWEST_DRAWS = 50  # with many classes
MANY_NUMBERS = 20_000  # draws × classes beyond which there are fewer draws
LARGEST = 1e300  # scale of an item whose score is infinite
BLOCK = 1 << 18  # numbers drawn at a time, so that they stay in cache
SCALES = ("posterior", None)


def adapt(score: Score, scale: str | None, n_classes: int) -> Score:
    """Return the score to calibrate: divided by its scale if that is wanted and defined."""
    offset = None if scale is None else score.scale_offset(n_classes)
    return score if offset is None else Normalized(score, offset=offset, scale="predicted")


def predict_for(
    score: Score, law: CrowdLaw, prediction: FloatArray, counts: FloatArray
) -> Prediction:
    """Return the prediction around which a score forms sets, with its scale if it needs one.

    Parameters
    ----------
    score : Score
        A calibrated score; one of `adapt` has a predicted scale.
    law : CrowdLaw
        The fitted law.
    prediction, counts : ndarray of shape (N, K)
        Predictions and votes in hand.
    """
    is_scaled = isinstance(score, Normalized) and score.scale is not None
    inner: Score = score.score if is_scaled else score  # type: ignore[attr-defined]
    center = np.empty_like(prediction)
    scale = np.empty(len(prediction))
    n_parts = len(law.around) + len(law.consensus)
    for rows in blocks(len(prediction), 6 * n_parts * prediction.shape[1]):
        posterior = Posterior.given(law, prediction[rows], counts[rows])
        center[rows] = posterior.center(score.order)
        if is_scaled:
            scale[rows] = posterior_scale(inner, posterior, center[rows])
    return ScaledPrediction(center, scale) if is_scaled else center


def posterior_scale(score: Score, posterior: Posterior, center: FloatArray) -> FloatArray:
    """Return the 90 % quantile of the score of each item under its posterior, (N,).

    Parameters
    ----------
    score : Score
        The score.
    posterior : Posterior
        Posteriors of N items.
    center : ndarray of shape (N, K)
        Predictions that are scored.
    """
    n_classes = center.shape[1]
    n_draws = number_of_draws(n_classes)
    place = math.ceil(QUANTILE * (n_draws + 1)) - 1
    scale = np.empty(len(center))
    size = max(1, BLOCK // (n_draws * n_classes))
    for start in range(0, len(center), size):
        rows = slice(start, start + size)
        scores = score.evaluate_pairs(center[rows], draw_alike(posterior[rows], n_draws))
        scale[rows] = np.partition(scores, place, axis=1)[:, place]
    return np.clip(scale, 0.0, LARGEST)


def number_of_draws(n_classes: int) -> int:
    """Return the number of distributions to draw per item, which depends on K alone."""
    return min(N_DRAWS, max(FEWEST_DRAWS, MANY_NUMBERS // n_classes))


def draw_alike(posterior: Posterior, n_draws: int) -> FloatArray:
    r"""Draw distributions of N items from the same base variates, (N, n_draws, K).

    The components of the mixture get numbers of draws in proportion to their weights. A share with
    concentration α is G / ΣG with G ~ Gamma(α). We write $G = G' e^{-E/α}$ with $G' \sim
    \mathrm{Gamma}(α + 1)$ and E exponential, and replace G' by the cube of a normal number with the
    right moments (Wilson and Hilferty, 1931), which for α + 1 ≥ 1 is close. That needs no
    rejection, so that each draw uses the same base variates for every item.
    """
    normal, exponential = base_variates(n_draws, posterior.prediction.shape[1])
    concentration = posterior.of_components(_components(posterior.weights, n_draws))
    shape = concentration + 1.0
    root = 1.0 / (3.0 * np.sqrt(shape))
    cube = np.maximum(1.0 - root * root + normal * root, 1e-3)
    logs = 3.0 * np.log(cube) + np.log(shape) - exponential / concentration
    logs -= logs.max(axis=2, keepdims=True)
    draws = np.exp(logs, out=logs)
    draws /= draws.sum(axis=2, keepdims=True)
    return draws


def _components(weights: FloatArray, n_draws: int) -> IntArray:
    """Return the component of each draw, (N, n_draws), in increasing order."""
    ends = np.cumsum(weights, axis=1)
    # How many of the points (i + ½)/n lie below the end of each component.
    below = np.ceil(ends[:, :-1] / ends[:, -1:] * n_draws - 0.5).astype(np.int64)
    # A draw's component is the number of ends at or before it: count the ends at each place.
    n_items = len(weights)
    steps = np.zeros((n_items, n_draws + 1), dtype=np.int64)
    np.add.at(steps, (np.arange(n_items)[:, None], np.minimum(below, n_draws)), 1)
    return np.cumsum(steps[:, :-1], axis=1)


@lru_cache(maxsize=16)
def base_variates(n_draws: int, n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return standard normal and exponential numbers that all items share, (n_draws, K) each."""
    bits: Any = np.random.PCG64(0).random_raw((2, n_draws, n_classes))
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    normal = np.asarray(ndtri(uniform[0]))
    exponential = -np.log(uniform[1])
    normal.flags.writeable = False
    exponential.flags.writeable = False
    return normal, exponential
