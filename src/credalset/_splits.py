"""Ways to split items: into training, calibration and test parts, and into folds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from credalset._guessing import explained
from credalset._typing import AnyArray, IntArray
from credalset.annotations.labels import order_of_items, row_names
from credalset.calibration.cross import check_folds


class Split(NamedTuple):
    """Six arrays in scikit-learn's order."""

    X_train: Any
    X_conformalize: Any
    X_test: Any
    Y_train: Any
    Y_conformalize: Any
    Y_test: Any


@explained
def train_conformalize_test_split(
    X: Any,
    Y: Any,
    *,
    train_size: float | int = 0.5,
    conformalize_size: float | int = 0.25,
    test_size: float | int = 0.25,
    random_state: int | None = None,
) -> Split:
    """Split items at random into training, calibration and test parts.

    Parameters
    ----------
    X, Y : array-like
        Features and labels with one row per item, matched by name where both have names; Y may be `Annotations`.
    train_size, conformalize_size, test_size : float or int
        Shares that sum to at most one, or numbers of items; a half and two quarters by default.
    random_state : int or None
        Seed of the shuffle.

    Returns
    -------
    tuple
        ``X_train, X_conformalize, X_test, Y_train, Y_conformalize, Y_test``.

    Examples
    --------
    >>> import numpy as np
    >>> parts = train_conformalize_test_split(
    ...     np.arange(10)[:, None], np.eye(2)[[0, 1] * 5], train_size=0.5, conformalize_size=0.3, test_size=0.2,
    ...     random_state=0)
    >>> [len(part) for part in parts]
    [5, 3, 2, 5, 3, 2]
    """
    for name, value in (("X", X), ("Y", Y)):
        if isinstance(value, str) or not (hasattr(value, "__len__") or hasattr(value, "shape")):
            raise TypeError(f"{name} must hold one row per item, but is {value!r}.")
    n = _num_samples(X)
    if n != _num_samples(Y):
        raise ValueError(f"X has {n} items, but Y has {_num_samples(Y)}.")
    sizes = {"train_size": train_size, "conformalize_size": conformalize_size, "test_size": test_size}
    numbers = [part_size(value, n, name) for name, value in sizes.items()]
    if sum(numbers) > n:
        raise ValueError(f"the parts {numbers} add up to {sum(numbers)} items, but there are only {n}.")
    by_name = order_of_items(row_names(Y), row_names(X), "Y", "X")
    Y = Y if by_name is None else _take(Y, by_name)
    order = np.random.default_rng(random_state).permutation(n)
    bounds = np.cumsum([0, *numbers])
    parts = [order[start:stop] for start, stop in pairwise(bounds)]
    return Split(*(_take(X, part) for part in parts), *(_take(Y, part) for part in parts))


def _take(data: Any, rows: AnyArray) -> Any:
    return data[rows] if hasattr(data, "distributions") else _safe_indexing(data, rows)


def part_size(value: float | int, n: int, name: str) -> int:
    """Return the number of items that a share or a number of n items stands for."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a share or a number of items, but is {value!r}.")
    if isinstance(value, int | np.integer):
        if value < 1:
            raise ValueError(f"{name} must be at least 1 item, but is {value}.")
        return int(value)
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} as a share must lie strictly between 0 and 1, but is {value!r}.")
    return max(1, int(np.floor(value * n + 1e-9)))


def with_rows(X: Any, n: int) -> Any:
    """Check that X has n items, and return it so that rows can be picked."""
    if _num_samples(X) != n:
        raise ValueError(f"X has {_num_samples(X)} items, but Y has {n}.")
    return X.tocsr() if hasattr(X, "tocsr") else X  # the other sparse formats cannot be indexed by rows


def fold_numbers(folds: Any, n: int, random_state: int | None) -> IntArray:
    """Return the fold of each item, drawn if only their number or a splitter is given."""
    if hasattr(folds, "split") and hasattr(folds, "get_n_splits"):
        return _numbers_of_splitter(folds, n)
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool):
        if isinstance(folds, str) or not hasattr(folds, "__len__"):
            raise TypeError(
                "folds must be a whole number of folds, a scikit-learn splitter such as KFold(5), or the fold of each "
                f"item, but is {folds!r}."
            )
        return check_folds(folds, n)
    if not 2 <= folds <= n:
        raise ValueError(f"folds must be at least 2 and at most the number of items ({n}), but is {folds}.")
    return _numbers_of_splitter(KFold(int(folds), shuffle=True, random_state=random_state), n)


def _numbers_of_splitter(splitter: Any, n: int) -> IntArray:
    """Return the folds that a splitter makes of n items, whose features and labels it does not get to see.

    Folds that depended on them would not be exchangeable, and the guarantee would be lost.
    """
    try:
        parts = [np.asarray(held_out) for _, held_out in splitter.split(np.zeros((n, 1)))]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"folds is {splitter!r}, which cannot split {n} items without their labels or groups: {error} "
            "Pass a whole number of folds, a KFold, or the fold of each item."
        ) from None
    times = np.bincount(np.concatenate([np.empty(0, dtype=np.int64), *parts]), minlength=n)
    if min(map(len, parts), default=0) < 1 or len(times) != n or (times != 1).any():
        raise ValueError(
            f"folds is {splitter!r}, which does not hold out every item exactly once. Pass a splitter that does, such "
            "as KFold, or a whole number of folds."
        )
    codes = np.empty(n, dtype=np.int64)
    for fold, held_out in enumerate(parts):
        codes[held_out] = fold
    return check_folds(codes, n)
