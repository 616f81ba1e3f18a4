"""Tables of sets: one row per set, and columns for the questions asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._batch import name_array
from credalset._typing import AnyArray, BoolArray, FloatArray
from credalset.exceptions import need
from credalset.sets.results import EntropyBounds

if TYPE_CHECKING:
    import pyarrow as pa

    from credalset.sets.credal_set import CredalSet

#: what `CredalSet.to_frame` asks by default
DEFAULT_QUESTIONS = ("prediction", "lower", "upper", "entropy", "labels", "width")


class _Answers:
    """Results that several columns share, each computed at most once."""

    def __init__(self, sets: CredalSet) -> None:
        self.sets = sets

    @cached_property
    def envelope(self) -> tuple[FloatArray, FloatArray]:
        return self.sets.envelope()

    @cached_property
    def entropies(self) -> EntropyBounds:
        return self.sets.entropy_bounds(base="K")

    def per_class(self, prefix: str, values: FloatArray) -> dict[str, AnyArray]:
        return {f"{prefix}_{name}": values[:, k] for k, name in enumerate(self.sets.class_names)}

    def labels(self) -> dict[str, AnyArray]:
        kept = self.sets.decide()
        return {"labels": kept, "n_labels": kept.sum(axis=1).astype(np.int32)}

    def entropy(self) -> dict[str, AnyArray]:
        names = ("lower", "upper", "lower_gap", "upper_gap")
        return {f"entropy_{name}": getattr(self.entropies, name) for name in names}

    def volume(self) -> dict[str, AnyArray]:
        return dict(
            zip(("volume", "volume_error"), self.sets.volume(return_error=True), strict=True)
        )


#: questions by name, each with a function that returns its columns
QUESTIONS: dict[str, Callable[[_Answers], dict[str, AnyArray]]] = {
    "prediction": lambda ask: ask.per_class("prediction", ask.sets.score.mean(ask.sets.prediction)),
    "lower": lambda ask: ask.per_class("lower", ask.envelope[0]),
    "upper": lambda ask: ask.per_class("upper", ask.envelope[1]),
    "entropy": _Answers.entropy,
    "labels": _Answers.labels,
    "width": lambda ask: {"width": 0.5 * (ask.envelope[1] - ask.envelope[0]).sum(axis=1)},
    "volume": _Answers.volume,
    "step": lambda ask: {"step": ask.sets.queue().step},
    "aleatoric": lambda ask: {"aleatoric": ask.entropies.lower},
    "epistemic": lambda ask: {"epistemic": ask.entropies.upper - ask.entropies.lower},
    "total": lambda ask: {"total": ask.entropies.upper},
}


def check_questions(ask: Iterable[str]) -> tuple[str, ...]:
    """Return the names of questions without repetitions, refusing unknown ones."""
    if isinstance(ask, str):
        ask = [name.strip() for name in ask.split(",") if name.strip()]
    wanted = tuple(dict.fromkeys(ask))
    unknown = [name for name in wanted if name not in QUESTIONS]
    if unknown:
        raise ValueError(f"ask must name some of {', '.join(QUESTIONS)}, but names {unknown[0]!r}.")
    return wanted


def columns(sets: CredalSet, ask: Iterable[str] = DEFAULT_QUESTIONS) -> dict[str, AnyArray]:
    """Return the threshold of each set, whether it is empty, and the columns of the questions.

    Every column is an array (N,) except ``labels``, which are booleans (N, K): the e-admissible
    labels.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.7, 0.2, 0.1]], threshold=0.15)
    >>> table = columns(sets, ask=["width", "labels"])
    >>> {name: values.tolist() for name, values in table.items() if name != "labels"}
    {'threshold': [0.15], 'empty': [False], 'width': [0.425], 'n_labels': [1]}
    """
    answers = _Answers(sets)
    result: dict[str, AnyArray] = {"threshold": sets.threshold, "empty": sets.is_empty()}
    for name in check_questions(ask):
        result |= QUESTIONS[name](answers)
    return result


def to_frame(
    sets: CredalSet, items: Any, ask: Iterable[str], kind: str, alpha: float | None
) -> Any:
    """Build a data frame; see `CredalSet.to_frame`."""
    if kind not in ("pandas", "polars", "pyarrow"):
        raise ValueError(f"kind must be 'pandas', 'polars' or 'pyarrow', but is {kind!r}.")
    own = range(len(sets)) if sets.items is None else sets.items
    names = list(own if items is None else items)
    if len(names) != len(sets):
        raise ValueError(
            f"items must name each of the {len(sets)} sets, but holds {len(names)} names."
        )
    head: dict[str, Any] = {"item": names} | (
        {} if alpha is None else {"alpha": np.full(len(sets), alpha)}
    )
    found = columns(sets, ask)
    classes = sets.class_names
    package = need(kind)
    if kind == "pandas":
        lists = {
            name: label_lists(values, classes) for name, values in found.items() if values.ndim == 2
        }
        return pandas_frame(
            head | found | lists, None if items is None and sets.items is None else names
        )
    arrow = need("pyarrow")
    table = arrow.table(
        {name: arrow.array(values) for name, values in head.items()} | arrow_columns(found, classes)
    )
    return table if kind == "pyarrow" else package.from_arrow(table)


def pandas_frame(columns: dict[str, Any], items: Sequence[Any] | None) -> Any:
    """Return a pandas frame with the names of items as index, so that frames join by name."""
    return need("pandas").DataFrame(columns, index=None if items is None else name_array(items))


def label_lists(labels: BoolArray, names: Iterable[Any]) -> list[list[Any]]:
    """Return the names marked in each row."""
    known = list(names)
    return [[known[k] for k in np.flatnonzero(row)] for row in labels]


def arrow_columns(columns: dict[str, AnyArray], class_names: Sequence[Any]) -> dict[str, pa.Array]:
    """Convert columns to Arrow arrays; booleans (N, K) become lists of class names."""
    import pyarrow as pa

    names = pa.array([str(name) for name in class_names], pa.string())
    return {
        name: pa.array(values) if values.ndim == 1 else _name_lists(values, names)
        for name, values in columns.items()
    }


def _name_lists(marks: BoolArray, names: pa.Array) -> pa.Array:
    """Return names marked in each row as an Arrow array of lists, without looping over rows."""
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum(marks.sum(axis=1))]).astype(np.int32)
    chosen = names.take(pa.array(np.nonzero(marks)[1]))
    return pa.ListArray.from_arrays(pa.array(offsets), chosen)
