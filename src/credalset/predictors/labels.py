"""Read the labels that estimators are fitted with: distributions, counts, Annotations, or plain class labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from credalset._typing import AnyArray, FloatArray
from credalset._validation import as_label_distributions, check_classes, column_names


def encode_labels(Y: Any, name: str = "Y", classes: Sequence[Any] | None = None) -> tuple[FloatArray, AnyArray]:
    """Return label distributions (n, K) and the class names in column order.

    Parameters
    ----------
    Y : array of shape (n, K), Annotations, data frame, or array of n class labels
        Distributions, counts, or one label per item (read as one vote).
    name : str
        Argument name for messages.
    classes : sequence, optional
        Names and order that Y must agree with; sorted labels or 0, …, K − 1 when not given.

    Examples
    --------
    >>> encode_labels(["no", "yes", "no"])
    (array([[1., 0.],
           [0., 1.],
           [1., 0.]]), array(['no', 'yes'], dtype='<U3'))
    """
    if Y is None:
        raise ValueError(
            f"fitting requires y to be passed, but the target y is None. Pass label distributions as {name}."
        )
    if not hasattr(Y, "distributions"):
        array = np.asarray(Y)
        if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
            return _one_hot(array, name, classes)
    own = getattr(Y, "classes", None)
    named = tuple(own) if own is not None else column_names(Y)
    # Columns that are called 0..K−1 (a data frame without names) name nothing.
    if named is not None and named == tuple(range(len(named))):
        named = None
    if named is not None and len(set(named)) < len(named):
        raise ValueError(f"{name} names a class twice: {list(named)}. Give each class a name of its own.")
    check_classes(named, tuple(classes) if classes is not None else None, name, "the fitted estimator")
    distributions = as_label_distributions(Y, name, n_classes=None if classes is None else len(classes))
    if classes is not None:
        return distributions, np.asarray(classes)
    return distributions, np.asarray(named if named is not None else range(distributions.shape[1]))


def note_features(estimator: Any, X: Any, *, reset: bool) -> None:
    """Remember, or check, the number and names of the features; what X holds is the inner estimator's business."""
    if getattr(X, "ndim", 2) == 2:
        validate_data(estimator, X, reset=reset, skip_check_array=True)


def accepts_sparse(estimator: Any) -> bool:
    """Tell whether an estimator declares that it takes sparse features."""
    return hasattr(estimator, "__sklearn_tags__") and bool(get_tags(estimator).input_tags.sparse)


def _one_hot(labels: AnyArray, name: str, classes: Sequence[Any] | None) -> tuple[FloatArray, AnyArray]:
    labels = column_or_1d(labels, warn=True)
    if len(labels) == 0:
        raise ValueError(f"{name} is empty: there is nothing to learn from.")
    assert_all_finite(labels, input_name=name)
    check_classification_targets(labels)
    order = np.unique(labels) if classes is None else np.asarray(classes)
    if classes is None and len(order) < 2:
        raise ValueError(f"{name} contains only one class ({order.tolist()[0]!r}): at least 2 are needed.")
    matches = labels[:, None] == order[None, :]
    unknown = ~matches.any(axis=1)
    if unknown.any():
        raise ValueError(
            f"{name} contains the label {labels[unknown].tolist()[0]!r}, which is not one of {order.tolist()}."
        )
    return matches.astype(np.float64), order
