"""Thresholds of MAPIE's controller with abstention, for `act.py`, in an environment of its own."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
from mapie.risk_control import BinaryRisk, MultiClassificationLTTController

#: errors among the items on which it does not abstain
ERROR = BinaryRisk(
    risk_occurrence=lambda y_true, y_pred: y_pred != y_true,
    risk_condition=lambda y_true, y_pred: y_pred == y_pred,
    higher_is_better=False,
)


def threshold(p: Any, labels: Any, error: float, confidence: float) -> float | None:
    """Return the smallest probability at which it need not abstain; None if there is none."""
    controller = MultiClassificationLTTController(
        predict_function=lambda rows: p[np.asarray(rows).ravel().astype(int)],
        risks=[ERROR],
        target_level=[error],
        confidence_level=confidence,
        classes=np.arange(p.shape[1]),
    )
    controller.calibrate(np.arange(len(p))[:, None], labels)
    valid = np.asarray(controller.valid_predict_params)
    return float(valid.min()) if valid.size else None


def main() -> None:
    warnings.simplefilter("ignore")
    path, error, confidence = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    with np.load(path) as file:
        seeds = [name[1:] for name in file.files if name.startswith("p")]
        found = [threshold(file[f"p{s}"], file[f"y{s}"], error, confidence) for s in seeds]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
