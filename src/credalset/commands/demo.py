"""``credalset demo``: the main job on built-in data, from annotation counts to credal sets."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from credalset import conformalize
from credalset._files import write_file
from credalset._progress import progress
from credalset._splits import Split, train_conformalize_test_split
from credalset._text import number_text, table_text
from credalset._typing import FloatArray
from credalset.calibration import Calibration
from credalset.datasets import make_synthetic
from credalset.evaluation import Evaluation, evaluate_predictions
from credalset.exceptions import CredalSetWarning
from credalset.predictors import SoftLabelClassifier
from credalset.scores import REGISTRY

ALPHAS = (0.05, 0.1, 0.2)


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and the split.")] = 0,
    items: Annotated[int, typer.Option(min=30, help="Items, split evenly into train / calibration / test.")] = 1500,
    votes: Annotated[int, typer.Option(min=1, help="Simulated annotators per item.")] = 100,
    alpha: Annotated[float, typer.Option(min=0.001, max=0.999, help="Level of the sets that are written.")] = 0.1,
    out: Annotated[Path, typer.Option(file_okay=False, help="Directory for the predicted sets.")] = Path("demo-output"),
) -> None:
    """Train on synthetic votes, calibrate every first-order score, compare coverage, write the sets."""
    if math.isnan(alpha):
        raise typer.BadParameter("must be a number", param_hint="'--alpha'")
    make_directory(out)
    with warnings.catch_warnings():
        # The table has a column for empty sets, and shows infinite thresholds; no need to warn of them as well.
        warnings.simplefilter("ignore", CredalSetWarning)
        _run(_split(items, votes, seed), votes, alpha, out / "sets.jsonl")


def _run(parts: Split, votes: int, alpha: float, path: Path) -> None:
    scores = [score() for score in REGISTRY.values() if score.order == "first"]
    learner = make_pipeline(StandardScaler(), SoftLabelClassifier(LogisticRegression(max_iter=1000)))
    model = learner.fit(parts.X_train, parts.Y_train)
    calib, test = model.predict_proba(parts.X_conformalize), model.predict_proba(parts.X_test)
    truth = parts.Y_test / parts.Y_test.sum(axis=1, keepdims=True)
    rows = Evaluation()
    calibrations = []
    with progress("Calibrating", len(scores)) as advance:
        for score in scores:
            calibrations.append(conformalize(calib, parts.Y_conformalize, score))
            rows += evaluate_predictions(calibrations[-1], test, truth, ALPHAS)
            advance(1, score.name)
    sizes = f"{len(test)} items each to train, calibrate, test"
    typer.echo(f"Synthetic data: {truth.shape[1]} classes, {votes} votes; {sizes}")
    typer.echo(f"Coverage and size of the sets on the test items:\n\n{_table(rows)}\n")
    lines = (json.dumps(row, allow_nan=False) + "\n" for row in _set_rows(calibrations, test, alpha))
    write_file(path, "".join(lines).encode())
    typer.echo(f"Wrote the {len(test)} predicted sets of every score at alpha={alpha:g} to {path}")


def make_directory(path: Path) -> None:
    """Create the directory and see that files can be written there, before anything is computed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=path).close()
    except OSError as error:
        raise typer.BadParameter(f"cannot write into {path}: {error.strerror}", param_hint="'--out'") from None


def _split(items: int, votes: int, seed: int) -> Split:
    data = make_synthetic(items, n_classes=3, n_votes=votes, random_state=seed)
    third = items // 3
    return train_conformalize_test_split(
        data.X, data.counts, train_size=third, conformalize_size=third, test_size=third, random_state=seed
    )


def _table(rows: Evaluation) -> str:
    headings = ["score", "alpha", "nominal", "coverage", "95% interval", "efficiency", "threshold", "empty"]
    lines = []
    for previous, row in zip([None, *rows], rows, strict=False):
        is_first = previous is None or previous["score"] != row["score"]
        if is_first and previous is not None:
            lines.append([""] * len(headings))
        names = ("nominal", "coverage", "coverage_low", "coverage_high", "efficiency", "threshold")
        nominal, coverage, low, high, *sizes = (number_text(row[name], decimals=3) for name in names)
        name = row["score"] if is_first else ""
        lines.append([name, f"{row['alpha']:g}", nominal, coverage, f"{low}-{high}", *sizes, str(row["empty"])])
    return table_text(headings, lines, left=1)


def _set_rows(calibrations: list[Calibration], prediction: FloatArray, alpha: float) -> Iterator[dict[str, Any]]:
    for calibration in calibrations:
        sets = calibration.predict_set(prediction, alpha)
        efficiency, empty = sets.efficiency(), sets.is_empty()
        for i, row in enumerate(sets.to_rows()):
            finite = {k: v if not isinstance(v, float) or np.isfinite(v) else None for k, v in row.items()}
            yield {**finite, "alpha": alpha, "efficiency": float(efficiency[i]), "empty": bool(empty[i])}
