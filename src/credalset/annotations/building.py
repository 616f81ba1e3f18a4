"""Ways to make `Annotations`: tables, wide tables, records, counts, distributions.

Tables are read by duck typing, so pandas, polars and pyarrow are never imported here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from credalset._guessing import Hinting
from credalset._typing import AnyArray, ArrayLike
from credalset._validation import as_counts, as_distributions, as_matrix
from credalset.annotations.ballots import Ballots
from credalset.annotations.counting import (
    LARGEST_EXACT_COUNT,
    Counted,
    Duplicates,
    Fault,
    Rules,
    count_votes,
    drop_unreadable_times,
    recover_counts,
)
from credalset.annotations.naming import refuse_item_column, tidied
from credalset.annotations.odd_labels import warn_of_odd_labels
from credalset.annotations.records import are_votes, as_count_matrix, as_votes, check_records
from credalset.annotations.scale import Positions, find_positions
from credalset.annotations.single_labels import SingleLabels
from credalset.annotations.spelling import Spelling
from credalset.annotations.table import (
    Column,
    Names,
    align,
    as_list,
    as_names,
    categories_of,
    default_classes,
    find_columns,
    has_ordered_categories,
    without,
)
from credalset.annotations.wide import decode, melt, refuse_wide
from credalset.exceptions import warn


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Building(Hinting):
    """What annotations consist of, and every way to build them."""

    classes: tuple[Hashable, ...]
    items: tuple[Hashable, ...]
    _matrix: AnyArray  # int64 counts; float64 weights if weighted, else float64 distributions: counts are unknown
    _weighted: bool = False
    _positions: Positions | None = None
    _ballots: Ballots | None = None
    origin: str | None = None
    _numbered: bool = False  # a selection of items that nobody had named: their names are where they stood

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        task: Hashable = "task",
        worker: Hashable | None = "worker",
        label: Hashable = "label",
        time: Hashable | None = None,
        weight: Hashable | None = None,
        classes: Names | None = None,
        items: Names | None = None,
        ordered: bool | None = None,
        positions: Sequence[float] | None = None,
        one_vs_rest: Hashable | None = None,
        duplicates: Duplicates = "last",
        unknown: Fault = "error",
        missing: Fault = "error",
        tidy: bool = False,
        empty: Iterable[Any] = (),
        rename: Mapping[Any, Hashable] | None = None,
    ) -> Self:
        """Count the votes of a long table with one row per vote (the crowd-kit convention).

        Missing values are handled first, then unknown labels and tasks, then repeated votes, so that an unusable
        row never overrules a usable one. An item that loses all its votes stays as an empty item.

        Parameters
        ----------
        table : pandas, polars or pyarrow table, mapping of columns, or list of rows
            Rows are dicts, or tuples (task, worker, label), or (task, label) where the worker is not known.
        task, worker, label : column names
            Found by their usual names (item_id, annotator, rating, …) where these are missing. With ``worker=None``, or
            in a table without such a column, workers are not known: every row is one vote, as repeated votes cannot be
            told apart, and ``duplicates="error"`` is refused.
        time : column name, optional
            When a vote was cast (numbers, dates or ISO 8601 texts): decides which vote is the first and which the last.
            Found by its usual names (created_at, timestamp, …) where it can be understood; without it the order of the
            rows decides.
        weight : column name, optional
            What each vote counts, fractions allowed. The numbers of votes are then unknown (`has_counts` is False):
            shares and `weights` are all there is.
        classes : iterable, optional
            Class names in the wanted order. By default the categories, in their order, of a pandas
            Categorical, polars Enum or ordered Arrow dictionary; otherwise the labels that occur, sorted.
        items : iterable, optional
            Item names in the wanted order; those without a vote become empty items (rows of zeros, see
            `drop_empty`). By default the tasks in order of first appearance.
        ordered : bool, optional
            Whether the classes are levels of a scale, see `positions`. By default so for ordered categories.
        positions : sequence of increasing numbers, optional
            Where the levels stand, one number per class. Implies ``ordered=True``.
        one_vs_rest : label, optional
            Ask of every vote whether it is for this label. The way to treat labels that are lists (several chosen at
            once), which are refused otherwise: one question per label.
        duplicates : {"last", "first", "error", "keep"}
            Several votes of one worker on one task: count the last (a correction), the first, raise, or keep and count
            every one.
        unknown : {"error", "drop"}
            Rows whose label is not in ``classes`` or whose task is not in ``items``: raise or leave out.
        missing : {"error", "drop"}
            Rows where task, worker, label or weight is None, NaN, NaT, ``pandas.NA`` or null: raise or leave out.
        tidy : bool
            Read labels in lower case, with single spaces and none around them; spelt as in ``classes``, if these are
            given.
        empty : iterable
            Further values of the label column that mark a missing label, such as "?".
        rename : mapping, optional
            Other names for labels, by the names they have; before they are tidied.

        Examples
        --------
        >>> from credalset.annotations import Annotations
        >>> rows = [("t1", "ann", "cat"), ("t1", "ann", "dog"), ("t2", "bob", "dog")]
        >>> Annotations.from_table(rows, duplicates="first", items=["t2", "t1", "t3"]).counts
        array([[0, 1],
               [1, 0],
               [0, 0]])
        """
        rules = Rules(duplicates, unknown, missing, tidy)
        names = {"task": task, "worker": worker, "label": label, "time": time, "weight": weight}
        raw = find_columns(table, names)
        single = SingleLabels(tidied(one_vs_rest) if tidy else one_vs_rest, classes)
        spelling, given = Spelling(rename, tidy), raw["label"]
        labels = spelling(without(as_list(given), empty))
        declared = categories_of(given)
        if declared is not None:
            declared = [name for name in dict.fromkeys(spelling(without(declared, empty))) if name is not None]
        spelling.check()
        columns = {role: Column.encode(role, column) for role, column in raw.items() if role != "label"}
        if time is None:
            drop_unreadable_times(columns)
        columns["label"] = Column.encode("label", single(labels, lambda row: f"Row {row} of label"))
        single.check()
        wanted = single.classes or classes
        known = wanted if wanted is not None else declared or default_classes(columns["label"])
        counted = count_votes(columns, known, items, rules)
        if wanted is None:
            warn_of_odd_labels(counted.classes, counted.matrix.sum(axis=0))
        inferred = wanted is None and has_ordered_categories(given)
        places = find_positions(counted.classes, ordered, positions, inferred)
        return cls._counted(counted, "weight" in columns, places)

    @classmethod
    def from_wide(
        cls,
        table: Any,
        *,
        task: Hashable | None = None,
        worker: Iterable[Hashable] | None = None,
        classes: Names | None = None,
        items: Names | None = None,
        empty: Iterable[Any] = (),
        ordered: bool | None = None,
        positions: Sequence[float] | None = None,
        one_vs_rest: Hashable | None = None,
        unknown: Fault = "error",
        tidy: bool = False,
        rename: Mapping[Any, Hashable] | None = None,
    ) -> Self:
        """Count the votes of a wide table: a row per item, a column per annotator, labels or codes in the cells.

        This is the shape that cleanlab takes. Empty cells (None, NaN, empty text) are no votes; an item without any
        stays as an empty item.

        Parameters
        ----------
        table : pandas, polars or pyarrow table, mapping of columns, 2-d array or list of rows
            The columns are the annotators.
        task : column name, optional
            The column that names the items. By default one with a usual name (task, item_id, id, …), else the index of
            a pandas frame, else 0, 1, 2, …
        worker : iterable of column names, optional
            The annotators. By default every column but that of the items.
        classes : iterable, optional
            Class names in the wanted order. Cells hold these names or, where none of them occurs, codes 0 … K − 1.
        items : iterable, optional
            Item names in the wanted order, as in `from_table`.
        empty : iterable
            Further values that mark an empty cell, such as -1.
        ordered, positions, one_vs_rest, unknown, tidy, rename
            As in `from_table`.

        Examples
        --------
        >>> from credalset.annotations import Annotations
        >>> nan = float("nan")
        >>> Annotations.from_wide([[0, 0, nan], [1, nan, 2]], classes=["cat", "dog", "fox"]).counts
        array([[2, 0, 0],
               [0, 1, 1]])
        """
        votes, rows = melt(table, task, empty, worker)
        names = None if classes is None else as_names(classes, "classes")
        votes["label"] = decode(votes["label"], names)
        return cls.from_table(
            votes,
            classes=names,
            items=rows if items is None else items,
            ordered=ordered,
            positions=positions,
            one_vs_rest=one_vs_rest,
            unknown=unknown,
            missing="drop",  # cells that hold nothing but spaces, once these are gone
            tidy=tidy,
            rename=rename,
        )

    @classmethod
    def from_records(
        cls,
        records: Any,
        *,
        task: Hashable = "task",
        worker: Hashable | None = "worker",
        label: Hashable = "label",
        time: Hashable | None = None,
        weight: Hashable | None = None,
        weighted: bool = False,
        classes: Names | None = None,
        items: Names | None = None,
        **options: Any,
    ) -> Self:
        """Count votes that come as plain Python: dicts of votes, or of counts.

        Parameters
        ----------
        records : list of dicts, or dict by item
            Votes, such as ``{"task": "t1", "worker": "ann", "label": "cat"}``; or counts by class, such as
            ``{"cat": 3, "dog": 1}``, one dict per item; or, by item, such counts or lists of labels.
        task, worker, label, time, weight : keys
            Where a vote holds them, as in `from_table`.
        weighted : bool
            Counts may be fractions, see `from_counts`.
        classes, items : iterable, optional
            Names, as in `from_table` for votes and as in `from_counts` for counts.
        **options
            ``ordered``, ``positions``; for votes everything else that `from_table` takes.

        Examples
        --------
        >>> from credalset.annotations import Annotations
        >>> Annotations.from_records({"t1": {"cat": 3, "dog": 1}, "t2": {"dog": 2}}).counts
        array([[3, 1],
               [0, 2]])
        >>> Annotations.from_records({"t1": ["cat", "cat", "dog"], "t2": ["dog"]})
        Annotations(2 items, 2 classes: 'cat', 'dog'; 4 votes, 1 to 3 per item)
        """
        found = check_records(records)
        names: dict[str, Any] = {"task": task, "worker": worker, "label": label, "time": time, "weight": weight}
        if isinstance(found, list) and (not found or are_votes(found[0], names)):
            return cls.from_table(found, classes=classes, items=items, **names, **options)
        if isinstance(found, Mapping) and not any(isinstance(value, Mapping) for value in found.values()):
            items = list(found) if items is None else items
            return cls.from_table(as_votes(found), classes=classes, items=items, **options)
        matrix, class_names, item_names = as_count_matrix(found, classes)
        if items is None:
            items = item_names
        elif isinstance(found, dict):
            items, order = align(item_names, items, "items", len(item_names))
            matrix = matrix[order]
        return cls.from_counts(matrix, classes=class_names, items=items, weighted=weighted, **options)

    @classmethod
    def from_counts(
        cls,
        counts: Any,
        *,
        classes: Names | None = None,
        items: Names | None = None,
        weighted: bool = False,
        ordered: bool | None = None,
        positions: Sequence[float] | None = None,
    ) -> Self:
        """Wrap a count matrix of shape (n, K). Rows of zeros become empty items (see `drop_empty`).

        Parameters
        ----------
        counts : array-like or data frame of shape (n, K)
            Non-negative whole numbers. The column names of a data frame name the classes, the index of a
            pandas one names the items.
        classes, items : iterable, optional
            Names; 0, 1, 2, … by default. Columns or rows of a data frame that has the same names in another
            order are put into the order given here; its default names 0, 1, 2, … are replaced.
        weighted : bool
            The numbers are sums of weights rather than of votes, and may be fractions: `has_counts` is then False.
        ordered, positions
            A scale of levels, as in `from_table`; its unused levels stay.

        Examples
        --------
        >>> from credalset.annotations import Annotations
        >>> Annotations.from_counts([[3, 1], [0, 5]], classes=["no", "yes"])
        Annotations(2 items, 2 classes: 'no', 'yes'; 9 votes, 4 to 5 per item)
        """
        columns = getattr(counts, "column_names", getattr(counts, "columns", ()))
        refuse_item_column(columns, "counts")
        try:
            matrix = as_matrix(counts, "counts")
            # as_counts refuses empty items, which are welcome here, and fractions, which weights may be.
            plain = np.where(matrix.any(axis=1, keepdims=True), matrix, 1.0)
            as_counts(np.where(plain > 0, np.ceil(plain), plain) if weighted else plain, "counts")
        except (TypeError, ValueError) as error:
            refuse_wide(counts, "counts", error)
            raise
        refuse_wide(counts, "counts")
        if matrix.size and matrix.max() >= LARGEST_EXACT_COUNT:
            raise ValueError(f"counts holds {matrix.max():.6g}, too large for a number of votes. Check the units.")
        if len(columns) == 0 and classes is None and items is None and (empty := (matrix == 0).all(axis=1)).any():
            warn(
                f"counts has no votes at all in {empty.sum()} of {len(matrix)} rows. If its columns are annotators and "
                "0 is the code of a label, use Annotations.from_wide; .drop_empty() leaves such items out."
            )
        values = matrix if weighted else matrix.astype(np.int64)
        return cls._named(counts, values, classes, items, ordered, positions, weighted)

    @classmethod
    def from_distributions(
        cls,
        distributions: Any,
        *,
        n_votes: ArrayLike | None = None,
        classes: Names | None = None,
        items: Names | None = None,
        ordered: bool | None = None,
        positions: Sequence[float] | None = None,
    ) -> Self:
        """Wrap label distributions of shape (n, K), with or without the numbers of votes behind them.

        Parameters
        ----------
        distributions : array-like or data frame of shape (n, K)
            Rows sum to one. Names are read from a data frame as in `from_counts`.
        n_votes : int or array-like of shape (n,), optional
            Votes per item. The counts are then ``distributions * n_votes``, which must be whole numbers to
            within 0.001. Without it the counts stay unknown and `counts` raises.
        classes, items : iterable, optional
            Names, as in `from_counts`.
        ordered, positions
            A scale of levels, as in `from_table`.

        Examples
        --------
        >>> from credalset.annotations import Annotations
        >>> Annotations.from_distributions([[0.75, 0.25], [0.5, 0.5]], n_votes=4).counts
        array([[3, 1],
               [2, 2]])
        """
        matrix = as_distributions(distributions, "distributions")
        values = matrix if n_votes is None else recover_counts(matrix, n_votes)
        return cls._named(distributions, values, classes, items, ordered, positions)

    @classmethod
    def _counted(cls, counted: Counted, weighted: bool, positions: Positions | None, origin: str | None = None) -> Self:
        return cls(
            classes=counted.classes,
            items=counted.items,
            _matrix=counted.matrix,
            _weighted=weighted,
            _positions=positions,
            _ballots=counted.ballots,
            origin=origin,
        )

    @classmethod
    def _named(
        cls,
        source: Any,
        matrix: AnyArray,
        classes: Names | None,
        items: Names | None,
        ordered: bool | None,
        positions: Sequence[float] | None,
        weighted: bool = False,
    ) -> Self:
        columns = getattr(source, "column_names", getattr(source, "columns", None))
        index = None if columns is None else getattr(source, "index", None)
        class_names, column_order = align(columns, classes, "classes", matrix.shape[1])
        item_names, row_order = align(index, items, "items", matrix.shape[0])
        if classes is None:
            warn_of_odd_labels(class_names, matrix[:, column_order].sum(axis=0), empty=None)
        # Indexing by arrays copies, so later changes to the source do not reach the annotations.
        return cls(
            classes=class_names,
            items=item_names,
            _matrix=matrix[row_order][:, column_order],
            _weighted=weighted,
            _positions=find_positions(class_names, ordered, positions),
        )
