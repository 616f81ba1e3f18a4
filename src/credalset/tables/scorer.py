"""Arrow in, Arrow out: credal sets for tables of any length, a batch at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from credalset._validation import as_probability
from credalset.calibration import Calibration
from credalset.exceptions import CredalSetWarning, need
from credalset.sets.columns import arrow_columns, check_questions, columns
from credalset.sets.credal_set import CredalSet
from credalset.tables.arrow import Reading, check_text, columns_to_read, matrix, say_which, unrounded
from credalset.tables.matching import as_calibrated, named_frame

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_ASK = ("lower", "upper", "entropy", "labels")


def reads_texts(model: Any) -> bool | str | None:
    """Tell whether a model takes texts: the name of their column if it knows it, None if it does not know either."""
    if isinstance(model, Calibration):
        return False
    parts: tuple[Any, ...] = (model, getattr(model, "estimator_", None))
    for part in parts:  # the one may know what the other does not
        if hasattr(part, "n_features_in_"):
            return False
        if hasattr(part, "text_name_in_"):
            return True if part.text_name_in_ is None else str(part.text_name_in_)
    return None


def columns_of_model(model: Any) -> tuple[str, ...]:
    """Return the columns that a model was fitted with, as far as it knows their names."""
    texts = reads_texts(model)
    return (texts,) if isinstance(texts, str) else tuple(map(str, getattr(model, "feature_names_in_", ())))


def refuse_logits(model: Any, logits: bool) -> None:
    """Refuse to take features, or texts, for logits."""
    if logits and not isinstance(model, Calibration):
        raise ValueError("logits=True is for predictions, but this model reads features or texts. Leave it out.")


def calibration_of(model: Any) -> Any:
    """Return a calibration, also that of a classifier."""
    return model if isinstance(model, Calibration) else model._calibrated()


@dataclass(frozen=True)
class Scorer:
    """Turn record batches of predictions (or features) into record batches of what their credal sets answer.

    A scorer is a plain value: it depends on nothing but its fields, gives the same rows for the same rows however they
    are batched, and is small to ship. Made from a path, only the path travels and each process loads it once.

    Parameters
    ----------
    loaded : Calibration, ConformalCredalClassifier, or path of a folder that ``save`` wrote
        With a classifier, batches hold features instead of predictions, or the texts that it reads.
    alpha : float
        Miscoverage rate in (0, 1).
    ask : sequence of str
        Questions, see `CredalSet.to_frame`: prediction, lower, upper, entropy, labels, width, volume.
    id : str or None
        Column that names the items, kept as it is; None if there is none.
    columns : sequence of str, optional
        Columns that hold the predictions: one per class, or one column of lists. By default the columns named like
        the classes of the calibration, else every column but those of ids, groups and weights. A model that reads texts
        gets the column that it was fitted with, else the only one of texts.
    logits : bool
        Whether predictions are logits, to which a softmax is applied.
    groups, weights : str, optional
        Columns that hold each item's group and weight, if the calibration has them.
    keep : sequence of str
        Further columns to copy into the result: texts, sources, dates.
    carried : pyarrow schema, optional
        Types of the ids and of the columns to keep; text by default. `for_input` reads them from a table.

    Examples
    --------
    >>> import credalset as cs, pyarrow as pa
    >>> data = cs.datasets.make_synthetic(300, n_votes=20, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, classes=["a", "b", "c"])
    >>> scorer = cs.Scorer(calibration, alpha=0.1, ask=["labels", "width"])
    >>> batch = pa.RecordBatch.from_pydict({"task": ["x1", "x2"], "a": [0.9, 0.3], "b": [0.1, 0.3], "c": [0.0, 0.4]})
    >>> scorer(batch).to_pydict()["labels"]
    [['a'], ['a', 'b', 'c']]
    >>> scorer.schema.names
    ['task', 'alpha', 'threshold', 'empty', 'labels', 'n_labels', 'width']
    """

    loaded: Any
    alpha: float = 0.1
    ask: Sequence[str] = DEFAULT_ASK
    id: str | None = "task"
    columns: Sequence[str] | None = None
    logits: bool = False
    groups: str | None = None
    weights: str | None = None
    keep: Sequence[str] = ()
    carried: Any = field(default=None)

    def __post_init__(self) -> None:
        need("pyarrow", "cs.Scorer")
        if isinstance(self.loaded, str | Path):
            object.__setattr__(self, "loaded", Path(self.loaded))
        elif not hasattr(self.loaded, "predict_set"):
            raise TypeError(
                f"loaded must be a calibration, a calibrated classifier or the path of a saved one, but is "
                f"{self.loaded!r}."
            )
        object.__setattr__(self, "alpha", as_probability(self.alpha, "alpha"))
        object.__setattr__(self, "ask", check_questions(self.ask))
        object.__setattr__(self, "keep", tuple(self.keep))
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))

    @cached_property
    def _groups_met(self) -> set[Any]:
        return set()

    @cached_property
    def model(self) -> Any:
        """The calibration or classifier; loaded from its path at first use."""
        if not isinstance(self.loaded, Path):
            return self.loaded
        from credalset.io.store import load

        return load(self.loaded)

    @property
    def calibration(self) -> Any:
        """The calibration, also that of a classifier."""
        return calibration_of(self.model)

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of every result, known before there is one."""
        calibration = self.calibration
        stand_in = np.full((1, calibration.n_classes), 1.0 / calibration.n_classes)
        if calibration.score.order == "second":
            stand_in = stand_in + 1.0
        sets = replace(calibration.score.region(stand_in, 1.0), classes=calibration.classes)
        return self._table(None, sets).schema

    def for_input(self, schema: pa.Schema) -> Scorer:
        """Return the same scorer with ids of the type that a table has, after a look at whether its columns will do."""
        import pyarrow as pa

        reading = self._reading(schema)
        if self.columns is None:
            say_which(reading, reads_texts(self.model))
        check_text(schema, [self.id, self.groups, *self.keep])
        if self.carried is not None:
            return self
        fields = [schema.field(i).remove_metadata() for i in self._carried(schema)]
        # Of a column that is empty so far, more cannot be said; words fit in wherever there are any.
        fields = [each.with_type(pa.string()) if pa.types.is_null(each.type) else each for each in fields]
        return replace(self, carried=pa.schema(fields))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Predict the sets of a batch and return their answers, one row for each row."""
        prediction = self._input(batch)
        options = {
            name: batch.column(batch.schema.get_field_index(column)).to_pylist()
            for name, column in (("groups", self.groups), ("weights", self.weights))
            if column is not None
        }
        if "groups" in options:
            options["groups"] = as_calibrated(options["groups"], self.calibration)
            new = [key for key in dict.fromkeys(options["groups"]) if key not in self._groups_met]
            self._groups_met.update(new)
            self.calibration.fitted.warn_unseen(new)  # once for each
        with warnings.catch_warnings(action="ignore", category=CredalSetWarning):  # empty sets have their own column
            sets = self.model.predict_set(prediction, alpha=self.alpha, **options)
        return self._table([batch.column(i) for i in self._carried(batch.schema)], sets)

    def map_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Score batches one after the other; fits Spark's ``mapInArrow`` as it is."""
        for batch in batches:
            if batch.num_rows:
                yield self(batch)

    def _carried(self, schema: pa.Schema) -> list[int]:
        """Return where the ids and the columns to keep are."""
        if self.id is not None and schema.get_field_index(self.id) < 0:
            raise ValueError(
                f"column {self.id!r} is missing: the table has {', '.join(map(repr, schema.names))}. "
                "Say which column names the items (id=...), or that there is none (id=None)."
            )
        names = [name for name in (self.id, *self.keep) if name is not None]
        return [int(schema.get_field_index(name)) for name in self._present(schema, names)]

    def _input(self, batch: pa.RecordBatch) -> Any:
        """Read predictions or features."""
        names, texts = self._reading(batch.schema)
        values = matrix(batch, names, texts=texts)
        if getattr(self.model, "feature_names_in_", None) is not None:
            return named_frame(values, names)
        if self.logits:
            return softmax(values, axis=1)
        return unrounded(values) if isinstance(self.model, Calibration) else values

    def columns_of(self, schema: pa.Schema) -> list[str]:
        """Return the columns that predictions, features or texts are read from, in the order of the classes."""
        return self._reading(schema).names

    @property
    def text_columns(self) -> list[str]:
        """Columns that hold names or texts, even where these look like numbers."""
        texts = reads_texts(self.model)
        return [name for name in (self.id, self.groups, texts) if name and isinstance(name, str)]

    def _reading(self, schema: pa.Schema) -> Reading:
        refuse_logits(self.model, self.logits)
        columns = getattr(self.model, "feature_names_in_", None) if self.columns is None else self.columns
        classes = self.calibration.classes if isinstance(self.model, Calibration) else None
        taken = (self.id, self.groups, self.weights)
        reading = columns_to_read(schema, reads_texts(self.model), columns, classes, taken, self.keep)
        return Reading(self._present(schema, reading.names), reading.texts)

    def _present(self, schema: pa.Schema, names: Sequence[str]) -> list[str]:
        missing = [name for name in names if schema.get_field_index(name) < 0]
        if missing:
            seen = "missing" if missing[0] not in schema.names else "missing or there more than once"
            raise ValueError(
                f"{len(missing)} of {len(names)} columns are {seen} (first: {missing[0]!r}); the table has "
                f"{', '.join(map(repr, schema.names[:12]))}{', …' if len(schema.names) > 12 else ''}. "
                "Rename its columns, or name those to read (columns=...)."
            )
        return list(names)

    def _table(self, carried: Sequence[Any] | None, sets: CredalSet) -> pa.RecordBatch:
        import pyarrow as pa

        names = [name for name in (self.id, *self.keep) if name is not None]
        kinds = [pa.string()] * len(names) if self.carried is None else list(self.carried.types)
        arrays = [pa.nulls(len(sets), kind) for kind in kinds] if carried is None else carried
        found: dict[str, Any] = {n: _as(kind, a, n) for n, a, kind in zip(names, arrays, kinds, strict=True)}
        classes = sets.classes if sets.classes is not None else range(sets.n_classes)
        answers = {"alpha": pa.array(np.full(len(sets), self.alpha))}
        answers |= arrow_columns(columns(sets, self.ask), classes)
        taken = [name for name in names if name in answers]
        if taken:
            raise ValueError(f"column {taken[0]!r} cannot be kept: the result has one of that name. Rename it.")
        return pa.RecordBatch.from_pydict(found | answers)


def _as(kind: pa.DataType, array: pa.Array, name: str) -> pa.Array:
    import pyarrow as pa

    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"column {name!r} changes its type on the way, from {kind} to {array.type}, and cannot be kept. Write it "
            "as text everywhere."
        ) from None
