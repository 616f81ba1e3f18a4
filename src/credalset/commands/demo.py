"""``credalset demo``: the main job on built-in data, from annotation counts to credal sets."""

from __future__ import annotations

import json
import math
import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from credalset import conformalize
from credalset._splits import Split, train_conformalize_test_split
from credalset._typing import FloatArray
from credalset.calibration import Calibration
from credalset.datasets import make_synthetic
from credalset.evaluation import Evaluation, evaluate_predictions
from credalset.exceptions import CredalSetWarning
from credalset.predictors import SoftLabelClassifier
from credalset.scores import REGISTRY

ALPHAS = (0.05, 0.1, 0.2)
TABLE_WIDTH = 80  # no narrower, lest headings be cut


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
    _make_directory(out)
    with warnings.catch_warnings():
        # The table has a column for empty sets, and shows infinite thresholds; no need to warn of them as well.
        warnings.simplefilter("ignore", CredalSetWarning)
        _run(_split(items, votes, seed), votes, alpha, out / "sets.jsonl")


def _run(parts: Split, votes: int, alpha: float, path: Path) -> None:
    console = Console(soft_wrap=True, markup=False, emoji=False, highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    scores = [score() for score in REGISTRY.values() if score.order == "first"]
    learner = make_pipeline(StandardScaler(), SoftLabelClassifier(LogisticRegression(max_iter=1000)))
    model = learner.fit(parts.X_train, parts.Y_train)
    calib, test = model.predict_proba(parts.X_conformalize), model.predict_proba(parts.X_test)
    truth = parts.Y_test / parts.Y_test.sum(axis=1, keepdims=True)

    rows = Evaluation()
    calibrations = []
    silent = not console.is_terminal
    for score in track(scores, description="Calibrating", console=console, transient=True, disable=silent):
        calibrations.append(conformalize(calib, parts.Y_conformalize, score))
        rows += evaluate_predictions(calibrations[-1], test, truth, ALPHAS)

    sizes = f"{len(test)} items each to train, calibrate, test"
    console.print(f"Synthetic data: {truth.shape[1]} classes, {votes} votes; {sizes}")
    console.print(_table(rows))
    _write_sets(path, calibrations, test, alpha)
    console.print(f"Wrote the {len(test)} predicted sets of every score at alpha={alpha:g} to {path}")


def _make_directory(path: Path) -> None:
    """Create the directory and see that files can be written there, before anything is computed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"cannot create {path}: {error.strerror}", param_hint="'--out'") from None
    try:
        TemporaryFile(dir=path).close()
    except OSError as error:
        raise typer.BadParameter(f"cannot write into {path}: {error.strerror}", param_hint="'--out'") from None


def _split(items: int, votes: int, seed: int) -> Split:
    data = make_synthetic(items, n_classes=3, n_votes=votes, random_state=seed)
    third = items // 3
    return train_conformalize_test_split(
        data.X, data.counts, train_size=third, conformalize_size=third, test_size=third, random_state=seed
    )


def _table(rows: Evaluation) -> Table:
    title = "Coverage and size of the sets on the test items"
    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("score", "alpha", "nominal", "coverage", "95% interval", "efficiency", "threshold", "empty"):
        table.add_column(heading, justify="left" if heading == "score" else "right", no_wrap=True)
    for previous, row in zip([None, *rows], rows, strict=False):
        is_first = previous is None or previous["score"] != row["score"]
        if is_first and previous is not None:
            table.add_section()
        coverage = [f"{row[key]:.3f}" for key in ("nominal", "coverage")]
        interval = f"{row['coverage_low']:.3f}-{row['coverage_high']:.3f}"
        sizes = [f"{row[key]:.3f}" for key in ("efficiency", "threshold")]
        name = row["score"] if is_first else ""
        table.add_row(name, f"{row['alpha']:g}", *coverage, interval, *sizes, str(row["empty"]))
    return table


def _set_rows(calibrations: list[Calibration], prediction: FloatArray, alpha: float) -> Iterator[dict[str, Any]]:
    for calibration in calibrations:
        sets = calibration.predict_set(prediction, alpha)
        efficiency, empty = sets.efficiency(), sets.is_empty()
        for i, row in enumerate(sets.to_rows()):
            finite = {k: v if not isinstance(v, float) or np.isfinite(v) else None for k, v in row.items()}
            yield {**finite, "alpha": alpha, "efficiency": float(efficiency[i]), "empty": bool(empty[i])}


def _write_sets(path: Path, calibrations: list[Calibration], prediction: FloatArray, alpha: float) -> None:
    """Write one JSON object per line, atomically."""
    staging = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with staging.open("w", encoding="utf-8") as stream:
            for row in _set_rows(calibrations, prediction, alpha):
                stream.write(json.dumps(row, allow_nan=False) + "\n")
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)
