"""Volume of Kullback–Leibler balls for two and three classes.

Derivations stand in `geometry`.
"""

from __future__ import annotations

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import FloatArray
from credalset.scores.kullback_leibler.geometry import bregman, normalised, rise


def tanh_sinh(step: float, span: float) -> tuple[FloatArray, FloatArray]:
    """Nodes u ∈ (0, ½] and weights of ∫₀¹ f ≈ Σ w·(f(u) + f(1 − u)), the double-exponential rule.

    It converges exponentially whatever algebraic or logarithmic singularity f has at 0 and 1.
    """
    t = np.arange(0.0, span + step / 2, step)
    nodes = 1 / (1 + np.exp(np.pi * np.sinh(t)))
    weights = step * np.pi * np.cosh(t) * nodes * (1 - nodes)
    weights[0] /= 2  # both ends meet in the middle
    return nodes, weights


RULE = tanh_sinh(step=0.125, span=3.25)
MAX_PIECES = 8  # of the interval between nine cuts


def width(mass: FloatArray, rest: FloatArray, radius: FloatArray) -> FloatArray:
    """Length of the binary ball {p : d(p‖mass) ≤ radius}."""
    return rise(mass, rest, radius) + rise(rest, mass, radius)


def _edge_cuts(a: FloatArray, b: FloatArray, c: FloatArray, radius: FloatArray) -> list[FloatArray]:
    """Where, along λ_a − a, the ball meets the edge λ_c = 0: first, nearest and last point.

    On that edge the divergence is −log(1 − c) + d(p‖a/(a + b)). The nearest point is returned, thrice, even if the ball
    stays off the edge, for the length of the chords bends sharply when it comes close.
    """
    mass, rest = a / (a + b), b / (a + b)
    with np.errstate(divide="ignore"):
        beyond = radius - np.where(c < 0.5, -np.log1p(-np.minimum(c, 0.5)), -np.log(a + b))
    beyond = np.maximum(beyond, 0.0)
    nearest = mass * c
    return [nearest - rise(rest, mass, beyond), nearest, nearest + rise(mass, rest, beyond)]


@in_blocks(lambda size: 2 * MAX_PIECES * len(RULE[0]))
def log_volume(center: FloatArray, radius: FloatArray, *, rule: tuple[FloatArray, FloatArray] = RULE) -> FloatArray:
    """Logarithm of the fraction of the simplex, for two and three classes.

    The area is integrated over chords parallel to an edge, piece by piece between the points where the ball meets an
    edge, by the tanh–sinh rule with the given nodes and weights.
    """
    nodes, weights = rule
    value = np.full(len(center), -np.inf)
    rows = np.flatnonzero((center.min(axis=1) > 0) & (radius > 0))
    g, r = normalised(center[rows]).T, radius[rows]
    if len(g) == 2:
        value[rows] = np.log(np.minimum(width(g[0], g[1], r), 1.0))
        return value
    first = g.argmax(axis=0)
    a, b, c = (g[(first + k) % 3, np.arange(len(rows))] for k in range(3))
    start, stop = -rise(b + c, a, r), rise(a, b + c, r)
    cuts = np.stack([start, 0 * a, stop, *_edge_cuts(a, b, c, r), *_edge_cuts(a, c, b, r)], axis=1)
    cuts = np.clip(np.sort(cuts, axis=1), start[:, None], stop[:, None])
    length = np.diff(cuts, axis=1)
    step = length[:, :, None] * nodes
    shift = np.stack([cuts[:, :-1, None] + step, cuts[:, 1:, None] - step])
    chords = np.zeros(shift.shape)
    used = np.broadcast_to(length[:, :, None] > 0, shift.shape)
    a, b, c, r = (np.broadcast_to(array[:, None, None], shift.shape)[used] for array in (a, b, c, r))
    chords[used] = _chord(shift[used], a, b, c, r)
    area = ((chords.sum(axis=0) * weights).sum(axis=2) * length).sum(axis=1)
    with np.errstate(divide="ignore"):
        value[rows] = np.minimum(np.log(2 * area), 0.0)
    return value


def _chord(shift: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, radius: FloatArray) -> FloatArray:
    """Length, in the coordinate λ_b, of the chord at λ_a = a + shift."""
    others = b + c
    left = np.maximum(others - shift, 0.0)
    spare = radius - bregman(a, np.maximum(shift, -a))[0] - bregman(others, np.maximum(-shift, -others))[0]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = np.where((spare > 0) & (left > 0), spare / left, 0.0)
    return left * width(b / others, c / others, inner)
