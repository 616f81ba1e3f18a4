"""Certified majorants for a whole range of thresholds, as tables over a mesh of predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.calibration.majorants.certificate import floors, shifts
from credalset.calibration.majorants.crowd import Crowd
from credalset.calibration.majorants.mesh import Mesh, Place
from credalset.calibration.majorants.polynomials import count_vectors, probabilities, thinned
from credalset.calibration.majorants.programme import smallest_tables
from credalset.scores import Score

#: largest degree of a majorant for each number of classes; more votes are thinned
MAX_DEGREE = {2: 10, 3: 6, 4: 4}
MESH = {2: 32, 3: 14, 4: 7}  # cells along an edge of the sorted predictions
POINTS = {2: 100, 3: 32, 4: 14}  # along an edge, in programmes
AROUND, CLOSE = 6, (0.06, 0.15, 0.35)  # points around each node, along an edge, and how far from it
STEEPNESS = 3.2  # with which majorants rise toward the threshold, in units of distance
OVERSHOOT = 0.2  # and beyond it
MARGIN = 4e-3  # by which programmes do more than they must, so that certificates are soon found
MOST_VECTORS = 300  # count vectors that the spread of a thinned table is summed over
RAREST = 1e-5  # probability that any count vector is given at least
LEAST_FLOOR = 0.25  # of a certificate; below, the constant one is used


@dataclass(frozen=True, eq=False)
class Votes:
    """Items as majorants of one degree see them.

    Attributes
    ----------
    place : Place
        Where their predictions lie in the mesh.
    parts : ndarray of shape (n, C)
        How probable each count vector is among as many of the item's votes.
    """

    place: Place
    parts: FloatArray

    @classmethod
    def read(cls, mesh: Mesh, degree: int, prediction: FloatArray, counts: FloatArray) -> Votes:
        """Locate predictions and thin votes."""
        place = mesh.locate(prediction)
        sorted_counts = np.take_along_axis(counts, place.order, axis=1)
        return cls(place, thinned(sorted_counts, count_vectors(degree, mesh.n_classes)))


@dataclass(frozen=True, eq=False)
class Level:
    """Certified majorants for one threshold: (φ + shift) / floor, with tables φ mixed from those at the nodes.

    Attributes
    ----------
    tables : ndarray of shape (V, C)
        Solutions at the nodes.
    shift, floor : ndarrays of shape (P,)
        What the certificate found for each cell.
    """

    tables: FloatArray
    shift: FloatArray
    floor: FloatArray

    @classmethod
    def build(cls, programmes: Programmes, threshold: float, rho: float, limits: tuple[float, float]) -> Level:
        """Solve the programmes and certify the solutions."""
        mesh, degree = programmes.mesh, programmes.degree
        tables = programmes.solve(threshold, rho, limits)
        shift = shifts(tables, mesh, degree)
        floor = floors(programmes.score, tables, mesh, degree, threshold) + shift
        return cls(tables, shift, floor)

    def values(self, votes: Votes) -> FloatArray:
        """Return φ_t of items, (n,)."""
        each = np.einsum("nc,njc->nj", votes.parts, self.tables[votes.place.node])
        raw, cell = (each * votes.place.share).sum(axis=1), votes.place.cell
        return np.where(self._usable[cell], (raw + self.shift[cell]) / self._divisor[cell], 1.0)

    def largest(self, mesh: Mesh) -> float:
        """Return what φ_t cannot exceed."""
        top = self.tables.max(axis=1)[mesh.cells].max(axis=1) + self.shift
        return float(np.where(self._usable, top / self._divisor, 1.0).max())

    @property
    def _usable(self) -> BoolArray:
        return self.floor >= LEAST_FLOOR

    @property
    def _divisor(self) -> FloatArray:
        return np.where(self._usable, self.floor, 1.0)


@dataclass(frozen=True, eq=False)
class Programmes:
    """Everything about the programmes of one degree that does not depend on the threshold.

    Attributes
    ----------
    means, squares : ndarrays of shape (V, C) and (V, C, C)
        What E φ and E φ² are under the model, for items near each node.
    points : ndarray of shape (G, K)
        Where majorants are asked for.
    edges : ndarray of shape (E, 2)
        Pairs of neighbours among the points.
    close : ndarray of shape (X, K)
        What is mixed into a node's prediction to find more points near it, where polynomials have their valley.
    steepness : float
        Growth of majorants at the threshold, relative to that of f / t.
    """

    score: Score
    mesh: Mesh
    degree: int
    means: FloatArray
    squares: FloatArray
    points: FloatArray
    edges: IntArray
    close: FloatArray
    steepness: float

    @classmethod
    def prepare(
        cls, score: Score, mesh: Mesh, degree: int, crowd: Crowd, prediction: FloatArray, n_votes: int
    ) -> Programmes:
        """Describe items with these predictions and a typical number of votes."""
        place = mesh.locate(prediction)
        ranked = np.take_along_axis(prediction, place.order, axis=1)
        # Every node counts as half an item itself, so that none is left without a description.
        items = np.concatenate([ranked, mesh.nodes])
        near = np.zeros((len(mesh.nodes), len(items)))
        np.add.at(near, (place.node, np.arange(len(ranked))[:, None]), place.share)
        near[:, len(ranked) :] = 0.5 * np.eye(len(mesh.nodes))
        near /= near.sum(axis=1, keepdims=True)
        k = mesh.n_classes
        while n_votes > degree and len(count_vectors(n_votes, k)) > MOST_VECTORS:
            n_votes -= 1
        chances = np.maximum(near @ crowd.probabilities(items, n_votes), RAREST)
        parts = thinned(count_vectors(n_votes, k).astype(float), count_vectors(degree, k))
        squares = np.einsum("vm,mc,me->vce", chances, parts, parts, optimize=True) + 1e-9 * np.eye(parts.shape[1])
        lattice, edges = _lattice(k, POINTS[k])
        bent = lattice**2 / (lattice**2).sum(axis=1, keepdims=True)  # closer together near the faces
        around = count_vectors(AROUND, k) / AROUND
        return cls(
            score=score,
            mesh=mesh,
            degree=degree,
            means=chances @ parts,
            squares=squares,
            points=np.concatenate([lattice, bent]),
            edges=edges,
            close=np.concatenate([scale * around for scale in CLOSE]),
            steepness=STEEPNESS / order_of_growth(score, mesh),
        )

    def solve(self, threshold: float, rho: float, limits: tuple[float, float]) -> FloatArray:
        """Return a table for each node, (V, C)."""
        nodes, n_points = self.mesh.nodes, len(self.points)
        scores = self._scores(np.broadcast_to(self.points, (len(nodes), *self.points.shape)))
        vectors = count_vectors(self.degree, self.mesh.n_classes)
        box = np.eye(len(vectors))
        rows = np.concatenate([probabilities(self.points, vectors), box, -box])
        close = nodes[:, None] + self.close - self.close.sum(axis=-1, keepdims=True) * nodes[:, None]
        crossings = self._crossings(scores, threshold)
        n_own = max(map(len, crossings))
        own = np.zeros((len(nodes), n_own, len(vectors)))
        bounds = np.full((len(nodes), len(rows) + n_own), -1.0)
        bounds[:, :n_points] = self._wanted(scores / threshold)
        bounds[:, n_points : len(rows)] = np.repeat([limits[0], -limits[1]], len(box))
        for v, points in enumerate(crossings):
            own[v, : len(points)] = probabilities(points, vectors)
            bounds[v, len(rows) : len(rows) + len(points)] = 1.0 + MARGIN
        own = np.concatenate([own, probabilities(close, vectors)], axis=1)
        bounds = np.concatenate([bounds, self._wanted(self._scores(close) / threshold)], axis=1)
        return smallest_tables(self.means, rho * self.squares, rows, own, bounds, start=1.5)

    def _scores(self, points: FloatArray) -> FloatArray:
        """Score points (V, X, K) against the nodes."""
        n, x, k = points.shape
        return self.score.evaluate_rows(np.repeat(self.mesh.nodes, x, axis=0), points.reshape(-1, k)).reshape(n, x)

    def _wanted(self, ratio: FloatArray) -> FloatArray:
        """Return what majorants must reach where f / t = ``ratio``: a gentle rise, so that neighbours can be mixed."""
        growth = self.steepness * (ratio - 1.0)
        inside = np.maximum(1.0 + growth, 0.0)
        outside = np.where(growth < OVERSHOOT, 1.0 + growth, 1.0)
        return np.where(ratio < 1.0, inside + 0.5 * MARGIN, outside + MARGIN)

    def _crossings(self, scores: FloatArray, threshold: float) -> list[FloatArray]:
        """For each node, points at which f reaches the threshold, on edges of the lattice."""
        first, second = self.edges.T
        below = scores < threshold
        node, edge = np.nonzero(below[:, first] != below[:, second])
        inner = np.where(below[node, first[edge]], first[edge], second[edge])
        outer = np.where(below[node, first[edge]], second[edge], first[edge])
        low, high = np.zeros(len(node)), np.ones(len(node))
        a, b, g = self.points[inner], self.points[outer], self.mesh.nodes[node]
        for _ in range(30):
            middle = 0.5 * (low + high)
            reached = self.score.evaluate_rows(g, a + middle[:, None] * (b - a)) >= threshold
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        found = a + high[:, None] * (b - a)
        return [found[node == v] for v in range(len(self.mesh.nodes))]


def order_of_growth(score: Score, mesh: Mesh) -> float:
    """Return how a score grows with the distance from the prediction: 1 for distances, 2 for their squares."""
    far = 0.5 * (mesh.nodes + 1.0 / mesh.n_classes)
    near = 0.5 * (mesh.nodes + far)
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.log2(score.evaluate_rows(mesh.nodes, far) / score.evaluate_rows(mesh.nodes, near))
    return float(np.clip(np.nanmedian(growth), 1.0, 2.0))


def _lattice(n_classes: int, pieces: int) -> tuple[FloatArray, IntArray]:
    """Return the points of a regular lattice and the pairs of neighbours."""
    steps = count_vectors(pieces, n_classes)
    number = {tuple(row): i for i, row in enumerate(steps.tolist())}
    pairs = []
    for i, row in enumerate(steps.tolist()):
        for up in range(n_classes):
            for down in range(up):
                moved = list(row)
                moved[up], moved[down] = moved[up] + 1, moved[down] - 1
                if moved[down] >= 0:
                    pairs.append((i, number[tuple(moved)]))
    return steps / pieces, np.array(pairs)
