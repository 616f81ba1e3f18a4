"""Names of items and classes: matched by name where both sides have names, otherwise by position.

``items`` and ``classes`` are tuples of names, or None. Public functions read names here once and
pass on plain arrays. A default ``RangeIndex`` of pandas, and columns called 0, …, K − 1, are not
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import as_counts, as_distributions, as_matrix
from credalset.exceptions import warn

Names = tuple[Any, ...]
# Metadata of a Parquet file of votes: labels in order, with positions on a scale or null.
LABELS = "credalset.labels"

REMEDIES = {
    "items": "Select the items that have labels, frame[frame.index.isin(votes.items)]",
    "classes": "Give both the same classes",
    "features": "Give both the same features",
}


@dataclass(frozen=True, eq=False)
class Labels:
    """Label distributions of n items over K classes, with the votes and names behind them.

    Votes and names may be unknown.

    Attributes
    ----------
    distributions : ndarray of shape (n, K)
        Shares of votes, or distributions as they were given.
    counts : ndarray of shape (n, K) or None
        Votes, None if only distributions are known.
    items, classes : tuple or None
        Names of the rows and of the columns.
    scale : tuple of K numbers or None
        Position of each class on an ordinal scale, in column order.
    """

    distributions: FloatArray
    counts: FloatArray | None = None
    items: Names | None = None
    classes: Names | None = None
    scale: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self.distributions)

    def __getitem__(self, rows: Any) -> Labels:
        counts = None if self.counts is None else self.counts[rows]
        return replace(
            self,
            distributions=self.distributions[rows],
            counts=counts,
            items=take_names(self.items, rows),
        )

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.distributions.shape[1])

    def reorder(self, columns: IntArray) -> Labels:
        """Take the columns in the order given."""
        return replace(
            self,
            distributions=np.ascontiguousarray(self.distributions[:, columns]),
            counts=None if self.counts is None else np.ascontiguousarray(self.counts[:, columns]),
            classes=take_names(self.classes, columns),
            scale=take_names(self.scale, columns),
        )

    def votes(self, name: str, user: str) -> FloatArray:
        """Return the counts, refusing distributions without numbers of votes."""
        if self.counts is None:
            raise ValueError(
                f"{user} needs annotation counts, but {name} holds distributions. Pass the counts "
                "(whole numbers), or Annotations."
            )
        return self.counts

    def scale_order(self, has_names: bool, name: str = "labels") -> IntArray | None:
        """Return the columns in the order of their ordinal scale.

        None if they are in it, or have no scale.

        Columns of predictions without names cannot be reordered, because later predictions have no
        names either.
        """
        if self.scale is None or all(a < b for a, b in pairwise(self.scale)):
            return None
        order = np.argsort(self.scale, kind="stable")
        if not has_names:
            levels = np.array(self.classes or range(self.n_classes), dtype=object)[order]
            raise ValueError(
                f"{name} are on the scale {join_names(levels, 8)}, but the columns are in another "
                "order. Pass predictions as a frame with class names, or put the columns of both "
                "into the order of the scale."
            )
        return order

    def in_scale_order(self, has_names: bool = True, name: str = "labels") -> Labels:
        """Return labels with their columns in ordinal scale order; see `scale_order`."""
        order = self.scale_order(has_names, name)
        return self if order is None else self.reorder(order)


def read_labels(
    labels: Any,
    *,
    items: Iterable[Any] | None = None,
    classes: Iterable[Any] | None = None,
    n_classes: int | None = None,
    name: str = "labels",
    like: str = "prediction",
    by_position: bool = True,
) -> Labels:
    """Read distributions, counts or ``Annotations``, in the order of given items and classes.

    Rows and columns are matched by name if both sides have names, otherwise by position; further
    items are not used. A matrix of whole numbers holds counts; the rows of any other must sum to
    one.

    Parameters
    ----------
    labels : array of shape (n, K), data frame, Annotations or Labels
        The labels. ``Labels`` are not validated again.
    items, classes : iterable, optional
        Names in the order of the result.
    n_classes : int, optional
        Number of classes, if names are unknown.
    name, like : str
        The labels, and the argument with these items and classes, in messages.
    by_position : bool
        Whether frames with names match by position if ``items`` is None; ``Annotations`` never do.

    Examples
    --------
    >>> import pandas as pd
    >>> counts = pd.DataFrame([[3, 1], [0, 4]], index=["t1", "t2"], columns=["no", "yes"])
    >>> read_labels(counts, items=["t2", "t1"], classes=["yes", "no"]).counts
    array([[4., 0.],
           [1., 3.]])
    """
    wanted = None if classes is None else as_names(classes)
    own = class_names(labels, name)
    n_classes = n_classes if wanted is None else len(wanted)
    wanted = _names_for(own, wanted)
    if wanted is None and n_classes is not None:
        warn_of_numbers(own, "classes", name, like)
    columns = match_names(own, wanted, "classes", name, like)
    found = labels if isinstance(labels, Labels) else _read(labels, name)
    if n_classes is not None and found.n_classes != n_classes:
        raise ValueError(
            f"{name} has {found.n_classes} classes (columns), but {like} has {n_classes}."
        )
    found = replace(
        found if columns is None else found.reorder(columns), classes=wanted or found.classes
    )
    if items is None:
        refuse_names(labels, name, like, by_position=by_position)
    keys = None if items is None else as_names(items)
    if (keys is None) != (found.items is None):
        warn_of_numbers(keys or found.items, "items", name, like)
    if (rows := match_names(found.items, keys, "items", name, like)) is not None:
        found = found[rows]
    if keys is not None and len(keys) != len(found):
        raise ValueError(
            f"{name} has {len(found)} rows, but {like} has {len(keys)} items. Pass one row "
            "per item."
        )
    return found if keys is None else replace(found, items=keys)


def refuse_names(labels: Any, name: str, like: str, *, by_position: bool = True) -> None:
    """Refuse ``Annotations`` with names of items beside predictions without.

    They have an order of their own.

    Frames are matched by position, as in scikit-learn, unless ``by_position`` is False.
    """
    items = item_names(labels)
    classes = class_names(labels, name)
    is_frame = isinstance(labels, Labels) or not isinstance(
        getattr(labels, "distributions", None), np.ndarray
    )
    if items is not None and not (is_frame and by_position):
        columns = "" if classes is None else f", with the columns {join_names(classes, 20)}"
        raise ValueError(
            f"{name} has names of items (first: {join_names(items, 2)}), but {like} has none. "
            f"Pass {like} as a frame with these names as index, or {name} as an array in the "
            f"order of {like}{columns}: votes.align(X.index).counts."
        )


def warn_of_numbers(names: Names | None, what: str, name: str, like: str) -> None:
    """Warn of names 0, 1, … in another order that are matched by position.

    They are if the other side has no names.
    """
    if names is not None and not is_unnamed(names) and set(names) == set(range(len(names))):
        warn(
            f"the {what} of {name} and {like} are matched by position, as only one of them "
            "has names; its names are "
            "0, 1, … in another order. Name both to match by name, or pass arrays."
        )


def _read(value: Any, name: str) -> Labels:
    own = item_names(value)
    named = class_names(value, name)
    if isinstance(getattr(value, "distributions", None), np.ndarray):  # Annotations
        return Labels(
            value.distributions, np.asarray(value.counts, dtype=np.float64), own, named, value.scale
        )
    matrix = as_matrix(value, name)
    if not (matrix == np.floor(matrix)).all():
        return Labels(as_distributions(value, name, or_counts=True), None, own, named)
    counts = as_counts(matrix, name)
    return Labels(counts / counts.sum(axis=1, keepdims=True), counts, own, named)


def item_names(value: Any) -> Names | None:
    """Return the names of the items of a frame, a series, ``Annotations``, sets or labels, or None.

    Examples
    --------
    >>> import pandas as pd
    >>> item_names(pd.Series([1, 2], index=["t1", "t2"]))
    ('t1', 't2')
    >>> item_names(pd.Series([1, 2])), item_names([[0.5, 0.5]])
    (None, None)
    """
    own = getattr(value, "items", None)
    if own is not None and not callable(own):
        return as_names(own)
    index = getattr(value, "index", None)
    if (
        index is None
        or callable(index)
        or (getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1)
    ):
        return None
    return as_names(index)


def class_names(value: Any, name: str = "labels") -> Names | None:
    """Return the names of the columns of a frame, table, ``Annotations``, sets or labels, or None.

    Examples
    --------
    >>> import pandas as pd
    >>> class_names(pd.DataFrame([[0.5, 0.5]], columns=["no", "yes"]))
    ('no', 'yes')
    >>> class_names(pd.DataFrame([[0.5, 0.5]]))
    """
    columns = getattr(value, "classes", None)
    if not isinstance(columns, tuple):
        is_arrow = hasattr(value, "column_names") and not hasattr(value, "iloc")
        columns = value.column_names if is_arrow else getattr(value, "columns", None)
    if columns is None or callable(columns):
        return None
    names = as_names(columns)
    if len(set(names)) < len(names):
        raise ValueError(
            f"{name} names a class twice: {join_names(names, 8)}. Use different names."
        )
    return None if is_unnamed(names) else names


def is_unnamed(names: Names) -> bool:
    """Tell whether names are the default 0, …, K − 1."""
    return names == tuple(range(len(names)))


def _names_for(own: Names | None, wanted: Names | None) -> Names | None:
    """Return the names to match, None for 0, …, K − 1 unless ``own`` holds the same numbers."""
    return (
        None if wanted is None or (is_unnamed(wanted) and set(own or ()) != set(wanted)) else wanted
    )


def match_names(
    own: Names | None, wanted: Names | None, what: str, name: str, like: str
) -> IntArray | None:
    """Return the positions of ``wanted`` in ``own``; None if the order is the same or names lack.

    Items of ``own`` that are not wanted are left out; classes and features must be the same. Raises
    ``ValueError`` for missing names, and for repeated names in different orders.
    """
    if own is None or wanted is None or own == wanted:
        return None
    position = {key: number for number, key in enumerate(own)}
    known = set(wanted)
    missing = [key for key in wanted if key not in position]
    more = [] if what == "items" else [key for key in own if key not in known]
    if missing or more:
        lacks = [f"{name} has no {join_names(missing)}"] if missing else []
        lacks += [f"{like} has no {join_names(more)}"] if more else []
        fault = f"{name} and {like} name different {what}: {' and '.join(lacks)}"
        if what == "items":
            has = "has" if len(missing) == 1 else "have"
            fault = (
                f"{plural(len(missing), 'item')} of {like} {has} no {name}: {join_names(missing)}"
            )
        raise ValueError(f"{fault}. {REMEDIES[what]}.")
    if len(own) != len(position) or len(wanted) != len(known):
        raise ValueError(
            f"{name} and {like} have the same {what} in different orders, and repeated names. Use "
            "the same order, or different names."
        )
    return np.array([position[key] for key in wanted], dtype=np.int64)


def order_columns(
    value: Any, classes: Names | None, name: str = "prediction", like: str = "labels"
) -> Any:
    """Reorder the columns of predictions as the classes, if both have names.

    Examples
    --------
    >>> import pandas as pd
    >>> order_columns(pd.DataFrame([[0.2, 0.8]], columns=["b", "a"]), ("a", "b"))
         a    b
    0  0.8  0.2
    """
    own = class_names(value, name)
    wanted = _names_for(own, classes)
    if wanted is None:
        warn_of_numbers(own, "classes", name, like)
    columns = match_names(own, wanted, "classes", name, like)
    if columns is None:
        return value
    return value.iloc[:, columns] if hasattr(value, "iloc") else np.asarray(value)[:, columns]


def per_item(values: Any, items: Iterable[Any] | None, name: str, like: str = "prediction") -> Any:
    """Put a column with one value or row per item (groups, weights, costs) into the items' order.

    Matched by name where both have names, else by position; values of further items are not used.

    Examples
    --------
    >>> import pandas as pd
    >>> groups = pd.Series({"t2": "hard", "t1": "easy", "t3": "easy"})
    >>> per_item(groups, ["t1", "t2"], "groups").tolist()
    ['easy', 'hard']
    """
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values. Fill them in, or leave these items out.")
    own = item_names(values)
    if own is None or items is None:
        if hasattr(values, "iloc"):
            warn_of_numbers(own if items is None else as_names(items), "items", name, like)
        return values
    rows = match_names(own, as_names(items), "items", name, like)
    if rows is None:
        return values
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def find_rows(wanted: Any, items: Names | None, name: str = "items") -> IntArray:
    """Return the positions of items that are given by name, in the order given.

    Examples
    --------
    >>> find_rows(["c", "a"], ("a", "b", "c"))
    array([2, 0])
    """
    if items is None:
        raise ValueError(
            f"{name} are given by name, but the items here have no names. Use positions."
        )
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise TypeError(f"{name} must be a list of names, but is {wanted!r}.")
    position: dict[Any, int] = {}
    for number, key in enumerate(items):
        if position.setdefault(key, number) != number:
            raise ValueError(f"the item {key!r} occurs twice here. Use positions.")
    keys = as_names(wanted)
    unknown = [key for key in keys if key not in position]
    if unknown:
        raise ValueError(
            f"{name} has {len(unknown)} of {len(keys)} names that are unknown (first: "
            f"{join_names(unknown)}; known: {join_names(items, 3)}). Pass names of the same type "
            "and spelling: '7' is neither 7 nor '07'."
        )
    return np.array([position[key] for key in keys], dtype=np.int64)


def take_names(names: Sequence[Any] | None, rows: Any) -> Names | None:
    """Index names as an array is indexed: by an int, a slice, a mask or positions."""
    return (
        None
        if names is None
        else tuple(names[i] for i in np.atleast_1d(np.arange(len(names))[rows]))
    )


def as_names(names: Any) -> Names:
    """Return names as a tuple of plain Python values: ``'a'``, not ``np.str_('a')``."""
    is_dates = (
        isinstance(names, np.ndarray) and names.dtype.kind in "mM"
    )  # whose tolist makes numbers of dates
    values = names.tolist() if hasattr(names, "tolist") and not is_dates else list(names)
    return tuple(
        v.item() if isinstance(v, np.str_ | np.bool_ | np.integer | np.floating) else v
        for v in values
    )


def name_array(names: Any) -> AnyArray:
    """Return names as an array of objects, which holds them unchanged."""
    plain = as_names(names)
    return np.fromiter(plain, dtype=object, count=len(plain))


def plural(number: int, noun: str) -> str:
    """Write a number of things: "1 item", "2 items"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def join_names(names: Iterable[Any], limit: int = 5) -> str:
    """Write out a few names for a message.

    Examples
    --------
    >>> join_names(["a", "b", "c"], 2)
    "'a', 'b', …"
    """
    plain = as_names(names)
    return ", ".join(map(repr, plain[:limit])) + (", …" if len(plain) > limit else "")
