"""The probability simplex: grids, sampling and entropy."""

from __future__ import annotations

import math

import numpy as np

from credalset._typing import ArrayLike, FloatArray, IntArray, RandomState
from credalset._validation import as_distributions, as_finite, as_generator, as_positive_int

MAX_GRID_POINTS = 20_000_000


__all__ = ["entropy", "grid", "grid_size", "sample_uniform"]


def __dir__() -> list[str]:
    return list(__all__)


def grid_size(n_classes: int, resolution: float) -> int:
    """Return the number of points of `grid`: C(n + K − 1, K − 1) with n = 1 / resolution.

    Parameters
    ----------
    n_classes : int
        Number of classes K ≥ 2.
    resolution : float
        Step of the grid; its reciprocal must be a whole number.

    Returns
    -------
    int

    Examples
    --------
    >>> grid_size(3, 0.005)
    20301
    """
    n_classes = _as_class_count(n_classes)
    return math.comb(_grid_steps(resolution) + n_classes - 1, n_classes - 1)


def grid(n_classes: int, resolution: float = 0.005) -> FloatArray:
    """Return every distribution whose entries are multiples of ``resolution``.

    The grid is built from integers, so no point is lost by rounding. (The published code compares
    floating-point sums and loses 332 of the 20 301 points at K = 3.)

    Parameters
    ----------
    n_classes : int
        Number of classes K ≥ 2.
    resolution : float
        Step of the grid; its reciprocal must be a whole number.

    Returns
    -------
    ndarray of shape (M, K)
        In lexicographic order.

    Examples
    --------
    >>> grid(3, 0.5).tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5],
    [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    """
    n_points = grid_size(n_classes, resolution)
    if n_points > MAX_GRID_POINTS:
        raise ValueError(
            f"a grid with n_classes={n_classes} and resolution={resolution} has "
            f"10^{math.log10(n_points):.1f} points, more than {MAX_GRID_POINTS}. Use a coarser "
            "resolution, or sample_uniform for many classes."
        )
    steps = _grid_steps(resolution)
    points = np.zeros((1, 0), dtype=np.int64)
    for _ in range(n_classes - 1):
        room = steps - points.sum(axis=1) + 1
        repeated = np.repeat(points, room, axis=0)
        starts = np.repeat(np.cumsum(room) - room, room)
        points = np.column_stack([repeated, np.arange(len(repeated)) - starts])
    points = np.column_stack([points, steps - points.sum(axis=1)])
    return points / steps


def _as_class_count(n_classes: int) -> int:
    count = as_positive_int(n_classes, "n_classes")
    if count < 2:
        raise ValueError(f"n_classes must be at least 2, but is {n_classes}.")
    return count


def _grid_steps(resolution: float) -> int:
    step = as_finite(resolution, "resolution", minimum=0.0)
    steps = round(1.0 / step) if step > 0 else 0
    if steps < 1 or abs(steps * step - 1.0) > 1e-9:
        raise ValueError(
            f"resolution must be 1/n for a whole number n, but is {resolution!r}. Try "
            "0.005, 0.01, 0.02 or 0.1."
        )
    return steps


def sample_uniform(n_samples: int, n_classes: int, random_state: RandomState = None) -> FloatArray:
    """Draw distributions uniformly from the simplex, that is from Dirichlet(1, …, 1).

    Parameters
    ----------
    n_samples : int
        Number of distributions.
    n_classes : int
        Number of classes K ≥ 2.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    ndarray of shape (n_samples, K)

    Examples
    --------
    >>> sample_uniform(2, 3, random_state=0).shape
    (2, 3)
    """
    exponentials = as_generator(random_state).standard_exponential(
        (n_samples, _as_class_count(n_classes))
    )
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def log_base(base: float | str | None, n_classes: int) -> float:
    """Return log of an entropy base: None = nats, ``"K"`` = number of classes, or a number."""
    if base is None:
        return 1.0
    if base == "K":
        return math.log(n_classes)
    if isinstance(base, str):
        raise ValueError(
            f'base must be None (nats), "K" (normalised) or a number above 1, but is {base!r}.'
        )
    number = as_finite(base, "base")
    if number <= 1.0:
        raise ValueError(
            f'base must be None (nats), "K" (normalised) or a number above 1, but is {base!r}.'
        )
    return math.log(number)


def entropy(distribution: ArrayLike, base: float | str | None = None) -> FloatArray:
    r"""Return the Shannon entropy $H(\lambda) = -\sum_k \lambda_k \log \lambda_k$ of each row.

    Parameters
    ----------
    distribution : array of shape (N, K)
        Rows on the simplex.
    base : None, "K" or float
        None for nats, ``"K"`` to normalise to [0, 1], or the base of the logarithm.

    Returns
    -------
    ndarray of shape (N,)

    Examples
    --------
    >>> entropy([[0.5, 0.5], [1.0, 0.0]], base=2).tolist()
    [1.0, 0.0]
    """
    array = as_distributions(distribution, "distribution")
    return entropy_of_valid(array) / log_base(base, array.shape[1])


def entropy_of_valid(array: FloatArray, axis: int = -1) -> FloatArray:
    """Entropy in nats over an axis, without checks; zeros contribute zero."""
    # In memory as the axes say, so that the order of the sum does not depend on the number of rows.
    terms = np.ascontiguousarray(array * np.log(np.where(array > 0, array, 1.0)))
    total = sum_classes(terms) if axis == 0 else terms.sum(axis=axis)
    return np.maximum(-total, 0.0)


def sum_classes(array: FloatArray) -> FloatArray:
    """Sum over the first axis, that of the classes, from the first class to the last.

    NumPy chooses the order by the number of columns and their place in memory, so that the last
    bits of an item's answer would depend on which items share its batch.
    """
    array = np.ascontiguousarray(array)
    if array.size == len(array) > 0:
        return array.cumsum(axis=0)[-1]
    return np.asarray(array.sum(axis=0))


def corners(classes: IntArray, n_classes: int) -> FloatArray:
    """Return the one-hot distributions of classes (N,), (N, K).

    Examples
    --------
    >>> corners(np.array([2, 0]), 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    points = np.zeros((len(classes), n_classes))
    points[np.arange(len(classes)), classes] = 1.0
    return points
