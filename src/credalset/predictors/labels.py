"""Read the labels that estimators are fitted with: distributions, counts, Annotations, or plain class labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from credalset._typing import AnyArray
from credalset.annotations.labels import Labels, Numbers, plain_names, row_names, shown
from credalset.annotations.table import is_missing


def read_labels(Y: Any, X: Any = None, name: str = "Y", classes: Any = None) -> Labels:
    """Return labels with class names, in the order of the items of X and of the classes.

    Parameters
    ----------
    Y : array of shape (n, K), Annotations, data frame, or array of n class labels
        Distributions, counts, or one label per item (read as one vote).
    X : array-like, optional
        Features of the same items; a frame's index tells which is which.
    name : str
        Argument name for messages.
    classes : sequence, optional
        Names and order that Y is put into; sorted labels or 0, …, K − 1 when not given.

    Examples
    --------
    >>> found = read_labels(["no", "yes", "no"])
    >>> found.classes, found.counts.tolist()
    (('no', 'yes'), [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    """
    if Y is None:
        raise ValueError(
            f"fitting requires y to be passed, but the target y is None. Pass label distributions as {name}."
        )
    if not isinstance(Y, Labels) and not hasattr(Y, "distributions"):
        array = np.asarray(Y)
        if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
            Y = replace(_one_hot(array, name, classes), items=row_names(Y))
    found = Labels.read(Y, name, classes=classes, like="the fitted estimator")
    if X is not None and _has_names(found.items) and not _has_names(row_names(X)):
        raise ValueError(
            f"{name} has names of items (first: {shown(found.items[:1])}), but X has none to match them with. Pass "
            f"labels in the order of X and without names, such as votes.select(X.index).counts or {name}.to_numpy(), "
            "or pass X as a frame whose index has the names."
        )
    found = found.matching(row_names(X), name, "X")
    return replace(found, classes=tuple(range(found.n_classes))) if found.classes is None else found


def _has_names(items: Any) -> bool:
    """Tell whether items have names: positions are none, nor is an index of whole numbers, which every frame has."""
    return items is not None and not isinstance(items, range | Numbers) and getattr(items, "dtype", "O") != "int64"


NOTED = ("n_features_in_", "feature_names_in_", "text_name_in_")


def note_features(estimator: Any, X: Any, *, reset: bool) -> None:
    """Remember, or check, the number and names of the features, or that they are texts and what their column is called.

    What else X holds is the inner estimator's business.
    """
    texts = are_texts(X)
    if texts:
        _check_texts(X)
    if reset:
        for noted in NOTED:  # an estimator of numbers may be fitted anew, to texts
            estimator.__dict__.pop(noted, None)
    else:
        _check_kind(estimator, X, texts)
    if texts and reset:
        name = getattr(X, "name", None)
        estimator.text_name_in_ = name if isinstance(name, str) and name else None
    elif not texts and getattr(X, "ndim", 2) == 2:
        validate_data(estimator, X, reset=reset, skip_check_array=True)


def knows_features(estimator: Any) -> bool:
    """Tell whether an estimator remembers what features, or texts, it was fitted with."""
    return any(hasattr(estimator, name) for name in NOTED)


def are_texts(X: Any) -> bool:
    """Tell whether X is a column of texts: a series, a list or a 1-d array of them."""
    is_column = getattr(X, "ndim", 1) == 1 and hasattr(X, "__getitem__") and not isinstance(X, str | dict)
    return is_column and isinstance(next((value for value in X if not is_missing(value)), None), str)


def _check_texts(X: Any) -> None:
    """Refuse a column of texts in which some are missing."""
    gone = [row for row, text in enumerate(X) if is_missing(text)]
    if gone:
        names = row_names(X)
        where = shown([names[row] for row in gone[:3]]) if names is not None else f"row {gone[0]}"
        raise ValueError(
            f"X has no text for {len(gone)} of {len(X)} items (first: {where}). Leave them out, or fill them in: "
            "X.fillna('') of a series."
        )


def _check_kind(estimator: Any, X: Any, texts: bool) -> None:
    """Refuse texts for a model of numbers, and an array of numbers for one of texts."""
    if texts and hasattr(estimator, "n_features_in_"):
        n = estimator.n_features_in_
        raise ValueError(f"X holds texts, but this model was fitted with {n} features, which are numbers. Pass these.")
    if not texts and hasattr(estimator, "text_name_in_") and getattr(X, "ndim", 1) == 2 and not hasattr(X, "columns"):
        raise ValueError("X holds no texts, but this model was fitted with texts. Pass a list or a series of them.")


def accepts_sparse(estimator: Any) -> bool:
    """Tell whether an estimator declares that it takes sparse features."""
    return hasattr(estimator, "__sklearn_tags__") and bool(get_tags(estimator).input_tags.sparse)


def _one_hot(labels: AnyArray, name: str, classes: Sequence[Any] | None) -> Labels:
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
    votes = matches.astype(np.float64)
    return Labels(votes, votes, plain_names(order))
