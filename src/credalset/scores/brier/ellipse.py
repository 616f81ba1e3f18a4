r"""Three classes: the ball is an ellipse about g, cut by the triangle of all distributions.

In the coordinates (λ_1 − g_1, λ_2 − g_2) the distance is |Lᵀ x|² for a triangular L, so y = Lᵀ x turns the ellipse into
a circle and the simplex into another triangle around its centre. Seen from there, the part of the circle before a side
at distance h consists of sectors, where the side lies outside, and of a triangle, where it lies inside.
"""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray
from credalset.simplex import entropy_of_valid

ANGLES = 180  # looked at on the ellipse before the best valleys are searched
VALLEYS = 4
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


def to_circle(weights: FloatArray) -> FloatArray:
    """Return the matrix M, (2, 2), with Σ v_k d_k² = |M (d_1, d_2)|² for differences d that sum to zero."""
    a, b, c = weights
    return np.linalg.cholesky(np.array([[a + c, c], [c, b + c]])).T


def log_fraction(center: FloatArray, radius: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the logarithm of the share of the triangle that the ellipse covers, (N,)."""
    matrix, root = to_circle(weights), np.where(radius > 0, np.sqrt(radius), 1.0)
    corners = (np.eye(3) - center[:, None])[..., :2] @ matrix.T
    area = np.zeros(len(center))
    for k in range(3):
        start, end = corners[:, k], corners[:, (k + 1) % 3]
        length = np.hypot(*(end - start).T)
        along = (end - start) / length[:, None]
        height = np.abs(start[:, 0] * along[:, 1] - start[:, 1] * along[:, 0])
        first, last = (start * along).sum(axis=1), (end * along).sum(axis=1)  # positions, from the foot of the height
        area += _before_side(height / root, first / root, last / root)
    with np.errstate(divide="ignore"):
        value = np.log(area) + np.log(radius) - np.log(0.5 * np.linalg.det(matrix))
    return np.minimum(value, 0.0)


def _before_side(height: FloatArray, first: FloatArray, last: FloatArray) -> FloatArray:
    """Area of the unit disc inside the triangle from its centre to a side, given relative to the foot of its height."""
    reach = np.sqrt(np.maximum(1.0 - np.minimum(height, 1.0) ** 2, 0.0))
    low, high = np.clip(first, -reach, reach), np.clip(last, -reach, reach)  # the part of the side in the disc
    cut = 0.5 * height * (high - low)

    def sector(a: FloatArray, b: FloatArray) -> FloatArray:
        return 0.5 * (np.arctan2(b, height) - np.arctan2(a, height))

    return np.where(height < 1.0, cut + sector(first, low) + sector(high, last), sector(first, last))


def min_entropy(center: FloatArray, radius: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the members of least entropy, (N, 3).

    Entropy is concave, so the least is at an extreme point: a corner of the simplex, an end of an arc, which lies on a
    side, or a valley along an arc.
    """
    candidates = [*_corners(center, radius, weights), *_on_sides(center, radius, weights)]
    candidates += _valleys(center, radius, weights)
    points = np.stack([center, *candidates], axis=1)
    rows = np.arange(len(center))
    return points[rows, entropy_of_valid(points).argmin(axis=1)]


def _corners(center: FloatArray, radius: FloatArray, weights: FloatArray) -> list[FloatArray]:
    """Corners of the simplex in the ball; the centre stands in for those that are not."""
    distance = (center[:, None] - np.eye(3)) ** 2 @ weights
    return [np.where((distance[:, k] <= radius)[:, None], np.eye(3)[k], center) for k in range(3)]


def _on_sides(center: FloatArray, radius: FloatArray, weights: FloatArray) -> list[FloatArray]:
    """Where the ellipse crosses a side λ_k = 0: classes i and j share g_k, then trade until the ball ends."""
    found = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        share = center[:, k] / (1.0 / weights[i] + 1.0 / weights[j])
        left = radius - weights[k] * center[:, k] ** 2 - share * center[:, k]
        trade = np.sqrt(np.maximum(left, 0.0) / (weights[i] + weights[j]))
        for sign in (-1.0, 1.0):
            point = np.zeros_like(center)
            point[:, i] = center[:, i] + share / weights[i] + sign * trade
            point[:, j] = 1.0 - point[:, i]
            legal = (left >= 0) & (point >= 0).all(axis=1)
            found.append(np.where(legal[:, None], point, center))
    return found


def _valleys(center: FloatArray, radius: FloatArray, weights: FloatArray) -> list[FloatArray]:
    """Search the best angles, and both neighbours, by golden sections."""
    back, root = np.linalg.inv(to_circle(weights)), np.sqrt(radius)

    def at(angle: FloatArray) -> FloatArray:
        offset = root[:, None, None] * (np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ back.T)
        return center[:, None] + np.concatenate([offset, -offset.sum(axis=-1, keepdims=True)], axis=-1)

    def entropy(angle: FloatArray) -> FloatArray:
        points = at(angle)
        return np.where((points >= 0).all(axis=-1), entropy_of_valid(np.maximum(points, 0.0)), np.inf)

    angles = np.broadcast_to(2.0 * np.pi * np.arange(ANGLES) / ANGLES, (len(center), ANGLES))
    seen = entropy(angles)
    valley = (seen <= np.roll(seen, 1, axis=1)) & (seen <= np.roll(seen, -1, axis=1))
    best = np.take_along_axis(angles, np.argsort(np.where(valley, seen, np.inf), axis=1)[:, :VALLEYS], axis=1)
    low, high = best - 2.0 * np.pi / ANGLES, best + 2.0 * np.pi / ANGLES
    for _ in range(60):
        a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        left = entropy(a) <= entropy(b)
        low, high = np.where(left, low, a), np.where(left, b, high)
    points = at(0.5 * (low + high))
    legal = (points >= 0).all(axis=-1, keepdims=True)
    return list(np.moveaxis(np.where(legal, points, center[:, None]), 1, 0))
