r"""The largest expectation of a utility over {λ : f(λ) ≤ r} with f convex, certified.

**Search.** The maximum lies on the boundary f = r. From a boundary point x, a Newton step for the
maximum of ⟨u, λ⟩ + η Σ log λ_k along the surface f = r, with derivatives from differences of f,
leads to points outside, which are projected to the boundary along rays from the centre; η
decreases. Steps are relative to the entries of x, so probabilities can become arbitrarily small.

**Certificate.** For a convex f the slopes of the chords on both sides of x enclose every
subgradient there. They give a cut that every member satisfies, whatever f does elsewhere. The
largest expectation under this cut, within a box around the set, is a linear program with one
constraint, solved by its dual. Where one cut is not enough (f has kinks, or the search failed),
further cuts are made at the solution of the linear program over all of them, until the bound meets
a member.

Slopes refer to moving mass from a reference class, the largest of x, to another. Arrays: centres
and utilities (N, K). Each row stops where it has converged by itself, and random shifts are the
same for all rows, so that an answer depends neither on its batch nor on its place in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from credalset._blocks import row_blocks
from credalset._typing import BoolArray, FloatArray
from credalset.sets import box

if TYPE_CHECKING:
    from credalset.sets.level_set import LevelSet

#: largest difference between a bound and the member found with it, relative to the range of the
#: utility
TOLERANCE = 1e-5
MAX_STEPS = 40  # of Newton
MAX_CUTS = 60  # beyond those of the outline
MAX_BOXES = 12  # that shrink around a set
STEP = 1e-3  # of the differences for Newton's step, relative to the entries
#: η at the start, the factor by which it falls, and at the end
BARRIER_START, BARRIER_FALL, BARRIER_END = 0.03, 0.1, 1e-10
#: of trial steps, relative to the step at which a class vanishes
LENGTHS = np.array([0.95, 0.3, 0.1, 0.01])
ROUNDING = 1e-15  # of a value of f, relative to its magnitude
INSIDE = 10.0  # distance of a cut from a member, relative to the shortest useful chord
#: of sets whose shape rounding does not hide; smaller sets have the bounds of this radius
SMALLEST_RADIUS = 1e-9
ELEMENTS = 1 << 22  # numbers held at a time


class Outline(NamedTuple):
    """Outer bounds of a batch of sets: a box, (N, K) each, and P cuts ⟨slopes, λ⟩ ≤ levels.

    Slopes are (N, P, K), levels (N, P).
    """

    lower: FloatArray
    upper: FloatArray
    slopes: FloatArray
    levels: FloatArray

    def select(self, rows: Any) -> Outline:
        """Return the bounds of some of the sets."""
        return Outline(*(array[rows] for array in self))


def support(sets: LevelSet, around: Outline, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return certified bounds (N,) on expectations of utilities (N, K), and members near them."""
    members, scaled, least, span = scaled_search(sets, around.upper > 0, utility)
    if sets.n_classes == 2:  # a segment, whose ends the rays find exactly
        return (utility * members).sum(axis=1), members
    shifts = np.random.default_rng(0).random((sets.n_classes,))
    slopes, levels = make_cuts(sets, members, around, around.upper - around.lower, shifts)
    around = around._replace(
        slopes=np.concatenate([around.slopes, slopes[:, None]], axis=1),
        levels=np.concatenate([around.levels, levels[:, None]], axis=1),
    )
    bounds, members = _meet(sets, scaled, members, around, bound(scaled, slopes, levels, around))
    return least + span * bounds, members


def scaled_search(
    sets: LevelSet, allowed: BoolArray, utility: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Search with utilities scaled to [0, 1]; return members, utilities, origin and unit."""
    least = np.where(allowed, utility, np.inf).min(axis=1)
    span = np.where(allowed, utility, -np.inf).max(axis=1) - least
    scaled = (
        np.where(allowed, utility - least[:, None], 0.0) / np.where(span > 0, span, 1.0)[:, None]
    )
    return search(sets, scaled, allowed), scaled, least, span


def outline(sets: LevelSet) -> Outline:
    """Bound each set by a box and by cuts at members with the least and most of each class."""
    n, k = sets.center.shape
    allowed = allowed_classes(sets)
    every = np.repeat(np.arange(n), 2 * k)
    utility = np.tile(np.concatenate([1.0 - np.eye(k), np.eye(k)]), (n, 1))
    members = search(sets[every], utility, allowed[every])
    around = Outline(
        np.zeros((n, k)), np.where(allowed, 1.0, 0.0), np.zeros((n, 2 * k, k)), np.ones((n, 2 * k))
    )
    reached = (utility * members).sum(axis=1)
    if k == 2:
        return _boxed(around, reached)
    generator = np.random.default_rng(0)
    extent = np.repeat(np.ptp(members.reshape(n, 2 * k, k), axis=1), 2 * k, axis=0)
    bounds = reached.copy()
    shrinking = np.arange(n)
    before = np.full((n, 1), np.inf)
    for _ in range(MAX_BOXES):  # the smaller the box, the closer its cuts are to tangents
        # The problems of a set are the 2K rows from its number on.
        own = (2 * k * shrinking[:, None] + np.arange(2 * k)).ravel()
        boxes = around.select(every[own])
        slopes, levels = make_cuts(
            sets[every[own]], members[own], boxes, extent[own], generator.random((k,))
        )
        bounds[own] = np.maximum(bound(utility[own], slopes, levels, boxes), reached[own])
        part = _boxed(around.select(shrinking), bounds[own])._replace(
            slopes=slopes.reshape(-1, 2 * k, k), levels=levels.reshape(-1, 2 * k)
        )
        for array, found in zip(around, part, strict=True):
            array[shrinking] = found
        width = part.upper - part.lower
        is_settled = (width > 0.8 * before).all(axis=1)
        shrinking = shrinking[~is_settled]
        before = width[~is_settled]
        if not len(shrinking):
            break
    return _boxed(around, _meet(sets[every], utility, members, around.select(every), bounds)[0])


def _boxed(around: Outline, bounds: FloatArray) -> Outline:
    """Shrink the box to bounds on 1 − λ_k and on λ_k, K each for every set."""
    ends = bounds.reshape(len(around.lower), 2, -1)
    lower = np.maximum(around.lower, 1.0 - ends[:, 0])
    upper = np.minimum(around.upper, ends[:, 1])
    return around._replace(lower=lower, upper=upper)


def _limits(sets: LevelSet) -> FloatArray:
    return np.maximum(sets.radius, SMALLEST_RADIUS * sets.magnitude)


def allowed_classes(sets: LevelSet) -> BoolArray:
    """Tell which classes can be positive, (N, K): if a little leaves the divergence finite."""
    k = sets.n_classes
    toward = np.concatenate([np.eye(k), 0.5 * np.eye(k) + 0.5 / k])
    probes = sets.center[:, None] + 1e-6 * (toward - sets.center[:, None])
    finite = np.isfinite(sets.divergence(probes)).reshape(-1, 2, k).any(axis=1)
    return np.asarray(finite | (sets.center > 0))


def search(sets: LevelSet, utility: FloatArray, allowed: BoolArray) -> FloatArray:
    """Search for members with the largest expectation of utilities between 0 and 1, (N, K)."""
    n, k = utility.shape
    result = np.empty((n, k))
    for rows in row_blocks(n, k**3 + 8 * k, ELEMENTS):
        part = sets[rows]
        best = np.eye(k)[np.where(allowed[rows], utility[rows], -1.0).argmax(axis=1)]
        result[rows] = best  # the best corner, if it is a member
        outside = np.flatnonzero(part.divergence(best[:, None])[:, 0] > part.radius)
        if len(outside):
            inner = part[outside]
            points = _search(inner, utility[rows][outside], allowed[rows][outside], best[outside])
            result[rows][outside] = _to_boundary(inner, points[:, None], inner.radius)[:, 0]
    return result


def _search(
    sets: LevelSet, utility: FloatArray, allowed: BoolArray, best: FloatArray
) -> FloatArray:
    limit = _limits(sets)
    middle = allowed / allowed.sum(axis=1, keepdims=True)
    x = _to_boundary(sets, (0.9 * best + 0.1 * middle)[:, None], limit)[:, 0]
    x = (1.0 - 1e-3) * x + 1e-3 * middle
    if sets.n_classes == 2:
        return best
    price = np.full(len(x), np.nan)
    barrier = np.full(len(x), BARRIER_START)
    active = np.arange(len(x))
    for _ in range(MAX_STEPS):
        part = sets[active]
        here = x[active]
        eta = barrier[active]
        step, price[active] = _newton_step(
            part, here, utility[active], limit[active], eta, price[active]
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            longest = np.where(step < 0, -here / step, np.inf).min(axis=1)
        lengths = np.minimum(longest, 1.0)[:, None, None] * LENGTHS[:, None]
        trials = _to_boundary(part, here[:, None] + lengths * step[:, None], limit[active])
        trials = np.maximum(np.concatenate([here[:, None], trials], axis=1), 1e-3 * here[:, None])
        # A ray may have ended on the edge of the simplex.
        trials /= trials.sum(axis=-1, keepdims=True)
        logs = np.log(np.where(allowed[active, None], trials, 1.0)).sum(axis=-1)
        merit = (utility[active, None] * trials).sum(axis=-1) + eta[:, None] * logs
        chosen = merit.argmax(axis=1)
        x[active] = trials[np.arange(len(active)), chosen]
        settled = merit.max(axis=1) - merit[:, 0] < 1e-13
        done = settled & (eta <= BARRIER_END)
        barrier[active] = np.maximum(
            eta * np.where((chosen == 1) | settled, BARRIER_FALL, 0.5), BARRIER_END
        )
        active = active[~done]
        if len(active) == 0:
            break
    return x


def _newton_step(
    sets: LevelSet,
    x: FloatArray,
    utility: FloatArray,
    limit: FloatArray,
    barrier: FloatArray,
    price: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return a step (N, K) along f = limit toward the maximum of ⟨u, λ⟩ + η Σ log λ.

    The second result is the multiplier, (N,).
    """
    n, k = x.shape
    rows = np.arange(n)
    j = x.argmax(axis=1)
    # Row i: as much as x_i has, from class j to class i.
    moves = x[:, :, None] * (np.eye(k) - np.eye(k)[j][:, None, :])
    top = x[rows, j][:, None]
    free = x.copy()
    free[rows, j] = 0.0
    value, gradient, hessian = _derivatives(sets, x, moves)
    gain = free * (utility - utility[rows, j][:, None])
    gain += barrier[:, None] * np.where(free > 0, 1.0 - free / top, 0.0)
    size = (gradient**2).sum(axis=1)
    guess = (gradient * gain).sum(axis=1) / np.where(size > 0, size, 1.0)
    price = np.maximum(np.where(np.isnan(price), guess, price), 1e-12)
    barrier_curvature = np.eye(k) + (free / top)[:, :, None] * (free / top)[:, None, :]
    system = price[:, None, None] * hessian + barrier[:, None, None] * barrier_curvature
    system += 1e-9 / k * np.trace(system, axis1=1, axis2=2)[:, None, None] * np.eye(k)
    solved = np.linalg.solve(system, np.stack([gain, gradient], axis=-1))
    along = solved[..., 0]
    against = solved[..., 1]
    slope = (gradient * against).sum(axis=1)
    price = ((gradient * along).sum(axis=1) - (limit - value)) / np.where(slope > 0, slope, 1.0)
    step = np.einsum("ni,nik->nk", along - price[:, None] * against, moves)
    return np.where(np.isfinite(step), step, 0.0), np.where(price > 0, price, np.nan)


def _derivatives(
    sets: LevelSet, x: FloatArray, moves: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the divergence's value, first and second derivatives along moves, by differences."""
    n, k = x.shape
    first, second = np.triu_indices(k, 1)
    steps = [np.zeros((n, 1, k)), moves, -moves, moves[:, first] + moves[:, second]]
    values = sets.divergence(np.maximum(x[:, None] + STEP * np.concatenate(steps, axis=1), 0.0))
    values = np.where(np.isfinite(values), values, values[:, :1] + 1.0)
    here, ahead, behind, both = np.split(values, [1, k + 1, 2 * k + 1], axis=1)
    hessian = np.zeros((n, k, k))
    diagonal = np.arange(k)
    hessian[:, first, second] = hessian[:, second, first] = (
        both - ahead[:, first] - ahead[:, second] + here
    )
    hessian[:, diagonal, diagonal] = np.maximum(ahead + behind - 2.0 * here, 0.0)
    return here[:, 0], (ahead - behind) / (2.0 * STEP), hessian / STEP**2


def _to_boundary(sets: LevelSet, targets: FloatArray, limit: FloatArray) -> FloatArray:
    """Return the boundary points on the rays from the centres through targets (N, M, K)."""
    origin = sets.center[:, None]
    step = targets - sets.center[:, None]
    points = np.maximum(
        origin + replace(sets, radius=limit)._ray_length(step)[..., None] * step, 0.0
    )
    return np.asarray(points / points.sum(axis=-1, keepdims=True))


def make_cuts(
    sets: LevelSet,
    x: FloatArray,
    around: Outline,
    scale: FloatArray,
    shifts: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return cuts (N, K) and (N,) from chords near points (N, K), with a margin for rounding.

    The scale (N, K) is about the extent of the sets, the shifts are K random numbers. The cuts are
    valid for chords of any place and length. The chords lie slightly inside, where kinks are rare,
    and are so long that rounding and curvature cost equally much.
    """
    k = x.shape[1]
    limit = _limits(sets)
    shift = np.sqrt(ROUNDING * sets.magnitude / limit).clip(1e-7, 1e-3)[:, None] * INSIDE * scale
    at = x + shift * (0.1 + shifts) * np.where(x < sets.center, 1.0, -1.0)
    at = np.maximum(at, 0.5 * shift)
    at /= at.sum(axis=1, keepdims=True)
    here, ahead, behind = _chords(sets, at, STEP * at)
    noise = ROUNDING * (sets.magnitude[:, None] + np.abs(here))
    with np.errstate(divide="ignore", invalid="ignore"):
        curvature = np.maximum(ahead + behind - 2.0 * here, noise) / (STEP * at) ** 2
        size = np.where(
            at > 0, np.minimum(np.sqrt(noise / curvature), np.minimum(0.5 * at, 0.3 * shift)), 0.0
        )
    here, ahead, behind = _chords(sets, at, size)
    idle = (size == 0) | (np.arange(k) == at.argmax(axis=1)[:, None])
    size = np.where(idle, 1.0, size)
    low = (here - behind - 2.0 * noise) / size
    high = (ahead - here + 2.0 * noise) / size
    low = np.where(idle, 0.0, low)
    high = np.where(idle, 0.0, high)
    # f(λ) ≥ here + Σ_k min(low_k (λ_k − at_k), high_k (λ_k − at_k)), whose concave part has a chord
    # over the box below.
    middle = 0.5 * (low + high)
    half = 0.5 * (high - low)
    left = -half * np.abs(around.lower - at)
    right = -half * np.abs(around.upper - at)
    width = around.upper - around.lower
    slope = np.divide(right - left, width, out=np.zeros_like(width), where=width > 0)
    constant = (here - noise)[:, 0] + (left - middle * at - slope * around.lower).sum(axis=1)
    return middle + slope, limit - constant


def _chords(
    sets: LevelSet, at: FloatArray, size: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return divergences at points, (N, 1), and after moves to and from each class, (N, K) each."""
    k = at.shape[1]
    moves = size[:, :, None] * (np.eye(k) - np.eye(k)[at.argmax(axis=1)][:, None, :])
    values = sets.divergence(
        at[:, None] + np.concatenate([np.zeros((len(at), 1, k)), moves, -moves], axis=1)
    )
    here, ahead, behind = np.split(values, [1, k + 1], axis=1)
    return here, ahead, behind


def bound(
    utility: FloatArray, slopes: FloatArray, levels: FloatArray, around: Outline
) -> FloatArray:
    """Return a bound of the expectation within the box and one cut, (N,).

    It is the dual's, valid for any multiplier ≥ 0.
    """
    low = np.zeros(len(utility))
    high = np.ones(len(utility))
    best = np.full(len(utility), np.inf)
    growing = np.ones(len(utility), dtype=bool)
    done = np.zeros(len(utility), dtype=bool)
    for _ in range(150):
        price = np.where(growing, high, 0.5 * (low + high))
        value, point = box.support(around.lower, around.upper, utility - price[:, None] * slopes)
        best = np.where(done, best, np.fmin(best, value + price * levels))
        beyond = (slopes * point).sum(axis=1) > levels  # a higher price does better
        low = np.where(beyond, price, low)
        high = np.where(beyond, np.where(growing, 8.0 * high, high), price)
        growing &= beyond & (high < 1e30)
        done |= high - low <= 1e-13 * high
        if done.all():
            break
    return np.fmin(best, box.support(around.lower, around.upper, utility)[0])


def _meet(
    sets: LevelSet, utility: FloatArray, members: FloatArray, around: Outline, bounds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Improve bounds and members by cuts, each at the solution of the last linear program."""
    bounds = bounds.copy()
    reached = (utility * members).sum(axis=1)
    # The bounds of a very small set are those of a larger one, and less precise.
    wanted = np.where(sets.radius < _limits(sets), 1e3, 1.0) * TOLERANCE
    active = np.flatnonzero(bounds - reached > wanted)
    planes = {i: [*zip(around.slopes[i], around.levels[i], strict=True)] for i in active}
    generator = np.random.default_rng(1)
    k = sets.n_classes
    for _ in range(MAX_CUTS):
        if len(active) == 0:
            break
        part = sets[active]
        box_ = around.select(active)
        targets = np.empty((len(active), k))
        for row, i in enumerate(active):
            value, targets[row] = _program(utility[i], planes[i], around.lower[i], around.upper[i])
            bounds[i] = min(bounds[i], value)
        found = _to_boundary(part, targets[:, None], part.radius)[:, 0]
        values = (utility[active] * found).sum(axis=1)
        is_better = values > reached[active]
        members[active[is_better]] = found[is_better]
        reached[active[is_better]] = values[is_better]
        new = make_cuts(part, found, box_, box_.upper - box_.lower, generator.random((k,)))
        for i, slope, level in zip(active, *new, strict=True):
            planes[i].append((slope, level))
        active = active[bounds[active] - reached[active] > wanted[active]]
    return np.maximum(bounds, reached), members


def _program(
    utility: FloatArray,
    planes: list[tuple[FloatArray, FloatArray]],
    lower: FloatArray,
    upper: FloatArray,
) -> tuple[float, FloatArray]:
    """Solve max ⟨u, λ⟩ over the box and all cuts."""
    slopes, levels = (np.array(column) for column in zip(*planes, strict=True))
    size = np.maximum(np.abs(slopes).max(axis=1), 1e-300)
    solution = linprog(
        -utility,
        A_ub=slopes / size[:, None],
        b_ub=levels / size + 1e-12,
        A_eq=np.ones((1, len(utility))),
        b_eq=[1.0],
        bounds=list(zip(lower.tolist(), upper.tolist(), strict=True)),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.x is None or solution.fun is None:
        return np.inf, 0.5 * (lower + upper)
    return -solution.fun + 1e-9, solution.x
