"""From predictions and labels of one run to result rows: calibrate, predict sets, measure them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._parallel import for_each_block
from credalset._typing import FloatArray
from credalset.calibration import conformalize
from credalset.experiments.batch import Row
from credalset.scores import Normalized, Score, get_score
from credalset.sets.credal_set import PAIRS_PER_BLOCK, CredalSet
from credalset.simplex import grid

FIRST_ORDER = ("tv", "ws", "kl", "inner")
SECOND_ORDER = ("so", "density")
GRID_STEP = 0.005  # the paper's


@dataclass(frozen=True)
class Part:
    """Predictions and label distributions of the items of a split; ``truth`` where votes are simulated."""

    prediction: Any
    labels: FloatArray
    truth: FloatArray | None = None


@dataclass(frozen=True)
class Effort:
    """How much to spend on estimated volumes: sets per batch and rays per set."""

    n_sets: int = 100
    n_rays: int = 256


def first_order_scores(offset: float) -> dict[str, Score]:
    """Return the paper's first-order scores and their normalised variants.

    Examples
    --------
    >>> list(first_order_scores(0.1))[-1]
    'normalized-inner'
    """
    plain = {name: get_score(name) for name in FIRST_ORDER}
    return plain | {f"normalized-{name}": Normalized(score, offset=offset) for name, score in plain.items()}


def second_order_scores() -> dict[str, Score]:
    """Return the scores of second-order predictions."""
    return {name: get_score(name) for name in SECOND_ORDER}


def measure(
    head: Row, score: Score, calibration: Part, test: Part, alphas: Sequence[float], effort: Effort
) -> list[Row]:
    """Calibrate a score and measure the sets it gives, one row per level.

    Parameters
    ----------
    head : dict
        Columns that say which run this is.
    score : Score
        The score, of the order of the predictions.
    calibration, test : Part
        Predictions and labels.
    alphas : sequence of float
        Levels.
    effort : Effort
        How exactly to estimate volumes that have no closed form.

    Returns
    -------
    list of dict
        Coverage of the labels and of the truth, threshold, efficiency (three classes), mean volume with its error,
        mean uncertainties in base K and how far they may be off, and the share of empty sets.
    """
    calibrated = conformalize(calibration.prediction, calibration.labels, score)
    families = [calibrated.predict_set(test.prediction, alpha) for alpha in alphas]
    thresholds = [calibrated.threshold(alpha) for alpha in alphas]
    shares = grid_shares(families[0], thresholds) if families[0].n_classes == 3 else [math.nan] * len(alphas)
    sizes = {"n_calibration": len(calibration.labels), "n_test": len(test.labels)}
    return [
        {
            **head,
            **sizes,
            "alpha": alpha,
            "threshold": threshold,
            "efficiency": share,
            **_coverage(sets, test),
            **_size(sets, effort),
            **_uncertainty(sets),
        }
        for alpha, threshold, sets, share in zip(alphas, thresholds, families, shares, strict=True)
    ]


def grid_shares(sets: CredalSet, thresholds: Sequence[float]) -> list[float]:
    """Return the mean of `CredalSet.efficiency` at several thresholds, scoring every grid point only once."""
    points = np.ascontiguousarray(grid(sets.n_classes, GRID_STEP).T)[:, None, :]
    inside = np.empty((len(thresholds), len(sets)))

    def one_block(rows: slice) -> None:
        scores = sets.score.evaluate(sets.prediction[rows].T[..., None], points)
        for k, threshold in enumerate(thresholds):
            inside[k, rows] = (scores <= threshold).mean(axis=1)

    for_each_block(one_block, len(sets), points.shape[2], block_size=PAIRS_PER_BLOCK)
    return [float(share) for share in inside.mean(axis=1)]


def _coverage(sets: CredalSet, test: Part) -> Row:
    truth = math.nan if test.truth is None else float(sets.contains(test.truth).mean())
    return {"coverage": float(sets.contains(test.labels).mean()), "coverage_true": truth}


def _size(sets: CredalSet, effort: Effort) -> Row:
    """Mean volume: of all sets where it is exact, of some that are spread through the batch where it is estimated."""
    empty = float(sets.is_empty().mean())
    is_exact = sets.answers()["volume"] == "exact"
    chosen = sets if is_exact else sets[:: max(1, -(-len(sets) // effort.n_sets))]
    volumes = np.asarray(chosen.volume(n_rays=effort.n_rays))
    error = 0.0 if is_exact else float(volumes.std(ddof=1) / math.sqrt(len(volumes)))
    return {"volume": float(volumes.mean()), "volume_error": error, "empty": empty}


def _uncertainty(sets: CredalSet) -> Row:
    parts = sets.uncertainty("K")
    return {name: _finite_mean(getattr(parts, name)) for name in ("total", "aleatoric", "epistemic", "epistemic_gap")}


def _finite_mean(values: FloatArray) -> float:
    """Mean over the sets that have members."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def example_rows(
    head: Row, score: Score, calibration: Part, test: Part, alpha: float, items: Sequence[int]
) -> list[Row]:
    """Keep predictions and thresholds of a few test items, from which their sets can be drawn later."""
    threshold = conformalize(calibration.prediction, calibration.labels, score).threshold(alpha)
    prediction = np.asarray(test.prediction)
    return [
        {
            **head,
            "alpha": alpha,
            "item": int(item),
            "prediction": prediction[item].ravel().tolist(),  # a mixture is one row per component
            "threshold": threshold,
            "label": test.labels[item].tolist(),
            "truth": None if test.truth is None else test.truth[item].tolist(),
        }
        for item in items
    ]
