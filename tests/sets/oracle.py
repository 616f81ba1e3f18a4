"""Members of sets that no geometry had a hand in: found from the score alone, by rays,
bisection and local search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from credalset.scores import Score
from credalset.sets import CredalSet
from credalset.sets.membership import contains_pairs
from credalset.simplex import sample_uniform
from tests.conftest import make_predictions


def special_distributions(n_classes: int) -> np.ndarray:
    """One-hot, uniform, ties, zeros, tiny and ordinary classes."""
    k = n_classes
    eye, flat, rng = np.eye(k), np.full(k, 1.0 / k), np.random.default_rng(k)
    tied = np.full(k, 0.2 / max(k - 2, 1))
    tied[:2] = 0.4 if k > 2 else 0.5
    tiny = np.r_[1.0 - 1e-12 * (k - 1), np.full(k - 1, 1e-12)]
    zero = np.r_[0.0, rng.dirichlet(np.ones(k - 1))]
    ordinary = rng.dirichlet(np.ones(k), 3)
    return np.stack(
        [eye[0], flat, tied, tiny, zero, np.r_[0.7, np.full(k - 1, 0.3 / (k - 1))], *ordinary]
    )


def make_sets(score: Score, n_classes: int, share: float | str) -> CredalSet:
    """Sets around special predictions; they hold about that share of uniform points,
    or are extreme.
    """
    prediction = score.check_prediction(make_predictions(score, special_distributions(n_classes)))
    best = score.evaluate_rows(prediction, score.best_fit(prediction))
    pool = np.concatenate([sample_uniform(999, n_classes, 0), np.eye(n_classes)])
    scores = score.evaluate_pairs(prediction, pool[None])
    finite = np.where(
        np.isfinite(scores), scores, np.nanmax(np.where(np.isfinite(scores), scores, np.nan))
    )
    if share == "point":
        threshold = best
    elif share == "tiny":
        threshold = best + 1e-9 * (np.median(finite, axis=1) - best)
    elif share == "huge":
        threshold = 1.01 * finite.max(axis=1) + 0.01
    else:
        threshold = np.quantile(finite, float(share), axis=1)
    sets = score.region(prediction, np.maximum(threshold, best))
    assert not sets.is_empty().any()
    return sets


def start_of(sets: CredalSet) -> np.ndarray:
    """A member of each set: its centre, or the distribution that fits best."""
    inside = sets.contains(sets.center)
    return np.where(inside[:, None], sets.center, sets.score.best_fit(sets.prediction))


def directions(n_classes: int, n: int, seed: int = 0) -> np.ndarray:
    """Directions in the plane of the simplex, (n, K): all around for three classes."""
    if n_classes == 3:
        angle = 2.0 * np.pi * np.arange(n) / n
        flat = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
        return np.stack([np.cos(angle), np.sin(angle)], axis=1) @ flat
    noise = np.random.default_rng(seed).normal(size=(n, n_classes))
    return noise - noise.mean(axis=1, keepdims=True)


def boundary(
    sets: CredalSet, toward: np.ndarray, start: np.ndarray | None = None, steps: int = 44
) -> np.ndarray:
    """The last members on rays from a member along directions (M, K),
    by bisection of ``contains``: (N, M, K).
    """
    start = (start_of(sets) if start is None else start)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.where(toward < 0, start / -toward, np.inf).min(axis=-1)
    high = np.where(np.isfinite(high), high, 0.0)

    def at(t: np.ndarray) -> np.ndarray:
        points = np.maximum(start + t[..., None] * toward, 0.0)
        return points / points.sum(axis=-1, keepdims=True)

    low = np.where(contains_pairs(sets, at(high)), high, 0.0)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        inside = contains_pairs(sets, at(middle))
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(contains_pairs(sets, at(low))[..., None], at(low), start)


def members(sets: CredalSet, n: int = 720, seed: int = 0) -> np.ndarray:
    """Members on the boundary in many directions and toward corners, the start,
    and the uniform one if it is one.
    """
    k = sets.n_classes
    around = boundary(sets, directions(k, n, seed))
    start = start_of(sets)
    corners = np.stack(
        [boundary_toward(sets, np.broadcast_to(corner, start.shape)) for corner in np.eye(k)],
        axis=1,
    )
    flat = np.full((len(sets), k), 1.0 / k)
    even = np.where(sets.contains(flat)[:, None], flat, start)
    return np.concatenate([around, corners, even[:, None], start[:, None]], axis=1)


def boundary_toward(sets: CredalSet, target: np.ndarray) -> np.ndarray:
    """The last member on the way from a member of each set to its target, (N, K)."""
    return np.concatenate(
        [
            boundary(sets[i], (target[i] - start_of(sets[i])[0])[None])[:, 0]
            for i in range(len(sets))
        ]
    )


def improve(
    sets: CredalSet, points: np.ndarray, value: Any, rounds: int = 60, seed: int = 0
) -> np.ndarray:
    """Raise value(points) by a random local search among members: points (N, K), one per set."""
    rng = np.random.default_rng(seed)
    best, size = value(points), np.full(len(points), 0.3)
    for _ in range(rounds):
        target = rng.dirichlet(np.ones(sets.n_classes), (len(points), 64))
        moves = points[:, None] + size[:, None, None] * (target - points[:, None]) * rng.choice(
            [-0.5, 1.0], (1, 64, 1)
        )
        moves = np.maximum(moves, 0.0)
        moves /= moves.sum(axis=-1, keepdims=True)
        worth = np.where(contains_pairs(sets, moves), value(moves), -np.inf)
        found = worth.argmax(axis=1)
        better = worth[np.arange(len(points)), found] > best
        points = np.where(better[:, None], moves[np.arange(len(points)), found], points)
        best = np.where(better, worth[np.arange(len(points)), found], best)
        size = np.where(better, size, 0.75 * size)
    return points


def extreme(sets: CredalSet, value: Any, zooms: int = 7) -> np.ndarray:
    """The largest value(points) on the boundary of sets over three classes, (N,):
    ever closer directions.
    """
    flat = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    center, width, n = np.zeros((len(sets), 1)), np.pi, 240
    ends = [boundary_toward(sets, np.broadcast_to(corner, (len(sets), 3))) for corner in np.eye(3)]
    best = np.max([value(end) for end in ends], axis=0)
    middle = np.mean(ends, axis=0)  # inside, for the sets are convex
    for _ in range(zooms):
        angle = center + np.linspace(-width, width, n)
        toward = np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ flat
        values = value(boundary(sets, toward, middle))
        best = np.maximum(best, values.max(axis=1))
        center = np.take_along_axis(angle, values.argmax(axis=1)[:, None], axis=1)
        width, n = 4.0 * width / n, 30
    return best


def nearest_with_top(sets: CredalSet, top: int, rounds: int = 14) -> np.ndarray:
    """The smallest score, (N,), of distributions in which a class is a mode, by random search.

    Such distributions are mixtures of uniform ones on sets of classes that contain the class.
    """
    k, rng = sets.n_classes, np.random.default_rng(top)
    subsets = [s for s in range(1, 1 << k) if s >> top & 1]
    ends = np.array([[(s >> c & 1) / s.bit_count() for c in range(k)] for s in subsets])
    weights = np.full((len(sets), len(ends)), 1.0 / len(ends))
    best, size = np.full(len(sets), np.inf), 1.0
    for _ in range(rounds):
        draws = rng.dirichlet(np.full(len(ends), 0.3), (len(sets), 200))
        mixed = (1.0 - size) * weights[:, None] + size * draws
        scores = sets.score.evaluate_pairs(
            sets.prediction,
            np.concatenate([mixed @ ends, np.broadcast_to(ends, (len(sets), *ends.shape))], axis=1),
        )
        mixed = np.concatenate(
            [mixed, np.broadcast_to(np.eye(len(ends)), (len(sets), len(ends), len(ends)))], axis=1
        )
        found = scores.argmin(axis=1)
        better = scores.min(axis=1) < best
        weights = np.where(better[:, None], mixed[np.arange(len(sets)), found], weights)
        best, size = np.minimum(best, scores.min(axis=1)), 0.7 * size
    return best


def from_plane(points: np.ndarray) -> np.ndarray:
    """Map points (…, 2) of the plane back to distributions (…, 3): the inverse of `to_plane`."""
    third = points[..., 1] / np.sqrt(0.75)
    second = points[..., 0] - 0.5 * third
    return np.stack([1.0 - second - third, second, third], axis=-1)
