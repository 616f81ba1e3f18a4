"""The member whose largest probability is smallest, min over λ of max_k λ_k: the worst case of a best guess."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import FloatArray
from credalset.sets.roots import newton

#: what a class of some mass adds to a divergence by having some probability, and the derivative in the latter
Share = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


@in_blocks(lambda size: 4 * size)
def capped_peak(center: FloatArray, radius: FloatArray, *, share: Share) -> FloatArray:
    """Return the smallest peak of each ball of an f-divergence Σ g_k φ(λ_k / g_k).

    No distribution below a cap t is closer to g than min(c·g, t), with c such that it sums to one: the ratio λ_k / g_k
    is the same for all classes below the cap. (Mass that no class of the support can take goes to those without.) As t
    falls from max g, classes reach it one after the other, the j-th largest at t_j = g_j / (g_j + … + g_K + j·g_j).
    Newton's method on the square root of the divergence, which is nearly linear in t; its derivative is
    Σ over the classes at the cap of φ'(t / g_k) − φ'(c).

    Parameters
    ----------
    center : ndarray of shape (N, K)
    radius : ndarray of shape (N,)
    share : callable
        The terms g φ(λ / g) of the divergence and their derivatives in λ, from masses g and probabilities λ.
    """
    n, k = center.shape
    ranked = -np.sort(-center, axis=1).T
    tail = np.concatenate([np.cumsum(ranked[::-1], axis=0)[::-1], np.zeros((1, n))])  # mass of the classes from rank j
    with np.errstate(invalid="ignore"):
        caps = np.where(ranked > 0, ranked / (tail[:-1] + np.arange(k)[:, None] * ranked), -1.0)

    def curve(
        cap: FloatArray, ranked: FloatArray, tail: FloatArray, caps: FloatArray, width: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        j = (caps > cap).sum(axis=0)  # classes at the cap, the largest ones
        at_cap = np.arange(j.max(initial=0))[:, None] < j
        value, slope = share(ranked[: len(at_cap)], np.broadcast_to(cap, at_cap.shape))
        # The others share what is left in proportion, and add what a single class of their mass would.
        others, below = share(tail[j, np.arange(len(cap))], np.maximum(1.0 - j * cap, 0.0))
        distance = np.sqrt(np.maximum(np.where(at_cap, value, 0.0).sum(axis=0) + others, 0.0))
        return width - distance, (j * below - np.where(at_cap, slope, 0.0).sum(axis=0)) / (2.0 * distance)

    width, data = np.sqrt(radius), (ranked, tail, caps)
    takes_any = np.isfinite(share(np.zeros(1), np.ones(1))[0][0])  # whether a class without mass may gain any
    low, high = 1.0 / (np.full(n, k) if takes_any else (ranked > 0).sum(axis=0)), ranked[0]
    with np.errstate(all="ignore"):
        rows = np.flatnonzero((curve(low, *data, width)[0] < 0) & (low < high))
    start = high - np.sqrt(2.0 * radius * high * (1.0 - high))
    result = np.minimum(low, high)
    chosen = [array[..., rows] for array in (*data, width)]
    result[rows] = newton(curve, chosen, low[rows], high[rows], start[rows], 1e-8 * np.minimum(width[rows], high[rows]))
    return result
