"""The negative log density of a predicted Dirichlet, or of a predicted mixture of Dirichlets."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from credalset._parallel import for_each_block
from credalset._typing import ArrayLike, BoolArray, FloatArray
from credalset._validation import as_finite, as_numbers
from credalset.exceptions import CredalSetWarning
from credalset.scores.density import mixture as geometry
from credalset.scores.density import proposals
from credalset.scores.dirichlet.score import DirichletScore, log_likelihood_drop, negative_log_peak
from credalset.sets import box
from credalset.sets.credal_set import CredalSet
from credalset.sets.generic import majorization_bound
from credalset.simplex import entropy_of_valid

MIN_POOL = 512  # members that a sample is drawn from
POOL_PER_DRAW = 8
SECOND_POOL = 4  # times as many proposals where few of them are members, or weights are uneven
MAX_CLASSES = 100  # beyond, no draw of any number is likely to hit a set
N_KNOWN = 32  # members drawn to tell how far the answers of the box may be off
ELEMENTS_PER_BLOCK = 1 << 21
SUM_TOLERANCE = 1e-6
SMALLEST, LARGEST = 1e-8, 1e10  # concentrations whose densities doubles can tell


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
        with np.errstate(divide="ignore", invalid="ignore"):
            least, most = np.log(mixture.pulled(lower))[:, None], np.log(mixture.pulled(lower + spare))[:, None]
            below, above = (np.where(excess > 0, excess * logs, 0.0) for logs in (least, most))
            falling = np.minimum(excess, 0.0) * most
        # At the corner of class k all others are at their least; sums from both sides, for differences of -inf are NaN.
        before, after = np.zeros_like(below), np.zeros_like(below)
        before[..., 1:] = np.cumsum(below, axis=-1)[..., :-1]
        after[..., :-1] = np.cumsum(below[..., ::-1], axis=-1)[..., -2::-1]
        rising = before + above + after
        smallest = mixture.log_norms() + rising.min(axis=-1) + falling.sum(axis=-1)
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
    array = np.ascontiguousarray(as_numbers(value, name), dtype=np.float64)
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
    sums = weights.sum(axis=1)
    bad = (weights < 0).any(axis=1) | (np.abs(sums - 1.0) > SUM_TOLERANCE)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{name} must have weights (its entries [:, :, 0]) that are not negative and sum to one, but those of row "
            f"{row} sum to {sums[row]:.6g} and the smallest is {weights[row].min():.6g}."
        )
    if theta.min(initial=1.0) < SMALLEST or theta.max(initial=1.0) > LARGEST:
        raise ValueError(
            f"{name} must have concentrations (its entries [:, :, 1:]) from {SMALLEST:g} to {LARGEST:g}, but they go "
            f"from {theta.min():.6g} to {theta.max():.6g}. Clip them: densities beyond are lost to rounding."
        )
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

    Membership is exact. `volume` is an importance-sampling estimate with a standard error, and `sample` resamples the
    members it met by weight, with a warning where draws repeat. `lower` and `upper` are certified: no member goes
    beyond them. Expectations, entropies and decisions are those of the box that they span, which contains the set
    (`answers` says ``"outer"``), save that ``decide()`` without a utility rules labels out by the density itself;
    distributions returned with them lie in the box and may lie outside the set. Whether a set is empty rests on a
    search for the peak of p.
    """

    shape: ClassVar[str] = "density set"
    hull: ClassVar[str | None] = "the box between its envelopes"
    exact_volume_up_to: ClassVar[float] = 0
    score: NegativeLogDensity

    @property
    def _mixture(self) -> geometry.Mixture:
        return self.score.mixture(self.prediction)

    def _divergence(self, points: FloatArray) -> FloatArray:
        scores = self.score.evaluate(self.prediction.T[..., None], np.moveaxis(points, 2, 0))
        return scores - (self.threshold - self.radius)[:, None]

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        lower, upper = self._bounds
        return lower.copy(), upper.copy()

    @cached_property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """The envelopes, which every expectation is found from."""
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
        points = self._known_members()
        entropies = entropy_of_valid(points)
        best = np.arange(len(self)), entropies.argmin(axis=1)
        return np.minimum(majorization_bound(*self._envelope()), entropies[best]), entropies[best], points[best]

    def _known_members(self) -> FloatArray:
        return self._members_drawn

    @cached_property
    def _members_drawn(self) -> FloatArray:
        if self.n_classes > MAX_CLASSES:
            return self.center[:, None]
        drawn, _ = self._draw(N_KNOWN, np.random.default_rng(0))
        return np.concatenate([drawn, self.center[:, None]], axis=1)

    def _can_be_top(self) -> BoolArray:
        """Rule out the classes that no point at which they are most probable has the density for."""
        result = np.empty(self.center.shape, dtype=bool)

        def one_block(rows: slice) -> None:
            result[rows] = geometry.reaches_with_top(self._mixture.rows(rows), -self.threshold[rows])

        for_each_block(one_block, len(self), int(np.prod(self.prediction.shape[1:])) * 4)
        lower, upper = self._envelope()
        result &= upper >= lower.max(axis=1, keepdims=True)
        return result | (self.center == self.center.max(axis=1, keepdims=True))

    def _smallest_peak(self) -> FloatArray:
        return box.flattest(*self._envelope()).max(axis=1)

    def _log_volume(self, generator: np.random.Generator) -> None:
        return None

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        value, error = np.zeros(len(self)), np.zeros(len(self))
        whole = self.score.largest_above(self.prediction, np.zeros_like(self.center)) <= self.threshold
        proper = np.flatnonzero(~whole)
        for rows in self._blocks(n_rays, len(proper)):
            logs = self[proper[rows]]._members(n_rays, generator)[1]
            value[proper[rows]] = geometry.log_sum_exp(logs) - np.log(n_rays)
            with np.errstate(divide="ignore"):
                spread = 1.0 / proposals.effective_size(logs) - 1.0 / n_rays
            error[proper[rows]] = np.sqrt(np.maximum(spread, 0.0))
        return value, error

    def _sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        result, worth = self._draw(n, generator)
        n_scarce = int((worth < n).sum())
        if n_scarce:
            warnings.warn(
                f"{n_scarce} of {len(self)} density sets are so hard to hit that some of their {n} draws repeat. "
                "Ask for fewer draws, or take their spread with care.",
                CredalSetWarning,
                stacklevel=6,
            )
        return result

    def _draw(self, n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw n members of each set, and tell how many independent ones the pool was worth."""
        result, worth = np.empty((len(self), n, self.n_classes)), np.empty(len(self))
        pool = max(MIN_POOL, POOL_PER_DRAW * n)
        for rows in self._blocks(pool, len(self)):
            result[rows], worth[rows] = self[rows]._draw_from_pool(n, pool, generator)
        for row in np.flatnonzero(worth < 2.0 * n):
            one = [int(row)]
            result[one], worth[one] = self[one]._draw_from_pool(n, SECOND_POOL * pool, generator)
        return result, worth

    def _draw_from_pool(self, n: int, pool: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Resample members by weight: one of weight w is taken ⌊nw⌋ or ⌈nw⌉ times."""
        points, logs = self._members(pool, generator)
        result = np.repeat(self.center[:, None, :], n, axis=1)
        for i in np.flatnonzero(~np.isneginf(logs).all(axis=1)):
            chances = np.exp(logs[i] - logs[i].max())
            ticks = (np.arange(n) + generator.random()) / n * chances.sum()
            chosen = np.minimum(np.searchsorted(np.cumsum(chances), ticks), len(chances) - 1)
            result[i] = points[i, generator.permutation(chosen)]
        return result, proposals.effective_size(logs)

    def _members(self, n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw n points for each set, (N, n, K), and their log-weights, −inf for those that are not members."""
        if self.n_classes > MAX_CLASSES:
            raise ValueError(
                f"volumes and samples of density sets are drawn for at most {MAX_CLASSES} classes, and there are "
                f"{self.n_classes}: nothing would be hit. Ask for envelopes, expectations or entropy bounds."
            )
        mixture = self._mixture
        proposal = proposals.prepare(mixture, mixture.pulled(self.center), -self.threshold)

        def weigh(drawn: proposals.Points) -> FloatArray:
            scores = self.score.evaluate(self.prediction.T[..., None], np.moveaxis(drawn.points, 2, 0))
            return np.where(scores <= self.threshold[:, None], drawn.log_weights, -np.inf)

        multiples = proposals.choose_multiples(proposal, weigh, generator)
        drawn = proposals.propose(proposal, multiples, n, generator)
        return drawn.points, weigh(drawn)

    def _blocks(self, n_points: int, n_rows: int) -> list[slice]:
        """Slices of rows whose proposals fit in memory."""
        per_row = n_points * max(self.prediction.shape[1] + 1, 2 * self.n_classes)
        step = max(1, ELEMENTS_PER_BLOCK // per_row)
        return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
