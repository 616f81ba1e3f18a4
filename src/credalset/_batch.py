"""Read a batch of items once: rows and columns of everything that comes with it are matched here.

The rule, for items (rows) and classes (columns) alike:

- What is named is matched by name.
- What has no names is in the order in which the caller gave the predictions, and is permuted
  together with them.
- What is partly named, names something unknown, or has names where the predictions have none, is
  refused, and the message says what to pass instead.

The index of a pandas object and the columns of any table are names, unless they are the default
0, 1, 2, …; what comes later without names of classes follows the order of the calibration.

Every public function reads its arguments at its first lines, with `read` for predictions and the
methods of the `Batch` for whatever belongs to them, and passes plain arrays to private functions,
which read nothing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from credalset._display import join_names, plural
from credalset._predictions import Named, PredictionBatch, map_arrays
from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import (
    as_counts,
    as_distributions,
    as_matrix,
    as_names,
    as_numbers,
    refuse_texts,
    unmasked,
)

Names = tuple[Any, ...]

#: what to do about names that do not match, by what they name
REMEDIES = {
    "items": "Select the items that both have, for instance frame[frame.index.isin(votes.items)]",
    "classes": "Spell the classes alike in both",
    "features": "Give both the same features",
    "columns": "Give both the same columns",
}


# --- names ---


def name_array(names: Any) -> AnyArray:
    """Return names as an array of objects, which holds them unchanged."""
    plain = as_names(names)
    return np.fromiter(plain, dtype=object, count=len(plain))


def take_names(names: Sequence[Any] | None, rows: Any) -> Names | None:
    """Index names as an array is indexed: by an int, a slice, a mask or positions."""
    if names is None:
        return None
    return tuple(names[i] for i in np.atleast_1d(np.arange(len(names))[rows]))


def is_default(names: Names) -> bool:
    """Tell whether names are the default 0, 1, 2, …, which are none."""
    return names == tuple(range(len(names)))


def item_names(value: Any, name: str = "predictions") -> Names | None:
    """Return the names of the rows, or None.

    Examples
    --------
    >>> import pandas as pd
    >>> item_names(pd.Series([1, 2], index=["t1", "t2"])), item_names(pd.Series([1, 2]))
    (('t1', 't2'), None)
    """
    if isinstance(value, Named):
        return None if value.items is None else as_names(value.items)
    index = _index(value)
    if index is None or (getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1):
        return None
    names = as_names(index)
    nameless = [row for row, key in enumerate(names) if key is None or key != key]
    if nameless:
        raise ValueError(
            f"{name} has rows without a name (first: row {nameless[0]}). Name all rows, or none."
        )
    return None if is_default(names) else names


def _index(value: Any) -> Any:
    """Return the index of a pandas object, or None; the method ``index`` of a list is none."""
    index = getattr(value, "index", None)
    return None if callable(index) else index


def class_names(value: Any, name: str = "predictions") -> Names | None:
    """Return the names of the columns of a frame or table, or None.

    Examples
    --------
    >>> import pandas as pd
    >>> class_names(pd.DataFrame([[0.5, 0.5]], columns=["no", "yes"]))
    ('no', 'yes')
    """
    if isinstance(value, Named):
        columns = value.classes
    elif hasattr(value, "column_names") and not hasattr(value, "iloc"):
        columns = value.column_names  # of pyarrow
    else:
        columns = getattr(value, "columns", None)
    if columns is None or callable(columns):
        return None
    names = as_names(columns)
    if len(set(names)) < len(names):
        raise ValueError(
            f"{name} names a class twice: {join_names(names, 8)}. Use different names."
        )
    return None if is_default(names) else names


def match_names(
    own: Names | None,
    wanted: Names | None,
    what: str,
    name: str,
    like: str,
    remedy: str | None = None,
) -> IntArray | None:
    """Return the positions of ``wanted`` in ``own``; None if the order is the same or one is None.

    Items of ``own`` that are not wanted are left out; classes and features must be the same. The
    remedy is that of `REMEDIES` unless another is given.
    """
    if own is None or wanted is None or own == wanted:
        return None
    position = {key: number for number, key in enumerate(own)}
    known = set(wanted)
    missing = [key for key in wanted if key not in position]
    more = [] if what == "items" else [key for key in own if key not in known]
    if missing and what == "items":
        has = "has" if len(missing) == 1 else "have"
        raise ValueError(
            f"{plural(len(missing), 'item')} of {like} {has} no {name}: {join_names(missing)}. "
            f"{remedy or REMEDIES[what]}."
        )
    if missing or more:
        lacks = [f"there is no {join_names(missing)} in {name}"] if missing else []
        lacks += [f"there is no {join_names(more)} in {like}"] if more else []
        raise ValueError(
            f"{name} and {like} name different {what}: {' and '.join(lacks)}. {REMEDIES[what]}."
        )
    if len(own) != len(position) or len(wanted) != len(known):
        raise ValueError(
            f"{name} and {like} have the same {what} in different orders, and repeated names. Use "
            "the same order, or different names."
        )
    return np.array([position[key] for key in wanted], dtype=np.int64)


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


# --- votes ---


class VoteTable(Named):
    """Base class of counts of votes with names, such as ``Annotations``."""

    counts: AnyArray
    scale: tuple[float, ...] | None


@dataclass(frozen=True, eq=False)
class Labels(Named):
    """Label distributions of the n items of a batch over its K classes, and the votes behind them.

    Attributes
    ----------
    distributions : ndarray of shape (n, K)
        Shares of votes, or distributions as they were given; NaN where an item has no votes.
    counts : ndarray of shape (n, K) or None
        Votes; None if only distributions are known.
    items, classes : tuple or None
        Names of the rows and of the columns.
    scale : tuple of K numbers or None
        Position of each class on an ordinal scale, in column order.
    n_unmatched : int
        Number of items that were given but are not in the batch.
    """

    distributions: FloatArray
    counts: FloatArray | None = None
    items: Names | None = None
    classes: Names | None = None
    scale: tuple[float, ...] | None = None
    n_unmatched: int = 0

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

    @property
    def has_votes(self) -> AnyArray:
        """Whether each item has a distribution, (n,) booleans."""
        return np.asarray(~np.isnan(self.distributions).any(axis=1))

    @property
    def n_votes(self) -> FloatArray | None:
        """Number of votes on each item, (n,); None if it is not known."""
        return None if self.counts is None else self.counts.sum(axis=1)

    def reorder(self, columns: IntArray) -> Labels:
        """Take the columns in the order given."""
        counts = None if self.counts is None else np.ascontiguousarray(self.counts[:, columns])
        return replace(
            self,
            distributions=np.ascontiguousarray(self.distributions[:, columns]),
            counts=counts,
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

    def scale_order(self) -> IntArray | None:
        """Return the columns in the order of their ordinal scale; None if they are in it."""
        return order_of_scale(self.scale)


def order_of_scale(scale: Sequence[float] | None) -> IntArray | None:
    """Return the columns in the order of their positions on a scale; None if they are in it."""
    if scale is None or all(low < high for low, high in pairwise(scale)):
        return None
    return np.argsort(scale, kind="stable")


def read_votes(votes: Any, name: str = "votes") -> Labels:
    """Read counts, distributions or ``Annotations`` as they come, in their own order.

    A matrix of whole numbers holds counts. Rows of zeros or NaN are items without votes.
    """
    if isinstance(votes, Labels):
        return votes
    items = item_names(votes, name)
    classes = class_names(votes, name)
    if isinstance(votes, VoteTable):
        return shares_of(votes.counts, name, items, classes, votes.scale)
    try:
        matrix = as_matrix(votes, name)
    except TypeError:
        if not hasattr(votes, "columns") or callable(votes.columns):
            raise
        raise TypeError(
            f"{name} is a table with texts in its cells. Rows of task, worker and label become "
            f"counts by cs.Annotations.from_table({name}). If its numbers are counts, the names of "
            f"the items belong into its index: {name}.set_index({str(votes.columns[0])!r})."
        ) from None
    known = matrix[~_without_votes(matrix)]
    if (known == np.floor(known)).all():
        return shares_of(matrix, name, items, classes)
    distributions = np.full(matrix.shape, np.nan)
    distributions[~_without_votes(matrix)] = as_distributions(known, name, or_counts=True)
    return Labels(distributions, None, items, classes)


def shares_of(
    matrix: AnyArray,
    name: str,
    items: Names | None = None,
    classes: Names | None = None,
    scale: tuple[float, ...] | None = None,
) -> Labels:
    """Return the labels of a matrix of whole numbers."""
    empty = _without_votes(matrix)
    if not empty.any():
        counts = as_counts(matrix, name)
        return Labels(counts / counts.sum(axis=1, keepdims=True), counts, items, classes, scale)
    counts = np.zeros(matrix.shape)
    counts[~empty] = as_counts(matrix[~empty], name)
    with np.errstate(invalid="ignore"):
        distributions = counts / counts.sum(axis=1, keepdims=True)  # NaN without votes
    return Labels(distributions, counts, items, classes, scale)


def _without_votes(matrix: AnyArray) -> AnyArray:
    """Tell which rows hold zeros, or NaN, only."""
    return np.isnan(matrix).all(axis=1) | (matrix == 0).all(axis=1)


def _names_of_last_axis(values: Any, name: str) -> Names | None:
    """Return the index of a series of one value per class, or the columns of a frame."""
    if np.ndim(values) != 1:
        return class_names(values, name)
    names = item_names(values, name)
    if names is not None and len(set(names)) < len(names):
        raise ValueError(
            f"{name} names a class twice: {join_names(names, 8)}. Use different names."
        )
    return names


# --- the batch ---


@dataclass(frozen=True, eq=False)
class Batch(Named):
    """N items over K classes, and how the rows and columns of what belongs to them are matched.

    Attributes
    ----------
    values : array of shape (N, K), PredictionBatch or anything with N rows
        What was predicted, columns in the order of ``classes``.
    n_classes : int
        Number of classes K.
    items, classes : tuple or None
        Names of the rows and of the columns.
    order : ndarray of shape (K,) or None
        Position of each column among those of the caller; None if the order is the caller's.
    name : str
        The argument, in messages.
    is_named : bool
        Whether the columns had names when they were passed.
    remedy : str or None
        What to do about items that have no votes; None for that of `REMEDIES`.
    """

    values: Any
    n_classes: int
    items: Names | None = None
    classes: Names | None = None
    order: IntArray | None = None
    name: str = "predictions"
    is_named: bool = False
    remedy: str | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Batch:
        return replace(self, values=self.values[rows], items=take_names(self.items, rows))

    def with_values(self, values: Any) -> Batch:
        """Return the batch with other values for the same rows and columns."""
        return replace(self, values=values)

    def reorder(self, columns: IntArray) -> Batch:
        """Take the columns in the order given, and those of nameless votes with them."""
        order = columns if self.order is None else self.order[columns]
        return replace(
            self,
            values=take_columns(self.values, columns),
            classes=take_names(self.classes, columns),
            order=order,
        )

    def votes(
        self, votes: Any, name: str = "votes", *, partial: bool = False, empty: bool = False
    ) -> Labels:
        """Return the votes on the items, rows and columns in the order of the batch.

        Votes on further items are not used. A class that the votes do not name has none.

        Parameters
        ----------
        votes : array of shape (N, K), data frame, Annotations or None
            Counts or label distributions; None if there are no votes at all.
        name : str
            Name of the argument in messages.
        partial : bool
            Whether votes may leave out items, which then have no votes.
        empty : bool
            Whether rows may be without votes; they may if items may be left out.
        """
        if votes is None:
            nothing = np.zeros((len(self), self.n_classes))
            return Labels(nothing + np.nan, nothing, self.items, self.classes)
        found = self._match_classes(read_votes(votes, name), name)
        found = self._match_items(found, name, _index(votes) is not None, partial)
        if not (partial or empty):
            self._refuse_empty(found, name)
        return replace(found, items=self.items, classes=self.classes)

    def candidates(self, distributions: Any, name: str) -> FloatArray:
        """Return M distributions that belong to no item, (M, K), with matched columns."""
        found = self._match_classes(read_votes(distributions, name), name)
        empty = np.flatnonzero(~found.has_votes)
        if len(empty):
            raise ValueError(
                f"{name} has no votes in {plural(len(empty), 'row')} (first: row {empty[0]})."
            )
        return found.distributions

    def per_item(self, values: Any, name: str) -> Any:
        """Return values with one entry, or row, per item, in the order of the items.

        A pandas object with names, or a mapping of items to values, is matched by name; values of
        further items are not used.
        """
        unmasked(values, name)
        if isinstance(values, Set):
            raise TypeError(f"{name} is a set, which has no order. Pass a list or a mapping.")
        if isinstance(values, Mapping):
            return self._per_named_item(values, name)
        if values is None or isinstance(values, str) or not hasattr(values, "__len__"):
            return values
        own = item_names(values, name)
        self._refuse_one_sided(own, "items", name, _index(values) is not None)
        rows = match_names(own, self.items, "items", name, self.name)
        if rows is None:
            return values
        return values.iloc[rows] if hasattr(values, "iloc") else values[rows]

    def _per_named_item(self, values: Mapping[Any, Any], name: str) -> list[Any]:
        keys = as_names(values)
        self._refuse_one_sided(keys, "items", name)
        rows = match_names(keys, self.items, "items", name, self.name)
        given = list(values.values())
        return given if rows is None else [given[row] for row in rows]

    def keys(self, values: Any, name: str) -> list[Any]:
        """Return the key of each item, such as its cluster, of which none may be missing."""
        found = self.column(values, name)
        for row, key in enumerate(found):
            if key is None or key != key:
                raise ValueError(
                    f"{name} has a missing value (first: row {row}). Give each item a key, of its "
                    "own if it belongs to no other."
                )
        return found

    def column(self, values: Any, name: str) -> list[Any]:
        """Return one value per item as a list, in the order of the items."""
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise TypeError(f"{name} must hold one value per item, but is {values!r}.")
        ordered = self.per_item(values, name)
        found = ordered.tolist() if hasattr(ordered, "tolist") else list(ordered)
        if len(found) != len(self):
            raise ValueError(
                f"{name} must hold one value for each of the {plural(len(self), 'item')} of "
                f"{self.name}, but holds {len(found)}."
            )
        return found

    def per_class(self, values: Any, name: str) -> FloatArray:
        """Return numbers of shape (K,) or (A, K), the last axis in the order of the classes.

        A series is matched by its index, the columns of a frame by their names.
        """
        array = as_numbers(values, name)
        own = _names_of_last_axis(values, name)
        self._refuse_one_sided(own, "classes", name)
        columns = match_names(own, self.classes, "classes", name, self.name)
        if own is None:
            columns = self.order
        if columns is not None and array.ndim and array.shape[-1] == self.n_classes:
            array = array[..., columns]
        return array

    def square(self, values: Any, name: str) -> FloatArray:
        """Return numbers of shape (K, K), a row and a column per class, in their order."""
        array = self.per_class(values, name)
        own = item_names(values, name)
        if (own is None) != (class_names(values, name) is None):
            raise ValueError(
                f"{name} names only its rows or only its columns, but both are classes. Name both "
                "alike, or pass an array in the order of the classes."
            )
        rows = (
            self.order
            if own is None
            else match_names(own, self.classes, "classes", name, self.name)
        )
        if rows is not None and len(array) == len(rows):
            array = array[rows]
        return array

    def matrix(self, values: Any, name: str) -> FloatArray:
        """Return numbers of shape (N, K), or (K,) for all items, matched as votes are."""
        if as_numbers(values, name).ndim == 2:
            values = self.per_item(values, name)
        return self.per_class(values, name)

    # --- how ---

    def _match_classes(self, found: Labels, name: str) -> Labels:
        self._refuse_one_sided(found.classes, "classes", name)
        if found.classes is None:
            if found.n_classes != self.n_classes:
                raise ValueError(
                    f"{name} has {found.n_classes} classes (columns), but there are "
                    f"{self.n_classes} in {self.name}."
                )
            return found if self.order is None else found.reorder(self.order)
        if found.classes == self.classes:
            return found
        wanted = self.classes or ()
        unknown = [key for key in found.classes if key not in set(wanted)]
        if unknown:
            raise ValueError(
                f"{name} and {self.name} name different classes: there is no {join_names(unknown)} "
                f"in {self.name}. {REMEDIES['classes']}."
            )
        missing = [key for key in wanted if key not in set(found.classes)]
        if missing:
            found = _with_columns_of_zeros(found, missing, name)
        columns = match_names(found.classes, wanted, "classes", name, self.name)
        return found if columns is None else found.reorder(columns)

    def _match_items(self, found: Labels, name: str, has_index: bool, partial: bool) -> Labels:
        self._refuse_one_sided(found.items, "items", name, has_index)
        if self.items is None or found.items is None:
            if len(found) != len(self):
                raise ValueError(
                    f"{name} must have one row for each item of {self.name} ({len(self)}), but has "
                    f"{len(found)}. Pass as many, or name the items of both."
                )
            return found
        if not partial or found.items == self.items:
            rows = match_names(found.items, self.items, "items", name, self.name, self.remedy)
            known = len(set(found.items) - set(self.items))
            return replace(found if rows is None else found[rows], n_unmatched=known)
        return self._look_up_items(found, name)

    def _look_up_items(self, found: Labels, name: str) -> Labels:
        """Return the votes on the items of the batch; items that are not named have none."""
        items = self.items or ()
        given = found.items or ()
        position = {key: row for row, key in enumerate(given)}
        if len(position) < len(given) or len(set(items)) < len(items):
            raise ValueError(
                f"{name} or {self.name} names an item twice. Give each item a name of its own."
            )
        rows = np.array([position.get(key, -1) for key in items], dtype=np.int64)
        if len(rows) and rows.max() < 0 and len(given):
            raise ValueError(
                f"{name} and {self.name} have no item in common: {join_names(given, 3)} and "
                f"{join_names(items, 3)}. Name the items of both alike."
            )
        there = rows >= 0
        distributions = np.full((len(rows), self.n_classes), np.nan)
        distributions[there] = found.distributions[rows[there]]
        counts = None
        if found.counts is not None:
            counts = np.zeros((len(rows), self.n_classes))
            counts[there] = found.counts[rows[there]]
        n_unmatched = len(given) - int(there.sum())
        return Labels(distributions, counts, items, found.classes, found.scale, n_unmatched)

    def _refuse_empty(self, found: Labels, name: str) -> None:
        empty = np.flatnonzero(~found.has_votes)
        if len(empty):
            known = take_names(self.items, empty) or tuple(empty.tolist())
            raise ValueError(
                f"{name} has no votes on {plural(len(empty), 'item')} of {self.name} (first: "
                f"{join_names(known, 3)}), which have no label distribution. Leave such "
                "items out."
            )

    def _refuse_one_sided(
        self, own: Names | None, what: str, name: str, has_index: bool = False
    ) -> None:
        """Refuse names where the batch has none: its rows, or columns, may be in another order."""
        known = self.items if what == "items" else self.classes
        if own is not None and known is None:
            how = "index" if what == "items" else "columns"
            raise ValueError(
                f"{name} names its {what} (first: {join_names(own, 3)}), but there are no names of "
                f"{what} in {self.name}, so that they cannot be matched. Pass {self.name} as a "
                f"data frame with these names as {how}; or, if the order is the same, pass {name} "
                "without names (to_numpy() of a frame, counts of Annotations)."
            )
        # A frame in the default order beside rows 2, 0, 1: by name and by position differ.
        is_numbered = own is None and known is not None and has_index
        if is_numbered and set(known or ()) == set(range(len(known or ()))):
            raise ValueError(
                f"{name} has the default index 0, 1, 2, …, and the {what} of {self.name} have the "
                f"same numbers in another order. Pass {name} without an index (to_numpy()) if "
                f"its rows are in the order of {self.name}, or give both the same index."
            )


def _with_columns_of_zeros(found: Labels, missing: Sequence[Any], name: str) -> Labels:
    """Add classes that nobody voted for."""
    if found.scale is not None:
        raise ValueError(
            f"{name} are on a scale that does not have the classes {join_names(missing)}. Read "
            "the votes with all levels: Annotations.from_table(..., scale=[...])."
        )
    extra = np.zeros((len(found), len(missing)))
    blank = np.where(found.has_votes[:, None], extra, np.nan)
    counts = None if found.counts is None else np.hstack([found.counts, extra])
    return replace(
        found,
        distributions=np.hstack([found.distributions, blank]),
        counts=counts,
        classes=(*(found.classes or ()), *missing),
    )


def take_columns(values: Any, columns: IntArray) -> Any:
    """Take columns of predictions: the last axis of an array, or of every array of a batch."""
    if isinstance(values, PredictionBatch):
        return values.take_classes(columns)
    return values[..., columns]


def read(
    predictions: Any,
    classes: Iterable[Any] | None = None,
    n_classes: int | None = None,
    name: str = "predictions",
) -> Batch:
    """Read predictions of N items over K classes, in the order of the given classes.

    The values are not checked: a score does so, see `Score.check_prediction`.

    Parameters
    ----------
    predictions : array of shape (N, K), data frame, table or PredictionBatch
        One row per item.
    classes : iterable of K names, optional
        Names of the classes in the wanted order; columns without names are in this order. By
        default the names and the order of the predictions.
    n_classes : int, optional
        Number of classes, if it is known: columns with names are refused where ``classes`` are
        not known.
    name : str
        Name of the argument in messages.

    Examples
    --------
    >>> import pandas as pd
    >>> shares = pd.DataFrame([[0.8, 0.2], [0.4, 0.6]], index=["t1", "t2"], columns=["no", "yes"])
    >>> batch = read(shares, classes=["yes", "no"])
    >>> votes = pd.DataFrame([[0, 4], [3, 1]], index=["t2", "t1"], columns=["no", "yes"])
    >>> batch.votes(votes).counts
    array([[1., 3.],
           [4., 0.]])
    >>> batch.votes([[3, 1], [0, 4]]).counts  # without names: in the order of the predictions
    array([[1., 3.],
           [4., 0.]])
    """
    if hasattr(predictions, "fit"):
        what = type(predictions).__name__
        raise TypeError(
            f"{name} must hold predictions, but is a {what}. Use "
            f"ConformalCredalClassifier({what}(...)) to calibrate a model."
        )
    unmasked(predictions, name)
    items = item_names(predictions, name)
    own = class_names(predictions, name)
    wanted = None if classes is None else as_names(classes)
    if own is not None and wanted is None and n_classes is not None:
        raise ValueError(
            f"{name} names the classes {join_names(own, 8)}, but the calibration has no names of "
            "classes. Calibrate with names, or pass the columns in the same order without names: "
            f"{name}.to_numpy()."
        )
    order = match_names(own, wanted, "classes", name, "classes")
    if isinstance(predictions, PredictionBatch):
        values: Any = map_arrays(predictions, np.asarray)
        width = values.n_classes
    else:
        values = _as_array(predictions, name)
        width = values.shape[-1]
    if order is not None:
        values = take_columns(values, order)
    if wanted is not None and len(wanted) != width:
        raise ValueError(
            f"{name} has {width} classes (columns), but there are {len(wanted)} classes: "
            f"{join_names(wanted, 8)}."
        )
    known = own if wanted is None else wanted
    return Batch(values, int(width), items, known, order, name, own is not None)


def _as_array(values: Any, name: str) -> FloatArray:
    """Return an array (N, K), or (N, M, K) for scores whose predictions have several parts."""
    refuse_texts(values, name)
    array = as_numbers(values, name, "Pass a numeric array of shape (n_items, n_classes).")
    return array if array.ndim == 3 else as_matrix(array, name)
