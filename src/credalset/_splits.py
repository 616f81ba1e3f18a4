"""Split items into training, calibration and test parts, and into folds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from credalset._predictions import Named
from credalset._typing import AnyArray, IntArray
from credalset._validation import unmasked
from credalset.predictors.labels import match_rows


def train_conformalize_test_split(
    X: Any,
    Y: Any,
    *,
    train_size: float | int = 0.5,
    conformalize_size: float | int = 0.25,
    test_size: float | int = 0.25,
    random_state: int | None = None,
) -> tuple[Any, ...]:
    """Split items at random into training, calibration and test parts.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features, one row per item.
    Y : array-like of shape (n, K), Annotations, or array of n labels
        Labels, one row per item. Rows are matched with those of X by name if both have names.
    train_size : float or int
        Size of the training part: a share of the items between 0 and 1, or a number of items.
    conformalize_size : float or int
        Size of the calibration part, in the same units.
    test_size : float or int
        Size of the test part, in the same units. The three parts may not hold more than all items.
    random_state : int or None
        Seed of the random order.

    Returns
    -------
    tuple
        The six parts ``X_train, X_conformalize, X_test, Y_train, Y_conformalize, Y_test``.

    Examples
    --------
    >>> import numpy as np
    >>> parts = train_conformalize_test_split(
    ...     np.arange(10)[:, None], np.eye(2)[[0, 1] * 5],
    ...     train_size=0.5, conformalize_size=0.3, test_size=0.2,
    ...     random_state=0)
    >>> [len(part) for part in parts]
    [5, 3, 2, 5, 3, 2]
    """
    n = _num_samples(X)
    Y = match_rows(Y, X, "Y")
    if n != _num_samples(Y):
        raise ValueError(f"X has {n} items, but Y has {_num_samples(Y)}.")
    sizes = {
        "train_size": train_size,
        "conformalize_size": conformalize_size,
        "test_size": test_size,
    }
    numbers = [part_size(value, n, name) for name, value in sizes.items()]
    if sum(numbers) > n:
        raise ValueError(
            f"the parts {numbers} add up to {sum(numbers)} items, but there are only {n}."
        )
    order = np.random.default_rng(random_state).permutation(n)
    parts = [order[start:stop] for start, stop in pairwise(np.cumsum([0, *numbers]))]
    return tuple(take(data, part) for data in (X, Y) for part in parts)


def take(data: Any, rows: AnyArray) -> Any:
    """Return some rows of features or labels of any kind."""
    if isinstance(data, Named):
        return data[rows]
    return _safe_indexing(data.tocsr() if hasattr(data, "tocsr") else data, rows)


def part_size(value: float | int, n: int, name: str) -> int:
    """Return a share of n items, or a number of items, as a number of items."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a share or a number of items, but is {value!r}.")
    is_number = isinstance(value, int | np.integer)
    if value < 1 if is_number else not 0.0 < value < 1.0:
        raise ValueError(
            f"{name} must be a number of items or a share strictly between 0 and 1, but is "
            f"{value!r}."
        )
    return int(value) if is_number else max(1, int(np.floor(value * n + 1e-9)))


def fold_numbers(folds: Any, n: int, random_state: int | None) -> IntArray:
    """Return the fold of each item, from a number of folds, a splitter, or the folds themselves.

    A splitter gets no features and no labels, because folds that depend on them are not
    exchangeable.
    """
    if isinstance(folds, int | np.integer) and not isinstance(folds, bool):
        folds = KFold(int(folds), shuffle=True, random_state=random_state)
    if not hasattr(folds, "get_n_splits"):
        return np.asarray(unmasked(folds, "folds"))  # `cross_conformalize` checks them
    codes = np.full(n, -1, dtype=np.int64)
    parts = [held_out for _, held_out in folds.split(np.zeros((n, 1)))]
    for fold, held_out in enumerate(parts):
        codes[held_out] = fold
    if sum(map(len, parts)) != n or (codes < 0).any():
        raise ValueError(
            f"folds is {folds!r}, which does not hold out every item exactly once. Use KFold."
        )
    return codes
