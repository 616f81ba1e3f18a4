"""Arrow in, Arrow out: credal sets for tables of any length, a batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from credalset._display import join_names, plural
from credalset._typing import BoolArray
from credalset._validation import as_positive_int, as_probability
from credalset.calibration.base import Predictor, as_level
from credalset.exceptions import need, warn
from credalset.io.items import (
    TRAINED,
    Records,
    Select,
    Selection,
    refuse_extra_class,
    select_features,
    select_known,
    select_predictions,
    select_texts,
)
from credalset.io.store import load
from credalset.io.tables import as_texts
from credalset.io.threads import in_order
from credalset.sets.columns import arrow_columns, check_questions, columns
from credalset.votes import Annotations

if TYPE_CHECKING:
    import pyarrow as pa

    from credalset.sets import CredalSet

TRAINING = "training"  # what some items were used for
DEFAULT_ASK = ("lower", "upper", "entropy", "labels")


def selector(model: Any, columns: Sequence[str] | None = None) -> Select:
    """Return what selects the columns of a table that a calibration or classifier reads."""
    if model.reads == "predictions":
        classes = model.classes
        return lambda schema, taken: select_predictions(schema, taken, columns, classes)
    if model.reads == "texts":
        name = columns[0] if columns else model.text_name
        return lambda schema, taken: select_texts(schema, taken, name)
    if model.feature_names is None:
        return lambda schema, taken: select_features(schema, taken, columns)
    return partial(
        select_known,
        names=list(map(str, model.feature_names)),
        columns=columns,
        kinds=model.feature_kinds,
        optional=model._fills_in(),
    )


@dataclass
class Remarks:
    """What is to be said about scored rows.

    Attributes
    ----------
    n_dropped : int
        Rows that were left out because a value is missing.
    missing : Counter
        Rows without a value that the model fills in, by column.
    unknown : Counter
        Rows with a value that was not in training, by column and the first such value.
    used : Counter
        Rows of items that the model was made of, by what it used them for and the first such item.
    """

    n_dropped: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)
    used: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __add__(self, other: Remarks) -> Remarks:
        return Remarks(
            self.n_dropped + other.n_dropped,
            self.missing + other.missing,
            _add_firsts(self.unknown, other.unknown),
            _add_firsts(self.used, other.used),
        )

    def to_list(self) -> list[Any]:
        """Return the remarks as values that JSON has."""
        unknown, used = (
            [[*key, number] for key, number in counted.items()]
            for counted in (self.unknown, self.used)
        )
        return [self.n_dropped, dict(self.missing), unknown, used]

    @classmethod
    def from_list(cls, found: Sequence[Any]) -> Remarks:
        """Return the remarks that `to_list` gave."""
        n_dropped, missing, *others = found
        unknown, used = (
            Counter({(name, value): number for name, value, number in counted})
            for counted in others
        )
        return cls(n_dropped, Counter(missing), unknown, used)

    def warn(self) -> None:
        """Say each in a warning."""
        if self.n_dropped:
            warn(
                f"{plural(self.n_dropped, 'row')} without a value that is needed left out (strict "
                "refuses them)."
            )
        for name, number in self.missing.items():
            has = "has" if number == 1 else "have"
            warn(f"{plural(number, 'row')} {has} no {name!r}, which the model fills in.")
        for (name, value), number in self.unknown.items():
            has = "has" if number == 1 else "have"
            warn(
                f"{plural(number, 'row')} {has} a value of {name!r} that was not in training "
                f"(first: {value!r}). The model treats it as none of those that were."
            )
        for (use, item), number in self.used.items():
            warn(said_of_used(use, number, item))


def _add_firsts(
    one: Counter[tuple[str, str]], other: Counter[tuple[str, str]]
) -> Counter[tuple[str, str]]:
    """Add numbers by name and the first value of each name."""
    total = Counter(one)
    first = dict(one.keys())
    for (name, value), number in other.items():
        total[name, first.get(name, value)] += number
    return total


def said_of_used(use: str, number: int, first: str) -> str:
    """Return the words of a note on items that a model was made of."""
    were = "was" if number == 1 else "were"
    items = f"{plural(number, 'item')} {were} used for {use} (first: "
    if use == TRAINING:
        return (
            f"{items}{first!r}). The model knows their votes, so that its predictions for them are "
            "better than for new items, which the guarantee is about."
        )
    return f"{items}{first!r}). The guarantee is for new items."


@dataclass(frozen=True)
class Scorer:
    """Predict credal sets for Arrow record batches, and return their properties as record batches.

    Call the scorer with a batch of predictions (or features). The results for predictions do not
    depend on how rows are divided into batches, with one exception: estimated volumes (``volume``),
    whose random directions are drawn for a batch. What a classifier predicts for features, and a
    crowd from votes in hand, comes from products of matrices, of which the last digits may depend
    on the number of rows. A scorer can be pickled and sent to other processes; if
    ``model`` is a path, only the path is sent, and each process loads the model once.

    Rows of items that calibrated or trained the model are counted in a warning. Results of a
    classifier that names the items that trained it have a column ``trained``, which marks them.
    Predictions that lack what another column of the table holds are refused: it is a class that the
    calibration does not know.

    Parameters
    ----------
    model : Calibration, CrowdCalibration, ConformalCredalClassifier, str or Path
        The calibration or classifier, or the folder to which its ``save`` wrote it. With a
        classifier, batches hold features, or the texts that it reads, instead of predictions.
    alpha : float
        Miscoverage rate in (0, 1).
    ask : sequence of str
        Properties of the sets to compute, as in `CredalSet.to_frame`: prediction, lower, upper,
        entropy, labels, width, volume, action, aleatoric, epistemic, total.
    id : str or None
        Column with the names of the items, which is copied into the result; None if there is none.
    columns : sequence of str, optional
        Columns that hold the predictions: one column per class, one column of lists, or one column
        of objects. By default they are found by the names of the classes of the calibration. If its
        classes have no names, every column is read that no other parameter names. A classifier
        reads the features, or the column of texts, that it was fitted with; ``header=feature``
        reads one from a column of another name.
    logits : bool
        Whether predictions are logits, to which a softmax is applied.
    groups : str, optional
        Column with the group of each item, if the calibration has groups.
    weights : str, optional
        Column with the weight of each item, if the calibration is weighted.
    keep : sequence of str
        Further columns to copy into the result, such as texts, sources or dates.
    votes : str, optional
        Column with the votes in hand of each item, for a `CrowdCalibration`: lists of counts in the
        order of the classes.
    strict : bool
        Whether to raise an error for a row in which a value is missing. By default such rows are
        left out, unless the model fills in missing features, and a warning states their number.
    trusted : sequence of str
        Estimator types that may be created when the model is loaded from a path, as in
        `credalset.load`.

    Examples
    --------
    >>> import credalset as cs, pyarrow as pa
    >>> data = cs.datasets.make_synthetic(300, n_votes=20, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv",
    ...                              classes=["a", "b", "c"])
    >>> scorer = cs.Scorer(calibration, alpha=0.1, ask=["labels", "width"])
    >>> batch = pa.RecordBatch.from_pydict({"task": ["x1", "x2"], "a": [0.9, 0.3],
    ...                                     "b": [0.1, 0.3], "c": [0.0, 0.4]})
    >>> scorer(batch).to_pydict()["labels"]
    [['a'], ['a', 'b', 'c']]
    >>> scorer.schema.names
    ['task', 'alpha', 'threshold', 'empty', 'labels', 'n_labels', 'width']
    """

    model: Any
    alpha: float = 0.1
    ask: Sequence[str] = DEFAULT_ASK
    id: str | None = "task"
    columns: Sequence[str] | None = None
    logits: bool = False
    groups: str | None = None
    weights: str | None = None
    keep: Sequence[str] = ()
    votes: str | None = None
    strict: bool = False
    trusted: Sequence[str] = ()
    _carried: Any = field(default=None, repr=False)  # types of the ids and of the columns to keep

    def __post_init__(self) -> None:
        need("pyarrow", "cs.Scorer")
        if isinstance(self.model, str | Path):
            object.__setattr__(self, "model", Path(self.model))
        elif not isinstance(self.model, Predictor):
            raise TypeError(
                "model must be a calibration, a calibrated classifier or a path, but is "
                f"{self.model!r}."
            )
        object.__setattr__(self, "alpha", as_probability(self.alpha, "alpha"))
        object.__setattr__(self, "ask", check_questions(self.ask))
        for name in ("keep", "trusted", "columns"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        if self.logits and isinstance(self.model, Predictor) and self.model.reads != "predictions":
            raise ValueError(
                "logits is for predictions, but this model reads features or texts. Leave it out."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what can be loaded or computed again."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def _model(self) -> Any:
        """The calibration or classifier; loaded from its path at first use."""
        if not isinstance(self.model, Path):
            return self.model
        loaded = load(self.model, trusted=self.trusted)
        # A scorer of what was loaded checks that it can be scored with these options.
        return replace(self, model=loaded).model

    @property
    def calibration(self) -> Any:
        """The calibration, or the calibration of the classifier."""
        return self._model.calibration

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the results, which is available before scoring."""
        calibration = self.calibration
        stand_in = calibration.score.stand_in(calibration.n_classes)
        sets = replace(calibration.score.region(stand_in, 1.0), classes=calibration.classes)
        return self._table(None, sets).schema

    def for_input(self, schema: pa.Schema) -> Scorer:
        """Check the columns of a table, and return a scorer for tables with this schema.

        In the results of the returned scorer, ids and kept columns have the types of the table.
        Without this method they are texts, whatever a batch holds, so that the schema of the
        results is known in advance.

        Parameters
        ----------
        schema : pyarrow.Schema
            Schema of the tables that will be scored.

        Returns
        -------
        Scorer
            The scorer for these tables.
        """
        import pyarrow as pa

        self._selection(schema)
        if self._carried is not None:
            return self
        kinds = [schema.field(name).remove_metadata() for name in self._names(schema)]
        # The type of an empty column is not known; texts hold any value.
        kinds = [
            each.with_type(pa.string()) if pa.types.is_null(each.type) else each for each in kinds
        ]
        return replace(self, _carried=pa.schema(kinds))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Predict the sets of a batch and return their properties, one row per row of the batch.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Predictions or features of N items.

        Returns
        -------
        pyarrow.RecordBatch
            Results with the columns of ``schema``.
        """
        result, remarks = self._score(batch)
        remarks.warn()
        return result

    def map_batches(
        self, batches: Iterable[pa.RecordBatch], n_jobs: int = 1
    ) -> Iterator[pa.RecordBatch]:
        """Score batches in their order; the method can be passed to Spark's ``mapInArrow``.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            Predictions or features.
        n_jobs : int
            Number of threads. The results do not depend on it. Memory grows by a batch, its result
            and what is computed from it for each thread.

        Yields
        ------
        pyarrow.RecordBatch
            Results with the columns of ``schema``. Batches without results are left out.
        """
        n_threads = as_positive_int(n_jobs, "n_jobs")
        self.calibration  # noqa: B018  # loaded here, and not in every thread
        remarks = Remarks()
        for result, more in in_order(self._score, batches, n_threads):
            remarks += more
            if result.num_rows:
                yield result
        remarks.warn()

    def _score(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Remarks]:
        """Return the results for a batch, and what is to be said about its rows."""
        selection = self._selection(batch.schema)
        roles = (self.id, self.groups, self.weights, self.votes)
        needed = [name for name in roles if name is not None]
        needed += [] if selection.optional and not self.strict else selection.columns
        kept = Records(batch, needed, "the batch", strict=self.strict)
        given: dict[str, Any] = {}
        if self.votes is not None:
            given["votes"] = kept.numbers([self.votes])
        if self.weights is not None:
            given["weights"] = kept.numbers([self.weights])[:, 0]
        if self.groups is not None:
            given["groups"] = as_calibrated(kept.texts(self.groups), self.calibration)
        features = self._input(kept, selection)
        inputs = self._model._read(features, **given)
        sets = self.calibration._predict(inputs, as_level(self.alpha))
        carried = [kept.column(name) for name in self._names(batch.schema)]
        remarks = self._remarks(features) if hasattr(features, "columns") else Remarks()
        remarks.n_dropped = batch.num_rows - len(kept)
        trained = None
        for use, is_used, first in self._find_used(kept):
            remarks.used[use, first] = int(is_used.sum())
            trained = is_used if use == TRAINING else trained
        return self._table(carried, sets, trained), remarks

    def _find_used(self, records: Records) -> Iterator[tuple[str, BoolArray, str]]:
        """Yield what items were used for, which of the rows are such items, and the first one."""
        if self.id is None or not self._used:
            return
        import pyarrow as pa
        from pyarrow import compute

        column = records.column(self.id)
        is_float = pa.types.is_floating(column.type)
        items = pa.array(as_texts(column)) if is_float else column.cast(pa.string())
        for use, names in self._used.items():
            is_used = np.asarray(compute.is_in(items, names).to_numpy(zero_copy_only=False))
            if is_used.any():
                yield use, is_used, items[int(is_used.argmax())].as_py()

    @cached_property
    def _used(self) -> dict[str, pa.Array]:
        """The names of the items that the model was made of, by what it used them for."""
        import pyarrow as pa

        found = self._model._used()
        return {use: pa.array(sorted(names), pa.string()) for use, names in found.items() if names}

    @property
    def _marks_training(self) -> bool:
        """Whether results say which items trained the model that predicts."""
        return self.id is not None and self._model.reads != "predictions" and TRAINING in self._used

    def _remarks(self, features: Any) -> Remarks:
        """Count missing values, and those of categories that were not in training."""
        remarks = Remarks()
        for name in features.columns:
            column = features[name]
            is_missing = column.isna() | (column == "")
            if is_missing.any():
                remarks.missing[name] = int(is_missing.sum())
            if name in self._categories:
                odd = column[~is_missing & ~column.isin(self._categories[name])]
                if len(odd):
                    remarks.unknown[name, str(odd.iloc[0])] = len(odd)
        return remarks

    @cached_property
    def _categories(self) -> dict[str, set[Any]]:
        """The categories that the model was trained on, by column."""
        found: dict[str, set[Any]] = self._model._known_categories()
        return found

    def _names(self, schema: pa.Schema) -> list[str]:
        """Return the columns that are copied: the ids and those to keep."""
        names = [name for name in (self.id, *self.keep) if name is not None]
        needed = (*names, self.groups, self.weights, self.votes)
        missing = [name for name in needed if name is not None and name not in schema.names]
        if missing:
            remedy = "Name the columns that it has with id, keep, groups and weights"
            raise ValueError(
                f"column {missing[0]!r} is missing: the table has "
                f"{join_names(schema.names, 12)}. {remedy}."
            )
        return names

    def _selection(self, schema: pa.Schema) -> Selection:
        cached: dict[Any, Selection] = self.__dict__.setdefault("_selections", {})
        key = tuple(schema.names)
        if key not in cached:
            self._names(schema)
            taken: list[str | None] = [self.id, self.groups, self.weights, self.votes]
            if self._model.reads != "texts":  # texts that are kept may be those that are read
                taken += self.keep
            cached[key] = selector(self._model, self.columns)(schema, taken)
        return cached[key]

    def _input(self, records: Records, selection: Selection) -> Any:
        """Read predictions, features or texts."""
        values = records.read(selection)
        if hasattr(values, "iloc"):
            return values
        if self._model.feature_names is not None:
            pandas = need("pandas", "A model of named features")
            return pandas.DataFrame(values, columns=list(selection.labels or selection.columns))
        if self.logits:
            return softmax(values, axis=1)
        refuse_extra_class(records, selection, values)
        return values

    def _table(
        self, carried: Sequence[Any] | None, sets: CredalSet, trained: BoolArray | None = None
    ) -> pa.RecordBatch:
        import pyarrow as pa

        names = [name for name in (self.id, *self.keep) if name is not None]
        kinds = [pa.string()] * len(names) if self._carried is None else list(self._carried.types)
        arrays = [pa.nulls(len(sets), kind) for kind in kinds] if carried is None else carried
        found: dict[str, Any] = {
            n: _as(kind, a, n) for n, a, kind in zip(names, arrays, kinds, strict=True)
        }
        classes = sets.classes if sets.classes is not None else range(sets.n_classes)
        answers = {"alpha": pa.array(np.full(len(sets), self.alpha))}
        answers |= arrow_columns(columns(sets, self.ask), classes)
        if self._marks_training:
            answers[TRAINED] = pa.array(np.zeros(len(sets), bool) if trained is None else trained)
        taken = [name for name in names if name in answers]
        if taken:
            raise ValueError(
                f"column {taken[0]!r} cannot be kept: the result has one of that name. Rename it."
            )
        return pa.RecordBatch.from_pydict(found | answers)


def as_calibrated(groups: Iterable[Any], calibration: Any) -> list[Any]:
    """Return groups as the calibration calls them: a table may have 1, another the text ``1``."""
    own = {str(key): key for key in calibration.groups or ()}
    return [own.get(str(group), group) for group in groups]


def as_calibrated_votes(votes: Annotations, calibration: Any) -> Annotations:
    """Return votes whose classes have the names of the calibration, which need not be texts."""
    own = {str(name): name for name in calibration.classes or ()}
    if votes.classes is None or not own:
        return votes
    return replace(votes, classes=tuple(own.get(str(name), name) for name in votes.classes))


def _as(kind: pa.DataType, array: pa.Array, name: str) -> pa.Array:
    import pyarrow as pa

    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        what = f"column {name!r} changes its type on the way, from {kind} to {array.type}"
        raise ValueError(f"{what}, and cannot be kept. Write it as text everywhere.") from None
