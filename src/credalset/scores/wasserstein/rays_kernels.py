"""Compiled rays of `credalset.scores.wasserstein.rays`, ball by ball and class by class.

Link k of the chain has ``size[k]`` knots; ``knots``, ``values`` and ``tails`` hold one link per row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.scores.wasserstein.rays import COARSE, END_WIDTH, FINE, MAX_HALVINGS, NEWTON_STEPS, SETTLED

MAX_KNOTS = 1024  # ten times what balls with a hundred classes use; cells stop being halved when they run out
FLAT = 1e-9


class Ball(NamedTuple):
    """One ball in units of its radius, and room for its links."""

    mass: FloatArray
    gaps: FloatArray
    low: FloatArray
    high: FloatArray
    knots: FloatArray
    values: FloatArray
    tails: FloatArray
    size: IntArray
    stack: FloatArray


@nb.njit(cache=True, nogil=True)
def _log_cell(width: float, left: float, right: float) -> float:
    if width <= 0.0:
        return -np.inf
    drop = abs(right - left)
    mean = -math.expm1(-drop) / drop if drop > FLAT else 1.0
    return max(left, right) + math.log(mean * width)


@nb.njit(cache=True, nogil=True)
def _log_add(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@nb.njit(cache=True, nogil=True)
def _cell_of(knots: FloatArray, size: int, x: float) -> int:
    """Cell whose left knot is the last one at or below x."""
    low, high = 0, size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle
        else:
            high = middle
    return low


@nb.njit(cache=True, nogil=True)
def _interpolate(ball: Ball, k: int, cell: int, x: float) -> float:
    left, right = ball.knots[k, cell], ball.knots[k, cell + 1]
    share = (x - left) / (right - left)
    return ball.values[k, cell] * (1.0 - share) + ball.values[k, cell + 1] * share


@nb.njit(cache=True, nogil=True)
def _log_tail(ball: Ball, k: int, cell: int, x: float) -> float:
    """Log of the integral of f_k from x, in the cell given, on."""
    right = ball.knots[k, cell + 1]
    within = _log_cell(right - x, _interpolate(ball, k, cell, x), ball.values[k, cell + 1])
    return _log_add(within, ball.tails[k, cell + 1])


@nb.njit(cache=True, nogil=True)
def _clip(ball: Ball, k: int, x: float) -> float:
    return min(max(x, ball.knots[k, 0]), ball.knots[k, ball.size[k] - 1])


@nb.njit(cache=True, nogil=True)
def _log_f(ball: Ball, k: int, rate: float, x: float) -> float:
    if k == ball.gaps.shape[0] - 1:
        return -rate * abs(x)
    place = _clip(ball, k + 1, x - ball.mass[k + 1])
    return -rate * abs(x) + _log_tail(ball, k + 1, _cell_of(ball.knots[k + 1], ball.size[k + 1], place), place)


@nb.njit(cache=True, nogil=True)
def _seed(ball: Ball, k: int, rate: float, far: float) -> int:
    """Stack the seed cells as (right end, log f there, depth), the leftmost on top; start the knots."""
    stack, low, high = ball.stack, ball.low[k], ball.high[k]
    ball.knots[k, 0], ball.values[k, 0] = low, _log_f(ball, k, rate, low)
    stack[0, 0], stack[0, 1], stack[0, 2] = high, _log_f(ball, k, rate, high), 0.0
    top = 1
    for x in (far, 1.0 / rate, 0.0, -1.0 / rate, -far):
        if low < x < high:
            stack[top, 0], stack[top, 1], stack[top, 2] = x, _log_f(ball, k, rate, x), 0.0
            top += 1
    return top


@nb.njit(cache=True, nogil=True)
def _sum(values: FloatArray) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


@nb.njit(cache=True, nogil=True)
def _link(ball: Ball, k: int, tilt: float, window_low: float, window_high: float) -> None:
    """Halve the cells until log f_k is close to its chord on all of them, from left to right."""
    rate = tilt * ball.gaps[k]
    far = (2.0 * ball.gaps.shape[0] + 60.0) / rate
    narrow = END_WIDTH * min(1.0 / (tilt * _sum(ball.gaps)), _sum(ball.mass) / ball.mass.shape[0])
    stack, knots, values, tails = ball.stack, ball.knots[k], ball.values[k], ball.tails[k]
    top = _seed(ball, k, rate, far)
    size = 1
    while top > 0:
        left, at_left = knots[size - 1], values[size - 1]
        right, at_right, depth = stack[top - 1, 0], stack[top - 1, 1], stack[top - 1, 2]
        middle = 0.5 * (left + right)
        split = depth < MAX_HALVINGS and left < middle < right and size + top < MAX_KNOTS
        if split and at_right == -np.inf:  # f_k vanishes at its upper end
            split = right - left > narrow and left < far
        if split:
            value = _log_f(ball, k, rate, middle)
            tolerance = FINE if left < window_high and right > window_low else COARSE
            split = value > -np.inf and (at_right == -np.inf or value - 0.5 * (at_left + at_right) > tolerance)
        if split:
            stack[top - 1, 2] = depth + 1.0
            stack[top, 0], stack[top, 1], stack[top, 2] = middle, value, depth + 1.0
            top += 1
        else:
            knots[size], values[size] = right, at_right
            size += 1
            top -= 1
    if values[size - 1] == -np.inf:
        slope = 0.0
        if size > 2:
            slope = (values[size - 2] - values[size - 3]) / (knots[size - 2] - knots[size - 3])
        values[size - 1] = values[size - 2] + slope * (knots[size - 1] - knots[size - 2])
    ball.size[k] = size
    tails[size - 1] = -np.inf
    for j in range(size - 2, -1, -1):
        tails[j] = _log_add(_log_cell(knots[j + 1] - knots[j], values[j], values[j + 1]), tails[j + 1])


@nb.njit(cache=True, nogil=True)
def _cell_at_level(tails: FloatArray, size: int, first: int, level: float) -> int:
    """Cell from ``first`` on with tails[cell] > level ≥ tails[cell + 1]."""
    low, high = first, size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if tails[middle] > level:
            low = middle
        else:
            high = middle
    return low


@nb.njit(cache=True, nogil=True)
def _sample(ball: Ball, tilt: float, uniforms: FloatArray, offsets: FloatArray) -> float:
    """Draw the offsets of one ray, and return log(e^{−s W} / q)."""
    log_ratio, before = 0.0, 0.0
    for k in range(ball.gaps.shape[0]):
        knots, size = ball.knots[k], ball.size[k]
        start = _clip(ball, k, before - ball.mass[k])
        first = _cell_of(knots, size, start)
        normaliser = _log_tail(ball, k, first, start)
        level = normaliser + math.log(uniforms[k, 0]) if uniforms[k, 0] > 0.0 else -np.inf
        cell = _cell_at_level(ball.tails[k], size, first, level)
        left, right = max(knots[cell], start), knots[cell + 1]
        at_left, at_right = _interpolate(ball, k, cell, left), ball.values[k, cell + 1]
        drop, share = abs(at_right - at_left), uniforms[k, 1]
        if drop >= FLAT:
            share = min(-math.log1p(share * math.expm1(-drop)) / drop, 1.0)
        x = left + share * (right - left) if at_left > at_right else right - share * (right - left)
        x = min(max(x, left), right)
        log_ratio += normaliser - tilt * ball.gaps[k] * abs(x) - _interpolate(ball, k, cell, x)
        offsets[k] = x
        before = x
    return log_ratio


@nb.njit(cache=True, nogil=True)
def _cost(gaps: FloatArray, offsets: FloatArray) -> float:
    total = 0.0
    for k in range(gaps.shape[0]):
        total += gaps[k] * abs(offsets[k])
    return total


@nb.njit(cache=True, nogil=True)
def _edge(mass: FloatArray, offsets: FloatArray) -> float:
    """Multiple of the offsets at which the first class runs out of mass."""
    edge, before = np.inf, 0.0
    for k in range(mass.shape[0]):
        after = offsets[k] if k < offsets.shape[0] else 0.0
        if after < before:
            edge = min(edge, mass[k] / (before - after))
        before = after
    return max(edge, 1.0)


@nb.njit(cache=True, nogil=True)
def _moments(log_weight: FloatArray, cost: FloatArray) -> tuple[float, float]:
    """Mean and variance of the cost; loops, because expressions over arrays take long to compile."""
    largest, total, mean, variance = -np.inf, 0.0, 0.0, 0.0
    for i in range(cost.shape[0]):
        largest = max(largest, log_weight[i])
    for i in range(cost.shape[0]):
        total += math.exp(log_weight[i] - largest)
        mean += math.exp(log_weight[i] - largest) * cost[i]
    mean /= total
    for i in range(cost.shape[0]):
        variance += math.exp(log_weight[i] - largest) * (cost[i] - mean) ** 2
    return mean, variance / total


@nb.njit(cache=True, nogil=True)
def _find_tilt(ball: Ball, pilot: FloatArray, window: FloatArray) -> float:
    """Solve E[W] = 1 on the pilot rays, and leave in ``window`` where the offsets then lie."""
    n, d = pilot.shape[0], ball.gaps.shape[0]
    offsets, cost, weight = np.empty((n, d)), np.empty(n), np.empty(n)
    tilt = float(d)
    for k in range(d):
        window[k, 0], window[k, 1] = np.inf, -np.inf
    for step in range(NEWTON_STEPS):
        for k in range(d - 1, -1, -1):
            _link(ball, k, tilt, window[k, 0], window[k, 1])
        for i in range(n):
            weight[i] = _sample(ball, tilt, pilot[i], offsets[i])
            cost[i] = _cost(ball.gaps, offsets[i])
        mean, variance = _moments(weight, cost)
        for k in range(d):
            low, high = np.inf, -np.inf
            for i in range(n):
                low, high = min(low, offsets[i, k]), max(high, offsets[i, k])
            window[k, 0], window[k, 1] = low - 0.5 * (high - low), high + 0.5 * (high - low)
        if not variance > 0.0:
            break
        before = tilt
        tilt = min(max(tilt + mean * (mean - 1.0) / variance, tilt / 8.0), float(d))
        if step > 0 and abs(tilt - before) * math.sqrt(variance) < SETTLED:
            break
    return tilt


@nb.njit(cache=True, nogil=True)
def draw(
    mass: FloatArray,
    gaps: FloatArray,
    pilot: FloatArray,
    uniforms: FloatArray,
    tilt: FloatArray,
    cost: FloatArray,
    edge: FloatArray,
    log_ratio: FloatArray,
    draws: FloatArray,
) -> None:
    """Fill in the tilt of each ball, and W, T, log(e^{−s W} / q) and, unless ``draws`` is empty, w of its rays."""
    d = gaps.shape[0]
    low, high, scratch = np.empty(d), np.empty(d), np.empty(d)
    knots, values, tails = np.empty((d, MAX_KNOTS)), np.empty((d, MAX_KNOTS)), np.empty((d, MAX_KNOTS))
    size, stack, window = np.empty(d, np.int64), np.empty((MAX_HALVINGS + 16, 3)), np.empty((d, 2))
    for i in range(mass.shape[0]):
        before, beyond = 0.0, 0.0
        for k in range(d):
            before, beyond = before + mass[i, k], beyond + mass[i, d - k]
            low[k], high[d - 1 - k] = -before, beyond
        ball = Ball(mass[i], gaps, low, high, knots, values, tails, size, stack)
        tilt[i] = _find_tilt(ball, pilot[i], window)
        for k in range(d - 1, -1, -1):
            _link(ball, k, tilt[i], window[k, 0], window[k, 1])
        for j in range(uniforms.shape[1]):
            offsets = draws[i, j] if draws.shape[0] > 0 else scratch
            log_ratio[i, j] = _sample(ball, tilt[i], uniforms[i, j], offsets)
            cost[i, j] = _cost(gaps, offsets)
            edge[i, j] = _edge(mass[i], offsets)
