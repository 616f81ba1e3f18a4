"""The laws of a score, to be run over one: yours, before you rely on it, and all of the package's own.

Nothing but NumPy is needed. A law that fails raises an ``AssertionError`` that says which one, for which prediction,
and what to look at.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import FloatArray, Prediction
from credalset._validation import Checked
from credalset.calibration import conformalize
from credalset.io.store import load
from credalset.scores import REGISTRY, Score, get_score
from credalset.sets.credal_set import CredalSet
from credalset.simplex import grid, sample_uniform

TOLERANCE = 1e-6  # of the answers of regions without closed forms; those with them are held to it as well
QUANTILES = (0.02, 0.2, 0.6)  # of the scores of uniform points: thresholds of small, middling and large sets


@dataclass(frozen=True)
class Report:
    """The laws that a score was found to keep."""

    score: Score
    laws: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.score!r} keeps {len(self.laws)} laws: {', '.join(self.laws)}."


def check_score(score: Score, predictions: Any = None, *, n_items: int = 8, random_state: int = 0) -> Report:
    """Check that a score and its region keep the laws that coverage and every answer rest on.

    Parameters
    ----------
    score : Score
        An instance, with the parameters it will be used with.
    predictions : array, optional
        Predictions to check it with, as `score.region` takes them. By default random ones over 2, 3 and 5 classes, of
        the score's order.
    n_items : int
        Number of random predictions for each number of classes.
    random_state : int
        Seed.

    Returns
    -------
    Report
        Prints as the list of laws.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> print(check_score(TotalVariation(), n_items=4))
    TotalVariation() keeps 9 laws: numbers, membership, boundary, nesting, bits, best fit, region, answers, saving.
    """
    if not isinstance(score, Score):
        raise TypeError(f"score must be a Score object such as TotalVariation(), but is {score!r}.")
    rng = np.random.default_rng(random_state)
    batches = _default_predictions(score, n_items, rng) if predictions is None else [predictions]
    laws: list[str] = []
    for batch in batches:
        laws = _check_batch(score, score.check_prediction(batch), rng)
    if REGISTRY.get(getattr(score, "name", "")) is type(score):
        _check_saving(score, score.check_prediction(batches[0]), rng)
        laws = [*laws, "saving"]
    return Report(score, tuple(laws))


def _default_predictions(score: Score, n_items: int, rng: np.random.Generator) -> list[Any]:
    found = []
    for n_classes in (2, 3, 5):
        try:
            score._check_classes(n_classes)
        except ValueError:  # a score whose parameters are for another number of classes
            continue
        rows = rng.dirichlet(np.ones(n_classes), n_items)
        found.append(rows if score.order == "first" else 1.0 + rows * rng.gamma(2.0, 5.0, (n_items, 1)))
    if not found:
        raise ValueError(f"{score!r} takes neither 2, 3 nor 5 classes. Pass predictions with the number that it takes.")
    return found


def _check_batch(score: Score, prediction: Prediction, rng: np.random.Generator) -> list[str]:
    n_classes = score.n_classes(prediction)
    points = np.concatenate(
        [sample_uniform(300, n_classes, rng), np.eye(n_classes), np.full((1, n_classes), 1.0 / n_classes)]
    )
    scores = score.evaluate_pairs(prediction, points[None])
    _say(not np.isnan(scores).any(), "numbers", score, "the formula is NaN somewhere", "return +inf where nothing fits")
    for share in QUANTILES:
        thresholds = np.quantile(np.where(np.isinf(scores), scores[np.isfinite(scores)].max(), scores), share, axis=1)
        _check_region(score, score.region(prediction, thresholds), points, scores, thresholds)
    _check_boundary(score, prediction, points, scores)
    _check_bits(score, prediction, points)
    best = score.evaluate_rows(prediction, score.best_fit(prediction))
    slack = 1e-9 * np.maximum(1.0, np.abs(best))
    _say(
        (best[:, None] <= scores + slack[:, None]).all(),
        "best fit",
        score,
        "some distribution fits better than best_fit says",
        "best_fit must return where the formula is smallest",
    )
    return ["numbers", "membership", "boundary", "nesting", "bits", "best fit", "region", "answers"]


def _check_region(
    score: Score, sets: CredalSet, points: FloatArray, scores: FloatArray, thresholds: FloatArray
) -> None:
    inside = sets.contains(points, broadcast=True)
    _say(
        np.array_equal(inside, scores <= thresholds[:, None]),
        "membership",
        score,
        "contains() and the formula disagree",
        "the set must be exactly {λ : formula ≤ threshold}",
    )
    larger = score.region(sets.prediction, thresholds + 0.1 * (1.0 + np.abs(thresholds)))
    _say(
        (inside <= larger.contains(points, broadcast=True)).all(),
        "nesting",
        score,
        "a larger threshold lost members",
        "",
    )
    proper = np.flatnonzero(~sets.is_empty() & np.isfinite(sets.radius))
    if len(proper):
        _check_divergence(score, sets[proper], points, inside[proper])
        _check_answers(score, sets[proper], points, inside[proper])


def _check_divergence(score: Score, sets: CredalSet, points: FloatArray, inside: Any) -> None:
    """The region's own function must say what membership says, away from rounding."""
    distance = sets.geometry.divergence(np.broadcast_to(points, (len(sets), *points.shape)))
    slack = 1e-9 * np.maximum(1.0, np.abs(sets.radius))[:, None]
    clear = np.abs(distance - sets.radius[:, None]) > slack
    agree = (distance <= sets.radius[:, None]) == inside
    _say(
        bool((agree | ~clear).all()),
        "region",
        score,
        "the region's divergence and radius describe another set",
        "divergence(λ) ≤ radius must hold exactly for members",
    )


def _check_answers(score: Score, sets: CredalSet, points: FloatArray, inside: Any) -> None:
    """No member goes beyond an answer, and every answer of a convex set is attained by a member."""
    lower, upper = sets.envelope()
    bounds = sets.entropy_bounds()
    utility = np.random.default_rng(0).normal(size=sets.n_classes)
    value, attaining = sets.support(utility)
    members = points if sets.n_classes != 3 else np.concatenate([points, grid(3, 0.05)])
    held = inside if members is points else sets.contains(members, broadcast=True)
    entropies = -np.where(members > 0, members * np.log(np.where(members > 0, members, 1.0)), 0.0).sum(axis=1)
    for i in range(len(sets)):
        own = members[held[i]]
        if not len(own):
            continue
        beyond = max(
            float((own - upper[i]).max()),
            float((lower[i] - own).max()),
            float((own @ utility).max() - value[i]),
            float(entropies[held[i]].max() - bounds.upper[i]),
            float(bounds.lower[i] - entropies[held[i]].min()),
        )
        _say(beyond <= TOLERANCE, "answers", score, f"a member goes beyond an answer of set {i} by {beyond:.2g}", "")
    if not sets.geometry.is_outer:
        short = np.abs(attaining @ utility - value).max()
        distance = sets.geometry.divergence(attaining[:, None])[:, 0] - sets.radius
        scale = np.maximum(1.0, np.abs(sets.radius))
        _say(
            bool(short <= 10 * TOLERANCE and (distance <= TOLERANCE * scale).all()),
            "answers",
            score,
            "the largest expectation is not attained by a member",
            "support must return a member of the set",
        )


def _check_boundary(score: Score, prediction: Prediction, points: FloatArray, scores: FloatArray) -> None:
    labels = points[: min(len(prediction), len(points))]
    rows = slice(0, len(labels))
    values = np.array([scores[i, i] for i in range(len(labels))])
    finite = np.isfinite(values)
    sets = score.region(prediction[rows], values)
    _say(bool(sets.contains(labels).all()), "boundary", score, "a set does not hold its boundary", "sets are closed")
    below = score.region(prediction[rows], np.nextafter(values, -np.inf))
    outside = ~below.contains(labels)
    _say(bool(outside[finite].all()), "boundary", score, "a set holds what scores above its threshold", "")


def _check_bits(score: Score, prediction: Prediction, points: FloatArray) -> None:
    n = min(len(prediction), len(points))
    labels, rows = points[:n], prediction[:n]
    together = score.evaluate_rows(rows, labels)
    alone = np.concatenate([score.evaluate_rows(rows[i : i + 1], labels[i : i + 1]) for i in range(n)])
    back = score.evaluate_rows(rows[::-1], np.asfortranarray(labels[::-1]))[::-1]
    _say(
        np.array_equal(together, alone) and np.array_equal(together, back),
        "bits",
        score,
        "the score of an item depends on the batch it is in, so ties do not tie",
        "use operations entry by entry and sums over the last axis, no matrix products",
    )


def _check_saving(score: Score, prediction: Prediction, rng: np.random.Generator) -> None:
    labels = rng.dirichlet(np.ones(score.n_classes(prediction)), len(prediction))
    made = conformalize(Checked(prediction), labels, score)
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "calibration")
        back: Any = load(Path(folder) / "calibration")
    same = back.score == score and np.array_equal(back.scores, made.scores)
    _say(same, "saving", score, "it comes back from a file as another score", "parameters must be plain values")
    _say(type(get_score(score.name)) is type(score), "saving", score, "its name stands for another score", "")


def _say(holds: bool | np.bool_, law: str, score: Score, what: str, advice: str) -> None:
    if not holds:
        raise AssertionError(
            f"{type(score).__name__} breaks the law of {law}: {what}.{f' Advice: {advice}.' if advice else ''}"
        )
