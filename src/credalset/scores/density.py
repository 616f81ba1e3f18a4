"""The negative log density of a predicted Dirichlet, or of a predicted mixture of Dirichlets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from credalset._parallel import for_each_block
from credalset._typing import ArrayLike, BoolArray, FloatArray
from credalset._validation import as_finite
from credalset.credal_set import CredalSet
from credalset.geometry import box
from credalset.geometry import density as geometry
from credalset.geometry.generic import majorization_bound
from credalset.scores.dirichlet import DirichletScore, log_likelihood_drop, negative_log_peak
from credalset.simplex import entropy_of_valid

MAX_PROPOSALS = 1 << 16  # per set, before a sample is filled up by resampling
SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class NegativeLogDensity(DirichletScore):
    r"""Negative log density, $f = -\log p(\lambda)$, of the predicted Dirichlet or mixture of Dirichlets.

    Thresholding the density itself, rather than the density relative to its peak, gives the smallest sets on average
    when the predicted density is right: where the model is sure the set is small, where it is not the set is large.
    A prediction flatter than the threshold density has an empty set.

    Predictions are Dirichlet concentrations (N, K) ≥ 1, or mixtures (N, C, K + 1): component j of item i has the weight
    ``prediction[i, j, 0]`` and the concentrations ``prediction[i, j, 1:]`` > 0. `DirichletMixtureNetwork` predicts
    mixtures. Their level sets need not be convex; see `DensitySet`.

    Parameters
    ----------
    pull : float
        Only for mixtures: their density is read at $(\lambda + \epsilon) / (1 + K \epsilon)$ with ε = ``pull``, where
        it stays finite even if concentrations fall below one, as they do for labels on the boundary of the simplex.

    Examples
    --------
    >>> import numpy as np
    >>> NegativeLogDensity()(np.ones((1, 3)), np.array([[0.2, 0.3, 0.5]])).round(4)  # the uniform density is 2
    array([-0.6931])
    >>> mixture = np.array([[[0.5, 9.0, 1.0, 1.0], [0.5, 1.0, 1.0, 9.0]]])
    >>> NegativeLogDensity().region(mixture, 0.0).contains([[[0.9, 0.1, 0.0], [0.5, 0.0, 0.5], [0.0, 0.1, 0.9]]])
    array([[ True, False,  True]])
    """

    pull: float = 1e-3
    name: ClassVar[str] = "density"

    def __post_init__(self) -> None:
        object.__setattr__(self, "pull", as_finite(self.pull, "pull", minimum=0.0))

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """Mixtures where the estimator has them."""
        return ("predict_density", "predict_concentration")

    def check_prediction(
        self, prediction: ArrayLike, name: str = "prediction", n_classes: int | None = None
    ) -> FloatArray:
        """Validate concentrations (N, K) or mixtures (N, C, K + 1)."""
        if np.ndim(prediction) != 3:
            return super().check_prediction(prediction, name, n_classes)
        array = _as_mixtures(prediction, name, n_classes)
        if self.pull == 0.0 and (array[..., 1:] < 1.0).any():
            raise ValueError(
                f"{name} has concentrations below 1, whose density is infinite on the boundary of the simplex. "
                "Use NegativeLogDensity with pull > 0, such as 1e-3."
            )
        return array

    def n_classes(self, prediction: FloatArray) -> int:
        """Return K."""
        return int(prediction.shape[1]) if prediction.ndim == 2 else int(prediction.shape[2]) - 1

    def mean(self, prediction: FloatArray) -> FloatArray:
        """Return the mean of the predicted density."""
        if prediction.ndim == 2:
            return super().mean(prediction)
        theta = prediction[..., 1:]
        means = (prediction[..., :1] * (theta / theta.sum(axis=-1, keepdims=True))).sum(axis=1)
        return np.asarray(means / means.sum(axis=1, keepdims=True))

    def is_convex_at(self, prediction: FloatArray) -> bool:
        """One Dirichlet with θ ≥ 1 is log-concave; mixtures are not in general."""
        return prediction.ndim == 2

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """The mode; for mixtures, the highest point that a search finds."""
        if prediction.ndim == 2:
            return super().best_fit(prediction)
        result = np.empty((len(prediction), self.n_classes(prediction)))

        def one_block(rows: slice) -> None:
            mixture = self.mixture(prediction[rows])
            result[rows] = mixture.released(geometry.highest_points(mixture)[0])

        for_each_block(one_block, len(prediction), int(np.prod(prediction.shape[1:])) * geometry.MAX_STARTS)
        return result

    def largest_above(self, prediction: FloatArray, lower: FloatArray) -> FloatArray:
        """Bound the largest score over {λ : λ ≥ lower}; exact for one Dirichlet.

        For a mixture each component is bounded from below: its factors with θ ≥ 1 are log-concave and smallest at a
        corner, each of the others is smallest where its own class has most.
        """
        if prediction.ndim == 2:
            return super().largest_above(prediction, lower)
        mixture = self.mixture(prediction)
        excess = mixture.theta - 1.0
        spare = np.maximum(1.0 - lower.sum(axis=1, keepdims=True), 0.0)
        corners = lower[:, None, :] + spare[:, None] * np.eye(lower.shape[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(mixture.pulled(corners))
            rising = np.where(excess[:, None] > 0, excess[:, None] * logs[:, :, None, :], 0.0).sum(axis=-1)
            falling = np.minimum(excess, 0.0) * np.log(mixture.pulled(lower + spare))[:, None, :]
        smallest = mixture.log_norms() + rising.min(axis=1) + falling.sum(axis=-1)
        return -geometry.log_sum_exp(smallest)

    def mixture(self, prediction: FloatArray) -> geometry.Mixture:
        """Take valid predictions (N, C, K + 1) apart."""
        with np.errstate(divide="ignore"):
            return geometry.Mixture(np.log(prediction[..., 0]), prediction[..., 1:], self.pull)

    def _evaluate(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        if len(prediction) != len(distribution):
            return _negative_log_mixture(prediction, distribution, self.pull)
        return negative_log_peak(prediction) + log_likelihood_drop(prediction, distribution)

    def _region(self, prediction: FloatArray, threshold: FloatArray) -> CredalSet:
        if prediction.ndim == 3:
            center = self.best_fit(prediction)
            lowest = self.evaluate_rows(prediction, center)
            return DensitySet(self, prediction, threshold, center=center, radius=threshold - lowest)
        with np.errstate(divide="ignore", invalid="ignore"):
            drop = threshold - negative_log_peak(prediction.T)
        return self._ball(prediction, threshold, drop)


def _as_mixtures(value: ArrayLike, name: str, n_classes: int | None) -> FloatArray:
    """Check mixtures of Dirichlets (N, C, K + 1): weights that sum to one, and positive concentrations."""
    array = np.ascontiguousarray(value, dtype=np.float64)
    if array.shape[1] < 1 or array.shape[2] < 3:
        raise ValueError(
            f"{name} must hold mixtures of shape (N, components, 1 + classes) with at least 1 component and 2 classes, "
            f"but has shape {array.shape}."
        )
    if n_classes is not None and array.shape[2] != n_classes + 1:
        raise ValueError(f"{name} has mixtures over {array.shape[2] - 1} classes, but {n_classes} are expected.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    weights, theta = array[..., 0], array[..., 1:]
    if (weights < 0).any() or (np.abs(weights.sum(axis=1) - 1.0) > SUM_TOLERANCE).any():
        raise ValueError(f"{name} must have weights (its entries [:, :, 0]) that are not negative and sum to one.")
    if (theta <= 0).any():
        raise ValueError(f"{name} must have positive concentrations, but the smallest is {theta.min():.6g}.")
    return array


def _negative_log_mixture(prediction: FloatArray, distribution: FloatArray, pull: float) -> FloatArray:
    """−log Σ_j w_j Dir(y | θ_j) on class-major arrays (K + 1, C, …) and (K, …).

    Classes and components are added one after the other, and logarithms taken of packed arrays, so that equal inputs
    tie to the last bit.
    """
    scale = 1.0 + len(distribution) * pull
    logs = [np.log(np.ascontiguousarray((y + pull) / scale)) for y in distribution]
    terms = []
    for weight, *theta in zip(*prediction, strict=True):
        total, log_beta = np.zeros_like(theta[0]), np.zeros_like(theta[0])
        for t in theta:
            total, log_beta = total + t, log_beta + gammaln(np.ascontiguousarray(t))
        term = np.log(np.ascontiguousarray(weight)) + (gammaln(total) - log_beta)
        for t, log in zip(theta, logs, strict=True):
            term = term + np.where(t == 1.0, 0.0, (t - 1.0) * log)
        terms.append(term)
    top = terms[0]
    for term in terms[1:]:
        top = np.maximum(top, term)
    safe = np.where(np.isfinite(top), top, 0.0)
    sum_ = np.zeros_like(top)
    for term in terms:
        sum_ = sum_ + np.exp(term - safe)
    return -(safe + np.log(sum_))


@dataclass(frozen=True, eq=False, repr=False)
class DensitySet(CredalSet):
    """{λ : p(λ) ≥ exp(−threshold)} for a mixture of Dirichlets p; ``radius`` is how far log p exceeds it at its peak.

    Membership is exact. `sample` is uniform by rejection. `volume` is an importance-sampling estimate with a standard
    error. `lower` and `upper` are certified: no member goes beyond them. Expectations, entropies and decisions are
    those of the box that they span, which contains the set; distributions returned with them lie in the box and may
    lie outside the set. Whether a set is empty rests on a search for the peak of p.
    """

    shape: ClassVar[str] = "density set"
    score: NegativeLogDensity

    @property
    def _mixture(self) -> geometry.Mixture:
        return self.score.mixture(self.prediction)

    def _divergence(self, points: FloatArray) -> FloatArray:
        scores = self.score.evaluate(self.prediction.T[..., None], np.moveaxis(points, 2, 0))
        return scores - (self.threshold - self.radius)[:, None]

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        lower, upper = np.empty_like(self.center), np.empty_like(self.center)

        def one_block(rows: slice) -> None:
            lower[rows], upper[rows] = geometry.envelope(self._mixture.rows(rows), -self.threshold[rows])

        n_components = self.prediction.shape[1]
        for_each_block(one_block, len(self), n_components * geometry.CELLS, block_size=1 << 18)
        # The peak is a member: rounding must not shut it out.
        return np.minimum(lower, self.center), np.maximum(upper, self.center)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return box.support(*self._envelope(), utility)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        point = box.flattest(*self._envelope())
        return entropy_of_valid(point), point

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        bound = majorization_bound(*self._envelope())
        drawn = self._propose(256, np.random.default_rng(0))
        entropies = np.where(self._holds(drawn), entropy_of_valid(drawn.points), np.inf)
        points = np.concatenate([drawn.points, self.center[:, None]], axis=1)
        entropies = np.column_stack([entropies, entropy_of_valid(self.center)])
        best = entropies.argmin(axis=1)
        rows = np.arange(len(self))
        return np.minimum(bound, entropies[rows, best]), entropies[rows, best], points[rows, best]

    def _smallest_peak(self) -> FloatArray:
        return box.flattest(*self._envelope()).max(axis=1)

    def _log_volume(self, generator: np.random.Generator) -> None:
        return None

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        value, error = np.empty(len(self)), np.empty(len(self))
        for rows in self._blocks(n_rays):
            value[rows], error[rows] = geometry.log_volume(
                self._mixture.rows(rows), -self.threshold[rows], n_rays, generator
            )
        return value, error

    def _sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        result = np.empty((len(self), n, self.n_classes))
        for rows in self._blocks(4 * n):
            result[rows] = self[rows]._sample_block(n, generator)
        return result

    def _sample_block(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Accept members with probability 0.4 c / q ≤ 1; fill up by weight where hardly any is accepted."""
        result, filled = np.empty((len(self), n, self.n_classes)), np.zeros(len(self), dtype=int)
        log_share = np.log(geometry.FLATTENED[0][0])
        for _ in range(max(1, MAX_PROPOSALS // (4 * n))):
            rows = np.flatnonzero(filled < n)
            if len(rows) == 0:
                return result
            part = self[rows]
            drawn = part._propose(4 * n, generator)
            log_chance = log_share - part.threshold[:, None] - drawn.log_proposal
            accepted = part._holds(drawn) & (np.log1p(-generator.random(log_chance.shape)) <= log_chance)
            for i, row in enumerate(rows):
                found = drawn.points[i, accepted[i]][: n - filled[row]]
                result[row, filled[row] : filled[row] + len(found)] = found
                filled[row] += len(found)
        for row in np.flatnonzero(filled < n):
            result[row, filled[row] :] = self[int(row)]._draw_by_weight(n - int(filled[row]), generator)
        return result

    def _draw_by_weight(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw n members of a single set from its proposals, with chances in proportion to 1/q."""
        drawn = self._propose(max(4 * n, 4096), generator)
        logs = np.where(self._holds(drawn), -drawn.log_proposal, -np.inf)[0]
        if np.isneginf(logs).all():
            return np.repeat(self.center, n, axis=0)
        chances = np.exp(logs - logs.max())
        return drawn.points[0, generator.choice(len(logs), n, p=chances / chances.sum())]

    def _holds(self, drawn: geometry.Proposals) -> BoolArray:
        return np.asarray(drawn.log_density >= -self.threshold[:, None])

    def _propose(self, n: int, generator: np.random.Generator) -> geometry.Proposals:
        return geometry.propose(self._mixture, n, generator)

    def _blocks(self, n_points: int) -> list[slice]:
        """Slices of rows whose proposals fit in memory."""
        per_row = n_points * max(self.prediction.shape[1] * len(geometry.FLATTENED), self.n_classes)
        step = max(1, (1 << 23) // per_row)
        return [slice(start, start + step) for start in range(0, len(self), step)]
