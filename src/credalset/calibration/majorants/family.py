r"""Majorants that hold on average over a family of crowds, not for every single λ.

If one is ready to assume that, given x, the truth scatters like *some* mixture of Dirichlet(s c) over sharpness s and
centre c, with centres at the prediction or moved away from it by a share toward one class or toward all, then it is
enough that

$$ E[\varphi_t(x, c) \,|\, s, c] \ge P(f(x, \lambda) > t \,|\, s, c) \quad \text{for every member of the family,} $$

a few dozen inequalities instead of one per λ. The mixing law may be anything and may depend on x. Tables become tame
and sets smaller. The promise is worth what the assumption is worth: it fails for crowds that split into camps around
distributions far from the prediction more sharply than any member of the family does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import FloatArray
from credalset.calibration.majorants.crowd import SHARPNESS, dirichlet_multinomial
from credalset.calibration.majorants.mesh import Mesh
from credalset.calibration.majorants.polynomials import count_vectors
from credalset.calibration.majorants.programme import smallest_tables
from credalset.calibration.majorants.tables import Programmes, Votes
from credalset.scores import Score

SHIFTS = (0.15, 0.35)  # shares by which centres are moved
N_SHARP = 9  # values of s for moved centres
DRAWS = 1000  # of λ, per node and member
MARGIN = 0.01  # for the error of probabilities found from draws, and between nodes
FLOOR = 1e-4  # smallest share of a class in a centre


def members(prediction: FloatArray) -> FloatArray:
    """Return the Dirichlet concentrations of the family around predictions (n, K): (n, M, K)."""
    k = prediction.shape[1]
    few = SHARPNESS[:: -(-len(SHARPNESS) // N_SHARP)]
    towards = [*np.eye(k), np.full(k, 1.0 / k)]
    centres = [(1.0 - shift) * prediction + shift * goal for shift in SHIFTS for goal in towards]
    found = [s * _inside(prediction) for s in SHARPNESS] + [s * _inside(centre) for centre in centres for s in few]
    return np.stack(found, axis=1)


def _inside(centre: FloatArray) -> FloatArray:
    return (1.0 - FLOOR) * centre + FLOOR / centre.shape[1]


@dataclass(frozen=True, eq=False)
class Family:
    """The family around the nodes of a mesh.

    Attributes
    ----------
    scores : ndarray of shape (V, M, D)
        Scores of draws from each member, sorted.
    """

    mesh: Mesh
    scores: FloatArray

    @classmethod
    def draw(cls, score: Score, mesh: Mesh, seed: int = 0) -> Family:
        """Draw from every member at every node."""
        concentration = members(mesh.nodes)
        v, m, k = concentration.shape
        rng = np.random.default_rng(seed)
        scores = np.empty((v, m, DRAWS))
        for j in range(m):
            gammas = rng.standard_gamma(np.maximum(concentration[:, j, None], 1e-3), (v, DRAWS, k))
            points = (gammas + 1e-300) / (gammas + 1e-300).sum(axis=2, keepdims=True)
            scores[:, j] = score.evaluate_rows(np.repeat(mesh.nodes, DRAWS, axis=0), points.reshape(-1, k)).reshape(
                v, -1
            )
        return cls(mesh, np.sort(scores, axis=2))

    def exceeding(self, threshold: float) -> FloatArray:
        """Return how likely members exceed a threshold, with a margin, (V, M)."""
        return np.minimum((self.scores > threshold).mean(axis=2) + MARGIN, 1.0)


@dataclass(frozen=True, eq=False)
class FamilyVotes:
    """Items, and the laws of their votes under every member of the family around their own predictions.

    Attributes
    ----------
    laws : ndarray of shape (n, M, C)
    """

    votes: Votes
    laws: FloatArray

    @classmethod
    def read(cls, mesh: Mesh, degree: int, prediction: FloatArray, counts: FloatArray) -> FamilyVotes:
        """Work out the laws for sorted predictions."""
        votes = Votes.read(mesh, degree, prediction, counts)
        ranked = np.take_along_axis(prediction, votes.place.order, axis=1)
        return cls(votes, _laws(ranked, degree))


def _laws(prediction: FloatArray, degree: int) -> FloatArray:
    concentration = members(prediction)
    n, m, k = concentration.shape
    vectors = count_vectors(degree, k)
    return dirichlet_multinomial(concentration.reshape(-1, k), vectors).reshape(n, m, len(vectors))


@dataclass(frozen=True, eq=False)
class FamilyLevel:
    """Tables for one threshold. What an item's mixed table lacks for its own family is added to it."""

    tables: FloatArray
    exceeding: FloatArray

    @classmethod
    def build(
        cls, programmes: Programmes, family: Family, threshold: float, rho: float, limits: tuple[float, float]
    ) -> FamilyLevel:
        """Solve the programmes with one constraint per member."""
        mesh = family.mesh
        exceeding = family.exceeding(threshold)
        laws = _laws(mesh.nodes, programmes.degree)
        box = np.eye(laws.shape[2])
        rows = np.concatenate([box, -box])
        bounds = np.tile(np.repeat([limits[0], -limits[1]], len(box)), (len(laws), 1))
        tables = smallest_tables(
            programmes.means,
            rho * programmes.squares,
            rows,
            laws,
            np.concatenate([bounds, exceeding], axis=1),
            start=1.5,
        )
        return cls(tables, exceeding)

    def values(self, items: FamilyVotes) -> FloatArray:
        """Return φ_t of items, (n,)."""
        place = items.votes.place
        table = np.einsum("nj,njc->nc", place.share, self.tables[place.node])
        needed = np.einsum("nj,njm->nm", place.share, self.exceeding[place.node])
        missing = (needed - np.einsum("nmc,nc->nm", items.laws, table)).max(axis=1)
        repaired = (items.votes.parts * table).sum(axis=1) + np.maximum(missing, 0.0)
        return np.where(missing <= 1.0, repaired, 1.0)

    def largest(self, mesh: Mesh) -> float:
        """Return what φ_t cannot exceed."""
        return float(self.tables.max() + 1.0)
