"""A mesh of predictions, so that a table per corner serves every item in between."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.calibration.majorants.polynomials import count_vectors, steps_of_cells


@dataclass(frozen=True, eq=False)
class Place:
    """Where predictions lie in a mesh.

    Attributes
    ----------
    cell : ndarray of shape (n,)
        Number of the cell.
    node : ndarray of shape (n, K)
        Numbers of its corners.
    share : ndarray of shape (n, K)
        Weights of the corners, which mix to the prediction.
    order : ndarray of shape (n, K)
        The classes in the order that the mesh has them in.
    """

    cell: IntArray
    node: IntArray
    share: FloatArray
    order: IntArray


@dataclass(frozen=True)
class Mesh:
    """Cells that cover the simplex of predictions or, if a score treats all classes alike, the sorted ones.

    Sorted predictions, g_1 ≥ g_2 ≥ …, are a simplex again: its corners are the uniform distributions over the first k
    classes.

    Parameters
    ----------
    n_classes : int
        K.
    pieces : int
        Cells along an edge.
    ranked : bool
        Whether to sort classes first.
    """

    n_classes: int
    pieces: int
    ranked: bool

    @cached_property
    def nodes(self) -> FloatArray:
        """The predictions at the corners of the cells, (V, K)."""
        return count_vectors(self.pieces, self.n_classes) / self.pieces @ self._corners

    @cached_property
    def cells(self) -> IntArray:
        """The corners of each cell, (P, K)."""
        return self._number(steps_of_cells(self.n_classes, self.pieces))

    def locate(self, prediction: FloatArray) -> Place:
        """Find the cells of predictions (n, K)."""
        n, k = prediction.shape
        order = np.argsort(-prediction, axis=1, kind="stable") if self.ranked else np.tile(np.arange(k), (n, 1))
        g = np.take_along_axis(prediction, order, axis=1)
        if self.ranked:
            g = (g - np.column_stack([g[:, 1:], np.zeros(n)])) * np.arange(1, k + 1)
        height = self.pieces * np.minimum(np.cumsum(g[:, :0:-1], axis=1)[:, ::-1], 1.0)
        base = np.minimum(np.floor(height), self.pieces - 1)
        rest = height - base
        climb = np.argsort(-rest, axis=1, kind="stable")
        falling = np.take_along_axis(rest, climb, axis=1)
        share = np.column_stack([np.ones(n), falling]) - np.column_stack([falling, np.zeros(n)])
        corners = [base]
        for axis in climb.T:
            corners.append(corners[-1] + (np.arange(k - 1) == axis[:, None]))
        top, bottom = np.full((n, k, 1), float(self.pieces)), np.zeros((n, k, 1))
        steps = -np.diff(np.concatenate([top, np.stack(corners, axis=1), bottom], axis=2), axis=2)
        node = self._number(steps.astype(np.int64))
        codes = self._code(self.cells)
        by_code = np.argsort(codes)
        return Place(by_code[np.searchsorted(codes, self._code(node), sorter=by_code)], node, share, order)

    @property
    def _corners(self) -> FloatArray:
        """The corners of the whole mesh: those of the simplex, or the uniform distributions over the first classes."""
        k = self.n_classes
        return np.tri(k) / np.arange(1, k + 1)[:, None] if self.ranked else np.eye(k)

    def _number(self, steps: IntArray) -> IntArray:
        """Return the numbers of nodes given as whole steps (…, K)."""
        base = self.pieces + 1
        place = base ** np.arange(self.n_classes)
        table = np.full(base**self.n_classes, -1)
        known = count_vectors(self.pieces, self.n_classes)
        table[known @ place] = np.arange(len(known))
        return table[steps @ place]

    def _code(self, node: IntArray) -> IntArray:
        return node @ len(self.nodes) ** np.arange(self.n_classes)
