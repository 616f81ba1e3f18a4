"""Rows of nominal against observed coverage, which print as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from credalset import metrics
from credalset._text import number_text, table_text
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import Checked
from credalset.annotations.labels import Labels, row_names
from credalset.calibration import Calibration, CrossCalibration
from credalset.calibration.base import as_level
from credalset.sets.credal_set import CredalSet

QUICK_CLASSES = 20  # for which hundreds of volumes are a matter of seconds, whatever the score


class Evaluation(list[dict[str, Any]]):
    """A list of plain rows (one per level and score) that prints as a table."""

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the rows as columns, ready for a data frame."""
        names = list(dict.fromkeys(name for row in self for name in row))
        return {name: [row.get(name) for row in self] for name in names}

    def __str__(self) -> str:
        cells = self._cells()
        return table_text(list(cells), list(zip(*cells.values(), strict=True)))

    def _cells(self) -> dict[str, list[str]]:
        """Columns as text, narrow enough for a terminal: the interval in one column, one measure of size."""
        columns = {name: [number_text(value) for value in values] for name, values in self.to_dict().items()}
        low, high = columns.pop("coverage_low", None), columns.pop("coverage_high", None)
        columns.pop("efficiency", None)
        cells: dict[str, list[str]] = {}
        for name, values in columns.items():
            cells[name] = values
            if name == "coverage" and low is not None and high is not None:
                cells["95% interval"] = [f"{a}-{b}" for a, b in zip(low, high, strict=True)]
        return cells

    __repr__ = __str__


def evaluate_predictions(
    calibration: Calibration | CrossCalibration,
    prediction: ArrayLike,
    labels: Any,
    alphas: float | Sequence[float],
    groups: Any = None,
    weights: Any = None,
    volume: bool | None = None,
) -> Evaluation:
    """Evaluate a calibration on labelled predictions, (F, N, K) if it is cross-conformal, one row per level.

    Each row holds ``score``, ``alpha``, ``nominal`` (1 − α), observed ``coverage`` with its exact binomial interval
    ``coverage_low`` to ``coverage_high``, the mean ``volume``, the mean ``efficiency`` on the paper's grid (three
    classes only), the ``threshold`` (the mean where they differ from item to item), the number of ``empty`` sets and
    the number of items ``n``. Volumes are left out beyond 20 classes, where they take long, unless ``volume=True`` asks
    for them.
    """
    if isinstance(calibration, CrossCalibration):
        first: Any = prediction[0] if len(prediction) else None  # type: ignore[arg-type, index]
        checked: Any = [Checked(block, row_names(first)) for block in calibration.check_models(prediction)]
    else:
        first = prediction
        checked = Checked(calibration.check(prediction), row_names(prediction))
    found = calibration.read_labels(labels, "labels", first)
    single = isinstance(alphas, str) or not isinstance(alphas, Iterable) or getattr(alphas, "ndim", 1) == 0
    levels: Any = [alphas] if single else alphas
    rows = Evaluation()
    for alpha in levels:
        sets = calibration.predict_set(checked, alpha, groups=groups, weights=weights)
        level = as_level(alpha)
        head = {"score": calibration.score.name, "alpha": float(level), "nominal": float(1 - level)}
        rows.append(head | _row(sets, found, volume))
    return rows


def _row(sets: CredalSet, labels: Labels, volume: bool | None) -> dict[str, Any]:
    with_volume = sets.n_classes <= QUICK_CLASSES if volume is None else volume
    observed = metrics.coverage(sets, labels)
    efficiency = float(metrics.mean_efficiency(sets)) if sets.n_classes == 3 else None
    return {
        "coverage": float(observed),
        "coverage_low": observed.low,
        "coverage_high": observed.high,
        "volume": float(metrics.mean_volume(sets)) if with_volume else None,
        "efficiency": efficiency,
        "threshold": _typical(sets.threshold),
        "empty": int(sets.is_empty().sum()),
        "n": len(sets),
    }


def _typical(thresholds: FloatArray) -> float:
    if len(thresholds) == 0:
        return np.nan
    return float(thresholds[0]) if (thresholds == thresholds[0]).all() else float(thresholds.mean())
