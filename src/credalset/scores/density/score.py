"""The negative log density of a predicted Dirichlet, or of a predicted mixture of Dirichlets."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from credalset._parallel import gather_blocks, row_blocks
from credalset._predictions import row_size
from credalset._typing import ArrayLike, BoolArray, FloatArray, Prediction
from credalset._validation import as_finite
from credalset.exceptions import CredalSetWarning
from credalset.scores.density import mixture as geometry
from credalset.scores.density import proposals
from credalset.scores.density.dirichlet_mixture import DirichletMixture, as_mixtures
from credalset.scores.dirichlet.enclosing import largest_fall
from credalset.scores.dirichlet.score import DirichletScore, log_likelihood_drop, negative_log_peak
from credalset.sets import box
from credalset.sets.generic import majorization_bound
from credalset.sets.old_sampling import choose_by_weight
from credalset.sets.old_set import CredalSet
from credalset.sets.rays import log_mean
from credalset.simplex import entropy_of_valid, log_sum_exp

MIN_POOL = 512  # members that a sample is drawn from
POOL_PER_DRAW = 8
SECOND_POOL = 4  # times as many proposals where few of them are members, or weights are uneven
MAX_CLASSES = 100  # beyond, no draw of any number is likely to hit a set
N_KNOWN = 32  # members drawn to tell how far the answers of the box may be off
ELEMENTS_PER_BLOCK = 1 << 21
MAX_PIECES = 81  # of a simplex, where each has only a bound


@dataclass(frozen=True)
class NegativeLogDensity(DirichletScore):
    r"""Negative log density, $f = -\log p(\lambda)$, of the predicted Dirichlet or mixture of Dirichlets.

    Thresholding the density itself, rather than the density relative to its peak, gives the smallest sets on average
    when the predicted density is right: where the model is sure the set is small, where it is not the set is large.
    A prediction flatter than the threshold density has an empty set.

    Predictions are Dirichlet concentrations (N, K) ≥ 1, or mixtures: a `DirichletMixture`, or an array (N, C, K + 1)
    whose component j of item i has the weight ``prediction[i, j, 0]`` and concentrations ``prediction[i, j, 1:]`` > 0.
    `DirichletMixtureNetwork` predicts mixtures. Their level sets need not be convex; see `DensitySet`.

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
    ) -> Prediction:
        """Validate concentrations (N, K), or mixtures (N, C, K + 1), which become a `DirichletMixture`."""
        if not isinstance(prediction, DirichletMixture) and np.ndim(prediction) != 3:
            return super().check_prediction(prediction, name, n_classes)
        mixture = as_mixtures(prediction, name, n_classes)
        if self.pull == 0.0 and (mixture.concentrations < 1.0).any():
            raise ValueError(
                f"{name} has concentrations below 1, whose density is infinite on the boundary of the simplex. "
                "Use NegativeLogDensity with pull > 0, such as 1e-3."
            )
        return mixture

    def is_convex_at(self, prediction: Prediction) -> bool:
        """One Dirichlet with θ ≥ 1 is log-concave; mixtures are not in general."""
        return not isinstance(prediction, DirichletMixture)

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """The mode; for mixtures, the highest point that a search finds."""
        if not isinstance(prediction, DirichletMixture):
            return super().best_fit(prediction)

        def one_block(rows: slice) -> FloatArray:
            mixture = self.mixture(prediction[rows])
            return mixture.released(geometry.highest_points(mixture)[0])

        return gather_blocks(one_block, len(prediction), row_size(prediction) * geometry.MAX_STARTS)

    @property
    def has_convex_regions(self) -> bool:
        """Those of one Dirichlet are; `largest_above` knows what to do with mixtures."""
        return True

    def has_enclosing_balls(self, prediction: Prediction) -> bool:
        """Tell one Dirichlet from a mixture."""
        return not isinstance(prediction, DirichletMixture)

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """The largest fall in log-density."""
        return largest_fall(model, center, relative=False)

    def largest_above(self, prediction: Prediction, lower: FloatArray) -> FloatArray:
        """Bound the largest score over {λ : λ ≥ lower}; exact for one Dirichlet.

        For mixtures `bound_above` is closer the smaller the simplex. Some class always has a K-th of what ``lower``
        leaves, so K simplices of the same kind, smaller by 1 − 1/K, cover it, and so on within each.
        """
        if not isinstance(prediction, DirichletMixture):
            return super().largest_above(prediction, lower)
        return self._in_pieces(prediction, lower, int(np.log(MAX_PIECES + 0.5) / np.log(lower.shape[1])))

    def _in_pieces(self, prediction: DirichletMixture, lower: FloatArray, depth: int) -> FloatArray:
        if depth == 0:
            return self.bound_above(prediction, lower)
        n_classes = lower.shape[1]
        # Rounded down, so that the pieces overlap rather than leave a gap.
        part = np.maximum(1.0 - lower.sum(axis=1, keepdims=True), 0.0) / n_classes * (1.0 - 1e-12)
        pieces = (lower + part * corner for corner in np.eye(n_classes))
        return np.max([self._in_pieces(prediction, piece, depth - 1) for piece in pieces], axis=0)

    def bound_above(self, prediction: DirichletMixture, lower: FloatArray) -> FloatArray:
        """Bound the largest score of mixtures over {λ : λ ≥ lower} in one piece.

        Each component is bounded from below: its factors with θ ≥ 1 are log-concave and smallest at a
        corner, each of the others is smallest where its own class has most.
        """
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
        return -log_sum_exp(smallest)

    def mixture(self, prediction: DirichletMixture) -> geometry.Mixture:
        """Return the mixtures as this score reads them, off the boundary."""
        with np.errstate(divide="ignore"):
            return geometry.Mixture(np.log(prediction.weights), prediction.concentrations, self.pull)

    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """−log p(λ)."""
        if isinstance(prediction, DirichletMixture):
            return _negative_log_mixture(prediction, distribution, self.pull)
        return negative_log_peak(prediction) + log_likelihood_drop(prediction, distribution)

    def _old_region(self, prediction: Prediction, threshold: FloatArray) -> CredalSet:
        center = self.best_fit(prediction)
        drop = threshold - self.evaluate_rows(prediction, center)  # from the peak of the density
        if isinstance(prediction, DirichletMixture):
            return DensitySet(self, prediction, threshold, center=center, radius=drop)
        return self._ball(prediction, threshold, drop)


def _negative_log_mixture(prediction: DirichletMixture, distribution: FloatArray, pull: float) -> FloatArray:
    """−log Σ_j w_j Dir(y | θ_j), a component at a time: all at once would take C times the memory."""
    logs = np.log((distribution + pull) / (1.0 + distribution.shape[-1] * pull))
    terms = []
    for j in range(prediction.n_components):
        theta = prediction.concentrations[..., j, :]
        log_norm = gammaln(theta.sum(axis=-1)) - gammaln(theta).sum(axis=-1)
        powers = np.where(theta == 1.0, 0.0, (theta - 1.0) * logs)
        terms.append(np.log(prediction.weights[..., j]) + log_norm + powers.sum(axis=-1))
    return -log_sum_exp(np.stack(terms, axis=-1))


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
    prediction: DirichletMixture

    @property
    def _mixture(self) -> geometry.Mixture:
        return self.score.mixture(self.prediction)

    def _divergence(self, points: FloatArray) -> FloatArray:
        scores = self.score.evaluate_pairs(self.prediction, points)
        return scores - (self.threshold - self.radius)[:, None]

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        lower, upper = self._bounds
        return lower.copy(), upper.copy()

    @cached_property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """The envelopes, which every expectation is found from."""

        def one_block(rows: slice) -> tuple[FloatArray, FloatArray]:
            return geometry.envelope(self._mixture.rows(rows), -self.threshold[rows])

        cells = self.prediction.n_components * geometry.CELLS
        lower, upper = gather_blocks(one_block, len(self), cells, block_size=1 << 18)
        # The peak is a member: rounding must not shut it out.
        return np.minimum(lower, self.center), np.maximum(upper, self.center)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return box.support(*self._envelope(), utility)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        point = box.most_even(*self._envelope())
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

        def one_block(rows: slice) -> BoolArray:
            return geometry.reaches_with_top(self._mixture.rows(rows), -self.threshold[rows])

        reaches = gather_blocks(one_block, len(self), row_size(self.prediction) * 4)
        lower, upper = self._envelope()
        fits = reaches & (upper >= lower.max(axis=1, keepdims=True))
        return fits | (self.center == self.center.max(axis=1, keepdims=True))

    def _smallest_peak(self) -> FloatArray:
        return box.most_even(*self._envelope()).max(axis=1)

    def _log_volume(self, generator: np.random.Generator) -> None:
        return None

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        value, error = np.zeros(len(self)), np.zeros(len(self))
        whole = self.score.bound_above(self.prediction, np.zeros_like(self.center)) <= self.threshold
        proper = np.flatnonzero(~whole)
        for rows in self._blocks(n_rays, len(proper)):
            logs = self[proper[rows]]._members(n_rays, generator)[1]
            value[proper[rows]], error[proper[rows]] = log_mean(logs)
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
        hit = ~np.isneginf(logs).all(axis=1)
        weights = np.exp(logs[hit] - logs[hit].max(axis=1, keepdims=True))
        chosen = choose_by_weight(weights, n, generator)
        result[hit] = np.take_along_axis(points[hit], generator.permuted(chosen, axis=1)[..., None], axis=1)
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
            scores = self.score.evaluate_pairs(self.prediction, drawn.points)
            return np.where(scores <= self.threshold[:, None], drawn.log_weights, -np.inf)

        multiples = proposals.choose_multiples(proposal, weigh, generator)
        drawn = proposals.propose(proposal, multiples, n, generator)
        return drawn.points, weigh(drawn)

    def _blocks(self, n_points: int, n_rows: int) -> list[slice]:
        """Slices of rows whose proposals fit in memory."""
        per_row = n_points * max(self.prediction.n_components + 1, 2 * self.n_classes)
        return row_blocks(n_rows, per_row, ELEMENTS_PER_BLOCK)
