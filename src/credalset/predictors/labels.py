"""Read labels of any kind, matched with features, and record the features of an estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.utils import assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, validate_data

from credalset._batch import Batch, Labels, is_default, item_names, name_array, read_votes
from credalset._predictions import Named
from credalset._typing import AnyArray, ArrayLike
from credalset._validation import as_names, unmasked
from credalset.exceptions import warn

NOTED = ("n_features_in_", "feature_names_in_", "feature_kinds_in_", "text_name_in_")


#: what to do about items without labels: scikit-learn divides both by position
ALIGN = (
    "Select the items that both have. For GridSearchCV and others that divide X and the votes by "
    "position, put the votes into the order of X first: votes.align(X.index), or "
    "votes.loc[X.index] of a frame"
)


def read_labels(Y: Any, X: Any = None, name: str = "Y", classes: Any = None) -> Labels:
    """Return labels in the order of the items of X and of the classes.

    Items are matched by name where X and Y have names; without names, Y is in the order of X. A
    text index of Y beside features without names is refused: steps of a pipeline, and many
    meta-estimators, drop the names of X. An index of whole numbers, which scikit-learn leaves on
    every part of a frame, is no name beside such features.

    Parameters
    ----------
    Y : array of shape (n, K), Annotations, data frame, or array of n class labels
        Distributions, counts, or one label per item (read as one vote).
    X : array-like, optional
        Features of the same items; the index of a frame or series holds their names.
    name : str
        Name of Y in messages.
    classes : sequence, optional
        Names of the classes in the wanted order; by default sorted labels, or 0, …, K − 1.

    Examples
    --------
    >>> found = read_labels(["no", "yes", "no"])
    >>> found.classes, found.counts.tolist()
    (('no', 'yes'), [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    """
    if Y is None:
        raise ValueError(
            f"fitting requires y to be passed, but the target y is None. Pass labels as {name}."
        )
    labels = _as_labels(Y, name, classes)
    known = labels.classes if classes is None else as_names(classes)
    n_classes = labels.n_classes if known is None else len(known)
    if classes is not None:
        model = Batch(labels, n_classes, labels.items, known, name="the fitted model")
        labels = model.votes(labels, name)
    if X is None:
        rows: Any = labels
        items = labels.items
    else:
        rows = np.empty((_num_samples(X), 0))
        items = item_names(unmasked(X, "X"), "X")
        if items is None and _is_only_numbered(Y, name):
            labels = replace(labels, items=None)
    batch = Batch(rows, n_classes, items, known, name="X", remedy=ALIGN)
    found = batch.votes(labels, name)
    # Numbers 0, …, K − 1 are matched, but are no names.
    return replace(found, classes=None) if known is not None and is_default(known) else found


def _as_labels(Y: Any, name: str, classes: Any) -> Labels:
    """Read Y in its own order."""
    if not isinstance(Y, Named):
        array = np.asarray(unmasked(Y, name))
        if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
            return replace(_single_votes(array, name, classes), items=item_names(Y, name))
    return read_votes(Y, name)


def match_rows(values: Any, X: Any, name: str) -> Any:
    """Return values with one row per item of X, in their order, as `read_labels` does."""
    items = item_names(unmasked(X, "X"), "X")
    if items is None and _is_only_numbered(values, name):
        return values
    batch = Batch(np.empty((_num_samples(X), 0)), 0, items, name="X")
    return batch.per_item(values, name)


def _is_only_numbered(value: Any, name: str) -> bool:
    """Tell whether the index of a pandas object holds whole numbers; warn if in another order."""
    index = getattr(value, "index", None)
    if getattr(index, "dtype", None) != np.int64:
        return False
    own = item_names(value, name)
    if own is not None and set(own) == set(range(len(own))):
        warn(
            f"the items of {name} and X are matched by position, as only {name} has an index: "
            "its numbers are 0, 1, … in another order. Give both an index to match by name, or "
            "pass arrays."
        )
    return True


def class_array(labels: Labels) -> AnyArray:
    """Return the names of the classes, or 0, …, K − 1, as an array with unchanged entries."""
    plain = tuple(range(labels.n_classes)) if labels.classes is None else labels.classes
    array = np.asarray(plain)
    return array if array.ndim == 1 and array.tolist() == list(plain) else name_array(plain)


def _single_votes(labels: AnyArray, name: str, classes: Any) -> Labels:
    labels = column_or_1d(labels, warn=True)
    if len(labels) == 0:
        raise ValueError(f"{name} is empty. Pass at least one label.")
    assert_all_finite(labels, input_name=name)
    check_classification_targets(labels)
    order = np.unique(labels) if classes is None else np.asarray(classes)
    if classes is None and len(order) < 2:
        raise ValueError(
            f"{name} contains only one class ({order.tolist()[0]!r}): at least 2 are needed."
        )
    votes = (labels[:, None] == order[None, :]).astype(np.float64)
    unknown = ~votes.any(axis=1)
    if unknown.any():
        raise ValueError(
            f"{name} has the label {labels[unknown].tolist()[0]!r}, which is not one of "
            f"{order.tolist()}."
        )
    return Labels(votes, votes, classes=as_names(order))


def note_features(estimator: Any, X: Any, *, reset: bool) -> None:
    """Record (reset) or check the number and names of the features, or the name of a text column.

    Of a frame that does not only hold numbers, the kinds of its columns are recorded too.

    The inner estimator checks everything else.
    """
    unmasked(X, "X")
    is_text = (
        getattr(X, "ndim", 1) == 1
        and hasattr(X, "__iter__")
        and isinstance(next(iter(X), None), str)
    )
    if is_text and not reset and hasattr(estimator, "n_features_in_"):
        raise ValueError(
            f"X holds texts, but this model was fitted with {estimator.n_features_in_} "
            "numeric features."
        )
    if reset:
        for noted in NOTED:
            estimator.__dict__.pop(noted, None)
        if is_text:
            estimator.text_name_in_ = getattr(X, "name", None)
        kinds = _kinds_of_columns(X)
        if set(kinds) - {"number"}:
            estimator.feature_kinds_in_ = kinds
    if not is_text and not hasattr(estimator, "text_name_in_") and getattr(X, "ndim", 2) == 2:
        validate_data(estimator, X, reset=reset, skip_check_array=True)


def _kinds_of_columns(X: Any) -> tuple[str, ...]:
    """Return what the columns of a pandas frame hold: number, category or text."""
    if getattr(X, "ndim", 0) != 2 or not hasattr(X, "iloc"):
        return ()
    kinds = []
    for dtype in X.dtypes:
        if dtype.kind in "biuf":
            kinds.append("number")
        elif dtype.name == "category":
            kinds.append("category")
        else:
            kinds.append("text")
    return tuple(kinds)


def accepts_sparse(estimator: Any) -> bool:
    """Return whether an estimator declares that it accepts sparse features."""
    return hasattr(estimator, "__sklearn_tags__") and bool(get_tags(estimator).input_tags.sparse)


#: smaller probabilities are clipped, as in scikit-learn's log_loss
SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)


class SoftScoring:
    """Mixin that gives estimators with ``predict_proba`` the methods ``predict`` and ``score``."""

    def predict(self, X: Any) -> AnyArray:
        """Predict the most probable class of each item.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n,)
            Names of the classes, or their numbers if classes have no names.
        """
        best: AnyArray = self.predict_proba(X).argmax(axis=1)  # type: ignore[attr-defined]
        return np.asarray(self.classes_[best]) if hasattr(self, "classes_") else best

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        r"""Return minus the mean soft cross-entropy in nats.

        It is $\frac1n \sum_i \sum_k \lambda_{ik} \log g(x_i)_k$.

        Greater is better; ``GridSearchCV`` and ``cross_val_score`` maximise it by default. The
        value depends on the predicted distributions, not on the calibration.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        y : array of shape (n, K), Annotations, or array of n labels
            Label distributions, annotation counts, or one label per item.
        sample_weight : array of shape (n,), optional
            Weight of each item.

        Returns
        -------
        float
            The score, at most 0.
        """
        prediction = np.maximum(self.predict_proba(X), SMALLEST_PROBABILITY)  # type: ignore[attr-defined]
        labels = read_labels(y, X, classes=getattr(self, "classes_", None))
        logs = xlogy(labels.distributions, prediction).sum(axis=1)
        if sample_weight is not None:
            sample_weight = np.asarray(match_rows(sample_weight, X, "sample_weight"))
        return float(np.average(logs, weights=sample_weight))
