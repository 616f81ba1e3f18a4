"""From the predictions and labels of one run to result rows: predict sets, measure them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._blocks import gather_blocks
from credalset._typing import FloatArray, IntArray
from credalset.calibration import SplitCalibration
from credalset.metrics import evenly, has_exact_volumes, mean_sizes
from credalset.scores import Normalized, RelativeLikelihood, Score, get_score
from credalset.sets.credal_set import CredalSet
from credalset.sets.membership import PAIRS_PER_BLOCK
from credalset.simplex import grid
from reproduction.batch import READ, Row

FIRST_ORDER = ("tv", "ws", "kl", "inner")
ALL_FIRST_ORDER = FIRST_ORDER + tuple(f"normalized-{name}" for name in FIRST_ORDER)
SECOND_ORDER = ("so", "density")
GRID_STEP = 0.005  # the paper's


@dataclass(frozen=True)
class Part:
    """Items of a split: features, later the predictions made from them, and labels.

    More where votes are simulated.
    """

    inputs: Any
    labels: FloatArray
    truth: FloatArray | None = None
    counts: IntArray | None = None


def score_named(name: str, offset: float) -> Score:
    """Return a score by its name in the result rows; ``offset`` is that of normalised scores.

    Examples
    --------
    >>> [score_named(name, 0.1).name for name in ("tv", "normalized-tv")]
    ['tv', 'normalized']
    """
    plain = get_score(name.removeprefix("normalized-"))
    return Normalized(plain, offset=offset) if name.startswith("normalized-") else plain


def measure(
    head: Row,
    calibrated: SplitCalibration,
    test: Part,
    alphas: Sequence[float],
    *,
    max_sets: int,
    n_rays: int,
) -> list[Row]:
    """Measure the sets that a calibration gives, one row per level.

    Parameters
    ----------
    head : dict
        Columns that say which run this is.
    calibrated : SplitCalibration
        The calibrated score.
    test : Part
        Predictions and labels.
    alphas : sequence of float
        Levels.
    max_sets, n_rays : int
        How many sets and rays per set to spend on volumes that have no closed form; so many sets
        are read off, too.

    Returns
    -------
    list of dict
        Coverage of the labels and of the truth, threshold, efficiency (three classes), mean volume
        with its error, mean width, number of labels that stay possible and share of items decided,
        mean uncertainties in base K and how far they may be off, and the share of empty sets.
    """
    families = [calibrated.predict_set(test.inputs, alpha) for alpha in alphas]
    thresholds = [calibrated.threshold(alpha) for alpha in alphas]
    shares = (
        grid_shares(families[0], thresholds)
        if families[0].n_classes == 3
        else [math.nan] * len(alphas)
    )
    rows = []
    for alpha, threshold, sets, share in zip(alphas, thresholds, families, shares, strict=True):
        truth = math.nan if test.truth is None else float(sets.contains(test.truth).mean())
        score = calibrated.score
        shown = (
            score.as_published(np.asarray(threshold))
            if isinstance(score, RelativeLikelihood)
            else threshold
        )
        row = {
            **head,
            "alpha": alpha,
            "threshold": float(shown),
            "efficiency": share,
            "coverage_true": truth,
        }
        row |= {
            "coverage": float(sets.contains(test.labels).mean()),
            "empty": float(sets.is_empty().mean()),
        }
        rows.append(
            row | _volume(sets, max_sets, n_rays) | _read_off(sets, max_sets) | _uncertainty(sets)
        )
    return rows


def grid_shares(sets: CredalSet, thresholds: Sequence[float]) -> list[float]:
    """Return the mean of `CredalSet.efficiency` at several thresholds, scoring points once."""
    points = grid(sets.n_classes, GRID_STEP)[None]

    def one_block(rows: slice) -> FloatArray:
        scores = sets.score.evaluate_pairs(sets.prediction[rows], points)
        return np.stack([(scores <= threshold).mean(axis=1) for threshold in thresholds], axis=1)

    inside = gather_blocks(one_block, len(sets), points.shape[1], PAIRS_PER_BLOCK)
    return [float(share) for share in inside.mean(axis=0)]


def _volume(sets: CredalSet, max_sets: int, n_rays: int) -> Row:
    is_exact = has_exact_volumes(sets)
    chosen = sets if is_exact else evenly(sets, max_sets)
    volumes = np.asarray(chosen.volume(n_rays=n_rays))
    error = 0.0 if is_exact else float(volumes.std(ddof=1) / math.sqrt(len(volumes)))
    return {"volume": float(volumes.mean()), "volume_error": error}


def _read_off(sets: CredalSet, max_sets: int) -> Row:
    """What people read off sets, of at most so many."""
    sizes = mean_sizes(sets, max_sets=max_sets)
    return {name: float(sizes[name]) for name in READ}


def _uncertainty(sets: CredalSet) -> Row:
    """Mean uncertainties of the sets that have members."""
    parts = sets.uncertainty("K")
    known = ~sets.is_empty()
    names = ("total", "aleatoric", "epistemic", "epistemic_gap")
    return {
        name: float(getattr(parts, name)[known].mean()) if known.any() else math.nan
        for name in names
    }


def example_rows(
    head: Row,
    calibrated: SplitCalibration,
    test: Part,
    alpha: float,
    items: Sequence[int],
    names: Sequence[str] = (),
) -> list[Row]:
    """Keep predictions and thresholds of a few test items, to draw their sets from later."""
    prediction = np.asarray(test.inputs)
    return [
        {
            **head,
            "alpha": alpha,
            "item": int(item),
            "name": names[place] if names else str(item),
            "prediction": prediction[item].tolist(),
            "threshold": calibrated.threshold(alpha),
            "label": test.labels[item].tolist(),
            "truth": None if test.truth is None else test.truth[item].tolist(),
        }
        for place, item in enumerate(items)
    ]
