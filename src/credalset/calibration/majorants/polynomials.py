r"""Functions of votes, as polynomials in the distribution the votes come from.

A table φ over the count vectors c of d votes has the mean $E[\varphi(c) \,|\, \lambda] = \sum_c \varphi(c)
B_c(\lambda)$ with the multinomial probabilities $B_c(\lambda) = \binom{d}{c} \lambda^c$: a polynomial of degree d whose
Bernstein coefficients are the entries of the table. Two facts carry everything here.

- *Smallest coefficient.* On a smaller simplex the same polynomial has coefficients of its own. They are means of φ over
  d votes of which γ_k come from corner k, hence averages of the table, and the polynomial is at least the smallest.
- *Thinning.* d of m votes, drawn without looking, are d votes. The mean of φ over all such draws is a function of the m
  votes with the same polynomial and less variance.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
from scipy.special import comb, gammaln, xlogy

from credalset._typing import FloatArray, IntArray


@cache
def count_vectors(n_votes: int, n_classes: int) -> IntArray:
    """Return every way in which votes can fall, (C, K).

    Examples
    --------
    >>> count_vectors(2, 2).tolist()
    [[2, 0], [1, 1], [0, 2]]
    """
    if n_classes == 1:
        return np.array([[n_votes]])
    blocks = [(first, count_vectors(n_votes - first, n_classes - 1)) for first in range(n_votes, -1, -1)]
    return np.concatenate([np.column_stack([np.full(len(rest), first), rest]) for first, rest in blocks])


def probabilities(points: FloatArray, vectors: IntArray) -> FloatArray:
    """Return B_c(λ), the probabilities of the count vectors under distributions (…, K): (…, C)."""
    ways = gammaln(vectors.sum(axis=1) + 1.0) - gammaln(vectors + 1.0).sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.exp(ways + xlogy(vectors, points[..., None, :]).sum(axis=-1))


def thinned(counts: FloatArray, vectors: IntArray) -> FloatArray:
    """Return how probable each count vector is among as many of an item's votes, drawn without replacement: (n, C).

    Examples
    --------
    >>> thinned(np.array([[2.0, 1.0]]), count_vectors(2, 2)).round(3)
    array([[0.333, 0.667, 0.   ]])
    """
    d = vectors.sum(axis=1)[0]
    ways = comb(counts[:, None], vectors).prod(axis=2)
    return np.asarray(ways / comb(counts.sum(axis=1), d)[:, None])


@cache
def subdivision(n_classes: int, pieces: int) -> FloatArray:
    """Cut the simplex into pieces^(K−1) simplices of equal volume; return their corners, (P, K, K), corners first.

    In the coordinates y_k = λ_{k+1} + … + λ_K, which fall from one to zero, each unit cube is cut along its diagonal
    (Kuhn).

    Examples
    --------
    >>> subdivision(2, 2).tolist()
    [[[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]]
    """
    return steps_of_cells(n_classes, pieces) / pieces


@cache
def steps_of_cells(n_classes: int, pieces: int) -> IntArray:
    """Return the corners of the pieces as whole numbers that add up to ``pieces``, (P, K, K)."""
    cells = []
    for base in product(range(pieces), repeat=n_classes - 1):
        for order in permutations(range(n_classes - 1)):
            walk = [np.array(base)]
            for axis in order:
                walk.append(walk[-1] + (np.arange(n_classes - 1) == axis))
            if all((np.diff(y) <= 0).all() and y[0] <= pieces for y in walk):
                cells.append([np.diff(np.r_[0, y[::-1], pieces])[::-1] for y in walk])
    return np.array(cells)


def restriction(corners: FloatArray, degree: int) -> FloatArray:
    """Return the matrices that turn a table into the coefficients of its polynomial on smaller simplices, (P, C, C).

    Row γ is the law of the counts of γ_k votes from corner k, for every k: it is built up vote by vote, so that all
    numbers stay positive and nothing cancels.
    """
    n_classes = corners.shape[-1]
    law = np.ones((len(corners), 1, 1))
    for d in range(1, degree + 1):
        vectors, before = count_vectors(d, n_classes), _positions(d - 1, n_classes)
        grown = np.zeros((len(corners), len(vectors), len(vectors)))
        source = vectors.argmax(axis=1)  # the corner that the newest vote of γ comes from
        parent = np.array([before[tuple(v - _unit(k, n_classes))] for v, k in zip(vectors, source, strict=True)])
        for column, vector in enumerate(vectors):
            for k in np.flatnonzero(vector):
                old = before[tuple(vector - _unit(k, n_classes))]
                grown[:, :, column] += law[:, parent, old] * corners[:, source, k]
        law = grown
    return law


def _unit(k: int | np.integer[Any], n_classes: int) -> IntArray:
    return (np.arange(n_classes) == k).astype(np.int64)


@cache
def _positions(n_votes: int, n_classes: int) -> dict[tuple[int, ...], int]:
    return {tuple(vector): i for i, vector in enumerate(count_vectors(n_votes, n_classes).tolist())}
