r"""Conditional coverage for overlapping groups or features, by thresholds linear in features.

For features $\phi_i$, scores $s_i$ and weights $w_i$ of calibration items, and $\phi$ and $w$ of a
new one, β minimises

$$\sum_i w_i \, \ell(s_i - \phi_i^\top \beta) - (1 - \alpha) \, w \, \phi^\top \beta , \qquad
\ell(r) = \max(- \alpha r, (1 - \alpha) r) .$$

The threshold is the smallest $\phi^\top \beta$ among the minima, which treats the score of the new
item as infinite. This is a linear program. Its optima are at vertices, where as many items as there
are features have residual zero: the basis. A vertex is optimal if the dual prices of its basis,
which balance the slopes of all other items, lie within $[- \alpha w_i, (1 - \alpha) w_i]$.
Otherwise the objective falls along the edge on which an item with a price outside leaves the basis.
All new items start from the optimum of the calibration items, which is a few edges away. The proof
is in docs/proofs.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from credalset._batch import Names, class_names, item_names, match_names, take_names
from credalset._blocks import row_blocks
from credalset._display import join_names
from credalset._predictions import Named
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset._validation import as_names, as_numbers

# Singular values below this, relative to the largest, are zero: a feature depends on others.
RANK = 1e-10
# Distance from the span of the calibration features beyond which a new item has no finite
# threshold.
OUTSIDE = 1e-8
SPREAD = 1e-9  # largest change of scores that breaks ties, relative to their range
SLACK = 1e-9  # tolerance of prices
FLAT = 1e-11  # changes of residuals along an edge below this are zero
BLOCK = 1 << 20  # residuals held at once
REACH = 8  # items that one step may pass
NEAR = 20  # items per feature among which the optimum of a new item is searched first
MAX_STEPS = 1000


@dataclass(frozen=True, eq=False)
class Conditional(Named):
    r"""Features for which coverage is guaranteed, such as overlapping groups.

    Pass it as ``groups`` to `conformalize`.

    Thresholds are a linear function of the features, fitted by quantile regression on the
    calibration items and the new item. The score of the new item is unknown, and its threshold is
    the largest score at which it is covered (Gibbs, Cherian, Candès: *Conformal prediction with
    conditional guarantees*, 2023). For every combination $f(x) = b_0 + b_1 z_1(x) + \dots + b_d
    z_d(x)$ of the features that is nowhere negative,

    $$E[ f(x) \, 1\{\lambda \in C(x)\} ] \ge (1 - \alpha) \, E[ f(x) ] .$$

    With columns of zeros and ones, this is coverage within each group and on average; the groups
    may overlap. With numeric columns, it is coverage after every covariate shift that weights items
    by such a combination. λ is the recorded label distribution, or with a noise model the true one
    under the assumptions of that model.

    Parameters
    ----------
    features : array of shape (n, d) or data frame
        One row per item: zeros and ones (or booleans) for membership in groups, or numbers. A
        constant column is added.
    names : sequence of d names, optional
        Names of the columns, which are matched with those of new items. By default the columns of a
        data frame.
    items : sequence of n names, optional
        Names of the items, which are matched with those of the predictions. By default the index of
        a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, random_state=0)
    >>> is_long, is_rare = data.X[:, 0] > 0, data.X[:, 1] > 1
    >>> kinds = cs.Conditional(np.column_stack([is_long, is_rare]), names=["long", "rare"])
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv", groups=kinds)
    >>> calibration
    SplitCalibration: score tv, 500 items, 3 classes, conditional on long, rare
    >>> groups = [[0, 0], [1, 0], [1, 1]]
    >>> calibration.thresholds(data.distributions[:3], 0.1, groups=groups).round(2)
    array([0.06, 0.06, 0.05])
    """

    features: FloatArray
    names: Names | None = None
    items: Names | None = None

    classes = None

    def __post_init__(self) -> None:
        names = class_names(self.features, "features")
        items = item_names(self.features, "features")
        matrix = as_features(self.features, "features")
        if self.names is not None:
            given = as_names(self.names)
            columns = match_names(names, given, "features", "features", "names")
            matrix = matrix if columns is None else matrix[:, columns]
            names = given
        if self.items is not None:
            given = as_names(self.items)
            rows = match_names(items, given, "items", "features", "items")
            matrix = matrix if rows is None else matrix[rows]
            items = given
        if names is not None and len(names) != matrix.shape[1]:
            raise ValueError(
                f"names must name each of the {matrix.shape[1]} features, but holds {len(names)}."
            )
        if items is not None and len(items) != len(matrix):
            raise ValueError(
                f"items must name each of the {len(matrix)} rows, but holds {len(items)}."
            )
        for name, value in (("features", matrix), ("names", names), ("items", items)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        """Number of items."""
        return len(self.features)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of items and features."""
        return self.features.shape

    def __getitem__(self, rows: Any) -> Conditional:
        """Select items as in an array."""
        return Conditional(self.features[rows], self.names, take_names(self.items, rows))


def as_features(value: Any, name: str) -> FloatArray:
    """Check a matrix (n, d) of finite features."""
    array = as_numbers(
        value, name, "Pass zeros and ones for groups (pandas.get_dummies makes them), or numbers."
    )
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"{name} must have shape (n_items, n_features), but has shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} contains NaN or infinity. Fill the gaps, and add a column that marks them."
        )
    return array


def features_of(groups: Any, n: int, names: Names) -> FloatArray:
    """Return the features of n new items, (n, d), columns in the order of the calibration's."""
    if groups is None:
        raise ValueError(
            f"groups is missing, but the calibration has features. Pass the {len(names)} features."
        )
    if not isinstance(groups, Conditional):
        groups = Conditional(as_features(groups, "groups"), class_names(groups, "groups"))
    known = None if names == tuple(range(len(names))) else names
    if known is None and groups.names is not None:
        raise ValueError(
            f"groups names the features {join_names(groups.names)}, but those of the calibration "
            "have no names. Pass an array, or calibrate with names."
        )
    columns = match_names(groups.names, known, "features", "groups", "the calibration data")
    matrix = groups.features if columns is None else groups.features[:, columns]
    if matrix.shape != (n, len(names)):
        raise ValueError(
            f"groups must hold {len(names)} features of each of {n} items, but has shape "
            f"{matrix.shape}."
        )
    return matrix


@dataclass(frozen=True, eq=False)
class QuantileRegression:
    """Quantile regression on calibration items, with independent features on one scale.

    Attributes
    ----------
    features : ndarray of shape (n, d)
        Orthogonal columns with squares that sum to n.
    scores : ndarray of shape (n,)
        Finite scores, all different.
    weights : ndarray of shape (n,)
        Positive weights.
    level : float
        α.
    pull : ndarray of shape (d,)
        Contribution of items with infinite scores to the slope.
    """

    features: FloatArray
    scores: FloatArray
    weights: FloatArray
    level: float
    pull: FloatArray

    def optima(self, start: IntArray, tilt: FloatArray) -> tuple[IntArray, BoolArray]:
        """Return bases of optima of problems with a tilt (N, d), from the optimum without one.

        An optimum is close to the start, and most residuals have the same sign at both. So the
        descent uses only the items near the start, and is repeated with all items where another one
        has changed its sign.
        """
        coefficients = np.linalg.solve(self.features[start], self.scores[start])
        residual = self.scores - self.features @ coefficients
        residual[start] = 0.0
        distance = np.abs(residual) / np.linalg.norm(self.features, axis=1)
        closest = np.argsort(distance, kind="stable")
        n_near = min(len(closest), NEAR * len(start))
        near = np.sort(closest[:n_near])
        far = np.sort(closest[n_near:])
        # Items far away pull with the sign that their residuals have at the start.
        slope = self.weights * ((residual > 0.0) - self.level)
        pull = self.pull + slope[far] @ self.features[far]
        part = QuantileRegression(
            self.features[near], self.scores[near], self.weights[near], self.level, pull
        )
        basis = np.empty((len(tilt), len(start)), dtype=np.int64)
        bounded = np.empty(len(tilt), dtype=bool)
        start_in_part = np.searchsorted(near, start)
        for rows in row_blocks(len(tilt), n_near, BLOCK):
            starts = np.tile(start_in_part, (len(tilt[rows]), 1))
            found, bounded[rows] = part.descend(starts, tilt[rows])
            basis[rows] = near[found]
        if not len(far):
            return basis, bounded
        was_above = residual[far] > 0.0
        for rows in row_blocks(len(tilt), len(far), BLOCK):
            own = basis[rows]
            beta = np.linalg.solve(self.features[own], self.scores[own][..., None])[..., 0]
            is_above = self.scores[far] - beta @ self.features[far].T > 0.0
            bounded[rows] &= (is_above == was_above).all(axis=1)
        again = np.flatnonzero(~bounded)
        for block in row_blocks(len(again), len(self.scores), BLOCK):
            some = again[block]
            basis[some], bounded[some] = self.descend(basis[some], tilt[some])
        return basis, bounded

    def descend(
        self, basis: IntArray, tilt: FloatArray, reach: int = REACH
    ) -> tuple[IntArray, BoolArray]:
        """Descend from vertices to optima of problems with a tilt (N, d).

        Vertices are given by the items (N, d) of their bases.

        Returns the bases of the optima, and which problems are bounded.
        """
        found = basis.copy()
        bounded = np.ones(len(basis), dtype=bool)
        active = np.arange(len(basis))
        for _ in range(MAX_STEPS):
            step = self._step(found[active], tilt[active], reach)
            found[active[step.moves], step.leaving[step.moves]] = step.entering[step.moves]
            bounded[active[step.falls]] = False
            active = active[step.moves]
            if not len(active):
                return found, bounded
        bounded[active] = False  # not converged: an infinite threshold is valid
        return found, bounded

    def _step(self, basis: IntArray, tilt: FloatArray, reach: int) -> _Step:
        """Return the edge to follow from each vertex, and the item at which to stop."""
        rows = np.arange(len(basis))[:, None]
        # (N, d, d); column j is the edge along which j alone leaves.
        inverse = np.linalg.inv(self.features[basis])
        beta = np.einsum("nij,nj->ni", inverse, self.scores[basis])
        residual = self.scores - beta @ self.features.T
        residual[rows, basis] = 0.0
        slope = self.weights * ((residual > 0.0) - self.level * (residual != 0.0))
        price = -np.einsum("nij,ni->nj", inverse, slope @ self.features + tilt + self.pull)
        excess = np.maximum(
            price - (1.0 - self.level) * self.weights[basis],
            -price - self.level * self.weights[basis],
        )
        leaving = excess.argmax(axis=1)
        worst = excess[rows[:, 0], leaving]
        side = np.where(price[rows[:, 0], leaving] > 0.0, 1.0, -1.0)
        edge = -side[:, None] * inverse[rows[:, 0], :, leaving]
        speed = edge @ self.features.T
        speed[np.abs(speed) <= FLAT * np.abs(edge).max(axis=1, keepdims=True)] = 0.0
        speed[rows, basis] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            time = np.where(residual * speed > 0.0, residual / speed, np.inf)
        entering, meets = _stop(time, self.weights * np.abs(speed), worst, reach)
        is_better = worst > SLACK
        return _Step(leaving, entering, is_better & meets, is_better & ~meets)


class _Step(NamedTuple):
    """Return the exchange at each vertex.

    That is the position that leaves the basis, the item that enters, whether to move, and
    whether the problem is unbounded.
    """

    leaving: IntArray
    entering: IntArray
    moves: BoolArray
    falls: BoolArray


def _stop(
    time: FloatArray, gain: FloatArray, slope: FloatArray, reach: int
) -> tuple[IntArray, BoolArray]:
    """Return the item at which the objective stops falling along an edge, (N,), if there is one."""
    reach = min(reach, time.shape[1])
    near = (
        np.argpartition(time, reach - 1, axis=1)[:, :reach]
        if reach < time.shape[1]
        else np.argsort(time, axis=1)
    )
    near = np.take_along_axis(near, np.take_along_axis(time, near, axis=1).argsort(axis=1), axis=1)
    times = np.take_along_axis(time, near, axis=1)
    up = np.cumsum(np.take_along_axis(gain, near, axis=1), axis=1) >= slope[:, None]
    last = np.isfinite(times).sum(axis=1) - 1
    place = np.minimum(np.where(up.any(axis=1), up.argmax(axis=1), reach - 1), np.maximum(last, 0))
    rows = np.arange(len(time))
    is_end = (up[rows, place] | (last == reach - 1)) & (last >= 0)
    return near[rows, place], is_end


def conditional_quantiles(
    scores: FloatArray,
    features: FloatArray,
    level: float,
    new_features: FloatArray,
    weights: FloatArray | None = None,
    new_weights: FloatArray | None = None,
) -> FloatArray:
    """Return the threshold of each new item, (N,), +inf where the problem is unbounded.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Calibration scores; +inf is legal.
    features, new_features : ndarrays of shapes (n, d) and (N, d)
        Features of the calibration items and of the new ones; some combination of them is constant.
    level : float
        Miscoverage rate α in (0, 1).
    weights, new_weights : ndarrays of shapes (n,) and (N,), optional
        Weights of the items; one by default.

    Examples
    --------
    >>> scores = np.arange(1.0, 20.0)
    >>> conditional_quantiles(scores, np.ones((19, 1)), 0.1, np.ones((1, 1)))  # ⌈20 · 0.9⌉ = 18
    array([18.])
    """
    old = np.ones(len(scores)) if weights is None else weights
    new = np.ones(len(new_features)) if new_weights is None else new_weights
    asked, inverse = np.unique(np.column_stack([new_features, new]), axis=0, return_inverse=True)
    counted = old > 0.0
    unit = float(old.max(initial=0.0)) or 1.0
    rows = (scores[counted], features[counted], old[counted] / unit)
    found = _distinct(*rows, level, asked[:, :-1], asked[:, -1] / unit)
    return found[inverse.reshape(-1)]


def _distinct(
    scores: FloatArray,
    features: FloatArray,
    old: FloatArray,
    level: float,
    asked: FloatArray,
    new: FloatArray,
) -> FloatArray:
    thresholds = np.full(len(asked), np.inf)
    finite = np.isfinite(scores)
    size = np.maximum(
        np.abs(features).max(axis=0, initial=0.0), np.abs(asked).max(axis=0, initial=0.0)
    )
    size[size == 0.0] = 1.0
    left, singular, right = np.linalg.svd(features[finite] / size, full_matrices=False)
    rank = int((singular > RANK * singular.max(initial=0.0)).sum())
    if rank == 0:
        return thresholds
    scale = np.sqrt(finite.sum())
    known = (right[:rank].T / singular[:rank]) * scale
    unit = asked / size
    strange = np.abs(unit - unit @ right[:rank].T @ right[:rank]).max(axis=1) > OUTSIDE
    lost = features[~finite] / size
    if len(lost) and (np.abs(lost - lost @ right[:rank].T @ right[:rank]).max() > OUTSIDE):
        # Some feature occurs only with infinite scores, so its coefficient is unbounded.
        return thresholds
    pull = (1.0 - level) * (old[~finite] @ (lost @ known))
    problem = QuantileRegression(
        left[:, :rank] * scale, _without_ties(scores[finite]), old[finite], level, pull
    )
    start, bounded = problem.descend(
        _independent_rows(problem.features)[None], np.zeros((1, rank)), len(problem.scores)
    )
    rows = np.flatnonzero(~strange & bounded.all())
    phi = unit[rows] @ known
    basis, has_end = problem.optima(start[0], (1.0 - level - SLACK) * new[rows, None] * phi)
    beta = np.linalg.solve(problem.features[basis], scores[finite][basis][..., None])[..., 0]
    thresholds[rows] = np.where(has_end, (beta * phi).sum(axis=1), np.inf)
    return _at_scores(thresholds, np.sort(scores[finite]))


def _independent_rows(features: FloatArray) -> IntArray:
    """Return well-conditioned independent rows, as many as there are columns."""
    from scipy.linalg import qr

    return np.asarray(qr(features.T, mode="r", pivoting=True)[1][: features.shape[1]])


def _without_ties(scores: FloatArray) -> FloatArray:
    """Perturb scores so that no two are equal and no d + 1 have residual zero at one vertex."""
    rng = np.random.default_rng(0)
    n = len(scores)
    width = float(np.ptp(scores)) or max(1.0, float(np.abs(scores).max()))
    return scores + SPREAD * width * (rng.permutation(n) + 0.5 * rng.random(n)) / n


def _at_scores(thresholds: FloatArray, scores: FloatArray) -> FloatArray:
    """Move thresholds to the largest score within rounding, so that equal scores are covered."""
    width = float(np.ptp(scores)) or max(1.0, float(np.abs(scores).max()))
    place = np.searchsorted(scores, thresholds + 2.0 * SPREAD * width, side="right") - 1
    nearest = scores[np.maximum(place, 0)]
    is_met = (place >= 0) & (nearest >= thresholds - FLAT * width) & np.isfinite(thresholds)
    return np.where(is_met, nearest, thresholds)
