"""What estimators are fitted with: labels of any kind, matched with features, and the features themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from credalset._typing import AnyArray
from credalset.annotations.labels import Labels, Numbers, plain_names, row_names, shown

NOTED = ("n_features_in_", "feature_names_in_", "text_name_in_")


def read_labels(Y: Any, X: Any = None, name: str = "Y", classes: Any = None) -> Labels:
    """Return labels in the order of the items of X and of the classes.

    Items are matched by name where X and Y have names, and by position where Y has none. Labels with names beside
    features without are refused: steps of a pipeline, and many meta-estimators, drop the names of X.

    Parameters
    ----------
    Y : array of shape (n, K), Annotations, data frame, or array of n class labels
        Distributions, counts, or one label per item (read as one vote).
    X : array-like, optional
        Features of the same items; the index of a frame or series holds their names.
    name : str
        What messages call Y.
    classes : sequence, optional
        Names of the classes, in the order that columns are put into; sorted labels, or 0, …, K − 1, by default.

    Examples
    --------
    >>> found = read_labels(["no", "yes", "no"])
    >>> found.classes, found.counts.tolist()
    (('no', 'yes'), [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    """
    if Y is None:
        raise ValueError(f"fitting requires y to be passed, but the target y is None. Pass labels as {name}.")
    if not isinstance(Y, Labels) and not hasattr(Y, "distributions"):
        array = np.asarray(Y)
        if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
            Y = replace(_single_votes(array, name, classes), items=row_names(Y))
    found = Labels.read(Y, name, classes=classes, like="the fitted estimator")
    if X is not None and _has_names(found.items) and not _has_names(row_names(X)):
        raise ValueError(
            f"{name} has names of items (first: {shown(found.items[:1])}), but X has none to match them with. Pass "
            f"labels in the order of X and without names, such as votes.select(X.index).counts or {name}.to_numpy(), "
            "or pass X as a frame whose index has the names."
        )
    found = found.matching(row_names(X), name, "X")
    return replace(found, classes=tuple(range(found.n_classes))) if found.classes is None else found


def class_array(labels: Labels) -> AnyArray:
    """Return the names of the classes as an array that holds them unchanged."""
    return labels.class_names()


def item_names(labels: Labels, X: Any) -> tuple[Any, ...] | None:
    """Return the names of the items, whichever of both has them; None if neither does."""
    for items in (labels.items, row_names(X)):
        if _has_names(items):
            return plain_names(items)
    return None


def _has_names(items: Any) -> bool:
    """Tell whether items have names. An index of whole numbers, which every frame and part of a frame has, is none."""
    return items is not None and not isinstance(items, range | Numbers) and getattr(items, "dtype", "O") != "int64"


def _single_votes(labels: AnyArray, name: str, classes: Any) -> Labels:
    labels = column_or_1d(labels, warn=True)
    if len(labels) == 0:
        raise ValueError(f"{name} is empty: there is nothing to learn from.")
    assert_all_finite(labels, input_name=name)
    check_classification_targets(labels)
    order = np.unique(labels) if classes is None else np.asarray(classes)
    if classes is None and len(order) < 2:
        raise ValueError(f"{name} contains only one class ({order.tolist()[0]!r}): at least 2 are needed.")
    votes = (labels[:, None] == order[None, :]).astype(np.float64)
    unknown = ~votes.any(axis=1)
    if unknown.any():
        raise ValueError(f"{name} has the label {labels[unknown].tolist()[0]!r}, which is not one of {order.tolist()}.")
    return Labels(votes, votes, plain_names(order))


def note_features(estimator: Any, X: Any, *, reset: bool) -> None:
    """Remember, or check, the number and names of the features; of a column of texts, its name.

    What else X must be is left to the inner estimator.
    """
    is_text = getattr(X, "ndim", 1) == 1 and hasattr(X, "__iter__") and isinstance(next(iter(X), None), str)
    if is_text and not reset and hasattr(estimator, "n_features_in_"):
        raise ValueError(f"X holds texts, but this model was fitted with {estimator.n_features_in_} numeric features.")
    if reset:
        for noted in NOTED:
            estimator.__dict__.pop(noted, None)
        if is_text:
            estimator.text_name_in_ = getattr(X, "name", None)
    if not is_text and not hasattr(estimator, "text_name_in_") and getattr(X, "ndim", 2) == 2:
        validate_data(estimator, X, reset=reset, skip_check_array=True)


def accepts_sparse(estimator: Any) -> bool:
    """Tell whether an estimator declares that it takes sparse features."""
    return hasattr(estimator, "__sklearn_tags__") and bool(get_tags(estimator).input_tags.sparse)
