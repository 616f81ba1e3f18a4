"""Majorants for a score, fitted to items set aside, at a range of thresholds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from credalset._typing import FloatArray, IntArray
from credalset.calibration.majorants.crowd import Crowd
from credalset.calibration.majorants.family import Family, FamilyLevel, FamilyVotes
from credalset.calibration.majorants.mesh import Mesh
from credalset.calibration.majorants.tables import MAX_DEGREE, MESH, Level, Programmes, Votes, order_of_growth
from credalset.scores import Score

RATIO, COARSE_RATIO = 1.15, 1.4  # between neighbouring thresholds, and where almost nothing is expected above them
NOTHING = 0.03  # mean of a majorant, with two standard errors, below which thresholds are far apart
MANY = 2000  # items that tell thresholds of squared distances apart as finely as those of distances
MOST_LEVELS = 40
MOST_DEGREES = 3
LOWEST = 1e-3  # threshold, relative to the largest score
HOPELESS = 0.4  # mean of a majorant, with two standard errors, at which smaller thresholds are not looked at
SQUARES = 0.75  # weight of the spread of majorants, times the root of the number of items
LIMIT, SMALLEST_LIMIT = 0.22, 6.0  # what majorants may not exceed, over the root of the number of items
MIXING = 1.3  # finer cells where classes cannot be sorted
FEWEST_PIECES, ITEMS_PER_NODE = (
    4,
    2,
)  # a mesh finer than what the items set aside tell apart costs time and gains nothing

AnyLevel = Level | FamilyLevel


@dataclass(frozen=True, eq=False)
class Majorants:
    """φ_t for decreasing thresholds t, for items of one or several degrees.

    Attributes
    ----------
    score : Score
        The score that thresholds are of.
    mesh : Mesh
        The predictions that there are tables for.
    raw : ndarray of shape (L,)
        Decreasing thresholds of the score without its scale, for which there are tables.
    levels : list of dict
        For each of these and each degree, the tables.
    typical_scale : float
        Scale of a typical prediction.
    """

    score: Score
    mesh: Mesh
    raw: FloatArray
    levels: list[dict[int, AnyLevel]]
    typical_scale: float
    family: bool = False

    @classmethod
    def fit(cls, score: Score, prediction: FloatArray, counts: FloatArray, n: int, family: bool = False) -> Majorants:
        """Fit majorants to items set aside, for n others, from large thresholds down to those of little use.

        With ``family`` they hold on average over a family of crowds only, see `credalset.calibration.majorants.family`.
        """
        # Many small products: threads would spend their time waiting for each other.
        with threadpool_limits(limits=1, user_api="blas"):
            return cls._fit(score, prediction, counts, n, family)

    @classmethod
    def _fit(cls, score: Score, prediction: FloatArray, counts: FloatArray, n: int, family: bool) -> Majorants:
        core, scale = score.unscaled(prediction)
        mesh = _mesh(core, *prediction.shape)
        crowd = Crowd.fit(prediction, counts)
        programmes: dict[int, Programmes] = {}
        held_out: dict[int, Any] = {}
        degree_of = _degree_of(counts, _degrees(counts))
        for degree in np.unique(degree_of).tolist():
            g, c = prediction[degree_of == degree], counts[degree_of == degree]
            held_out[degree] = (FamilyVotes if family else Votes).read(mesh, degree, g, c)
            programmes[degree] = Programmes.prepare(core, mesh, degree, crowd, g, int(np.median(c.sum(axis=1))))
        highest = core.largest_score(mesh.nodes)
        t = top = float(highest[np.isfinite(highest)].max())
        limit = max(SMALLEST_LIMIT, LIMIT * np.sqrt(n))
        rho, limits = SQUARES / np.sqrt(n), (-0.5 * limit, limit)
        crowds = Family.draw(core, mesh) if family else None
        raw: list[float] = []
        levels: list[dict[int, AnyLevel]] = []
        coarse, ratio = True, RATIO ** min(order_of_growth(core, mesh), max(1.0, np.sqrt(MANY / n)))
        while len(levels) < MOST_LEVELS and t > LOWEST * top:
            t /= COARSE_RATIO if coarse else ratio
            built = {
                d: Level.build(one, t, rho, limits)
                if crowds is None
                else FamilyLevel.build(one, crowds, t, rho, limits)
                for d, one in programmes.items()
            }
            values = np.concatenate([built[degree].values(votes) for degree, votes in held_out.items()])
            error = values.std() / np.sqrt(len(values))
            if coarse and values.mean() + 2.0 * error >= NOTHING:
                coarse, t = False, min(raw[-1:], default=top)  # back to where almost nothing was expected yet
                continue
            raw.append(t)
            levels.append(built)
            if values.mean() - error + 2.0 * values.std() / np.sqrt(n) > HOPELESS:
                break
        return cls(score, mesh, np.array(raw), levels, float(np.median(scale)), family)

    @property
    def thresholds(self) -> FloatArray:
        """Decreasing thresholds of the score, (L,)."""
        return self.raw / (self.typical_scale if self.typical_scale > 0 else 1.0)

    @property
    def largest(self) -> FloatArray:
        """What the majorants cannot exceed, (L,)."""
        each = [max(level.largest(self.mesh) for level in built.values()) for built in self.levels]
        scaled = self.score.unscaled(self.mesh.nodes[:1])[0] is not self.score
        return np.full(len(each), max(*each, 1.0)) if scaled else np.maximum(each, 1.0)

    def values(self, prediction: FloatArray, counts: FloatArray) -> FloatArray:
        """Return φ_t of items at each threshold, (L, n)."""
        scale = self.score.unscaled(prediction)[1]
        table = np.ones((len(self.raw) + 1, len(prediction)))  # the last row is for thresholds below all
        degree_of = _degree_of(counts, sorted(self.levels[0]))
        for degree in self.levels[0]:
            rows = np.flatnonzero(degree_of == degree)
            if len(rows):
                votes: Any = (FamilyVotes if self.family else Votes).read(
                    self.mesh, degree, prediction[rows], counts[rows]
                )
                for j, built in enumerate(self.levels):
                    table[j, rows] = built[degree].values(votes)
        # A majorant for a threshold serves every larger one.
        wanted = self.thresholds[:, None] * scale * (1.0 + 1e-12)
        which = len(self.raw) - np.searchsorted(self.raw[::-1], wanted, side="right")
        return np.take_along_axis(table, which, axis=0)


def why_no_majorants(score: Score, prediction: FloatArray | None) -> str:
    """Say why there are no majorants for a score and predictions; empty if there are."""
    if score.order != "first":
        return f"the score {score.name!r} takes densities, not distributions"
    core = score.unscaled(np.full((1, 2), 0.5))[0]
    if not (core.is_convex and core.is_convex_in_prediction):
        return f"the score {score.name!r} is not known to be convex in the label distribution and in the prediction"
    if prediction is not None and prediction.shape[1] not in MAX_DEGREE:
        return f"majorants are made for at most {max(MAX_DEGREE)} classes, and there are {prediction.shape[1]}"
    return ""


def _mesh(score: Score, n_items: int, n_classes: int) -> Mesh:
    """Return a mesh as fine as the score needs, or as so many items can use."""
    alike = score.treats_classes_alike
    pieces = MESH[n_classes] if alike else round(MIXING * MESH[n_classes])
    while pieces > FEWEST_PIECES and math.comb(pieces + n_classes - 1, n_classes - 1) * ITEMS_PER_NODE > n_items:
        pieces -= 1
    return Mesh(n_classes, pieces, alike)


def _degrees(counts: FloatArray) -> list[int]:
    """Choose a few degrees that serve items with such votes: the least, a typical one, the largest."""
    each = np.sort(np.minimum(counts.sum(axis=1), MAX_DEGREE[counts.shape[1]]).astype(int))
    if len(np.unique(each)) <= MOST_DEGREES:
        return np.unique(each).tolist()
    return sorted({int(each[0]), int(np.median(each)), int(each[-1])})


def _degree_of(counts: FloatArray, degrees: list[int]) -> IntArray:
    """Return the largest of the degrees that each item has votes for; zero if it has too few for any."""
    padded = np.array([0, *degrees])
    return padded[np.searchsorted(padded, counts.sum(axis=1), side="right") - 1]
