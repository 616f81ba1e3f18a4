"""The member whose largest probability is smallest, min over λ of max_k λ_k: the worst case of a best guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import FloatArray, IntArray

if TYPE_CHECKING:
    from credalset.sets.region import Region

KERNELS = "credalset.sets.smallest_peak_kernels"
EFFORT = 16  # evaluations per class, about, of a search
MAX_STEPS = 60  # a dozen as a rule
ROUNDING = 4e-16
PRECISE = 1e-13  # relative to the root of the radius


def capped(center: FloatArray, cap: FloatArray) -> FloatArray:
    """Return min(c·g, cap) with c such that rows sum to one; mass that no class of the support can take goes to zeros.

    For a divergence Σ g_k φ(λ_k / g_k), and for total variation, no distribution with entries up to ``cap`` is closer
    to g: the ratio λ_k / g_k is the same for all classes below the cap.
    """
    n, k = center.shape
    order = np.argsort(-center, axis=1)
    ranked = np.take_along_axis(center, order, axis=1)
    tail = np.cumsum(ranked[:, ::-1], axis=1)[:, ::-1]  # mass of the classes from rank j on
    positions = np.arange(k)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = (1.0 - positions * cap[:, None]) / tail  # c if exactly the first j classes are capped
        fits = (tail > 0) & (ranked * factor <= cap[:, None] * (1 + 1e-15))
    first = np.where(fits.any(axis=1), fits.argmax(axis=1), k)
    chosen = np.where(first < k, np.take_along_axis(factor, np.minimum(first, k - 1)[:, None], axis=1)[:, 0], 0.0)
    filled = np.where(positions < first[:, None], cap[:, None], np.maximum(chosen, 0.0)[:, None] * ranked)
    filled = np.where(ranked > 0, filled, 0.0)
    zeros = ranked == 0
    spare = np.where(first < k, 0.0, np.maximum(1.0 - filled.sum(axis=1), 0.0))  # not what rounding left over
    filled += np.where(zeros, (spare / np.maximum(zeros.sum(axis=1), 1))[:, None], 0.0)
    result = np.empty((n, k))
    np.put_along_axis(result, order, filled, axis=1)
    return result


def capped_peak(sets: Region, direction: Literal["forward", "reverse"] | None = None) -> FloatArray:
    """Return the smallest peak of each ball of an f-divergence Σ g_k φ(λ_k / g_k).

    The nearest distribution below a cap t is min(c·g, t) (see `capped`). As t falls from max g, classes reach it one
    after the other, the j-th largest at t_j = g_j / (g_j + … + g_K + j·g_j); between two such caps c is linear in t.
    A search over j, then false position on the square root of the divergence, which is nearly linear in t.

    Parameters
    ----------
    sets : Region
        Balls whose ``_divergence`` is the f-divergence.
    direction : {"forward", "reverse"}, optional
        For Kullback–Leibler divergences, whose compiled form large batches take.
    """
    result = np.empty(len(sets))
    compiled = None if direction is None else kernels(KERNELS, EFFORT * sets.center.size)

    def one_block(rows: slice) -> None:
        if compiled is None:
            result[rows] = _capped_peak(sets[rows])
        else:
            compiled.capped_peak(sets.center[rows], sets.radius[rows], direction == "reverse", result[rows])

    for_each_block(one_block, len(sets), EFFORT * sets.n_classes)
    return result


def _capped_peak(sets: Region) -> FloatArray:
    n, k = sets.center.shape
    rows = np.arange(n)
    ranked = -np.sort(-sets.center, axis=1)
    tail = np.cumsum(ranked[:, ::-1], axis=1)[:, ::-1]  # mass of the classes from rank j on
    with np.errstate(invalid="ignore", divide="ignore"):
        caps = np.where(ranked > 0, ranked / (tail + np.arange(k) * ranked), 1.0 / k)
    # Beyond the support the cap can fall on only if spare mass may go to classes that the centre rules out.
    caps, tail = np.column_stack([caps, np.full(n, 1.0 / k)]), np.column_stack([tail, np.zeros(n)])
    width, n_zeros = np.sqrt(sets.radius), (ranked == 0).sum(axis=1)

    def shortfall(j: IntArray, cap: FloatArray) -> FloatArray:
        """Root of the divergence from the centre of min(c·g, cap), with j classes at the cap, less that allowed."""
        mass, rest = tail[rows, j], 1.0 - j * cap
        with np.errstate(invalid="ignore", over="ignore"):  # a tail may be as small as doubles go
            factor = np.divide(rest, mass, out=np.full(n, np.inf), where=mass > 0)
            points = np.minimum(np.where(sets.center > 0, factor[:, None] * sets.center, 0.0), cap[:, None])
        if (mass == 0).any():
            spare = np.where(mass > 0, 0.0, np.maximum(1.0 - (k - n_zeros) * cap, 0.0))
            points += np.where(sets.center == 0, (spare / np.maximum(n_zeros, 1))[:, None], 0.0)
        return np.sqrt(np.maximum(sets._divergence(points[:, None, :])[:, 0], 0.0)) - width

    # The number of classes at the cap: a search for the first t_j that is too far away; k where none is.
    low, high = np.zeros(n, dtype=np.int64), np.full(n, k + 1, dtype=np.int64)
    while (high - low > 1).any():
        j, searching = (low + high) // 2, high - low > 1
        far = shortfall(j, caps[rows, j]) > 0
        low, high = np.where(searching & ~far, j, low), np.where(searching & far, j, high)
    return np.minimum(_between_caps(shortfall, caps, low, high, PRECISE * width), ranked[:, 0])


def _between_caps(
    shortfall: Callable[[IntArray, FloatArray], FloatArray],
    caps: FloatArray,
    low: IntArray,
    high: IntArray,
    tolerance: FloatArray,
) -> FloatArray:
    """Solve for the cap between caps[high], too far from the centre, and caps[low], near enough."""
    rows, last = np.arange(len(caps)), caps.shape[1] - 1
    near, far = caps[rows, low], caps[rows, np.minimum(high, last)]
    f_near, f_far = shortfall(low, near), shortfall(np.minimum(high, last), far)
    open_rows = (high <= last) & (near > far)
    side = np.zeros(len(caps))
    for _ in range(MAX_STEPS):
        if not open_rows.any():
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            cap = (near * f_far - far * f_near) / (f_far - f_near)
        cap = np.where((cap > far) & (cap < near), cap, 0.5 * (near + far))
        f = shortfall(np.minimum(high, last), cap)
        good = f <= 0
        # Illinois: an end that stays twice in a row counts half, so that the other one moves in too
        f_far = np.where(good & (side > 0), 0.5 * f_far, f_far)
        f_near = np.where(~good & (side < 0), 0.5 * f_near, f_near)
        near, f_near = np.where(open_rows & good, cap, near), np.where(open_rows & good, f, f_near)
        far, f_far = np.where(open_rows & ~good, cap, far), np.where(open_rows & ~good, f, f_far)
        side = np.where(good, 1.0, -1.0)
        open_rows &= (near - far > ROUNDING * near) & ~(good & (-f <= tolerance))
    return near
