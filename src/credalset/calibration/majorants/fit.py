"""Majorants for a score, fitted to items set aside, at a range of thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.calibration.majorants.crowd import Crowd
from credalset.calibration.majorants.mesh import Mesh
from credalset.calibration.majorants.tables import MAX_DEGREE, MESH, Level, Programmes, Votes
from credalset.scores import Score

RATIO, COARSE_RATIO = 1.15, 1.4  # between neighbouring thresholds, and where almost nothing is expected above them
MOST_LEVELS = 40
MOST_DEGREES = 3
LOWEST = 1e-3  # threshold, relative to the largest score


@dataclass(frozen=True, eq=False)
class Majorants:
    """φ_t for decreasing thresholds t, for items of one or several degrees.

    Attributes
    ----------
    thresholds : ndarray of shape (L,)
        Decreasing.
    largest : ndarray of shape (L,)
        What φ_t cannot exceed.
    """

    mesh: Mesh
    thresholds: FloatArray
    largest: FloatArray
    levels: dict[int, list[Level]]

    @classmethod
    def fit(cls, score: Score, prediction: FloatArray, counts: FloatArray, n: int) -> Majorants:
        """Fit majorants to items set aside, for n others."""
        k = prediction.shape[1]
        mesh = Mesh(k, MESH[k] if score.treats_classes_alike else round(1.3 * MESH[k]), score.treats_classes_alike)
        crowd = Crowd.fit(prediction, counts)
        votes = counts.sum(axis=1)
        kept = _degrees(votes, k)
        degree_of = _degree_of(votes, kept)
        programmes, parts = {}, {}
        for degree in kept:
            rows = degree_of == degree
            typical = int(np.median(votes[rows]))
            programmes[degree] = Programmes.prepare(score, mesh, degree, crowd, prediction[rows], typical)
            parts[degree] = Votes.read(mesh, degree, prediction[rows], counts[rows])
        rho, limits = 0.5 / np.sqrt(n), (-0.4 * np.sqrt(n), max(8.0, 0.4 * np.sqrt(n)))
        limits = (-limits[1] / 2.0, limits[1])
        top = float(np.max(score.largest_score(mesh.nodes)[np.isfinite(score.largest_score(mesh.nodes))]))
        t = top / COARSE_RATIO
        thresholds, levels = [], {degree: [] for degree in kept}
        while len(thresholds) < MOST_LEVELS and t > LOWEST * top:
            thresholds.append(t)
            values = []
            for degree in kept:
                level = Level.build(programmes[degree], t, rho, limits)
                levels[degree].append(level)
                values.append(level.values(parts[degree]))
            pooled = np.concatenate(values)
            mean, error = pooled.mean(), pooled.std() / np.sqrt(len(pooled))
            if mean - error > 0.6:
                break
            t /= COARSE_RATIO if mean + 2.0 * error < 0.03 else RATIO
        largest = np.max([[level.largest(mesh) for level in levels[degree]] for degree in kept], axis=0)
        return cls(mesh, np.array(thresholds), largest, levels)

    def values(self, prediction: FloatArray, counts: FloatArray) -> FloatArray:
        """Return φ_t of items at each threshold, (L, n)."""
        result = np.ones((len(self.thresholds), len(prediction)))
        degree_of = _degree_of(counts.sum(axis=1), sorted(self.levels))
        for degree, levels in self.levels.items():
            rows = np.flatnonzero(degree_of == degree)
            if len(rows):
                votes = Votes.read(self.mesh, degree, prediction[rows], counts[rows])
                result[:, rows] = [level.values(votes) for level in levels]
        return result


def _degrees(votes: FloatArray, n_classes: int) -> list[int]:
    """Choose a few degrees that serve items with these numbers of votes: the least, a typical one, the largest."""
    each = np.sort(np.minimum(votes, MAX_DEGREE[n_classes]).astype(int))
    if len(np.unique(each)) <= MOST_DEGREES:
        return [int(d) for d in np.unique(each)]
    return sorted({int(each[0]), int(np.median(each)), int(each[-1])})


def _degree_of(votes: FloatArray, degrees: list[int]) -> IntArray:
    """Return the largest of the degrees that each item has votes for; zero if it has too few."""
    padded = np.array([0, *degrees])
    return padded[np.searchsorted(padded, votes, side="right") - 1]
