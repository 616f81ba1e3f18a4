"""Labels as every public door reads them: once, with their names.

"Votes or distributions?" is decided here and nowhere else, and so is which row and which column is meant: where names
of classes or items are known on both sides they count, and positions only where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import Checked, as_counts, as_distributions, as_matrix, sequential_row_sums
from credalset.annotations.naming import refuse_item_column

Names = tuple[Any, ...]
SELECTING = {"items": " (votes.select(frame.index), frame.loc[list(votes.items)])"}


class Numbers(tuple[Any, ...]):
    """Numbers of items that nobody has named, after some were taken: beside names of another kind they say nothing."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Label distributions of n items over K classes, the votes behind them and the names, where they are known.

    Attributes
    ----------
    distributions : ndarray of shape (n, K)
        Shares of votes, or distributions as they were given.
    counts : ndarray of shape (n, K) or None
        Votes, None if only distributions are known.
    classes : tuple or None
        Names of the classes in column order.
    items : sequence or None
        Names of the items in row order; a ``range`` for `Annotations` whose items nobody named.
    scale : tuple or None
        Names of the classes in the order of their scale, if they were declared to be levels of one.

    Examples
    --------
    >>> Labels.read([[3, 1], [0, 4]]).distributions
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    >>> Labels.read([[0.75, 0.25]]).counts is None
    True
    """

    distributions: FloatArray
    counts: FloatArray | None = None
    classes: Names | None = None
    items: Any = None
    scale: Names | None = None

    @classmethod
    def read(
        cls,
        value: Any,
        name: str = "labels",
        *,
        classes: Sequence[Any] | None = None,
        like: str = "prediction",
        n_classes: int | None = None,
    ) -> Labels:
        """Read distributions, annotation counts or ``Annotations``, their columns in the order of known classes.

        A matrix of whole numbers holds counts (a one-hot row is one vote: the same distribution either way); anything
        else must sum to one row by row.

        Parameters
        ----------
        value : array of shape (n, K), data frame, Annotations or Labels
            The labels. Labels that were read before are not checked again.
        name : str
            Argument name for messages.
        classes : sequence, optional
            Names that the columns are to follow; those of ``value`` stay if there are none.
        like : str
            Whose names these are, for messages.
        n_classes : int, optional
            Number of classes that is wanted, where no names are known.
        """
        wanted = None if classes is None else plain_names(classes)
        columns = order_by_name(column_names(value, name), wanted, name, like, "classes")
        found = value if isinstance(value, Labels) else _read(value, name, n_classes if wanted is None else len(wanted))
        if columns is not None:
            counts = None if found.counts is None else found.counts[:, columns]
            found = replace(found, distributions=np.ascontiguousarray(found.distributions[:, columns]), counts=counts)
        keeps = wanted is None or (found.classes is not None and _is_unnamed(wanted))
        return found if keeps else replace(found, classes=wanted)

    def matching(self, items: Any, name: str, like: str) -> Labels:
        """Put the rows into the order of the items of ``like``, where both have names."""
        if self.items is not None and items is not None and len(self) != len(items):
            raise ValueError(
                f"{name} has {len(self)} items and {like} {len(items)}. Take those that both have, by name: "
                "votes.select(frame.index), or frame.loc[list(votes.items)]."
            )
        rows = order_of_items(self.items, items, name, like)
        return self if rows is None else self[rows]

    def __len__(self) -> int:
        return len(self.distributions)

    def __getitem__(self, rows: Any) -> Labels:
        counts = None if self.counts is None else self.counts[rows]
        items: Any = None if self.items is None else [self.items[i] for i in np.arange(len(self))[rows]]
        if items is not None and isinstance(self.items, range | Numbers):
            items = Numbers(items)
        return replace(self, distributions=self.distributions[rows], counts=counts, items=items)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.distributions.shape[1])

    def class_names(self) -> AnyArray:
        """Return the names of the classes, or 0, …, K − 1, as an array that holds them unchanged."""
        names = tuple(range(self.n_classes)) if self.classes is None else self.classes
        array = np.asarray(names)
        return array if array.ndim == 1 and array.tolist() == list(names) else name_array(names)

    def votes(self, name: str, user: str) -> FloatArray:
        """Return the counts, refusing distributions: they do not tell how many votes they stand for.

        Examples
        --------
        >>> Labels.read([[3, 1]]).votes("labels", "AnnotatorSampling")
        array([[3., 1.]])
        """
        if self.counts is None:
            raise ValueError(
                f"{user} needs annotation counts, but {name} holds distributions, which do not tell the number of "
                "votes. Pass the counts (whole numbers), or Annotations made from votes."
            )
        return self.counts


def _read(value: Any, name: str, n_classes: int | None) -> Labels:
    named, items = column_names(value, name), row_names(value)
    if hasattr(value, "ballots"):
        levels = sorted(zip(value.scale or (), value.classes or range(value.n_classes), strict=False))
        scale = tuple(level for _, level in levels) or None
        counts = value.counts.astype(np.float64)
        return Labels(as_matrix(value.distributions, name, n_classes=n_classes), counts, named, items, scale)
    matrix = as_matrix(value, name, n_classes=n_classes)
    if not _is_whole(matrix):
        return Labels(as_distributions(value, name, or_counts=True), None, named, items)
    counts = as_counts(matrix, name)
    return Labels(counts / sequential_row_sums(counts)[:, None], counts, named, items)


def _is_whole(matrix: FloatArray) -> bool:
    """Tell whether a matrix holds whole numbers; NaN and infinity are for others to refuse."""
    first = matrix[:64]
    return bool((first == np.floor(first)).all() and (matrix == np.floor(matrix)).all())


def column_names(value: Any, name: str) -> Names | None:
    """Return the names of the classes that labels or predictions carry; 0, 1, … name nothing."""
    if isinstance(value, Labels):
        return value.classes
    if hasattr(value, "ballots"):
        names: Any = value.classes
    else:
        is_arrow = hasattr(value, "column_names") and not hasattr(value, "iloc")
        names = value.column_names if is_arrow else getattr(value, "columns", None)
    if names is None or callable(names):
        return None
    refuse_item_column(list(names), name)
    plain = distinct_names(names, name)
    return None if _is_unnamed(plain) else plain


def _is_unnamed(names: Names) -> bool:
    """Tell whether names are 0, 1, …, which is how tables call what nobody has named."""
    return names == tuple(range(len(names)))


def distinct_names(names: Any, name: str) -> Names:
    """Check that no class is named twice."""
    plain = plain_names(names)
    if len(set(plain)) < len(plain):
        raise ValueError(f"{name} names a class twice: {shown(plain)}. Give each class a name of its own.")
    return plain


def row_names(value: Any) -> Any:
    """Return the names of the items that a frame, a series or ``Annotations`` carries, None for plain arrays."""
    if isinstance(value, Checked | Labels):
        return value.items
    if hasattr(value, "ballots"):
        return value.items
    index = getattr(value, "index", None)
    return None if index is None or callable(index) else index


def with_columns(value: Any, own: Names | None, wanted: Names | None, name: str, like: str) -> Any:
    """Put the columns of a matrix or frame, which are called ``own``, into the order that is wanted."""
    order = order_by_name(own, wanted, name, like, "classes")
    if order is None:
        return value
    return value.iloc[:, order] if hasattr(value, "iloc") else np.asarray(value)[:, order]


def order_by_name(own: Names | None, wanted: Names | None, name: str, like: str, what: str) -> IntArray | None:
    """Return the positions that bring ``own`` into the order of ``wanted``, None where there is nothing to do.

    Names 0, 1, … are those that nobody chose: they say nothing beside other names.
    """
    if own is None or wanted is None or own == wanted:
        return None
    if (_is_unnamed(own) or _is_unnamed(wanted)) and set(own) != set(wanted):
        return None
    position, known = {key: number for number, key in enumerate(own)}, set(wanted)
    missing, more = [key for key in wanted if key not in position], [key for key in own if key not in known]
    if missing or more:
        lacks = f"{name} has no {shown(missing)}" if missing else ""
        has = f"{like} has no {shown(more)}" if more else ""
        raise ValueError(
            f"{name} and {like} name different {what} ({len(missing) + len(more)} in all): "
            f"{' and '.join(filter(None, (lacks, has)))}. Give both the same {what}{SELECTING.get(what, '')}, or "
            "arrays without names."
        )
    if len(position) < len(own) or len(known) < len(wanted):
        raise ValueError(
            f"{name} and {like} have the same {what} in different orders, and names that repeat, so that it is not "
            "clear which is which. Bring both into one order, or give them names that differ."
        )
    return np.array([position[key] for key in wanted], dtype=np.int64)


def order_of_items(own: Any, wanted: Any, name: str, like: str) -> IntArray | None:
    """Return the positions that bring items into the order that is wanted, None where positions count."""
    if own is None or wanted is None or len(own) != len(wanted):
        return None  # numbers of items are compared where both are known
    if hasattr(own, "equals") and own.equals(wanted):
        return None
    mine, theirs = plain_names(own), plain_names(wanted)
    for one, others in ((own, theirs), (wanted, mine)):
        if isinstance(one, Numbers) and not any(isinstance(name, int) for name in others):
            return None
    if mine != theirs and (isinstance(own, range) or isinstance(wanted, range)) and set(mine) == set(theirs):
        raise ValueError(
            f"{name} and {like} number the same {len(mine)} items in different orders, and it is not clear whether "
            "their numbers or their positions are meant. Name the items of both, or drop the index of the frame."
        )
    return order_by_name(mine, theirs, name, like, "items")


def in_item_order(values: Any, items: Any, name: str, like: str) -> Any:
    """Put one value, or row of values, per item into the order of the items, where both have names.

    Values of further items are left out, as one looks things up in a table that knows more.

    Examples
    --------
    >>> import pandas as pd
    >>> in_item_order(pd.Series({"t2": "hard", "t1": "easy"}), ["t1", "t2"], "groups", "prediction").tolist()
    ['easy', 'hard']
    """
    own = row_names(values)
    if own is not None and items is not None and len(own) > len(items):
        wanted, known = plain_names(items), plain_names(own)
        if len(set(known)) == len(known) and set(wanted) <= set(known) and not _is_unnamed(known):
            place = {key: row for row, key in enumerate(known)}
            rows: IntArray | None = np.array([place[key] for key in wanted], dtype=np.int64)
        else:
            rows = None
    else:
        rows = order_of_items(own, items, name, like)
    if rows is None:
        return values
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def plain_names(names: Any) -> Names:
    """Return names as a tuple of plain Python values, so that messages show 'a' and not np.str_('a')."""
    is_array = isinstance(names, np.ndarray) and names.dtype.kind in "mM"  # whose tolist makes numbers of dates
    values = names.tolist() if hasattr(names, "tolist") and not is_array else list(names)
    return tuple(v.item() if isinstance(v, np.str_ | np.bool_ | np.integer | np.floating) else v for v in values)


def shown(names: Sequence[Any], limit: int = 5) -> str:
    """Write out a few names for a message."""
    plain = plain_names(names)
    return ", ".join(map(repr, plain[:limit])) + (", …" if len(plain) > limit else "")


def name_array(names: Any) -> AnyArray:
    """Return names as an array of objects, which is indexed like any other array."""
    plain = plain_names(names)
    return np.fromiter(plain, dtype=object, count=len(plain))
