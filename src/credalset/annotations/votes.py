"""Votes and counts in, label distributions out: the data every calibration starts from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from credalset._guessing import HintingClass
from credalset._typing import AnyArray, FloatArray, IntArray, RandomState
from credalset._validation import check_choice
from credalset.annotations.agreement import measure_agreement
from credalset.annotations.agreement_result import Agreement
from credalset.annotations.building import Building
from credalset.annotations.counting import Duplicates, Fault
from credalset.annotations.doors import ATTRIBUTES, way_for
from credalset.annotations.table import Names, as_names, is_text, rows_of
from credalset.annotations.table import positions as places_of
from credalset.exceptions import need

__all__ = ["Annotations"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Annotations(Building, metaclass=HintingClass):
    r"""Annotation counts of n items over K classes, and the label distributions they estimate.

    With $c_{ik}$ votes for class k on item i, the label distribution of the item is the share of votes
    $\lambda_{ik} = c_{ik} / \sum_j c_{ij}$. Build instances with `from_table`, `from_wide`, `from_records`,
    `from_counts`, `from_distributions` or `read`; they do not change, and arrays are handed out as copies.

    Attributes
    ----------
    classes : tuple
        Names of the K classes, in column order.
    items : tuple
        Names of the n items, in row order.
    origin : str or None
        What a file was read as, how its columns were understood, and what was left out; set by `read`.

    Examples
    --------
    >>> from credalset.annotations import Annotations
    >>> table = {
    ...     "task": ["t1", "t1", "t1", "t2", "t2"],
    ...     "worker": ["ann", "bob", "eve", "ann", "bob"],
    ...     "label": ["cat", "dog", "cat", "dog", "dog"],
    ... }
    >>> votes = Annotations.from_table(table)
    >>> votes
    Annotations(2 items, 2 classes: 'cat', 'dog'; 5 votes, 2 to 3 per item)
    >>> votes.distributions.round(2)
    array([[0.67, 0.33],
           [0.  , 1.  ]])
    """

    _hints: ClassVar[dict[str, str]] = ATTRIBUTES

    def __new__(cls, *data: Any, **fields: Any) -> Self:
        """Refuse data: what it holds must be said."""
        if data:
            raise TypeError(f"Annotations are not made of a {type(data[0]).__name__} directly. {way_for(data[0])}")
        return super().__new__(cls)

    @classmethod
    def read(
        cls,
        path: str | Path,
        kind: str | None = None,
        *,
        task: Hashable | None = None,
        worker: Any = None,
        label: Hashable | None = None,
        time: Hashable | None = None,
        weight: Hashable | None = None,
        classes: Names | None = None,
        items: Names | None = None,
        ordered: bool | None = None,
        positions: Sequence[float] | None = None,
        one_vs_rest: Hashable | None = None,
        duplicates: Duplicates = "last",
        unknown: Fault = "error",
        missing: Fault | None = None,
        rename: Mapping[Any, Hashable] | None = None,
        tidy: bool = False,
        empty: Sequence[str] = ("",),
        encoding: str | None = None,
        delimiter: str | None = None,
    ) -> Self:
        r"""Read the votes in an export of an annotation tool, or in a table.

        The kind is recognised from the file; what it was taken for, and what was left out, is in `origin`.

        Parameters
        ----------
        path : path
            A file, a folder or a pattern of files, a zip archive; compressed by gzip, bzip2, xz or zstd; "-" is
            standard input.
        kind : str, optional
            "label-studio", "label-studio-min", "doccano", "argilla", "lists", "prodigy", "lewidi", "crowd-kit", "long"
            or "wide".
        task, worker, label, time, weight : name, optional
            Columns of a table, or fields of a record ("data.uid"); ``label`` also the question of an export that has
            several. Found by their usual names by default. A wide table takes a list of columns as ``worker``.
        classes, items, ordered, positions, one_vs_rest, duplicates, unknown
            As in `from_table`.
        missing : {"error", "drop"}, optional
            As in `from_table`; by default an error in long tables, while exports leave out votes without a label.
        rename : mapping, optional
            Names of labels by those in the file; what gets the same name is one label, before anything is counted.
        tidy : bool
            Read labels in lower case, without spaces around them, once they are renamed: "Yes " is "yes". Then comes
            ``one_vs_rest``, then ``classes``, which say how labels are called by now.
        empty : sequence of str
            Texts that mark an empty cell of a table.
        encoding, delimiter : str, optional
            Of text files: UTF-8, and found from the first lines, by default.

        Examples
        --------
        >>> from pathlib import Path
        >>> path = Path(getfixture("tmp_path")) / "votes.csv"
        >>> _ = path.write_text("item,rater,rating\na,1,good\na,2,bad\nb,1,good\n")
        >>> votes = Annotations.read(path)
        >>> votes
        Annotations(2 items, 2 classes: 'bad', 'good'; 3 votes, 1 to 2 per item)
        >>> print(votes.origin)
        votes.csv, probably long: its columns have names of tasks and labels, and of workers; task from 'item', ...
        """
        if hasattr(path, "__len__") and not isinstance(path, str):
            raise TypeError(f"path must name a file, but is a {type(path).__name__}. {way_for(path)}")
        from credalset.annotations.readers.counting import count_file
        from credalset.annotations.readers.reading import open_votes

        names: dict[str, Any] = {"task": task, "worker": worker, "label": label, "time": time, "weight": weight}
        how: dict[str, Any] = {"encoding": encoding, "delimiter": delimiter, "empty": empty, "missing": missing}
        votes = open_votes(path, kind, **names, **how, one_vs_rest=one_vs_rest, rename=rename, tidy=tidy)
        return count_file(cls, votes, classes, items, ordered, positions, duplicates, unknown)

    @property
    def has_counts(self) -> bool:
        """Whether the numbers of votes are known. They are not for weighted votes: two halves are not one vote more."""
        return bool(self._matrix.dtype.kind == "i")

    @property
    def counts(self) -> IntArray:
        """Votes per item and class, int64 of shape (n, K)."""
        if self._weighted:
            raise ValueError(
                "counts are unknown: these votes have weights, and what a weight of 0.5 says about the number of "
                "votes is not known. Use .weights or .distributions, or count the votes without their weights."
            )
        if not self.has_counts:
            raise ValueError(
                "counts are unknown: these annotations were built from distributions alone. "
                "Pass n_votes to Annotations.from_distributions, or use .distributions."
            )
        return self._matrix.copy()

    @property
    def weights(self) -> FloatArray:
        """Sum of the weights of the votes per item and class, float64 of shape (n, K); a plain vote weighs 1."""
        weights: FloatArray = self._matrix.copy() if self._weighted else self.counts.astype(np.float64)
        return weights

    @property
    def n_votes(self) -> IntArray:
        """Votes per item, int64 of shape (n,)."""
        votes: IntArray = self.counts.sum(axis=1)
        return votes

    @property
    def distributions(self) -> FloatArray:
        """Share of votes, or of their weights, per item and class, float64 of shape (n, K); refuses empty items."""
        if not (self.has_counts or self._weighted):
            return self._matrix.copy()
        totals = self._matrix.sum(axis=1)
        empty = np.flatnonzero(totals == 0)
        if len(empty):
            who = "1 item has" if len(empty) == 1 else f"{len(empty)} items have"
            raise ValueError(
                f"{who} no votes (first: {self.items[empty[0]]!r}) and so no label distribution. "
                "Leave such items out with .drop_empty()."
            )
        shares: FloatArray = self._matrix / totals[:, None]
        return shares

    @property
    def ordered(self) -> bool:
        """Whether the classes are levels of a scale."""
        return self._positions is not None

    @property
    def positions(self) -> tuple[float, ...] | None:
        """Where the levels of an ordered scale stand, one number per class; None if the classes have no order.

        Examples
        --------
        >>> votes = Annotations.from_table([("t", "ann", 1), ("t", "bob", 5)], classes=[1, 2, 3, 4, 5], ordered=True)
        >>> votes.positions
        (1.0, 2.0, 3.0, 4.0, 5.0)
        >>> from credalset.scores import Wasserstein
        >>> score = Wasserstein(positions=votes.positions)
        """
        return self._positions

    @property
    def workers(self) -> tuple[Hashable, ...] | None:
        """Names of the annotators in order of first appearance, None if they are not known."""
        return None if self._ballots is None else self._ballots.workers

    def agreement(self, *, level: float = 0.95, n_resamples: int = 1000, random_state: RandomState = 0) -> Agreement:
        """Measure how much the annotators agree: overall, per class and, where they are known, per annotator.

        Parameters
        ----------
        level : float
            Confidence level of the intervals: percentiles of the statistic over resampled items.
        n_resamples : int
            Resamples behind the intervals; 0 leaves them out.
        random_state : int or Generator
            Seed of the resamples.

        Examples
        --------
        >>> votes = Annotations.from_counts([[3, 0], [2, 1], [0, 3], [0, 3]], classes=["no", "yes"])
        >>> round(votes.agreement().alpha, 3)
        0.686
        """
        return measure_agreement(self, level, n_resamples, random_state)

    @property
    def n_items(self) -> int:
        """Number of items n."""
        return len(self)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)

    def drop_empty(self) -> Annotations:
        """Leave out the items without votes.

        Examples
        --------
        >>> Annotations.from_counts([[1, 1], [0, 0]], items=["a", "b"]).drop_empty().items
        ('a',)
        """
        return self[self._matrix.any(axis=1)]

    def select(self, items: Iterable[Hashable]) -> Annotations:
        """Take items by name, in the order given; ``votes[...]`` takes them by position.

        Examples
        --------
        >>> votes = Annotations.from_counts([[1, 1], [0, 3]], items=["a", "b"])
        >>> votes.select(["b"]).counts
        array([[0, 3]])
        """
        return self[rows_of(items, self.items, "votes")]

    def reorder(self, classes: Iterable[Hashable]) -> Annotations:
        """Put the classes, and with them the columns, into the order given.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1]], classes=["no", "yes"]).reorder(["yes", "no"]).counts
        array([[1, 3]])
        """
        names = as_names(classes, "classes")
        if set(names) != set(self.classes):
            few = str([*names[: self.n_classes + 1]]).replace("]", ", …]" if len(names) > self.n_classes + 1 else "]")
            raise ValueError(
                f"classes must be the names {list(self.classes)} in some order, but is {few}. To rename classes, use "
                ".rename({old: new}); to put items into another order, .select(items)."
            )
        order = places_of(names, self.classes)
        return replace(
            self,
            classes=names,
            _matrix=self._matrix[:, order],
            _positions=None if self._positions is None else tuple(self._positions[old] for old in order),
            _ballots=None if self._ballots is None else self._ballots.relabel(np.argsort(order)),
        )

    def rename(self, names: Mapping[Any, Hashable] | Callable[[Any], Hashable]) -> Annotations:
        """Give classes other names; the votes of classes that get the same name are added up.

        Parameters
        ----------
        names : mapping or function
            New names by old ones; those that a mapping leaves out stay.

        Examples
        --------
        >>> votes = Annotations.from_counts([[3, 1, 0], [0, 1, 2]], classes=["Yes", "no", "yes "])
        >>> votes.rename(lambda label: label.strip().lower()).to_dict()
        {'item': [0, 1], 'yes': [3, 2], 'no': [1, 1]}
        """
        if isinstance(names, Mapping) and not set(names) <= set(self.classes):
            unknown = [name for name in names if name not in self.classes][:5]
            raise ValueError(f"names renames {unknown}, which no class is called; there are {list(self.classes)}.")
        renamed = [names.get(old, old) if isinstance(names, Mapping) else names(old) for old in self.classes]
        classes = as_names(dict.fromkeys(renamed), "names")
        if self._positions is not None and len(classes) < self.n_classes:
            raise ValueError("levels of a scale have places of their own and cannot be merged. Rename them before.")
        if len(classes) < 2:
            raise ValueError(f"names leave one class only: {list(classes)}. At least 2 are needed.")
        new = places_of(renamed, classes)
        matrix = np.stack([self._matrix[:, new == column].sum(axis=1) for column in range(len(classes))], axis=1)
        ballots = None if self._ballots is None else self._ballots.relabel(new)
        return replace(self, classes=classes, _matrix=matrix, _ballots=ballots)

    def to_dict(
        self, values: Literal["counts", "distributions"] = "counts", *, item: str = "item"
    ) -> dict[Hashable, list[Any]]:
        """Return columns for a data frame: the items under the name ``item``, then one column per class.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1]], classes=["no", "yes"], items=["a"]).to_dict()
        {'item': ['a'], 'no': [3], 'yes': [1]}
        """
        check_choice(values, "values", ("counts", "distributions"))
        if item in self.classes:
            raise ValueError(f"item={item!r} is also the name of a class. Choose another name for the item column.")
        matrix = self.counts if values == "counts" else self.distributions
        return {item: list(self.items), **dict(zip(self.classes, matrix.T.tolist(), strict=True))}

    def to_frame(self, values: Literal["counts", "distributions"] | None = None) -> Any:
        """Return a pandas frame: the items as index, a column per class; `from_counts` reads it back.

        Parameters
        ----------
        values : {"counts", "distributions"}, optional
            By default the counts where they are known, else the distributions.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1], [0, 2]], classes=["no", "yes"], items=["a", "b"]).to_frame()
              no  yes
        item
        a      3    1
        b      0    2
        """
        check_choice(values or "counts", "values", ("counts", "distributions"))
        matrix, pandas = getattr(self, values or "_numbers"), need("pandas")
        # Tuples are names too, not levels of an index.
        index = pandas.Index(list(self.items), name="item", tupleize_cols=False)
        return pandas.DataFrame(matrix, index, pandas.Index(list(self.classes), tupleize_cols=False))

    def to_pandas(self, values: Literal["counts", "distributions"] | None = None) -> Any:
        """Return the frame of `to_frame`."""
        return self.to_frame(values)

    @property
    def _numbers(self) -> AnyArray:
        """What stands for the annotations where numbers are wanted: counts where they are known, else shares."""
        return self.counts if self.has_counts else self.distributions

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return the counts where they are known, else the distributions: what takes one takes the other."""
        return np.asarray(self._numbers, dtype=dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of items and classes, (n, K)."""
        return len(self), self.n_classes

    @property
    def ndim(self) -> int:
        """Number of axes, 2."""
        return 2

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Annotations]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key: Any) -> Annotations:
        """Take items by position (an int, a slice, a boolean mask, an array of ints), or by names that are texts."""
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # as scikit-learn takes rows of arrays
            key = key[0]
        if is_text(key):
            return self.select([key] if isinstance(key, str) else key)
        rows: AnyArray = np.arange(len(self))
        if isinstance(key, slice):
            rows = rows[key]
        else:
            index = np.asarray(key)
            index = index.astype(np.int64) if index.size == 0 else np.atleast_1d(index)
            if index.dtype.kind not in "biu" or index.ndim != 1:
                raise TypeError(
                    "Annotations take an int, a slice, a boolean mask or a 1-d array of ints as an index, but got "
                    f"{key!r}. Use .select(items) to take items by name."
                )
            if index.dtype.kind == "b" and len(index) != len(self):
                raise ValueError(f"The mask has length {len(index)}, but there are {len(self)} items.")
            rows = rows[index]
        return replace(
            self,
            items=tuple(self.items[row] for row in rows),
            _matrix=self._matrix[rows],
            _ballots=None if self._ballots is None else self._ballots.take(rows),
            _numbered=self._numbered or self.items == tuple(range(len(self))),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        named_alike = self.classes == other.classes and self.items == other.items
        named_alike = named_alike and self._positions == other._positions
        alike = self.has_counts == other.has_counts and self._weighted == other._weighted
        return named_alike and alike and np.array_equal(self._matrix, other._matrix)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        plain = [name.item() if isinstance(name, np.generic) else name for name in self.classes[:6]]
        names = ", ".join(map(repr, plain)) + (", …" if self.n_classes > 6 else "")
        size = f"{len(self)} item{'' if len(self) == 1 else 's'}, {self.n_classes} classes: {names}"
        if self._positions is not None:
            size = size.replace("classes:", "levels:", 1)
        if self._weighted:
            return f"Annotations({size}; weighted votes, total weight {self._matrix.sum():.6g})"
        if not self.has_counts:
            return f"Annotations({size}; label distributions, vote counts unknown)"
        votes = self.n_votes
        text = f"{size}; {votes.sum()} vote{'' if votes.sum() == 1 else 's'}"
        if len(votes):
            low, high = votes.min(), votes.max()
            text += f", {low} per item" if low == high else f", {low} to {high} per item"
        empty = int((votes == 0).sum())
        return f"Annotations({text}{f', {empty} without votes' if empty else ''})"
