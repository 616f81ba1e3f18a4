"""Kullback–Leibler divergence from the prediction, and the KL ball it induces."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Literal, Self

import numpy as np

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import FloatArray, IntArray
from credalset._validation import as_finite
from credalset.scores.base import Score
from credalset.scores.kullback_leibler import geometry, volume
from credalset.sets.credal_set import CredalSet
from credalset.sets.magnify import magnified
from credalset.sets.sampling import sample_on_faces
from credalset.sets.smallest_peak import capped_peak
from credalset.simplex import divergence_terms

SMALLEST_RADIUS = 1e-280
ROUNDING = 1e-14  # predictions may miss the sum one by more than this, and the geometry is exact about it


@dataclass(frozen=True)
class KullbackLeibler(Score):
    r"""Kullback–Leibler divergence $f = \sum_k \lambda_k \log(\lambda_k / g_k)$ (paper name: KL).

    ``+inf`` when λ gives mass to a class that the prediction rules out.

    Parameters
    ----------
    base : float
        Base of the logarithm; 2 (bits) as in the published experiments. The sets do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> KullbackLeibler()(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([1.])
    """

    base: float = 2.0
    name: ClassVar[str] = "kl"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_convex_in_prediction: ClassVar[bool] = True
    treats_classes_alike: ClassVar[bool] = True

    def __post_init__(self) -> None:
        base = as_finite(self.base, "base")
        if base <= 1.0:
            raise ValueError(f"base must be above 1, but is {self.base!r}. Use 2 for bits or math.e for nats.")
        object.__setattr__(self, "base", base)

    kernel_name: ClassVar[str] = "kl"

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Σ λ_k log(λ_k / g_k), in units of log(base)."""
        return np.maximum(divergence_terms(distribution, prediction).sum(axis=-1), 0.0) / math.log(self.base)

    def _kernel_weights(self, n_classes: int) -> FloatArray:
        return np.array([math.log(self.base)])

    def _region(self, prediction: FloatArray, threshold: FloatArray) -> KullbackLeiblerBall:
        radius = threshold * math.log(self.base)
        return KullbackLeiblerBall(self, prediction, threshold, center=prediction, radius=radius)

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """The largest log-ratio of the two predictions, at the corner of its class."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(model > 0, np.log(model) - np.log(center), -np.inf)
        return ratio.max(axis=1) / math.log(self.base)


@dataclass(frozen=True, eq=False, repr=False)
class KullbackLeiblerBall(CredalSet):
    """{λ : KL(λ ‖ center) ≤ radius}, radius in nats.

    Exact for any number of classes: envelopes, expectations, both entropies, the nearest distribution with a given top
    class. Exact for two and three classes: the volume. See `geometry` for the derivations.
    """

    shape: ClassVar[str] = "Kullback–Leibler ball"
    exact_volume_up_to: ClassVar[float] = 3

    def _smallest_peak(self) -> FloatArray:
        return capped_peak(self, "forward")

    def _divergence(self, points: FloatArray) -> FloatArray:
        result = np.empty(points.shape[:2])

        def one_block(pairs: slice) -> None:
            centers, _ = self._owners(pairs, points.shape[1])
            result.reshape(-1)[pairs] = geometry.divergence(centers, points.reshape(-1, self.n_classes)[pairs])

        for_each_block(one_block, result.size, self.n_classes)
        return result

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        lower, upper = np.empty_like(self.center), np.empty_like(self.center)
        step = self._step(geometry, "envelope")

        def one_block(rows: slice) -> None:
            step(self._centers(rows), self._radii(rows), lower[rows], upper[rows])

        for_each_block(one_block, len(self), self.n_classes)
        return lower, upper

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        utility = np.ascontiguousarray(utility)
        return self._optimum("support", attaining, utility)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return self._optimum("max_entropy", attaining)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        least, point = self._optimum("min_entropy", attaining)
        return least, least, point

    def _closest_with_top(self) -> FloatArray:
        """For each class, the smallest radius at which some member gives it at least as much as any other: (N, K)."""
        result = np.empty_like(self.center)
        step = self._step(geometry, "closest_with_top")

        def one_block(rows: slice) -> None:
            step(self._centers(rows), result[rows])

        for_each_block(one_block, len(self), self.n_classes)
        return result

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        if self.n_classes > 3:
            return None
        result = np.empty(len(self))
        nodes, weights = volume.RULE
        step = self._step(volume, "log_volume", effort=len(nodes))
        balls, log_factor = self._magnified()

        def one_block(rows: slice) -> None:
            step(balls._centers(rows), balls.radius[rows], nodes, weights, result[rows])

        for_each_block(one_block, len(self), volume.MAX_PIECES * 2 * len(nodes))
        return result + log_factor, np.zeros(len(self)), "exact"

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        balls, log_factor = self._magnified()
        value, error = super(KullbackLeiblerBall, balls)._estimate_log_volume(generator, n_rays)
        return value + log_factor, error

    def _magnified(self) -> tuple[Self, FloatArray]:
        """Balls large enough for doubles, and what their volumes differ by; a ruled-out class leaves no volume."""
        balls, log_factor = magnified(self, below=1e-60, ratio=1e17)
        return balls, log_factor

    def _sample(self, n: int, generator: np.random.Generator) -> FloatArray | None:
        """Where the centre rules classes out the ball lies on a face; elsewhere the default does."""
        allowed = self.center > 0
        return None if allowed.all() else sample_on_faces(self, allowed, n, generator)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        flat = np.ascontiguousarray(directions).reshape(-1, self.n_classes)
        result = np.empty(directions.shape[:2])
        step = self._step(geometry, "ray_length", effort=directions.shape[1])

        def one_block(pairs: slice) -> None:
            centers, radii = self._owners(pairs, directions.shape[1])
            step(centers, radii, flat[pairs], result.reshape(-1)[pairs])

        for_each_block(one_block, len(flat), self.n_classes)
        return result

    def _optimum(self, name: str, attaining: bool, *inputs: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Run one optimisation over blocks of rows; points are kept only if they are asked for."""
        value = np.empty(len(self))
        point = np.empty_like(self.center) if attaining else None
        step = self._step(geometry, name)

        def one_block(rows: slice) -> None:
            centers = self._centers(rows)
            where = np.empty_like(centers) if point is None else point[rows]
            step(centers, self._radii(rows), *(array[rows] for array in inputs), value[rows], where)

        for_each_block(one_block, len(self), self.n_classes)
        return value, point

    def _step(self, readable: ModuleType, name: str, effort: int = 1) -> Callable[..., None]:
        """The compiled form of a function for large batches, else the readable one."""
        module = f"{readable.__name__}_kernels"
        step: Callable[..., None] = getattr(kernels(module, self.center.size * effort) or readable, name)
        return step

    def _centers(self, rows: slice | IntArray) -> FloatArray:
        """Rows of the centre that sum to one up to rounding; rows that already do keep their bits."""
        center = np.ascontiguousarray(self.center[rows])
        total = center.sum(axis=1, keepdims=True)
        off = np.abs(total - 1) > ROUNDING
        return np.where(off, center / total, center) if off.any() else center

    def _radii(self, rows: slice) -> FloatArray:
        """Radii whose divergences doubles can hold; the ball they belong to is larger by less than 1e-140."""
        radius = self.radius[rows]
        return np.where(radius > 0, np.maximum(radius, SMALLEST_RADIUS), radius)

    def _owners(self, pairs: slice, n_each: int) -> tuple[FloatArray, FloatArray]:
        """Centre and radius of the set that each of the consecutive (set, point) pairs belongs to."""
        rows = np.arange(pairs.start, pairs.stop) // n_each
        return self._centers(rows), self.radius[rows]
