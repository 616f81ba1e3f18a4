"""Rows of promised against observed coverage and of set sizes, which print as a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credalset import metrics
from credalset._guessing import explained
from credalset._text import Rows, number_text, table_text
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import Checked
from credalset.annotations.labels import Labels, in_item_order, row_names
from credalset.calibration import Calibration, CrossCalibration, conformalize
from credalset.calibration.base import as_level
from credalset.calibration.noise import Noise
from credalset.exceptions import CredalSetWarning, warn
from credalset.metrics.size import evenly
from credalset.scores import Score
from credalset.sets.credal_set import CredalSet
from credalset.verdict import LEVEL, judge, judge_groups, on_missing_bands

QUICK_CLASSES = 20  # for which hundreds of volumes are a matter of seconds, whatever the score
MEASURED = 10_000  # class probabilities in all, whose sets are measured in seconds, whatever the score
ON_GRID = 200  # sets that are compared with the paper's grid of 20 301 points
FEWEST = 50  # sets that are measured, however many classes there are
CONSTANT = ", constant"  # what is added to the name of a score in the rows of the constant prediction
LITTLE = 0.95  # share of the constant's width from which on a model says little about its items
MOST_GROUPS = 60  # rows of groups that are printed
#: columns of the printed table by their names in the rows; the rest is in the rows only
SHOWN = [
    *("score", "alpha", "coverage", "band", "verdict"),
    *("width", "epistemic", "labels", "decided", "volume", "threshold", "empty", "n"),
]
OF_GROUPS = ["score", "alpha", "group", "coverage", "interval", "band", "verdict", "n"]


class Evaluation(Rows):
    """A list of plain rows (one per level and score) that prints as a table.

    Attributes
    ----------
    constant : list of dict
        The same rows for the constant prediction, which the table shows below the others; not part of ``to_frame()``.
    groups : Rows
        Coverage of each group and level, where there are groups; a table of its own below the first. Bands and
        verdicts are those of a calibration with groups, which promises something of each.
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = (), constant: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(rows)
        self.constant = list(constant)
        self.groups = Rows()

    def __str__(self) -> str:
        rows = [*self, *self.constant]
        shown = [name for name in SHOWN if name != "empty" or any(row["empty"] for row in rows)]
        table = _table(rows, shown)
        judged = any(row["verdict"] for row in self.groups)
        of_group = [name for name in OF_GROUPS if judged or name not in ("band", "verdict")]
        of_groups = _table(self.groups[:MOST_GROUPS], of_group) if self.groups else ""
        return "\n\n".join(filter(None, [table, of_groups, "\n".join(self._remarks())]))

    def _remarks(self) -> list[str]:
        """Say where sets are about as wide as those of the constant prediction, and what verdicts without band are."""
        widths = {(row["score"], row["alpha"]): float(row["width"]) for row in [*self, *self.constant]}
        alike: dict[str, list[str]] = {}
        for (score, alpha), width in widths.items():
            other = widths.get((score + CONSTANT, alpha), 0.0)
            if 0.0 < LITTLE * other <= width:
                alike.setdefault(score, []).append(f"{alpha:g} ({width:.3f} against {other:.3f})")
        remark = "sets are about as wide as those of a constant prediction at alpha ="
        found = [f"{score}: {remark} {', '.join(levels)}." for score, levels in alike.items()]
        return found + on_missing_bands(self)


def _table(rows: Sequence[dict[str, Any]], shown: Sequence[str]) -> str:
    called = {"band": f"{LEVEL:.0%} band", "interval": "95% interval"}
    headings = [called.get(name, name) for name in shown]
    return table_text(headings, [[_cell(name, row) for name in shown] for row in rows], left=1)


def _cell(name: str, row: dict[str, Any]) -> str:
    if name == "band":
        low, high = row["band_low"], row["band_high"]
        return "-" if low is None else f"{low:.3f}-{high:.3f}"
    if name == "interval":
        return f"{row['coverage'].low:.3f}-{row['coverage'].high:.3f}"
    if name in ("alpha", "group"):
        return f"{row[name]:g}" if name == "alpha" else str(row[name])
    return number_text(row[name], decimals=3, significant=2)


@dataclass(frozen=True, eq=False)
class Constant:
    """The prediction that says the same of every item: the mean label distribution of the calibration items.

    Its sets show what can be had without a model. As it was made from the items that calibrate it, its coverage is
    close to 1 − α rather than proven.

    Attributes
    ----------
    prediction : ndarray of shape (1, K)
        The mean label distribution; for a second-order score the Dirichlet with the mean and spread of the labels.
    calibration : Calibration
        Calibrated on the same items, with the same score, noise, groups and weights as the model.
    """

    prediction: FloatArray
    calibration: Calibration

    @classmethod
    def from_labels(
        cls, score: Score, labels: Labels, noise: Noise | str | None = None, groups: Any = None, weights: Any = None
    ) -> Constant | None:
        """Calibrate the constant prediction; None for a score that takes predictions of another kind."""
        y = labels.distributions
        mean = y.mean(axis=0, keepdims=True)
        prediction = mean / mean.sum() if score.order == "first" else _dirichlet(y, mean)
        try:
            rows = _repeated(score, prediction, labels)
        except (TypeError, ValueError):
            return None
        with warnings.catch_warnings(action="ignore", category=CredalSetWarning):  # the model's calibration has said it
            made = conformalize(rows, labels, score, noise=noise, groups=groups, weights=weights)
        return cls(prediction, replace(made, items=None))

    def evaluate(self, labels: Labels, alpha: Any, groups: Any, weights: Any, volume: bool | None) -> dict[str, Any]:
        """Return the row of the constant prediction at one level; nothing was promised of it."""
        checked: Any = _repeated(self.calibration.score, self.prediction, labels)
        with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
            sets = self.calibration.predict_set(checked, alpha, groups=groups, weights=weights)
        are_alike = len(sets) > 0 and bool((sets.threshold == sets.threshold[0]).all())
        row = _head(self.calibration.score, alpha) | _row(sets, labels, volume, sets[:1] if are_alike else sets)
        plain = {name: float(value) if isinstance(value, metrics.Estimate) else value for name, value in row.items()}
        return plain | {"score": row["score"] + CONSTANT}


def _repeated(score: Score, prediction: FloatArray, labels: Labels) -> Checked:
    """Return the same prediction for every item."""
    same = score.check_prediction(prediction, n_classes=labels.n_classes)[np.zeros(len(labels), dtype=int)]
    return Checked(same, labels.items)


def _dirichlet(y: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the concentrations of the Dirichlet with the mean of the labels and their summed variance."""
    spread, largest = float(y.var(axis=0).sum()), float((mean * (1.0 - mean)).sum())
    precision = min(largest / spread - 1.0, 1e6) if spread > 0.0 else 1e6
    return np.maximum(precision * mean, 1.0)


@explained
def evaluate(
    calibration: Any,
    prediction: ArrayLike,
    labels: Any,
    alpha: float | Sequence[float] = (0.05, 0.1, 0.2),
    groups: Any = None,
    weights: Any = None,
    volume: bool | None = None,
    constant: Constant | None = None,
) -> Evaluation:
    """Evaluate calibrations on labelled predictions, (F, N, K) if one is cross-conformal, one row each per level.

    Parameters
    ----------
    calibration : Calibration, CrossCalibration, sequence of calibrations or mapping from names to them
        What is evaluated; several, such as one per score, are compared in one table, under their names if they have
        some. A `ConformalCredalClassifier` takes features as ``prediction``.
    prediction, labels
        Predictions for the test items, and their labels.
    alpha : float or sequence of floats
        Miscoverage rates.
    groups, weights
        Those of the test items, if the calibration has them. Groups that it does not have tell how one threshold
        serves each of them.
    volume : bool, optional
        Whether to compute mean volumes; up to 20 classes by default, beyond which they take long.
    constant : Constant, optional
        The constant prediction, for a row per level that the others are compared with.

    Returns
    -------
    Evaluation
        See `ConformalCredalClassifier.evaluate` for the columns.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(600, random_state=0)
    >>> made = [cs.conformalize(data.distributions[:300], data.counts[:300], score) for score in ("tv", "kl")]
    >>> rows = cs.evaluate(made, data.distributions[300:], data.counts[300:], alpha=0.1)
    >>> [(row["score"], row["verdict"]) for row in rows]
    [('tv', 'kept'), ('kl', 'kept')]
    """
    if callable(getattr(calibration, "evaluate", None)):  # a classifier, which knows how to predict
        return calibration.evaluate(prediction, labels, alpha, groups, weights, volume=volume)
    if isinstance(calibration, Mapping | list | tuple):
        several, named = Evaluation(), calibration if isinstance(calibration, Mapping) else _numbered(calibration)
        for name, made in named.items():
            table = evaluate(made, prediction, labels, alpha, groups, weights, volume)
            several += [row | {"score": str(name)} for row in table]
            several.groups += [row | {"score": str(name)} for row in table.groups]
        return several
    single = isinstance(alpha, str) or not isinstance(alpha, Iterable) or getattr(alpha, "ndim", 1) == 0
    levels: Any = [alpha] if single else list(alpha)  # type: ignore[arg-type]
    return _evaluate(calibration, prediction, labels, levels, groups, weights, volume, constant)


def _evaluate(
    calibration: Calibration | CrossCalibration,
    prediction: Any,
    labels: Any,
    levels: Sequence[float],
    groups: Any,
    weights: Any,
    volume: bool | None,
    constant: Constant | None,
) -> Evaluation:
    """Evaluate one calibration."""
    fitted, is_cross = calibration.fitted, isinstance(calibration, CrossCalibration)
    first = prediction if not is_cross else prediction[0] if len(prediction) else None
    named = row_names(first)
    groups, weights = (in_item_order(v, named, n, "prediction") for n, v in (("groups", groups), ("weights", weights)))
    own = (
        [Checked(block, row_names(first)) for block in calibration.check_models(prediction)]
        if isinstance(calibration, CrossCalibration)
        else [Checked(calibration.check(prediction), row_names(prediction))]
    )
    known = {"classes": calibration.classes, "like": "the calibration data", "n_classes": calibration.n_classes}
    found = Labels.read(labels, "labels", **known).matching(row_names(first), "labels", "prediction")
    if not isinstance(first, Checked):  # a classifier, which has predicted, has looked itself
        names = own[0].items if found.items is None else found.items
        if again := calibration.reuse(names):
            warn(again)
    apart = groups
    if fitted.groups is None and fitted.features is None:
        groups = None  # one threshold for all: groups only tell how it serves them
    keys = None if is_cross else fitted.keys_of(calibration.score, own[0].prediction, groups)
    apart = None if fitted.features is not None else apart if keys is None else keys
    rows, asked = Evaluation(), own if is_cross else own[0]
    for level in levels:
        sets = calibration.predict_set(asked, level, groups=groups, weights=weights)  # type: ignore[arg-type]
        row = _head(calibration.score, level) | _row(sets, found, volume, sets)
        verdict = judge(calibration, sets.contains(found), float(as_level(level)), groups=keys)
        low, high = verdict.band or (None, None)
        rows.append(row | {"band_low": low, "band_high": high, "verdict": verdict.status})
        if apart is not None:
            about = {"score": row["score"], "alpha": row["alpha"]}
            rows.groups += [about | each for each in judge_groups(calibration, sets, found, row["alpha"], apart)]
    if constant is not None:
        rows.constant = [constant.evaluate(found, level, groups, weights, volume) for level in levels]
    return rows


def _numbered(calibrations: Sequence[Any]) -> dict[str, Any]:
    """Return calibrations by the names of their scores, with a number where two have the same."""
    names = [str(made.score.name) for made in calibrations]
    return {
        name if names.count(name) == 1 else f"{name} ({1 + names[:i].count(name)})": made
        for i, (name, made) in enumerate(zip(names, calibrations, strict=True))
    }


def _head(score: Score, alpha: Any) -> dict[str, Any]:
    level = as_level(alpha)
    return {"score": score.name, "alpha": float(level), "nominal": float(1 - level)}


def _row(sets: CredalSet, labels: Labels, volume: bool | None, measured: CredalSet) -> dict[str, Any]:
    """Coverage of all sets, and the sizes of those that are to be measured, or of a selection spread evenly."""
    with_volume = sets.n_classes <= QUICK_CLASSES if volume is None else volume
    observed = metrics.coverage(sets, labels)
    some = evenly(measured, max(FEWEST, MEASURED // sets.n_classes))
    return {
        "coverage": observed,
        "coverage_low": observed.low,
        "coverage_high": observed.high,
        "band_low": None,
        "band_high": None,
        "verdict": None,
        **metrics.mean_sizes(some),
        "volume": metrics.mean_volume(some) if with_volume else None,
        "efficiency": metrics.mean_efficiency(evenly(some, ON_GRID)) if sets.n_classes == 3 else None,
        "threshold": _typical(sets.threshold),
        "empty": int(sets.is_empty().sum()),
        "n": len(sets),
    }


def _typical(thresholds: FloatArray) -> float:
    if len(thresholds) == 0:
        return np.nan
    return float(thresholds[0]) if (thresholds == thresholds[0]).all() else float(thresholds.mean())
