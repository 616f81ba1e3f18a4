"""Scores for second-order (Dirichlet) predictions, and the reverse-KL ball both of them induce.

With concentrations θ ≥ 1, excess a = θ − 1, weight W = Σ a and mode m = a / W, the Dirichlet density satisfies
p(λ) = p(m) · exp(−W · KL(m ‖ λ)). Level sets of the density are therefore reverse-KL balls around the mode. W = 0 is
the uniform density: every λ fits equally well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Literal

import numpy as np
from scipy.special import gammaln

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import FloatArray
from credalset._validation import sequential_row_sums
from credalset.scores.base import Score
from credalset.scores.dirichlet import entropy, geometry, volume
from credalset.scores.dirichlet.enclosing import largest_fall
from credalset.sets.credal_set import CredalSet
from credalset.sets.smallest_peak import capped_peak
from credalset.simplex import divergence_terms


def mode_and_weight(concentration: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mode m (N, K) and weight W (N,); the mode of a uniform Dirichlet is taken to be the centre."""
    excess = concentration - 1.0
    weight = sequential_row_sums(excess)  # the order of the score's own sum, so that the mode scores exactly zero
    safe = np.where(weight > 0, weight, 1.0)
    mode = np.where(weight[:, None] > 0, excess / safe[:, None], 1.0 / concentration.shape[1])
    return mode, weight


def log_likelihood_drop(concentration: FloatArray, distribution: FloatArray) -> FloatArray:
    """Log p(m) − log p(λ) = W · KL(m ‖ λ) on arrays (…, K); zero where W = 0."""
    excess = concentration - 1.0
    weight = excess.sum(axis=-1)
    mode = excess / np.where(weight > 0, weight, 1.0)[..., None]
    drop = divergence_terms(mode, distribution).sum(axis=-1)
    return np.where(weight > 0, weight * np.maximum(drop, 0.0), 0.0)


def negative_log_peak(concentration: FloatArray) -> FloatArray:
    """−log p(m) = log B(θ) − Σ a_k log m_k on arrays (…, K)."""
    excess = concentration - 1.0
    mode = excess / excess.sum(axis=-1)[..., None]
    logs = np.where(excess > 0, excess * np.log(mode), 0.0)
    return (gammaln(concentration) - logs).sum(axis=-1) - gammaln(concentration.sum(axis=-1))


class DirichletScore(Score):
    """Base of the scores whose region is a reverse-KL ball around the mode of the predicted Dirichlet."""

    order: ClassVar[Literal["first", "second"]] = "second"

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """The mode of the predicted Dirichlet."""
        return mode_and_weight(prediction)[0]

    def common_center(self, models: Sequence[FloatArray]) -> FloatArray:
        """The smallest concentrations, whose density no model's falls below by much."""
        return np.min(models, axis=0)

    def _ball(self, prediction: FloatArray, threshold: FloatArray, drop: FloatArray) -> ReverseKullbackLeiblerBall:
        """Build the ball of all λ whose log-likelihood lies at most ``drop`` below the peak."""
        mode, weight = mode_and_weight(prediction)
        with np.errstate(divide="ignore", invalid="ignore"):
            radius = np.where(weight > 0, drop / weight, np.where(drop >= 0, np.inf, -np.inf))
        return ReverseKullbackLeiblerBall(self, prediction, threshold, center=mode, radius=radius)


@dataclass(frozen=True)
class RelativeLikelihood(DirichletScore):
    r"""One minus relative likelihood, $f = 1 - p(\lambda | \theta) / p(m | \theta)$ (paper name: SO).

    Between 0 (at the mode m) and 1. For all-ones concentrations every distribution scores 0.

    Examples
    --------
    >>> import numpy as np
    >>> RelativeLikelihood()(np.array([[3.0, 2.0, 1.0]]), np.array([[2 / 3, 1 / 3, 0.0]])).round(12)
    array([0.])
    """

    name: ClassVar[str] = "so"
    is_convex: ClassVar[bool] = False

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """1 − p(λ) / p(m)."""
        return -np.expm1(-log_likelihood_drop(prediction, distribution)) + 0.0

    def _region(self, prediction: FloatArray, threshold: FloatArray) -> ReverseKullbackLeiblerBall:
        return self._ball(prediction, threshold, _drop(threshold))

    @property
    def has_convex_regions(self) -> bool:
        """They are reverse-KL balls, although the score itself is not convex."""
        return True

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """The largest fall in log-likelihood relative to the peaks."""
        return largest_fall(model, center, relative=True)

    def enclosing_threshold(self, model: FloatArray, center: FloatArray, threshold: FloatArray) -> FloatArray:
        """Return the threshold whose drop in log-likelihood is that of the model plus the gap."""
        return -np.expm1(-np.maximum(_drop(threshold) + self.largest_gap(model, center), 0.0))


def _drop(threshold: FloatArray) -> FloatArray:
    """Return how far below the peak the log-likelihood lies at a threshold of one minus relative likelihood."""
    with np.errstate(divide="ignore"):
        return np.where(threshold < 1.0, -np.log1p(-np.minimum(threshold, 1.0)), np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class ReverseKullbackLeiblerBall(CredalSet):
    """{λ : KL(center ‖ λ) ≤ radius}, radius in nats; the centre is the mode of the predicted Dirichlet.

    Everything is exact for any number of classes: envelopes, expectations, both entropies, the volume, the nearest
    distribution with a given top class. See `credalset.scores.dirichlet.geometry` for the derivations.
    """

    shape: ClassVar[str] = "reverse-KL ball"
    exact_volume_up_to: ClassVar[float] = np.inf

    def _smallest_peak(self) -> FloatArray:
        return capped_peak(self, "reverse")

    def _divergence(self, points: FloatArray) -> FloatArray:
        result = np.empty(points.shape[:2])

        def one_block(rows: slice) -> None:
            result[rows] = geometry.divergence(self.center[rows, None, :], points[rows])

        for_each_block(one_block, len(self), points.shape[1] * self.n_classes)
        return result

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        lower, upper = np.empty_like(self.center), np.empty_like(self.center)
        compiled = self._compiled(geometry)

        def one_block(rows: slice) -> None:
            center, radius = self._rows(rows)
            if compiled is None:
                lower[rows], upper[rows] = geometry.envelope(center, radius)
            else:
                compiled.envelope(center, radius, lower[rows], upper[rows])

        for_each_block(one_block, len(self), self.n_classes)
        return lower, upper

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return self._optimum(geometry, "support", attaining, utility)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return self._optimum(entropy, "max_entropy", attaining)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        least, point = self._optimum(entropy, "min_entropy", attaining)
        return least, least, point

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        result = self._per_row(volume.log_volume, (), row_size=2 * volume.N_NODES)
        return result, np.zeros(len(self)), "exact"

    def _closest_with_top(self) -> FloatArray:
        """For each class, the smallest radius at which some member gives it at least as much as any other: (N, K)."""
        return self._per_row(lambda center, _: geometry.closest_with_top(center), (self.n_classes,), self.n_classes)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        n_each = directions.shape[1]
        flat = np.ascontiguousarray(directions).reshape(-1, self.n_classes)
        compiled = self._compiled(geometry, effort=n_each)
        result = np.empty(directions.shape[:2])
        out = result.reshape(-1)

        def one_block(pairs: slice) -> None:
            owners = np.arange(pairs.start, pairs.stop) // n_each
            if compiled is None:
                out[pairs] = geometry.ray_length(self.center[owners], self.radius[owners], flat[pairs])
            else:
                compiled.ray_length(self.center[owners], self.radius[owners], flat[pairs], out[pairs])

        for_each_block(one_block, len(flat), self.n_classes)
        return result

    def _optimum(
        self, readable: ModuleType, name: str, attaining: bool, *inputs: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Run one optimisation over blocks of rows; points are kept only if they are asked for."""
        value = np.empty(len(self))
        point = np.empty_like(self.center) if attaining else None
        compiled = self._compiled(readable)

        def one_block(rows: slice) -> None:
            center, radius = self._rows(rows)
            arguments = [np.ascontiguousarray(array[rows]) for array in inputs]
            if compiled is None:
                value[rows], where = getattr(readable, name)(center, radius, *arguments)
                if point is not None:
                    point[rows] = where
            else:
                where = np.empty_like(center) if point is None else point[rows]
                getattr(compiled, name)(center, radius, *arguments, value[rows], where)

        for_each_block(one_block, len(self), self.n_classes)
        return value, point

    def _per_row(
        self, function: Callable[[FloatArray, FloatArray], FloatArray], tail: tuple[int, ...], row_size: int
    ) -> FloatArray:
        """Apply a function of (center, radius) to blocks of rows."""
        result = np.empty((len(self), *tail))

        def one_block(rows: slice) -> None:
            result[rows] = function(*self._rows(rows))

        for_each_block(one_block, len(self), row_size)
        return result

    def _compiled(self, readable: ModuleType, effort: int = 1) -> ModuleType | None:
        """The compiled twin of a module of readable functions, for large batches."""
        return kernels(f"{readable.__name__}_kernels", self.center.size * effort)

    def _rows(self, rows: slice) -> tuple[FloatArray, FloatArray]:
        return np.ascontiguousarray(self.center[rows]), np.ascontiguousarray(self.radius[rows])
