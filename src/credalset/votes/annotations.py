"""Annotation counts and label distributions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np

from credalset._batch import Names, VoteTable, class_names, find_rows, item_names, take_names
from credalset._display import join_names, plural
from credalset._html import MOST_ROWS, html_table
from credalset._typing import AnyArray, FloatArray, IntArray, RandomState
from credalset._validation import as_counts, as_names, check_choice, unmasked
from credalset.exceptions import need
from credalset.votes.agreement import Agreement, measure_agreement
from credalset.votes.counting import (
    Ballots,
    LabelOptions,
    Options,
    count_votes,
    find_classes,
    texts,
)
from credalset.votes.exports import read_export
from credalset.votes.tables import long_table, melt, records_table


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Annotations(VoteTable):
    r"""Votes of annotators on n items over K classes.

    With $c_{ik}$ votes for class k on item i, the recorded label distribution of the item is the
    share of votes $\lambda_{ik} = c_{ik} / \sum_j c_{ij}$, which ``distributions`` returns. It is
    an estimate of the true distribution, that is of the shares among an unlimited number of votes.

    Build instances with `from_table`, `from_wide`, `from_records`, `from_counts` or `read`. One
    warning and ``notes`` report how many votes were dropped or overruled.

    Attributes
    ----------
    counts : ndarray of shape (n, K)
        Votes per item and class; read-only.
    classes : tuple or None
        Names of the columns, None if they have none.
    items : tuple or None
        Names of the rows, None if they have none.
    workers : tuple or None
        Names of the annotators in order of first appearance, None if they are not known.
    scale : tuple of K numbers or None
        Positions of the classes on an ordinal scale, which the score ``"ws"`` uses; None without a
        scale.
    notes : tuple of str
        Numbers of votes that were dropped, overruled or renamed, with reasons.
    origin : str or None
        The file that was read, and its kind.

    Examples
    --------
    >>> from credalset import Annotations
    >>> rows = [("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t1", "eve", "cat"),
    ...         ("t2", "ann", "dog")]
    >>> votes = Annotations.from_table(rows)
    >>> votes
    Annotations(2 items, 2 classes: 'cat', 'dog'; 4 votes, 1 to 3 per item)
    >>> votes.distributions.round(2)
    array([[0.67, 0.33],
           [0.  , 1.  ]])
    """

    counts: IntArray
    classes: Names | None = None
    items: Names | None = None
    workers: Names | None = None
    scale: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    origin: str | None = None
    ballots: Ballots | None = None

    def __post_init__(self) -> None:
        given = self.counts if type(self.counts) is np.ndarray else unmasked(self.counts, "counts")
        counts = np.array(given, dtype=np.int64)
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        task: Hashable | None = None,
        worker: Hashable | None = None,
        label: Hashable | None = None,
        time: Hashable | None = None,
        classes: Iterable[Hashable] | None = None,
        scale: Any = None,
        rename: Mapping[Any, Hashable] | None = None,
        tidy: bool = False,
        empty: Iterable[Any] = (),
        unknown: str = "error",
        dayfirst: bool | None = None,
    ) -> Self:
        """Count the votes of a long table with one row per vote (the crowd-kit convention).

        Rows without a task or a label (None, NaN, empty text) are dropped. A later vote of a worker
        on the same task replaces the earlier one. Votes are ordered by the time column if there is
        one, otherwise by the order of the rows. Rows without a worker count as votes of different
        workers. One warning and ``notes`` report these votes.

        If a column is not named, it is found by the usual names listed below. Case, spaces and
        underscores are ignored, and the first of these names that the table has is used.

        Parameters
        ----------
        table : pandas, polars or pyarrow table, mapping of columns, or list of rows
            Rows are dicts, or tuples (task, worker, label).
        task : column name, optional
            Column of the items; usual names are task, task id, item, item id, hit id and id.
        worker : column name, optional
            Column of the annotators; usual names are worker, annotator, rater and user, each also
            with id, and performer.
        label : column name, optional
            Column of the labels; usual names are label, annotation, rating, answer, choice and
            class.
        time : column name, optional
            Column of the times of the votes; usual names are time, timestamp, updated at, created
            at, submitted at, submit time and date.
        classes : iterable, optional
            Labels in column order. By default the categories of a categorical column, otherwise the
            labels found, sorted.
        scale : iterable, mapping or bool, optional
            Labels in the order of an ordinal scale; or their positions, ``{"low": 0, "high": 1}``;
            or True if the classes are in the order of the scale, which is the default for ordered
            categories. Positions are the levels themselves if these are numbers, otherwise 0, 1, 2,
            …
        rename : mapping, optional
            New names of labels by old names; labels with the same new name are merged.
        tidy : bool
            Whether to convert labels (not ``classes``) to lower case with single spaces before they
            are renamed.
        empty : iterable
            Further values that mean no label, such as "?" or -1.
        unknown : {"error", "drop"}
            What to do with a vote for an unknown class or for several classes: raise an error, or
            drop and report it.
        dayfirst : bool, optional
            Order of dates that are not ISO 8601: 02.01.2025 is in January if True, in February if
            False.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> rows = [("t1", "ann", "cat"), ("t1", "ann", "dog"), ("t2", "bob", "dog")]
        >>> votes = Annotations.from_table(rows, classes=["dog", "cat"])
        >>> votes.counts
        array([[1, 0],
               [1, 0]])
        >>> votes.notes
        ("1 vote replaced by the worker's later vote on the same task, by the order of the rows",)
        """
        options = Options(classes, scale, rename, tidy, empty, unknown, dayfirst)
        names = {"task": task, "worker": worker, "label": label, "time": time}
        return cls(**count_votes(long_table(table, names), options))

    @classmethod
    def from_wide(
        cls,
        table: Any,
        *,
        task: Hashable | None = None,
        worker: Iterable[Hashable] | None = None,
        **options: Unpack[LabelOptions],
    ) -> Self:
        """Count the votes of a wide table: rows are items, columns annotators, cells labels.

        This is the format of cleanlab. Empty cells (None, NaN, masked, empty text) are not votes.

        Parameters
        ----------
        table : pandas, polars or pyarrow table, mapping of columns, 2-d array or list of rows
            The columns are the annotators.
        task : column name, optional
            The column that names the items. By default one called task, item or id, otherwise the
            index of a pandas frame. Without names, all rows are kept, including those without
            votes.
        worker : iterable of column names, optional
            The columns of the annotators. By default every other column.
        **options
            ``classes``, ``scale``, ``rename``, ``tidy``, ``empty`` and ``unknown``, as in
            `from_table`.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> nan = float("nan")
        >>> Annotations.from_wide([[0, 0, nan], [1, nan, 2]]).counts
        array([[2, 0, 0],
               [0, 1, 1]])
        """
        return cls.from_table(melt(table, task, worker), **options)

    @classmethod
    def from_records(cls, records: Any, **options: Unpack[LabelOptions]) -> Self:
        """Count votes in plain Python objects: a list of votes, or labels or counts by item.

        Parameters
        ----------
        records : list of dicts, or dict by item
            Votes such as ``{"task": "t1", "worker": "ann", "label": "cat"}``; or, by item, lists of
            labels or dicts of counts.
        **options
            ``classes``, ``scale``, ``rename``, ``tidy``, ``empty``, ``unknown`` and ``dayfirst``,
            as in `from_table`.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> Annotations.from_records({"t1": {"cat": 3, "dog": 1}, "t2": {"dog": 2}}).counts
        array([[3, 1],
               [0, 2]])
        >>> Annotations.from_records({"t1": ["cat", "cat", "dog"], "t2": ["dog"]})
        Annotations(2 items, 2 classes: 'cat', 'dog'; 4 votes, 1 to 3 per item)
        """
        return cls.from_table(
            records_table(records) if isinstance(records, Mapping) else list(records), **options
        )

    @classmethod
    def from_counts(
        cls,
        counts: Any,
        *,
        classes: Iterable[Hashable] | None = None,
        items: Iterable[Hashable] | None = None,
        scale: Any = None,
    ) -> Self:
        """Build annotations from a matrix of counts. Items without votes are rows of zeros.

        Parameters
        ----------
        counts : array-like or data frame of shape (n, K)
            Whole numbers. The columns of a data frame name the classes, the index of a pandas frame
            the items.
        classes : iterable, optional
            Names of the columns, if the table has none.
        items : iterable, optional
            Names of the rows, if the table has none.
        scale : iterable, mapping or bool, optional
            An ordinal scale, as in `from_table`.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> Annotations.from_counts([[3, 1], [0, 5]], classes=["no", "yes"])
        Annotations(2 items, 2 classes: 'no', 'yes'; 9 votes, 4 to 5 per item)
        """
        matrix = as_counts(counts, "counts", may_be_none=True)
        names = {"classes": class_names(counts, "counts"), "items": item_names(counts)}
        for name, given, size in (
            ("classes", classes, matrix.shape[1]),
            ("items", items, matrix.shape[0]),
        ):
            names[name] = names[name] if given is None else as_names(unmasked(given, name))
            if (found := names[name] or ()) and (len(found) != size or len(set(found)) < size):
                raise ValueError(
                    f"{name} must hold {size} different names, but holds {join_names(found)}."
                )
        positions = None
        if scale is not None and scale is not False:
            levels = names["classes"] or tuple(range(matrix.shape[1]))
            named, values = find_classes((), levels, False, Options(levels, scale))
            position = dict(zip(named, values or (), strict=True))
            positions = tuple(position[level] for level in levels)
        return cls(
            counts=matrix.astype(np.int64),
            classes=names["classes"],
            items=names["items"],
            scale=positions,
        )

    @classmethod
    def read(
        cls,
        path: str | Path,
        kind: str | None = None,
        *,
        task: str | None = None,
        worker: Any = None,
        label: str | None = None,
        time: str | None = None,
        encoding: str | None = None,
        delimiter: str | None = None,
        **options: Unpack[LabelOptions],
    ) -> Self:
        r"""Read the votes in a table or in an export of an annotation tool.

        Tasks, workers and labels are read as texts: "1.1" is not "1.10", "007" keeps its zeros, and
        "NA" is a name. Only an empty cell is missing.

        Parameters
        ----------
        path : str or Path
            A file (CSV, TSV, JSON, JSON Lines, Parquet; compressed or not), a folder, a glob
            pattern or a zip archive.
        kind : str, optional
            "label-studio", "label-studio-min", "doccano", "argilla", "lists", "prodigy", "lewidi",
            "inspect", "by-worker",
            "crowd-kit", "long" or "wide". An export is recognised by its structure; other tables
            are long unless ``kind="wide"``.
        task : str, optional
            Column of a table, or field of a record such as "data.uid", that names the item.
        worker : str, optional
            Column or field of the annotator, an empty text if none names them; for a wide table, a
            list of the columns of the annotators.
        label : str, optional
            Column or field of the label; in an export with several questions, the question to read.
        time : str, optional
            Column or field of the time of the vote.
        encoding : str, optional
            Encoding of text files; detected by default.
        delimiter : str, optional
            Separator of the columns of text files; detected by default.
        **options
            ``classes``, ``scale``, ``rename``, ``tidy``, ``empty``, ``unknown`` and ``dayfirst``,
            as in `from_table`.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "votes.csv"
        >>> _ = path.write_text("item,rater,rating\na,1,good\na,2,bad\nb,1,good\n")
        >>> votes = Annotations.read(path)
        >>> votes.items, votes.origin
        (('a', 'b'), "votes.csv, read as long; items are named by 'item'")
        """
        names = {"task": task, "worker": worker, "label": label, "time": time}
        long, origin = read_export(path, kind, names, encoding, delimiter)
        options |= {"classes": texts(options.get("classes")), "scale": texts(options.get("scale"))}
        return replace(cls.from_table(long, **options), origin=origin)

    @property
    def distributions(self) -> FloatArray:
        """Recorded shares of votes, (n, K); raises ``ValueError`` if an item has no votes."""
        totals = self.counts.sum(axis=1)
        empty = np.flatnonzero(totals == 0)
        if len(empty):
            which = empty[:3] if self.items is None else [self.items[row] for row in empty[:3]]
            raise ValueError(
                f"votes holds {plural(len(empty), 'item')} without votes (first: "
                f"{join_names(which)}), which have no label distribution. Use votes.drop_empty()."
            )
        shares: FloatArray = self.counts / totals[:, None]
        return shares

    @property
    def smoothed(self) -> FloatArray:
        """Shares of votes (n, K) after half a vote is added to each class; none is zero."""
        return (self.counts + 0.5) / (self.n_votes[:, None] + 0.5 * self.n_classes)

    @property
    def n_votes(self) -> IntArray:
        """Number of votes per item, (n,)."""
        votes: IntArray = self.counts.sum(axis=1)
        return votes

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.counts.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of items and classes, (n, K)."""
        return len(self), self.n_classes

    @property
    def table(self) -> dict[str, list[Any]]:
        """The votes as a long table with columns task, worker, label and, if known, time.

        It is not available for counts.
        """
        if self.ballots is None:
            raise ValueError(
                "votes built from counts have no long table. Use from_table, from_wide or read."
            )
        names = (
            self.items or range(len(self)),
            (*(self.workers or ()), None),
            self.classes or range(self.n_classes),
        )
        codes = self.ballots.codes.T.tolist()
        columns = [
            [known[code] for code in column] for known, column in zip(names, codes, strict=True)
        ]
        found = dict(zip(("task", "worker", "label"), columns, strict=True))
        return (
            found if self.ballots.times is None else found | {"time": self.ballots.times.tolist()}
        )

    def agreement(
        self, *, level: float = 0.95, n_resamples: int = 1000, random_state: RandomState = 0
    ) -> Agreement:
        """Measure the agreement of annotators: overall, per class and, if known, per annotator.

        Parameters
        ----------
        level : float
            Confidence level of the bootstrap intervals, in (0, 1).
        n_resamples : int
            Number of bootstrap resamples of the items; 0 for no intervals.
        random_state : int, Generator or None
            Seed.

        Returns
        -------
        Agreement

        Examples
        --------
        >>> votes = Annotations.from_counts([[3, 0], [2, 1], [0, 3], [0, 3]], classes=["no", "yes"])
        >>> round(votes.agreement().alpha, 3)
        0.686
        """
        return measure_agreement(self, level, n_resamples, random_state)

    def drop_empty(self) -> Annotations:
        """Return the annotations without the items that have no votes."""
        return self[self.counts.any(axis=1)]

    def select(self, items: Iterable[Hashable]) -> Annotations:
        """Return the votes on some items, selected by name; ``votes[...]`` selects by position.

        Parameters
        ----------
        items : iterable of names
            Names of the items in the order wanted; an unknown name raises ``ValueError``.

        Returns
        -------
        Annotations
        """
        return self[find_rows(items, self.items)]

    def align(self, items: Iterable[Hashable]) -> Annotations:
        """Return the votes in the order of the given items.

        The rows of ``votes.align(X.index).counts`` are those of X.

        Items without votes become rows of zeros, and votes on other items are dropped; ``notes``
        reports both.

        Parameters
        ----------
        items : iterable of names
            Names of the items in the order wanted.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> Annotations.from_counts([[1, 1], [0, 3]], items=["a", "b"]).align(["b", "c"]).counts
        array([[0, 3],
               [0, 0]])
        """
        wanted = as_names(items)
        known = set(self.items or ())
        there = np.array([name in known for name in wanted], dtype=bool)
        if not there.any():
            both = (
                f"the items are {join_names(wanted, 3)}, and the votes are on "
                f"{join_names(self.items or (), 3)}"
            )
            raise ValueError(f"items has no item with votes: {both}. Name the items alike.")
        found = self.select(name for name in wanted if name in known)
        notes = [f"{plural(int((~there).sum()), 'item')} without votes"] * (not there.all())
        others = len(known - set(wanted))
        notes += [f"votes on {plural(others, 'other item')} dropped"] * bool(others)
        counts = np.zeros((len(wanted), self.n_classes), dtype=np.int64)
        counts[there] = found.counts
        ballots = None if found.ballots is None else found.ballots.renumber(np.flatnonzero(there))
        return replace(
            found, counts=counts, items=wanted, notes=(*self.notes, *notes), ballots=ballots
        )

    def reorder(self, classes: Iterable[Hashable]) -> Annotations:
        """Return the votes with their columns in the order of the given classes.

        Parameters
        ----------
        classes : iterable of names
            All classes of the votes in the order wanted. Further classes get columns of zeros; they
            are refused if the votes have a scale.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> votes = Annotations.from_counts([[3, 1]], classes=["no", "yes"])
        >>> votes.reorder(["yes", "maybe", "no"]).counts
        array([[1, 0, 3]])
        """
        wanted = as_names(classes)
        own = self.classes or tuple(range(self.n_classes))
        missing = [name for name in own if name not in set(wanted)]
        if missing or len(set(wanted)) < len(wanted):
            what = (
                f"lack {join_names(missing, 3)} of the votes" if missing else "hold a class twice"
            )
            raise ValueError(
                f"classes {what}: they are {join_names(wanted, 8)}, and votes are for "
                f"{join_names(own, 8)}. Spell them "
                "alike as votes are read, with rename or tidy, or name all with classes."
            )
        if self.scale is not None and len(wanted) > len(own):
            raise ValueError(
                f"classes must hold the levels of the scale, {join_names(own, 8)}, and no others."
            )
        columns = np.array([wanted.index(name) for name in own], dtype=np.int64)
        counts = np.zeros((len(self), len(wanted)), dtype=np.int64)
        counts[:, columns] = self.counts
        ballots = None if self.ballots is None else self.ballots.relabel(columns)
        scale = take_names(self.scale, np.argsort(columns))
        return replace(self, counts=counts, classes=wanted, ballots=ballots, scale=scale)

    def to_frame(self, values: str = "counts") -> Any:
        """Return a pandas data frame, with one row per item or one row per vote.

        Parameters
        ----------
        values : {"counts", "distributions", "smoothed", "votes"}
            Counts, distributions or smoothed shares, with one row per item and one column per
            class; or the votes, with one row per vote.

        Returns
        -------
        pandas data frame

        Examples
        --------
        >>> counts = [[3, 1], [0, 2]]
        >>> Annotations.from_counts(counts, classes=["no", "yes"], items=["a", "b"]).to_frame()
              no  yes
        item
        a      3    1
        b      0    2
        """
        check_choice(values, "values", ("counts", "distributions", "smoothed", "votes"))
        pandas = need("pandas")
        if values == "votes":
            return pandas.DataFrame(self.table)
        index = pandas.Index(list(self.items or range(len(self))), name="item", tupleize_cols=False)
        columns = pandas.Index(list(self.classes or range(self.n_classes)), tupleize_cols=False)
        return pandas.DataFrame(getattr(self, values), index, columns)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return the counts."""
        return np.array(self.counts, dtype=dtype)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, key: Any) -> Annotations:
        """Select items by position: an int, a slice, a boolean mask or an array of ints."""
        if (
            isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis
        ):  # as scikit-learn takes rows of arrays
            key = key[0]
        if not isinstance(key, slice):
            key = np.asarray(key) if np.size(key) else np.zeros(0, dtype=np.int64)
            if key.dtype.kind not in "biu":
                raise TypeError(
                    f"votes are indexed by position, but got {key!r}. Use votes.select(...) for "
                    "names."
                )
        rows: IntArray = np.atleast_1d(np.arange(len(self))[key])
        ballots = None if self.ballots is None else self.ballots.take(rows, len(self))
        return replace(
            self, counts=self.counts[rows], items=take_names(self.items, rows), ballots=ballots
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        alike = (self.classes, self.items, self.scale) == (other.classes, other.items, other.scale)
        return alike and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        """Return a table of the votes on the first items, and the notes of reading."""
        names = self.classes or range(self.n_classes)
        items = range(len(self)) if self.items is None else self.items
        rows = [
            [str(item), *(f"{number:g}" for number in counts)]
            for item, counts in zip(items[:MOST_ROWS], self.counts[:MOST_ROWS], strict=False)
        ]
        caption = " ".join([repr(self), *self.notes])
        return html_table(caption, ["item", *map(str, names)], rows, n_rows=len(self))

    def __repr__(self) -> str:
        kind = "classes" if self.scale is None else "levels"
        names = join_names(self.classes or range(self.n_classes), 6)
        per_item = self.n_votes
        text = (
            f"{plural(len(self), 'item')}, {self.n_classes} {kind}: {names}; "
            f"{plural(int(per_item.sum()), 'vote')}"
        )
        if len(per_item):
            low = per_item.min()
            high = per_item.max()
            text += f", {low} per item" if low == high else f", {low} to {high} per item"
        return f"Annotations({text})"


def refuse_shared(votes: Any, in_hand: Any, name: str) -> None:
    """Refuse votes that are in hand and also among those to be covered, where workers are known."""
    both = [
        each.table
        for each in (votes, in_hand)
        if isinstance(each, Annotations) and each.ballots is not None
    ]
    pairs = [
        {pair for pair in zip(t["task"], t["worker"], strict=True) if pair[1] is not None}
        for t in both
    ]
    if len(pairs) == 2 and (shared := pairs[0] & pairs[1]):
        first = min(shared, key=str)
        raise ValueError(
            f"{name} holds {plural(len(shared), 'vote')} that votes_in_hand holds as well "
            f"(by {join_names(first[1:])} "
            f"on {join_names(first[:1])}, …). Pass only the votes that came later."
        )
