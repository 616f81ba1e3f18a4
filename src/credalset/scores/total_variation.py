r"""Total variation: f(x, λ) = ½ Σ |λ_k − g_k|, and the ball it induces.

A member of {λ ∈ Δ : ½‖λ − g‖₁ ≤ r} moves mass t ≤ r of the centre g from some classes to others.
Hence:

* A class loses at most min(r, g_k) and gains at most min(r, 1 − g_k): the envelope.
* An expectation is largest when the mass moves from the classes of least utility to the best one.
* The sum of the j largest entries grows by at most r, so moving r from the smallest classes upward
  to the largest *majorises* every member: the least value of every Schur-concave function, entropy
  included.
* The greatest entropy lies at clip(g, a, b) with Σ (a − g)₊ = r = Σ (g − b)₊, and beyond TV(g,
  uniform) it is uniform. With P_j and S_j the sums of the j smallest and j largest entries, the
  levels are a = min_j (r + P_j)/j and b = max_j (S_j − r)/j.
* Class a is a most probable one at distance d if the others come down to θ = g_a + d, which takes
  Σ_b (g_b − θ)₊ = max_j (S_j − j θ) ≤ d: d_a = max_j (S_j − j g_a)/(j + 1).

**Volume.** Gains fill a simplex of size t, losses a slice of the box ∏_{k∈S} [0, g_k] over the
classes S that lose. By inclusion and exclusion over the sides T ⊆ S that are cut off, with x =
g(T)/r and d = K − 1,

$$\frac{V}{\mathrm{vol}(\Delta)\, r^d} = \sum_{T : x < 1, |T| < K} (-1)^{|T|}
\sum_j w_{|T|, j} \, x^j (1 - x)^{d - j},
\qquad w_{s,j} = \frac{d}{d - j} \sum_{c=\max(1,s)}^{d-j} \binom{K-s}{c-s}
\binom{K-2}{c-1} \binom{K-c-1}{j}.$$

The ball contains (1−r)g + rΔ, so the left side is at least 1, while the terms add up to at most 10⁸
in absolute value for 12 classes: eight digits are left. Beyond 12 classes the volume is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import comb
from typing import ClassVar, Literal, final

import numpy as np

from credalset._blocks import in_blocks
from credalset._typing import FloatArray
from credalset.scores.base import Score
from credalset.scores.registry import register_score
from credalset.sets.geometry import Geometry
from credalset.sets.results import Entropies
from credalset.sets.volume import edge_distance
from credalset.simplex import entropy_of_valid, sum_classes

EXACT_VOLUME_CLASSES = 12  # the sum has 2^K terms
MAX_VERTEX_CLASSES = 8  # 40 320 orders
SCALE_OFFSET = 0.015  # measured by benchmarks/votes_in_hand.py


@final
@register_score
@dataclass(frozen=True)
class TotalVariation(Score):
    r"""Total variation distance $f = \tfrac12 \sum_k |\lambda_k - g_k|$ (paper name: TV).

    It is the largest difference between the probabilities that the two distributions give to an
    event, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> TotalVariation()(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.5, 0.3]])).round(3)
    array([0.3])
    """

    name: ClassVar[str] = "tv"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_metric: ClassVar[bool] = True

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """½ Σ |λ_k − g_k|."""
        return np.asarray(0.5 * np.abs(distribution - prediction).sum(axis=-1))

    def geometry(self, prediction: FloatArray, threshold: FloatArray) -> TotalVariationBall:
        """Return balls of radius ``threshold`` around the predictions."""
        return TotalVariationBall(prediction, threshold)

    def label_scores(self, prediction: FloatArray) -> FloatArray:
        """Return one minus the predicted probability."""
        return 1.0 - prediction

    def scale_offset(self, n_classes: int) -> float:
        """Return 0.015."""
        return SCALE_OFFSET

    def lipschitz(self, n_classes: int) -> float:
        """Return one, by the triangle inequality."""
        return 1.0


@dataclass(frozen=True, eq=False)
class TotalVariationBall(Geometry):
    """{λ : ½ ‖λ − center‖₁ ≤ radius}. All results are exact, the volume up to 12 classes."""

    shape: ClassVar[str] = "total-variation ball"

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return ½ Σ_k |λ_k − g_k|."""
        return np.asarray(0.5 * np.abs(points - self.center[:, None]).sum(axis=-1))

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return largest expectations and maximisers: r goes from the worst classes to the best."""
        return _support(self.center, self.radius, utility)

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return [max(0, g_k − r), min(1, g_k + r)]."""
        radius = self.radius[:, None]
        return np.maximum(self.center - radius, 0.0), np.minimum(self.center + radius, 1.0)

    def entropies(self) -> Entropies:
        """Move mass from the smallest classes to the largest, and clip at two levels."""
        return Entropies.exact(*_entropies(self.center, self.radius))

    def mode_radius(self) -> FloatArray:
        """Return max_j (S_j − j g_a)/(j + 1)."""
        return _mode_radius(self.center)

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Return the exact volume up to 12 classes."""
        if self.n_classes > EXACT_VOLUME_CLASSES:
            return super().log_volume(generator, n_rays)
        value = np.where(self.radius > 0.0, 0.0, -np.inf)
        rows = np.flatnonzero((self.radius > 0.0) & (self.radius < 1.0 - self.center.min(axis=1)))
        if len(rows):
            value[rows] = _log_volume(self.center[rows], self.radius[rows])
        return value, np.zeros(len(self)), "exact"

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        """Return the smaller of the distances to the surface and to the edge of the simplex."""
        with np.errstate(divide="ignore", invalid="ignore"):
            surface = self.radius[:, None] / (0.5 * np.abs(directions).sum(axis=-1))
        return np.minimum(surface, edge_distance(self.center[:, None], directions))

    def vertices(self, i: int) -> FloatArray:
        """Return one vertex for every order of the classes, up to eight classes."""
        return _vertices(self.center[i], float(self.radius[i]))


# Below, classes come first where they are summed over, (K, n), so that sums run along memory.


def _move_to_last(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Move up to r from the first classes (K, n) to the last."""
    result = np.array(center)
    before = np.cumsum(result[:-1], axis=0) - result[:-1]
    taken = np.minimum(np.maximum(radius - before, 0.0), result[:-1])
    result[:-1] -= taken
    result[-1] = np.minimum(result[-1] + sum_classes(taken), 1.0)
    return result


@in_blocks()
def _support(
    center: FloatArray, radius: FloatArray, utility: FloatArray
) -> tuple[FloatArray, FloatArray]:
    order = np.argsort(utility, axis=1)
    moved = _move_to_last(np.take_along_axis(center, order, axis=1).T, radius)
    points = np.empty(order.shape)
    np.put_along_axis(points, order, moved.T, axis=1)
    return sum_classes(np.take_along_axis(utility, order, axis=1).T * moved), points


@in_blocks()
def _entropies(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    k = center.shape[1]
    ascending = np.ascontiguousarray(np.sort(center, axis=1).T)
    count = np.arange(1.0, k + 1)[:, None]
    low = ((radius + ascending.cumsum(axis=0)) / count).min(axis=0, initial=1.0 / k)
    high = ((ascending[::-1].cumsum(axis=0) - radius) / count).max(axis=0, initial=1.0 / k)
    even = np.where(low == high, np.log(k), entropy_of_valid(ascending.clip(low, high), axis=0))
    return entropy_of_valid(_move_to_last(ascending, radius), axis=0), np.minimum(even, np.log(k))


@in_blocks(lambda size: 4 * size)
def _mode_radius(center: FloatArray) -> FloatArray:
    own = np.ascontiguousarray(center.T)
    sums = np.cumsum(np.sort(own, axis=0)[::-1], axis=0)
    nearest = np.zeros_like(own)
    for j, total in enumerate(sums, start=1):
        np.maximum(nearest, (total - j * own) / (j + 1), out=nearest)
    # The largest classes are at distance zero exactly, without rounding of the sums.
    nearest[own == own.max(axis=0)] = 0.0
    return np.ascontiguousarray(nearest.T)


@cache
def _volume_weights(n_classes: int) -> FloatArray:
    """Return the coefficients w_{s,j}: row s, column j."""
    d = n_classes - 1
    weights = np.zeros((n_classes, d))
    for s in range(n_classes):
        for j in range(d - max(1, s) + 1):
            terms = (
                comb(n_classes - s, c - s) * comb(n_classes - 2, c - 1) * comb(n_classes - c - 1, j)
                for c in range(max(1, s), d - j + 1)
            )
            weights[s, j] = d * sum(terms) / (d - j)
    return weights


@in_blocks(lambda size: 1 << size, block_size=1 << 18)
def _log_volume(center: FloatArray, radius: FloatArray) -> FloatArray:
    n, k = center.shape
    mass = np.zeros((1 << k, n))  # g(T) / r of every event T, numbered by its bits
    for c in range(k):
        np.add(mass[: 1 << c], np.minimum(center[:, c] / radius, 2.0), out=mass[1 << c : 2 << c])
    sizes = np.array([event.bit_count() for event in range(1 << k)])
    total = np.zeros(n)
    for s in range(k):
        part = mass[sizes == s]
        column = np.nonzero(part < 1.0)[1]
        x = part[part < 1.0]
        value = np.zeros(len(x))
        for j, weight in enumerate(_volume_weights(k)[s]):
            if weight:
                value += weight * x**j * (1.0 - x) ** (k - 1 - j)
        total += (-1) ** s * np.bincount(column, weights=value, minlength=n)
    return np.minimum((k - 1) * np.log(radius) + np.log(np.maximum(total, 1.0)), 0.0)


def _vertices(center: FloatArray, radius: float) -> FloatArray:
    """Return the extreme points of one ball with centre (K,), (V, K).

    The ball is the core of the 2-monotone lower probability max(0, g(A) − r), 1 for all classes
    together: every order of the classes gives an extreme point, whose entries are the increments of
    the lower probability along it.
    """
    n_classes = len(center)
    if n_classes > MAX_VERTEX_CLASSES:
        raise ValueError(
            f"vertices of total-variation balls are listed for at most {MAX_VERTEX_CLASSES} "
            f"classes, but there are {n_classes}. Use upper_expectation or sample."
        )
    order = np.array(list(permutations(range(n_classes))))
    along = np.maximum(np.cumsum(center[order], axis=1) - radius, 0.0)
    along[:, -1] = 1.0
    points = np.empty(order.shape)
    np.put_along_axis(points, order, np.diff(along, axis=1, prepend=0.0), axis=1)
    return points[np.unique(points.round(12), axis=0, return_index=True)[1]]
