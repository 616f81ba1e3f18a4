"""1-Wasserstein distance between distributions over ordered classes, and the W1 ball it induces."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset.scores.base import Score
from credalset.scores.wasserstein import entropy as wasserstein_entropy
from credalset.scores.wasserstein import geometry, levels, vertices, volume
from credalset.scores.wasserstein import groups as wasserstein_groups
from credalset.scores.wasserstein import rays as wasserstein_rays
from credalset.sets.old_set import CredalSet
from credalset.sets.rays import Rays, ray_length_in_norm

# Costs are sums of products of distances and masses; with gaps like these they stay within doubles, all terms felt.
SMALLEST_GAP, LARGEST_GAP, LARGEST_RATIO = 1e-100, 1e100, 1e15

# Tables of all groups of neighbouring classes, searches for each class and linear programmes grow too large beyond.
MAX_TABLE_CLASSES, MAX_TOP_CLASSES, MAX_PEAK_CLASSES = 300, 300, 1000


@dataclass(frozen=True)
class Wasserstein(Score):
    r"""1-Wasserstein distance on a line (paper name: WS).

    $$f = \sum_{k<K} (x_{k+1} - x_k) \, |F_k - G_k|$$

    with $F, G$ the cumulative sums of λ and g, and class positions $x_1 < \dots < x_K$: the cheapest way
    to move one distribution into the other when moving mass costs its distance. Use it when classes are ordered.

    Parameters
    ----------
    positions : sequence of K increasing numbers, optional
        Where the classes sit; 0, 1, …, K − 1 by default, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> Wasserstein()(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]]))
    array([2.])
    """

    positions: tuple[float, ...] | None = None
    name: ClassVar[str] = "ws"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_convex_in_prediction: ClassVar[bool] = True
    is_metric: ClassVar[bool] = True
    is_ordinal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.positions is None:
            return
        try:
            positions = tuple(float(x) for x in self.positions)
        except (TypeError, ValueError):
            raise TypeError(f"positions must be increasing numbers, but is {self.positions!r}.") from None
        if len(positions) < 2 or not np.isfinite(positions).all() or any(b <= a for a, b in pairwise(positions)):
            raise ValueError(
                f"positions must be at least two finite, strictly increasing numbers, but is {list(positions)}. "
                "Order the classes along the line first."
            )
        with np.errstate(over="ignore"):
            gaps = np.diff(positions)
        if gaps.min() < SMALLEST_GAP or gaps.max() > LARGEST_GAP or gaps.max() > LARGEST_RATIO * gaps.min():
            raise ValueError(
                f"positions must lie between {SMALLEST_GAP:g} and {LARGEST_GAP:g} apart, gaps within a factor of "
                f"{LARGEST_RATIO:g} of each other, but neighbours are {gaps.min():.6g} to {gaps.max():.6g} apart. "
                "Measure them in another unit, or merge classes."
            )
        object.__setattr__(self, "positions", positions)

    def gaps(self, n_classes: int) -> FloatArray:
        """Distances between neighbouring classes, (K − 1,)."""
        return np.ones(n_classes - 1) if self.positions is None else np.diff(np.array(self.positions))

    def _check_classes(self, n_classes: int) -> None:
        if self.positions is not None and len(self.positions) != n_classes:
            raise ValueError(
                f"positions has {len(self.positions)} entries, but the predictions have {n_classes} classes. "
                "Give one position per class."
            )

    kernel_name: ClassVar[str] = "ws"

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Σ gap_k |F_k − G_k|."""
        return geometry.transport_cost(distribution - prediction, self.gaps(distribution.shape[-1]))

    def _kernel_weights(self, n_classes: int) -> FloatArray:
        return self.gaps(n_classes)

    def _old_region(self, prediction: FloatArray, threshold: FloatArray) -> WassersteinBall:
        gaps = self.gaps(prediction.shape[1])
        return WassersteinBall(self, prediction, threshold, center=prediction, radius=threshold, gaps=gaps)

    def lipschitz(self, n_classes: int) -> float:
        """The length of the line: all mass that moves may have to go from one end to the other."""
        return float(self.gaps(n_classes).sum())


@dataclass(frozen=True, eq=False, repr=False)
class WassersteinBall(CredalSet):
    """{λ : W₁(λ, center) ≤ radius} for classes on a line, ``gaps`` apart.

    Exact for any number of classes: envelopes, expectations, the greatest entropy, rays from the centre and the
    distance at which a class can come out on top. The least entropy is exact up to 10 classes and bracketed beyond;
    the vertices are listed up to 12 classes; the volume is exact up to 4. Beyond, rays drawn in the shape of the ball
    estimate it without bias, to a few per cent even for a hundred classes. See `geometry` and its
    neighbours `entropy`, `groups`, `volume` and `rays`.
    """

    shape: ClassVar[str] = "Wasserstein ball"
    exact_volume_up_to: ClassVar[float] = volume.MAX_CLASSES

    gaps: FloatArray = field(kw_only=True)

    def _smallest_peak(self) -> FloatArray:
        self._refuse_beyond(MAX_PEAK_CLASSES, "the smallest peak", "Use family='entropy', or the envelopes.")
        return levels.smallest_peak(self.center, self.radius, gaps=self.gaps)

    def _divergence(self, points: FloatArray) -> FloatArray:
        return geometry.transport_cost(points - self.center[:, None], self.gaps)

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        return geometry.envelope(self.center, self.radius, gaps=self.gaps)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return geometry.support(self.center, self.radius, utility, gaps=self.gaps, attaining=attaining)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return wasserstein_entropy.max_entropy(self.center, self.radius, gaps=self.gaps, attaining=attaining)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        if self.n_classes > MAX_TABLE_CLASSES:
            return super()._min_entropy(attaining)
        low, high, point = wasserstein_groups.min_entropy(self.center, self.radius, gaps=self.gaps)
        return low, high, point if attaining else None

    def _has_exact_entropies(self) -> bool:
        return self.n_classes <= wasserstein_groups.EXACT_CLASSES

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        if not 3 <= self.n_classes <= volume.MAX_CLASSES:
            return super()._log_volume(generator)
        return volume.log_fraction(self.center, self.radius, gaps=self.gaps), np.zeros(len(self)), "exact"

    def _weighted_rays(self, n_rays: int, generator: np.random.Generator) -> Rays:
        return wasserstein_rays.weighted_rays(self, self.gaps, n_rays, generator)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        reach = geometry.within_reach(self.radius, self.gaps)
        return ray_length_in_norm(self.center, reach, geometry.transport_cost(directions, self.gaps), directions)

    def _vertices(self) -> FloatArray:
        return vertices.vertices(self.center[0], float(self.radius[0]), self.gaps)

    def _closest_with_top(self) -> FloatArray:
        """For each class, the smallest radius at which some member gives it at least as much as any other: (N, K)."""
        self._refuse_beyond(MAX_TOP_CLASSES, "which class can come out on top", "Use rule='interval-dominance'.")
        return levels.closest_with_top(self.center, gaps=self.gaps)

    def _refuse_beyond(self, n_classes: int, question: str, instead: str) -> None:
        """Each class takes a search of its own, each set a linear programme: too long with very many classes."""
        if self.n_classes > n_classes:
            raise ValueError(
                f"{question} is answered for Wasserstein balls over at most {n_classes} classes, and there are "
                f"{self.n_classes}. {instead}"
            )
