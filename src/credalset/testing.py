"""Checks that a score and its region belong together.

The package runs them on all its scores; run them on yours.

A failed check raises an ``AssertionError`` with its name and the reason.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import FloatArray, IntArray, Prediction
from credalset.calibration import conformalize
from credalset.io.store import load
from credalset.scores import REGISTRY, Score, get_score
from credalset.sets import CredalSet
from credalset.sets.membership import contains_pairs
from credalset.simplex import entropy_of_valid, grid, sample_uniform

__all__ = ["Report", "check_score"]


def __dir__() -> list[str]:
    return list(__all__)


TOLERANCE = 1e-6  # of answers
#: quantiles of the scores of uniform points: thresholds of small, medium and large sets
QUANTILES = (0.02, 0.2, 0.6)
CHECKS = (
    *("numbers", "membership", "boundary", "nesting", "ties", "best fit", "region", "answers"),
    "batches",
)


@dataclass(frozen=True)
class Report:
    """The checks that a score has passed."""

    score: Score
    checks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.score!r} passes {len(self.checks)} checks: {', '.join(self.checks)}."


def check_score(
    score: Score, predictions: Any = None, *, n_items: int = 8, random_state: int = 0
) -> Report:
    """Check the properties of a score on which coverage and all results rely.

    The most important one is that ``score(prediction, λ) <= t`` if and only if λ is in
    ``score.region(prediction, t)``. A failed check raises an ``AssertionError`` with its name and
    the reason.

    Parameters
    ----------
    score : Score
        An instance with the parameters that you will use.
    predictions : array, optional
        Predictions as for `score.region`. By default random ones over 2, 3 and 5 classes, of the
        score's order.
    n_items : int
        Number of random predictions for each number of classes.
    random_state : int
        Seed.

    Returns
    -------
    object
        The ``score`` and the names of the ``checks`` that it passed; prints as a sentence.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> print(check_score(TotalVariation(), n_items=4))
    TotalVariation() passes 10 checks: numbers, membership, boundary, nesting, ties, best fit,
    region, answers, batches, saving.
    """
    if not isinstance(score, Score):
        raise TypeError(f"score must be a Score object such as TotalVariation(), but is {score!r}.")
    rng = np.random.default_rng(random_state)
    batches = _default_predictions(score, n_items, rng) if predictions is None else [predictions]
    for batch in batches:
        _check_batch(score, score.check_prediction(batch), rng)
    is_registered = REGISTRY.get(getattr(score, "name", "")) is type(score)
    if is_registered:
        _check_saving(score, score.check_prediction(batches[0]), rng)
    return Report(score, (*CHECKS, "saving") if is_registered else CHECKS)


def _require(holds: bool | np.bool_, check: str, score: Score, sentence: str) -> None:
    if not holds:
        raise AssertionError(f"{type(score).__name__} fails the check of {check}: {sentence}")


def _default_predictions(score: Score, n_items: int, rng: np.random.Generator) -> list[Any]:
    found = []
    for n_classes in (2, 3, 5):
        rows = rng.dirichlet(np.ones(n_classes), n_items)
        prediction = (
            rows if score.order == "first" else 1.0 + rows * rng.gamma(2.0, 5.0, (n_items, 1))
        )
        try:
            score.check_prediction(prediction)
        except ValueError:  # the score's parameters are for another number of classes
            continue
        found.append(prediction)
    if not found:
        raise ValueError(
            "predictions is missing, and the score accepts neither 2, 3 nor 5 classes. Pass "
            "predictions."
        )
    return found


def _check_batch(score: Score, prediction: Prediction, rng: np.random.Generator) -> None:
    k = score.n_classes(prediction)
    points = np.concatenate([sample_uniform(300, k, rng), np.eye(k), np.full((1, k), 1.0 / k)])
    scores = score.evaluate_pairs(prediction, points[None])
    _require(
        not np.isnan(scores).any(), "numbers", score, "the formula is NaN. Return +inf instead."
    )
    finite = np.where(np.isinf(scores), scores[np.isfinite(scores)].max(), scores)
    for share in QUANTILES:
        _check_region(
            score, score._region(prediction, np.quantile(finite, share, axis=1)), points, scores
        )
    _check_boundary(score, prediction, points, scores)
    _check_ties(score, prediction, points)
    best = score.evaluate_rows(prediction, score.best_fit(prediction))[:, None]
    _check_mixed(score, prediction, best[:, 0], np.quantile(finite, QUANTILES[1], axis=1))
    is_best = (best <= scores + 1e-9 * np.maximum(1.0, np.abs(best))).all()
    _require(is_best, "best fit", score, "some distribution has a smaller score than best_fit.")


def _check_region(score: Score, sets: CredalSet, points: FloatArray, scores: FloatArray) -> None:
    inside = contains_pairs(sets, points[None])
    thresholds = sets.threshold
    is_same = np.array_equal(inside, scores <= thresholds[:, None])
    _require(is_same, "membership", score, "contains() and formula ≤ threshold disagree.")
    larger = score._region(sets.prediction, thresholds + 0.1 * (1.0 + np.abs(thresholds)))
    is_nested = (inside <= contains_pairs(larger, points[None])).all()
    _require(is_nested, "nesting", score, "a set at a larger threshold has fewer members.")
    proper = np.flatnonzero(~sets.is_empty() & np.isfinite(sets.radius))
    if len(proper) == 0:
        return
    sets = sets[proper]
    inside = inside[proper]
    distance = sets.geometry.divergence(np.broadcast_to(points, (len(sets), *points.shape)))
    radius = sets.radius[:, None]
    close = np.abs(distance - radius) <= 1e-9 * np.maximum(1.0, np.abs(radius))
    agree = ((distance <= radius) == inside) | close
    _require(
        agree.all(), "region", score, "divergence(λ) ≤ radius must hold exactly for the members."
    )
    _check_answers(
        score, sets, points if sets.n_classes != 3 else np.concatenate([points, grid(3, 0.05)])
    )


def _check_answers(score: Score, sets: CredalSet, points: FloatArray) -> None:
    """Check that no member violates a bound, and that a member attains the largest expectation."""
    utility = np.random.default_rng(0).normal(size=sets.n_classes)
    lower, upper = sets.envelope()
    bounds = sets.entropy_bounds()
    value, attaining = sets.support(utility)
    held = contains_pairs(sets, points[None])
    entropy = entropy_of_valid(points)
    for i in range(len(sets)):
        own = points[held[i]]
        own_entropy = entropy[held[i]]
        beyond = [own - upper[i], lower[i] - own, own @ utility - value[i]]
        beyond += [own_entropy - bounds.upper[i], bounds.lower[i] - own_entropy]
        worst = max((float(excess.max(initial=0.0)) for excess in beyond), default=0.0)
        _require(
            worst <= TOLERANCE,
            "answers",
            score,
            f"a member of set {i} violates a bound by {worst:.2g}.",
        )
    short = np.abs(attaining @ utility - value).max()
    distance = sets.geometry.divergence(attaining[:, None])[:, 0] - sets.radius
    is_member = (distance <= TOLERANCE * np.maximum(1.0, np.abs(sets.radius))).all()
    allowed = TOLERANCE + 2.0 * sets.geometry.tolerance * float(np.ptp(utility))
    _require(
        short <= allowed and is_member,
        "answers",
        score,
        "support must return a member that attains its value.",
    )


def _check_mixed(
    score: Score, prediction: Prediction, best: FloatArray, threshold: FloatArray
) -> None:
    """Check batches of empty sets, whole simplices and regular sets, of one kind or of all."""
    n = min(len(prediction), 6)  # answers of a score that is only a formula take their time
    kind = np.arange(n) % 3
    empty = best[:n] - 1.0 - np.abs(best[:n])
    levels = np.choose(kind, [empty, np.full(n, np.inf), threshold[:n]])
    for name, rows in {
        "all kinds": np.arange(n),
        "empty sets": np.flatnonzero(kind == 0),
        "whole simplices": np.flatnonzero(kind == 1),
        "no set": np.arange(0),
    }.items():
        try:
            sets = score._region(prediction[:n][rows], levels[rows])
            wrong = _wrong_fill(sets, kind[rows])
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            wrong = f"an error is raised: {error}"
        _require(not wrong, "batches", score, f"in a batch of {name}, {wrong}")


def _wrong_fill(sets: CredalSet, kind: IntArray) -> str:
    """Tell what is wrong with the answers for empty (0), whole (1) and regular (2) sets."""
    n = len(sets)
    k = sets.n_classes
    lower, upper = sets.envelope()
    least, most = sets.entropy_bounds("K")
    share = sets.volume(n_rays=16)
    kept = sets.decide()
    expected = sets.upper_expectation(np.arange(k))
    draws = sets.sample(2, random_state=0)
    # The answer, the shape of a row, and its entries for an empty set and for a whole simplex.
    filled: dict[str, tuple[Any, tuple[int, ...], float, float]] = {
        "lower": (lower, (k,), np.nan, 0.0),
        "upper": (upper, (k,), np.nan, 1.0),
        "the smallest entropy": (least, (), np.nan, 0.0),
        "the largest entropy": (most, (), np.nan, 1.0),
        "volume": (share, (), 0.0, 1.0),
        "decide": (kept, (k,), 0.0, 1.0),
        "upper_expectation": (expected, (), np.nan, k - 1.0),
    }
    for name, (found, row, of_empty, of_whole) in filled.items():
        if found.shape != (n, *row):
            return f"{name} has shape {found.shape}."
        values = found.astype(float)
        if not np.isclose(values[kind == 0], of_empty, equal_nan=True).all():
            return f"{name} is not {of_empty} for an empty set."
        if not np.isclose(values[kind == 1], of_whole).all():
            return f"{name} is not {of_whole} for a whole simplex."
        if np.isnan(values[kind == 2]).any():
            return f"{name} is NaN for a set that has members."
    if draws.shape != (n, 2, k) or np.isnan(draws[kind > 0]).any():
        return "sample does not return members of each set."
    return ""


def _check_boundary(
    score: Score, prediction: Prediction, points: FloatArray, scores: FloatArray
) -> None:
    n = min(len(prediction), len(points))
    values = np.diagonal(scores)[:n].copy()
    rows = prediction[:n]
    held = score._region(rows, values).contains(points[:n])
    _require(
        held.all(),
        "boundary",
        score,
        "a distribution with a score equal to the threshold is not a member.",
    )
    below = score._region(rows, np.nextafter(values, -np.inf)).contains(points[:n])
    _require(
        not below[np.isfinite(values)].any(),
        "boundary",
        score,
        "a distribution with a score above the threshold is a member.",
    )


def _check_ties(score: Score, prediction: Prediction, points: FloatArray) -> None:
    n = min(len(prediction), len(points))
    labels = points[:n]
    rows = prediction[:n]
    together = score.evaluate_rows(rows, labels)
    alone = np.concatenate(
        [score.evaluate_rows(rows[i : i + 1], labels[i : i + 1]) for i in range(n)]
    )
    back = score.evaluate_rows(rows[::-1], np.asfortranarray(labels[::-1]))[::-1]
    is_same = np.array_equal(together, alone) and np.array_equal(together, back)
    reason = (
        "scores depend on the batch. Use elementwise operations and sums over the last "
        "axis, no matrix products."
    )
    _require(is_same, "ties", score, reason)


def _check_saving(score: Score, prediction: Prediction, rng: np.random.Generator) -> None:
    labels = rng.dirichlet(np.ones(score.n_classes(prediction)), len(prediction))
    made = conformalize(prediction, labels, score)
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "calibration")
        back: Any = load(Path(folder) / "calibration")
    is_same = back.score == score and np.array_equal(back.scores, made.scores)
    _require(
        is_same,
        "saving",
        score,
        "a saved score is not equal after loading. Use plain values as parameters.",
    )
    _require(
        type(get_score(score.name)) is type(score),
        "saving",
        score,
        "its name is registered for another score.",
    )
